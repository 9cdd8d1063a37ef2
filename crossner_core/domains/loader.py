"""Read, check and write domain definitions."""

from __future__ import annotations

import hashlib
import json
import re
import string
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from crossner_core.colours import MARKS
from crossner_core.errors import BadInput, InvalidDomain, NotFound, UnknownType
from crossner_core.records import parse

KEYS = string.ascii_lowercase + "123456789"  # all other keys are commands of the span editor
COLORS = len(MARKS)
_NAME = re.compile(r"[a-z0-9]+")
_ONTOLOGY = re.compile(r"(?:https?://dbpedia\.org/ontology/|dbo:)")
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class EntityType:
    """One entity type of a domain; `color` is an index into the palette, `dbpedia` holds class names."""

    name: str
    title: str
    parent: str | None
    key: str
    color: int
    dbpedia: tuple[str, ...]
    guideline: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidDomain(f"Type name {self.name!r}: only small letters a-z and digits are allowed.")
        if len(self.key) != 1 or self.key not in KEYS:
            raise InvalidDomain(
                f"Type {self.name}: key {self.key!r} is taken by a command or is not a single key; "
                "allowed are a-z and 1-9."
            )
        if type(self.color) is not int or not 0 <= self.color < COLORS:
            raise InvalidDomain(f"Type {self.name}: color {self.color!r} is not a whole number from 0 to {COLORS - 1}.")


@dataclass(frozen=True)
class Domain:
    """A named set of entity types, in the order they are offered."""

    name: str
    title: str
    description: str
    types: tuple[EntityType, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidDomain(f"Domain name {self.name!r}: only small letters a-z and digits are allowed.")
        if not self.types:
            raise InvalidDomain(f"Domain {self.name} has no types; it needs at least one [[types]] table.")
        _check_unique(self)
        _check_parents(self)

    @property
    def parents(self) -> dict[str, str]:
        """Each specialised type's name → its parent's."""
        return {kind.name: kind.parent for kind in self.types if kind.parent is not None}

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names of the types, in order."""
        return tuple(entity_type.name for entity_type in self.types)

    @property
    def titles(self) -> dict[str, str]:
        """Each type's name → what people read: its title, with the name behind a title that two types have."""
        often = Counter(entity_type.title for entity_type in self.types)
        return {
            each.name: each.title if often[each.title] == 1 else f"{each.title} ({each.name})" for each in self.types
        }

    @property
    def hash(self) -> str:
        """SHA-256 over the whole definition."""
        return hashlib.sha256(domain_to_toml(self).encode()).hexdigest()

    def type(self, name: str) -> EntityType:
        """Return a type; raise UnknownType listing the known ones."""
        for entity_type in self.types:
            if entity_type.name == name:
                return entity_type
        raise UnknownType(f"Domain {self.name} has no entity type {name!r}; it has {', '.join(self.type_names)}.")

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return the types above one, nearest first; raise UnknownType if there is no such type."""
        above: list[str] = []
        parent = self.type(name).parent
        while parent is not None:
            above.append(parent)
            parent = self.type(parent).parent
        return tuple(above)

    def type_for_class(self, dbpedia_class: str) -> str | None:
        """Return the type mapped to a DBpedia class (`Band`, `dbo:Band` or its full URI), None if there is none."""
        return self._by_class.get(_ONTOLOGY.sub("", dbpedia_class, count=1))

    @cached_property
    def _by_class(self) -> dict[str, str]:
        return {known: entity_type.name for entity_type in self.types for known in entity_type.dbpedia}


def builtin_domains() -> tuple[str, ...]:
    """The names of the domains that come with the workbench, sorted."""
    return tuple(sorted(path.stem for path in _HERE.glob("*.toml")))


@lru_cache(maxsize=32)
def load_domain(name: str) -> Domain:
    """Load a built-in domain; raise NotFound listing the known ones."""
    if name not in builtin_domains():
        raise NotFound(f"No built-in domain {name!r}; there are {', '.join(builtin_domains())}.")
    path = _HERE / f"{name}.toml"
    return parse_domain(path.read_text(encoding="utf-8"), origin=path.name)


def parse_domain(toml_text: str, *, origin: str) -> Domain:
    """Read a definition; raise InvalidDomain beginning with `origin`. A missing key or colour is chosen."""
    try:
        return _domain(parse(toml_text, "TOML"))
    except (BadInput, InvalidDomain) as error:
        raise InvalidDomain(f"{origin}: {error}") from error


def domain_to_toml(domain: Domain) -> str:
    """Write a definition that `parse_domain` reads back unchanged."""
    lines = [f"{key} = {_toml(getattr(domain, key))}" for key in ("name", "title", "description")]
    for entity_type in domain.types:
        lines += ["", "[[types]]"]
        for part in fields(EntityType):
            value = getattr(entity_type, part.name)
            if value is not None:
                lines.append(f"{part.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _domain(values: Mapping[str, Any]) -> Domain:
    _check_keys(values, [part.name for part in fields(Domain)], "the domain")
    name = _text(values, "name", "the domain")
    tables = values.get("types", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InvalidDomain("types must be [[types]] tables.")
    used_keys = {key for table in tables if isinstance(key := table.get("key"), str)}
    used_colors = {color for table in tables if isinstance(color := table.get("color"), int)}
    types = []
    for table in tables:
        types.append(_type(table, used_keys, used_colors))
        used_keys.add(types[-1].key)
        used_colors.add(types[-1].color)
    title = _text(values, "title", "the domain", name)
    return Domain(name, title, _text(values, "description", "the domain", ""), tuple(types))


def _type(table: Mapping[str, Any], used_keys: set[Any], used_colors: set[Any]) -> EntityType:
    _check_keys(table, [part.name for part in fields(EntityType)], "a type")
    name = _text(table, "name", "a type")
    what = f"type {name}"
    classes = table.get("dbpedia", [])
    if not isinstance(classes, list) or not all(isinstance(value, str) for value in classes):
        raise InvalidDomain(f"{what}: dbpedia must be a list of class names, not {classes!r}.")
    free_key = next((key for key in name + KEYS if key in KEYS and key not in used_keys), "")
    free_color = next((color for color in range(COLORS) if color not in used_colors), 0)
    return EntityType(
        name=name,
        title=_text(table, "title", what, name),
        parent=_text(table, "parent", what) if "parent" in table else None,
        key=_text(table, "key", what, free_key),
        color=table.get("color", free_color),
        dbpedia=tuple(_ONTOLOGY.sub("", value, count=1) for value in classes),
        guideline=_text(table, "guideline", what, ""),
    )


def _text(values: Mapping[str, Any], key: str, what: str, default: str | None = None) -> str:
    value = values.get(key, default)
    if value is None:
        raise InvalidDomain(f"{what} has no {key}.")
    if not isinstance(value, str):
        raise InvalidDomain(f"{what}: {key} must be a string, not {value!r}.")
    return value


def _check_keys(values: Mapping[str, Any], valid: Sequence[str], what: str) -> None:
    if unknown := sorted(set(values) - set(valid)):
        raise InvalidDomain(f"{what} has unknown keys {', '.join(unknown)}; valid are {', '.join(valid)}.")


def _check_unique(domain: Domain) -> None:
    def once(what: str, value_of: Callable[[EntityType], Iterable[object]]) -> None:
        seen: dict[object, str] = {}
        for entity_type in domain.types:
            for value in value_of(entity_type):
                if value in seen:
                    raise InvalidDomain(f"Types {seen[value]} and {entity_type.name} have the same {what} {value!r}.")
                seen[value] = entity_type.name

    once("name", lambda entity_type: [entity_type.name])
    once("key", lambda entity_type: [entity_type.key])
    once("DBpedia class", lambda entity_type: entity_type.dbpedia)
    if len(domain.types) <= COLORS:
        once("color", lambda entity_type: [entity_type.color])


def _check_parents(domain: Domain) -> None:
    parents = {entity_type.name: entity_type.parent for entity_type in domain.types}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise InvalidDomain(f"Type {name}: unknown parent {parent!r}; types are {', '.join(parents)}.")
    for name in parents:
        chain = [name]
        while (parent := parents[chain[-1]]) is not None:
            if parent in chain:
                raise InvalidDomain(f"Parents form a cycle: {' → '.join([*chain, parent])}.")
            chain.append(parent)


def _toml(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        row = f"[{', '.join(map(_toml, value))}]"
        return row if len(row) < 100 else _toml_rows(value)
    quoted = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    wrapped = textwrap.wrap(quoted[1:-1], 100, break_long_words=False, break_on_hyphens=False)
    if len(wrapped) < 2 or " ".join(wrapped) != quoted[1:-1]:
        return quoted
    body = " \\\n".join(wrapped)  # a backslash at the end of a line joins it to the next
    if '""' not in body and not body.endswith('"'):
        body = body.replace('\\"', '"')
    return f'"""\\\n{body}"""'


def _toml_rows(values: tuple[str, ...]) -> str:
    rows = [""]
    for value in map(_toml, values):
        if rows[-1] and len(rows[-1]) + len(value) > 100:
            rows.append("")
        rows[-1] += f"{' ' if rows[-1] else ''}{value},"
    return "[\n" + "\n".join(f"    {row}" for row in rows) + "\n]"
