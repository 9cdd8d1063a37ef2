"""Entity tags (RFC 9110): an answer that a program has already is not sent again, and no change is lost to another.

An answer's tag is the hash of its body, or, where one is cheaper than the body, a weak tag of what the body is made of.
"""

from __future__ import annotations

import hashlib
import re

from crossner_core.errors import BadInput, WorkbenchError

ANY = "*"
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')
_LIST = re.compile(rf"\s*{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*\s*")
_MOST_CHARACTERS = 4_000


class Changed(WorkbenchError):
    """What a request is about is no longer what its header If-Match says."""


def tag_of(body: bytes) -> str:
    """Return the tag of an answer: the same for the same bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def weak_tag(version: str) -> str:
    """Return the tag of an answer that states the same as any other of this version, if not in the same bytes."""
    return f'W/"{hashlib.sha256(version.encode()).hexdigest()[:32]}"'


def tags_in(header: str, value: str | None) -> tuple[str, ...] | None:
    """Return the tags that a header lists, `*` alone for any; None without the header; raise BadInput for others."""
    if value is None:
        return None
    if value.strip() == ANY:
        return (ANY,)
    if len(value) > _MOST_CHARACTERS or not _LIST.fullmatch(value):
        raise BadInput(
            f"The header {header} is {value[:60]!a}; it holds tags with their quotation marks, as the header ETag has "
            "them, separated by commas, or a single *."
        )
    return tuple(_TAG.findall(value))


def is_known(tag: str, tags: tuple[str, ...] | None) -> bool:
    """Return whether a program that lists these tags has an answer: weak and strong tags compare alike."""
    return tags is not None and (tags == (ANY,) or _plain(tag) in map(_plain, tags))


def _plain(tag: str) -> str:
    return tag.removeprefix("W/")


def refuse_changed(body: bytes, tags: tuple[str, ...] | None) -> None:
    """Raise Changed if what is to be changed, as it would be answered now, has none of these tags."""
    tag = tag_of(body)
    if tags is not None and tags != (ANY,) and tag not in tags:
        raise Changed(
            f"It has changed since you read it: its tag is {tag} now, and If-Match has {', '.join(tags)[:200]}. "
            "Get it again, and change what it is now."
        )
