"""Names as Wikipedia titles, DBpedia URIs, SPARQL terms and the keys of a compiled gazetteer."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from crossner_core.schema import NIL
from crossner_core.tokenize import words_of

RESOURCE = "http://dbpedia.org/resource/"
ONTOLOGY = "http://dbpedia.org/ontology/"
LONGEST_NAME = 255  # bytes; MediaWiki stores no longer title

_SUFFIX = re.compile(r"^(?P<name>.*\S)[\s_]+\((?P<kind>[^()]+)\)$")
_SPACE_BEFORE = re.compile(r" (?=[,.;:!?)\]’'](?:\s|$|[a-z]{1,2}\b))")
_SPACE_AFTER = re.compile(r"(?<=[(\[]) ")
# All but what RFC 3987 lets stand in the path of an IRI, `?` `#` `%` and brackets excluded: DBpedia encodes these too.
_UNSAFE_IN_URI = re.compile(
    "[^A-Za-z0-9._~!$&'()*+,;=:@/\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd-]"
)


def collapse(name: str) -> str:
    """Return the name with each run of white space and underscores as one space."""
    return " ".join(name.replace("_", " ").split())


def detokenise(surface: str) -> str:
    """Undo the spaces that word-per-line corpora put around punctuation: `Wham !` → `Wham!`."""
    return _SPACE_AFTER.sub("", _SPACE_BEFORE.sub("", surface))


def strip_suffix(title: str) -> str | None:
    """Return the alias of a title with a disambiguating suffix (`Queen (band)` → `Queen`), None without one."""
    match = _SUFFIX.match(title)
    return match["name"] if match else None


def is_askable(name: str) -> bool:
    """Tell whether a name can be a title at all; others are never sent.

    A backslash is refused: SPARQL reads `\\u0022` before it reads the quotes around it, and endpoints differ on
    `\\\\u0022`, so no way of writing one is safe everywhere. No Wikipedia title that matters holds one.
    """
    if not title_of(name) or "\\" in name or any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        return False
    return len(name.encode()) <= LONGEST_NAME


def title_of(target: str) -> str:
    """Return the page title a link target means: no fragment, no leading colon, first letter capital."""
    title = collapse(target.split("#", 1)[0]).removeprefix(":").strip()
    return title[:1].upper() + title[1:]


def resource_uri(name: str) -> str:
    """Return the DBpedia URI of a name by the title rule; safe to stand between `<` and `>` in a query."""
    path = unicodedata.normalize("NFC", title_of(name)).replace(" ", "_")
    return RESOURCE + _UNSAFE_IN_URI.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)


def literal(name: str, language: str) -> str:
    """Return the name as a SPARQL literal with a language tag; ValueError for a name that is not askable."""
    if not is_askable(name):
        raise ValueError(f"{name!r} cannot be written safely in a query")
    escaped = name.replace('"', '\\"')
    return f'"{escaped}"@{language}'


def local_name(uri: str) -> str:
    """Return the last part of a URI: `http://dbpedia.org/ontology/Band` → `Band`."""
    return re.split(r"[/#]", uri)[-1]


def title_of_entity(entity: str) -> str:
    """Return what to call a span's entity: the page title of a DBpedia resource, else the end of its address."""
    if entity == NIL:
        return "no resource (NIL)"
    if entity.startswith(RESOURCE):
        return unquote(entity[len(RESOURCE) :]).replace("_", " ")
    return unquote(local_name(entity.rstrip("/"))).replace("_", " ") or entity


# Letters and digits that the tokeniser always keeps together; a hyphen between two of them too.
_RUN = r"[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03a3-\u03ce\u0410-\u044f]+"
_PLAIN = re.compile(rf"{_RUN}(?:-{_RUN})*(?: {_RUN}(?:-{_RUN})*)*")


def key_of(name: str) -> str:
    """Return the key of a name: `Wham!` → `Wham !`; a curly apostrophe counts as a straight one."""
    if _PLAIN.fullmatch(name):
        return name
    return " ".join(words_of(name)).replace("’", "'")
