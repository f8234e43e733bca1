"""fsm_agent: an engine for AI agents whose loop is an explicit finite-state machine."""
