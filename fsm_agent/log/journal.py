"""The writer of a log: the write-ahead record of one run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from attrs import evolve

from ..core.behaviour import REDUCER
from ..core.config import LoopConfig
from ..core.events import Event
from ..core.outputs import Terminal
from ..core.state import LoopState, Rejection, Step
from .blobs import BlobStore
from .codec import EVENTS, SNAPSHOT, SPARSE, encode_with, exact
from .digest import STATE_EVERY, StateDigests, effects_digest, sketch, table_digest
from .errors import StateTooLarge
from .files import SyncPolicy, make_private, real_file, sync_directory, write_all
from .format import MAGIC, MAJOR, MINOR, Header, Parent
from .framing import seal
from .lock import Lock, acquire
from .snapshots import pack

SNAPSHOT_BYTES = 65_536
"""Bytes of a log from which on it gets snapshots of the state."""
SNAPSHOT_SHARE = 4
"""A snapshot is taken when so many times its size were written since the last one, so they stay a small part."""
MOST_BEHIND = 2_000
"""Records of its parents that are folded to begin a log; beyond that it holds a snapshot of where it begins."""


def _wall() -> int:
    return time.time_ns() // 1_000_000


def _package() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, needed once a run

    try:
        return version("fsm_agent")
    except PackageNotFoundError:
        return "unknown"


class Journal:
    """The log of one run, open for appending; it is the ``Recorder`` of the interpreter.

    Each record is handed to the operating system before :meth:`append` returns. After any failure the journal takes
    no further record, so a log never goes on behind a gap. While it is open no other process can write the log.

    Attributes:
        path: the file.
        seq: sequence number of the newest line.
        chain: chain of the newest line, in hex.
        last: number and chain of the newest record of a step, or of the header: where another log can go on.
    """

    def __init__(
        self,
        path: Path,
        descriptor: int,
        lock: Lock,
        salt: str,
        *,
        policy: SyncPolicy,
        now: Callable[[], int],
        seq: int = -1,
        chain: str = "",
        last: tuple[int, str] = (-1, ""),
        size: int = 0,
        base: int = 0,
    ) -> None:
        """Use :meth:`create`, or :func:`fsm_agent.log.resume.reopen`."""
        self.path = path
        self.seq = seq
        self.chain = chain
        self.last = last
        self._base = base
        self._file = descriptor
        self._lock = lock
        self._salt = salt.encode()
        self._policy = policy
        self._now = now
        self._size = size
        self._blobs = BlobStore(path)
        self._states = StateDigests()
        self._snapshot_at = max(size, SNAPSHOT_BYTES)
        self._broken = ""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        config: LoopConfig,
        state: LoopState,
        session_id: str,
        run_id: str,
        *,
        parent: Parent | None = None,
        linked: bool = False,
        caller: str = "",
        table: str | None = None,
        policy: SyncPolicy = SyncPolicy.TOOLS,
        now: Callable[[], int] = _wall,
    ) -> Journal:
        """Create a log with its header; missing directories are made, open to their owner only.

        Args:
            path: the file, which must not exist.
            config: the configuration of the run.
            state: the state before the first event.
            session_id: the session.
            run_id: the run.
            parent: the log that this one continues.
            linked: the state follows from the parent, so the header holds its digest only.
            caller: for a sub-agent, the id of the effect that started it.
            table: digest of the transition table, by default that of ``step``.
            policy: when records are forced to disk.
            now: wall time in milliseconds since 1970.

        Returns:
            The journal.

        Raises:
            FileExistsError: if the file exists; a log is never overwritten.
            OSError: if it cannot be written; no partial file stays.
            CodecError: if the config or state holds a value that has no text.
        """
        follows = linked and parent is not None
        header = Header(
            magic=MAGIC,
            major=MAJOR,
            minor=MINOR,
            package=_package(),
            table=table_digest() if table is None else table,
            session=session_id,
            run=run_id,
            salt=os.urandom(16).hex(),
            config=config,
            state=None if follows else state,
            parent=parent,
            caller=caller,
            begin=StateDigests().of(state) if follows else "",
            reducer=REDUCER,
        )
        place = Path(path).absolute()
        sync = policy is not SyncPolicy.NEVER
        make_private(place.parent, sync=sync)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(place, flags, 0o600)
        try:
            lock = acquire(place, descriptor)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                place.unlink()
            raise
        journal = cls(place, descriptor, lock, header.salt, policy=policy, now=now)
        try:
            if follows and parent is not None:
                if parent.behind > MOST_BEHIND:
                    header = evolve(header, **journal._beginning(state))
                else:
                    journal._base = parent.behind
            text = encode_with(lambda: SNAPSHOT.record(Header), header)
            journal._write(text[1:-1], sync=sync)
            journal.last = (journal.seq, journal.chain)
            if sync:
                sync_directory(place.parent)
        except BaseException:
            journal.release()
            with contextlib.suppress(OSError):
                place.unlink()
            raise
        return journal

    def as_parent(self, child: str | os.PathLike[str]) -> Parent:
        """Describe this log, as far as it is written, as the parent of another one.

        Args:
            child: the other log's file.
        """
        return parent_link(self.path, Path(child), self.last, self._base + self.last[0])

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        """Append the record of one step.

        Args:
            event: what was fed to the reducer.
            step: what it gave.
            sync: the record must be on disk when the call returns; the policy has the last word.

        Raises:
            OSError: if it could not be written, or an earlier record could not.
            CodecError: if the event or an effect holds a value that has no text.
        """
        self._check_usable()
        try:
            seq = self.seq + 1
            text = encode_with(lambda: SPARSE.choice(EVENTS)[event.__class__], event)
            parts = [f'"seq":{seq},"event":{text}']
            if step.taken:
                parts.append('"taken":' + _list(step.taken))
            if step.rejected is not None:
                parts.append('"rejected":' + encode_with(lambda: SPARSE.record(Rejection), step.rejected))
            if step.effects:
                parts.append(f'"effects":"{effects_digest(step.effects)}","sketch":' + _list(sketch(step.effects)))
            if seq % STATE_EVERY == 0:
                parts.append(f'"state":"{self._states.of(step.state)}"')
                parts += self._snapshot(step.state)
            self._write(",".join(parts), sync=sync)
            self.last = (self.seq, self.chain)
        except BaseException as error:
            self._broken = self._broken or f"record {seq} could not be written: {error}"
            raise

    def close(self, state: LoopState) -> None:
        """Write the closing record if the run ended, put everything on disk, and release the file.

        A second call does nothing. After a failed record only the file is released.

        Raises:
            OSError: if the closing record could not be written.
        """
        if self._file < 0:
            return
        try:
            if state.terminal is not None and not self._broken:
                terminal = encode_with(lambda: SPARSE.record(Terminal), state.terminal)
                digest = self._states.of(state)
                self._write(f'"seq":{self.seq + 1},"end":{{"terminal":{terminal},"state":"{digest}"}}', sync=True)
        finally:
            self.release()

    def release(self) -> None:
        """Release the file and its lock without a closing record."""
        if self._file >= 0:
            self._lock.release()
            os.close(self._file)
            self._file = -1

    def write_line(self, core: str) -> None:
        """Append a line that is no record of a step, and put it on disk.

        Args:
            core: its fields as JSON text without braces, ``seq`` first.

        Raises:
            OSError: if it could not be written.
        """
        self._check_usable()
        self._write(core, sync=True)

    def _check_usable(self) -> None:
        if self._broken:
            raise OSError(f"{self.path}: nothing more can be recorded: {self._broken}")
        if self._file < 0:
            raise OSError(f"{self.path}: the log is closed")

    def _beginning(self, state: LoopState) -> dict[str, Any]:
        """Give the fields of a header that hold its beginning, which the parents need not be folded for."""
        try:
            return {"snapshot": self._blobs.put(pack(state), sync=self._policy is not SyncPolicy.NEVER)}
        except StateTooLarge:
            return {"state": state, "begin": ""}

    def _snapshot(self, state: LoopState) -> list[str]:
        """Store the whole state, if enough was written since the last time to be worth it."""
        if self._size < self._snapshot_at:
            return []
        try:
            packed = pack(state)
        except StateTooLarge:  # it is looked at again when the log has grown to twice its size
            self._snapshot_at = 2 * self._size
            return []
        self._snapshot_at = self._size + max(SNAPSHOT_BYTES, SNAPSHOT_SHARE * len(packed))
        return [f'"snapshot":"{self._blobs.put(packed, sync=self._policy is not SyncPolicy.NEVER)}"']

    def _write(self, core: str, *, sync: bool) -> None:
        core, names = self._shortened(core)
        if names:
            core += ',"blobs":' + _list(names)
        line, chain = seal(exact(core).encode("utf-8"), self._now(), self.chain.encode(), self._salt)
        try:
            write_all(self._file, line)
            if self._policy is SyncPolicy.ALWAYS or (sync and self._policy is SyncPolicy.TOOLS):
                os.fsync(self._file)
        except BaseException:
            # What was written of the line would be a torn tail; the log is better without it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self.chain = chain.decode()
        self.seq += 1

    def _shortened(self, core: str) -> tuple[str, tuple[str, ...]]:
        """Store large strings beside the log; they are on disk before the record that names them."""
        short, names = self._blobs.shorten("{" + core + "}", sync=self._policy is not SyncPolicy.NEVER)
        return short[1:-1], names


def parent_link(path: Path, child: Path, last: tuple[int, str], behind: int) -> Parent:
    """Make the link to a parent; see :class:`Parent`.

    Args:
        path: the parent.
        child: the log that continues it.
        last: number and chain of the parent's last record that counts.
        behind: records that are folded to get there.
    """
    try:
        relative = os.path.relpath(real_file(path).absolute(), child.absolute().parent)
    except ValueError:  # another drive of Windows
        relative = str(path.absolute())
    return Parent(Path(relative).as_posix(), last[0], last[1], behind)


def _list(words: tuple[str, ...]) -> str:
    return "[" + ",".join([encode_basestring(word) for word in words]) + "]"
