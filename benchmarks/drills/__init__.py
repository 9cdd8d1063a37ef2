"""Drills: what must survive is killed, cut off, filled up or set back, in a loop, and invariants are counted."""
