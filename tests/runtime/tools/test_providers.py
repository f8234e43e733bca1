"""Providers give context or a warning, never an end of the run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fsm_agent.core.blocks import block_text, text_block
from fsm_agent.core.effects import GatherAttachments, PrefetchKind, StartPrefetch, SummarizeToolUse
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.usage import ModelUsage
from fsm_agent.runtime.providers import Provider, ProviderSet

pytestmark = pytest.mark.anyio


async def hangs(effect: Any) -> str:
    await anyio.sleep(1000)
    return ""


def breaks(effect: Any) -> str:
    raise KeyboardInterrupt


async def test_attachments_come_in_order_and_failures_are_warnings() -> None:
    """Texts and messages become attachments with ids from the effect; what breaks or hangs is named."""
    own_message = message("own", "user", MessageKind.ATTACHMENT, (text_block("m"),))

    async def several(effect: GatherAttachments) -> list[Any]:
        await anyio.sleep(0.01)
        return ["a", own_message, " ", f"turn {effect.turn}"]

    providers = ProviderSet(
        attachments=(
            Provider("several", several),
            Provider("hangs", hangs, timeout=0.05),
            Provider("breaks", breaks),
            Provider("nothing", lambda effect: None),
            Provider("wrong", lambda effect: [1]),
            Provider("last", lambda effect: "z"),
        )
    )
    gathered = await providers.attachments(GatherAttachments("run/attachments-1", 2))
    assert [block_text(item.blocks[0]) for item in gathered.messages] == ["a", "m", "turn 2", "z"]
    assert len({item.id for item in gathered.messages}) == 4
    assert gathered.messages[0].id == "run/attachments-1/0"
    assert [warning.split(":")[0] for warning in gathered.warnings] == ["hangs", "breaks", "wrong"]
    assert providers.has_attachments


async def test_prefetch_and_summaries() -> None:
    """Each kind asks its own providers; a summary may carry its usage; a failing one is empty."""
    usage = ModelUsage("m", 3, 4)
    providers = ProviderSet(
        memory=(Provider("memory", lambda effect: "notes"), Provider("breaks", breaks)),
        summary=Provider("summary", lambda effect: ("did things", (usage,))),
    )
    memory = await providers.prefetch(StartPrefetch("run/memory-1", PrefetchKind.MEMORY, ()))
    assert [block_text(item.blocks[0]) for item in memory.messages] == ["notes"]
    assert (await providers.prefetch(StartPrefetch("run/skills-1", PrefetchKind.SKILLS, ()))).messages == ()
    ready = await providers.summarize(SummarizeToolUse("run/summary-1", ()))
    assert (ready.text, ready.usage) == ("did things", (usage,))
    failing = ProviderSet(summary=Provider("summary", breaks))
    assert (await failing.summarize(SummarizeToolUse("run/summary-1", ()))).text == ""
    assert providers.warnings == ["breaks: KeyboardInterrupt"]
    assert failing.warnings == ["summary: KeyboardInterrupt"]
