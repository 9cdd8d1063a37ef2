"""Made-up sentences and types for the editor's harness."""

from __future__ import annotations

import re
from typing import Any

TYPES: list[dict[str, Any]] = [
    {"name": name, "title": title, "parent": parent, "key": key, "color": index, "guideline": guideline}
    for index, (name, title, parent, key, guideline) in enumerate(
        [
            ("musicgenre", "music genre", None, "g", "A style such as jazz or trip hop; not an instrument."),
            ("song", "song", None, "s", "A single piece of music by its title."),
            ("band", "band", "organisation", "b", "Two or more people who make music under one name."),
            ("album", "album", None, "a", "A collection of songs that was published under one title."),
            ("musicalartist", "musical artist", "person", "m", "A person known for making music, solo or in a band."),
            ("instrument", "musical instrument", None, "i", "Something that is played, by its common name."),
            ("award", "award", None, "w", "A prize with a name, the ceremony's name included."),
            ("event", "event", None, "v", "A festival, tour or concert that has a name."),
            ("country", "country", "location", "c", "A state; former states too."),
            ("location", "location", None, "l", "A place that is no country: towns, venues, rivers."),
            ("organisation", "organisation", None, "o", "A company, school, label or public body."),
            ("person", "person", None, "p", "A person who is not known for music."),
            ("misc", "miscellaneous", None, "x", "A name that fits no other type."),
            ("politician", "politician", "person", "q", "A person who holds or sought a public office."),
            ("writer", "writer", "person", "r", "An author of books, plays or poems."),
            ("magazine", "magazine", None, "z", "A periodical by its title."),
            ("theory", "music theory", None, "t", "A term of composition or analysis."),
        ]
    )
]

TEXTS = [
    "In 1994 Mira Solberg left the Copper Lanterns and recorded Northern Rooms in a barn near Bergen .",
    "The trio played trip hop and dub at the Harbour Lights Festival in Gdynia that summer .",
    "Critics at Tone Weekly called her second album , Salt and Paper , a quiet wonder .",
    "It rained on most days , and nobody in the village could say when it would end .",
    "🎸 Zoë Ångström plays the nyckelharpa with 👩‍🎤 Ana\u0301 Pérez in Åbo .",
    "وُلد سامي النجار في القاهرة وعزف على العود مع فرقة نجوم النيل .",
]
MARKS: list[list[tuple[int, int, str, str, float]]] = [
    [(2, 4, "person", "link", 0.91), (2, 4, "musicalartist", "gazetteer", 0.74), (5, 8, "band", "gazetteer", 0.88),
     (6, 8, "organisation", "model", 0.41), (10, 12, "album", "link", 0.97), (16, 17, "location", "gazetteer", 0.8)],
    [(3, 5, "musicgenre", "gazetteer", 0.93), (6, 7, "musicgenre", "gazetteer", 0.61), (9, 12, "event", "link", 0.72)],
    [(2, 4, "magazine", "model", 0.55)],
    [],
    [(1, 3, "musicalartist", "link", 0.9)],
    [(1, 3, "person", "gazetteer", 0.7)],
]  # fmt: skip

LINKS: dict[int, list[dict[str, Any]]] = {
    0: [{"start": 10, "end": 12, "target": "Northern Rooms (album)", "type": "album"}],
    2: [{"start": 2, "end": 4, "target": "Tone Weekly (music magazine)", "type": None}],
}


def tokens_of(text: str) -> list[list[int]]:
    """Code-point offsets of the words between white space."""
    return [[match.start(), match.end()] for match in re.finditer(r"\S+", text)]


def item(task: int, **extra: Any) -> dict[str, Any]:
    """The item of a task: the sample texts in turn."""
    place = task % len(TEXTS)
    text = TEXTS[place]
    marks = [
        {"start": start, "end": end, "type": kind, "source": source, "score": score, "entity": None}
        for start, end, kind, source, score in MARKS[place]
    ]
    return {
        "task": task, "sentence": 1000 + task, "text": text, "tokens": tokens_of(text), "links": LINKS.get(place, []),
        "suggestions": marks, "first": None, "units": None, "revision": 0, "work": None, "notes": [], "blind": False,
        **extra,
    }  # fmt: skip


def check_item(task: int) -> dict[str, Any]:
    """A sentence with the spans of annotator 1."""
    first = [
        {"start": 2, "end": 4, "type": "person"},
        {"start": 6, "end": 8, "type": "band"},
        {"start": 10, "end": 12, "type": "album"},
    ]
    return item(
        task - task % len(TEXTS), first=first, notes=[{"who": "annotator 1", "text": "Is the barn a venue?"}]
    ) | {"task": task}


def adjudicate_item(task: int) -> dict[str, Any]:
    """A sentence with one unit of every kind."""

    def span(start: int, end: int, kind: str) -> dict[str, Any]:
        return {"start": start, "end": end, "type": kind}

    def unit(kind: str, first: dict[str, Any] | None, second: dict[str, Any] | None, note: str = "") -> dict[str, Any]:
        return {"kind": kind, "first": first, "second": second, "note": note}

    units = [
        unit("extra", span(1, 2, "misc"), None),
        unit("type", span(2, 4, "person"), span(2, 4, "musicalartist")),
        unit("boundary", span(6, 8, "band"), span(5, 8, "band")),
        unit("flagged", span(10, 12, "album"), span(10, 12, "album"), "Could also be a song."),
        unit("missing", None, span(14, 15, "misc")),
        unit("agree", span(16, 17, "location"), span(16, 17, "location")),
    ]
    return item(task - task % len(TEXTS), units=units, suggestions=[]) | {"task": task}
