"""``Agent``: a model, tools and settings, put together once, from which runs are made (spec 03)."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields

from ..core.blocks import Block
from ..core.config import ConfigError, ContextConfig, EarlyStart, LoopConfig, Microcompact, check_names
from ..core.events import Event, RunStarted
from ..core.messages import MessageKind
from ..core.state import LoopState, Step, initial
from ..core.usage import total_cost
from ..runtime.commands import CommandStatus
from ..runtime.ports import Deps
from ..runtime.prompt import Prompt, user_message
from ..runtime.run import Run
from .parts import Parts

if TYPE_CHECKING:
    from ..log.format import Parent
    from ..log.resume import Standing


def new_id() -> str:
    """Make a short random id for a run or a session."""
    return secrets.token_hex(6)


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split names and values into fields of :class:`LoopConfig` and of :class:`Parts`.

    Raises:
        ConfigError: for a name that is neither.
    """
    known_parts, known_fields = _names(Parts), _names(LoopConfig)
    for name in settings:
        if name not in known_parts and name not in known_fields:
            raise _unknown(name, known_parts + known_fields, "")
    # What the model may call is given as tools; the definitions in the configuration follow from them.
    parts = {name: value for name, value in settings.items() if name in known_parts}
    return {name: value for name, value in settings.items() if name not in parts}, parts


def make_config(settings: Mapping[str, Any]) -> LoopConfig:
    """Make a configuration from names and values; ``context`` may be a mapping of its own.

    Raises:
        ConfigError: for a name that is no setting, or a value that cannot hold.
    """
    values = dict(settings)
    context = values.get("context")
    if isinstance(context, Mapping):
        for name in context:
            if name not in _names(ContextConfig):
                raise _unknown(name, _names(ContextConfig), "context.")
        values["context"] = ContextConfig(**_read_words(context, {"microcompact": Microcompact}))
    for name in values:
        if name not in _names(LoopConfig):
            raise _unknown(name, _names(LoopConfig), "")
    if not values.get("model"):
        raise ConfigError("model is missing: Agent(model=...)")
    return LoopConfig(**_read_words(values, {"early_start": EarlyStart}))


def _read_words(values: Mapping[str, Any], kinds: Mapping[str, type[StrEnum]]) -> dict[str, Any]:
    """Take plain words for members of closed sets; what is none is left, for the check that names the field."""
    read = dict(values)
    for name, kind in kinds.items():
        if read.get(name) in tuple(kind):
            read[name] = kind(read[name])
    return read


def _names(owner: Any) -> list[str]:
    return [field.name for field in fields(owner)]


def _unknown(name: str, known: list[str], prefix: str) -> ConfigError:
    if not prefix and name in _names(ContextConfig):
        return ConfigError(f"{name} is a setting of the context: context={{{name!r}: ...}}")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {prefix}{near[0]}?" if near else ""
    return ConfigError(f"{prefix}{name} is no setting{hint}")


def check_resumable(standing: Standing) -> None:
    """Refuse a log that holds nothing to go on with.

    Raises:
        LogError: says why.
    """
    from ..log.errors import LogError

    if standing.finished:
        raise LogError(f"{standing.path}: the run has ended; a new prompt goes on from it")
    if not standing.begun:
        raise LogError(f"{standing.path}: the run had not begun; submit its prompt again")


class Agent:
    """Makes runs. It holds no conversation: a :class:`Session` does, or the caller passes a state on.

    Used as an async context manager it keeps connections from one run to the next; otherwise each run closes its own.

    Args:
        model: the main model's name; not beside ``config``.
        config: the whole configuration, instead of ``model`` and ``settings``.
        deps: the parts that perform effects; by default the real ones, made from the fields of :class:`Parts`.
        logs: directory for logs, one file a run; None for no logs.
        cwd: the workspace, by default the current directory.
        permission_mode: what tools may do without asking.
        source: where the runs come from.
        log_sync: when a log is forced to disk: ``always``, ``tools`` (before a tool's body runs, and at the end) or
            ``never``.
        settings: fields of :class:`Parts` (tools, hooks, rules, key, base URL, ...; not beside ``deps``) and of
            :class:`LoopConfig` (not beside ``config``).

    Attributes:
        config: the configuration of every run.
        deps: the parts.
        warnings: what was left out of the settings, and why.

    Raises:
        ConfigError: for a setting that is unknown or cannot hold.
        ValueError: for a permission mode, rule or hook that cannot be read, or a folder that is none.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        config: LoopConfig | None = None,
        deps: Deps | None = None,
        logs: str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        permission_mode: str = "default",
        source: str = "sdk",
        log_sync: str = "tools",
        **settings: Any,
    ) -> None:
        fields_given, parts = split_settings(settings)
        if config is not None and (model is not None or fields_given):
            given = ", ".join(["model"] * (model is not None) + sorted(fields_given))
            raise ConfigError(f"config is the whole configuration; {given} cannot stand beside it")
        if deps is not None and parts:
            raise ConfigError(f"deps are all parts; {', '.join(sorted(parts))} cannot stand beside them")
        self.cwd = Path(cwd if cwd is not None else os.getcwd()).absolute()
        self.logs = None if logs is None else Path(logs).absolute()
        self.permission_mode = permission_mode
        self.source = source
        self.log_sync = log_sync
        if log_sync not in ("always", "tools", "never"):
            raise ConfigError(f"log_sync must be 'always', 'tools' or 'never', not {log_sync!r}")
        self._release: Callable[[], Awaitable[None]] | None = None
        self._kept = False
        self.warnings: tuple[str, ...] = ()
        config = config if config is not None else make_config({"model": model, **fields_given})
        check_names(config)
        if deps is None:
            from .assemble import assemble

            made = assemble(config, Parts(**parts), cwd=self.cwd, permission_mode=permission_mode)
            config, deps, self._release, self.warnings = made.config, made.deps, made.release, made.warnings
        elif not config.tools:
            config = evolve(config, tools=deps.tools.schemas())
        self.config = config
        self.deps = deps

    async def __aenter__(self) -> Agent:
        self._kept = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept = False
        await self._after_run()

    def run(
        self,
        prompt: Prompt,
        *,
        attachments: Sequence[Block] = (),
        state: LoopState | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        source: str | None = None,
        depth: int = 0,
        token_budget: int | None = None,
        log: str | os.PathLike[str] | None = None,
        parent: Callable[[Path], Parent | None] | None = None,
        on_command: Callable[[str, CommandStatus], None] | None = None,
        on_step: Callable[[Event, Step], None] | None = None,
        **options: Any,
    ) -> Run:
        """Make a run; nothing happens before its first output is asked for.

        Args:
            prompt: what the user asks.
            attachments: what goes with it, such as files; a compaction keeps the prompt, not these.
            state: where the conversation stands, from ``next_run``; None for a new one.
            run_id: by default a new one.
            session_id: the session that the run belongs to, by default a new one.
            source: where the run comes from, by default the agent's.
            depth: 0 for a main run.
            token_budget: output tokens to be spent.
            log: the log's file, by default one in ``logs``.
            parent: describes the log from whose end ``state`` follows, for the place of the new one.
            on_command: told of (command id, status) when a queued command moves on.
            on_step: told of every recorded step.
            options: further arguments of :class:`~fsm_agent.runtime.interpreter.Interpreter`.

        Raises:
            ValueError: for a blank prompt.
        """
        run_id = run_id or new_id()
        state = state if state is not None else initial(self.config)
        messages = [user_message(f"{run_id}/prompt", prompt)]
        if attachments:
            messages.append(user_message(f"{run_id}/attached", attachments, MessageKind.ATTACHMENT))
        start = RunStarted(
            run_id=run_id,
            messages=tuple(messages),
            source=source or self.source,
            permission_mode=self.permission_mode,
            depth=depth,
            token_budget=token_budget,
            spent=total_cost(state.data.session_usage),
        )
        return Run(
            self._with_log(state, session_id or new_id(), run_id, log, parent),
            self.config,
            state,
            start,
            on_command=on_command,
            on_step=on_step,
            on_end=self._after_run,
            **options,
        )

    def log_path(self, session_id: str, run_id: str) -> Path | None:
        """Give the place of a run's log, None if no logs are kept."""
        return None if self.logs is None else self.logs / session_id / f"{run_id}.jsonl"

    def resume(
        self,
        log: str | os.PathLike[str] | Standing,
        *,
        on_command: Callable[[str, CommandStatus], None] | None = None,
        on_step: Callable[[Event, Step], None] | None = None,
        **options: Any,
    ) -> Run:
        """Make a run that goes on where an interrupted one stopped, in its log and under its configuration.

        What was answered is not asked again. What was not is told to the core as lost, and its table decides: a call of
        the model is made again, a tool that had begun is reported to the model with an unknown outcome, and so on.

        Args:
            log: the log, or where it stands.
            on_command: told of (command id, status) when a queued command moves on.
            on_step: told of every recorded step.
            options: further arguments of :class:`~fsm_agent.runtime.interpreter.Interpreter`.

        Raises:
            LogError: if the log cannot be gone on with: it ended or never began, is damaged, is being written.
            ConfigError: if it needs a part that the agent lacks.
            OSError: if it cannot be read or written.
        """
        from ..log.resume import Standing, check_free, stand
        from .recording import LazyJournal, reopened
        from .resuming import resumption

        standing = log if isinstance(log, Standing) else stand(log)
        check_resumable(standing)
        check_free(standing.path)
        header = standing.header
        self._find_results_in(standing.path)
        recorder = LazyJournal(standing.path, partial(reopened, standing, self.log_sync), session_id=header.session)
        return Run(
            evolve(self.deps, recorder=recorder),
            header.config,
            standing.state,
            resumption(standing, self.deps.tools),
            on_command=on_command,
            on_step=on_step,
            on_end=self._after_run,
            **options,
        )

    def _with_log(
        self,
        state: LoopState,
        session_id: str,
        run_id: str,
        log: str | os.PathLike[str] | None,
        parent: Callable[[Path], Parent | None] | None,
    ) -> Deps:
        path = log if log is not None else self.log_path(session_id, run_id)
        if path is None:
            return self.deps
        from ..log.files import SyncPolicy
        from ..log.journal import Journal
        from .recording import LazyJournal

        self._find_results_in(path)

        link = None if parent is None else parent(Path(path))
        create = partial(
            Journal.create,
            config=self.config,
            state=state,
            session_id=session_id,
            run_id=run_id,
            parent=link,
            linked=link is not None,
            policy=SyncPolicy(self.log_sync),
        )
        return evolve(self.deps, recorder=LazyJournal(path, create, session_id=session_id))

    def _find_results_in(self, log: str | os.PathLike[str]) -> None:
        """Let results that the toolbox no longer keeps be found in the logs beside this one."""
        results = getattr(self.deps.tools, "results", None)
        if results is not None:
            from .stored_results import find_in_logs

            results.look_in(partial(find_in_logs, Path(log).absolute().parent))

    async def _after_run(self) -> None:
        if self._release is not None and not self._kept:
            await self._release()
