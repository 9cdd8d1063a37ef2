"""The doctor: named checks of a store and its home folder, and the repairs that lose nobody's work."""
