"""I6, I9: what ``preparing`` is entered with and leaves, and what comes from beside the loop (spec 01, sections 2, 4, 6)."""

from __future__ import annotations

from itertools import pairwise

from attrs import evolve

from ..core.config import LoopConfig
from ..core.context.store import Tally
from ..core.context.usage import count_view
from ..core.effects import BACKGROUND, EffectKind, Emit, PrefetchKind, StartPrefetch
from ..core.events import CollapseStaged, ToolUseSummaryReady
from ..core.messages import Message
from ..core.outputs import AssistantOutput, ToolUseSummary
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState
from .fields import values
from .law import Edge, edge_law, state_law
from .micro import Micro, micros

_SET_HERE = ("run.issued", "flight", "phase")


def _entered(edge: Edge) -> list[tuple[LoopState, LoopState]]:
    """Give each way into ``preparing``: the state that a row left, and the one in which the next row was chosen."""
    return [(one.after, two.before) for one, two in pairwise(micros(edge)) if two.row.source is Phase.PREPARING]


@edge_law("I9", costly=True)
def preparing_looks_and_leaves_the_rest(edge: Edge) -> str:
    """A pass with a request keeps it; else the view is made, and nothing is decided but what the view is like."""
    for was, now in _entered(edge):
        before, after = values(was.control), values(now.control)
        held = was.data.iteration.request is not None
        for path, value in before.items():
            looked = path.startswith("context.") and path not in _KEPT_FACTS and not held
            if path != "phase" and not looked and (held or path not in _SET_HERE) and after[path] != value:
                return f"{path} became {after[path]!r}"
        if held:
            if evolve(now.data.iteration, front=()) != evolve(was.data.iteration, front=()):
                return "the request in hand was lost"
            continue
        fault = _made(edge, was, now)
        if fault:
            return fault
    return ""


_KEPT_FACTS = (
    "context.tracking",
    "context.tried",
    "context.compact_off",
    "context.compacted_in_pass",
    "context.compacting",
    "context.replacing",
)


def _made(edge: Edge, was: LoopState, now: LoopState) -> str:
    facts, pass_ = now.control.context, now.data.iteration
    spans = now.data.context.spans
    if pass_.view != now.data.messages:
        return "the view is not the working list"
    if facts.sendable != (pass_.request is not None) or bool(pass_.details) == facts.sendable:
        return f"sendable is {facts.sendable}, and it says {pass_.details!r}"
    thinks = any(b'"type":"thinking"' in wire.body for wire in pass_.request.messages) if pass_.request is not None else False
    if facts.thinking != thinks:
        return f"thinking in the request is {thinks}, the facts say {facts.thinking}"
    model = now.control.tool_use_context.model
    fresh, _ = count_view(pass_.view, evolve(now.data.context, tally=Tally()), edge.config, model)
    if facts.tokens != fresh:
        return f"the view is counted as {facts.tokens}, anew as {fresh}"
    tally = now.data.context.tally
    if tally.view == pass_.view and tally.tokens != sum(item.tokens for item in pass_.view):
        return f"the messages are tallied as {tally.tokens} tokens"
    if facts.staged != sum(span.summary is not None and not span.committed for span in spans):
        return f"{facts.staged} spans are staged"
    if pass_.reports[: len(was.data.iteration.reports)] != was.data.iteration.reports:
        return "reports of the pass were lost"
    least = len(was.data.messages) - (_unanswered(was.data.messages) if was.data.context.open_server_calls else 0)
    if len(pass_.view) < least and len(pass_.reports) == len(was.data.iteration.reports):
        return "the view is shorter, and no layer reports it"
    new = [item for item in now.control.flight if item not in was.control.flight]
    if now.control.flight[: len(was.control.flight)] != was.control.flight:
        return "something left the flight"
    if any(item.kind not in BACKGROUND for item in new):
        return f"in flight now: {new}"
    skills = any(item.kind is EffectKind.SKILLS for item in was.control.flight)
    asked = sum(item.kind is EffectKind.SKILLS for item in new)
    if asked != (edge.config.prefetch_skills and not skills):
        return f"skills were asked for {asked} times"
    if pass_.front or pass_.reply is not None or pass_.blocks or pass_.calls:
        return "the pass does not begin anew"
    return ""


def _unanswered(messages: tuple[Message, ...]) -> int:
    """Count the replies that hold nothing but calls which the API runs itself: settled without a result, they are gone."""
    return sum(all(block.type.endswith("tool_use") and block.type != "tool_use" for block in item.blocks) for item in messages)


@edge_law("I9", costly=True)
def prefetches_are_told_what_to_look_for(edge: Edge) -> str:
    """Memory is fetched once, when a run begins, for its prompt; skills for the newest messages of the view."""
    fetched = [effect for effect in edge.issued if isinstance(effect, StartPrefetch)]
    memory = [effect for effect in fetched if effect.kind is PrefetchKind.MEMORY]
    if len(memory) != (edge.took("run_started") and edge.config.prefetch_memory):
        return f"memory was asked for {len(memory)} times"
    for effect in fetched:
        if f"/{effect.kind.value}-" not in effect.id:
            return f"{effect.id} fetches {effect.kind}"
        due = getattr(edge.event, "messages", ())
        if effect.kind is PrefetchKind.SKILLS:
            due = _entered(edge)[-1][1].data.iteration.view[-2:]
        if effect.messages != due:
            return f"{effect.kind} looks for {len(effect.messages)} messages"
    return ""


@edge_law("I6", costly=True)
def a_known_front_is_there(edge: Edge) -> str:
    """What the next pass takes for known stands at the front of the working list."""
    for one in micros(edge):
        front = one.after.data.iteration.front
        if front and one.after.data.messages[: len(front)] != front:
            return f"{one.row.name}: the front is not that of the messages"
    return ""


@edge_law("I9", costly=True)
def spans_follow_their_answers(edge: Edge) -> str:
    """A summary goes to its own span, if it says something in fewer tokens; a span without one is forgotten."""
    for one in micros(edge):
        if one.name not in ("collapse_staged", "collapse_failed"):
            continue
        name = next(item.call for item in one.old.flight if item.id == getattr(one.event, "id", ""))
        was, now = one.before.data.context.spans, one.after.data.context.spans
        rest = [span for span in was if span.id != name or span.committed]
        if [span for span in now if span.id != name or span.committed] != rest:
            return f"{one.row.name}: other spans changed"
        mine = [span for span in now if span.id == name and not span.committed]
        before = [span for span in was if span.id == name and not span.committed]
        summary = one.event.summary if isinstance(one.event, CollapseStaged) else None
        if mine and (summary is None or mine != [evolve(before[0], summary=summary)]):
            return f"{one.row.name}: the span is {mine}"
        said = summary is not None and not summary.blank and summary.type == "text"
        if not mine and said and summary is not None and before and 100 + summary.tokens < before[0].tokens:
            return "a good summary was dropped"
    return ""


@state_law("I5", costly=True)
def spans_in_the_making_are_in_flight(state: LoopState, config: LoopConfig) -> str:
    """While a run is on, each span that has no summary yet is being summarised."""
    if state.control.phase in TERMINAL_SET or state.control.phase is Phase.READY:
        return ""
    flying = {item.call for item in state.control.flight if item.kind is EffectKind.COLLAPSE}
    lost = [span.id for span in state.data.context.spans if span.summary is None and span.id not in flying]
    return f"nobody summarises {lost}" if lost else ""


@edge_law("I10", costly=True)
def summaries_of_tools_are_shown(edge: Edge) -> str:
    """The summary of a round of tools is shown at once, unless it is blank."""
    for one in micros(edge):
        if isinstance(one.event, ToolUseSummaryReady) and one.name == "summary_ready":
            shown = [effect.output.text for effect in one.effects if isinstance(effect, Emit)
                     and isinstance(effect.output, ToolUseSummary)]  # fmt: skip
            if shown != ([one.event.text] if one.event.text.strip() else []):
                return f"{one.event.text!r} was shown as {shown}"
    return ""


def _open(one: Micro) -> bool:
    """Tell whether a kept reply holds a call that the API runs itself, without its result."""
    replies = [effect.output.message for effect in one.effects if isinstance(effect, Emit)
               and isinstance(effect.output, AssistantOutput)]  # fmt: skip
    blocks = [block for reply in replies for block in reply.blocks]
    answered = {block.id for block in blocks if block.type.endswith("_tool_result")}
    calls = [block for block in blocks if block.type != "tool_use" and block.type.endswith("tool_use")]
    return any(block.id not in answered for block in calls)


@edge_law("I6", costly=True)
def open_server_calls_are_remembered(edge: Edge) -> str:
    """A kept reply with a server call that has no result yet is remembered, so that the next pass can settle it."""
    for one in micros(edge):
        was, now = one.before.data.context, one.after.data.context
        if _open(one) and not now.open_server_calls:
            return f"{one.row.name}: an open server call was forgotten"
        if now.open_server_calls and not was.open_server_calls and not _open(one):
            return f"{one.row.name}: an open server call is remembered that nobody made"
    return ""
