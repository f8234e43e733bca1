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

from hashlib import sha256
from zlib import crc32

from attrs import frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.outputs import Terminal
from ..core.state import LoopState, Rejection

MAGIC = "fsm_agent log"
MAJOR = 1
MINOR = 1

START = b'{"crc":"'
_BODY = 18
"""Offset of what the CRC covers: behind the start, eight digits, a quote and a comma."""
_CORE = _BODY + len('"at":')
_TAIL = len(',"chain":"') + 64 + len('"}\n')
_ZERO = ord("0")
_DIGITS = 15
"""Digits of a wall time that is told to be one at a glance; longer ones are looked at in full."""
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


def records_are(seq: int, to: int) -> str:
    """Give the beginning of a sentence about some records."""
    return f"record {seq} is" if seq == to else f"records {seq} to {to} are"


def seal(core: bytes, at: int, previous: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Frame one line.

    Args:
        core: the line's own fields, without braces.
        at: wall time in milliseconds since 1970.
        previous: chain of the line before, empty for the header.
        salt: the file's salt.

    Returns:
        The line with its newline, and its chain.
    """
    chain = sha256(previous + salt + core).hexdigest().encode()
    body = b'"at":%d,%b,"chain":"%b"}' % (at, core, chain)
    return b'%b%08x",%b\n' % (START, crc32(body), body), chain


def is_whole(line: bytes) -> bool:
    """Say whether a line with its newline is framed and its CRC is right."""
    return line[:8] == START and line[16:_BODY] == b'",' and b"%08x" % crc32(line[_BODY:-1]) == line[8:16]


def chain_of(line: bytes, previous: bytes, salt: bytes) -> bytes | None:
    """Give the chain of a whole line, or None if it does not continue ``previous``."""
    core = line[line.find(b",", _CORE) + 1 : -_TAIL]
    chain = sha256(previous + salt + core).hexdigest().encode()
    return chain if line[-67:-3] == chain else None


def follows(line: bytes, seq: int, before: bytes) -> tuple[bytes, bytes, int] | None:
    """Look at a line as most are, all at once: a whole record of a step that continues what stands before it.

    Args:
        line: the line with its newline.
        seq: the number that it must have.
        before: chain of the line before, and the salt.

    Returns:
        Its chain, its core, and where in that the event begins; None if it is anything else, good or bad.
    """
    if line[:_BODY] != b'%b%08x",' % (START, crc32(line[_BODY:-1])):
        return None
    comma = line.find(b",", _CORE)
    if not line[_CORE:comma].isdigit() or comma - _CORE > _DIGITS or line[_CORE] == _ZERO:
        return None
    core = line[comma + 1 : -_TAIL]
    chain = sha256(before + core).hexdigest().encode()
    start = b'"seq":%d,"event":' % seq
    return (chain, core, len(start)) if line[-67:-3] == chain and core.startswith(start) else None


def stated_chain(line: bytes) -> bytes:
    """Give the chain that a whole line states of itself."""
    return line[-67:-3]
