"""Grids over recipes and the published numbers to compare them with."""
