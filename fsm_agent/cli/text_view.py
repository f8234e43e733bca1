"""A run as a person watches it: text as it streams, calls and results in brief."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.blocks import Block, block_value
from ..core.messages import MessageKind
from ..core.outputs import (
    BlockOutput,
    Boundary,
    CallEnd,
    Ending,
    ErrorOutput,
    Notice,
    Output,
    RejectedOutput,
    RequestStart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolResult,
    ToolUseSummary,
    UserOutput,
)
from .console import Paint, clean, one_line

_SHOWN_LINES = 6
_LINE_CHARS = 110


class TextView:
    """Shows a run.

    Args:
        paint: colours.
        plain: ASCII signs only.
        thinking: show thinking too.
    """

    def __init__(self, paint: Paint, *, plain: bool = False, thinking: bool = True) -> None:
        self._paint = paint
        self._thinking = thinking
        self._call_sign, self._result_sign = ("*", "->") if plain else ("●", "⎿")
        self._open = ""
        self._streamed: set[tuple[str, int]] = set()
        self._calls = 0
        self._last_call = ""
        self._seen = ""

    def show(self, output: Output) -> str:
        """Give the text of one output."""
        match output:
            case TextDelta():
                return self._stream("text", output.call, output.index, output.text)
            case ThinkingDelta():
                return self._stream("thinking", output.call, output.index, output.text) if self._thinking else ""
            case BlockOutput():
                return self._block(output)
            case ToolResult():
                return self._result(output)
            case RequestStart():
                self._calls += 1
                return self._line(self._paint(f"model call {self._calls} ({output.model})", dim=True), gap=self._calls > 1)
            case CallEnd(ending=Ending.DISCARDED) if output.call == self._seen:
                return self._line(self._paint("(this reply was discarded)", "yellow"))
            case UserOutput():
                return self._user(output)
            case _:
                return self._others(output)

    def saw(self, call: str) -> None:
        """Note that something of this model call was shown; only then is it said that its reply was discarded."""
        self._seen = call

    def end(self, result: Mapping[str, Any]) -> str:
        """End the line that is open."""
        return self._close()

    def _others(self, output: Output) -> str:
        match output:
            case Retrying():
                why = f"{output.failure.kind.value}: {output.failure.message}".rstrip(": ")
                text = (
                    f"attempt {output.attempt} of {output.max_attempts} failed ({why}); again in {output.delay_ms / 1000:g} s"
                )
                return self._line(self._paint(one_line(text, 300), "yellow"))
            case Boundary():
                sizes = "" if output.after < 0 else f": {output.before} -> {output.after} tokens"
                return self._line(
                    self._paint(f"[{output.kind}, {output.trigger}{sizes}] {one_line(output.detail)}".rstrip(), "cyan")
                )
            case Notice():
                return self._line(
                    self._paint(one_line(output.text, 300), "yellow" if output.level == "warning" else None, dim=True)
                )
            case ErrorOutput():
                words = f"error, {output.failure.kind.value}: {output.failure.message}"
                return self._line(self._paint(one_line(words, 300), "red"))
            case RejectedOutput():
                return self._line(self._paint(f"{output.event} was rejected in {output.phase}: {output.because}", "yellow"))
            case ToolProgress():
                return self._line("  " + self._paint(one_line(output.text), dim=True))
            case ToolUseSummary():
                return self._line(self._paint(one_line(output.text, 300), dim=True))
            case _:
                return ""

    def _close(self) -> str:
        """End an open line."""
        was, self._open = self._open, ""
        return "\n" if was else ""

    def _line(self, text: str, *, gap: bool = False) -> str:
        return self._close() + ("\n" if gap else "") + text + "\n"

    def _stream(self, kind: str, call: str, index: int, text: str) -> str:
        key = f"{call} {index}"
        before = self._close() if self._open not in ("", key) else ""
        self._open = key
        self._streamed.add((call, index))
        self.saw(call)
        shown = clean(text)
        return before + (self._paint(shown, dim=True) if kind == "thinking" else shown)

    def _block(self, output: BlockOutput) -> str:
        block = output.block
        if block.type == "thinking" and not self._thinking:
            return self._close()
        self.saw(output.call)
        if block.type == "tool_use":
            self._last_call = block.id
            return self._line(self._call(block))
        if block.type == "text" and (output.call, output.index) not in self._streamed:
            return self._line(clean(str(block_value(block).get("text", ""))))
        if block.type in ("text", "thinking", "redacted_thinking"):
            return self._close()
        return self._line(self._paint(f"[{one_line(block.type)}]", dim=True))

    def _call(self, block: Block) -> str:
        value = block_value(block)
        given = value.get("input")
        parts = [f"{name}={_brief(item)}" for name, item in given.items()] if isinstance(given, dict) else []
        inside = one_line(", ".join(parts), _LINE_CHARS)
        return f"{self._paint(self._call_sign, 'green')} {self._paint(one_line(block.name), bold=True)}({inside})"

    def _result(self, output: ToolResult) -> str:
        lines = [clean(line) for line in result_text(output.block).splitlines()] or ["(no output)"]
        if output.block.id != self._last_call:  # another call was shown last
            lines[0] = f"{one_line(output.name)}: {lines[0].lstrip()}"
        kept = lines if len(lines) <= _SHOWN_LINES + 1 else lines[:_SHOWN_LINES]
        shown = [line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…" for line in kept]
        if len(lines) > len(kept):
            shown.append(f"({len(lines) - len(kept)} more lines)")
        colour = "red" if output.block.is_error else None
        first, *rest = (self._paint(line, colour, dim=not output.block.is_error) for line in shown)
        head = f"  {self._paint(self._result_sign, colour, dim=True)} {first}"
        space = " " * (3 + len(self._result_sign))
        return self._line("\n".join([head, *(space + line for line in rest)]))

    def _user(self, output: UserOutput) -> str:
        message = output.message
        if message.kind is MessageKind.TOOL_RESULTS:
            return ""
        words = " ".join(str(block_value(block).get("text", f"[{block.type}]")) for block in message.blocks)
        return self._line(self._paint(f"> {one_line(words, _LINE_CHARS)}", "blue"))


def _brief(value: Any) -> str:
    short = value[:57] + "…" if isinstance(value, str) and len(value) > 60 else value
    return json.dumps(short, ensure_ascii=False)


def result_text(block: Block) -> str:
    """Give the text of a tool result; other parts of it are named."""
    content = block_value(block).get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts if isinstance(part, dict))
