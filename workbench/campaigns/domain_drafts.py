"""A draft of a domain definition: a table of types that may still have errors, from pasted lines, to and from TOML."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_core.domains import domain_to_toml, parse_domain
from crossner_core.domains.loader import KEYS
from crossner_core.errors import BadInput, InvalidDomain
from crossner_core.records import parse

_CLASS = re.compile(r"[^,;\s]+")
_BULLET = re.compile(r"^(?:[-*•–]|\d+[.)])\s+")
COLUMNS = ("name", "title", "parent", "key", "color", "dbpedia", "guideline")


@dataclass(frozen=True)
class Draft:
    """What the table holds: one row per type, every value but the colour as text (`dbpedia` comma-separated)."""

    name: str = ""
    title: str = ""
    description: str = ""
    rows: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def draft_from_lines(text: str, title: str) -> Draft:
    """Make a draft of types, one a line: `name` or `name: guideline`; raise InvalidDomain naming the line.

    A type gets the DBpedia class of its name where there is one, so that pre-annotation knows it.
    """
    rows, lines = list[dict[str, Any]](), dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        head, _, guideline = _BULLET.sub("", line.strip()).partition(":")
        shown, name = " ".join(head.split()), _name_of(head)
        if not shown and not guideline.strip():
            continue
        if not name:
            raise InvalidDomain(f"line {number}: {line.strip()!r} has no letter a–z or digit to make a type's name of.")
        if name in lines:
            raise InvalidDomain(f"lines {lines[name]} and {number} both name the type {name!r}; a type has one line.")
        lines[name] = number
        rows.append({"name": name, "title": shown, "dbpedia": _class_of(name), "guideline": guideline.strip()})
    if len(rows) > len(KEYS):
        raise InvalidDomain(f"There are {len(rows)} types; a domain has at most {len(KEYS)}, as each needs a key.")
    return Draft(_name_of(title), " ".join(title.split()), rows=tuple(rows))


def _name_of(words: str) -> str:
    """Return words as a name: without accents, letters a–z and digits alone."""
    plain = unicodedata.normalize("NFKD", words).casefold()
    return "".join(char for char in plain if char.isascii() and char.isalnum())


def _class_of(name: str) -> str:
    from crossner_core.gazetteer.ontology import BUILTIN

    folded = {known.casefold(): known for known in BUILTIN.parents}
    return folded.get(name) or folded.get(name.removesuffix("s")) or ""


def draft_from_toml(text: str) -> Draft:
    """Read a definition that is at least TOML with tables of types; raise InvalidDomain if it is not."""
    try:
        values = parse(text, "TOML")
    except BadInput as error:
        raise InvalidDomain(str(error)) from error
    tables = values.get("types", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InvalidDomain("types must be [[types]] tables.")
    if unknown := sorted({key for table in tables for key in table} - set(COLUMNS)):
        raise InvalidDomain(f"a type has unknown keys {', '.join(unknown)}; valid are {', '.join(COLUMNS)}.")
    head = {key: str(values.get(key, "")) for key in ("name", "title", "description")}
    return Draft(**head, rows=tuple(_row(table) for table in tables))


def draft_to_toml(draft: Draft) -> str:
    """Write the draft as TOML, tidied where it is a valid definition; empty cells are left out."""
    lines = [f"{key} = {_quoted(getattr(draft, key).strip())}" for key in ("name", "title", "description")]
    for row in draft.rows:
        cells = {key: _cell(key, row.get(key)) for key in COLUMNS}
        if any(value is not None for value in cells.values()):
            lines += ["", "[[types]]", *(f"{key} = {value}" for key, value in cells.items() if value is not None)]
    text = "\n".join(lines) + "\n"
    try:
        return domain_to_toml(parse_domain(text, origin="domain"))
    except InvalidDomain:
        return text


def _row(table: Mapping[str, Any]) -> dict[str, Any]:
    row = {key: str(table.get(key, "")) for key in COLUMNS}
    classes = table.get("dbpedia", [])
    color = table.get("color")
    return row | {
        "dbpedia": ", ".join(map(str, classes)) if isinstance(classes, list) else str(classes),
        "color": color if type(color) is int else None,
    }


def _cell(key: str, value: Any) -> str | None:
    """Return a cell as TOML; None for an empty one, which pandas may give as NaN."""
    if value is None or value != value:
        return None
    if key == "color":
        return str(int(value))
    text = str(value).strip()
    if not text:
        return None
    if key == "dbpedia":
        return f"[{', '.join(map(_quoted, _CLASS.findall(text)))}]"
    return _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
