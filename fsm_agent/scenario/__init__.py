"""Scenarios: one declarative script for the bare reducer, the interpreter and the loopback server (spec 04)."""

from .format import Scenario, ScenarioError
from .loading import catalog, load, loads

__all__ = ["Scenario", "ScenarioError", "catalog", "load", "loads"]
