"""Puts the real parts together: the SDK, the tools, hooks, providers and the compactor (spec 03)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ..core.config import ConfigError, LoopConfig, check_words
from ..core.effects import PrefetchKind
from ..runtime.compactor import ModelCompactor
from ..runtime.hooks.config import Hook, HookConfig, HookEvent, hooks_from_settings
from ..runtime.hooks.runner import HookSet
from ..runtime.model_caller import ModelCaller
from ..runtime.model_data import find_model, load_models
from ..runtime.model_files import read_model_file, unknown_model_warning
from ..runtime.notices import warn
from ..runtime.permissions.decide import Policy
from ..runtime.permissions.modes import mode_of
from ..runtime.permissions.rules import parse_rules
from ..runtime.ports import Compactor, Deps, Model
from ..runtime.providers import Provider, ProviderSet
from ..runtime.tools.builtin import builtin_tools
from ..runtime.tools.environment import child_environment
from ..runtime.tools.paths import Workspace
from ..runtime.tools.pipeline import ToolBox
from ..runtime.tools.reread import RecentFiles
from .lifecycle import HookedCompactor, NotifyingAsker
from .parts import Parts
from .structured import StructuredOutput
from .summaries import summary_provider

Release = Callable[[], Awaitable[None]]


@frozen
class Assembled:
    """The parts of an agent, put together.

    Attributes:
        config: the given configuration with what follows from the parts: models, tools, hooks, providers.
        deps: the parts.
        release: closes connections after a run; None if there are none of ours.
        warnings: what was left out of the settings, and why.
    """

    config: LoopConfig
    deps: Deps
    release: Release | None
    warnings: tuple[str, ...]


def assemble(config: LoopConfig, parts: Parts, *, cwd: Path, permission_mode: str) -> Assembled:
    """Make the parts of an agent.

    Args:
        config: as the user gave it.
        parts: what the user chose.
        cwd: the workspace.
        permission_mode: what tools may do without asking.

    Raises:
        ValueError: for a mode, rule or hook that cannot be read, or a folder that is none.
    """
    config = with_models(config, parts.models_file)
    check_words(config)
    unknown = tuple(unknown_model_warning(info) for info in config.models if not info.known)
    environment = child_environment(os.environ if parts.env is None else parts.env)
    chosen = _hooks(parts.hooks)
    check = None if config.output_schema is None else StructuredOutput(config.output_schema, retries=parts.structured_retries)
    base = {"permission_mode": permission_mode}
    hooks = HookSet(chosen.hooks, cwd=str(cwd), env=environment, base=base, check=check)
    tools = _tools(parts, hooks, environment, cwd, permission_mode)
    model: Model
    release: Release | None = None
    if parts.model_caller is not None:
        model = parts.model_caller
    else:
        model = caller = _caller(config, parts, tools)
        release = caller.aclose
    if parts.telemetry is not None:
        model = parts.telemetry.model(model)
    providers = ProviderSet(
        attachments=parts.attachment_providers,
        memory=parts.memory_providers,
        skills=parts.skill_providers,
        summary=_summary(parts, model),
    )
    config = evolve(
        config,
        tools=tools.schemas(),
        stop_hooks=config.stop_hooks or check is not None or hooks.has(HookEvent.STOP),
        attachments=config.attachments or providers.has_attachments,
        prefetch_memory=config.prefetch_memory or providers.prefetches(PrefetchKind.MEMORY),
        prefetch_skills=config.prefetch_skills or providers.prefetches(PrefetchKind.SKILLS),
        tool_summaries=config.tool_summaries or providers.summarizes,
    )
    compactor: Compactor = parts.compactor or ModelCompactor(
        model, config, summariser=parts.summariser, files=RecentFiles(tools)
    )
    if hooks.has(HookEvent.PRE_COMPACT):
        compactor = HookedCompactor(compactor, hooks)
    deps = Deps(model=model, tools=tools, compactor=compactor, hooks=hooks, providers=providers, observer=parts.telemetry)
    return Assembled(config=config, deps=deps, release=release, warnings=chosen.warnings + unknown)


def with_models(config: LoopConfig, file: str | os.PathLike[str] | None = None) -> LoopConfig:
    """Add the data of the models that the configuration names and does not describe itself.

    Args:
        config: the configuration.
        file: a data file whose entries go over the packaged ones.

    Raises:
        ModelDataError: for a file that cannot be used.
    """
    known = {info.name for info in config.models}
    named = (config.model, *config.fallback_models)
    data = read_model_file(file).models
    missing = tuple(find_model(name, data) for name in named if name not in known)
    return evolve(config, models=config.models + missing) if missing else config


def _summary(parts: Parts, model: Model) -> Provider | None:
    if parts.summary_model is None:
        return parts.summary_provider
    if parts.summary_provider is not None:
        raise ConfigError("summary_model and summary_provider cannot stand beside each other")
    return summary_provider(model, parts.summary_model)


def _hooks(given: Iterable[Hook] | Mapping[str, Any]) -> HookConfig:
    if isinstance(given, Mapping):
        return hooks_from_settings(given)
    return HookConfig(tuple(given))


def _tools(parts: Parts, hooks: HookSet, environment: Mapping[str, str], cwd: Path, mode: str) -> ToolBox:
    stored = () if parts.results_folder is None else (parts.results_folder,)
    readable = (*stored, *(os.fspath(folder) for folder in parts.read_dirs))
    rules = parse_rules(allow=parts.allow, ask=parts.ask, deny=parts.deny, base=str(cwd))
    policy = Policy(
        workspace=Workspace.at(cwd, extra=parts.add_dirs, read=readable),
        mode=mode_of(mode),
        rules=rules if parts.rules is None else parts.rules + rules,
    )
    asker = parts.asker
    if asker is not None and hooks.has(HookEvent.NOTIFICATION):
        asker = NotifyingAsker(asker, hooks)
    return ToolBox(
        builtin_tools() if parts.tools is None else parts.tools,
        policy=policy,
        hooks=hooks,
        asker=asker,
        env=environment,
        results_folder=parts.results_folder,
        on_warning=warn,
        around=None if parts.telemetry is None else parts.telemetry.tool,
    )


def _caller(config: LoopConfig, parts: Parts, tools: ToolBox) -> ModelCaller:
    options: dict[str, Any] = {}
    if parts.idle_timeout is not None:
        options["idle_timeout"] = parts.idle_timeout
    return ModelCaller(
        tools.traits,
        api_key=parts.api_key,
        base_url=parts.base_url,
        # Models that only a switch, a summary or a sub-agent names cost money too.
        models=(*load_models(), *config.models),
        raw_events=parts.raw_events,
        middleware=() if parts.telemetry is None else parts.telemetry.middleware,
        **options,
    )
