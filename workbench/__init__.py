"""Use cases: the only place where store and engine meet, and where transactions begin and end."""
