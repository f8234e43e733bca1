"""The file format, version 1: JSON lines, each framed by its own CRC-32 and a chained SHA-256.

A line is ``{"crc":"8 hex digits","at":milliseconds,CORE,"chain":"64 hex digits"}``. The CRC covers everything behind
it, so each line can be judged alone: a torn tail is told from damage inside. The chain is SHA-256 over the chain of
the line before, the file's salt and CORE: a line cut out, moved or taken from another log is noticed. The wall time
``at`` stands outside the chain, since two recordings of one run differ in nothing else.

The first line is the header (sequence number 0), then come records from 1 on, and at last, if the run reached its
terminal, the end. Where a repair took damaged records out, a gap stands in their place. Later major versions keep the
framing of the header, so that every version can say what it reads.
"""

from __future__ import annotations

from attrs import frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.outputs import Terminal
from ..core.state import LoopState, Rejection

MAGIC = "fsm_agent log"
MAJOR = 1
MINOR = 1
LARGEST = 2**53
"""Numbers of a log are below it, so that each reader of JSON has them exactly, and none of them loops for ages."""


@frozen
class Parent:
    """Where a log continues from.

    Attributes:
        log: the other log, relative to the folder of this one.
        seq: the last of its records that counts; 0 for the state before the first.
        chain: chain of that record.
        behind: records that a reader folds to get there, those of that log's own parents included.
    """

    log: str
    seq: int
    chain: str
    behind: int = 0


@frozen
class Header:
    """The first line of a log.

    Attributes:
        magic: says that it is a log.
        major: format version; a reader refuses a greater one.
        minor: a reader passes over the fields that a greater one added.
        package: version of the package that wrote it.
        table: digest of the transition table.
        session: session id.
        run: run id.
        salt: random hex digits of this file.
        config: the configuration.
        state: the state before the first record; None if it follows from the parent.
        parent: the log that this one continues, None for a log of its own.
        caller: for a sub-agent, the id of the effect of the run that started it.
        begin: digest of the state before the first record, where that follows from the parent.
        snapshot: the blob that holds that state, so that the parents need not be folded; empty for most logs.
        reducer: version of the reducer that wrote it; logs of format 1.0 do not say it, and are of version 1.
    """

    magic: str
    major: int
    minor: int
    package: str
    table: str
    session: str
    run: str
    salt: str
    config: LoopConfig
    state: LoopState | None = None
    parent: Parent | None = None
    caller: str = ""
    begin: str = ""
    snapshot: str = ""
    reducer: int = 1


@frozen
class Record:
    """One step.

    Attributes:
        seq: sequence number, from 1.
        at: wall time in milliseconds since 1970, outside all digests.
        event: what happened.
        taken: names of the rows taken.
        rejected: why the event was refused, None if it was not.
        effects: digest of the effects, empty if there were none.
        sketch: one line for each effect, to name what differs.
        state: digest of the state behind this step, empty for most records.
        chain: SHA-256 that names the log up to here.
        snapshot: the blob that holds the whole state behind this step, empty for most records.
    """

    seq: int
    at: int
    event: Event
    taken: tuple[str, ...]
    rejected: Rejection | None
    effects: str
    sketch: tuple[str, ...]
    state: str
    chain: str
    snapshot: str = ""


@frozen
class Gap:
    """Damaged records that a repair took out; what they held is not known.

    Attributes:
        seq: the first record that is missing.
        to: the last one.
        because: what was wrong with it, in words.
        kept: file name of the log as it was before the repair.
        next: chain of the record behind the gap, empty if there is none.
        chain: SHA-256 that names the log up to here.
    """

    seq: int
    to: int
    because: str
    kept: str
    next: str = ""
    chain: str = ""

    @property
    def words(self) -> str:
        """Which records are missing, such as ``record 12 is missing``."""
        return f"{records_are(self.seq, self.to)} missing"

    @property
    def written(self) -> None:
        """There is no event to be decoded."""
        return None


@frozen
class End:
    """The closing record of a run that reached its terminal.

    Attributes:
        seq: sequence number.
        at: wall time in milliseconds since 1970.
        terminal: how the run ended.
        state: digest of the last state.
    """

    seq: int
    at: int
    terminal: Terminal
    state: str


@frozen
class Tail:
    """How a log ends.

    Attributes:
        records: number of the last record, header and end not counted.
        torn: the last line was cut off while it was written; if it was a record, its effects were never performed.
        offset: where the whole part ends, in bytes from the start.
        end: the closing record, None if the run has none (it is on, or its process died).
        chain: chain of the last whole line, in hex.
    """

    records: int
    torn: bool
    offset: int
    end: End | None
    chain: str


@frozen
class Place:
    """A record from behind which a log can be read.

    Attributes:
        seq: its number.
        offset: where the line behind it begins, in bytes from the start.
        chain: its chain, in hex; that it is the right one is for another reader to say.
    """

    seq: int
    offset: int
    chain: bytes


def records_are(seq: int, to: int) -> str:
    """Give the beginning of a sentence about some records."""
    return f"record {seq} is" if seq == to else f"records {seq} to {to} are"
