"""Architectures: one file each; the file's name is its id."""
