"""What an agent is made of beside its configuration, as plain data; nothing heavy is imported to write it down."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from ..runtime.hooks.config import Hook
    from ..runtime.permissions.rules import RuleSet
    from ..runtime.ports import Compactor, Model, Telemetry
    from ..runtime.providers import Provider
    from ..runtime.tools.asking import Asker
    from ..runtime.tools.base import Tool


@frozen
class Parts:
    """The parts of an agent; each has a default that works.

    Attributes:
        tools: what the model may call; None for the built-in tools.
        hooks: hooks in order, or a settings object with ``hooks`` in the known form.
        allow: permission rules that allow, such as ``Bash(git diff:*)``.
        ask: rules that ask.
        deny: rules that deny.
        rules: further rules, with the folders that their paths start from; as settings files have them.
        asker: asks the user; without one, what would be asked is denied.
        add_dirs: further folders in which tools may work.
        read_dirs: further folders in which tools may read only, such as those of the user's skills.
        results_folder: where long results are stored for the model to read; None stores none.
        attachment_providers: providers asked after each round.
        memory_providers: providers asked once, when the run starts.
        skill_providers: providers asked on each pass.
        summary_provider: sums up a round of tools in a few words.
        summary_model: a small model that does so; not beside ``summary_provider``.
        structured_retries: how often an answer that does not fit ``output_schema`` is sent back.
        telemetry: makes traces and metrics; see :class:`fsm_agent.telemetry.Telemetry`.
        api_key: None for the SDK's usual places.
        base_url: of the API; None for the SDK's usual places.
        idle_timeout: seconds without an event after which a stream counts as stalled; None for the default.
        raw_events: raw stream events are outputs too.
        summariser: model that writes summaries; None for the one in use.
        models_file: data of models that goes over the packaged data; None for the packaged data alone.
        model_caller: performs model calls instead of the SDK.
        compactor: writes summaries instead of the model.
        env: the environment of child processes before secrets are taken out; None for this process's own.
    """

    tools: Sequence[Tool] | None = None
    hooks: Sequence[Hook] | Mapping[str, Any] = ()
    allow: Iterable[str] = ()
    ask: Iterable[str] = ()
    deny: Iterable[str] = ()
    rules: RuleSet | None = None
    asker: Asker | None = None
    add_dirs: Sequence[str | os.PathLike[str]] = ()
    read_dirs: Sequence[str | os.PathLike[str]] = ()
    results_folder: str | None = None
    attachment_providers: Sequence[Provider] = ()
    memory_providers: Sequence[Provider] = ()
    skill_providers: Sequence[Provider] = ()
    summary_provider: Provider | None = None
    summary_model: str | None = None
    structured_retries: int = 5
    telemetry: Telemetry | None = None
    api_key: str | None = None
    base_url: str | None = None
    idle_timeout: float | None = None
    raw_events: bool = False
    summariser: str | None = None
    models_file: str | os.PathLike[str] | None = None
    model_caller: Model | None = None
    compactor: Compactor | None = None
    env: Mapping[str, str] | None = None
