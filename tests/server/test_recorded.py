"""Recorded streams and errors, served as they are and read by real clients."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.recorded import read_stream
from fsm_agent.server.replies import RawBody

from .clients import HELLO, body, post, sdk, split

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded data beside the repository is absent")


@needs_data
def test_every_recorded_stream_is_served_byte_for_byte() -> None:
    """Each recorded body arrives as the very bytes of its file."""
    recorded = [path.read_bytes() for path in sorted((DATA / "streams").glob("*.sse"))]
    assert len(recorded) == 205
    with LoopbackServer([RawBody(data) for data in recorded], strict=False, keep_bodies=False) as server:
        for data in recorded:
            _, _, got, ended = split(post(server, body()))
            assert got == data
            assert ended


@needs_data
def test_recorded_streams_are_read_as_their_index_says() -> None:
    """The server knows block types and stop reason of what it serves."""
    for line in (DATA / "streams" / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        content, reason = read_stream((DATA / "streams" / f"{entry['id']}.sse").read_bytes())
        if entry["blocks"] is not None:
            assert [block["type"] for block in content] == entry["blocks"], entry["id"]
        if entry["stop_reason"] is not None:
            assert reason == entry["stop_reason"], entry["id"]


@needs_data
@pytest.mark.anyio
async def test_every_recorded_error_reaches_the_sdk() -> None:
    """Each recorded error is raised by the SDK with its status, type and message."""
    recorded = [json.loads(path.read_text()) for path in sorted((DATA / "errors").glob("*.json"))]
    assert len(recorded) == 25

    def reply(entry: dict[str, Any]) -> RawBody:
        return RawBody(json.dumps(entry["body"]).encode(), status=entry["status"], content_type="application/json")

    with LoopbackServer([reply(entry) for entry in recorded], strict=False) as server:
        async with sdk(server) as client:
            for entry in recorded:
                with pytest.raises(anthropic.APIStatusError) as caught:
                    await client.beta.messages.create(model="m", max_tokens=10, messages=HELLO)
                assert caught.value.status_code == entry["status"]
                assert caught.value.type == entry["body"]["error"]["type"]
                assert caught.value.api_message == entry["body"]["error"]["message"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"data: {", b"data: 3\n\n", b"data: [DONE]\n\n", base64.b64decode("gIGC"), b'data: {"type":"content_block_stop"}'],
)
def test_reading_never_fails(raw: bytes) -> None:
    """Whatever the bytes, reading them gives what there is, here nothing."""
    assert read_stream(raw) == ((), None)
