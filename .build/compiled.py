"""Builds a wheel whose hot modules are compiled by mypyc, where that is asked for; see docs/compiled.md.

The sources are compiled in a copy, so the project's own folder stays as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "fsm_agent"


class CompiledBuild(BuildHookInterface[Any]):
    """Compiles what ``modules`` in pyproject.toml names, all but what ``left`` names."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Give what a compiled build needs: mypyc, and what the modules import, for their types."""
        return ["mypy>=1.11", "setuptools>=70", *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the results into the wheel, beside the sources.

        Raises:
            RuntimeError: if a module cannot be compiled.
        """
        if version == "editable":
            raise RuntimeError("a compiled build cannot be editable: what is edited would not be what runs")
        self._folder = TemporaryDirectory()
        place = Path(self._folder.name)
        shutil.copytree(
            Path(self.root, PACKAGE), place / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
        )
        modules = self._found(place, "modules") - self._found(place, "left")
        self.app.display_info(f"compiling {len(modules)} modules, which takes a minute or two")
        names = [str(module.relative_to(place)) for module in sorted(modules)]
        done = subprocess.run(
            [sys.executable, "-m", "mypyc", "--strict", "--follow-imports=silent", *names],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"mypyc failed (a C compiler and Python's headers are needed):\n{done.stdout[-4_000:]}")
        shutil.rmtree(place / "build", ignore_errors=True)
        for made in (*place.rglob("*.so"), *place.rglob("*.pyd")):
            build_data["force_include"][str(made)] = str(made.relative_to(place))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy, now that the wheel is written."""
        self._folder.cleanup()

    def _found(self, place: Path, option: str) -> set[Path]:
        found: set[Path] = set()
        for pattern in self.config[option]:
            some = {path for path in place.glob(f"{PACKAGE}/{pattern}") if path.name != "__init__.py"}
            if not some:
                raise RuntimeError(f"no module matches {pattern!r} ({option} of the compiled build in pyproject.toml)")
            found |= some
        return found
