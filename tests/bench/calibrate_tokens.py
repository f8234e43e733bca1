"""How far the token estimates are from real usage: recorded replies, and growth of prompts in recorded sessions.

Run ``python tests/bench/calibrate_tokens.py`` beside the recordings (``../shared/data``); it prints the table of
``docs/context.md``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import frozen

from fsm_agent.core.blocks import Block, read_block, text_block
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.server.recorded import events_of, read_stream

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
_THINKING = ("thinking", "redacted_thinking")
_OURS = ("text", "tool_use")


@frozen
class Sample:
    """One comparison: what it is of, real tokens, estimated tokens."""

    name: str
    real: int
    estimate: int

    @property
    def error(self) -> float:
        """Relative error; negative where the estimate is under."""
        return (self.estimate - self.real) / self.real


def tokens_of(blocks: list[Block], role: str = "assistant") -> int:
    """Estimate a message of these blocks, as the loop counts it."""
    return message("m", role, MessageKind.ASSISTANT, tuple(blocks)).tokens


def replies(left: Counter[str] | None = None, *, citations: bool = False) -> Iterator[Sample]:
    """Compare the output usage of whole recorded replies without thinking with the estimate of their blocks.

    Fixtures that look made by hand are left out, and so are replies with blocks of server tools, whose results are no
    output, and with citations, whose marks are output that no block shows.

    Args:
        left: counts what is left out, by reason.
        citations: give the replies with citations, and no others.
    """
    left = Counter() if left is None else left
    index = DATA / "streams" / "index.jsonl"
    for line in index.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        real = (entry.get("usage") or {}).get("output_tokens") or 0
        if entry.get("provenance") != "wire" or not entry.get("complete") or not real:
            left["made by hand, cut, or without usage"] += 1
            continue
        raw = (DATA / "streams" / f"{entry['id']}.sse").read_bytes()
        details = [
            (event.get("usage") or {}).get("output_tokens_details")
            for event in events_of(raw)
            if event.get("type") == "message_delta"
        ]
        hidden = any(isinstance(item, dict) and item.get("thinking_tokens") for item in details)
        content, _ = read_stream(raw)
        cited = any(block.get("citations") for block in content)
        other = not content or any(block.get("type") not in _OURS for block in content)
        if hidden or other or cited is not citations:
            left["thinking" if hidden else "server tools or nothing" if other else "citations"] += 1
            continue
        yield Sample(entry["id"], real, tokens_of([read_block(block) for block in content]))


@frozen
class _Turn:
    """One reply of a session: its prompt's size, and the messages that follow it up to the next reply."""

    prompt: int
    output: int
    model: str
    blocks: list[dict[str, Any]]
    after: list[list[Block]]


def growth(left: Counter[str] | None = None) -> Iterator[Sample]:
    """Compare how much the prompt grew from one reply of a recorded session to the next with the estimate of what came between.

    What came between is the reply and what the user and the tools said. Turns with thinking are left out (old thinking
    leaves the prompt again), and so are those without usage and those whose prompt shrank.

    Args:
        left: counts what is left out, by reason.
    """
    left = Counter() if left is None else left
    for path in sorted((DATA / "transcripts").rglob("*.jsonl")):
        turns = list(_turns(path))
        for number, (one, two) in enumerate(pairwise(turns)):
            real = two.prompt - one.prompt
            thinks = any(block.get("type") in _THINKING for block in one.blocks)
            if thinks or not one.prompt or not two.prompt or real <= 0 or one.model != two.model or not one.after:
                why = "another model or nothing between" if one.model != two.model or not one.after else "the prompt shrank"
                left["thinking" if thinks else "no usage" if not one.prompt or not two.prompt else why] += 1
                continue
            estimate = tokens_of([read_block(block) for block in one.blocks])
            estimate += sum(tokens_of(blocks, "user") for blocks in one.after)
            yield Sample(f"{path.stem[:12]}/{number}", real, estimate)


def _turns(path: Path) -> Iterator[_Turn]:
    current: _Turn | None = None
    current_id = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        said = value.get("message") if isinstance(value, dict) else None
        if not isinstance(said, dict) or (value.get("isSidechain") and "subagents" not in path.parts):
            continue
        content = said.get("content")
        usage = said.get("usage")
        if said.get("role") == "assistant" and isinstance(usage, dict) and isinstance(content, list):
            if current is not None and said.get("id") == current_id:
                current.blocks.extend(content)
                continue
            if current is not None:
                yield current
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            prompt = sum(usage.get(name) or 0 for name in names)
            current_id = str(said.get("id"))
            current = _Turn(prompt, usage.get("output_tokens") or 0, str(said.get("model")), list(content), [])
        elif said.get("role") == "user" and current is not None:
            blocks = [text_block(content)] if isinstance(content, str) else [read_block(block) for block in content or []]
            current.after.append(blocks)
    if current is not None:
        yield current


def percentile(values: list[float], share: float) -> float:
    """Give the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * (len(ordered) - 1))))]


def distribution(samples: list[Sample]) -> dict[str, float]:
    """Sum the relative errors up: percentiles, and the whole estimate against the whole of the real tokens."""
    errors = [sample.error for sample in samples]
    shares = {f"p{round(100 * share)}": percentile(errors, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95)}
    total = sum(sample.estimate for sample in samples) / sum(sample.real for sample in samples) - 1
    return {"samples": len(samples), **shares, "total": total}


def main() -> None:
    """Print the table, and the worst cases."""
    print("| source | samples | p5 | p25 | median | p75 | p95 | all together |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    unsaid: Counter[str] = Counter()
    ungrown: Counter[str] = Counter()
    said, grown = list(replies(unsaid)), list(growth(ungrown))
    for name, samples in (("replies", said), ("growth of prompts", grown), ("both", said + grown)):
        found = distribution(samples)
        cells = " | ".join(f"{100 * found[key]:+.0f} %" for key in ("p5", "p25", "p50", "p75", "p95", "total"))
        print(f"| {name} | {found['samples']:.0f} | {cells} |")
    cited = list(replies(citations=True))
    if cited:
        found = distribution(cited)
        cells = " | ".join(f"{100 * found[key]:+.0f} %" for key in ("p5", "p25", "p50", "p75", "p95", "total"))
        print(f"| replies with citations | {found['samples']:.0f} | {cells} |")
    for name, samples in (("replies", said), ("growth", grown)):
        print(f"{name}: {sum(sample.error < -0.05 for sample in samples)} of {len(samples)} are under by more than 5 %")
    print("left out of the replies:", dict(unsaid))
    print("left out of the turns:", dict(ungrown))
    for source in (said, grown):
        for sample in sorted(source, key=lambda item: item.error)[:8]:
            print(f"  {sample.name}: real {sample.real}, estimate {sample.estimate}, {100 * sample.error:+.0f} %")


if __name__ == "__main__":
    main()
