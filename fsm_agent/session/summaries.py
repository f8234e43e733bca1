"""Summaries of rounds of tools, written by a small model while the next reply streams (spec 03, Session)."""

from __future__ import annotations

from contextlib import aclosing

from ..core.blocks import block_text, dumps, text_block
from ..core.effects import CallModel, SummarizeToolUse
from ..core.events import BlockCompleted, StreamCompleted, StreamFailed
from ..core.messages import MessageKind, message
from ..core.request.encode import wire_of
from ..core.tokens import estimate_text
from ..core.usage import ModelUsage, add_usage
from ..core.wire import CHAIN_START, Request
from ..runtime.compact_text import clip, part, rounds_of, transcript
from ..runtime.model_data import find_model
from ..runtime.ports import Model
from ..runtime.providers import Provider

SYSTEM = (
    "You name what an agent has just done with its tools. Answer with one line of at most twelve words in the past tense, "
    "such as: Read the parser and ran its tests. No preamble, no full sentence about yourself, no markup."
)
MAX_TOKENS = 100
MAX_INPUT = 4_000
"""Tokens of the transcript that the small model sees."""
MAX_CHARS = 200
TIMEOUT = 20.0
"""Seconds; nothing waits for a summary, but it must not outlive its use."""
_THINKING_ROOM = 2_000


class ToolSummaries:
    """Sums up rounds of tools.

    Args:
        model: performs the calls.
        name: the small model.
    """

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._name = name

    async def __call__(self, effect: SummarizeToolUse) -> tuple[str, tuple[ModelUsage, ...]]:
        """Give one line, empty if there is none, and what it used."""
        words: list[str] = []
        usage: tuple[ModelUsage, ...] = ()
        whole = False
        async with aclosing(self._model.stream(CallModel(id=f"{effect.id}/line", request=self._request(effect)))) as items:
            async for item in items:
                match item:
                    case BlockCompleted():
                        words.append(block_text(item.block))
                    case StreamCompleted():
                        usage = add_usage(usage, item.usage)
                        whole = item.stop_reason in ("end_turn", "stop_sequence", "max_tokens")
                    case StreamFailed():
                        usage = add_usage(usage, item.usage)
                    case _:
                        pass
        text = " ".join("".join(words).split())
        return (text[:MAX_CHARS] if whole else ""), usage

    def _request(self, effect: SummarizeToolUse) -> Request:
        info = find_model(self._name)
        thinks = info.thinking_default and not {"disabled", "between_tools"} & set(info.thinking)
        limit = MAX_TOKENS + (_THINKING_ROOM if thinks else 0)
        head = f'{{"model":{dumps(self._name)},"max_tokens":{limit},"stream":true,"system":{dumps(SYSTEM)}'
        if info.thinking_default and not thinks:
            head += ',"thinking":{"type":"%s"}' % ("disabled" if "disabled" in info.thinking else "between_tools")
        shown = clip(part("", transcript(rounds_of(effect.messages))), MAX_INPUT).text
        asked = message(f"{effect.id}/ask", "user", MessageKind.META, (text_block(shown),))
        return Request(
            model=self._name,
            max_tokens=limit,
            head=(head + "}").encode(),
            messages=(wire_of(asked, CHAIN_START),),
            estimate=asked.tokens + estimate_text(SYSTEM),
        )


def summary_provider(model: Model, name: str) -> Provider:
    """Make the provider of an agent's summaries."""
    return Provider("tool summary", ToolSummaries(model, name).__call__, timeout=TIMEOUT)
