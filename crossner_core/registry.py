"""Registries of things that are added as one file, which registers itself in its package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import Any, TypeVar

from crossner_core.errors import InvalidConfig

T = TypeVar("T")


class Registry(dict[str, T]):
    """Things of one kind by id; the package's files are imported on demand.

    `what` names one of them in messages. `by_name`: each file is named after its thing's id, so that ids are known and
    one thing is loaded without importing the other files; else ids are sorted by `order`, then by id. `apart` are
    modules without such a thing, like those whose names begin with an underscore.
    """

    def __init__(
        self,
        package: str,
        what: str,
        *,
        by_name: bool = False,
        apart: Collection[str] = (),
        order: Callable[[T], Any] = lambda thing: 0,
    ) -> None:
        super().__init__()
        self.package, self.what, self.by_name, self.apart = package, what, by_name, frozenset(apart)
        self.order = order
        self._loaded = False

    def add(self, id: str, thing: T) -> T:
        """Register a thing; raise InvalidConfig if its id is taken, or its file has another name."""
        if self.by_name and id not in self.modules():
            raise InvalidConfig(f"The {self.what} {id!r} must be in a file of that name in {self._folder()}.")
        if self.setdefault(id, thing) is not thing:
            raise InvalidConfig(f"There are two of {self.what} {id!r}; each needs its own id.")
        return thing

    def modules(self) -> tuple[str, ...]:
        """Return the names of the package's files, sorted; imports none of them."""
        spec = find_spec(self.package)
        paths = spec.submodule_search_locations if spec is not None else None
        names = (module.name for module in pkgutil.iter_modules(paths))
        return tuple(sorted(name for name in names if name not in self.apart and not name.startswith("_")))

    def ids(self) -> tuple[str, ...]:
        """Return all ids, in their order."""
        if self.by_name:
            return tuple(sorted({*self.modules(), *self}))
        self.load()
        return tuple(sorted(self, key=lambda id: (self.order(self[id]), id)))

    def load(self) -> None:
        """Import every file of the package, once."""
        if not self._loaded:
            for name in self.modules():
                importlib.import_module(f"{self.package}.{name}")
            self._loaded = True

    def one(self, id: str) -> T:
        """Return a thing; raise InvalidConfig listing the known ones."""
        if id not in self and id not in self.ids():
            raise InvalidConfig(f"Unknown {self.what} {id!r}; choose one of {', '.join(self.ids())}.")
        if id not in self:
            importlib.import_module(f"{self.package}.{id}")
        if id not in self:
            raise InvalidConfig(f"{self._folder()}/{id}.py registers no {self.what} {id!r}.")
        return self[id]

    def _folder(self) -> str:
        return self.package.replace(".", "/")
