"""Kinds of encoders, one per file; `base` holds the protocol and the registry, `loading` finds an encoder by name."""
