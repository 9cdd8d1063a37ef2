"""Suggestions of entities: who makes them, and how they are merged."""
