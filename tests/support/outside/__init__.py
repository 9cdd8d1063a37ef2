"""Stand-ins for outside models."""
