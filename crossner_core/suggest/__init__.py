"""Sources of suggestions, one a file; `base` holds the protocol and the registry."""
