"""What the fast reader takes out of wikitext first: comments, and tags whose content is not read or not shown."""

from __future__ import annotations

import re

from crossner_core.wikipedia.formulas import formula
from crossner_core.wikipedia.markup import COMMENT, FORMULA, HIDDEN, HOLE, NOTHING, VOID, names, protected


class Unsure(Exception):
    """The fast reader gives up on a page; the message is the reason."""


MAX_DEPTH = 30
_NAMES = sorted(HIDDEN | FORMULA | {"nowiki"})
_OPAQUE = re.compile(r"<(?:(!--)|(/?)(" + "|".join(_NAMES) + r")(?=[\s/>])([^<>]*)>)", re.IGNORECASE)
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in _NAMES}
# What mwparserfromhell leaves unread inside; of the other hidden tags the content must be balanced to be skipped.
_UNREAD = FORMULA | names(
    "nowiki gallery timeline imagemap pre source syntaxhighlight score graph hiero categorytree inputbox section "
    "templatedata"
)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_LINK = re.compile(r"\[\[[^\[\]]*\]\]")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ANY_TAG = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s/>])([^<>]*)>|(?=[A-Za-z/!]))")
AUTOLINK = re.compile(r"<https?://[^<>\s{}\[\]|]*>")


def without_opaque(text: str) -> str:
    """Replace comments and opaque tags by their markers; raises Unsure where an end is missing or in doubt."""
    out: list[str] = []
    at = 0
    while match := _OPAQUE.search(text, at):
        out.append(text[at : match.start()])
        at = match.end()
        if match[1]:
            at = text.find("-->", at) + 3
            if at < 3:
                raise Unsure("unclosed comment")
            out.append(COMMENT)
            continue
        name, attributes = match[3].lower(), match[4]
        if match[2] and attributes.strip():  # closes nothing: the scanner looks at it
            out.append(match[0])
        elif match[2] or attributes.count('"') % 2 or "{" in attributes or "[" in attributes:
            raise Unsure(f"odd tag {name}")
        elif attributes.endswith("/"):
            out.append(NOTHING if name == "nowiki" else HOLE)
        else:
            shown, at = _whole(text, name, at)
            out.append(shown)
    if not out:
        return text
    out.append(text[at:])
    return "".join(out)


def _whole(text: str, name: str, start: int) -> tuple[str, int]:
    """Give what stands for a tag whose content begins at `start`, and where it ends."""
    close = _CLOSERS[name].search(text, start)
    if close is None:
        raise Unsure(f"unclosed tag {name}")
    content = text[start : close.start()]
    if name == "nowiki":
        return protected(content), close.end()
    if name in FORMULA:
        return formula(content), close.end()
    if name not in _UNREAD:
        opened = _left_open(content)
        if opened is None or any(re.search(rf"</{tag}[\s>]", text[close.end() :], re.IGNORECASE) for tag in opened):
            raise Unsure(f"unbalanced markup in {name}")
    return HOLE, close.end()


def _left_open(content: str) -> list[str] | None:
    """Give the names of the tags left open in a tag's content, None if other markup may reach beyond its end."""
    if "<" in content:
        try:
            content = without_opaque(content)
        except Unsure:
            return None
    if "{" in content or "}" in content:
        content = _removed(_TEMPLATE, content, "{{")
        if "{{" in content or "}}" in content or "{|" in content:
            return None
    if "[" in content or "]" in content:
        if not brackets_closed(content):
            return None
        content = _removed(_LINK, content, "[[")
        if "[[" in content or "]]" in content:
            return None
    return _open_tags(content) if "<" in content else []


def _open_tags(content: str) -> list[str] | None:
    """Give the names of tags that are not closed, None if one is closed where it is not open."""
    opened: list[str] = []
    for match in _ANY_TAG.finditer(content):
        if match[2] is None:
            if not AUTOLINK.match(content, match.start()):
                return None
            continue
        name = match[2].lower()
        if name in VOID or match[3].endswith("/"):
            continue
        if not match[1]:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return None
    return opened


def brackets_closed(content: str) -> bool:
    """Tell whether no external link inside can reach beyond the end: each `[` has its `]`."""
    return "[" not in content or "[" not in _removed(_BRACKETS, content, "[")


def _removed(pattern: re.Pattern[str], text: str, opener: str) -> str:
    """Remove what matches, from the inside out, as deep as the scanner goes."""
    for _ in range(MAX_DEPTH):
        if opener not in text:
            break
        text, count = pattern.subn("", text)
        if not count:
            break
    return text
