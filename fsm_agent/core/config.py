"""Everything that a run is told when it starts, as one frozen value. Environment variables are never read later."""

from __future__ import annotations

from enum import StrEnum

from .frozen import frozen
from .memo import by_identity_and
from .models import ModelInfo, Thresholds


class ConfigError(ValueError):
    """A configuration that cannot hold; the text says which field and what to do."""


class EarlyStart(StrEnum):
    """Which tools may start while the model streams (spec 01, section 11)."""

    READ_ONLY = "read_only"
    CONCURRENCY_SAFE = "concurrency_safe"
    ANY = "any"
    NEVER = "never"


class Microcompact(StrEnum):
    """How old tool results are cleared (spec 02, layer 3)."""

    AUTO = "auto"
    """``cached`` for a model that binds thinking to its history and takes clearing edits, else ``off``."""
    OFF = "off"
    LOCAL = "local"
    CACHED = "cached"


@frozen
class ToolSchema:
    """One tool as the API sees it, and what the context layers must know of it.

    Attributes:
        name: the tool's name.
        json: JSON text of its definition.
        compactable: old results of it may be cleared by microcompact.
        exempt: it has no finite ``max_result_chars``, so the result budget leaves its results whole.
    """

    name: str
    json: str
    compactable: bool = False
    exempt: bool = False


@frozen
class ContextConfig:
    """Settings of the context layers (spec 02) and overrides of the thresholds (spec 01, section 8), in tokens.

    Attributes:
        context_window: tokens of the model's window, None for what is known of the model.
        effective_window: what of it a prompt may fill, None for the window less room for a reply.
        auto_compact_at: from here on the history is compacted, None for a little below the effective window.
        blocking_limit: from here on no call is made, None for just below the effective window.
        auto_compact: compact when the threshold is reached.
        reactive_compact: compact when the API finds the prompt too long.
        keep_rounds: newest rounds of tools that no compaction summarises.
        min_freed_percent: share of the view that a compaction must free to count as progress.
        breaker_failures: compactions without progress in a row after which none is tried.
        breaker_growth_percent: growth, as a share of the effective window, after which one is tried again.
        result_chars: characters of tool results in one message; more is replaced by previews.
        preview_chars: characters of such a preview.
        snip: drop old rounds without a summary.
        microcompact: how old tool results are cleared.
        keep_results: newest results that are never cleared.
        microcompact_percent: share of the effective window that clearing must free to be done.
        collapse: summarise spans of old rounds in the background.
        stage_percent: share of the compaction threshold from which spans are summarised.
        commit_percent: share from which the summaries take the place of their spans.
        attachment_tokens: room for files that are shown again behind a compaction.
        api_compaction: models that can compact by the API do.
    """

    context_window: int | None = None
    effective_window: int | None = None
    auto_compact_at: int | None = None
    blocking_limit: int | None = None
    auto_compact: bool = True
    reactive_compact: bool = True
    keep_rounds: int = 2
    min_freed_percent: int = 20
    breaker_failures: int = 3
    breaker_growth_percent: int = 10
    result_chars: int = 200_000
    preview_chars: int = 2_000
    snip: bool = False
    microcompact: Microcompact = Microcompact.AUTO
    keep_results: int = 5
    microcompact_percent: int = 10
    collapse: bool = False
    stage_percent: int = 70
    commit_percent: int = 85
    attachment_tokens: int = 50_000
    api_compaction: bool = True


@frozen
class LoopConfig:
    """The configuration of a run.

    Attributes:
        model: the main model.
        fallback_models: tried in order when the current one fails for good; without the main model.
        models: capability data of the models named here.
        system: prompt parts.
        system_context: ``key: value`` lines appended to the system prompt.
        user_context: memory files and the like, put in front of the first message.
        tools: tools that the model may call.
        context: the context layers.
        max_output_tokens: output limit of a call; the default may be escalated.
        escalated_max_output_tokens: the limit after an escalation.
        max_output_recoveries: how often a cut reply is continued.
        max_turns: rounds, None for no limit.
        max_budget: micro-dollars, None for no limit.
        max_model_calls: calls between two rounds that tools completed.
        max_attempts: attempts per model and pass.
        backoff_ms: first wait; doubles up to ``backoff_cap_ms``, at most twenty times.
        backoff_cap_ms: longest wait of its own choice.
        retry_after_ceiling_ms: longer waits asked by the server end the run or fall back.
        overload_fallback_after: overloads in a row after which a fallback is due.
        fallback_on_refusal: try the next model once after a refusal.
        max_pauses: resumes after ``pause_turn``.
        max_malformed: replies in a row whose calls are all malformed.
        max_resumes: how often one wait is issued again after a crash.
        stop_hooks: there are stop hooks.
        stop_hook_row_cap: blocks in a row without a tool run in between.
        stop_hook_run_cap: blocks in a run.
        attachments: there are attachment providers.
        prefetch_memory: there is a memory prefetch.
        prefetch_skills: there is a skill prefetch.
        tool_summaries: rounds of tools are summed up by a small model.
        early_start: which tools start while the model streams.
        tool_concurrency: tools at once.
        cancel_siblings_on: what cancels a batch: a tool that ``failed``, or one that reports an ``error`` too.
        loop_rounds: equal rounds in a row that bring a warning; two more end the run.
        effort: effort level or None.
        thinking: thinking kind to ask for, or None for the model's default.
        thinking_display: ``summarized``, ``omitted`` or None.
        output_schema: JSON text of the schema of the final answer, or None.
        task_budget: total tokens of the API's task budget, or None.
        betas: further beta values.
        prompt_caching: put cache marks.
        address: whose queued commands this run takes.
    """

    model: str
    fallback_models: tuple[str, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    system: tuple[str, ...] = ()
    system_context: tuple[tuple[str, str], ...] = ()
    user_context: str = ""
    tools: tuple[ToolSchema, ...] = ()
    context: ContextConfig = ContextConfig()
    max_output_tokens: int = 8_192
    escalated_max_output_tokens: int = 64_000
    max_output_recoveries: int = 3
    max_turns: int | None = None
    max_budget: int | None = None
    max_model_calls: int = 200
    max_attempts: int = 8
    backoff_ms: int = 1_000
    backoff_cap_ms: int = 32_000
    retry_after_ceiling_ms: int = 60_000
    overload_fallback_after: int = 3
    fallback_on_refusal: bool = False
    max_pauses: int = 5
    max_malformed: int = 3
    max_resumes: int = 10
    stop_hooks: bool = False
    stop_hook_row_cap: int = 8
    stop_hook_run_cap: int = 24
    attachments: bool = False
    prefetch_memory: bool = False
    prefetch_skills: bool = False
    tool_summaries: bool = False
    early_start: EarlyStart = EarlyStart.READ_ONLY
    tool_concurrency: int = 10
    cancel_siblings_on: str = "failed"
    loop_rounds: int = 5
    effort: str | None = None
    thinking: str | None = None
    thinking_display: str | None = None
    output_schema: str | None = None
    task_budget: int | None = None
    betas: tuple[str, ...] = ()
    prompt_caching: bool = True
    address: str = "main"

    def __attrs_post_init__(self) -> None:
        _check(self)

    def info(self, model: str) -> ModelInfo:
        """Give the capabilities of ``model``; an unknown one gets safe defaults."""
        return _info(self, model)


@by_identity_and
def _info(config: LoopConfig, model: str) -> ModelInfo:
    for info in config.models:
        if info.name == model:
            return info
    return ModelInfo(name=model, known=False)


DEFAULT_MAX_OUTPUT = 8_192
"""Only this configured limit may be escalated (spec 01, section 7, 3a)."""


@by_identity_and
def thresholds(config: LoopConfig, model: str) -> Thresholds:
    """Compute the limits of ``model``'s window (spec 01, section 8).

    Raises:
        ConfigError: if 0 < auto_compact_at < blocking_limit < effective_window does not hold.
    """
    info = config.info(model)
    context = config.context
    window = context.context_window if context.context_window is not None else info.context_window
    effective = context.effective_window
    if effective is None:
        effective = window - min(info.max_output, 20_000, window // 5)
    auto = context.auto_compact_at
    if auto is None:
        auto = effective - min(13_000, effective // 5)
    blocking = context.blocking_limit
    if blocking is None:
        blocking = effective - min(3_000, effective // 20)
    if not 0 < auto < blocking < effective:
        raise ConfigError(
            f"thresholds of {model} do not hold: 0 < auto_compact_at {auto} < blocking_limit {blocking} "
            f"< effective_window {effective}; set them or context_window"
        )
    return Thresholds(
        effective_window=effective,
        auto_compact_at=auto,
        blocking_limit=blocking,
        stage_at=auto * context.stage_percent // 100,
        commit_at=auto * context.commit_percent // 100,
        snip_at=auto - effective // 20,
    )


def why_not(config: LoopConfig, model: str) -> str:
    """Say why a run under ``config`` cannot use ``model``; empty if it can."""
    if not model or not model.isprintable():
        return "no request can carry the name"
    try:
        thresholds(config, model)
    except ConfigError as error:
        return str(error)
    return ""


def check_names(config: LoopConfig) -> None:
    """Refuse names that no request can carry. Not part of the record itself: a log that holds one can still be read.

    Raises:
        ConfigError: for control characters or half a surrogate pair; betas travel in a header and must be ASCII.
    """
    named = (("model", (config.model,)), ("fallback_models", config.fallback_models), ("effort", (config.effort or "",)))
    for name, texts in (*named, ("betas", config.betas)):
        for text in texts:
            if not text.isprintable() or (name == "betas" and not text.isascii()):
                raise ConfigError(f"{name} holds characters that no request can carry: {text!r}")


EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("adaptive", "enabled", "disabled", "between_tools")
DISPLAYS = ("summarized", "omitted", "updates")


def check_words(config: LoopConfig) -> None:
    """Refuse words that no model takes. Not part of the record itself: a log that holds one can still be read.

    Raises:
        ConfigError: for an effort, a kind of thinking or a way to show it that neither the API nor the data of a model knows.
    """
    for name, value, words in (
        ("effort", config.effort, (*EFFORTS, *(word for info in config.models for word in info.efforts))),
        ("thinking", config.thinking, (*THINKING, *(word for info in config.models for word in info.thinking))),
        ("thinking_display", config.thinking_display, DISPLAYS),
    ):
        if value is not None and value not in words:
            raise ConfigError(f"{name} must be one of {', '.join(dict.fromkeys(words))}, not {value!r}")


_POSITIVE = (
    "max_output_tokens",
    "escalated_max_output_tokens",
    "max_model_calls",
    "max_attempts",
    "tool_concurrency",
    "loop_rounds",
    "stop_hook_row_cap",
    "stop_hook_run_cap",
)
_NATURAL = ("max_output_recoveries", "backoff_ms", "backoff_cap_ms", "retry_after_ceiling_ms", "max_pauses", "max_resumes")


def _check(config: LoopConfig) -> None:
    for name, least in [(name, 1) for name in _POSITIVE] + [(name, 0) for name in _NATURAL]:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
    for name in ("max_turns", "max_budget"):
        value = getattr(config, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
    for name in ("context_window", "effective_window", "auto_compact_at", "blocking_limit"):
        value = getattr(config.context, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"context.{name} must be a whole number of at least 1, not {value!r}")
    if not config.model:
        raise ConfigError("model must not be empty")
    if config.model in config.fallback_models:
        raise ConfigError(f"fallback_models must not name the main model {config.model!r}")
    if len(set(config.fallback_models)) != len(config.fallback_models):
        raise ConfigError("fallback_models names a model twice")
    for value, words, name in (
        (config.early_start, EarlyStart, "early_start"),
        (config.context.microcompact, Microcompact, "context.microcompact"),
    ):
        if not isinstance(value, words):
            raise ConfigError(f"{name} must be one of {', '.join(words)}, not {value!r}")
    if config.cancel_siblings_on not in ("failed", "error"):
        raise ConfigError(f"cancel_siblings_on must be 'failed' or 'error', not {config.cancel_siblings_on!r}")
    for model in (config.model, *config.fallback_models):
        thresholds(config, model)
