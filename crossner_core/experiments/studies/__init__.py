"""The studies: one file each, whose name is its id; files that start with `_` are shared by them."""
