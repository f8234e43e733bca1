"""Permissions: modes, rules, and the decision on a call (spec 03, Permissions)."""
