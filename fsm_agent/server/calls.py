"""What the server decides about a request: who asks, which model, is it allowed, what does the script say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from attrs import evolve

from ..core.models import ModelInfo
from ..runtime.model_data import find_model, load_models
from . import signatures
from .exchange import Exchange
from .frames import Asked, Ids
from .plan import Plan, Send, plan
from .replies import HttpError, Reply, Script, ScriptExhausted
from .rules import Breach, Memory, Wire
from .rules.base import paused_digest
from .rules.thinking import dropped, thinking_seal
from .sizes import prompt_tokens
from .wire_checker import NotJson, check_wire, decode_body

_RESUMABLE = ("pause_turn", "compaction")
_PERMISSIVE = ModelInfo(
    name="",
    context_window=1_000_000,
    max_output=128_000,
    thinking=("adaptive", "enabled", "disabled", "between_tools"),
    thinking_default=True,
    system_messages=True,
    context_edits=True,
    api_compaction=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    max_media=600,
    max_media_bytes=10_000_000,
    known=False,
)
"""What is assumed of a model that nobody described: nothing is refused that some model takes, but for prefill."""
_BINDING_BETA = "thinking-binding-controls"


class Refused(Exception):
    """A request is answered by an error of the API.

    Attributes:
        error: the answer.
    """

    def __init__(self, error: HttpError) -> None:
        super().__init__(error.message)
        self.error = error


class Calls:
    """State of one server: running numbers, the script, what was refused, what was paused."""

    def __init__(
        self,
        script: Script,
        models: tuple[ModelInfo, ...] | None,
        *,
        strict: bool,
        enforce_window: bool,
        keys: tuple[str, ...] | None,
    ) -> None:
        self.ids = Ids()
        self._script = script
        self._models = models
        self._strict = strict
        self._enforce_window = enforce_window
        self._keys = keys
        self._count = 0
        self._refused = ""
        self._paused: frozenset[str] = frozenset()
        self._foreign: frozenset[tuple[str, str]] = frozenset()

    def forget(self) -> None:
        """Forget the last refused body."""
        self._refused = ""

    def known(self) -> tuple[ModelInfo, ...]:
        """Give the models that the models endpoint lists."""
        return load_models() if self._models is None else self._models

    def model(self, name: str) -> ModelInfo:
        """Find a model.

        Raises:
            Refused: 404 if the server does not know it.
        """
        for info in self.known():
            if info.name == name:
                return info
        found = find_model(name, self.known())
        if found.known:
            return found
        if self._models is None:
            return evolve(_PERMISSIVE, name=name)
        raise Refused(HttpError(404, message=f"model: {name}"))

    def guarded(self, exchange: Exchange, make: Callable[[], Plan]) -> Plan:
        """Make a plan behind the check of the key; errors become the API's answers."""
        try:
            self._authorise(exchange)
            return make()
        except Refused as refusal:
            error = refusal.error
        except RecursionError:
            error = HttpError(400, message="The request body is not valid JSON: nested too deeply")
        except Exception as fault:
            # A fault of this server must be seen by the client, and kept where a test looks.
            exchange.error = f"{type(fault).__name__}: {fault}"
            error = HttpError(500, message=f"loopback server: {exchange.error}", should_retry=False)
        return plan(error, Asked(""), self.ids, exchange.request_id)

    def message(self, exchange: Exchange) -> Plan:
        """Make the plan for ``POST /v1/messages``."""
        return self.guarded(exchange, lambda: self._message(exchange))

    def count(self, exchange: Exchange) -> Plan:
        """Make the plan for ``POST /v1/messages/count_tokens``."""
        return self.guarded(exchange, lambda: self._count_tokens(exchange))

    def _authorise(self, exchange: Exchange) -> None:
        bearer = exchange.headers.get("authorization", "")
        key = exchange.headers.get("x-api-key", "")
        if not key and bearer.lower().startswith("bearer "):
            key = bearer[7:].strip()
        if not key:
            raise Refused(HttpError(401, message="x-api-key header is required"))
        if self._keys is not None and key not in self._keys:
            raise Refused(HttpError(401, message="invalid x-api-key"))

    def _decode(self, exchange: Exchange) -> ModelInfo:
        try:
            exchange.body = decode_body(exchange.raw)
        except NotJson as error:
            exchange.breaches = (Breach("json", str(error)),)
            self._refused = _digest(exchange.raw)
            raise Refused(HttpError(400, message=str(error))) from None
        name = exchange.body.get("model")
        return self.model(name) if isinstance(name, str) and name else ModelInfo(name="", known=False)

    def _check(self, exchange: Exchange, info: ModelInfo, tokens: int, *, counting: bool) -> tuple[Mapping[str, Any], ...]:
        """Check a request by the rules.

        Returns:
            What the API would do to its input: thinking that it drops.

        Raises:
            Refused: on the first breach.
        """
        body = exchange.body
        window = None if self._enforce_window and tokens > info.context_window else tokens
        memory = Memory(self._paused, self._foreign)
        wire = Wire.of(body, info, exchange.betas, memory=memory, tokens=window, size=len(exchange.raw), counting=counting)
        breaches = self._headers(exchange) + check_wire(wire)
        if self._refused and not counting and _digest(exchange.raw) == self._refused:
            breaches += (Breach("resent", "this body was refused with a 400 and is sent again unchanged"),)
        exchange.breaches = breaches
        if breaches:
            if not counting:
                self._refused = _digest(exchange.raw)
            first = breaches[0]
            raise Refused(HttpError(first.status, type=first.type, message=first.text, code=first.code))
        return dropped(wire)

    def _headers(self, exchange: Exchange) -> tuple[Breach, ...]:
        if "anthropic-version" in exchange.headers:
            return ()
        return (Breach("version_header", "header is required", "anthropic-version"),)

    def _message(self, exchange: Exchange) -> Plan:
        info = self._decode(exchange)
        body = exchange.body
        tokens = prompt_tokens(body)
        lost = self._check(exchange, info, tokens, counting=False) if self._strict else ()
        if self._enforce_window and tokens > info.context_window:
            self._refused = _digest(exchange.raw)
            raise Refused(HttpError(400, message=f"prompt is too long: {tokens} tokens > {info.context_window} maximum"))
        exchange.call = self._count
        self._count += 1
        exchange.reply = self._ask(exchange)
        bound = any(beta.startswith(_BINDING_BETA) for beta in exchange.betas)
        messages = body.get("messages") if isinstance(body.get("messages"), list) else []
        asked = Asked(
            model=str(body.get("model", "")),
            binds=info.binds_thinking,
            system=signatures.system_digest(body.get("system")),
            chain=lambda: signatures.chain_of(messages or []),
            input_tokens=tokens,
            transformations=lost if bound else None,
            stream=body.get("stream") is True,
        )
        made = plan(exchange.reply, asked, self.ids, exchange.request_id)
        self._remember(exchange, made, messages or [])
        return made

    def _ask(self, exchange: Exchange) -> Reply:
        assert exchange.call is not None
        try:
            return self._script.reply(exchange.call, exchange.body)
        except ScriptExhausted as error:
            exchange.error = str(error)
            return HttpError(500, message=f"loopback server: {error}", should_retry=False)
        except Exception as error:
            # A script is the user's code: its failure must be seen by the client, not hang it.
            exchange.error = f"{type(error).__name__}: {error}"
            return HttpError(500, message=f"loopback server: the script failed: {exchange.error}", should_retry=False)

    def _remember(self, exchange: Exchange, made: Plan, messages: list[Any]) -> None:
        retried = dict(made.headers).get("x-should-retry") == "true"
        self._refused = _digest(exchange.raw) if made.status in (400, 413) and not retried else ""
        if made.stop_reason in _RESUMABLE:
            tail = trailing_assistant(messages)
            self._paused |= {paused_digest([*tail, *made.content])}
        for block in made.content:
            signature, words = thinking_seal(block)
            if signature and signatures.read(signature) is None:
                self._foreign |= {(signature, words)}

    def _count_tokens(self, exchange: Exchange) -> Plan:
        info = self._decode(exchange)
        tokens = prompt_tokens(exchange.body)
        if self._strict:
            self._check(exchange, info, tokens, counting=True)
        answer: dict[str, Any] = {"input_tokens": tokens}
        if "context_management" in exchange.body:
            answer["context_management"] = {"original_input_tokens": tokens}
        body = json.dumps(answer).encode()
        return Plan(200, (("content-type", "application/json"),), (Send(body),), len(body))


def trailing_assistant(messages: list[Any]) -> list[Any]:
    """Give the blocks of the assistant messages at the end of a conversation."""
    blocks: list[Any] = []
    for message in reversed(messages):
        if not isinstance(message, Mapping) or message.get("role") != "assistant":
            break
        blocks = [*signatures.content_of(message), *blocks]
    return blocks


def _digest(raw: bytes) -> str:
    return sha256(raw).hexdigest()
