"""The server through the official SDK: the plain case of each endpoint."""

from __future__ import annotations

import anthropic
import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import says


@pytest.mark.anyio
async def test_a_scripted_text_arrives_through_the_sdk() -> None:
    """A reply of one text is streamed by the server and put together by the official SDK."""
    with LoopbackServer([says("Hello.")]) as server:
        async with (
            anthropic.AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0) as client,
            client.beta.messages.stream(model="m", max_tokens=10, messages=[{"role": "user", "content": "hi"}]) as stream,
        ):
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["text"]
    assert message.stop_reason == "end_turn"
