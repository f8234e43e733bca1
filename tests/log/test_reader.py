"""The reader: every changed bit is noticed and named, every cut is judged, bad files give one clear sentence."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zlib
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.log.errors import LogDamaged, LogError, LogUnreadable
from fsm_agent.log.format import MINOR, Tail
from fsm_agent.log.framing import START, seal
from fsm_agent.log.reader import read_log

from . import toy


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("log") / "run.log"
    toy.write(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


def read(path: Path, data: bytes) -> Tail:
    path.write_bytes(data)
    return read_log(path).tail


def test_a_log_reads_back_as_written(path: Path) -> None:
    """Events, rows, refusals and the end come back in order, with the header's config and state."""
    toy.write(path)
    log = read_log(path)
    records = list(log.records())
    assert tuple(record.event for record in records) == toy.EVENTS
    assert [record.seq for record in records] == list(range(1, len(toy.EVENTS) + 1))
    assert records[7].rejected is not None
    assert records[0].sketch[0].startswith("call_model ")
    assert (log.header.config, log.header.session, log.header.run) == (toy.CONFIG, "session-1", "r")
    assert log.created == 1_700_000_000_000
    assert records[0].at == log.created + 7


def _flip(path: Path, whole: bytes, places: range) -> None:
    """Flip each bit of the bytes at ``places`` and expect the record that they are in to be named."""
    ends = list(accumulate(len(line) for line in whole.splitlines(keepends=True)))
    path.write_bytes(whole)
    with path.open("r+b", buffering=0) as file:
        for place in places:
            inside = sum(end <= place for end in ends)
            for bit in range(8):
                os.pwrite(file.fileno(), bytes((whole[place] ^ 1 << bit,)), place)
                with pytest.raises(LogDamaged) as caught:
                    _ = read_log(path).tail
                assert caught.value.seq == inside, (place, bit)
            os.pwrite(file.fileno(), whole[place : place + 1], place)


@pytest.mark.slow
def test_every_flipped_bit_is_noticed_and_its_record_named(path: Path) -> None:
    """Each single flipped bit of a log of 50,000 bits, newlines included, is an error that names the record it is in."""
    toy.write(path, (*toy.EVENTS[:-1], *toy.EVENTS[1:3], toy.EVENTS[-1]))
    whole = path.read_bytes()
    assert 8 * len(whole) >= 50_000
    _flip(path, whole, range(len(whole)))


@pytest.mark.slow
def test_every_cut_of_a_log_with_damage_inside(path: Path) -> None:
    """A torn tail never hides damage before it: of a log with one bad record, every cut behind that is called damaged."""
    toy.write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"block", b"blocK", 1)
    whole = b"".join(lines)
    bad = sum(map(len, lines[:4]))
    path.write_bytes(whole)
    for size in reversed(range(len(lines[0]), len(whole))):
        os.truncate(path, size)
        if size >= bad:
            with pytest.raises(LogDamaged) as caught:
                _ = read_log(path).tail
            assert caught.value.seq == 3
        else:
            assert read_log(path).tail.records <= 2


def test_flipped_bits_are_noticed_and_their_record_named(path: Path, whole: bytes) -> None:
    """Flipped bits all over a log of every kind of record are errors that name the record they are in."""
    _flip(path, whole, range(0, len(whole), 101))
    lines = whole.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        seam = sum(map(len, lines[:count]))
        _flip(path, whole, range(seam - 1, seam))


def test_every_cut_is_judged(path: Path) -> None:
    """A cut between lines leaves a whole log, a cut inside a line a torn one that loses that line only."""
    toy.write(path, (toy.EVENTS[4], toy.EVENTS[-1]))
    whole = path.read_bytes()
    ends = list(accumulate(len(line) for line in whole.splitlines(keepends=True)))
    for size in reversed(range(len(whole))):
        os.truncate(path, size)
        if size < ends[0]:
            with pytest.raises(LogUnreadable):
                read_log(path)
            continue
        tail = read_log(path).tail
        kept = max(end for end in ends if end <= size)
        assert (tail.torn, tail.offset) == (size not in ends, kept)
        assert tail.records == ends.index(kept)
        assert tail.end is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_spoiled_log_never_says_something_else(path: Path, whole: bytes, data: st.DataObject) -> None:
    """Bytes cut out, put in, copied about: a log is refused by a ``LogError``, or gives the first of its true events."""
    here = st.integers(0, len(whole))
    start, end = sorted((data.draw(here), data.draw(here)))
    piece = data.draw(st.one_of(st.binary(max_size=20), st.tuples(here, here).map(lambda span: whole[min(span) : max(span)])))
    path.write_bytes(whole[:start] + piece + whole[end:])
    events = []
    with contextlib.suppress(LogError):
        for record in read_log(path).records():
            events.append(record.event)
    assert tuple(events) == toy.EVENTS[: len(events)]


def test_a_torn_tail_of_nul_bytes_is_torn(path: Path, whole: bytes) -> None:
    """Zeros that a power cut left behind the last whole line count as torn."""
    body = whole[: whole.rindex(START)]
    assert read(path, body + bytes(300)).torn


def test_lines_moved_removed_or_doubled_are_noticed(path: Path, whole: bytes) -> None:
    """Whole lines in the wrong place are named, though each is intact."""
    lines = whole.splitlines(keepends=True)
    orders = {
        "removed": [*lines[:3], *lines[4:]],
        "swapped": [*lines[:3], lines[4], lines[3], *lines[5:]],
        "doubled": [*lines[:3], lines[2], *lines[3:]],
        "behind the end": [*lines, lines[-1]],
    }
    for what, order in orders.items():
        with pytest.raises(LogDamaged) as caught:
            read(path, b"".join(order))
        assert caught.value.seq == (len(lines) if what == "behind the end" else 3), what


def test_a_record_of_another_log_is_noticed(path: Path, tmp_path: Path, whole: bytes) -> None:
    """A record of another recording of the same run has another salt and does not fit in."""
    toy.write(tmp_path / "other.log")
    other = (tmp_path / "other.log").read_bytes().splitlines(keepends=True)
    lines = whole.splitlines(keepends=True)
    with pytest.raises(LogDamaged, match="record 4 does not continue"):
        read(path, b"".join([*lines[:4], other[4], *lines[5:]]))


def test_an_event_of_an_unknown_kind_is_named(path: Path, whole: bytes) -> None:
    """A well-framed record that this version cannot read is refused with its number, not passed over."""
    lines = whole.splitlines(keepends=True)
    header = json.loads(lines[0])
    line, _ = seal(b'"seq":1,"event":{"is":"teleported"}', 0, header["chain"].encode(), header["salt"].encode())
    with pytest.raises(LogDamaged, match=r"record 1 cannot be read.*teleported"):
        read(path, lines[0] + line)


def _with_header(whole: bytes, **fields: object) -> bytes:
    """A log that holds one record, under a header with some fields changed and its framing right."""
    value = {**json.loads(whole.splitlines()[0]), **fields}
    core = {key: part for key, part in value.items() if key not in ("crc", "at", "chain")}
    text = json.dumps(core, ensure_ascii=False, separators=(",", ":")).encode()[1:-1]
    first, chain = seal(text, value["at"], b"", str(value["salt"]).encode())
    record, _ = seal(
        b'"seq":1,"later":1,"event":{"is":"timer_fired","id":"a","later":1}', 0, chain, str(value["salt"]).encode()
    )
    return first + record


def test_a_newer_format_is_refused_with_what_to_do(path: Path, whole: bytes) -> None:
    """A newer major version is one sentence that names both versions and says what to do."""
    with pytest.raises(LogUnreadable, match=r"format 2, written by fsm_agent 9\.0, is newer than 1: upgrade"):
        read(path, _with_header(whole, major=2, package="9.0", shape="unknown"))


def test_a_newer_minor_version_is_read(path: Path, whole: bytes) -> None:
    """Fields that a newer minor version added are passed over; in the same version they are an error."""
    assert read(path, _with_header(whole, minor=MINOR + 1, more="x")).records == 1
    with pytest.raises(LogDamaged, match="'more'"):
        read(path, _with_header(whole, more="x"))
    with pytest.raises(LogDamaged, match="record 1 has unknown fields: later"):
        read(path, _with_header(whole))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\n", "not a log"),
        (b"hello\n", "not a log"),
        (b'{"type":"user"}\n', "not a log"),
        (bytes(1000), "not a log"),
        (b"\xff\xfe\x00\n", "not a log"),
    ],
)
def test_what_is_no_log_gives_one_sentence(path: Path, data: bytes, said: str) -> None:
    """An empty file and foreign files are refused by one sentence that names the file."""
    with pytest.raises(LogUnreadable, match=said) as caught:
        read(path, data)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_framed_json_that_is_no_header_is_no_log(path: Path) -> None:
    """A line with a right checksum that says something else is no log."""
    body = b'"at":1,"x":1,"chain":"%s"}' % (b"0" * 64)
    with pytest.raises(LogError, match="not a log"):
        read(path, b'%b%08x",%b\n' % (START, zlib.crc32(body), body))


def test_missing_files_and_directories_are_os_errors(tmp_path: Path) -> None:
    """A path that cannot be read is an ``OSError`` with the name, as everywhere in Python."""
    for place in (tmp_path / "none.log", tmp_path):
        with pytest.raises(OSError, match=place.name):
            read_log(place)


def test_an_endless_file_is_refused_at_its_beginning() -> None:
    """A device without an end is refused as no log instead of being read for ever."""
    with pytest.raises(LogUnreadable, match="not a log"):
        read_log("/dev/zero")


def test_reading_loads_neither_table_nor_sdk() -> None:
    """Listing and showing logs starts quickly: neither the rows, the reducer nor the SDK are imported for it."""
    script = (
        "import sys, fsm_agent.log.reader, fsm_agent.log.journal, fsm_agent.log.replay\n"
        "print([name for name in sys.modules if name.startswith(('anthropic', 'fsm_agent.core.rows', 'fsm_agent.core.step',"
        " 'fsm_agent.runtime', 'importlib.metadata'))])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
