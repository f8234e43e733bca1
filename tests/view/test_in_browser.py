"""The view in a real browser: opened from disk, driven by keys, read from its document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .browser import Browser
from .logs import HOSTILE

Pages = dict[str, Path]
STEP = "document.querySelector('#place b').textContent"


def at(browser: Browser) -> int:
    """Give the sequence number of the step in hand."""
    return int(browser.read(STEP).split(" / ")[0])


def texts(browser: Browser, selector: str) -> list[str]:
    """Give the text of all elements that a selector finds."""
    found = browser.read(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")
    return list(found)


def clean(browser: Browser, page: Path) -> None:
    """Nothing was asked of a network, nothing broke the content policy, and no program failed."""
    assert browser.problems == []
    assert {url.partition("#")[0] for url in browser.requests} == {page.as_uri()}


@pytest.fixture
def small(browser: Browser, pages: Pages) -> Browser:
    """Give the browser with the small page, at its first step."""
    browser.open(pages["small"])
    browser.press("Home")
    return browser


def test_keys_move_through_the_run(small: Browser, pages: Pages) -> None:
    """Arrows take one step, shift with them and brackets a round, Home and End go to the ends; all within bounds."""
    last = small.read("COUNT - 1")
    assert at(small) == 0
    small.press("ArrowLeft")
    assert at(small) == 0
    small.press("ArrowRight", "ArrowRight")
    assert at(small) == 2
    small.press("ArrowLeft")
    assert at(small) == 1
    small.press("]")
    second = at(small)
    assert small.read("STEPS.turn[current]") == 2
    small.press("ArrowRight", shift=True)
    assert small.read("STEPS.turn[current]") == 3
    small.press("[")
    assert at(small) == second
    small.press("End")
    assert at(small) == last
    small.press("ArrowRight")
    assert at(small) == last
    clean(small, pages["small"])


@pytest.mark.parametrize(
    ("start", "end"), [("1e18", "1e18 + 64"), ("1e300", "2e300"), ("0", "Infinity"), ("NaN", "NaN"), ("5", "5")]
)
def test_the_axis_of_any_time_is_drawn(small: Browser, start: str, end: str) -> None:
    """A time so large that a second more is the same time, or none at all, does not hold the page."""
    small.read(f"timeline.follow = 'free', timeline.from = {start}, timeline.to = {end}, timeline.draw()")
    small.press("ArrowRight")
    assert at(small) == 1
    small.read("timeline.all()")


def test_space_plays_and_stops(small: Browser) -> None:
    """Space plays step after step until space is pressed again."""
    small.press(" ")
    small.until("current >= 2")
    assert small.read("document.getElementById('play').getAttribute('aria-pressed')") == "true"
    small.press(" ")
    assert small.read("timer") == 0


def test_a_step_shows_event_rows_effects_and_changes(small: Browser) -> None:
    """The panel of a step has its event, the microsteps in order, the effects, and what changed in the state."""
    small.read("go(STEPS.kind.findIndex((kind) => INDEX.kinds[kind] === 'stream_completed'))")
    assert texts(small, "#content .taken-row b") == ["stream_completed", "run_tools"]
    assert "calling_model → deciding" in texts(small, "#content .taken-row .way")[0]
    assert "tool_use" in texts(small, "#content dd")
    assert "assistant" in texts(small, "#content .effect-box b")
    changed = dict(zip(texts(small, ".changes th[scope]"), texts(small, ".changes .is"), strict=True))
    assert changed["phase"] == "running_tools"
    assert texts(small, "#totals .total-round dd") == ["1"]


def test_effects_open_whole(small: Browser) -> None:
    """An effect is opened by its line, and then shows its fields; a call shows its parameters."""
    small.press("ArrowRight")
    small.read("[...document.querySelectorAll('.effect-box')].forEach((box) => { box.open = true; })")
    small.until("document.querySelectorAll('.effect-box dl').length > 0")
    words = " ".join(texts(small, ".effect-box"))
    assert "call_model" in words
    assert "max_tokens" in words


def test_the_machine_counts_up_to_the_step(small: Browser) -> None:
    """The picture marks the phase in hand, and counts each row up to the step, forwards and backwards alike."""
    assert texts(small, "#machine .node.now .name") == ["ready"]
    assert small.read("document.querySelectorAll('#machine .edge.taken').length") == 0
    small.press("End")
    assert texts(small, "#machine .node.now .name") == ["completed"]
    counts = small.read("[...machine.counts]")
    total = small.read("STEPS.rows.reduce((sum, rows) => sum + rows.length, 0)")
    assert sum(counts) == total
    labels = texts(small, "#machine .edge.taken .label tspan")
    rounds = small.read("STEPS.turn[COUNT - 1]")
    assert f"next_turn ×{rounds - 1}" in labels
    small.press("Home")
    assert set(small.read("[...machine.counts]")) == {0}


def test_messages_of_a_step_are_those_of_its_state(small: Browser) -> None:
    """The messages are the working list behind the step; a compaction puts its summary in their place; a reply grows."""
    small.press("ArrowRight", "2")
    assert len(texts(small, "#content article")) == 1
    assert "Look through the whole project." in texts(small, "#content article")[0]
    small.press("ArrowRight", "ArrowRight")
    assert "1 blocks, 0 results" in texts(small, "#content article.live header")[0]
    cut = small.read("STEPS.flags.findIndex((flags) => flags & MARK.CUT)")
    assert cut > 0
    before = small.read(f"messagesAt({cut - 1}).length")
    small.read(f"go({cut})")
    kinds = texts(small, "#content article header b")
    assert "summary" in kinds
    assert len(kinds) < before


def test_effects_have_their_times_and_overlap(small: Browser) -> None:
    """Effects lie on the timeline from their request to their answer; tools that ran at once lie on lanes of their own."""
    spans: list[Any] = small.read("timeline.spans.map((span) => [span.kind, span.lane, span.issued, span.started, span.ended])")
    tools = [span for span in spans if span[0] == "tool"]
    for kind, lane, issued, started, ended in tools:
        assert issued <= started <= ended
        beside = [other for other in tools if other[1] == lane and other[2] < ended and issued < other[4]]
        assert beside == [[kind, lane, issued, started, ended]]
    assert max(span[1] for span in tools) >= 2
    small.press("3")
    small.read("go(timeline.spans.find((span) => span.kind === 'tool').steps[1])")
    assert small.read("document.querySelectorAll('.spans .flying').length") >= 1
    small.press("a", "r")


def test_context_shows_what_the_view_holds(small: Browser) -> None:
    """The context of a pass has its count, the limits, the kinds of messages, and the cuts up to there with a way to them."""
    small.press("4")
    assert "No request was prepared" in " ".join(texts(small, "#content p"))
    full = small.read("Array.from({ length: COUNT }, (_, step) => step).find((step) => STEPS.context[step] > 3)")
    small.read(f"go({full})")
    assert "tool results" in texts(small, "#content .kinds th")
    small.press("End")
    facts = dict(zip(texts(small, "#content .facts dt"), texts(small, "#content .facts dd"), strict=False))
    assert "compaction at" in facts
    assert any("compact (auto)" in text for text in texts(small, ".cuts li"))
    small.read("document.querySelector('.cuts .link').click()")
    assert small.read("flag(current, MARK.CUT)") is True


def test_search_finds_and_walks(small: Browser) -> None:
    """A slash goes to the search; Enter, n and N walk over the hits, which are counted and marked; Escape ends it."""
    small.press("/")
    small.write("compaction_finished")
    small.until("found.length > 0")
    hits = small.read("found")
    assert texts(small, "#hits")[0].startswith(str(len(hits)))
    small.press("Enter")
    assert at(small) == hits[0]
    small.press("n")
    assert at(small) == hits[1 % len(hits)]
    small.press("N")
    assert at(small) == hits[0]
    assert small.read("document.querySelectorAll('.row.hit').length") >= 1
    small.press("/")
    small.press("Escape")
    assert texts(small, "#hits") == [""]
    assert small.read("document.activeElement.id") == "list"
    small.press("/")
    small.write("no such words anywhere")
    assert texts(small, "#hits") == ["nothing"]
    small.press("Escape")


def test_what_can_be_done_can_be_done_by_keyboard(small: Browser) -> None:
    """Tabs, theme, diagram and help have keys; everything to press is a button with a name."""
    small.press("t")
    first = small.read("document.documentElement.dataset.theme")
    small.press("t")
    assert {first, small.read("document.documentElement.dataset.theme")} == {"light", "dark"}
    small.press("d")
    assert small.read("document.body.classList.contains('large')") is True
    small.press("d", "?")
    assert small.read("document.getElementById('keys').open") is True
    small.press("Escape")
    small.until("!document.getElementById('keys').open")
    named = "(one) => one.textContent || one.ariaLabel || one.title"
    assert small.read(f"[...document.querySelectorAll('button, input')].every({named})") is True
    for tab in "1234":
        small.press(tab)
        assert texts(small, "#tabs [aria-selected='true']")[0].startswith(tab)
    small.press("1")
    assert small.read("document.querySelector('[role=option][aria-selected=true]').id") == f"step-{at(small)}"


def test_hostile_texts_stay_texts(browser: Browser, pages: Pages) -> None:
    """Whatever a prompt, a tool or a model says, no markup of it is made, none of it runs, and it is shown as it is."""
    browser.open(pages["hostile"])
    count = browser.read("COUNT")
    before = browser.read("document.querySelectorAll('script, img, b, iframe').length")
    assert browser.read("document.querySelectorAll('img, iframe').length") == 0
    for tab in "1234":
        browser.press(tab)
        for step in range(count):
            browser.read(f"go({step})")
            browser.read("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    assert browser.read("document.querySelectorAll('script').length") <= before
    assert browser.read("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert browser.read("typeof window.owned") == "undefined"
    assert browser.read("({}).owned === undefined") is True
    browser.press("2")
    shown = " ".join(texts(browser, "#content"))
    assert "</script><script>window.owned = 1</script>" in shown
    assert "‹ESC›[31mred" in shown
    assert "‹NUL› nul" in shown
    assert "‹U+202E›gnp.exe‹U+202C›" in shown
    assert not set(shown) & {"\x00", "\x1b", "\u202e", "\u2066", "\u2028"}
    browser.press("/")
    browser.write("<img src=x onerror")
    browser.until("found.length > 0")
    clean(browser, pages["hostile"])


def test_the_policy_refuses_what_is_not_the_program(browser: Browser, pages: Pages) -> None:
    """A script or a picture that is put into the page by force is refused by its content policy."""
    browser.open(pages["hostile"])
    browser.read(
        "(() => { const one = document.createElement('script'); one.textContent = 'window.owned = 4';"
        " document.body.append(one);"
        " const two = document.createElement('img'); two.src = 'https://example.com/x.png'; document.body.append(two);"
        " const div = document.createElement('div'); div.innerHTML = \"<b onclick='window.owned = 5'>x</b>\";"
        " document.body.append(div); div.firstChild.click(); })()"
    )
    browser.until("true")
    assert browser.read("typeof window.owned") == "undefined"
    assert not [url for url in browser.requests if url.startswith("http")] or browser.problems


def test_five_thousand_steps_are_walked(browser: Browser, pages: Pages) -> None:
    """A long run opens, jumps anywhere, lists only what is seen, and parses only the pieces of which something is shown."""
    browser.open(pages["long"])
    assert browser.read("COUNT") > 5_000
    pieces = browser.read("[DETAILS.firsts.length, DETAILS.parsed.size]")
    assert pieces[0] > 10
    assert pieces[1] <= 2
    for step in (1, 2_500, 4_999, 17):
        browser.read(f"go({step})")
        assert at(browser) == step
        assert browser.read("document.querySelectorAll('#rows .row').length") < 80
    browser.press("2")
    same = browser.read(
        "(() => { const one = messagesAt(4321).join(); kept.clear(); messagesAt(100);"
        " return messagesAt(4321).join() === one; })()"
    )
    assert same is True
    browser.press("/")
    browser.write("part_400/file_0")
    browser.until("found.length > 0")
    browser.press("Enter")
    browser.press("1")
    assert "src/part_400/file_0.py" in " ".join(texts(browser, "#content"))
    browser.press("a")
    clean(browser, pages["long"])


def test_nothing_overlaps_at_common_sizes(browser: Browser, pages: Pages) -> None:
    """Header, scrubber and the three columns keep to their places, and nothing is wider than the window."""
    try:
        for width, height in ((1280, 720), (1440, 900), (1920, 1080), (900, 900)):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            browser.open(pages["small"])
            assert browser.read("document.documentElement.scrollWidth <= window.innerWidth") is True
            boxes = browser.read(
                "['top', 'scrub', 'list', 'picture', 'time', 'panel']"
                ".map((id) => document.getElementById(id).getBoundingClientRect())"
                ".map((box) => [box.left, box.top, box.right, box.bottom])"
            )
            for number, one in enumerate(boxes):
                assert one[2] - one[0] > 100, (width, number)
                for other in boxes[number + 1 :]:
                    apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
                    assert apart, (width, one, other)
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_names_fit_their_boxes(small: Browser) -> None:
    """In the picture each phase's name lies within its box, whatever fonts the machine has."""
    wide = small.read(
        "[...document.querySelectorAll('#machine .node[data-phase]')].filter((node) => "
        "node.querySelector('.name').getBBox().width > node.querySelector('rect').getBBox().width)"
        ".map((node) => node.dataset.phase)"
    )
    assert wide == []


def test_the_hostile_words_are_hostile() -> None:
    """The texts of the hostile log hold what each defence is for."""
    assert all(part in HOSTILE for part in ("</script>", "<!--", "\x00", "\x1b", "\u202e", "\u2028", "\ud800"))
