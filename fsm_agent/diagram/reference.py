"""Reference pages made from the declaration: the table by phase, and what each ending means (spec 01, 04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..core.events import EVENT_KINDS
from ..core.phases import SUCCESS, TERMINAL_SET, TRANSIENT, Cause, Phase, TerminalReason
from ..core.rows import TABLE
from ..core.table import Ignore, Reject, Row, Table

_MADE = "<!-- Made from the declared table by docs/regenerate.py; not to be edited. -->"
_WAITS: Mapping[Phase, str] = {
    Phase.READY: "Waits for a prompt.",
    Phase.PREPARING: "Never rests: runs the context layers, then decides whether to compact, to call the model, or to end.",
    Phase.COMPACTING: "Waits for the summary of the history.",
    Phase.CALLING_MODEL: "Waits for the events of the stream; calls that may start early end here too.",
    Phase.BACKING_OFF: "Waits for the timer before another attempt.",
    Phase.DECIDING: "Never rests: the first row that holds decides what becomes of the attempt.",
    Phase.REACTIVE_COMPACTING: "Waits for the summary that the API's refusal asked for.",
    Phase.RUNNING_TOOLS: "Waits for the calls that are not yet answered.",
    Phase.GATHERING_ATTACHMENTS: "Waits for what goes in with the results.",
    Phase.RUNNING_STOP_HOOKS: "Waits for the stop hooks.",
}


class Meaning(Protocol):
    """What one ending means to the one who ran it."""

    @property
    def exit_code(self) -> int:
        """Of the process."""

    @property
    def subtype(self) -> str:
        """Of the result object."""

    @property
    def advice(self) -> str:
        """What to do, one sentence."""


def table_page(table: Table = TABLE) -> str:
    """Write the reference of the table in Markdown.

    Args:
        table: the declaration.

    Returns:
        The page, ended by a newline.
    """
    returned = len([phase for phase in Phase if phase not in TRANSIENT])
    filled = len({(row.source, row.event) for row in table.rows if row.source not in TRANSIENT and row.event.value != "auto"})
    lines = [
        _MADE,
        "",
        "# The declared table",
        "",
        f"{len(table.rows)} rows, each one edge of the machine, one unit of coverage and one name in the log. Of the "
        f"{returned * len(EVENT_KINDS)} cells of (phase that may be returned, event), {filled} have rows, "
        f"{len(table.ignores)} ignore and {len(table.rejects)} reject; none is blank.",
        "",
        "Within one phase and event the rows are a first-match list: a row is taken where its guard holds and none before "
        "it does. `auto` rows need no event: they are taken in the same step, as soon as they hold.",
        "",
        "An answer is classed by its id before the lookup: in flight, it goes to the table; issued earlier, it is `stale` "
        "and changes nothing; never issued, it is rejected.",
    ]
    for phase in Phase:
        if phase not in TERMINAL_SET:
            lines += _phase(phase, table)
    lines += ["", "## The ten terminal phases", "", "Nothing follows them.", ""]
    lines += _refusals(tuple(entry for entry in table.rejects if entry.source in TERMINAL_SET), "rejects")
    return "\n".join([*lines, ""])


def _phase(phase: Phase, table: Table) -> list[str]:
    rows = [row for row in table.rows if row.source is phase]
    lines = ["", f"## `{phase}`", "", _WAITS[phase], ""]
    lines += [f"On entering: {entry.text}\n" for entry in table.entries if entry.phase is phase]
    lines += ["| row | event | guard | to | reason | what it is |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(row) for row in rows]
    for word, blanks in (("ignores", table.ignores), ("rejects", table.rejects)):
        here = tuple(entry for entry in blanks if entry.source is phase)
        if here:
            lines += ["", *_refusals(here, word)]
    return lines


def _line(row: Row) -> str:
    guard = f"`{row.guard.name}`" if row.guard is not None and row.guard.name != "always" else ""
    target = "stays" if row.target is row.source else f"`{row.target}`"
    reason = "" if row.reason is None else f"{row.kind}: `{row.reason}`"
    if row.causes:
        reason += " (" + ", ".join(row.causes) + ")"
    return f"| `{row.name}` | `{row.event}` | {guard} | {target} | {reason} | {_cell(row.text)} |"


def _refusals(entries: Sequence[Ignore | Reject], word: str) -> list[str]:
    """Sum up blank cells by their reason."""
    reasons: dict[str, dict[str, None]] = {}
    for entry in entries:
        reasons.setdefault(entry.because, {})[entry.event.value] = None
    return [f"- {word} {', '.join(f'`{event}`' for event in events)}: {because}." for because, events in reasons.items()]


def terminals_page(endings: Mapping[tuple[TerminalReason, Cause], Meaning]) -> str:
    """Write the reference of the endings in Markdown.

    Args:
        endings: what each (reason, cause) means.

    Returns:
        The page, ended by a newline.
    """
    lines = [
        "<!-- Made from the table of endings by docs/regenerate.py; not to be edited. -->",
        "",
        "# How a run ends",
        "",
        "Each run ends once, with one reason and one cause. Only the causes in bold are a success.",
        "",
        "| reason | cause | exit code | subtype of the result | what to do |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (reason, cause), meaning in endings.items():
        good = reason is TerminalReason.COMPLETED and cause in SUCCESS
        shown = f"**`{cause}`**" if good else f"`{cause}`"
        lines.append(f"| `{reason}` | {shown} | {meaning.exit_code} | `{meaning.subtype}` | {_cell(meaning.advice)} |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
