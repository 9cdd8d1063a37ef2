"""Scores, confusion and agreement; numpy at most."""
