"""``python -m tests.mutants``: change the core in every small way, and see what notices.

``--sample N --seed S`` takes a sample, ``--only code`` or ``--only table`` one kind, ``--name`` those whose name holds a
text, ``--list FILE`` those whose names are the lines of a file; ``--jobs`` processes at a time. ``--results FILE`` writes
each verdict as it comes and leaves out what the file holds already, so that a long run can be gone on with. The report goes
to standard output. The exit code is 1 if a mutant survives that is neither among the equivalent ones nor among the open
ones, and 2 if a process died of anything but its time: of its mutant nothing is known.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict

from fsm_agent.core.step import LOOKUP

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "core"), str(TESTS)]

from . import code, judge, table  # noqa: E402
from .corpus import Corpus, corpus  # noqa: E402
from .judge import Verdict  # noqa: E402
from .keeping import Unusable, keep_corpus, kept_corpus, open_results, write_result  # noqa: E402
from .workers import forked  # noqa: E402

EQUIVALENTS = Path(__file__).with_name("equivalents.txt")
OPEN = Path(__file__).with_name("open.txt")
"""Survivors that are known and not dealt with yet: no reason is given, and they count as survivors."""
NOTHING = "nothing changed"
Mutant = code.CodeMutant | table.TableMutant


def equivalents() -> dict[str, str]:
    """Read the mutants that change nothing, each with its reason: ``name # reason``."""
    found: dict[str, str] = {}
    for line in EQUIVALENTS.read_text(encoding="utf-8").splitlines():
        name, hash_, reason = line.rpartition(" # ")
        if hash_ and not line.startswith("#"):
            found[name.strip()] = reason.strip()
    return found


def emitted(known: Corpus) -> dict[str, list[str]]:
    """Give for each row the kinds of effects that its move gives alone."""
    found: dict[str, set[str]] = {}
    for one in known.situations:
        if len(one.made.taken) == 1:
            found.setdefault(one.made.taken[0], set()).update(table.kind_of(effect) for effect in one.made.effects)
    return {name: sorted(kinds) for name, kinds in sorted(found.items())}


AT_IMPORT = ("Lookup.__init__", "_need")
"""What makes the lookup of the table ready."""


def all_mutants(known: Corpus, only: str | None = None) -> list[Mutant]:
    """Give every mutant, in a fixed order."""
    mutants: list[Mutant] = []
    if only != "table":
        mutants += code.code_mutants()
    if only != "code":
        mutants += table.table_mutants(emitted(known))
    return mutants


def verdict(mutant: Mutant, known: Corpus, rows: dict[str, int], *, examples: bool) -> dict[str, Any]:
    """Install a mutant in this process, and judge it."""
    gc.disable()
    numbers = judge.situations_of(mutant, known)
    if isinstance(mutant, code.CodeMutant):
        if not code.install(mutant):
            return asdict(Verdict(NOTHING))
        if mutant.function in AT_IMPORT:  # it has done its work before anything was installed: let it do it again
            numbers = list(range(len(known.situations)))
            try:
                LOOKUP.__init__(table.TABLE)  # type: ignore[misc]
            except Exception as error:
                return asdict(Verdict(f"I1 the table cannot be looked up: {type(error).__name__}"))
    else:
        table.install(mutant)
    return asdict(judge.judge(numbers, known, rows, examples=examples))


def report(verdicts: dict[str, Verdict], total: int, seconds: float, equal: dict[str, str]) -> int:
    """Print what became of the mutants.

    Returns:
        The exit code.
    """
    same = {name for name, one in verdicts.items() if name in equal and not one.laws and not one.pinned}
    wrong = sorted(name for name in verdicts if name in equal and name not in same)
    counted = {name: one for name, one in verdicts.items() if one.laws != NOTHING and name not in same}
    laws = {name: one for name, one in counted.items() if one.laws}
    pinned = {name: one for name, one in counted.items() if one.pinned}
    alive = {name: one for name, one in counted.items() if not one.laws and not one.pinned}
    size = max(1, len(counted))
    never = sum(one.laws.startswith("I4 row") for one in laws.values())
    print(f"{len(verdicts)} of {total} mutants in {seconds:.0f} s; {len(same)} are equivalent")
    print(f"killed by stated laws alone: {len(laws)} of {len(counted)} ({100 * len(laws) / size:.1f} %)")
    print(f"  of these because a declared row is never taken (I4): {never}")
    print(f"killed by what is pinned only: {len(pinned)} ({100 * len(pinned) / size:.1f} %)")
    print(f"survived: {len(alive)} ({100 * len(alive) / size:.1f} %)")
    kinds: dict[str, Counter[str]] = {}
    for name, one in counted.items():
        what = " ".join(name.split()[:2]).split(":")[0]
        word = "laws" if one.laws else "pinned" if one.pinned else "survived"
        kinds.setdefault(what, Counter())[word] += 1
    print("\n| mutants | laws | pinned only | survived |\n| --- | --- | --- | --- |")
    for what, counts in sorted(kinds.items()):
        print(f"| {what} | {counts['laws']} | {counts['pinned']} | {counts['survived']} |")
    groups = Counter(one.laws.split(" ")[0] for one in laws.values())
    print("\nby group: " + ", ".join(f"{group} {count}" for group, count in groups.most_common()))
    for title, ones in (("pinned only", pinned), ("survived", alive)):
        print(f"\n{title}:")
        for name, one in sorted(ones.items()):
            print(f"  {name}   [{one.differs} of {one.asked}] {one.pinned} {one.where}")
    if wrong:
        print("\nlisted as equivalent, and noticed all the same:")
        for name in wrong:
            print(f"  {name}   {verdicts[name].laws}{verdicts[name].pinned}")
    known = set(OPEN.read_text(encoding="utf-8").splitlines())
    new = sorted(set(alive) - known)
    print(f"\nnot listed as open: {len(new)}" + "".join(f"\n  {name}" for name in new))
    return 1 if new else 0


def _known(place: Path | None, jobs: int, seconds: float) -> Corpus | None:
    """Take the walks of the original and judge them, or read them from a file; None if the original breaks a law."""
    if place is not None and place.exists():
        read = kept_corpus(place)
        _settle()
        return read
    known = corpus(code.modules())
    _settle()
    shares = [list(range(first, len(known.situations), jobs)) for first in range(jobs)]
    faults = [
        fault
        for done in forked(shares, lambda share: judge.faults_of_the_original(known, share), jobs, seconds)
        for fault in (done.value if done.value is not None else [f"the original was not judged: {done.died or 'no end'}"])
    ]
    faults += [f"row {row.name} is never taken" for row in table.TABLE.rows if row.name not in known.rows]
    if faults:
        print("the original does not pass:\n" + "\n".join(faults[:20]))
        return None
    if place is not None:
        keep_corpus(place, known)
    return known


def _settle() -> None:
    """Look up what every process needs, and keep the collector from touching what they share."""
    code.prepare()
    gc.collect()
    gc.freeze()


def _natural(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
    return int(text)


def _positive(text: str) -> int:
    return _natural(text, 1)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=_positive, default=2)
    parser.add_argument("--sample", type=_natural, default=0, help="this many, chosen by --seed; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("code", "table"))
    parser.add_argument("--seconds", type=_positive, default=120, help="processor seconds for one mutant")
    parser.add_argument("--name", default="", help="only mutants whose name holds this")
    parser.add_argument("--list", type=Path, help="only mutants whose names are the lines of this file")
    parser.add_argument("--results", type=Path, help="a file of verdicts, to be gone on with")
    parser.add_argument("--corpus", type=Path, help="keep the walks of the original in this file, or read them from it")
    parser.add_argument("--laws-only", action="store_true", help="do not ask the examples among the tests of the core")
    return parser.parse_args(arguments)


def chosen(known: Corpus, options: argparse.Namespace) -> tuple[list[Mutant], int]:
    """Give the mutants that the options name, and how many there were to take a sample of.

    Raises:
        Unusable: if there is none, or a name of the list is none.
    """
    everything = all_mutants(known, options.only)
    mutants = [mutant for mutant in everything if options.name in mutant.name]
    if options.list is not None:
        listed = {line for line in options.list.read_text(encoding="utf-8").splitlines() if line.strip()}
        strange = sorted(listed - {mutant.name for mutant in everything})
        if strange:
            raise Unusable(
                f"--list {options.list}: {len(strange)} of {len(listed)} lines name no mutant, such as {strange[0]!r}"
            )
        mutants = [mutant for mutant in mutants if mutant.name in listed]
    if not mutants:
        raise Unusable(f"no mutant is asked for: --name {options.name!r} and --list name none of {len(everything)}")
    total = len(mutants)
    if options.sample and options.sample < total:
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    return mutants, total


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: those of the command line, by default those of the process.

    Returns:
        The exit code: 1 if a mutant survives that is not listed, 2 if the machine failed or cannot begin, 130 if it was
        interrupted.
    """
    options = _options(arguments)
    try:
        return _run(options)
    except (Unusable, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted" + (f"; the verdicts so far are in {options.results}" if options.results else ""), file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    before, out = open_results(options.results) if options.results else ({}, None)
    known = _known(options.corpus, options.jobs, 20 * options.seconds)
    if known is None:
        return 2
    rows = {name: len(numbers) for name, numbers in known.rows.items()}
    mutants, total = chosen(known, options)
    print(f"{len(known.situations)} situations after {time.monotonic() - began:.0f} s", file=sys.stderr)
    wanted = {mutant.name for mutant in mutants}
    verdicts = {name: one for name, one in before.items() if name in wanted}
    died: dict[str, str] = {}
    equal = equivalents()

    def work(mutant: Mutant) -> dict[str, Any]:
        # What is listed as equivalent need not be shown to the examples: it is enough that no law speaks.
        return verdict(mutant, known, rows, examples=not options.laws_only and mutant.name not in equal)

    def judged() -> Iterator[tuple[str, Verdict]]:
        left = []
        for mutant in mutants:
            if mutant.name not in verdicts:
                refused = judge.refused(mutant)
                if refused:
                    yield mutant.name, Verdict(refused)
                else:
                    left.append(mutant)
        for done in forked(left, work, options.jobs, options.seconds):
            if done.died:
                died[done.task.name] = done.died
            else:
                yield done.task.name, Verdict("I8 no end within the time allowed") if done.late else Verdict(**done.value)

    for name, one in judged():
        verdicts[name] = one
        if out is not None:
            write_result(out, name, one)
        if sys.stderr.isatty():
            print(f"\r{len(verdicts)}/{len(mutants)}", end="", file=sys.stderr, flush=True)
    code = report(verdicts, total, time.monotonic() - began, equal)
    for name, words in sorted(died.items()):
        print(f"\nerror of the machine, nothing is known of {name}:\n{words}", file=sys.stderr)
    return 2 if died else code


if __name__ == "__main__":
    sys.exit(main())
