"""Read the rest of a scenario: tools, hooks, background work, what the user does, and what is expected."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from ..core.events import EventKind, Outcome
from ..core.phases import CAUSES, Cause, CompactKind, ContinueReason, Phase, TerminalReason
from .answering import filled
from .format import Background, Expect, HookSpec, HookWord, ToolResultSpec, ToolSpec, UserSpec, UserWord
from .pictures import MAX_SIDE
from .reading import Fields, fail, need_choice, need_list, need_mapping, need_text


def read_side(fields: Fields, key: str) -> int:
    """Read a side of a picture in pixels, 1 if it is not given."""
    side: int = fields.whole(key, 1, 1)
    if side > MAX_SIDE:
        raise fail(fields.at(key), f"must be at most {MAX_SIDE}, not {side}")
    return side


def read_png(fields: Fields) -> tuple[int, int]:
    """Read ``image: png`` with its ``width`` and ``height``."""
    if fields.text("image") != "png":
        raise fail(fields.at("image"), "only 'png' can be given here, with width and height")
    return read_side(fields, "width"), read_side(fields, "height")


def read_result(value: Any, place: str) -> ToolResultSpec:
    """Read one result of a scripted tool: a text, or a mapping."""
    if isinstance(value, str):
        return ToolResultSpec(text=value)
    fields = Fields(value, place)
    result = ToolResultSpec(
        text=fields.text("text", "done"),
        outcome=fields.choice("outcome", Outcome, Outcome.OK),
        chars=fields.whole("chars", 0),
        image=read_png(fields) if "image" in fields else None,
    )
    fields.done()
    return result


def read_tool(name: str, value: Any, place: str) -> ToolSpec:
    """Read how one scripted tool behaves."""
    fields = Fields({} if value is None else value, place)
    if "result" in fields and "results" in fields:
        raise fail(place, "give 'result' or 'results', not both")
    results = tuple(read_result(item, where) for item, where in fields.each("results"))
    if "result" in fields:
        results = (read_result(fields.take("result"), fields.at("result")),)
    fields.take("result", None)
    limit = fields.take("max_result_chars", 50_000)
    spec = ToolSpec(
        name=name,
        read_only=fields.flag("read_only"),
        concurrency_safe=fields.flag("concurrency_safe"),
        idempotent=fields.flag("idempotent"),
        cancels_siblings=fields.flag("cancels_siblings"),
        compactable=fields.flag("compactable"),
        duration_ms=fields.whole("duration_ms", 10),
        results=results or (ToolResultSpec(),),
        progress=tuple(need_text(item, where) for item, where in fields.each("progress")),
        stop=fields.text("stop", None),
        denied=fields.flag("denied"),
        hang=fields.flag("hang"),
        max_result_chars=None if limit is None else fields.whole("max_result_chars", 50_000, 1),
    )
    fields.done()
    return spec


def read_tools(value: Any, place: str) -> tuple[ToolSpec, ...]:
    """Read all scripted tools, by name."""
    tools = need_mapping(value, place)
    return tuple(read_tool(name, tools[name], f"{place}.{name}") for name in tools)


def read_files(value: Any, place: str) -> tuple[tuple[str, str], ...]:
    """Read the files of a project: relative paths that stay inside it."""
    files = []
    for path, text in need_mapping(value, place).items():
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or ":" in path or "\0" in path:
            raise fail(place, f"{path!r} must be a relative path inside the project")
        files.append((path, need_text(text, f"{place}.{path}")))
    return tuple(files)


def read_reread(value: Any, place: str) -> tuple[tuple[str, str], ...]:
    """Read the files that are in use: a text each, or a mapping with ``text`` and ``chars``."""
    files = []
    for path, item in need_mapping(value, place).items():
        if isinstance(item, str):
            files.append((path, item))
            continue
        fields = Fields(item, f"{place}.{path}")
        files.append((path, filled(fields.text("text", ""), fields.whole("chars", 0))))
        fields.done()
    return tuple(files)


def _read_hook(value: Any, place: str) -> tuple[HookSpec, int]:
    if isinstance(value, str):
        word = need_choice(value, HookWord, place)
        if word in (HookWord.BLOCK, HookWord.PREVENT):
            raise fail(place, f"{value!r} needs a text: '{value}: why'")
        return HookSpec(word=word), 1
    fields = Fields(value, place)
    words = [word for word in (HookWord.BLOCK, HookWord.PREVENT) if word.value in fields]
    if len(words) != 1:
        raise fail(place, "must be one of: pass, crash, hang, 'block: text', 'prevent: text'")
    text = fields.text(words[0].value)
    cause = fields.choice("cause", Cause, Cause.HOOK)
    if cause not in CAUSES[TerminalReason.STOP_HOOK_PREVENTED]:
        raise fail(fields.at("cause"), f"must be hook or structured_output_exhausted, not {cause.value!r}")
    times = int(fields.whole("times", 1, 1))
    fields.done()
    return HookSpec(word=words[0], text=text, cause=cause), times


def read_hooks(value: Any, place: str) -> tuple[HookSpec, ...]:
    """Read the answers of the stop hooks in order."""
    hooks: list[HookSpec] = []
    for item, where in need_list(value, place):
        hook, times = _read_hook(item, where)
        hooks.extend([hook] * times)
    return tuple(hooks)


def read_background(value: Any, place: str) -> Background | None:
    """Read what a background effect brings: a text, or a mapping with ``text`` and ``duration_ms``."""
    if value is None:
        return None
    if isinstance(value, str):
        return Background(text=value)
    fields = Fields(value, place)
    background = Background(text=fields.text("text"), duration_ms=fields.whole("duration_ms", 20))
    fields.done()
    return background


def read_attachments(value: Any, place: str) -> tuple[str, ...]:
    """Read one text a round; ``null`` and an empty text stand for none."""
    return tuple("" if item is None else need_text(item, where) for item, where in need_list(value, place))


def _read_action(value: Any, place: str) -> tuple[UserWord, str]:
    if isinstance(value, str):
        word = need_choice(value, UserWord, place)
        if word in (UserWord.QUEUE, UserWord.SWITCH):
            raise fail(place, f"{value!r} needs a text: '{value}: ...'")
        return word, ""
    fields = Fields(value, place)
    words = [word for word in (UserWord.QUEUE, UserWord.SWITCH, UserWord.COMPACT) if word.value in fields]
    if len(words) != 1:
        raise fail(place, "must be one of: " + ", ".join(UserWord))
    text = fields.text(words[0].value)
    fields.done()
    return words[0], text


def read_user(value: Any, place: str) -> tuple[UserSpec, ...]:
    """Read what the user does: each ``when`` {event or phase, nth} and ``do``."""
    actions = []
    for item, where in need_list(value, place):
        fields = Fields(item, where)
        when = Fields(fields.take("when"), fields.at("when"))
        if ("event" in when) == ("phase" in when):
            raise fail(when.place, "give one of 'event' and 'phase'")
        word, text = _read_action(fields.take("do"), fields.at("do"))
        spec = UserSpec(
            word=word,
            text=text,
            event=when.choice("event", EventKind, None),
            phase=when.choice("phase", Phase, None),
            nth=when.whole("nth", 1, 1),
        )
        when.done()
        fields.done()
        actions.append(spec)
    return tuple(actions)


OUTPUT_WORDS = (
    "init",
    "request_start",
    "text_delta",
    "thinking_delta",
    "block",
    "assistant",
    "user",
    "tool_progress",
    "tool_result",
    "tool_use_summary",
    "boundary",
    "retrying",
    "notice",
    "tombstone",
    "call_end",
    "error",
    "rejected",
    "terminal",
    "result",
)
"""Outputs as ``expect`` names them (spec 03)."""


def _outputs(fields: Fields, key: str) -> tuple[str, ...]:
    words = []
    for item, where in fields.each(key):
        if item not in OUTPUT_WORDS:
            raise fail(where, f"unknown output {item!r}; one of " + ", ".join(OUTPUT_WORDS))
        words.append(item)
    return tuple(words)


def read_expect(value: Any, place: str) -> Expect:
    """Read how the run must go; the cause must belong to the reason."""
    fields = Fields(value, place)
    reason = fields.choice("reason", TerminalReason)
    cause = fields.choice("cause", Cause)
    if cause not in CAUSES[reason]:
        raise fail(fields.at("cause"), f"{cause.value!r} is no cause of {reason.value!r}; one of " + ", ".join(CAUSES[reason]))
    continues = compactions = models = None
    if "continues" in fields:
        continues = tuple(need_choice(item, ContinueReason, where) for item, where in fields.each("continues"))
    if "compactions" in fields:
        compactions = tuple(need_choice(item, CompactKind, where) for item, where in fields.each("compactions"))
    if "models" in fields:
        models = tuple(need_text(item, where) for item, where in fields.each("models"))
    expect = Expect(
        reason=reason,
        cause=cause,
        continues=continues,
        rows=tuple(need_text(item, where) for item, where in fields.each("rows")),
        outputs=_outputs(fields, "outputs"),
        absent=_outputs(fields, "absent"),
        compactions=compactions,
        models=models,
    )
    fields.done()
    return expect
