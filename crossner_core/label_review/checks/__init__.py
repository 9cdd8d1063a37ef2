"""The checks: a file each, whose name is its id."""
