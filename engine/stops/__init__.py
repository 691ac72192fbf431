"""Where a completion ends, decided from its text alone.

Knows nothing of tokens or models. The text is read once, line by line (reader). Every rule (repeats, blocks, cycles)
fires at one fixed place of it, the first character of a line or its line break, and the first to fire wins, so it does
not matter in which pieces the text arrives. What a rule may still cut is held back, so what was shown is never taken
back.
"""

from engine.stops.reader import finish, scan
from engine.stops.state import StopContext, StopState

__all__ = ["StopContext", "StopState", "finish", "scan"]
