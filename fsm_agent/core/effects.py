"""What the core may ask for: effects as data (spec 01, section 6). Each but the detached ones is answered by an event."""

from __future__ import annotations

from enum import StrEnum

from .events import ToolTraits
from .frozen import frozen
from .messages import Message
from .outputs import Output
from .phases import CompactKind
from .wire import Request


class EffectKind(StrEnum):
    """Kinds of effects that are answered; the word is part of their ids."""

    CALL = "call"
    TOOL = "tool"
    COMPACT = "compact"
    COLLAPSE = "collapse"
    ATTACHMENTS = "attachments"
    MEMORY = "memory"
    SKILLS = "skills"
    SUMMARY = "summary"
    HOOKS = "hooks"
    TIMER = "timer"


BACKGROUND: frozenset[EffectKind] = frozenset({EffectKind.COLLAPSE, EffectKind.MEMORY, EffectKind.SKILLS, EffectKind.SUMMARY})
"""Kinds that nothing waits for."""


class PrefetchKind(StrEnum):
    """What is fetched ahead while the model works."""

    MEMORY = "memory"
    SKILLS = "skills"


@frozen
class CallModel:
    """Call the model. Answers: StreamStarted, BlockCompleted, StreamCompleted, StreamFailed."""

    id: str
    request: Request


@frozen
class RunTool:
    """Run one tool. Answers: ToolStarted, ToolProgressed, ToolFinished.

    Attributes:
        id: the effect.
        tool_use_id: the id under which the result is stored.
        name: the tool.
        input_json: JSON text of the input object.
        traits: what the tool said of this call.
    """

    id: str
    tool_use_id: str
    name: str
    input_json: str
    traits: ToolTraits


@frozen
class Compact:
    """Summarise older messages. Answers: CompactionFinished, CompactionFailed.

    Attributes:
        id: the effect.
        kind: what asked for it.
        messages: what is to be summarised, oldest first; the protected tail is not among them.
        tail: the protected tail that will follow the summary, for the summariser's knowledge only.
        model: the model in use; the compactor may use another.
        target: tokens that the result should not exceed.
        over_tokens: tokens by which the API said the prompt was over, 0 if unknown.
        instructions: the user's words, if any.
        prefix: the request for the API's own compaction of all that stands before the tail, None where there is none.
    """

    id: str
    kind: CompactKind
    messages: tuple[Message, ...]
    tail: tuple[Message, ...]
    model: str
    target: int
    over_tokens: int = 0
    instructions: str = ""
    prefix: Request | None = None


@frozen
class StageCollapse:
    """Summarise one span in the background. Answers: CollapseStaged, CollapseFailed."""

    id: str
    span: str
    messages: tuple[Message, ...]
    model: str


@frozen
class GatherAttachments:
    """Ask the attachment providers. Answer: AttachmentsGathered. ``turn`` is the round that has just ended."""

    id: str
    turn: int


@frozen
class StartPrefetch:
    """Fetch memory or skills ahead. Answer: PrefetchFinished."""

    id: str
    kind: PrefetchKind
    messages: tuple[Message, ...]


@frozen
class SummarizeToolUse:
    """Sum up a round of tools with a small model. Answer: ToolUseSummaryReady."""

    id: str
    messages: tuple[Message, ...]


@frozen
class RunStopHooks:
    """Run the stop hooks. Answer: StopHooksFinished.

    Attributes:
        id: the effect.
        stop_hook_active: an earlier stop hook already forced a round.
        reply: the assistant's last message, None if there is none.
        turn: rounds so far.
    """

    id: str
    stop_hook_active: bool
    reply: Message | None
    turn: int


@frozen
class StartTimer:
    """Wait. Answer: TimerFired. ``delay_ms`` is in milliseconds, without jitter."""

    id: str
    delay_ms: int


@frozen
class Cancel:
    """Cancel an effect in flight; it has no answer, and the cancelled one gets none either."""

    id: str


@frozen
class Emit:
    """Detached: show this to the consumer."""

    output: Output


@frozen
class NotifyCommand:
    """Detached: a queued command was taken up (``started``)."""

    command_id: str
    status: str = "started"


@frozen
class RunPostSamplingHooks:
    """Detached: a reply was kept; waited for, bounded, before the run closes."""

    reply: Message


AnsweredEffect = (
    CallModel
    | RunTool
    | Compact
    | StageCollapse
    | GatherAttachments
    | StartPrefetch
    | SummarizeToolUse
    | RunStopHooks
    | StartTimer
)
DetachedEffect = Emit | NotifyCommand | RunPostSamplingHooks
Effect = AnsweredEffect | Cancel | DetachedEffect
