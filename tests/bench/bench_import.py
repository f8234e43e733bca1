"""What an import costs: ``import fsm_agent.core`` beside a bare interpreter, and what the command line's help loads.

Run: ``python tests/bench/bench_import.py``. Each figure is the median of interpreters started in turn.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 15
CODES = {
    "bare interpreter": "pass",
    "import attrs": "import attrs",
    "import fsm_agent.core": "import fsm_agent.core",
    "its step, first used": "from fsm_agent.core.step import step",
    "fsm-agent --help": "import sys; sys.argv = ['fsm-agent', '--help']; from fsm_agent.cli.main import main; main()",
}


def main() -> None:
    """Measure and print."""
    times: dict[str, list[float]] = {name: [] for name in CODES}
    for _ in range(RUNS):
        for name, code in CODES.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
            times[name].append((time.perf_counter() - begun) * 1e3)
    bare = statistics.median(times["bare interpreter"])
    for name, found in times.items():
        middle = statistics.median(found)
        print(f"{name:<24}{middle:7.1f} ms  (+{middle - bare:5.1f})")
    code = (
        "import sys, fsm_agent.core.step\n"
        "print([name for name in sys.modules if name in ('anthropic', 'anyio', 'click', 'httpx2')])"
    )
    print("heavy modules in the core:", subprocess.check_output([sys.executable, "-c", code], text=True).strip())
    print("target: import fsm_agent.core adds at most 60 ms")


if __name__ == "__main__":
    main()
