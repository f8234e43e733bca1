"""Field reports F: images and documents."""

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_agent.core.effects import CallModel
from fsm_agent.core.outputs import ErrorOutput
from fsm_agent.testing import Fault

from .kit import at_every_event, bodies, holds, over_http_at_every_event

REFUSED = """
prompt: [{image: png}, {text: What is it}]
replies:
  - {fails: {kind: media_too_large, media_path: messages.0.content.0}}
  - I cannot see it.
"""


def images(body: dict[str, object]) -> int:
    """Count the media of a request."""
    return str(body).count("'type': 'image'") + str(body).count("'type': 'document'")


def pictured(text: str = REFUSED, expect: str = "{reason: completed, cause: end_turn}"):  # type: ignore[no-untyped-def]
    """Read a scenario with a prompt of its own."""
    from fsm_agent.scenario import loads

    return loads(f"title: A report.\nexpect: {expect}\n{text}")


def test_71_a_refused_image_is_replaced_once() -> None:
    """The image that the API refuses gives way to words, the turn goes on, no error is shown; then the session is usable."""
    run = holds(pictured())
    assert [images(body) for body in bodies(run)] == [1, 0]
    assert not any(isinstance(output, ErrorOutput) for output in run.outputs)


@pytest.mark.parametrize("fault", list(Fault))
def test_71_at_every_event(fault: Fault) -> None:
    """The same with every fault at every event."""
    at_every_event(pictured(), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_71_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP."""
    over_http_at_every_event(pictured(), fault)


@pytest.mark.parametrize("cap", [100, 50, 20])
def test_72_more_images_than_the_api_takes(cap: int) -> None:
    """Of 103 images the newest up to the cap are sent, the others are words, and the compactor is sent none."""
    parts = ", ".join(["{image: png}"] * 103)
    scenario = pictured(
        f"prompt: [{parts}, {{text: Compare.}}]\nmodels: {{scenario-model: {{max_media: {cap}}}}}\nreplies: [Alike.]\n"
    )
    run = holds(scenario)
    assert images(bodies(run)[0]) <= cap
    assert images(bodies(run)[0]) >= cap * 9 // 10  # a cut takes a few more, so that not each request has another one


def test_73_a_body_over_the_limit() -> None:
    """A 413 that names no block: media go first, and the request is not repeated alike."""
    text = "prompt: [{image: png}, {image: png}, {text: Compare.}]\nreplies: [{fails: media_too_large}, Alike.]\n"
    run = holds(evolve(pictured(text), title="A body that is too large."))
    assert [images(body) for body in bodies(run)] == [2, 0]
    assert len([effect for effect in run.effects if isinstance(effect, CallModel)]) == 2
