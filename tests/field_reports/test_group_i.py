"""Field reports I: stop hooks and other loops."""
# ruff: noqa: E501 - a reply of a story stands on one line

from __future__ import annotations

import pytest

from fsm_agent.testing import Fault

from .kit import at_every_event, begun, bodies, holds, over_http_at_every_event, story

CAP = "{reason: completed, cause: stop_hook_cap}"
BLOCKS = "config: {stop_hooks: true}\ntools: {look: {read_only: true, concurrency_safe: true}}\n"


@pytest.mark.parametrize("texts", ["same", "new"])
def test_100_a_hook_that_always_blocks(texts: str) -> None:
    """Without a limit on turns, a hook that blocks with the same or with new words meets the cap; that is no success."""
    hooks = ", ".join(f"{{block: {'not yet' if texts == 'same' else f'not yet {number}'}}}" for number in range(30))
    run = holds(story(f"{BLOCKS}replies: [{{blocks: [{{text: Done.}}], times: 30}}]\nstop_hooks: [{hooks}]\n", CAP))
    assert len(bodies(run)) == 9


def test_100_the_cap_of_a_run() -> None:
    """With a tool run in between blocks are not in a row, and the cap of the run ends it."""
    rounds = ", ".join(f"{{blocks: [{{tool: look, input: {{n: {number}}}}}]}}, Done." for number in range(30))
    hooks = ", ".join("{block: not yet}" for _ in range(30))
    run = holds(story(f"{BLOCKS}replies: [{rounds}]\nstop_hooks: [{hooks}]\n", CAP))
    assert run.taken.count("stop_hook_blocking") == 24


def test_100_a_hook_that_crashes_does_not_block() -> None:
    """A crash is a warning, and the run ends well."""
    run = holds(story(f"{BLOCKS}replies: [Done.]\nstop_hooks: [crash]\n"))
    assert len(bodies(run)) == 1


def test_100_nothing_left_to_say() -> None:
    """Blocked, and then empty replies: the empty reply ends the run, the hook is not asked again."""
    run = holds(
        story(
            f"{BLOCKS}replies: [Done., {{blocks: [], times: 5}}]\nstop_hooks: [{{block: not yet}}, {{block: not yet}}]\n",
            "{reason: completed, cause: empty_reply}",
        )
    )
    assert len(bodies(run)) <= 4


BLOCKING = f"{BLOCKS}replies: [Done., {{blocks: [{{tool: look}}]}}, Done now., Done again.]\nstop_hooks: [{{block: look first}}, {{block: more}}]\n"


@pytest.mark.parametrize("fault", list(Fault))
def test_100_at_every_event(fault: Fault) -> None:
    """Every fault at every event of a run that is blocked twice."""
    at_every_event(story(BLOCKING), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_100_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP."""
    over_http_at_every_event(story(BLOCKING), fault)


LOOP = "{reason: hook_stopped, cause: loop_detected}"


@pytest.mark.parametrize("inputs", ["1", "1 2"])
def test_102_the_same_call_for_ever(inputs: str) -> None:
    """One call, or two in turn, repeated with the same result: one warning, then the end."""
    kinds = inputs.split()
    replies = ", ".join(f"{{blocks: [{{tool: look, input: {{n: {kinds[number % len(kinds)]}}}}}]}}" for number in range(40))
    run = holds(story(f"{BLOCKS}replies: [{replies}]\n", LOOP))
    assert begun(run) < 20


def test_102_polling_is_no_loop() -> None:
    """The same call whose result changes goes on."""
    answers = ", ".join(f"{number} %" for number in range(12))
    tools = f"tools: {{look: {{read_only: true, concurrency_safe: true, results: [{answers}]}}}}\n"
    run = holds(story(f"{tools}replies: [{{blocks: [{{tool: look, input: {{n: 1}}}}], times: 12}}, Done.]\n"))
    assert begun(run) == 12
