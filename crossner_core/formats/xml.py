"""XML from elsewhere, read as a stream: no document type, so no entity can grow or reach another file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from crossner_core.formats.source import Data, head_of, opened, refused

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_PROLOG = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEAD = 65_536
_ENCODING = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)")


def check_xml(file: Data, name: str) -> None:
    """Raise BadInput for XML that declares a document type, or is no UTF-8."""
    data = _prolog(file)
    declared = _ENCODING.search(data[:200])
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (declared and declared[1].lower() not in (b"utf-8", b"us-ascii")):
        raise refused(name, 1, "the XML is not in UTF-8; save it as UTF-8")
    prolog = _PROLOG.match(data)
    after = prolog.end() if prolog else 0
    if data[after : after + 9].upper() == b"<!DOCTYPE":
        line = data.count(b"\n", 0, after) + 1
        raise refused(
            name, line, "the XML declares a document type (DOCTYPE), which can define entities; save it without one"
        )


def _prolog(file: Data) -> bytes:
    """Return the beginning of a file, at least to its first element or its document type."""
    size = _HEAD
    while True:
        data = head_of(file, size)
        prolog = _PROLOG.match(data)
        after = prolog.end() if prolog else 0
        if len(data) < size or (after + len(b"<!DOCTYPE") < len(data) and not data.startswith((b"<?", b"<!--"), after)):
            return data
        size *= 4


def elements(data: Data, name: str) -> Iterator[tuple[str, Element]]:
    """Yield what begins and ends, as ("start" or "end", element); raise BadInput for what is no XML, with its line."""
    check_xml(data, name)
    try:
        with opened(data) as file:
            yield from ElementTree.iterparse(file, events=("start", "end"))
    except ElementTree.ParseError as error:
        raise refused(name, error.position[0], f"the XML cannot be read: {error}") from error


def fit_xml(text: str, losses: Counter[str]) -> str:
    """Replace characters that no XML can hold by `\ufffd`, and count them."""
    fitting, count = _NO_XML.subn("\ufffd", text)
    if count:
        losses["characters that XML cannot hold"] += count
    return fitting
