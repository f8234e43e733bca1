"""Files that a long run can be gone on with: the walks, and the verdicts. Those of other sources are refused."""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
from hashlib import sha256
from pathlib import Path
from typing import IO

from attrs import asdict

from .corpus import Corpus
from .judge import Verdict

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = ("fsm_agent/core", "fsm_agent/laws", "fsm_agent/explorer", "fsm_agent/scenario", "tests/mutants", "tests/core")
"""What decides which walks there are, and what a law says of a mutant."""

HEAD = '{"sources": '
"""How a file of verdicts begins."""


class Unusable(Exception):
    """A file cannot be gone on with; the text says why, and what helps."""


def sources() -> str:
    """Give a digest of what the walks and the verdicts depend on."""
    digest = sha256(repr(sys.version_info[:2]).encode())
    for folder in SOURCES:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(path.relative_to(REPOSITORY).as_posix().encode())
                digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def keep_corpus(place: Path, known: Corpus) -> None:
    """Write the walks, whole or not at all."""
    body = pickle.dumps(known)
    beside = place.with_name(f"{place.name}.new")
    beside.write_bytes(f"{sources()} {sha256(body).hexdigest()}\n".encode() + body)
    os.replace(beside, place)


def kept_corpus(place: Path) -> Corpus:
    """Read the walks.

    Raises:
        Unusable: for a file that is not whole, and one of other sources.
    """
    head, _, body = place.read_bytes().partition(b"\n")
    made, _, whole = head.decode("ascii", "replace").partition(" ")
    if len(made) != 64 or whole != sha256(body).hexdigest():
        raise Unusable(f"--corpus {place}: it is torn, or no file of walks; remove it, and it is made anew")
    if made != sources():
        raise Unusable(f"--corpus {place}: the walks were taken with other sources; remove it, and they are taken anew")
    known: Corpus = pickle.loads(body)
    gc.collect()
    return known


def open_results(place: Path) -> tuple[dict[str, Verdict], IO[str]]:
    """Read the verdicts of a file, and open it for those that follow; a last line that is torn is cut off.

    Raises:
        Unusable: for a file with lines that are no verdicts, and one of other sources.
    """
    try:
        whole, end, torn = place.read_bytes().rpartition(b"\n") if place.exists() else (b"", b"", b"")
        if not end and not HEAD.startswith(torn[: len(HEAD)].decode("utf-8")):
            raise ValueError("it does not begin like one")
        lines = whole.decode("utf-8").splitlines()
        found = {name: Verdict(**fields) for name, fields in map(json.loads, lines[1:])}
        made = json.loads(lines[0])["sources"] if lines else sources()
    except (ValueError, TypeError, KeyError) as problem:
        raise Unusable(f"--results {place}: a line of it is no verdict ({problem}); name another file") from None
    if made != sources():
        raise Unusable(f"--results {place}: the verdicts were given on other sources; name another file")
    out = place.open("r+" if place.exists() else "w", encoding="utf-8")
    out.seek(len(whole) + len(end))
    out.truncate()
    if not lines:
        out.write(f'{HEAD}"{made}"}}\n')
        out.flush()
    return found, out


def write_result(out: IO[str], name: str, one: Verdict) -> None:
    """Write a verdict as a line of its own."""
    out.write(json.dumps([name, asdict(one)]) + "\n")
    out.flush()
