"""Large content, stored states, gaps, links between logs: what keeps a log small, and whole after damage."""

from __future__ import annotations

import json
import os
import tracemalloc
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from build import looks_inside

from fsm_agent.core.blocks import text_block, tool_result
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.events import Event, Outcome, TimerFired, ToolFinished
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.step import next_run, step
from fsm_agent.log import journal as journal_module
from fsm_agent.log import snapshots
from fsm_agent.log.blobs import LARGE, folder_of
from fsm_agent.log.digest import state_digest, table_digest
from fsm_agent.log.errors import CodecError, LogDamaged, LogError, LogGap, StateTooLarge
from fsm_agent.log.files import SyncPolicy
from fsm_agent.log.fork import fork
from fsm_agent.log.format import Gap
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.repair import Repaired, repair
from fsm_agent.log.replay import begin_state, replay
from fsm_agent.log.resume import reopen, stand
from fsm_agent.log.snapshots import MOST_PACKED, SMALL_TEXT, pack, unpack
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import catalog, load

from . import toy
from .forging import forge, parent

PICTURE = "iVBOR" + 'é\u2028\\"' * LARGE
"""A large text with all that needs care in JSON."""


def big(count: int) -> tuple[Event, ...]:
    """Events that hold the same large content so many times."""
    result = ToolFinished("r/tool-2", Outcome.OK, tool_result("t1", PICTURE), "cd")
    return (*toy.EVENTS[:6], *[result] * count)


# -- large content ----------------------------------------------------------------------------------------------------


def test_large_content_is_stored_once_beside_the_log(tmp_path: Path) -> None:
    """The log holds a reference, the same content is one file for its owner only, and events read back exactly."""
    path = tmp_path / "run.log"
    toy.write(path, big(5))
    assert path.stat().st_size < 12_000
    stored = list(folder_of(path).iterdir())
    assert len(stored) == 1
    assert oct(stored[0].stat().st_mode & 0o777) == "0o600"
    assert oct(folder_of(path).stat().st_mode & 0o777) == "0o700"
    assert tuple(record.event for record in read_log(path).records()) == big(5)
    assert replay(path, check_table=False, reducer=toy.step).divergence is None


def test_no_folder_without_large_content(tmp_path: Path) -> None:
    """An ordinary log is one file."""
    toy.write(tmp_path / "run.log")
    assert [place.name for place in tmp_path.iterdir()] == ["run.log"]


@pytest.mark.parametrize("how", ["missing", "changed", "shorter"])
def test_a_blob_that_is_not_what_was_stored_is_named(tmp_path: Path, how: str) -> None:
    """A missing or damaged blob is an error that names the record and the blob; the records before it read."""
    path = tmp_path / "run.log"
    toy.write(path, big(1))
    (blob,) = folder_of(path).iterdir()
    data = blob.read_bytes()
    if how == "missing":
        blob.unlink()
    else:
        blob.write_bytes(data[:-1] if how == "shorter" else data.replace(b"iVBOR", b"iVBOS", 1))
    with pytest.raises(LogDamaged, match=f"record 7 needs the blob {blob.name}") as caught:
        _ = read_log(path).tail
    assert caught.value.seq == 7
    assert replay(path, 6, check_table=False, reducer=toy.step).steps == 6


def test_a_spoiled_blob_is_stored_anew(tmp_path: Path) -> None:
    """Content is compared, not only named, before it is taken for stored."""
    path = tmp_path / "run.log"
    state = toy.write(path, big(1), close=False)
    (blob,) = folder_of(path).iterdir()
    blob.write_bytes(b"x")
    opened = Journal.create(tmp_path / "other.log", toy.CONFIG, state, "s", "r", table=toy.TABLE)
    opened.release()
    again = BlobsOf(path)
    again.put()
    assert tuple(record.event for record in read_log(path).records()) == big(1)


class BlobsOf:
    """Stores the large text once more."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self) -> None:
        from fsm_agent.log.blobs import BlobStore

        BlobStore(self.path).put(tool_result("t1", PICTURE).json.encode(), sync=False)


def test_a_large_history_in_a_header(tmp_path: Path) -> None:
    """A log that begins with a large history keeps its large texts beside it too."""
    path = tmp_path / "run.log"
    state = initial(toy.CONFIG, (message("m", "user", MessageKind.PROMPT, (text_block(PICTURE),)),))
    Journal.create(path, toy.CONFIG, state, "s", "r", table=toy.TABLE).release()
    assert path.stat().st_size < 8_000
    assert read_log(path).header.state == state


def test_a_full_disk_while_a_blob_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If large content cannot be stored the record is not written, the log stays whole, and nothing follows."""
    path = tmp_path / "run.log"
    state = initial(toy.CONFIG)
    opened = Journal.create(path, toy.CONFIG, state, "s", "r", table=toy.TABLE)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fsm_agent.log.blobs.write_new", full)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            opened.append(big(1)[-1], toy.step(state, big(1)[-1], toy.CONFIG), sync=False)
    opened.close(state)
    tail = read_log(path).tail
    assert (tail.records, tail.torn) == (0, False)
    assert list(folder_of(path).iterdir()) == []


# -- policy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "asked", "forced"),
    [("always", False, True), ("always", True, True), ("tools", False, False), ("tools", True, True), ("never", True, False)],
)
def test_the_policy_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, asked: bool, forced: bool
) -> None:
    """``always`` forces each record to disk, ``tools`` what is asked for, ``never`` nothing."""
    state = initial(toy.CONFIG)
    opened = Journal.create(tmp_path / "run.log", toy.CONFIG, state, "s", "r", table=toy.TABLE, policy=SyncPolicy(policy))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    opened.append(TimerFired("r/timer-3"), toy.step(state, TimerFired("r/timer-3"), toy.CONFIG), sync=asked)
    assert bool(synced) is forced
    opened.release()


def test_the_name_of_a_new_log_is_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new log and the folders made for it are on disk before the first record, unless the policy is ``never``."""
    real, count = os.fsync, [0]

    def fsync(descriptor: int) -> None:
        count[0] += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for policy, wanted in ((SyncPolicy.TOOLS, 4), (SyncPolicy.NEVER, 0)):
        count[0] = 0
        place = tmp_path / policy / "deep" / "run.log"
        Journal.create(place, toy.CONFIG, initial(toy.CONFIG), "s", "r", table=toy.TABLE, policy=policy).release()
        assert count[0] == wanted


# -- stored states and gaps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(catalog()))
def test_every_state_of_every_scenario_can_be_stored(name: str) -> None:
    """A stored state is equal to the one packed, and goes on in the same way."""
    scenario = load(name)
    steps = drive(scenario).steps
    for place in range(0, len(steps), max(1, len(steps) // 6)):
        state = steps[place][1].state
        again = unpack(pack(state))
        assert again == state
        assert state_digest(again) == state_digest(state)
        if place + 1 < len(steps):
            event, made = steps[place + 1]
            assert step(again, event, scenario.config) == made


def long_run(path: Path, monkeypatch: pytest.MonkeyPatch, count: int = 60) -> LoopState:
    """Write a log with a stored state every eight records."""
    monkeypatch.setattr(journal_module, "STATE_EVERY", 8)
    monkeypatch.setattr(journal_module, "SNAPSHOT_BYTES", 1)
    monkeypatch.setattr(journal_module, "SNAPSHOT_SHARE", 0)
    return toy.write(path, (toy.EVENTS[0], *toy.EVENTS[3:4] * count, *toy.EVENTS[-1:]))


def again(path: Path, until: int | None = None) -> object:
    return replay(path, until, check_table=False, reducer=toy.step)


def spoil(path: Path, *places: int) -> list[bytes]:
    """Damage some lines of a log."""
    lines = path.read_bytes().splitlines(keepends=True)
    for place in places:
        lines[place] = lines[place].replace(b'"event"', b'"evenT"', 1)
    path.write_bytes(b"".join(lines))
    return lines


def test_a_replay_starts_anew_behind_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is refused; repaired, the gap is recorded, the lost record kept aside, and the replay goes on behind it."""
    path = tmp_path / "run.log"
    state = long_run(path, monkeypatch)
    before = b"".join(spoil(path, 11, 12))
    with pytest.raises(LogDamaged, match="record 11"):
        again(path)
    done = repair(path)
    assert [(lost.seq, lost.to) for lost in done.lost] == [(11, 12)]
    assert done.kept is not None
    assert done.kept.read_bytes() == before
    replayed = replay(path, check_table=False, reducer=toy.step)
    assert replayed.divergence is None
    assert replayed.state == state
    assert [(one.gap.seq, one.gap.to, one.resumed) for one in replayed.skipped] == [(11, 12, 16)]
    assert replayed.steps == 10 + (62 - 16)
    assert replayed.tail is not None
    assert replayed.tail.end is not None
    for unknown in (11, 12, 13, 15):
        with pytest.raises(LogError, match=f"the state at record {unknown} is not known: records 11 to 12 are missing"):
            again(path, unknown)
    assert replay(path, 16, check_table=False, reducer=toy.step).seq == 16
    assert repair(path).kept is None


def test_damage_on_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repaired log that is damaged again is repaired again; both gaps stay recorded."""
    path = tmp_path / "run.log"
    state = long_run(path, monkeypatch)
    spoil(path, 3)
    repair(path)
    spoil(path, 30, 33)
    repair(path)
    replayed = replay(path, check_table=False, reducer=toy.step)
    assert [(one.gap.seq, one.resumed) for one in replayed.skipped] == [(3, 8), (30, 32), (33, 40)]
    assert replayed.state == state


def test_what_was_put_in_is_taken_out_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Foreign lines between whole records lose nothing: the log is as it was (field report 113)."""
    path = tmp_path / "run.log"
    long_run(path, monkeypatch)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], bytes(500) + b"\n", b"garbage\r\n", b"\xff\n", *lines[9:]]))
    with pytest.raises(LogDamaged):
        again(path)
    done = repair(path)
    assert done.lost == ()
    assert done.kept is not None
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", [1, 5, -2])
def test_a_gap_that_nothing_bridges_is_said(tmp_path: Path, place: int) -> None:
    """Without a stored state behind it, the state is not known: it is neither guessed nor cut, and a fork goes on before it."""
    path = tmp_path / "run.log"
    toy.write(path)
    lines = spoil(path, place)
    seq = place % len(lines)
    repair(path)
    assert [item.seq for item in read_log(path).items() if isinstance(item, Gap)] == [seq]
    replayed = replay(path, check_table=False, reducer=toy.step)
    assert not replayed.known
    assert replayed.seq == seq - 1
    with pytest.raises(LogGap, match=f"record {seq} is missing.*fork it at record {seq - 1}"):
        stand(path, check_table=False, reducer=toy.step)


def test_a_damaged_closing_line_is_no_gap(tmp_path: Path) -> None:
    """Behind the step that ended the run only its closing line can stand: without it the run has ended all the same."""
    path = tmp_path / "run.log"
    state = toy.write(path)
    path.write_bytes(path.read_bytes().replace(b'"end"', b'"enD"'))
    done = repair(path)
    assert (done.lost, done.dropped) == ((), 1)
    assert not any(isinstance(item, Gap) for item in read_log(path).items())
    replayed = replay(path, check_table=False, reducer=toy.step)
    assert replayed.known
    assert replayed.state == state
    assert replayed.state.terminal is not None


def test_a_damaged_header_cannot_be_repaired(tmp_path: Path) -> None:
    """Without its header nothing in a log can be replayed: refused, and the file untouched."""
    path = tmp_path / "run.log"
    toy.write(path)
    data = path.read_bytes().replace(b'"salt"', b'"sald"', 1)
    path.write_bytes(data)
    with pytest.raises(LogDamaged, match="the header"):
        repair(path)
    assert path.read_bytes() == data
    assert [place.name for place in tmp_path.iterdir()] == ["run.log"]


def other_lines(tmp_path: Path) -> list[bytes]:
    """The lines of another log of the same run."""
    toy.write(tmp_path / "other.log")
    return (tmp_path / "other.log").read_bytes().splitlines(keepends=True)


def changed(line: bytes) -> bytes:
    """Change a line and make its checksum right again, as an editor of logs could."""
    body = line[18:].replace(b'"event":{', b'"event":{"x":1,', 1).replace(b'"end":{', b'"end":{"x":1,', 1)
    return b'{"crc":"%08x",%b' % (crc32(body[:-1]), body)


BREAKS: dict[str, Callable[[list[bytes], int, list[bytes]], list[bytes]]] = {
    "removed": lambda lines, at, _: [*lines[:at], *lines[at + 1 :]],
    "two removed": lambda lines, at, _: [*lines[:at], *lines[at + 2 :]],
    "moved": lambda lines, at, _: [*lines[:at], *lines[at + 1 : at + 3], lines[at], *lines[at + 3 :]],
    "replaced": lambda lines, at, other: [*lines[:at], other[at], *lines[at + 1 :]],
    "changed": lambda lines, at, _: [*lines[:at], changed(lines[at]), *lines[at + 1 :]],
    "twice": lambda lines, at, _: [*lines[: at + 1], lines[at], *lines[at + 1 :]],
    "put in": lambda lines, at, other: [*lines[:at], other[at], *lines[at:]],
    "behind the end": lambda lines, at, other: [*lines, lines[at], other[at]],
    "header twice": lambda lines, at, _: [*lines[:at], lines[0], *lines[at:]],
    "no end of line": lambda lines, at, _: [*lines[:-1], lines[-1][:-1]],
}
"""What can have happened to a log whose lines are each whole."""


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("how", BREAKS)
def test_a_break_of_the_chain_is_damage_too(tmp_path: Path, how: str, at: int) -> None:
    """Lines that were removed, moved, replaced or put in: what the reader refuses, the repair mends, and nothing else.

    Afterwards the log reads to its end, what is missing is a gap, what is there is what was recorded, and the log as it was
    is kept.
    """
    path = tmp_path / "run.log"
    toy.write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    events = {record.seq: record.event for record in read_log(path).records()}
    broken = b"".join(BREAKS[how](lines, at, other_lines(tmp_path)))
    path.write_bytes(broken)
    try:
        refused = read_log(path).tail.torn
    except LogDamaged:
        refused = True
    done = repair(path)
    assert (done.kept is not None) is refused
    if done.kept is None:
        assert (done, path.read_bytes()) == (Repaired((), None, 0), broken)
    else:
        assert done.kept.read_bytes() == broken
        assert done.lost or done.moved or done.dropped or how == "no end of line"
    items = list(read_log(path).items())
    gone = {seq for item in items if isinstance(item, Gap) for seq in range(item.seq, item.to + 1)}
    kept = {item.seq: item.event for item in items if not isinstance(item, Gap)}
    assert all(events[seq] == event for seq, event in kept.items())
    cut = {"removed": 1, "two removed": 2}.get(how, 0)
    assert gone | set(kept) >= set(range(1, max(events) + 1 - (cut if at + cut > max(events) else 0)))
    assert {(lost.seq, lost.to) for lost in done.lost} == {(item.seq, item.to) for item in items if isinstance(item, Gap)}
    assert repair(path).kept is None
    if how in ("moved", "twice", "put in", "behind the end", "header twice"):
        assert path.read_bytes() == b"".join(lines), "nothing is lost"


@pytest.mark.parametrize("how", ["missing", "spoiled"])
def test_a_record_without_its_blob_is_taken_out(tmp_path: Path, how: str) -> None:
    """What the reader cannot read is damage, also where the line itself is whole."""
    path = tmp_path / "run.log"
    toy.write(path, big(1))
    (blob,) = folder_of(path).iterdir()
    if how == "missing":
        blob.unlink()
    else:
        blob.write_bytes(b"x")
    with pytest.raises(LogDamaged, match="record 7"):
        again(path)
    done = repair(path)
    assert [(lost.seq, lost.to) for lost in done.lost] == [(7, 7)]
    assert "blob" in done.lost[0].because
    assert [item.seq for item in read_log(path).items() if isinstance(item, Gap)] == [7]


@pytest.mark.slow
def test_every_repair_ends_in_a_readable_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever byte is spoiled, newlines too: the repaired log reads to its end, and lost records are never silent."""
    path = tmp_path / "run.log"
    long_run(path, monkeypatch, 12)
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    events = tuple(record.event for record in read_log(path).records())
    for place in range(header, len(whole), 41):
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 0x81,)) + whole[place + 1 :])
        done = repair(path)
        items = list(read_log(path).items())
        gone = {seq for item in items if isinstance(item, Gap) for seq in range(item.seq, item.to + 1)}
        kept = {item.seq: item.event for item in items if not isinstance(item, Gap)}
        assert done.lost or done.dropped
        assert all(events[seq - 1] == event for seq, event in kept.items())
        assert gone | set(kept) >= set(range(1, len(events) + 1))
        for extra in tmp_path.glob("run.log.damaged-*"):
            extra.unlink()


# -- states that are too large to be stored ---------------------------------------------------------------------------


def with_history(size: int) -> LoopState:
    """A state whose one message packs into nearly nothing."""
    return initial(toy.CONFIG, (message("m", "user", MessageKind.PROMPT, (text_block("x" * size),)),))


@looks_inside
def test_what_was_sent_of_a_message_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state is smaller for it; one that was stored with all that was sent is read all the same."""
    state = drive(load("next-turn")).steps[-1][1].state
    assert state.data.context.sent.wires
    short = pack(state)
    text = zlib.decompress(short)
    assert b'"body":' not in text
    monkeypatch.setattr(snapshots, "_sources", lambda sent: {})
    whole = pack(state)
    assert b'"body":' in zlib.decompress(whole)
    assert len(short) < len(whole)
    assert unpack(short) == unpack(whole) == state


@pytest.mark.parametrize("place", ["99", "-1", "true", '"0"', "null"])
def test_what_was_sent_of_no_message_is_refused(place: str) -> None:
    """A place that no message has, and a chain that is none, are told."""
    text = zlib.decompress(pack(drive(load("next-turn")).steps[-1][1].state))
    for changed in (
        text.replace(b'{"message":0,', f'{{"message":{place},'.encode()),
        text.replace(b'{"message":0,"chain":"', b'{"message":0,"chain":"x'),
    ):
        assert changed != text
        with pytest.raises(CodecError):
            unpack(zlib.compress(changed))


def bomb(megabytes: int) -> bytes:
    """A small file that unpacks into a large one."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(b"[" * 1_000_000) for _ in range(megabytes)]
    return b"".join(parts) + packer.flush()


def test_what_unpacks_into_more_than_a_state_is_refused() -> None:
    """A small file does not fill the memory; what it unpacks into is looked at no further than a state can go."""
    data = bomb(300)
    tracemalloc.start()
    try:
        with pytest.raises(StateTooLarge, match="unpacks to more than"):
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * max(SMALL_TEXT, MOST_PACKED * len(data))
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"shared":[[],[]]}', b'{"shared":[[],[]],"state":{}}', b"[" * 2_000])
def test_what_is_no_packed_state(text: bytes) -> None:
    """Whatever is packed, it is a state or refused."""
    for data in (zlib.compress(text), zlib.compress(text)[:-1], text):
        with pytest.raises(CodecError):
            unpack(data)


def test_a_state_that_packs_too_well_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be refused is not written: the log goes on without, and a header holds it in another form."""
    monkeypatch.setattr(journal_module, "SNAPSHOT_BYTES", 1)
    monkeypatch.setattr(journal_module, "MOST_BEHIND", 0)
    assert unpack(pack(with_history(SMALL_TEXT // 4))) == with_history(SMALL_TEXT // 4)
    state = with_history(2 * SMALL_TEXT)
    with pytest.raises(StateTooLarge):
        pack(state)
    first = Journal.create(tmp_path / "first.log", toy.CONFIG, state, "session", "r")
    for number in range(130):
        event = TimerFired(f"r/timer-{number}")
        first.append(event, toy.step(state, event, toy.CONFIG), sync=False)
    link = first.as_parent(tmp_path / "second.log")
    first.release()
    assert not any(record.snapshot for record in read_log(tmp_path / "first.log").records())
    Journal.create(tmp_path / "second.log", toy.CONFIG, state, "session", "r", parent=link, linked=True).release()
    (tmp_path / "first.log").unlink()
    assert begin_state(read_log(tmp_path / "second.log")) == state


def test_a_state_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Where the log that was continued is gone, the state that it stores is all there is; what is wrong with it is said."""
    path = tmp_path / "run.log"
    toy.write(path)
    data = bomb(20)
    name = sha256(data).hexdigest()

    def edit(line: dict[str, Any]) -> None:
        parent()(line)
        line["snapshot"] = name

    made = forge(path, tmp_path / "made.log", {0: edit})
    folder_of(made).mkdir()
    (folder_of(made) / name).write_bytes(data)
    with pytest.raises(
        LogError, match=r"other\.jsonl, which cannot be read: .*; and the state that it stores .* unpacks to more than"
    ):
        begin_state(read_log(made))


# -- logs that continue others ----------------------------------------------------------------------------------------


def chain_of_runs(folder: Path, count: int) -> tuple[list[Path], LoopState, LoopConfig]:
    """Write the logs of successive runs of one session, each naming the one before."""
    scenario = load("next-turn")
    state, paths, last = initial(scenario.config), [], None
    for number in range(count):
        path = folder / f"{number}.jsonl"
        link = None if last is None else last.as_parent(path)
        opened = Journal.create(path, scenario.config, state, "session", f"run{number}", parent=link, linked=link is not None)
        driven = drive(scenario, f"run{number}", state)
        for event, made in driven.steps:
            opened.append(event, made, sync=False)
        opened.close(driven.state)
        paths.append(path)
        last, state = opened, next_run(driven.state, scenario.config)
    return paths, state, scenario.config


def test_runs_of_a_session_name_their_parents(tmp_path: Path) -> None:
    """Headers hold no history: they stay as small as the first, and each run begins where the one before it ended."""
    paths, state, config = chain_of_runs(tmp_path, 6)
    sizes = [len(path.read_bytes().split(b"\n", 1)[0]) for path in paths]
    assert max(sizes[1:]) - min(sizes[1:]) < 20
    for path in paths:
        replayed = replay(path)
        assert replayed.divergence is None
    assert next_run(replayed.state, config) == state
    counts = [read_log(path).tail.records for path in paths]
    parents = [read_log(path).header.parent for path in paths[1:]]
    assert [parent.behind for parent in parents if parent] == [sum(counts[: number + 1]) for number in range(5)]


def test_a_long_session_stores_where_a_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many records of parents a log holds its beginning itself, so no reader folds a whole session."""
    monkeypatch.setattr(journal_module, "MOST_BEHIND", 20)
    paths, state, config = chain_of_runs(tmp_path, 8)
    stored = [bool(read_log(path).header.snapshot) for path in paths]
    assert True in stored
    assert False in stored[1:]
    for path in paths[: stored.index(True)]:
        path.unlink()
    replayed = replay(paths[-1])
    assert replayed.divergence is None
    assert next_run(replayed.state, config) == state


def test_a_parent_that_is_missing_or_another_one(tmp_path: Path) -> None:
    """A log whose parent is gone or was replaced is refused by name; nothing is made up."""
    paths, _, _ = chain_of_runs(tmp_path, 2)
    whole = paths[0].read_bytes()
    paths[0].unlink()
    with pytest.raises(LogError, match=r"continues the log .*0\.jsonl, which cannot be read"):
        replay(paths[1])
    (tmp_path / "other").mkdir()
    chain_of_runs(tmp_path / "other", 1)
    (tmp_path / "other" / "0.jsonl").rename(paths[0])
    with pytest.raises(LogError, match="which is another one there now"):
        replay(paths[1])
    paths[0].write_bytes(whole)
    assert replay(paths[1]).divergence is None


def test_a_log_that_continues_itself(tmp_path: Path) -> None:
    """A circle of parents is an error, not an endless loop."""
    paths, _, _ = chain_of_runs(tmp_path, 2)
    paths[1].rename(paths[0])
    with pytest.raises(LogError, match="the log continues itself"):
        replay(paths[0])


def test_forks_at_every_record(tmp_path: Path) -> None:
    """A fork begins in the very state behind its record, under a session of its own, and leaves the log as it was."""
    scenario = load("salvage")
    path = tmp_path / "run.jsonl"
    driven = drive(scenario)
    opened = Journal.create(path, scenario.config, initial(scenario.config), "session", "run")
    for event, made in driven.steps:
        opened.append(event, made, sync=False)
    opened.close(driven.state)
    before = path.read_bytes()
    for place, (_, made) in enumerate(driven.steps, start=1):
        made_fork = read_log(fork(path, place, tmp_path / "sub" / f"{place}.jsonl"))
        state = begin_state(made_fork)
        assert state == (made.state if made.state.terminal is None else next_run(made.state, scenario.config))
        assert made_fork.header.session not in ("", "session")
        standing = stand(made_fork.path)
        assert standing.finished is False
        assert len(standing.lost) == len(made.state.control.flight)
    assert path.read_bytes() == before


def test_a_fork_of_another_table_holds_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of an older table goes on under the present one by a fork, which needs the old log no more."""
    scenario = load("next-turn")
    path = tmp_path / "run.jsonl"
    opened = Journal.create(path, scenario.config, initial(scenario.config), "session", "run", table="o" * 64)
    for event, made in drive(scenario).steps[:5]:
        opened.append(event, made, sync=False)
    opened.release()
    place = fork(path, None, tmp_path / "fork.jsonl")
    path.unlink()
    assert read_log(place).header.table == table_digest()
    assert stand(place).state.control.run.id == "run"


# -- resumed again and again ------------------------------------------------------------------------------------------


def test_a_resumed_log_goes_on_without_a_seam(tmp_path: Path) -> None:
    """Records of three processes, one of which left a torn tail, are one log: numbers, chain and replay go through."""
    path = tmp_path / "run.log"
    toy.write(path, toy.EVENTS[:3], close=False)
    state = stand(path, check_table=False, reducer=toy.step).state
    for first, last in ((3, 6), (6, len(toy.EVENTS))):
        with path.open("ab") as file:
            file.write(b'{"crc":"0123\xc3')
        standing = stand(path, check_table=False, reducer=toy.step)
        assert standing.torn == 13
        assert standing.state == state
        opened = reopen(standing)
        for event in toy.EVENTS[first:last]:
            made = toy.step(state, event, toy.CONFIG)
            opened.append(event, made, sync=False)
            state = made.state
        opened.close(state)
    log = read_log(path)
    assert tuple(record.event for record in log.records()) == toy.EVENTS
    assert log.tail.end is not None
    assert sorted(place.name for place in tmp_path.iterdir()) == ["run.log", "run.log.torn-1", "run.log.torn-2"]
    with pytest.raises(LogError, match="the run has ended"):
        reopen(stand(path, check_table=False, reducer=toy.step))


def test_headers_are_small(tmp_path: Path) -> None:
    """A header says where it begins in JSON that any tool can read."""
    paths, _, _ = chain_of_runs(tmp_path, 2)
    header = json.loads(paths[1].read_bytes().split(b"\n", 1)[0])
    assert header["parent"]["log"] == "0.jsonl"
    assert len(header["begin"]) == 64
    assert "state" not in header


def test_a_changed_event_of_a_parent_is_noticed(tmp_path: Path) -> None:
    """A parent is checked like any log: what was changed in it is named there."""
    paths, _, _ = chain_of_runs(tmp_path, 2)
    data = paths[0].read_bytes()
    paths[0].write_bytes(data.replace(b"run_started", b"run_startet", 1))
    with pytest.raises(LogDamaged, match=r"0\.jsonl: record 1"):
        replay(paths[1])


def test_run_started_is_not_lost(tmp_path: Path) -> None:
    """What was said before the run began belongs to the log, but there is nothing to resume yet."""
    path = tmp_path / "run.log"
    toy.write(path, (), close=False)
    standing = stand(path, check_table=False, reducer=toy.step)
    assert (standing.begun, standing.finished, standing.lost) == (False, False, ())
