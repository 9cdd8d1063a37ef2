"""Mutated inputs for every way into the workbench, each tried under limits on time and memory."""
