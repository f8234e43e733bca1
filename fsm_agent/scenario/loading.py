"""Read scenarios from YAML (spec 04, testing kit). Everything is checked; a complaint names its place.

A file holds one mapping::

    title: One tool round, then an answer.   # required
    expect: {reason: completed, cause: end_turn, continues: [next_turn]}
    prompt: Look around.                     # a text, or a list of {text: ...}, {image: png, width: 9}, {block: {...}}
    model: scenario-model                    # the default
    models: {scenario-model: {context_window: 20000}}      # capabilities (ModelInfo)
    config: {max_turns: 3, context: {keep_rounds: 1}}      # fields of LoopConfig and ContextConfig
    tools: {look: {read_only: true, concurrency_safe: true, result: two files}}
    replies:
      - blocks: [{thinking: hm}, {tool: look, input: {path: .}}, settle, {text: Looking.}]
      - {fails: overloaded}                  # an HTTP error; with blocks, an error inside the stream after them
      - Two files.                           # a lone text is a reply that ends its turn

Further keys: ``real_tools``, ``files``, ``stop_hooks``, ``attachments``, ``compactor``, ``summariser``, ``collapses``,
``history`` (see :mod:`.history`), ``reread``, ``memory``, ``skills``, ``summary``, ``user``, ``source``, ``token_budget``,
``depth``, ``ways``, ``values``. Between two blocks, ``settle`` lets tools that run beside the stream finish, and
``started`` lets them start. ``{{name}}`` in any text stands for an entry of ``values``, which the caller of :func:`load`
may override.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import evolve

from ..core.blocks import dumps
from ..core.config import ConfigError, LoopConfig, ToolSchema, check_words
from ..core.models import ModelInfo
from .environment import (
    read_attachments,
    read_background,
    read_expect,
    read_files,
    read_hooks,
    read_png,
    read_reread,
    read_tools,
    read_user,
)
from .format import Scenario, ScenarioError, ToolSpec, Way
from .history import read_history
from .pictures import image, png
from .reading import Fields, fail, need_choice, need_list, need_mapping, need_text
from .replies import read_other, read_replies, read_summaries
from .settings import overridden

DEFAULT_MODEL = "scenario-model"
MAX_BYTES = 1_000_000
COLLAPSE_MS = 60
"""How long the summary of a span takes: longer than the model needs to begin its reply, shorter than a settle point."""
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
"""One transparent pixel."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_BASE = LoopConfig(model=DEFAULT_MODEL, backoff_ms=10)
"""Scenarios back off for 10 ms, so that they play quickly where time is real."""
_BASE_MODEL = ModelInfo(
    name=DEFAULT_MODEL,
    thinking=("adaptive", "disabled"),
    thinking_default=True,
    input_price=3_000_000,
    output_price=15_000_000,
)
_OWN_SETTINGS = ("model", "models", "tools")


def loads(text: str, place: str = "scenario", values: Mapping[str, str] | None = None) -> Scenario:
    """Read one scenario from YAML text.

    Args:
        text: the YAML text.
        place: how complaints name it.
        values: override entries of the scenario's own ``values``.

    Raises:
        ScenarioError: if anything in it is wrong; nothing is guessed.
    """
    if len(text) > MAX_BYTES:
        raise ScenarioError(f"{place}: larger than {MAX_BYTES} characters")
    tree = _parse(text, place)
    top = Fields(tree, f"{place},")
    given = need_mapping(top.take("values", {}), top.at("values"))
    own = {key: need_text(value, f"{top.at('values')}.{key}") for key, value in given.items()}
    for key in values or {}:
        if key not in own:
            raise fail(top.at("values"), f"the scenario has no value {key!r}")
    filled = _fill(tree, {**own, **(values or {})}, place)
    return _read(Fields(filled, f"{place},"), place)


def load(source: str | Path, values: Mapping[str, str] | None = None) -> Scenario:
    """Read one scenario from a file, or by its name from the catalog.

    Args:
        source: a path (it has a slash or ends in ``.yaml`` or ``.yml``), or a name of :func:`catalog`.
        values: override entries of the scenario's own ``values``.

    Raises:
        ScenarioError: if there is no such scenario or it is wrong.
    """
    text = str(source)
    if isinstance(source, Path) or "/" in text or text.endswith((".yaml", ".yml")):
        path = Path(source)
        try:
            return loads(path.read_text(encoding="utf-8"), f"scenario {path.name}", values)
        except FileNotFoundError:
            raise ScenarioError(f"no scenario file {text}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"cannot read scenario file {text}: {error}") from None
    if text not in catalog():
        raise ScenarioError(f"no scenario {text!r} in the catalog; list them with: fsm-agent demo --list")
    packaged = resources.files(__package__) / "catalog" / f"{text}.yaml"
    return loads(packaged.read_text(encoding="utf-8"), f"scenario {text}.yaml", values)


def catalog() -> tuple[str, ...]:
    """Name the packaged scenarios, sorted."""
    folder = resources.files(__package__) / "catalog"
    return tuple(sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def _parse(text: str, place: str) -> Any:
    import yaml

    class Strict(yaml.SafeLoader):
        """YAML in which a key given twice is an error, and aliases too: they can make a value endless."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if name is not None and name in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is there twice", key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=Strict)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ScenarioError(f"{place}{where}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScenarioError(f"{place}: is no YAML: {error or type(error).__name__}") from None


def _fill(value: Any, values: Mapping[str, str], place: str) -> Any:
    if isinstance(value, str):

        def replace(hole: re.Match[str]) -> str:
            if hole[1] not in values:
                raise ScenarioError(f"{place}: {hole[0]} is not among its values")
            return values[hole[1]]

        return _HOLE.sub(replace, value)
    if isinstance(value, list):
        return [_fill(item, values, place) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, values, place) for key, item in value.items()}
    return value


def _read(top: Fields, place: str) -> Scenario:
    top.take("values", {})
    title = top.text("title")
    if "\n" in title.strip() or not title.strip():
        raise fail(top.at("title"), "must be one sentence")
    tools = read_tools(top.take("tools", {}), top.at("tools"))
    hooks = read_hooks(top.take("stop_hooks", []), top.at("stop_hooks"))
    attachments = read_attachments(top.take("attachments", []), top.at("attachments"))
    memory = read_background(top.take("memory", None), top.at("memory"))
    skills = read_background(top.take("skills", None), top.at("skills"))
    summary = read_background(top.take("summary", None), top.at("summary"))
    config = evolve(
        _read_config(top),
        tools=tuple(_schema(tool) for tool in tools),
        stop_hooks=bool(hooks),
        attachments=bool(attachments),
        prefetch_memory=memory is not None,
        prefetch_skills=skills is not None,
        tool_summaries=summary is not None,
    )
    scenario = Scenario(
        name=_read_name(top, place),
        title=title.strip(),
        expect=read_expect(top.take("expect"), top.at("expect")),
        config=config,
        prompt=_read_prompt(top.take("prompt"), top.at("prompt")),
        history=read_history(top.take("history", []), top.at("history"), config.model),
        replies=read_replies(top.take("replies", []), top.at("replies")),
        tools=tools,
        real_tools=top.flag("real_tools"),
        files=read_files(top.take("files", {}), top.at("files")),
        stop_hooks=hooks,
        attachments=attachments,
        compactor=read_summaries(top.take("compactor", []), top.at("compactor")),
        summariser=top.text("summariser", None),
        reread=read_reread(top.take("reread", {}), top.at("reread")),
        collapses=read_summaries(top.take("collapses", []), top.at("collapses"), COLLAPSE_MS),
        memory=memory,
        skills=skills,
        summary=summary,
        user=read_user(top.take("user", []), top.at("user")),
        source=top.text("source", "sdk"),
        token_budget=top.whole("token_budget", None, 1),
        depth=top.whole("depth", 0),
        ways=tuple(need_choice(item, Way, where) for item, where in top.each("ways")) or tuple(Way),
    )
    top.done()
    if scenario.files and not scenario.real_tools:
        raise fail(top.at("files"), "files need 'real_tools: true'")
    return scenario


def _read_name(top: Fields, place: str) -> str:
    stem = place.rsplit(" ", 1)[-1].removesuffix(".yaml").removesuffix(".yml")
    name: str = top.text("name", stem)
    if not _NAME.fullmatch(name):
        raise fail(top.at("name"), f"must be lower-case words joined by hyphens, not {name!r}")
    return name


def _read_config(top: Fields) -> LoopConfig:
    model = top.text("model", DEFAULT_MODEL)
    settings = dict(need_mapping(top.take("config", {}), top.at("config")))
    for name in _OWN_SETTINGS:
        if name in settings:
            raise fail(top.at("config"), f"{name!r} is given at the top of the scenario, not here")
    place = top.at("models")
    given = need_mapping(top.take("models", {}), place)
    fallbacks = settings.get("fallback_models", [])
    names = [model, *(name for name in fallbacks if isinstance(name, str) and name != model)]
    names += [name for name in given if name not in names]
    try:
        models = tuple(overridden(evolve(_BASE_MODEL, name=name), given.get(name, {}), f"{place}.{name}") for name in names)
        config = overridden(evolve(_BASE, model=model, models=models), settings, top.at("config"))
        check_words(config)
    except ConfigError as error:
        raise fail(top.at("config"), str(error)) from None
    return config


def _schema(tool: ToolSpec) -> ToolSchema:
    value = {
        "name": tool.name,
        "description": f"Scripted tool {tool.name}.",
        "input_schema": {"type": "object", "properties": {}},
    }
    return ToolSchema(name=tool.name, json=dumps(value), compactable=tool.compactable, exempt=tool.max_result_chars is None)


def _read_prompt(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (dumps({"type": "text", "text": value}),)
    blocks = []
    for item, where in need_list(value, place):
        fields = Fields(item, where)
        if "text" in fields:
            blocks.append(dumps({"type": "text", "text": fields.text("text")}))
        elif "image" in fields:
            width, height = read_png(fields)
            blocks.append(dumps(image(TINY_PNG if width == height == 1 else png(width, height))))
        else:
            blocks.append(read_other(fields.take("block"), fields.at("block")).json)
        fields.done()
    if not blocks:
        raise fail(place, "must not be empty")
    return tuple(blocks)
