"""Marked text to paragraphs: sections, lists and lines; the same for both readers.

Left out, as an annotator would:

- sections that hold no prose (References, External links, See also, …), with all below them;
- list items (`*`, `#`, `:`), definition lines and preformatted lines, unless they are full sentences: eight words or
  more, a capital, digit or quote at the start, a full stop, question or exclamation mark at the end, and at least half
  of the words in lower case. Each that is kept is a paragraph;
- lines of a broken table (`|`, `!`), rules, lines of which nothing is left;
- a paragraph with a formula in its text that cannot be written as text (`formulas`): a hole would make no sense;
- a paragraph in which markup is still seen (`{{`, `[[`, `{|`, a tag): it was broken in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from crossner_core.wikipedia.markup import (
    BLOCK,
    COMMENT,
    FORMULA,
    HIDDEN,
    HOLE,
    MISSING,
    NOTHING,
    STYLE,
    TABLE,
    CharLink,
    Paragraph,
    names,
)


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
    """Join a block's lines into one text; link offsets are relative to it."""
    text = " ".join([_unquoted(line) if "''" in line else line for line in lines])
    if NOTHING in text:
        text = text.replace(NOTHING, "")
    if "[" in text:
        text = _EXTERNAL.sub(lambda match: (match[1] or match[2] or "").strip() or HOLE, text)
    checked, plain = text, text.isascii()
    if "&" in text:
        text, plain = unescape(text.replace("&nbsp;", " ")), False
    if not plain:
        text = _INVISIBLE.sub("", text)
    # splitting takes as long as half of what else is done here
    if not plain or "\t" in text or "  " in text:
        text = " ".join(text.split())
    text = text.strip()
    if HOLE in text:
        text = text.replace(HOLE, "") if _ODD_HOLE.search(text) is None else _closed(text)
        text = " ".join(text.split()) if "  " in text else text.strip()
    if "\x01" not in text:
        return Run(text, (), checked)
    return _with_links(text, targets, checked)


def _trimmed(text: str) -> str:
    """Move spaces out of links, and remove links that cover nothing."""
    if "\x03 " in text:
        text = _SPACE_AFTER_OPEN.sub(" \x01\\1\x03", text)
    while " \x02" in text:
        text = text.replace(" \x02", "\x02 ")
    return " ".join(_EMPTY.sub("", text).split())


def _with_links(text: str, targets: list[str], checked: str) -> Run:
    """Remove the markers from a text; no link begins or ends with a space, and none covers nothing."""
    parts = _LINK.split(text)
    links: list[CharLink] = []
    length = len(parts[0])
    for index in range(1, len(parts), 3):
        shown = parts[index + 1]
        if not shown or shown[0] == " " or shown[-1] == " ":
            return _with_links(_trimmed(text), targets, checked)
        end = length + len(shown)
        links.append(CharLink(length, end, targets[int(parts[index])]))
        length = end + len(parts[index + 2])
    del parts[1::3]
    return Run("".join(parts), tuple(links), checked)


def _unquoted(line: str) -> str:
    """Remove the quotes of bold and italics from a line, as MediaWiki does.

    Where bold and italics are both odd in number, one bold is an apostrophe before italics (`''Foo'''s`): it is kept.
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
    return next((position for position in chosen.values() if position >= 0), -1)


# A hole with a space beside it; patterns begin with the hole, so that `re` can skip to the next.
_SPACED = "\x05"
_OPENED = re.compile(r"\((?:[ ,;:]*[\x04\x05])+[ ,;:]*")
_BEFORE_CLOSED = re.compile(r"[\x04\x05][ ,;:\x04\x05]*\)")
_BETWEEN = re.compile(r"[\x04\x05]([,;:])(?<=[,;:][\x04\x05].)")
_BEFORE_MARK = re.compile(r"\x05([.,;:!?)\]’”])")
_RUN = re.compile(r"[\x04\x05][ \x04\x05]+")
# A hole that more has to be done about than to leave it out: beside brackets, marks, another hole, or two spaces.
_ODD_HOLE = re.compile(r"\x04(?:(?<=[(,;:\x04]\x04)|(?<=[(,;:\x04] \x04)|(?<= \x04) | ?[.,;:!?)\]’”\x04])")
# Most texts have none of these: looking for them is much faster than the patterns that need them.
_RUNS = ("\x05 ", "\x05\x05", "\x05\x04", "\x04\x04", "\x04\x05", "\x04 ")
_MARKS_BEHIND = tuple(hole + mark for hole in "\x04\x05" for mark in ",;:")


def _closed(text: str) -> str:
    """Close the holes that dropped things left: `( ; born 1950)` is `(born 1950)`, empty brackets are removed."""
    text = _merged(text.replace(" \x04", _SPACED).replace("\x04 ", _SPACED))
    if "(" in text:
        text, opened = _OPENED.subn("(\x05", text)
        text, closed = _BEFORE_CLOSED.subn("\x05)", text)
        if opened or closed:
            for mark in ",;:":
                text = text.replace(f"{mark}\x05)", "\x05)")
            text = text.replace("(\x05)", _SPACED).replace("(\x05", "(").replace("\x05)", ")")
            text = _merged(text)
    if any(pair in text for pair in _MARKS_BEHIND):
        text = _BETWEEN.sub("", text)
    text = _BEFORE_MARK.sub(r"\1", text)
    return text.replace(HOLE, "").replace(_SPACED, " ")


def _merged(text: str) -> str:
    """Merge a run of holes and spaces into one hole."""
    text = text.replace(" \x05", _SPACED)
    if not any(pair in text for pair in _RUNS):
        return text
    return _RUN.sub(lambda match: _SPACED if " " in match[0] or _SPACED in match[0] else HOLE, text)


NO_PROSE = names(
    "references|external links|external link|see also|further reading|notes|footnotes|bibliography|citations|sources|"
    "works cited|notes and references|references and notes|notes and citations|citations and notes|"
    "references and sources|sources and references|references and further reading|further reading and references|"
    "notes and sources|general references|specific references|inline citations|explanatory notes|endnotes|"
    "primary sources|secondary sources|literature|literature cited|selected bibliography|"
    "bibliography and references|external links and references|references and external links|"
    "further reading and external links|bibliography and further reading|links|cited works|general sources|"
    "cited sources|gallery|image gallery|picture gallery|discography|filmography|track listing|related links",
    "|",
)

# It begins with a plain character, so that `re` can skip to the next of them; the text is given one line end more.
_COMMENT_LINE = re.compile(rf"\n[ \t{COMMENT}]*{COMMENT}[ \t{COMMENT}]*(?=\n)")
_EMPTY_LINK = re.compile(rf"\x01\d+\x03[\s'{HOLE}{COMMENT}{NOTHING}]*\x02")
_TRAIL = re.compile(r"\x02([a-z]+)")
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s/>])([^<>\x01\x02]*)>")
_RAISED = re.compile(r"<sup>([-+−–0-9n]{1,6})</sup>")
_RAISE = str.maketrans("0123456789+-−–n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻ⁿ")
_LEFT_OVER = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|<!--|-->")
_HEADING = re.compile(r"(={1,6})(.+?)\1$")
_BLANK = f" \t\u00a0{HOLE}{NOTHING}"
_AROUND_FORMULA = f" \t\u00a0.,;:*#{HOLE}{NOTHING}{MISSING}"
_DROPPED = "|!{}"
_ITEM = "*#:; \t"
_KNOWN = STYLE | BLOCK | HIDDEN | FORMULA | TABLE | {"nowiki", "noinclude", "includeonly", "img"}


def paragraphs_of(text: str, targets: list[str]) -> tuple[Paragraph, ...]:
    """Make paragraphs from marked text; `targets` are what its link numbers stand for."""
    paragraphs: list[Paragraph] = []
    for section, lines, is_item in _blocks(_untagged(text), targets):
        run = clean(lines, targets)
        if not run.text or (is_item and not is_prose(run.text)) or not _is_clean(run):
            continue
        paragraphs.append(Paragraph(section, run.text, run.links))
    return tuple(paragraphs)


def _is_clean(run: Run) -> bool:
    if MISSING in run.checked:
        return False
    return _LEFT_OVER.search(run.checked) is None and any(map(str.isalpha, run.text))


def _untagged(text: str) -> str:
    """Resolve what crosses lines: comments, link trails, tags."""
    if COMMENT in text:
        text = _COMMENT_LINE.sub("", "\n" + text)[1:].replace(COMMENT, "")
    text = _EMPTY_LINK.sub(HOLE, text)
    text = _TRAIL.sub("\\1\x02", text)
    if "<" in text:
        text = _TAG.sub(_shown_tag, text)
        if "<sup>" in text:
            text = _RAISED.sub(lambda match: match[1].translate(_RAISE), text)
            text = text.replace("<sup>", "").replace("</sup>", "")
    if "__" in text:
        text = _SWITCH.sub("", text)
    return text


def _shown_tag(match: re.Match[str]) -> str:
    name = match[2].lower()
    if name == "sup":
        return f"<{match[1]}sup>"
    if name in STYLE:
        return ""
    if name == "br":
        return " "
    if name == "hr" or name in BLOCK:
        return "\n\n"
    return "" if name in _KNOWN or name == "wbr" else match[0]


def _blocks(text: str, targets: list[str]) -> Iterator[tuple[str, list[str], bool]]:
    """Yield each block's section, its lines, and whether it is a list item."""
    section, skipping = "", 0
    lines: list[str] = []
    for line in text.split("\n"):
        first = line[:1]
        if first == "=" and (match := _HEADING.fullmatch(line.rstrip(_BLANK))):
            if lines:
                yield section, lines, False
                lines = []
            level = len(match[1])
            title = clean([match[2]], targets).text
            if not skipping or level <= skipping:
                section = title
                skipping = level if title.lower().rstrip(":") in NO_PROSE else 0
            continue
        if skipping:
            continue
        shown = line.strip(_BLANK)
        if MISSING in shown and not shown.strip(_AROUND_FORMULA):  # set off from the text
            shown = ""
        if not shown:
            if lines:
                yield section, lines, False
                lines = []
            continue
        start = shown[0] if first == HOLE else first
        if start in _ITEM or start in _DROPPED or shown.startswith("----"):
            if lines:
                yield section, lines, False
                lines = []
            # Without such a mark near its end it is no sentence (`;` ends an entity): not worth cleaning.
            if start in "*#: \t" and shown[:4] != "----" and any(mark in shown[-40:] for mark in ".!?…;"):
                yield section, [shown.lstrip(_ITEM + HOLE)], True
            continue
        lines.append(line)
    if lines:
        yield section, lines, False


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]»]*$")


def is_prose(text: str) -> bool:
    """Tell whether a list item is a full sentence."""
    if _SENTENCE_END.search(text) is None:
        return False
    first = text.lstrip("\"'“‘«([¿¡")[:1]
    if not (first.isupper() or first.isdigit()):
        return False
    words = _WORD.findall(text)
    return len(words) >= 8 and 2 * sum(word[0].islower() for word in words) >= len(words)
