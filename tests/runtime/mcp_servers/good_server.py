"""A real server, made with the official package; ``python good_server.py [http|sse PORT [json]]``."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("good", version="1")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def wait(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "waited"


@server.tool()
def fail(words: str) -> str:
    """Fail."""
    raise ValueError(words)


@server.tool(structured_output=False)
def media() -> list[Any]:
    """Give a text, an image, and an image that is none."""
    return [
        TextContent(type="text", text="see"),
        ImageContent(type="image", data=PIXEL, mime_type="image/gif"),
        ImageContent(type="image", data="AAAA", mime_type="image/png"),
    ]


@server.tool()
def environment(name: str) -> str:
    """Give a variable."""
    return os.environ.get(name, "(unset)")


@server.tool()
def pid() -> str:
    """Give the server's process id."""
    return str(os.getpid())


class Choice(BaseModel):
    """What is asked for."""

    sure: bool


@server.tool()
async def ask(context: Context[Any, Any]) -> str:
    """Ask the user."""
    answer = await context.elicit("Are you sure?", Choice)
    return f"the user said {answer.action}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]), json_response="json" in sys.argv)
    elif sys.argv[1:2] == ["sse"]:
        server.run("sse", port=int(sys.argv[2]))
    else:
        server.run()
