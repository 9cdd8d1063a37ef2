"""The checks: one file each, named after the check's id."""
