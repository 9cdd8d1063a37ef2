"""One block of marked text to text and links: quotes, external links, entities, holes, white space, offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

from crossner_core.wikipedia.markup import HOLE, NOTHING
from crossner_core.wikipedia.page import CharLink


@dataclass(frozen=True, slots=True)
class Run:
    """Clean text and its links; `checked` is the text before entities were decoded, to look for markup in."""

    text: str
    links: tuple[CharLink, ...]
    checked: str


_QUOTES = re.compile(r"'{2,}")
_EXTERNAL = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|gopher|telnet|nntp|worldwind|svn|git|mms|sftp|ssh|redis):)?//"
    r"[^\s\[\]<>\"\x01\x02]*([^\[\]\n]*(?:\[[^\[\]\n]*\][^\[\]\n]*)*)\]"
    r"|\[(?:mailto|news|tel|urn|geo|magnet|sip|sips|sms|bitcoin|xmpp):[^\s\[\]<>\"\x01\x02]+([^\[\]\n]*)\]",
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufffc]")
_LINK_MARK = re.compile(r"\x01(\d+)\x03|\x02")
_LINK = re.compile(r"\x01(\d+)\x03([^\x02]*)\x02")
_EMPTY = re.compile(r"\x01\d+\x03\x02")
_SPACE_AFTER_OPEN = re.compile(r"\x01(\d+)\x03 +")


def clean(lines: list[str], targets: list[str]) -> Run:
    """Make one text of a block's lines; link offsets are relative to it."""
    text = " ".join([_unquoted(line) if "''" in line else line for line in lines])
    if NOTHING in text:
        text = text.replace(NOTHING, "")
    if "[" in text:
        text = _EXTERNAL.sub(lambda match: (match[1] or match[2] or "").strip() or HOLE, text)
    checked = text
    if "&" in text:
        text = text.replace("&nbsp;", " ")
        if "&" in text:
            text = unescape(text)
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    text = " ".join(text.split())
    if HOLE in text:
        text = _closed(text)
    if "\x03 " in text:
        text = _SPACE_AFTER_OPEN.sub(" \x01\\1\x03", text)
    while " \x02" in text:
        text = text.replace(" \x02", "\x02 ")
    if "\x03\x02" in text:
        text = _EMPTY.sub("", text)
    if "  " in text:
        text = " ".join(text.split())
    text = text.strip(" ")
    if "\x01" not in text:
        return Run(text, (), checked)
    return _with_links(text, targets, checked)


def _with_links(text: str, targets: list[str], checked: str) -> Run:
    """Take the markers out of a text; links that cover nothing are left out."""
    parts = _LINK.split(text)
    links: list[CharLink] = []
    length = len(parts[0])
    for at in range(1, len(parts), 3):
        end = length + len(parts[at + 1])
        if end > length:
            links.append(CharLink(length, end, targets[int(parts[at])]))
        length = end + len(parts[at + 2])
    del parts[1::3]
    return Run("".join(parts), tuple(links), checked)


def _unquoted(line: str) -> str:
    """Take the quotes of bold and italics out of a line, as the wiki reads them.

    Where bold and italics are both odd in number, one bold is an apostrophe before italics (`''Foo'''s`): it is left.
    """
    if "'''" not in line:
        return line.replace("''", "")
    runs = [len(run) for run in _QUOTES.findall(line)]
    italics = sum(1 for run in runs if run == 2 or run >= 5)
    bolds = sum(1 for run in runs if run >= 3)
    chosen = _apostrophe_at(line) if italics % 2 and bolds % 2 else -1

    def shown(match: re.Match[str]) -> str:
        if match.start() == chosen:
            return "'" * (2 if len(match[0]) == 4 else 1)
        return "'" if len(match[0]) == 4 else "'" * (len(match[0]) - 5)

    return _QUOTES.sub(shown, line)


def _apostrophe_at(line: str) -> int:
    """Choose the bold that is an apostrophe: after a single letter, else after a word, else after a space."""
    chosen = {"letter": -1, "word": -1, "space": -1}
    for match in _QUOTES.finditer(line):
        if len(match[0]) not in (3, 4):
            continue
        before = _LINK_MARK.sub("", line[max(match.start() - 24, 0) : match.start()])
        if len(match[0]) == 4:
            before += "'"
        if before[-1:] in ("", " "):
            kind = "space"
        elif len(before) > 1 and before[-2] == " ":
            kind = "letter"
        else:
            kind = "word"
        if chosen[kind] < 0:
            chosen[kind] = match.start()
    return next((at for at in chosen.values() if at >= 0), -1)


# A hole with a space beside it; patterns begin with the hole, so that `re` can skip to the next.
_SPACED = "\x05"
_OPENED = re.compile(r"\((?:[ ,;:]*[\x04\x05])+[ ,;:]*")
_BEFORE_CLOSED = re.compile(r"[\x04\x05][ ,;:\x04\x05]*\)")
_BETWEEN = re.compile(r"[\x04\x05]([,;:])(?<=[,;:][\x04\x05].)")
_BEFORE_MARK = re.compile(r"\x05([.,;:!?)\]’”])")
_RUN = re.compile(r"[\x04\x05][ \x04\x05]+")
# Most texts have none of these: looking for them is much quicker than the patterns that need them.
_RUNS = ("\x05 ", "\x05\x05", "\x05\x04", "\x04\x04", "\x04\x05", "\x04 ")
_MARKS_BEHIND = tuple(hole + mark for hole in "\x04\x05" for mark in ",;:")


def _closed(text: str) -> str:
    """Close the holes that dropped things left: `( ; born 1950)` is `(born 1950)`, an empty pair of brackets goes."""
    text = _merged(text.replace(" \x04", _SPACED).replace("\x04 ", _SPACED))
    if "(" in text:
        text = _OPENED.sub("(\x05", text)
        text = _BEFORE_CLOSED.sub("\x05)", text)
        for mark in ",;:":
            text = text.replace(f"{mark}\x05)", "\x05)")
        text = text.replace("(\x05)", _SPACED).replace("(\x05", "(").replace("\x05)", ")")
        text = _merged(text)
    if any(pair in text for pair in _MARKS_BEHIND):
        text = _BETWEEN.sub("", text)
    text = _BEFORE_MARK.sub(r"\1", text)
    return text.replace(HOLE, "").replace(_SPACED, " ")


def _merged(text: str) -> str:
    """Make one hole of a run of holes and spaces."""
    text = text.replace(" \x05", _SPACED)
    if not any(pair in text for pair in _RUNS):
        return text
    return _RUN.sub(lambda match: _SPACED if " " in match[0] or _SPACED in match[0] else HOLE, text)
