"""Fail if a test was skipped for another reason than the allowed ones, which lack nothing that can be installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ALLOWED = (
    r"\.\./shared",  # recordings and transcripts that are not part of the repository
    r"\brecorded data\b",
    r"\btmux\b",  # the terminal of the interactive tests
    r"release form",  # what takes half an hour is asked for by name
    r"\bwindows\b|\bmacos\b|\bdarwin\b",  # other systems
    r"\broot\b",  # rights that root always has cannot be tested as root
)


def main(report: str) -> int:
    """Read pytest's output; give 1 if a skip is not allowed, or if no tests ran."""
    text = Path(report).read_text(encoding="utf-8")
    skips = re.findall(r"^SKIPPED \[\d+\] (.*)$", text, re.MULTILINE)
    wrong = [skip for skip in skips if not any(re.search(reason, skip, re.IGNORECASE) for reason in ALLOWED)]
    for skip in wrong:
        print(f"skipped for want of something that must be there: {skip}")
    if not re.search(r"\b\d+ passed\b", text):
        print("no test passed")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
