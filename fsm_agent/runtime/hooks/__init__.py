"""Hooks: shell commands and Python callables around tools and at the end of a run (spec 03, Hooks)."""
