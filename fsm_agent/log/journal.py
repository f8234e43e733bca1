"""The writer of a log: the write-ahead record of one run. The only module of this package that changes a file."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from json.encoder import encode_basestring
from pathlib import Path

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.outputs import Terminal
from ..core.state import LoopState, Rejection, Step
from .codec import EVENTS, SNAPSHOT, SPARSE, encode_with, exact
from .digest import STATE_EVERY, StateDigests, effects_digest, sketch, table_digest
from .format import MAGIC, MAJOR, MINOR, Header, Parent, seal


def _wall() -> int:
    return time.time_ns() // 1_000_000


def _package() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, needed once a run

    try:
        return version("fsm_agent")
    except PackageNotFoundError:
        return "unknown"


def _make_private(directory: Path) -> None:
    """Create a directory and its missing parents, open to their owner only."""
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


class Journal:
    """The log of one run, open for appending; it is the ``Recorder`` of the interpreter.

    Each record is handed to the operating system before :meth:`append` returns. After any failure the journal takes
    no further record, so a log never goes on behind a gap.

    Attributes:
        path: the file.
        seq: sequence number of the newest record.
        chain: chain of the newest record, in hex.
    """

    def __init__(self, path: Path, descriptor: int, header: Header, now: Callable[[], int]) -> None:
        """Use :meth:`create`."""
        self.path = path
        self.seq = -1
        self.chain = ""
        self._file = descriptor
        self._salt = header.salt.encode()
        self._now = now
        self._size = 0
        self._states = StateDigests()
        self._directory_synced = False
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
        caller: str = "",
        table: str | None = None,
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
            caller: for a sub-agent, the id of the effect that started it.
            table: digest of the transition table, by default that of ``step``.
            now: wall time in milliseconds since 1970.

        Returns:
            The journal.

        Raises:
            FileExistsError: if the file exists; a log is never overwritten.
            OSError: if it cannot be written; no partial file stays.
            CodecError: if the config or state holds a value that has no text.
        """
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
            state=state,
            parent=parent,
            caller=caller,
        )
        text = encode_with(lambda: SNAPSHOT.record(Header), header)
        place = Path(path)
        _make_private(place.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(place, flags, 0o600)
        journal = cls(place, descriptor, header, now)
        try:
            journal._write(text[1:-1], sync=False)
        except BaseException:
            journal.release()
            with contextlib.suppress(OSError):
                place.unlink()
            raise
        return journal

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        """Append the record of one step.

        Args:
            event: what was fed to the reducer.
            step: what it gave.
            sync: the record is on disk when the call returns.

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
            self._write(",".join(parts), sync=sync)
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
        """Release the file without a closing record."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _check_usable(self) -> None:
        if self._broken:
            raise OSError(f"{self.path}: nothing more can be recorded: {self._broken}")
        if self._file < 0:
            raise OSError(f"{self.path}: the log is closed")

    def _write(self, core: str, *, sync: bool) -> None:
        line, chain = seal(exact(core).encode("utf-8"), self._now(), self.chain.encode(), self._salt)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if sync:
                self._sync()
        except BaseException:
            # What was written of the line would be a torn tail; the log is better without it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self.chain = chain.decode()
        self.seq += 1

    def _sync(self) -> None:
        os.fsync(self._file)
        if not self._directory_synced:
            # The file's name must survive a crash too.
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            except OSError as error:
                if error.errno != errno.EINVAL:  # some file systems know no sync of directories
                    raise
            finally:
                os.close(directory)
            self._directory_synced = True


def _list(words: tuple[str, ...]) -> str:
    return "[" + ",".join([encode_basestring(word) for word in words]) + "]"
