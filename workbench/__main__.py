"""`python -m workbench`: the command line."""

from __future__ import annotations

from workbench.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
