"""``python -m tests.mutants``: change the core in every small way, and see what notices.

``--sample N --seed S`` takes a sample, ``--only code`` or ``--only table`` one kind, ``--jobs`` processes at a time. The
report goes to standard output. The exit code is 1 if a mutant survives that is not among the equivalent ones.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from attrs import frozen

from . import code, judge, table
from .workers import Done, forked

EQUIVALENTS = Path(__file__).with_name("equivalents.txt")
TIMED_OUT = "I8 no end within the time allowed"


@frozen
class Verdict:
    """What noticed a mutant: ``laws`` alone, the rows that are reached, what is pinned; empty where it did not."""

    name: str
    laws: str
    rows: str
    goldens: str

    @property
    def killed(self) -> bool:
        """True if anything noticed."""
        return bool(self.laws or self.rows or self.goldens)


def equivalents() -> dict[str, str]:
    """Read the mutants that change nothing, each with its reason: ``name # reason``."""
    found: dict[str, str] = {}
    for line in EQUIVALENTS.read_text(encoding="utf-8").splitlines():
        name, hash_, reason = line.partition(" # ")
        if hash_ and not line.startswith("#"):
            found[name.strip()] = reason.strip()
    return found


def original(_: Any) -> dict[str, Any]:
    """See what the original does."""
    seen = judge.Seen()
    words = judge.by_laws(seen)
    return {
        "laws": words,
        "rows": sorted(seen.rows),
        "emitted": {name: sorted(kinds) for name, kinds in sorted(seen.emitted.items())},
        "scenarios": seen.scenarios,
        "counts": seen.counts,
        "goldens": judge.by_goldens(seen, {"scenarios": seen.scenarios, "counts": seen.counts}),
    }


def verdict(mutant: code.CodeMutant | table.TableMutant, known: dict[str, Any]) -> list[str]:
    """Install a mutant in this process, and judge it."""
    if isinstance(mutant, code.CodeMutant):
        if not code.install(mutant):
            return ["nothing changed", "", ""]
    else:
        table.install(mutant)
    seen = judge.Seen()
    laws = judge.by_laws(seen)
    if laws:
        return [laws, "", ""]
    rows = judge.by_rows(seen, known)
    return ["", rows, "" if rows else judge.by_goldens(seen, known)]


def report(verdicts: list[Verdict], total: int, seconds: float, equal: dict[str, str]) -> int:
    """Print what became of the mutants.

    Returns:
        The exit code.
    """
    counted = [one for one in verdicts if one.laws != "nothing changed" and (one.killed or one.name not in equal)]
    same = [one for one in verdicts if not one.killed and one.name in equal]
    laws = [one for one in counted if one.laws]
    rows = [one for one in counted if one.rows]
    goldens = [one for one in counted if one.goldens]
    alive = [one for one in counted if not one.killed]
    size = max(1, len(counted))
    print(f"{len(verdicts)} of {total} mutants in {seconds:.0f} s; {len(same)} are equivalent")
    print(
        f"killed by stated laws alone: {len(laws) + len(rows)} of {len(counted)} ({100 * (len(laws) + len(rows)) / size:.1f} %)"
    )
    print(f"  of these because a declared row is never taken (I4): {len(rows)}")
    print(f"killed by what is pinned only: {len(goldens)} ({100 * len(goldens) / size:.1f} %)")
    print(f"survived: {len(alive)} ({100 * len(alive) / size:.1f} %)")
    kinds: dict[str, Counter[str]] = {}
    for one in counted:
        what = " ".join(one.name.split()[:2]).split(":")[0]
        word = "laws" if one.laws or one.rows else "pinned" if one.goldens else "survived"
        kinds.setdefault(what, Counter())[word] += 1
    print("\n| mutants | laws | pinned only | survived |\n| --- | --- | --- | --- |")
    for what, counts in sorted(kinds.items()):
        print(f"| {what} | {counts['laws']} | {counts['pinned']} | {counts['survived']} |")
    groups = Counter(one.laws.split(" ")[0] for one in laws)
    print("\nby group: " + ", ".join(f"{group} {count}" for group, count in groups.most_common()))
    for title, ones in (("pinned only", goldens), ("survived", alive)):
        print(f"\n{title}:")
        for one in sorted(ones, key=lambda one: one.name):
            print(f"  {one.name}" + (f"  <- {one.goldens}" if one.goldens else ""))
    return 1 if alive else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="this many, chosen by --seed; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("code", "table"))
    parser.add_argument("--seconds", type=float, default=60, help="processor seconds for one mutant")
    parser.add_argument("--name", default="", help="only mutants whose name holds this")
    options = parser.parse_args()
    (known,) = [done.value for done in forked([None], original, 1, 20 * options.seconds)]
    if known is None or known["laws"] or known["goldens"]:
        print(f"the original does not pass: {known and (known['laws'] or known['goldens'])}")
        return 2
    mutants: list[code.CodeMutant | table.TableMutant] = []
    if options.only != "table":
        mutants += code.code_mutants()
    if options.only != "code":
        mutants += table.table_mutants(known["emitted"])
    mutants = [mutant for mutant in mutants if options.name in mutant.name]
    total = len(mutants)
    if options.sample and options.sample < total:
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    began = time.monotonic()
    verdicts: list[Verdict] = []

    def work(mutant: code.CodeMutant | table.TableMutant) -> list[str]:
        return verdict(mutant, known)

    for done in forked(mutants, work, options.jobs, options.seconds):
        verdicts.append(_verdict(done))
        if sys.stderr.isatty():
            print(f"\r{len(verdicts)}/{len(mutants)}", end="", file=sys.stderr, flush=True)
    return report(verdicts, total, time.monotonic() - began, equivalents())


def _verdict(done: Done) -> Verdict:
    laws, rows, goldens = done.value if done.value is not None else (TIMED_OUT, "", "")
    return Verdict(done.task.name, laws, rows, goldens)


if __name__ == "__main__":
    sys.exit(main())
