"""Every Python example of README and docs runs; every scenario example plays; every link leads somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import anyio
import pytest

from fsm_agent.scenario import catalog
from fsm_agent.scenario.checking import differences
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import loads
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import says

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def fenced(language: str) -> list[tuple[str, str]]:
    """Give (place, text) of every fenced block of a language."""
    found = []
    for page in PAGES:
        for number, match in enumerate(re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)):
            found.append((f"{page.relative_to(ROOT)}[{number}]", match.group(1)))
    return found


def _ids(blocks: list[tuple[str, str]]) -> list[str]:
    return [place for place, _ in blocks]


PYTHON = fenced("python")


@pytest.mark.parametrize(("place", "code"), PYTHON, ids=_ids(PYTHON))
def test_python_examples_run(place: str, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An example of the documentation runs as it stands, against a server on loopback."""
    monkeypatch.chdir(tmp_path)
    with LoopbackServer([says("hello") for _ in range(3)], models=None) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        space: dict[str, object] = {"__name__": "example"}
        exec(compile(code, place, "exec"), space)
        follow = space.get("follow")
        if callable(follow):
            from fsm_agent import Agent

            assert anyio.run(follow, Agent("claude-sonnet-5-5"), "hi") == "end_turn"


YAML = fenced("yaml")


@pytest.mark.parametrize(("place", "text"), YAML, ids=_ids(YAML))
def test_scenario_examples_play(place: str, text: str) -> None:
    """A scenario of the documentation loads and goes as it says."""
    scenario = loads(text, "example.yaml")
    assert differences(scenario.expect, drive(scenario).played) == ()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links of a page name files that are there."""
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def links_of(page: Path) -> set[Path]:
    """Give the files that a page links to."""
    found = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    return {(page.parent / target).resolve() for target in found if "://" not in target}


def test_every_page_can_be_reached() -> None:
    """From the README links lead to every page of the documentation, in at most two steps."""
    first = links_of(ROOT / "README.md")
    second = {target for page in first if page.suffix == ".md" for target in links_of(page)}
    assert sorted(str(page) for page in {*PAGES} - first - second - {ROOT / "README.md"}) == []


def test_scenarios_that_are_named_are_there() -> None:
    """What a command of the documentation plays or serves is a scenario of the catalog, or a file of one's own."""
    named = re.findall(r"(?:--scenario|fsm-agent serve) ([\w.-]+)", "\n".join(page.read_text() for page in PAGES))
    assert named
    assert sorted({name for name in named if not name.endswith(".yaml") and not name.isupper()} - {*catalog()}) == []


def test_the_licence_is_there() -> None:
    """The licence that the package names comes with it."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert (ROOT / "LICENSE").read_text().startswith(f"{named} License\n")
