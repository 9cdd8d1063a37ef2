"""A page's paragraphs to sentences with tokens and links over tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import InvalidConfig
from crossner_core.schema import Link, Sentence, Token
from crossner_core.tokenize import split_sentences, tokenize
from crossner_core.wikipedia.page import CharLink, Extract, Page, Paragraph

STRETCHED, LOST, REJOINED = "stretched", "lost links", "rejoined"
SHORT, LONG = "too short", "too long"


@dataclass(frozen=True, slots=True)
class SentenceRules:
    """Which sentences go into a corpus."""

    min_tokens: int = field(default=3, metadata={"doc": "sentences of fewer tokens are dropped (and counted)"})
    max_tokens: int | None = field(default=None, metadata={"doc": "sentences of more tokens are dropped; none: all"})

    def __post_init__(self) -> None:
        if self.min_tokens < 1:
            raise InvalidConfig(f"min_tokens is {self.min_tokens}, must be 1 or more.")
        if self.max_tokens is not None and self.max_tokens < self.min_tokens:
            raise InvalidConfig(
                f"max_tokens is {self.max_tokens}, must be at least min_tokens, which is {self.min_tokens}."
            )


@dataclass(slots=True)
class Tally:
    """What happened on the way: `dropped` counts sentences by reason, `events` stretched links and the like."""

    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)


def page_sentences(page: Page, extract: Extract, dbname: str, rules: SentenceRules, tally: Tally) -> list[Sentence]:
    """Return the sentences of a page in order; offsets in their ids and meta are relative to `extract.text`."""
    found: list[Sentence] = []
    base = 0
    for number, paragraph in enumerate(extract.paragraphs):
        for start, end in _spans(paragraph, tally):
            text = paragraph.text[start:end]
            tokens = tokenize(text)
            if len(tokens) < rules.min_tokens:
                tally.dropped[SHORT] += 1
                continue
            if rules.max_tokens is not None and len(tokens) > rules.max_tokens:
                tally.dropped[LONG] += 1
                continue
            meta = {
                "page": page.id,
                "revision": page.revision,
                "title": page.title,
                "section": paragraph.section,
                "paragraph": number,
                "offset": base + start,
            }
            links = tuple(token_links(text, tokens, _inside(paragraph.links, start, end), tally.events))
            id = f"{dbname}-{page.id}-{page.revision}-{base + start}"
            found.append(Sentence(id, text, tokens, links, meta))
        base += len(paragraph.text) + 2
    return found


def _spans(paragraph: Paragraph, tally: Tally) -> list[tuple[int, int]]:
    """Split a paragraph; a boundary inside a link is none."""
    spans: list[tuple[int, int]] = []
    for start, end in split_sentences(paragraph.text):
        if spans and _is_linked(paragraph.links, spans[-1][1], start):
            tally.events[REJOINED] += 1
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _is_linked(links: Sequence[CharLink], end: int, start: int) -> bool:
    """Tell whether a link reaches over the boundary between `end` and the next `start`; links are in order."""
    at = bisect_left(links, start, key=lambda link: link.start) - 1
    return at >= 0 and links[at].start < end and links[at].end > start


def _inside(links: Sequence[CharLink], start: int, end: int) -> Iterator[CharLink]:
    """Yield the links of a sentence, relative to it."""
    for at in range(bisect_left(links, start, key=lambda link: link.start), len(links)):
        link = links[at]
        if link.start >= end:
            return
        yield CharLink(link.start - start, min(link.end, end) - start, link.target)


def token_links(text: str, tokens: Sequence[Token], links: Iterator[CharLink], events: Counter[str]) -> Iterator[Link]:
    """Yield each link over the fewest tokens that cover it, none overlapping another.

    Where two links share a token it goes to the first; a link that has no token left is lost.
    """
    taken = 0
    for link in links:
        first = bisect_right(tokens, link.start, key=lambda token: token.end)
        last = bisect_left(tokens, link.end, key=lambda token: token.start)
        covered = max(first, taken)
        if covered >= last:
            events[LOST] += 1
            continue
        shown = text[link.start : link.end]
        start = link.end - len(shown.lstrip())
        end = link.start + len(shown.rstrip())
        if covered != first or tokens[covered].start != start or tokens[last - 1].end != end:
            events[STRETCHED] += 1
        taken = last
        yield Link(covered, last, link.target)
