"""What a layer did, for the log, the viewer and the later layers (spec 02)."""

from __future__ import annotations

from ..frozen import frozen


@frozen
class LayerReport:
    """The work of one layer in one pass.

    Attributes:
        layer: its name.
        freed: estimated tokens that it removed from the view.
        ids: what it touched: tool_use ids, message ids or span ids.
        cut: it changed something that may have been sent: a declared cut of the prefix property.
        detail: a short text for people.
    """

    layer: str
    freed: int = 0
    ids: tuple[str, ...] = ()
    cut: bool = False
    detail: str = ""
