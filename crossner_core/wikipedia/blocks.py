"""Marked text to paragraphs: sections, lists and lines; the same for both readers.

What is left out, as an annotator would:

- sections that hold no prose (References, External links, See also, …), with all below them;
- list items (`*`, `#`, `:`), definition lines and preformatted lines, unless they are full sentences: eight words or
  more, a capital, digit or quote at the start, a full stop, question or exclamation mark at the end, and at least half
  of the words in lower case. Each that is kept is a paragraph;
- lines of a broken table (`|`, `!`), rules, lines with nothing left of them;
- a paragraph with a formula in its text that cannot be written as text (`formulas`): a hole would make no sense;
- a paragraph in which markup is still seen (`{{`, `[[`, `{|`, a tag): it was broken in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crossner_core.wikipedia.clean import Run, clean
from crossner_core.wikipedia.markup import BLOCK, COMMENT, FORMULA, HIDDEN, HOLE, MISSING, NOTHING, STYLE, TABLE, names
from crossner_core.wikipedia.page import Paragraph

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

_COMMENT_LINE = re.compile(rf"(?m)^[ \t{COMMENT}]*{COMMENT}[ \t{COMMENT}]*\n")
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
    """Make paragraphs of marked text; `targets` are what its link numbers stand for."""
    found: list[Paragraph] = []
    for section, lines, is_item in _blocks(_untagged(text), targets):
        run = clean(lines, targets)
        if not run.text or (is_item and not is_prose(run.text)) or not _is_clean(run):
            continue
        found.append(Paragraph(section, run.text, run.links))
    return tuple(found)


def _is_clean(run: Run) -> bool:
    if MISSING in run.checked:
        return False
    return _LEFT_OVER.search(run.checked) is None and any(map(str.isalpha, run.text))


def _untagged(text: str) -> str:
    """Settle what crosses lines: comments, link trails, tags."""
    if COMMENT in text:
        text = _COMMENT_LINE.sub("", text).replace(COMMENT, "")
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
    """Give each block's section, its lines, and whether it is a list item."""
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
            # What has no such mark near its end is no sentence (`;` ends an entity): not worth cleaning.
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
