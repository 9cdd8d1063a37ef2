"""A small corpus of invented sentences about invented musicians and politicians, with links and mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crossner_core.schema import Link, Mention, Sentence, Token
from crossner_core.tokenize import tokenize
from crossner_core.wikipedia.corpus import (
    KEPT,
    Corpus,
    CorpusSentence,
    CorpusWriter,
    PageRow,
    SentenceRows,
    pages_table,
)
from crossner_core.wikipedia.manifest import Counts, Gazetteer, Manifest, Source

# What the made-up ontology slice says of the titles, most specific class first.
CLASSES: dict[str, tuple[str, ...]] = {
    "Ilse Maron": ("Singer", "MusicalArtist", "Artist", "Person"),
    "Tobin Wray": ("Guitarist", "MusicalArtist", "Artist", "Person"),
    "Petra Hallund": ("Politician", "Person"),
    "Oskar Venn": ("Mayor", "Politician", "Person"),
    "Dana Birk": ("Journalist", "Person"),
    "The Slow Ferries": ("Band", "Group", "Organisation"),
    "Night Orchard": ("Band", "Group", "Organisation"),
    "Copper Rain": ("Album", "MusicalWork", "Work"),
    "Letters Home (song)": ("Song", "MusicalWork", "Work"),
    "Quay folk": ("MusicGenre", "Genre", "TopicalConcept"),
    "Northbank Union": ("PoliticalParty", "Organisation"),
    "Green Harbour Alliance": ("PoliticalParty", "Organisation"),
    "1962 Velmark election": ("Election", "SocietalEvent", "Event"),
    "Velmark": ("Country", "PopulatedPlace", "Place"),
    "Port Sella": ("City", "Settlement", "PopulatedPlace", "Place"),
    "Lantern Festival (Port Sella)": ("MusicFestival", "SocietalEvent", "Event"),
    "Golden Oar": ("Award",),
    "Harrow Records": ("RecordLabel", "Company", "Organisation"),
}
# [[Title|text]] is a link, {Title|text} a name in plain text that the gazetteer knows.
_ARTISTS = ("Ilse Maron", "Tobin Wray")
_BANDS = ("The Slow Ferries", "Night Orchard")
_POLITICIANS = ("Petra Hallund", "Oskar Venn")
_PARTIES = ("Northbank Union", "Green Harbour Alliance")


def _music(year: int) -> list[str]:
    artist, other = _ARTISTS[year % 2], _ARTISTS[(year + 1) % 2]
    band = _BANDS[year % 2]
    return [
        f"In {year} [[{artist}]] joined [[{band}]] as its singer.",
        f"{{{artist}|{artist.split()[1]}}} wrote [[Letters Home (song)|Letters Home]] on a ferry.",
        f"The record [[Copper Rain]] came out in {year} on [[Harrow Records]].",
        f"Critics in [[Port Sella]] called it [[Quay folk|quay folk]], and [[{other}]] agreed.",
        f"A rainy summer followed, and nobody played for {year - 1950} weeks.",
        "At the [[Lantern Festival (Port Sella)|Lantern Festival]] the band won the [[Golden Oar]].",
        f"It was recorded at the [[Old Salt Works]] during the winter of {year}.",
    ]


def _politics(year: int) -> list[str]:
    politician, other = _POLITICIANS[year % 2], _POLITICIANS[(year + 1) % 2]
    party = _PARTIES[year % 2]
    return [
        f"In {year} [[{politician}]] left the [[{party}]] over a bridge.",
        f"The [[1962 Velmark election|election]] was lost by {{{other}}} after {year - 1955} recounts.",
        f"[[Dana Birk]] reported from [[Velmark]] and from {{Port Sella}} all through {year}.",
        f"Turnout was low in {year}, as it had been for decades.",
        f"The [[Bridge Inquiry]] of {year} blamed the [[Ferry Board]] and the [[Harbour Office]].",
    ]


SENTENCES: tuple[tuple[str, str], ...] = tuple(
    (f"Page {year} (music)" if kind is _music else f"Page {year} (politics)", text)
    for year in range(1960, 1965)
    for kind in (_music, _politics)
    for text in kind(year)
)
"""60 sentences as (title of the page, text with marks)."""
_MARK = re.compile(r"\[\[(?P<link>[^\]|]+)(?:\|(?P<shown>[^\]]+))?\]\]|\{(?P<name>[^}|]+)(?:\|(?P<text>[^}]+))?\}")


def read_marked(
    marked: str, *, id: str, classes: Mapping[str, Sequence[str]] | None = None, meta: Mapping[str, object]
) -> CorpusSentence:
    """Build a sentence from text with `[[Title|text]]` links and `{Title|text}` unlinked names.

    Without classes it is not pre-annotated; a link to a title that is not among them gives no mention.
    """
    text, at, marks = "", 0, []
    for match in _MARK.finditer(marked):
        text += marked[at : match.start()]
        title = match["link"] or match["name"]
        shown = match["shown"] or match["text"] or title
        marks.append((len(text), len(text) + len(shown), title, match["link"] is not None))
        text += shown
        at = match.end()
    text += marked[at:]
    tokens = tokenize(text)
    links, mentions = [], []
    for low, high, title, is_link in marks:
        start, end = _cover(tokens, low, high)
        if is_link:
            links.append(Link(start, end, title))
        if classes and title in classes:
            source = "link" if is_link else "gazetteer"
            mentions.append(Mention(start, end, title, tuple(classes[title]), None, source, 1.0 if is_link else 0.5))
    sentence = Sentence(id, text, tokens, tuple(links), meta)
    return CorpusSentence(sentence, None if classes is None else tuple(mentions))


def _cover(tokens: Sequence[Token], low: int, high: int) -> tuple[int, int]:
    inside = [at for at, token in enumerate(tokens) if token.start >= low and token.end <= high]
    return inside[0], inside[-1] + 1


def make_corpus(
    folder: Path,
    sentences: Iterable[tuple[str, str]] = SENTENCES,
    *,
    name: str = "invented",
    classes: Mapping[str, Sequence[str]] | None = CLASSES,
    categories: Mapping[str, Sequence[str]] | None = None,
    category_pages: Mapping[str, Sequence[str]] | None = None,
    shard_pages: int = 4,
) -> Corpus:
    """Write a corpus of (page title, marked text) to `folder / name`, some pages a shard.

    `categories` maps the title of a page to its categories (by default `Music of …` and `Politics of …`),
    `category_pages` a category to the categories above it. `classes=None` leaves it without pre-annotation.
    """
    pages: dict[str, list[str]] = {}
    for title, marked in sentences:
        pages.setdefault(title, []).append(marked)
    rows = list(pages.items())
    writer, shards, totals = CorpusWriter(folder / name), [], Counts()
    for number, first in enumerate(range(0, max(len(rows), 1), shard_pages)):
        gathered, kept = SentenceRows(), []
        for page, (title, texts) in enumerate(rows[first : first + shard_pages], start=first + 1):
            found = _page(page, title, texts, classes)
            for item in found:
                gathered.add(item)
            above = (categories or {}).get(title, ()) if categories is not None else _default_categories(title)
            tokens, links = (sum(len(getattr(one.sentence, part)) for one in found) for part in ("tokens", "links"))
            kept.append(
                PageRow(
                    page, 10 + page, title, 0, KEPT, parser="fast", paragraphs=1, sentences=len(found), tokens=tokens,
                    links=links, categories=tuple(above),
                )
            )  # fmt: skip
            mentions = sum(len(one.mentions or ()) for one in found)
            totals += Counts(1, 1, 0, 0, 1, len(found), tokens, links, mentions, fast=1)
        if number == 0:
            for at, (title, above) in enumerate((category_pages or {}).items(), start=9001):
                kept.append(PageRow(at, 10 + at, f"Category:{title}", 14, "category", categories=tuple(above)))
                totals += Counts(pages=1, categories=1)
        shards.append(writer.write_shard(number, gathered.table(), pages_table(kept)))
    source = Source("invented.xml", 1, "inventedwiki", "by hand")
    gazetteer = Gazetteer("invented", "0" * 64) if classes is not None else None
    return writer.finish(Manifest(source, {}, totals, tuple(shards), gazetteer))


def _page(
    page: int, title: str, texts: Sequence[str], classes: Mapping[str, Sequence[str]] | None
) -> list[CorpusSentence]:
    found, offset = [], 0
    for marked in texts:
        meta = {
            "page": page, "revision": 10 + page, "title": title, "section": "", "paragraph": 0, "offset": offset
        }  # fmt: skip
        found.append(read_marked(marked, id=f"inventedwiki-{page}-{10 + page}-{offset}", classes=classes, meta=meta))
        offset += len(found[-1].sentence.text) + 1
    return found


def _default_categories(title: str) -> tuple[str, ...]:
    return ("Music of Velmark",) if title.endswith("(music)") else ("Politics of Velmark",)
