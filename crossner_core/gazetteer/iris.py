"""Titles, class names and texts out of the raw bytes of triples, many at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crossner_core.gazetteer.titles import ONTOLOGY

_ONTOLOGY = ONTOLOGY.encode()
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+|%")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SPACES = re.compile("[ \u00a0]+")
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_NO_CONTROLS = bytes({10, *range(32, 127), *range(128, 256)})
_BAD = b"\x00"
_BACKSLASH = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.)|$)", re.DOTALL)
_PLAIN_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_CLASS = re.compile(rb"[^\s/#?%]+")


def titles_of(raw: Sequence[bytes]) -> list[str]:
    """Return the page titles of the last parts of resource IRIs, "" for one that cannot be a title.

    Percent escapes are undone; what is then not UTF-8 or holds a control character cannot be a title.
    """
    blob = b"\n".join(raw)
    if b"%" in blob:
        blob = _ESCAPES.sub(_unescape, blob)
    return _lines(blob.replace(b"_", b" "))


def _lines(blob: bytes) -> list[str]:
    """Return the names of a text, one a line; with some exceptions they can be taken as they stand."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return [clean_name(one.decode(errors="surrogateescape")) for one in blob.split(b"\n")]
    found = text.split("\n")
    if "  " in text or "\n " in text or " \n" in text or text[:1] == " " or text[-1:] == " " or "\u00a0" in text:
        return [clean_name(one) for one in found]
    return [clean_name(one) for one in found] if _may_have_controls(blob) else found


def clean_name(text: str) -> str:
    """Return a name with single spaces; "" if it holds a control character or half a surrogate pair."""
    return "" if _UNUSABLE.search(text) else _SPACES.sub(" ", text).strip(" ")


def clean_title(text: str) -> str:
    """Return a page title with spaces for underscores; "" for what can be none."""
    return clean_name(text.replace("_", " "))


def _may_have_controls(blob: bytes) -> bool:
    """Tell whether control characters (line ends aside) may be among UTF-8 text; seldom so where there are none."""
    return bool(blob.translate(None, _NO_CONTROLS)) or _C1.search(blob) is not None


def _unescape(found: re.Match[bytes]) -> bytes:
    run = found[0]
    if len(run) < 3:
        return _BAD
    plain = bytes.fromhex(run.replace(b"%", b"").decode())
    try:
        return _BAD if _CONTROL.search(plain.decode()) else plain
    except UnicodeDecodeError:
        return _BAD


def class_names(raw: Sequence[bytes]) -> list[str]:
    """Return the names of DBpedia's classes (`Band`), "" for other IRIs."""
    names = {iri: _class_of(iri) for iri in set(raw)}
    return [names[iri] for iri in raw]


def _class_of(iri: bytes) -> str:
    found = iri.removeprefix(_ONTOLOGY)
    try:
        return found.decode() if found != iri and _CLASS.fullmatch(found) else ""
    except UnicodeDecodeError:
        return ""


def texts_of(raw: Sequence[bytes]) -> list[str]:
    """Return the texts between quotes with their escapes undone and single spaces; "" for one that is unusable."""
    blob = b"\n".join(raw)
    return [_text(one) for one in raw] if b"\\" in blob else _lines(blob)


def _text(raw: bytes) -> str:
    try:
        return clean_name(_BACKSLASH.sub(_character, raw.decode()))
    except (UnicodeError, ValueError, KeyError):
        return ""


def _character(found: re.Match[str]) -> str:
    short, long, other = found.groups()
    if short or long:
        return chr(int(short or long, 16))
    return _PLAIN_ESCAPES[other]
