"""The requests of a run as its log gives them back: the view of each, and what the context layers did to make it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from ..core.blocks import Block, block_text, block_value
from ..core.config import LoopConfig, thresholds
from ..core.context.report import LayerReport
from ..core.context.usage import static_tokens, user_context_tokens
from ..core.effects import CallModel
from ..core.messages import Message
from ..core.models import Thresholds
from ..core.state import LoopState, Step
from ..log.format import Record
from ..log.replay import replay
from .console import warn
from .log_files import log_problems
from .problems import LOG, Problem
from .text_view import result_text


@frozen
class Asked:
    """One request.

    Attributes:
        seq: the record in which it was made.
        effect: the call.
        state: the state behind that record.
        config: the configuration of the run.
    """

    seq: int
    effect: CallModel
    state: LoopState
    config: LoopConfig

    @property
    def view(self) -> tuple[Message, ...]:
        """The messages that the layers left."""
        return self.state.data.iteration.view

    @property
    def reports(self) -> tuple[LayerReport, ...]:
        """What the layers did in this pass."""
        return self.state.data.iteration.reports

    @property
    def limits(self) -> Thresholds:
        """The thresholds of the model that is called."""
        return thresholds(self.config, self.effect.request.model)

    @property
    def fixed(self) -> tuple[int, int]:
        """Estimates of system prompt and tools, and of the user context, in tokens."""
        return static_tokens(self.config), user_context_tokens(self.config)


def requests_of(path: Path, until: int | None, take: Callable[[Asked], None]) -> None:
    """Fold a log and hand each request over, in order; attempts of one request are handed over each.

    Args:
        path: the log.
        until: stop behind this record, None for the whole log.
        take: called with each request.

    Raises:
        Problem: if the log is damaged, or was written by another reducer, or does not replay.
    """
    config: list[LoopConfig] = []

    def each(record: Record, step: Step) -> None:
        for effect in step.effects:
            if isinstance(effect, CallModel):
                take(Asked(record.seq, effect, step.state, config[0]))

    with log_problems(path):
        from ..log.reader import read_log

        config.append(read_log(path).header.config)
        found = replay(path, until, each=each)
    if found.divergence is not None:
        raise Problem(f"{path}: the log does not replay. {found.divergence}", LOG)
    for one in found.skipped:
        warn(
            f"{one.gap.words}; requests are known again "
            + (f"from record {one.resumed} on" if one.resumed else "nowhere behind")
        )


def report_value(report: LayerReport) -> dict[str, Any]:
    """Give a report as a JSON object."""
    return {
        "layer": report.layer,
        "freed": report.freed,
        "cut": report.cut,
        "detail": report.detail,
        "ids": list(report.ids),
    }


def held(view: tuple[Message, ...]) -> Iterator[tuple[str, int, int]]:
    """Sum a view up by what its messages are: kind, how many, tokens; in the order in which they first come."""
    sums: dict[str, tuple[int, int]] = {}
    for item in view:
        count, tokens = sums.get(item.kind.value, (0, 0))
        sums[item.kind.value] = (count + 1, tokens + item.tokens)
    for kind, (count, tokens) in sums.items():
        yield kind, count, tokens


def words_of(item: Message) -> str:
    """Give the words of a message in brief: its text, the calls that it makes, the results that it brings."""
    return " ".join(_words(block) for block in item.blocks)


def _words(block: Block) -> str:
    value = block_value(block)
    match block.type:
        case "text":
            return block_text(block)
        case "tool_use":
            return f"[calls {block.name} {block.id}]"
        case "tool_result":
            return f"[result of {block.id}] {result_text(block)}"
        case "compaction":
            return f"[compacted by the API] {value.get('content')}"
        case "boundary":
            return f"[{value.get('kind')} {value.get('trigger')}] {value.get('detail')}"
        case _:
            return f"[{block.type}]"
