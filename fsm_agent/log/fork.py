"""Fork: a new log that goes on from any record of another one, which stays as it is (spec 04)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from .behaviour import foreign
from .errors import LogError, LogGap, ReplayDiverged
from .files import SyncPolicy, real_file
from .journal import MOST_BEHIND, Journal, parent_link
from .reader import read_log
from .replay import begin_state, fold, next_state, records_before


def fork(
    path: str | os.PathLike[str],
    at: int | None,
    target: str | os.PathLike[str],
    *,
    session_id: str | None = None,
    policy: SyncPolicy = SyncPolicy.TOOLS,
) -> Path:
    """Make a new log that continues another one behind a record; nothing is copied.

    From a record before the end of the run, the new log is that run, interrupted there: resume it. From the end it is
    a conversation that waits for the next prompt. A log of another transition table or reducer may be forked as long as
    it folds back into its run; the new one then goes on under the present ones.

    Args:
        path: the log.
        at: number of the last record that counts, 0 for none of them, None for all.
        target: the new log, which must not exist.
        session_id: the session that it belongs to, by default a new one.
        policy: when the new log is forced to disk.

    Returns:
        The new log.

    Raises:
        FileExistsError: if the target exists.
        ReplayDiverged: if the log does not fold back into its run up to there.
        LogGap: if its state is not known because of a gap.
        LogError: if there is no such record.
        LogUnreadable, LogDamaged: if it cannot be read that far.
        OSError: if a file cannot be read or written.
    """
    source, place = real_file(path).absolute(), Path(target).absolute()
    log = read_log(source)
    begin = begin_state(log)
    if at is not None and at < 0:
        raise LogError(f"{source}: there is no record {at}; records are counted from 1, 0 is the state before them")
    found = fold(log, begin, at)
    if found.divergence is not None:
        raise ReplayDiverged(source, found.divergence.seq, str(found.divergence))
    if not found.known:
        gap = found.skipped[-1].gap
        raise LogGap(source, gap.seq, gap.words)
    if at is not None and found.seq != at:
        raise LogError(f"{source}: there is no record {at}; the last one is {found.seq}")
    header = log.header
    # Under another behaviour the parent may fold differently one day, so the new log holds its beginning itself.
    behind = records_before(header) + found.seq
    link = parent_link(source, place, (found.seq, found.chain), MOST_BEHIND + 1 if foreign(header) else behind)
    state = next_state(found.state, header.config)
    journal = Journal.create(
        place,
        header.config,
        state,
        session_id or secrets.token_hex(6),
        header.run,
        parent=link,
        linked=True,
        caller=header.caller,
        policy=policy,
    )
    journal.release()
    return place
