"""Measurements that are too long for the tests; each is a command, see `benchmarks/README.md`."""
