"""OpenTelemetry spans and metrics by the GenAI conventions (extra ``otel``; api-facts C9).

One ``invoke_agent`` span a run, one ``execute_tool`` span a call. The span of each model call is the SDK's own: it becomes a
child, and only gets what the SDK cannot see, since the engine reads the stream itself. Nothing is recorded twice.
"""

from __future__ import annotations

from .telemetry import Telemetry

__all__ = ["Telemetry"]
