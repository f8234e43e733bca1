"""The house stands as it was drawn: imports point one way, the core sees nothing of the world, and all is documented."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys

import pytest
from house import (
    PACKAGE,
    REPOSITORY,
    Import,
    Module,
    calls,
    functions,
    imports,
    iterated_sets,
    modules,
    mutable_fields,
    rooms,
    undocumented,
)

CORE = tuple(module for module in modules() if module.room == "core")
NAMES = [module.path for module in modules()]

MAY_IMPORT: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "log": frozenset({"core"}),
    "runtime": frozenset({"core", "log"}),
    "session": frozenset({"core", "log", "runtime"}),
    "telemetry": frozenset({"core", "runtime"}),
    "diagram": frozenset({"core"}),
    "laws": frozenset({"core"}),
    "explorer": frozenset({"core", "laws"}),
    "view": frozenset({"core", "log", "diagram"}),
    "scenario": frozenset({"core", "log", "runtime"}),
    "server": frozenset({"core", "log", "runtime", "scenario"}),
}
"""Which parts a part may import; the command line and the package itself may import all."""

PURE = frozenset(
    {
        "__future__",
        "abc",
        "attrs",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "unicodedata",
    }
)
"""What the core may import: the parts of the standard library without clock, randomness, I/O and logging, and attrs."""

WORLD = frozenset(
    word
    for line in (
        "time random uuid os io asyncio threading logging socket pathlib datetime subprocess secrets tempfile shutil",
        "signal multiprocessing selectors select queue concurrent warnings locale urllib http ssl",
        "anyio trio aiohttp anthropic transitions",
    )
    for word in line.split()
)
"""What importing the core must not load, over and above what importing attrs loads."""

EXEMPT = {("fsm_agent.core.memo", "id")}
"""The memo of frozen values has their identity as its key; it keeps them alive, and no result depends on the number."""

LONGEST_MODULE, LONGEST_FUNCTION = 450, 70


def _package_of(one: Import) -> str:
    return one.module.partition(".")[0]


def test_imports_point_one_way() -> None:
    """Core <- log <- runtime <- session <- cli; diagram, laws and explorer hang on the core, the rest on the runtime."""
    wrong = [
        f"{module.path} imports {room}"
        for module in modules()
        if module.room in MAY_IMPORT
        for room in sorted(rooms(module) - MAY_IMPORT[module.room])
    ]
    assert wrong == []


def test_every_part_has_its_rule() -> None:
    """A new part of the package must be given its place in the order of imports."""
    assert {module.room for module in modules() if "." in module.name} - set(MAY_IMPORT) <= {"cli", "__main__", "testing"}


def test_core_imports_only_pure_modules() -> None:
    """The core imports attrs and the pure part of the standard library, not even inside a function."""
    wrong = [
        f"{module.path}:{one.line} imports {one.module}"
        for module in CORE
        for one in imports(module)
        if _package_of(one) not in PURE and _package_of(one) != "fsm_agent"
    ]
    assert wrong == []


def test_core_calls_nothing_of_the_world() -> None:
    """No open, print, input, eval or the like in the core."""
    forbidden = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint", "id", "hash", "globals"}
    wrong = [
        f"{module.path}:{line} calls {name}"
        for module in CORE
        for name, line in calls(module)
        if name in forbidden and (module.name, name) not in EXEMPT
    ]
    assert wrong == []


def test_core_has_no_mutable_globals() -> None:
    """No ``global`` or ``nonlocal`` statement in the core."""
    wrong = [
        f"{module.path}:{node.lineno}"
        for module in CORE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Global | ast.Nonlocal)
    ]
    assert wrong == []


def test_core_iterates_no_set() -> None:
    """The order of a set depends on the hash seed, so nothing in the core walks over one."""
    wrong = [f"{module.path}:{line}" for module in CORE for line in iterated_sets(module)]
    assert wrong == []


def test_values_of_the_core_are_immutable() -> None:
    """No public class of the core declares a field that holds a list, a set or a dict."""
    assert [f"{module.path}: {field}" for module in CORE for field in mutable_fields(module)] == []


def test_transitions_has_one_door() -> None:
    """One module imports ``transitions`` and draws nothing; one module calls Graphviz."""
    doors = {
        word: {module.path for module in modules() for one in imports(module) if _package_of(one) == word}
        for word in ("transitions", "graphviz")
    }
    assert doors["transitions"] == {"fsm_agent/diagram/machine.py"}
    assert doors["graphviz"] == {"fsm_agent/diagram/render.py"}


def test_the_sdk_stays_in_the_runtime() -> None:
    """Only the runtime imports ``anthropic``; the command line may within a function, to make a client or name its errors."""
    users = [(module.room, one) for module in modules() for one in imports(module) if _package_of(one) == "anthropic"]
    wrong = [f"{room}, line {one.line}" for room, one in users if room != "runtime" and not (room == "cli" and one.lazy)]
    assert wrong == []


@pytest.mark.parametrize("path", NAMES)
def test_public_names_are_documented(path: str) -> None:
    """Every public class, function and method says what it does."""
    (module,) = [module for module in modules() if module.path == path]
    assert list(undocumented(module)) == []


def test_modules_and_functions_are_short() -> None:
    """No module has over 450 lines, no function over 70, docstrings not counted."""
    long = [f"{module.path}: {module.lines} lines" for module in modules() if module.lines > LONGEST_MODULE]
    long += [
        f"{module.path}: {name} has {length} lines"
        for module in modules()
        for name, length in functions(module)
        if length > LONGEST_FUNCTION
    ]
    assert long == []


def test_tests_say_what_they_show() -> None:
    """Every test has a docstring that states the behaviour."""
    silent = [
        f"{module.path}: {node.name}"
        for module in modules(REPOSITORY / "tests")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and ast.get_docstring(node) is None
    ]
    assert silent == []


def _committed() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=False)
    if listed.returncode:
        return [path.relative_to(REPOSITORY).as_posix() for path in PACKAGE.rglob("*") if path.is_file()]
    return [name for name in listed.stdout.decode().split("\0") if name]


def test_no_place_of_this_machine_is_named() -> None:
    """No text of the repository names the folder in which it lies here, or this Python, or work left for later."""
    everywhere = {"/", "/usr", "/usr/local", "/tmp", "/home", "/root", "/opt", "/srv", "/mnt", "/var/tmp"}
    here = {str(REPOSITORY), str(REPOSITORY.parent), sys.prefix} - everywhere
    places = re.compile("|".join(rf"(?<![\w./}}-]){re.escape(place)}(?![\w-])" for place in sorted(here)))
    later = re.compile(rf"\b(?:{'|'.join(('TO' + 'DO', 'FIX' + 'ME', 'X' * 3))})\b")
    wrong = []
    for name in _committed():
        path = REPOSITORY / name
        if not path.is_file() or path.suffix in (".png", ".svg"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name}: {found.group()}" for found in places.finditer(text)]
        wrong += [f"{name}: {found.group()}" for found in later.finditer(text) if path.suffix == ".py"]
    assert wrong == []


def _loaded(statement: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys\n{statement}\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_core_loads_nothing_of_the_world() -> None:
    """In a fresh interpreter the whole core loads no clock, I/O, logging or SDK beyond what attrs itself loads."""
    everything = "; ".join(f"import {module.name}" for module in CORE)
    more = _loaded(everything) - _loaded("import attrs, json, hashlib, re, enum, typing")
    foreign = sorted(name for name in more if not name.startswith("fsm_agent"))
    assert [name for name in foreign if name.partition(".")[0] in WORLD] == []
    assert [name for name in foreign if name.partition(".")[0].lstrip("_") not in {word.lstrip("_") for word in PURE}] == []


def test_help_loads_no_sdk() -> None:
    """``fsm-agent --help`` starts without the SDK, the server, or the libraries of diagrams."""
    if not (PACKAGE / "cli" / "main.py").exists():
        pytest.skip("there is no command line yet")
    statement = (
        "import contextlib, io\n"
        "from fsm_agent.cli.main import main\n"
        "sys.argv = ['fsm-agent', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    main()\n"
        "assert 'Usage' in out.getvalue() or 'usage' in out.getvalue()"
    )
    loaded = {name.partition(".")[0] for name in _loaded(statement)}
    assert loaded & {"anthropic", "aiohttp", "transitions", "graphviz", "httpx", "pydantic"} == set()


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("for x in {1, 2}: pass", [1]),
        ("s = set(y)\nz = [x for x in s]", [2]),
        ("def f(s: frozenset[int]):\n    return tuple(s)", [2]),
        ("s = {1} | t\nz = (*s,)", [2]),
        ("s = {1}\nz = 1 in s\nfor x in sorted(s): pass", []),
        ("s = {1: 2}\nfor x in s: pass", []),
        ("def f(s: set[int]): pass\ndef g(s: tuple[int, ...]):\n    return list(s)", []),
    ],
)
def test_walks_over_sets_are_found(source: str, lines: list[int]) -> None:
    """The search for walks over sets finds loops, comprehensions, tuples and unpacking, and lets sorted ones pass."""
    assert list(iterated_sets(Module("fsm_agent.core.x", "x.py", source, ast.parse(source)))) == lines


def test_imports_are_read_right() -> None:
    """Relative imports are resolved from the module's place, lazy and type-checking ones are known as such."""
    source = (
        "from ..core import step\nfrom . import base\nif TYPE_CHECKING:\n    import time\ndef f():\n    from ...x import y\n"
    )
    module = Module("fsm_agent.log.reader.deep", "fsm_agent/log/reader/deep.py", source, ast.parse(source))
    assert list(imports(module)) == [
        Import("fsm_agent.log.core", 1, False, False),
        Import("fsm_agent.log.core.step", 1, False, False),
        Import("fsm_agent.log.reader", 2, False, False),
        Import("fsm_agent.log.reader.base", 2, False, False),
        Import("time", 4, False, True),
        Import("fsm_agent.x", 6, True, False),
        Import("fsm_agent.x.y", 6, True, False),
    ]
