"""Builders of a small corpus and a small gazetteer in a home folder, for tests of use cases and pages."""

from __future__ import annotations

from collections.abc import Sequence
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

TEXTS = (
    ("The Tin Gulls", "History", "The Tin Gulls recorded Paper Lanterns in a boathouse near Harrow Bay."),
    ("The Tin Gulls", "History", "The Tin Gulls recorded Paper Lanterns in a boathouse near Harrow Bay!"),
    ("The Tin Gulls", "Style", "Critics heard bossa nova in every song of the band."),
    ("Mara Vell", "", "Mara Vell sang with The Tin Gulls until the band broke up in Oslo."),
    ("Mara Vell", "Career", "Her second album won the Harbour Prize in Norway."),
    ("Jonas Reik", "", "Jonas Reik plays the cello and lives in Bergen."),
    ("Jonas Reik", "Works", "A short one."),
    ("Jonas Reik", "Works", "He wrote eight quartets, none of which was printed while he lived in Norway."),
)
KNOWN = {
    "The Tin Gulls": ("Band", "band"),
    "Paper Lanterns": ("Album", "album"),
    "Mara Vell": ("MusicalArtist", "musicalartist"),
    "Jonas Reik": ("MusicalArtist", "musicalartist"),
    "Norway": ("Country", "country"),
    "Harrow Bay": ("Town", None),
}


def make_corpus(
    home: Path,
    name: str = "tiny",
    *,
    texts: Sequence[tuple[str, str, str]] = TEXTS,
    domain: str | None = "music",
    mentions: bool = True,
) -> Corpus:
    """Write a corpus of these (page title, section, text) into `home/corpora`, links on what is known.

    Mentions are typed for the music domain unless `domain` is None; without `mentions` nothing was pre-annotated.
    """
    writer = CorpusWriter(home / "corpora" / name)
    rows, titles = SentenceRows(), list(dict.fromkeys(title for title, _, _ in texts))
    items = [_item(at, titles.index(title) + 1, *texts[at], domain, mentions) for at, (title, _, _) in enumerate(texts)]
    for item in items:
        rows.add(item)
    pages = [
        PageRow(at, 100 + at, title, 0, KEPT, sentences=sum(title == one for one, _, _ in texts))
        for at, title in enumerate(titles, start=1)
    ]
    shard = writer.write_shard(0, rows.table(), pages_table(pages))
    counts = Counts(
        pages=len(pages),
        kept=len(pages),
        paragraphs=len(items),
        sentences=len(items),
        tokens=sum(len(item.sentence.tokens) for item in items),
        links=sum(len(item.sentence.links) for item in items),
        mentions=sum(len(item.mentions or ()) for item in items),
    )
    manifest = Manifest(
        source=Source("tiny.xml", 1234, "tinywiki", "by hand"),
        config={},
        counts=counts,
        shards=(shard,),
        gazetteer=Gazetteer("tiny", "0" * 64) if mentions else None,
        domain=domain if mentions else None,
    )
    return writer.finish(manifest)


def _item(
    at: int, page: int, title: str, section: str, text: str, domain: str | None, mentions: bool
) -> CorpusSentence:
    tokens = tuple(Token(one.start, one.end) for one in tokenize(text))
    links, found = [], []
    for surface, (cls, kind) in KNOWN.items():
        if (place := text.find(surface)) >= 0:
            start = next(n for n, token in enumerate(tokens) if token.start == place)
            end = next(n for n, token in enumerate(tokens) if token.end == place + len(surface)) + 1
            links.append(Link(start, end, surface))
            found.append(Mention(start, end, surface, (cls,), kind if domain else None, "link", 0.95))
    meta = {
        "page": page,
        "revision": 100 + page,
        "title": title,
        "section": section,
        "paragraph": at,
        "offset": at * 100,
    }
    sentence = Sentence(f"tinywiki-{page}-{100 + page}-{at * 100}", text, tokens, tuple(sorted(links)), meta)
    return CorpusSentence(sentence, tuple(sorted(found, key=lambda one: one.start)) if mentions else None)
