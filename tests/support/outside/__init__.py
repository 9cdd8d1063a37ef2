"""Stand-ins for models elsewhere."""
