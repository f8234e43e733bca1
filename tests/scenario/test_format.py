"""Reading scenarios: what is wrong is named with its place, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.core.config import Microcompact
from fsm_agent.core.failures import ErrorKind
from fsm_agent.scenario import ScenarioError, catalog, load, loads
from fsm_agent.scenario.answers import Ending, Settle, TextItem, ToolItem

BASE = "title: A test.\nexpect: {reason: completed, cause: end_turn}\nprompt: Go.\n"


def test_shortest_scenario() -> None:
    """A title, an expectation and a prompt are enough."""
    scenario = loads(BASE)
    assert scenario.title == "A test."
    assert scenario.replies == ()
    assert scenario.config.model == "scenario-model"


def test_reply_defaults() -> None:
    """A lone text ends its turn; a reply with a call stops for it; a failure without blocks is an HTTP error."""
    text = """
replies:
  - Hello.
  - blocks: [{tool: look, input: {a: 1}}, settle, {text: x}]
  - fails: overloaded
    times: 2
  - blocks: []
    fails: {kind: prompt_too_long, over_tokens: 5}
"""
    replies = loads(BASE + text).replies
    assert replies[0].items == (TextItem("Hello."),)
    assert replies[0].stop_reason == "end_turn"
    assert replies[1].items == (ToolItem("look", '{"a":1}'), Settle(), TextItem("x"))
    assert replies[1].stop_reason == "tool_use"
    assert [reply.streamed for reply in replies[2:]] == [False, False, True]
    assert all(reply.ending is Ending.FAILS for reply in replies[2:])
    assert replies[4].failure is not None
    assert replies[4].failure.kind is ErrorKind.PROMPT_TOO_LONG


def test_settings_are_typed() -> None:
    """Nested settings, words of closed lists and null are read as their fields declare."""
    config = loads(BASE + "config: {max_turns: 3, context: {microcompact: local, keep_rounds: 1}, effort: null}\n").config
    assert config.max_turns == 3
    assert config.context.microcompact is Microcompact.LOCAL
    assert config.context.keep_rounds == 1
    assert config.effort is None


def test_values_are_filled_in() -> None:
    """``{{name}}`` stands for a value, which the caller may override."""
    text = BASE + "values: {python: python3}\nreplies: ['run {{python}}']\n"
    assert loads(text).replies[0].items == (TextItem("run python3"),)
    assert loads(text, values={"python": "py"}).replies[0].items == (TextItem("run py"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("titel: x\n", "unknown key 'titel'; did you mean 'title'?"),
        ("replies: [{blocks: [{tol: look}]}]\n", "replies[0].blocks[0]: unknown key 'tol'; did you mean 'tool'?"),
        ("replies: [{blocks: [{tool: look, text: x}]}]\n", "replies[0].blocks[0]: must be one of"),
        ("replies: [{blocks: [{tool: look, input: {}, raw: ''}]}]\n", "'input' or 'raw', not both"),
        ("replies: [{blocks: [{tool: look, input: 3}]}]\n", "replies[0].blocks[0].input: must be a mapping, not 3"),
        ("replies: [{blocks: [{text: on}]}]\n", "replies[0].blocks[0].text: must be a text, not True"),
        ("replies: [{blocks: [{text: x}, settle]}]\n", "replies[0].blocks[1]: settle and started must be followed by a block"),
        ("replies: [{blocks: [{text: x, open: true}, {text: y}]}]\n", "only the last block can be open"),
        ("replies: [{blocks: [], fails: overlaoded}]\n", "did you mean 'overloaded'?"),
        ("replies: [{blocks: [], fails: overloaded, hangs: true}]\n", "'fails' or 'hangs', not both"),
        ("replies: [{blocks: [], fails: overloaded, stop_reason: x}]\n", "has no stop_reason"),
        ("replies: [{blocks: [], fails: {kind: rate_limited, retry_after_ms: 5}}]\n", "retry_after_ms is a header"),
        ("replies: {}\n", "replies: must be a list"),
        ("replies: [{times: 0}]\n", "replies[0].times: must be a whole number of at least 1"),
        ("config: {max_turn: 3}\n", "config: unknown setting 'max_turn'; did you mean 'max_turns'?"),
        ("config: {max_turns: x}\n", "config.max_turns: must be a whole number"),
        ("config: {max_turns: 0}\n", "config: max_turns must be a whole number of at least 1"),
        ("config: {effort: zzz}\n", "config: effort must be one of low, medium, high, xhigh, max, not 'zzz'"),
        ("config: {model: x}\n", "'model' is given at the top"),
        ("config: {context: {microcompact: lokal}}\n", "config.context.microcompact: unknown word 'lokal'"),
        ("models: {scenario-model: {context_windw: 3}}\n", "models.scenario-model: unknown setting 'context_windw'"),
        ("tools: {look: {read_only: 1}}\n", "tools.look.read_only: must be true or false, not 1"),
        ("tools: {look: {result: a, results: [b]}}\n", "'result' or 'results', not both"),
        ("stop_hooks: [block]\n", "stop_hooks[0]: 'block' needs a text"),
        ("user: [{when: {event: tool_started}, do: queue}]\n", "user[0].do: 'queue' needs a text"),
        ("user: [{when: {}, do: interrupt}]\n", "user[0].when: give one of 'event' and 'phase'"),
        ("user: [{when: {event: tool_startd}, do: interrupt}]\n", "did you mean 'tool_started'?"),
        ("real_tools: true\nfiles: {../x: y}\n", "'../x' must be a relative path inside the project"),
        ("files: {x: y}\n", "files need 'real_tools: true'"),
        ("replies: ['{{nobody}}']\n", "{{nobody}} is not among its values"),
        ("prompt: again\n", "line 4: the key 'prompt' is there twice"),
        ("replies: [\n", "line"),
        ("replies: &a [*a]\n", "line 4: aliases are not allowed"),
        ("replies: [{block: x}]\n", "unknown key 'block'"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    """Each mistake is one line that names the place and, where there is one, the word that was meant."""
    with pytest.raises(ScenarioError) as caught:
        loads(BASE + text, "scenario x.yaml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("scenario x.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b\n", "1", "\x00", "{a: !!python/name:os.system x}"])
def test_no_scenario_at_all(text: str) -> None:
    """Text that is no scenario is refused as such."""
    with pytest.raises(ScenarioError):
        loads(text)


def test_cause_must_belong_to_reason() -> None:
    """An expectation that no run can meet is refused."""
    with pytest.raises(ScenarioError, match="is no cause of 'max_turns'"):
        loads("title: T.\nprompt: Go.\nexpect: {reason: max_turns, cause: end_turn}\n")


def test_files_and_names(tmp_path: Path) -> None:
    """A file is read by its path, a packaged scenario by its name; what is missing is said."""
    path = tmp_path / "mine.yaml"
    path.write_text(BASE, encoding="utf-8")
    assert load(path).name == "mine"
    assert load(str(path)).name == "mine"
    assert load("hello").name == "hello"
    with pytest.raises(ScenarioError, match="no scenario file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ScenarioError, match="cannot read scenario file"):
        load(tmp_path)
    with pytest.raises(ScenarioError, match="no scenario 'helo' in the catalog"):
        load("helo")


@pytest.mark.parametrize("name", catalog())
def test_catalog_is_well_formed(name: str) -> None:
    """Each packaged scenario reads, carries its file's name, and says in one sentence what it shows."""
    scenario = load(name)
    assert scenario.name == name
    assert scenario.title.endswith(".")
    assert len(scenario.title) < 160


HISTORY = """
history:
  - user: {text: 漢字, repeat: 3}
    assistant: Yes.
    times: 2
  - user: Look at both.
    assistant: [{thinking: hm}, {tool: look, input: {n: 1}}, {tool: look, input: {n: 2}}]
    results: [{text: one, image: png, width: 280, height: 56}, {text: two, chars: 90}]
"""


def test_a_history_is_made_of_exchanges() -> None:
    """What was said before the run is read with its calls and results, each under an id of its own; pictures are measured."""
    messages = loads(BASE + HISTORY).history
    assert [item.role for item in messages] == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert len({item.id for item in messages}) == 7
    assert messages[0].blocks[0].chars == 6
    calls, results = messages[5].calls, messages[6].results
    assert [block.id for block in calls] == [block.id for block in results]
    assert (results[0].media[0].width, results[0].media[0].height) == (280, 56)
    assert results[1].chars == 90


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("history: [{assistant: [{tool: look}]}]", "history[0].results: must be one for each of the 1 calls, not 0"),
        ("history: [{user: Hi., results: [x]}]", "need calls of the assistant before them"),
        ("history: [{user: Hi., assistant: [{text: a}, settle, {text: b}]}]", "nothing settles in what has been"),
        ("history: [{usr: Hi.}]", "unknown key 'usr'"),
        ("tools: {look: {result: {image: jpeg}}}", "tools.look.result.image: only 'png'"),
        ("tools: {look: {result: {image: png, width: 9000}}}", "width: must be at most 8000"),
        ("reread: {rules.md: {txt: x}}", "reread.rules.md"),
    ],
)
def test_histories_and_pictures_are_checked(text: str, words: str) -> None:
    """A call without a result, a result without a call, an odd picture: each is named with its place."""
    with pytest.raises(ScenarioError, match=r".*") as caught:
        loads(BASE + text + "\n")
    assert words in str(caught.value)


def test_what_a_summariser_takes_and_who_it_is() -> None:
    """A limit of the summariser's input, its model, and the files in use are read."""
    text = "compactor: [{summary: x, fits: 90}]\nsummariser: other\nreread: {a.md: A, b.md: {text: B, chars: 20}}\n"
    scenario = loads(BASE + text)
    assert scenario.compactor[0].fits == 90
    assert scenario.summariser == "other"
    assert [(path, len(words)) for path, words in scenario.reread] == [("a.md", 1), ("b.md", 20)]
