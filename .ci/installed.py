"""Check that the installed package has every data file of the source, and is not the source itself."""

from __future__ import annotations

import sys
from pathlib import Path

import fsm_agent


def main(repository: str) -> int:
    """Compare the files; give 1 and name them if some are missing."""
    source = Path(repository) / "fsm_agent"
    installed = Path(fsm_agent.__file__).parent
    if installed == source.resolve():
        print("the source was imported, not what was installed")
        return 1
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    missing = sorted(path.as_posix() for path in wanted if not (installed / path).is_file())
    for name in missing:
        print(f"not installed: {name}")
    print(f"{len(wanted) - len(missing)} of {len(wanted)} files installed in {installed.parent.name}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
