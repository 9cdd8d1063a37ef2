"""Kinds of encoders, one a file; `base` holds the protocol and the registry, `loading` finds one by its name."""
