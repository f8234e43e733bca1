"""The view: one self-contained HTML file of a log, for a browser without network (spec 04)."""

from .page import is_view, render_view

__all__ = ["is_view", "render_view"]
