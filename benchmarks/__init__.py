"""Measurements that the tests are too short for; each is a command, `benchmarks/README.md` says which."""
