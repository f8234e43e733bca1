"""Pictures of the declared table, and the ``transitions`` machine as its oracle (spec 04).

``draw`` makes one picture, ``write_all`` those of ``diagrams/``; ``counted`` turns the rows of a log into paint.
"""

from .files import FORMATS, draw, stale, write_all
from .model import FOCI, MACHINE, DiagramError
from .paths import Ink, Paint, counted
from .render import need_program

__all__ = [
    "FOCI",
    "FORMATS",
    "MACHINE",
    "DiagramError",
    "Ink",
    "Paint",
    "counted",
    "draw",
    "need_program",
    "stale",
    "write_all",
]
