"""Which build is tested: the sources as they are, or compiled ones."""

from __future__ import annotations

import importlib

import pytest

COMPILED = not str(importlib.import_module("fsm_agent.core.moves.tools").__file__).endswith(".py")
looks_inside = pytest.mark.skipif(COMPILED, reason="a compiled module lets nobody look inside")
