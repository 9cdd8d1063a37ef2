"""Sources of suggestions, one per file; `base` holds the protocol and the registry."""
