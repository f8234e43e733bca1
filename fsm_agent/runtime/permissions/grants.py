"""Allow rules that hold for one run only: those of the slash command or skill that began it (spec 03, Session)."""

from __future__ import annotations

from contextvars import ContextVar

from attrs import evolve

from .decide import Policy
from .rules import NO_RULES, RuleSet

GRANTS: ContextVar[RuleSet] = ContextVar("fsm_agent_grants", default=NO_RULES)
"""The rules; inherited by the tasks of the run that is begun while they are set, so no other run of the agent has them."""


def with_grants(policy: Policy) -> Policy:
    """Give the policy that holds for the code at hand. What a grant allows is still under every deny and ask rule."""
    granted = GRANTS.get().allow
    return policy if not granted else evolve(policy, rules=policy.rules + RuleSet(allow=granted))
