"""The kinds of jobs, a file each; every file registers the kind of its name."""
