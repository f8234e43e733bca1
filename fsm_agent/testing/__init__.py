"""The testing kit: scenarios, laws, checkers, exploration and fault injection, for an agent of one's own (spec 04).

The names below are imported when they are first used: Hypothesis and the server cost nothing until then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..explorer.bounds import Bounds
    from ..explorer.explore import Explored, explore
    from ..explorer.paths import all_paths, paths_to, paths_to_row
    from ..explorer.report import as_test, counterexample
    from ..laws import LAWS, Edge, Law, LawError, edge_law, judge_run, run_law, state_law
    from ..laws.runs import RUN_LAWS, edges_of
    from ..scenario import Scenario, ScenarioError, catalog, load, loads
    from ..scenario.checking import differences
    from ..scenario.drive import Driven, drive
    from ..scenario.play import PlayedRun, play
    from ..server.over_http import PlayedOverHttp, play_over_http
    from ..server.wire_checker import Breach, check_request
    from .crashing import Crashed, crash_everywhere
    from .injection import Fault, Injected, inject
    from .log_laws import LOG_LAWS
    from .named import law, laws
    from .played import inject_played, staged
    from .resuming import every_prefix_resumes
    from .run_checker import RUN_CHECKS, Evidence, check_run
    from .trials import Trial, trial, trial_async
    from .wire import check_requests

_HOMES = {
    "Bounds": "explorer.bounds",
    "Breach": "server.wire_checker",
    "Crashed": "testing.crashing",
    "Driven": "scenario.drive",
    "Edge": "laws",
    "Evidence": "testing.run_checker",
    "Explored": "explorer.explore",
    "Fault": "testing.injection",
    "Injected": "testing.injection",
    "LAWS": "laws",
    "LOG_LAWS": "testing.log_laws",
    "Law": "laws",
    "LawError": "laws",
    "PlayedOverHttp": "server.over_http",
    "PlayedRun": "scenario.play",
    "RUN_CHECKS": "testing.run_checker",
    "RUN_LAWS": "laws.runs",
    "Scenario": "scenario",
    "ScenarioError": "scenario",
    "Trial": "testing.trials",
    "all_paths": "explorer.paths",
    "as_test": "explorer.report",
    "catalog": "scenario",
    "check_request": "server.wire_checker",
    "check_requests": "testing.wire",
    "check_run": "testing.run_checker",
    "counterexample": "explorer.report",
    "crash_everywhere": "testing.crashing",
    "differences": "scenario.checking",
    "drive": "scenario.drive",
    "edge_law": "laws",
    "edges_of": "laws.runs",
    "every_prefix_resumes": "testing.resuming",
    "explore": "explorer.explore",
    "inject": "testing.injection",
    "inject_played": "testing.played",
    "judge_run": "laws",
    "law": "testing.named",
    "laws": "testing.named",
    "load": "scenario",
    "loads": "scenario",
    "paths_to": "explorer.paths",
    "paths_to_row": "explorer.paths",
    "play": "scenario.play",
    "play_over_http": "server.over_http",
    "run_law": "laws",
    "staged": "testing.played",
    "state_law": "laws",
    "trial": "testing.trials",
    "trial_async": "testing.trials",
}

__all__ = [
    "LAWS",
    "LOG_LAWS",
    "RUN_CHECKS",
    "RUN_LAWS",
    "Bounds",
    "Breach",
    "Crashed",
    "Driven",
    "Edge",
    "Evidence",
    "Explored",
    "Fault",
    "Injected",
    "Law",
    "LawError",
    "PlayedOverHttp",
    "PlayedRun",
    "Scenario",
    "ScenarioError",
    "Trial",
    "all_paths",
    "as_test",
    "catalog",
    "check_request",
    "check_requests",
    "check_run",
    "counterexample",
    "crash_everywhere",
    "differences",
    "drive",
    "edge_law",
    "edges_of",
    "every_prefix_resumes",
    "explore",
    "inject",
    "inject_played",
    "judge_run",
    "law",
    "laws",
    "load",
    "loads",
    "paths_to",
    "paths_to_row",
    "play",
    "play_over_http",
    "run_law",
    "staged",
    "state_law",
    "trial",
    "trial_async",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fsm_agent.testing' has no attribute {name!r}")
    return getattr(import_module(f"fsm_agent.{home}"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
