"""Shell lines under rules: every part is judged, deny over ask over allow, what cannot be read is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import Behavior, parse_rules
from fsm_agent.runtime.tools.base import Access, AccessKind, Call
from fsm_agent.runtime.tools.paths import Workspace

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("ws")
    (root / "src").mkdir()
    (root / "a.py").write_text("x = 1\n")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("s")
    (root / "out").symlink_to(outside)
    (root / "link.txt").symlink_to(outside / "secret")
    return Workspace.at(root)


def judge(
    workspace: Workspace,
    line: str,
    *,
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    mode: Mode = Mode.DEFAULT,
    hook: Behavior | None = None,
) -> Behavior:
    policy = Policy(workspace, mode, parse_rules(allow=allow, ask=ask, deny=deny))
    call = Call(input={"command": line}, access=(Access(AccessKind.SHELL, line),))
    return policy.judge("Bash", call, read_only=False, hook=hook).behavior


# With `Bash(git *)` and `Bash(git log:*)` allowed and `Bash(rm *)` denied (field report 89).
CHAINED = [
    ("git log", ALLOW),
    ("git log --oneline -5", ALLOW),
    ("git log; rm x", DENY),
    ("git log ;rm x", DENY),
    ("git log && rm x", DENY),
    ("git log || rm x", DENY),
    ("git log | rm x", DENY),
    ("git log |& rm x", DENY),
    ("git log & rm x", DENY),
    ("git log\nrm x", DENY),
    ("git log\r\nrm x", DENY),
    ("git log\n\n\n  rm x", DENY),
    ("git log $(rm x)", DENY),
    ("git log `rm x`", DENY),
    ('git log "$(rm x)"', DENY),
    ('git log "`rm x`"', DENY),
    ("git log <(rm x)", DENY),
    ("git log >(rm x)", DENY),
    ("git log '$(rm x)'", ALLOW),
    ("git log 'a; rm x'", ALLOW),
    ('git log "a && rm x"', ALLOW),
    ("git log \\; rm x", ALLOW),  # the separator is quoted: git gets three arguments
    ("git log > /etc/x", ASK),
    ("git log >> ../x", ASK),
    ("git log 2> /tmp/x", ASK),
    ("git log &> /tmp/x", ASK),
    ("git log >| x", ASK),
    ("git log > x", ASK),
    ("git log > /dev/null", ALLOW),
    ("git log 2>&1", ALLOW),
    ("git log 2>/dev/null | cat", ALLOW),
    ("env rm x", DENY),
    ("env A=1 rm x", DENY),
    ("env -i rm x", DENY),
    ("env -S 'rm x'", DENY),
    ("env -u A git log", ALLOW),
    ("env LD_PRELOAD=./x.so git log", ASK),
    ("sudo rm x", DENY),
    ("sudo -u root rm x", DENY),
    ("sudo git log", ASK),
    ("sh -c 'rm x'", DENY),
    ("bash -c 'rm x'", DENY),
    ("bash -ec 'git log; rm x'", DENY),
    ("sh -c 'git log'", ALLOW),
    ('sh -c "$X"', ASK),
    ("sh -c 'sh -c \"rm x\"'", DENY),
    ("bash script.sh", ASK),
    ("curl x | sh", ASK),
    ("eval 'rm x'", DENY),
    ("eval rm x", DENY),
    ("eval $X", ASK),
    ("xargs rm", DENY),
    ("git log | xargs rm -f", DENY),
    ("git log | xargs -n 1 rm", DENY),
    ("git log | xargs -I{} rm {}", DENY),
    ("find . -exec rm {} \\;", DENY),
    ("find . -execdir rm {} +", DENY),
    ("find . -delete", ASK),
    ("timeout 5 rm x", DENY),
    ("timeout -k 1 5s rm x", DENY),
    ("timeout 5 git log", ALLOW),
    ("nice -n 5 rm x", DENY),
    ("nice git log", ALLOW),
    ("nohup rm x", DENY),
    ("nohup git log", ALLOW),
    ("stdbuf -oL rm x", DENY),
    ("command rm x", DENY),
    ("builtin rm x", DENY),
    ("exec rm x", DENY),
    ("setsid rm x", DENY),
    ("time rm x", DENY),
    ("timeout 5 nice -n 3 nohup env rm x", DENY),
    ("git -c core.pager='rm x' log", ASK),
    ("git -ccore.pager='rm x' log", ASK),
    ("git --config-env=core.pager=X log", ASK),
    ("git --exec-path=/tmp log", ASK),
    ("git -C /tmp log", ASK),
    ("git rebase -x 'rm x' HEAD~2", ASK),
    ("git rebase --exec='rm x' HEAD~2", ASK),
    ("git rebase --exe 'rm x' HEAD~2", ASK),
    ("git bisect run rm x", ASK),
    ("git submodule foreach 'rm x'", ASK),
    ("git config alias.x '!rm x'", ASK),
    ("git grep --open-files-in-pager='rm x' y", ASK),
    ("git grep -Orm y", ASK),
    ("git clone ext::'rm x'", ASK),
    ("git fetch --upload-pack='rm x' o", ASK),
    ("git $X log", ASK),
    ("\\rm x", DENY),
    ("'rm' x", DENY),
    ("'r''m' x", DENY),
    ('r"m" x', DENY),
    ("r\\m x", DENY),
    ("rm\\\n x", DENY),
    ("/bin/rm x", DENY),
    ("/usr/bin/../bin/rm x", DENY),
    ("{rm,x}", ASK),
    ("$'rm' x", ASK),
    ("$X x", ASK),
    ("${X} x", ASK),
    ("$(echo rm) x", DENY),
    ("r?m x", ASK),
    ("A=1 rm x", DENY),
    ("A=1 git log", ASK),
    ("LANG=C git log", ALLOW),
    ("PATH=/tmp:$PATH git log", ASK),
    ("GIT_PAGER='rm x' git log", ASK),
    ("PATH=/tmp", ASK),
    ("A=$(rm x)", DENY),
    ("A[$(rm x)]=1", DENY),
    ("cat <<E\n$(rm x)\nE", DENY),
    ("cat <<E\nhello\nE", ALLOW),
    ("cat <<'E'\nhello\nE\nrm x", DENY),
    ("cat <<-E && rm x\n\thello\n\tE", DENY),
    ("cat <<< $(rm x)", DENY),
    ("git log # rm x", ALLOW),
    ("git log # a\nrm x", DENY),
    ("git log \\\n  --oneline", ALLOW),
    ("git log \\\n; rm x", DENY),
    ("git\u00a0log", ASK),
    ("git log\u2028rm x", DENY),
    ("git log\x00rm x", ASK),
    ("git log\x0brm x", DENY),
    ("(rm x)", DENY),
    ("{ rm x; }", DENY),
    ("if git log; then rm x; fi", DENY),
    ("while git log; do rm x; done", DENY),
    ("until git log; do rm x; done", DENY),
    ("for f in a b; do rm $f; done", DENY),
    ("for f in $(rm x); do git log; done", DENY),
    ("for PATH in /tmp; do git log; done", ASK),
    ("for f in a; do git log; done", ALLOW),
    ("! rm x", DENY),
    ("git() { rm x; }; git log", DENY),
    ("function git { rm x; }; git log", DENY),
    ("case a in a) rm x;; esac", DENY),
    ("[[ -n $(rm x) ]]", DENY),
    ("(( a = $(rm x) ))", DENY),
    ("((ls))", ASK),
    ("echo $((1 + 1))", ASK),
    ("echo ${X:-$(rm x)}", DENY),
    ("echo ${X@P}", ASK),
    ("coproc rm x", DENY),
    ("git log $", ASK),
    ("git log 'unclosed", ASK),
    ("git log ${", ASK),  # the parser never came back from this one
    ("$'&&${\nE\na$'", ASK),
    ("git log " + "$(git log " * 30 + ")" * 30, ASK),
    ("git log &&", ASK),
    ("gitk", ASK),
    ("git-evil log", ASK),
    ("./git log", ASK),
    ("", ASK),
    ("   ", ASK),
    ("git log " + "a" * 10_001, ASK),
]


@pytest.mark.parametrize(("line", "expected"), CHAINED, ids=[line[:60] for line, _ in CHAINED])
def test_each_part_of_a_line_is_judged(workspace: Workspace, line: str, expected: Behavior) -> None:
    """An allowed prefix lets nothing else through, a denied command is found wherever it stands."""
    assert judge(workspace, line, allow=("Bash(git *)", "Bash(git log:*)"), deny=("Bash(rm *)",)) is expected


READ_ONLY = [
    ("ls", ALLOW),
    ("ls -la src", ALLOW),
    ("cat a.py | head -3 | wc -l", ALLOW),
    ("pwd && git status", ALLOW),
    ("git diff --stat HEAD~1", ALLOW),
    ("git diff --output=x", ASK),
    ("git diff --outp=x", ASK),
    ("git diff --ext-diff", ASK),
    ("git branch", ALLOW),
    ("git branch new", ASK),
    ("git tag -d v1", ASK),
    ("git stash list", ALLOW),
    ("git stash", ASK),
    ("git show stash@{0}", ALLOW),
    ("git commit -m x", ASK),
    ("grep -rn 'a|b' src", ALLOW),
    ("grep -R x .", ASK),
    ("grep '/etc/x' a.py", ALLOW),
    ("grep -f /etc/passwd a.py", ASK),
    ("rg x --pre=./evil", ASK),
    ("rg x src", ALLOW),
    ("find . -name '*.py' -type f", ALLOW),
    ("find . -fprint x", ASK),
    ("find -L . -name x", ASK),
    ("find / -name x", ASK),
    ("sort a.py", ALLOW),
    ("sort -o a.py a.py", ASK),
    ("sort -uo x a.py", ASK),
    ("sort --outp=x a.py", ASK),
    ("uniq a.py b.py", ASK),
    ("date", ALLOW),
    ("date -s tomorrow", ASK),
    ("sed -n 1,5p a.py", ALLOW),
    ("sed -n '1e rm x' a.py", ASK),
    ("sed -i s/a/b/ a.py", ASK),
    ("awk 'BEGIN{system(\"x\")}'", ASK),
    ("echo $HOME $?", ALLOW),
    ("cat $HOME/.ssh/id_rsa", ASK),
    ("cat ~/.ssh/id_rsa", ASK),
    ("cat /etc/passwd", ASK),
    ("cat ../x", ASK),
    ("cat src/../../x", ASK),
    ("cat out/secret", ASK),
    ("cat link.txt", ASK),
    ("cat o*/secret", ASK),
    ("cat *.txt", ASK),
    ("cat *.py", ALLOW),
    ("cat < /etc/passwd", ASK),
    ("cat < a.py", ALLOW),
    ("cat /proc/self/root/etc/passwd", ASK),
    ("head -c5 --verbose a.py", ALLOW),
    ("wc --files0-from=/etc/x", ASK),
    ("cd src && ls", ALLOW),
    ("cd .. && ls", ASK),
    ("cd src && cat ../../x", ASK),
    ("cd src; cat ../a.py", ASK),
    ("cd src && git status", ASK),
    ("cd - && ls", ASK),
    ("pushd /tmp; ls", ASK),
    ("printf -v PATH x; ls", ASK),
    ("printf '%s\\n' a", ALLOW),
    ("test -v 'a[$(rm x)]'", ASK),
    ("test -f a.py && echo yes", ALLOW),
    ("[ -f a.py ]", ALLOW),
    ("for ls in 'a[$(rm x)]'; do ((ls)); done", ASK),
    ("echo a; echo b", ALLOW),
    ("echo a > b", ASK),
    ("ls > /dev/null 2>&1", ALLOW),
    ("python --version", ALLOW),
    ("python -c 'print(1)'", ASK),
    ("env", ASK),
    ("printenv", ASK),
    ("which python", ALLOW),
    ("command -v python", ASK),
    ("tee x", ASK),
    ("ls | xargs cat", ASK),
    ("true", ALLOW),
    (":", ALLOW),
    ("file -C -m x", ASK),
]


@pytest.mark.parametrize(("line", "expected"), READ_ONLY, ids=[line[:60] for line, _ in READ_ONLY])
def test_reading_inside_the_workspace_needs_no_rule(workspace: Workspace, line: str, expected: Behavior) -> None:
    """Commands known to change nothing run without a rule, unless they reach out of the workspace."""
    assert judge(workspace, line) is expected


MODES = [
    (Mode.PLAN, "ls", ALLOW),
    (Mode.PLAN, "touch x", DENY),
    (Mode.PLAN, "git commit -m x", DENY),
    (Mode.DONT_ASK, "touch x", DENY),
    (Mode.DONT_ASK, "ls", ALLOW),
    (Mode.ACCEPT_EDITS, "mkdir -p src/new && touch src/new/a", ALLOW),
    (Mode.ACCEPT_EDITS, "touch ../x", ASK),
    (Mode.ACCEPT_EDITS, "cp a.py out/x", ASK),
    (Mode.ACCEPT_EDITS, "cp a.py .git/hooks/pre-commit", ASK),
    (Mode.ACCEPT_EDITS, "cp --target-directory=/tmp a.py", ASK),
    (Mode.ACCEPT_EDITS, "echo x > src/y", ALLOW),
    (Mode.ACCEPT_EDITS, "echo x > /tmp/y", ASK),
    (Mode.ACCEPT_EDITS, "rm a.py", ASK),
    (Mode.BYPASS, "make all && ./x", ALLOW),
    (Mode.BYPASS, "case a in a) make;; esac", ALLOW),
    (Mode.BYPASS, "rm -rf build", ALLOW),
    (Mode.BYPASS, "rm -rf /", ASK),
    (Mode.BYPASS, "rm -rf /*", ASK),
    (Mode.BYPASS, "rm -rf ~", ASK),
    (Mode.BYPASS, "rm -rf .", ASK),
    (Mode.BYPASS, "rm -rf ..", ASK),
    (Mode.BYPASS, "rm -rf *", ASK),
    (Mode.BYPASS, 'rm -rf "$X"/*', ASK),
    (Mode.BYPASS, "rm -rf /usr", ASK),
    (Mode.BYPASS, "sudo rm -rf /", ASK),
    (Mode.BYPASS, "ls | xargs rm", ASK),
]


@pytest.mark.parametrize(("mode", "line", "expected"), MODES, ids=[f"{mode.value}: {line}" for mode, line, _ in MODES])
def test_what_each_mode_allows(workspace: Workspace, mode: Mode, line: str, expected: Behavior) -> None:
    """Modes widen or narrow what runs without a rule; removing a root is asked in each."""
    assert judge(workspace, line, mode=mode) is expected


def test_deny_beats_ask_beats_allow(workspace: Workspace) -> None:
    """The first list that matches decides, not the most specific rule."""
    rules = {"allow": ("Bash(git push origin main)",), "ask": ("Bash(git push:*)",), "deny": ("Bash(git push --force:*)",)}
    assert judge(workspace, "git push origin main", **rules) is ASK
    assert judge(workspace, "git push --force origin", **rules) is DENY


@pytest.mark.parametrize("mode", list(Mode))
def test_deny_and_ask_hold_in_every_mode_and_against_hooks(workspace: Workspace, mode: Mode) -> None:
    """Neither a mode nor a hook's allow skips a deny or an ask rule."""
    assert judge(workspace, "ls; curl x", deny=("Bash(curl:*)",), mode=mode, hook=ALLOW) is DENY
    assert judge(workspace, "ls; curl x", ask=("Bash(curl:*)",), mode=mode, hook=ALLOW) is ASK


def test_an_unknown_argument_is_asked_where_a_rule_may_speak_of_it(workspace: Workspace) -> None:
    """`rm $X` may be `rm -rf /`: with a deny rule for it and an allow rule for rm, it is asked."""
    assert judge(workspace, "rm $X", allow=("Bash(rm:*)",), deny=("Bash(rm -rf:*)",)) is ASK
    assert judge(workspace, "rm x", allow=("Bash(rm:*)",), deny=("Bash(rm -rf:*)",)) is ALLOW


def test_read_and_edit_rules_guard_the_shell(workspace: Workspace) -> None:
    """A file that Read or Edit rules deny is not reached through a command or a redirection."""
    assert judge(workspace, "cat src/x", deny=("Read(./src/**)",)) is DENY
    assert judge(workspace, "cat s*/x", deny=("Read(./src/**)",)) is ASK
    assert judge(workspace, "cat < src/x", deny=("Read(./src/**)",)) is DENY
    assert judge(workspace, "cd src && cat x", deny=("Read(./src/**)",)) is DENY
    assert judge(workspace, "echo a > src/x", deny=("Edit(./src/**)",), mode=Mode.BYPASS) is DENY
    assert judge(workspace, "echo a > src/x", allow=("Edit(./src/**)",)) is ALLOW
    assert judge(workspace, "echo a > a.py", allow=("Edit(./src/**)",)) is ASK


def test_bare_rules(workspace: Workspace) -> None:
    """A bare allow rule allows any line, a bare deny rule none; a specific deny still counts."""
    assert judge(workspace, "make", allow=("Bash",)) is ALLOW
    assert judge(workspace, "make", allow=("Bash(*)",)) is ALLOW
    assert judge(workspace, "ls", deny=("Bash",)) is DENY
    assert judge(workspace, "make; curl x", allow=("Bash",), deny=("Bash(curl:*)",)) is DENY
    assert judge(workspace, "case x in x) make;; esac", allow=("Bash",), deny=("Bash(curl:*)",)) is ASK


@pytest.mark.parametrize(
    ("spec", "line", "expected"),
    [
        ("git diff:*", "git diff", ALLOW),
        ("git diff:*", "git diff -p x", ALLOW),
        ("git diff:*", "git difftool2", ASK),
        ("make *", "make", ALLOW),
        ("make *", "makefoo", ASK),
        ("make*", "makefoo", ALLOW),
        ("npm run test", "npm run test", ALLOW),
        ("npm run test", "npm run test2", ASK),
        ("* --help", "foo --help", ALLOW),
        ("npm run *:unit", "npm run a:unit", ALLOW),
    ],
)
def test_forms_of_specifiers(workspace: Workspace, spec: str, line: str, expected: Behavior) -> None:
    """`:*` and ` *` at the end keep the word boundary, `*` elsewhere is anything, else the command is equal."""
    assert judge(workspace, line, allow=(f"Bash({spec})",)) is expected


def test_the_decision_names_what_decided(workspace: Workspace, tmp_path: Path) -> None:
    """A denial says which rule and which part of the line."""
    policy = Policy(workspace, Mode.DEFAULT, parse_rules(deny=("Bash(rm *)",)))
    call = Call(input={}, access=(Access(AccessKind.SHELL, "ls && rm x"),))
    decision = policy.judge("Bash", call, read_only=False)
    assert decision.rule == "deny: Bash(rm *)"
    assert "rm x" in decision.reason
