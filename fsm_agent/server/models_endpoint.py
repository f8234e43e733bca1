"""The answers of the models endpoint (api-facts A17)."""

from __future__ import annotations

from typing import Any

from ..core.models import ModelInfo

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING = ("adaptive", "enabled", "disabled", "between_tools")


def _flag(supported: bool) -> dict[str, bool]:
    return {"supported": supported}


def model_object(info: ModelInfo) -> dict[str, Any]:
    """Make the API's object of one model from its capabilities."""
    return {
        "type": "model",
        "id": info.name,
        "display_name": info.name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "max_input_tokens": info.context_window,
        "max_tokens": info.max_output,
        "allowed_fallback_models": [],
        "capabilities": {
            "batch": _flag(False),
            "citations": _flag(False),
            "code_execution": _flag(False),
            "compaction": {**_flag(info.api_compaction), "types": {"summarize": _flag(info.api_compaction)}},
            "context_management": {
                **_flag(info.context_edits),
                "clear_thinking_20251015": _flag(info.context_edits),
                "clear_tool_uses_20250919": _flag(info.context_edits),
                "compact_20260112": _flag(info.context_edits),
            },
            "effort": {**_flag(bool(info.efforts)), **{level: _flag(level in info.efforts) for level in _EFFORTS}},
            "image_input": _flag(info.max_media > 0),
            "pdf_input": _flag(info.max_media > 0),
            "server_tools": _flag(False),
            "structured_outputs": _flag(True),
            "thinking": {
                **_flag(bool(info.thinking)),
                "types": {
                    kind: _flag(kind in info.thinking or (kind == "disabled" and not info.thinking)) for kind in _THINKING
                },
            },
        },
    }


def model_page(models: tuple[ModelInfo, ...]) -> dict[str, Any]:
    """Make the list of models, in one page."""
    data = [model_object(info) for info in models]
    return {
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }
