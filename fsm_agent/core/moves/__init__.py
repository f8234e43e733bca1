"""Named moves: from (state, event, config) to the next state, phase aside, and effects. None branches on the phase."""
