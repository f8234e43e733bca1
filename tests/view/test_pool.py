"""Values on their way into a page: nothing is lost, nothing foreign is taken for the page's own, large texts stand once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.view import render_view
from fsm_agent.view.pool import Pool
from fsm_agent.view.words import Words, visible

from .logs import Maker
from .test_render import parse

KEYS = st.text(max_size=6) | st.sampled_from(["$p", "$m", "$is", "\\$p", "\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


def followed(pool: Pool, value: Any) -> Any:
    """Follow references as the page does, and undo what protects foreign keys."""
    if isinstance(value, dict):
        if "$p" in value:
            return followed(pool, json.loads(pool.items[value["$p"]]))
        return {key[1:] if key.startswith("\\") else key: followed(pool, item) for key, item in value.items()}
    return [followed(pool, item) for item in value] if isinstance(value, list) else value


def shown(value: Any) -> Any:
    """Give what a page should show of a value."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): shown(item) for key, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_foreign_values_come_back_as_they_were(value: Any) -> None:
    """Whatever JSON a tool or a model made, the page shows just that: texts made visible, keys with a dollar too."""
    pool = Pool(Words(lambda text: text))
    text = json.dumps(pool.loose(value), ensure_ascii=False)
    text.encode()
    assert followed(pool, json.loads(text)) == shown(value)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_visible_twice_is_visible_once(text: str) -> None:
    """What was made visible holds nothing hidden any more, and can be written as UTF-8."""
    once = visible(text)
    assert visible(once) == once
    once.encode()


def test_large_texts_stand_once(tmp_path: Path) -> None:
    """A large result is in the event, an output and a message, and in the file once; what was kept beside the log too."""
    maker = Maker(tmp_path / "a.jsonl")
    maker.reply("I look.", [("toolu_1", "Read", {"path": "big.txt"})])
    maker.run_tools("needle " + "x" * 60_000)
    maker.finish()
    html = render_view(tmp_path / "a.jsonl").html
    assert html.count(b"x" * 60_000) == 1
    assert len(parse(html).scripts) > 3


def test_media_is_described_and_not_copied(tmp_path: Path) -> None:
    """The data of an image is not in the page; its kind and size are."""
    data = "iVBORw0KGgo" + "A" * 5_000
    pool = Pool(Words(lambda text: text))
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    made = followed(pool, pool.loose(block))
    assert made["source"]["media_type"] == "image/png"
    assert made["source"]["data"] == f"… {len(data):,} characters of base64"
