"""What a drill is: a function of options that returns its figures and which invariants broke."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """`times` is how often the harm is done, 0 for the drill's own number; `url` a PostgreSQL server, if any."""

    folder: Path
    times: int = 0
    seconds: float = 60.0
    annotators: int = 0
    seed: int = 1
    url: str = ""


@dataclass(slots=True)
class Outcome:
    """Figures by name, and each invariant that broke, in words."""

    figures: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def check(self, holds: bool, words: str) -> None:
        """Note an invariant that does not hold."""
        if not holds:
            self.broken.append(words)


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill with its title."""

    title: str
    run: Callable[[Options], Outcome]


_APART = ("__main__", "drill", "annotators")


def drills() -> dict[str, Drill]:
    """Return the drills by name: each module of this package that has one."""
    import benchmarks.drills as package

    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in _APART]
    return {
        name.replace("_", "-"): importlib.import_module(f"benchmarks.drills.{name}").DRILL for name in sorted(names)
    }
