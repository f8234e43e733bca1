"""A conversation as it is shown: Markdown as it streams, calls with their diffs, results in brief."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.blocks import block_value
from ...core.outputs import (
    AssistantOutput,
    BlockOutput,
    CallEnd,
    Ending,
    InitOutput,
    Notice,
    Output,
    RequestStart,
    ResultOutput,
    TerminalOutput,
    TextDelta,
)
from ..console import Paint, clean
from ..text_view import TextView
from .diffs import diff_lines
from .markdown import Pieces, lay_out


class ChatView:
    """Turns outputs into text for the terminal.

    Args:
        paint: colours.
        width: gives the columns of the terminal.
    """

    def __init__(self, paint: Paint, width: Callable[[], int]) -> None:
        self._paint = paint
        self._width = width
        self._text = TextView(paint, thinking=False)
        self._pieces = Pieces()
        self._streamed: set[tuple[str, int]] = set()

    @property
    def tail(self) -> str:
        """Text of the reply that is not laid out yet."""
        return clean(self._pieces.tail)

    def show(self, output: Output) -> str:
        """Give the text of one output."""
        match output:
            case TextDelta():
                self._streamed.add((output.call, output.index))
                self._text.saw(output.call)
                return self.markdown(self._pieces.feed(output.text))
            case BlockOutput() if output.block.type == "text":
                self._text.saw(output.call)
                if (output.call, output.index) in self._streamed:
                    return self.markdown(self._pieces.finish())
                return self.markdown(str(block_value(output.block).get("text", "")))
            case BlockOutput() if output.block.type == "tool_use":
                return self._flush() + self._text.show(output) + self._diff(output)
            case CallEnd(ending=Ending.DISCARDED):
                self._pieces.finish()
                return self._text.show(output)
            case InitOutput() | RequestStart() | AssistantOutput() | TerminalOutput() | ResultOutput() | CallEnd():
                return ""
            case Notice() if "\n" in output.text:
                return self._flush() + self.markdown(output.text)
            case _:
                return self._flush() + self._text.show(output)

    def end(self, result: Mapping[str, Any]) -> str:
        """Give what is left."""
        return self._flush()

    def markdown(self, text: str) -> str:
        """Lay out Markdown, with a blank line behind it."""
        if not text.strip():
            return ""
        return lay_out(clean(text), width=self._width(), colours=self._paint.on) + "\n"

    def _flush(self) -> str:
        return self.markdown(self._pieces.finish())

    def _diff(self, output: BlockOutput) -> str:
        given = block_value(output.block).get("input")
        lines = diff_lines(output.block.name, given, self._paint) if isinstance(given, Mapping) else []
        return "".join(f"{line}\n" for line in lines)
