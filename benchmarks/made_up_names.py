"""Made-up pages, dumps and sentences, shaped like Wikipedia's; for benchmarks only."""

from __future__ import annotations

import bz2
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

_RESOURCE = "http://dbpedia.org/resource/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_REDIRECT = "<http://dbpedia.org/ontology/wikiPageRedirects>"
_SYLLABLES = """
ba ko ri ten ma lu sha dor vi an el qu ost per gan ley mor tri zu fel cha no wick ham ber san del ro ing ton é
ö
"""
_SMALL = """
the of and in to was with for by on as from his her it that which were at its first also
"""
_KINDS = """
band album film song footballer politician novel village river company
"""
_CLASSES = """
Person SoccerPlayer Politician Writer Settlement Village City Species Album Film Song Band Company University
Book TelevisionShow MilitaryConflict River MusicGenre Award
"""
TYPED = 0.45  # of all pages; the others are redirects, lists, and pages without an infobox
REDIRECTS = 0.6  # per page
FILES = ("instance-types_en.ttl.bz2", "labels_en.ttl.bz2", "redirects_en.ttl.bz2")


class Words:
    """A vocabulary whose first words are common, as in names: some words begin thousands of them."""

    def __init__(self, rng: random.Random, size: int = 300_000) -> None:
        words: dict[str, None] = {}
        syllables = _SYLLABLES.split()
        while len(words) < size:
            word = "".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3, 3, 4))))
            words[word.capitalize()] = None
        self.all = list(words)
        self._rng = rng

    def draw(self, n: int) -> list[str]:
        """Draw words, the first of the vocabulary far more often."""
        size, rng = len(self.all), self._rng.random
        return [self.all[int(size * rng() ** 3)] for _ in range(n)]


def titles(rng: random.Random, words: Words) -> Iterator[str]:
    """Yield page titles without end: 1 to 4 words, some with `(band)`, `, Town`, a year or a possessive."""
    kinds = _KINDS.split()
    while True:
        shape = rng.choices((1, 2, 3, 4), (10, 52, 26, 12), k=4096)
        parts = iter(words.draw(sum(shape)))
        for size in shape:
            name = " ".join(itertools.islice(parts, size))
            kind = rng.random()
            if kind < 0.14:
                name += f" ({rng.choice(kinds)})"
            elif kind < 0.20:
                name += f", {words.draw(1)[0]}"
            elif kind < 0.23:
                name += f" {rng.randint(1850, 2025)}"
            elif kind < 0.25:
                name = name.replace(" ", "'s ", 1)
            elif kind < 0.33:
                name = name.capitalize()
            yield name


def write_dumps(folder: Path, pages: int, seed: int) -> tuple[Path, ...]:
    """Write the three dumps of `pages` pages; about 2.4 triples per page, and 0.9 surfaces of pages with a class."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    source = titles(rng, Words(rng))
    every = list(dict.fromkeys(itertools.islice(source, pages)))
    iris = [_iri(title) for title in every]
    typed = iris[: int(TYPED * len(every))]
    files = tuple(folder / name for name in FILES)
    _write(files[0], _types(typed, rng))
    _write(files[1], (f'{iri} {_LABEL} "{title}"@en .\n' for iri, title in zip(iris, every, strict=True)))
    others = (_iri(title) for title in itertools.islice(source, int(REDIRECTS * pages)))
    _write(files[2], (f"{iri} {_REDIRECT} {rng.choice(iris)} .\n" for iri in others))
    return files


def _types(pages: list[str], rng: random.Random) -> Iterator[str]:
    classes = _CLASSES.split()
    for iri in pages:
        for cls in rng.sample(classes, 2 if rng.random() < 0.5 else 1):
            yield f"{iri} {_TYPE} <http://dbpedia.org/ontology/{cls}> .\n"
        if rng.random() < 0.25:
            yield f"{iri} {_TYPE} <http://www.w3.org/2002/07/owl#Thing> .\n"


def _iri(title: str) -> str:
    return f"<{_RESOURCE}{title.replace(' ', '_')}>"


def _write(path: Path, lines: Iterator[str]) -> None:
    with bz2.open(path, "wt", encoding="utf-8", newline="\n") as stream:
        while several := "".join(itertools.islice(lines, 10_000)):
            stream.write(several)


def sentences(rng: random.Random, names: list[str], n: int) -> Iterator[str]:
    """Yield sentences of about 25 tokens with about 3 of the names; the other words follow Zipf's law."""
    words = Words(rng, 60_000)
    small = _SMALL.split()
    rare = [word.lower() + "ed" for word in words.all]  # not names
    for _ in range(n):
        parts: list[str] = []
        for _ in range(rng.randint(2, 4)):
            for _ in range(rng.randint(4, 7)):
                parts.append(rng.choice(small) if rng.random() < 0.5 else rare[int(60_000 * rng.random() ** 4)])
            name = rng.choice(names)
            parts.append(name + rng.choice(("", "", "", ",", "'s")))
        yield " ".join(parts) + "."
