"""Which behaviour of the reducer this is: the table says which rows there are, this number says what they do."""

REDUCER = 1
"""Raised by one whenever ``step`` gives something else for the same events: a text, a default, an estimate, a guard.

A log says under which one it was written, so a run is never gone on with by a reducer that would have acted otherwise.
"""
