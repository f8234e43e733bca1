"""The state of a loop: control that decides, data that goes with it, and what a step returns."""

from __future__ import annotations

from .blocks import Block
from .config import LoopConfig
from .context.report import LayerReport
from .context.store import ContextState
from .control import (
    AutoCompactTracking,
    Budget,
    Call,
    ContextFacts,
    Control,
    Guards,
    Queue,
    Run,
    Tools,
    ToolUseContext,
    Wait,
)
from .effects import Effect
from .events import EventKind, ToolUse
from .failures import ModelFailure
from .frozen import frozen
from .messages import Message
from .outputs import Terminal
from .phases import ContinueReason, Phase
from .usage import ModelUsage
from .wire import Request


@frozen
class CallData:
    """What belongs to one tool call.

    Attributes:
        use: the call as made.
        result: its result, None before.
        digest: of its result without what is declared volatile, for loop detection.
        tail: the end of its progress.
    """

    use: ToolUse
    result: Block | None = None
    digest: str = ""
    tail: str = ""


@frozen
class Iteration:
    """The pass in flight.

    Attributes:
        view: the messages that the context layers produced.
        request: what was sent, or is about to be.
        blocks: the reply so far.
        calls: data of the calls, beside ``control.tools.calls``.
        failure: the error withheld or remembered, in full.
        emitted: ids emitted for the reply in flight, for tombstones.
        unclosed: positions of blocks that the stream never closed.
        reply: the assistant message kept of the reply, None while nothing is kept.
        details: JSON text of the reply's ``stop_details``.
        words: words of hooks that block, prevent or stop.
        reports: what the context layers did to make the view, in order; a compaction of this pass comes first.
        front: the view of the pass before, while the next one begins and the working list begins with it; else empty.
    """

    view: tuple[Message, ...] = ()
    request: Request | None = None
    blocks: tuple[Block, ...] = ()
    calls: tuple[CallData, ...] = ()
    failure: ModelFailure | None = None
    emitted: tuple[str, ...] = ()
    unclosed: tuple[int, ...] = ()
    reply: Message | None = None
    details: str = ""
    words: tuple[str, ...] = ()
    reports: tuple[LayerReport, ...] = ()
    front: tuple[Message, ...] = ()


@frozen
class Inbox:
    """Content that waits for a safe place to go into the history.

    Attributes:
        commands: (id, message) of queued commands.
        attachments: what the providers gave for this round.
        prefetched: what prefetches brought and no round has taken yet.
        notices: warnings for the model.
        instructions: the user's words for a manual compaction.
    """

    commands: tuple[tuple[str, Message], ...] = ()
    attachments: tuple[Message, ...] = ()
    prefetched: tuple[Message, ...] = ()
    notices: tuple[str, ...] = ()
    instructions: str = ""


@frozen
class Data:
    """All that goes with the control: content, never a reason to branch.

    Attributes:
        messages: the working list.
        iteration: the pass in flight.
        context: what the context layers remember.
        inbox: content that waits.
        usage: of this run, by model.
        session_usage: of the session before this run, by model.
        terminal: how the run ended, None before.
        call_ids: ids of the calls in the working list, each between newlines: membership is one search.
    """

    messages: tuple[Message, ...]
    iteration: Iteration
    context: ContextState
    inbox: Inbox
    usage: tuple[ModelUsage, ...]
    session_usage: tuple[ModelUsage, ...]
    terminal: Terminal | None
    call_ids: str = "\n"


@frozen
class LoopState:
    """A run at rest between two events. The ten carried fields of spec 01, section 3, are its attributes."""

    control: Control
    data: Data

    @property
    def phase(self) -> Phase:
        """Where the run stands."""
        return self.control.phase

    @property
    def terminal(self) -> Terminal | None:
        """How the run ended."""
        return self.data.terminal

    @property
    def messages(self) -> tuple[Message, ...]:
        """The working list."""
        return self.data.messages

    @property
    def tool_use_context(self) -> ToolUseContext:
        """Model, permission mode, abort reason, depth and source."""
        return self.control.tool_use_context

    @property
    def auto_compact_tracking(self) -> AutoCompactTracking:
        """The compaction breaker."""
        return self.control.context.tracking

    @property
    def max_output_tokens_recovery_count(self) -> int:
        """Recoveries of cut replies in a row."""
        return self.control.guards.max_output_tokens_recovery_count

    @property
    def has_attempted_reactive_compact(self) -> bool:
        """A reactive compaction was tried since the last round."""
        return self.control.guards.has_attempted_reactive_compact

    @property
    def max_output_tokens_override(self) -> int | None:
        """Escalated output limit in tokens, or None."""
        return self.control.guards.max_output_tokens_override

    @property
    def pending_tool_use_summary(self) -> str:
        """Id of the summary in flight, or empty."""
        return self.control.queue.pending_tool_use_summary

    @property
    def stop_hook_active(self) -> bool:
        """A stop hook forced the round in hand."""
        return self.control.guards.stop_hook_active

    @property
    def turn_count(self) -> int:
        """Rounds, from 1."""
        return self.control.run.turn_count

    @property
    def transition(self) -> ContinueReason | None:
        """Why the last pass continued."""
        return self.control.run.transition


@frozen
class Rejection:
    """An input that the machine refused.

    Attributes:
        event: the kind of the event.
        phase: where the run stood.
        because: why, in words.
    """

    event: EventKind
    phase: Phase
    because: str


@frozen
class Step:
    """What one call of the reducer gives.

    Attributes:
        state: the next state; the same object when nothing changed.
        effects: what is to be performed, in order.
        taken: names of the rows taken, in order; an ignored event names its ignore.
        rejected: why the event was refused, None if it was not.
    """

    state: LoopState
    effects: tuple[Effect, ...] = ()
    taken: tuple[str, ...] = ()
    rejected: Rejection | None = None


def call_ids(messages: tuple[Message, ...]) -> str:
    """Join the ids of all calls in ``messages``, each between newlines."""
    return "\n" + "".join(block.id + "\n" for item in messages if item.role == "assistant" for block in item.calls)


def initial(config: LoopConfig, messages: tuple[Message, ...] = ()) -> LoopState:
    """Give the state before the first run of a session; ``messages`` is a history to go on from."""
    control = Control(
        phase=Phase.READY,
        run=Run(),
        tool_use_context=ToolUseContext(model=config.model),
        call=Call(),
        tools=Tools(),
        guards=Guards(),
        budget=Budget(),
        queue=Queue(),
        context=ContextFacts(),
        wait=Wait(),
        salvage=None,
        flight=(),
    )
    data = Data(
        messages=messages,
        iteration=Iteration(),
        context=ContextState(),
        inbox=Inbox(),
        usage=(),
        session_usage=(),
        terminal=None,
        call_ids=call_ids(messages),
    )
    return LoopState(control=control, data=data)
