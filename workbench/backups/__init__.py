"""Backups of a home folder: made, checked, restored, and a store moved to another database."""
