"""Golden values: what keys, stored content, losses and names were before. `python -m tests.golden.make` writes anew."""
