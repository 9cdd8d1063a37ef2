"""The data types used throughout the project; imports only `errors` from this package."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_core.errors import BadInput, InvalidSpan

LAYOUT_KEY = "_layout"  # reserved key in stored metadata, for document and layout
OUR_KEYS = ("id", "text", "tokens", "links", "gold")  # of a sentence as JSON; metadata stands beside them
MOST_IN_ENTITY = 500
_ADDRESS = re.compile(r"https?://[^\s<>\"]+")
MOST_NESTED = 100  # levels of metadata: every reader and store of ours takes as many
# What a span is (docs/corpora.md): whatever does not fit is refused or reported in these words, the editor's included.
FLAT = "spans neither overlap nor nest"
ONE_PIECE = "a span is one piece without gaps"
WHOLE_TOKENS = "a span covers whole tokens"
NIL = "NIL"  # the entity of a span whose resource is in no knowledge base
UNSTORABLE = "holds a character that cannot be stored (NUL or half a surrogate pair)"


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """A piece of text by its character offsets (code points, half-open)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """An entity mention: token offsets `[start, end)` and its entity type.

    `entity` is the address of the resource that it names, `NIL`, or None while it is linked to none; spans that differ
    in nothing else are equal.
    """

    start: int
    end: int
    type: str
    entity: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A hyperlink over tokens `[start, end)` with the title of the page it points to."""

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pre-annotation over tokens `[start, end)`: `source` names its origin, `score` lies in [0, 1]."""

    start: int
    end: int
    type: str
    source: str
    score: float
    entity: str | None = None

    @property
    def span(self) -> Span:
        return Span(self.start, self.end, self.type)


@dataclass(frozen=True, slots=True)
class Mention:
    """A known name over tokens `[start, end)`: the resource it most likely stands for, by page title.

    `classes` are the resource's class names (`Band`), most specific first, () if none is known. `type` is its entity
    type in a domain, None if the domain has none for it or no domain was given. `source` names its origin, `score` lies
    in [0, 1].
    """

    start: int
    end: int
    entity: str
    classes: tuple[str, ...]
    type: str | None
    source: str
    score: float


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of a file (or of a document's files), by its name; `layout` holds the format's own values."""

    name: str
    layout: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentenceLayout:
    """A sentence's original layout, so that `format` can reproduce it; all values fit JSON.

    `notes` are what the format needs for this sentence besides the layout of the whole file, `file`, if stored.
    """

    format: str
    notes: Mapping[str, Any] = field(default_factory=dict)
    file: FileLayout | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """The annotation unit: text, tokens, links and metadata.

    `document` names its document and `offset` is where its text begins in the document's text (code points); None if
    there is none, or if the document has no running text. `meta` are foreign values, kept unchanged.
    """

    id: str
    text: str
    tokens: tuple[Token, ...]
    links: tuple[Link, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    document: str | None = None
    offset: int | None = None
    layout: SentenceLayout | None = None

    def __post_init__(self) -> None:
        end = 0
        for token in self.tokens:
            if not end <= token.start < token.end <= len(self.text):
                raise InvalidSpan(
                    f"Sentence {self.id}: token [{token.start}, {token.end}) overlaps its neighbour or lies outside "
                    f"the text of {len(self.text)} characters; tokens must be in order and inside the text."
                )
            end = token.end
        for link in self.links:
            if not 0 <= link.start < link.end <= len(self.tokens):
                raise InvalidSpan(
                    f"Sentence {self.id}: link [{link.start}, {link.end}) to {link.target!r} lies outside "
                    f"its {len(self.tokens)} tokens."
                )

    @property
    def words(self) -> tuple[str, ...]:
        """The token texts, in order."""
        return tuple(self.text[token.start : token.end] for token in self.tokens)

    def surface(self, start: int, end: int) -> str:
        """The text covered by tokens `[start, end)`, inner white space included."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def char_range(self, start: int, end: int) -> tuple[int, int]:
        """Character offsets of tokens `[start, end)`."""
        return self.tokens[start].start, self.tokens[end - 1].end

    def laid_out(self, layout: SentenceLayout) -> Sentence:
        """Return the sentence with what its format needs to write it as it was read."""
        # Done for every sentence that is read, and several times faster than dataclasses.replace.
        return Sentence(self.id, self.text, self.tokens, self.links, self.meta, self.document, self.offset, layout)

    def bare(self) -> Sentence:
        """Return the sentence with only its text, tokens and links."""
        return Sentence(self.id, self.text, self.tokens, self.links)

    @property
    def content_hash(self) -> str:
        """SHA-256 over text and token offsets; sentences with equal hashes are the same annotation unit."""
        offsets = ",".join(f"{token.start}-{token.end}" for token in self.tokens)
        return hashlib.sha256(f"{self.text}\x00{offsets}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence with its spans from an annotator or gold."""

    sentence: Sentence
    spans: tuple[Span, ...]


def is_storable(text: str) -> bool:
    """Return whether every store and file can hold a text: no NUL, no half of a surrogate pair."""
    return "\x00" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def is_entity(text: str) -> bool:
    """Return whether a text can be a span's entity: `NIL`, or the address of a resource."""
    return text == NIL or (_ADDRESS.fullmatch(text) is not None and len(text) <= MOST_IN_ENTITY and is_storable(text))


def check_content(sentence: Sentence) -> None:
    """Raise BadInput for what some store, format or archive could not hold: whatever comes in must come out again."""
    texts = [("id", sentence.id), ("text", sentence.text), ("document", sentence.document or "")]
    texts += [(f"link {link.target!a}", link.target) for link in sentence.links]
    for what, text in texts:
        if not is_storable(text):
            raise BadInput(f"Sentence {sentence.id!a}: its {what} {UNSTORABLE}.")
    if not sentence.id:
        raise BadInput("A sentence has an empty id; give it one, or leave the id out.")
    if not sentence.tokens:
        raise BadInput(f"Sentence {sentence.id}: it has no tokens, so nothing can be labelled; leave it out.")
    if blank := next((token for token in sentence.tokens if sentence.text[token.start : token.end].isspace()), None):
        raise BadInput(f"Sentence {sentence.id}: token [{blank.start}, {blank.end}] holds nothing but white space.")
    if sentence.meta:
        _check_meta(sentence)


def _check_meta(sentence: Sentence) -> None:
    """Raise BadInput for metadata that is not JSON, is nested too deep, or has a key of a sentence's own."""
    what = f"Sentence {sentence.id}: its metadata"
    if reserved := next((key for key in OUR_KEYS if key in sentence.meta), None):
        raise BadInput(f"{what} may not be called {reserved!r}, which is a sentence's own.")
    level: list[Any] = [sentence.meta]
    for _ in range(MOST_NESTED):
        below: list[Any] = []
        for value in level:
            if isinstance(value, str) and not is_storable(value):
                raise BadInput(f"{what} {UNSTORABLE}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise BadInput(f"{what} holds the number {value}, which JSON does not have.")
            if isinstance(value, Mapping):
                below += [*value, *value.values()]
            elif isinstance(value, list | tuple):
                below += value
        if not below:
            return
        level = below
    raise BadInput(f"{what} is nested deeper than {MOST_NESTED} levels.")


def check_spans(sentence: Sentence, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans sorted; raise InvalidSpan if one is outside the sentence or two overlap."""
    ordered = tuple(sorted(spans))
    end = 0
    for span in ordered:
        if not 0 <= span.start < span.end <= len(sentence.tokens):
            raise InvalidSpan(
                f"Sentence {sentence.id}: span [{span.start}, {span.end}) {span.type} lies outside its "
                f"{len(sentence.tokens)} tokens."
            )
        if span.start < end:
            raise InvalidSpan(
                f"Sentence {sentence.id}: span [{span.start}, {span.end}) {span.type} overlaps the one before it; "
                f"{FLAT}: keep one of the two."
            )
        end = span.end
    return ordered


def sentence_from_words(
    words: Sequence[str],
    *,
    id: str,
    links: Iterable[Link] = (),
    meta: Mapping[str, Any] | None = None,
    document: str | None = None,
    layout: SentenceLayout | None = None,
) -> Sentence:
    """Build a sentence whose text is its words joined by single spaces."""
    tokens, start = [], 0
    for word in words:
        tokens.append(Token(start, start + len(word)))
        start += len(word) + 1
    text = " ".join(words)
    return Sentence(id, text, tuple(tokens), tuple(links), dict(meta or {}), document=document, layout=layout)


def meta_to_keep(sentence: Sentence) -> dict[str, Any]:
    """Return the metadata to store, with document, offset and layout under `LAYOUT_KEY`; it fits JSON."""
    kept: dict[str, Any] = {}
    layout, name = sentence.layout, None
    if layout is not None and layout.notes:
        kept[layout.format] = dict(layout.notes)
    if layout is not None and layout.file is not None:
        name = layout.file.name
        kept["file"] = {"name": name, "layout": dict(layout.file.layout)}
    if sentence.document != name or sentence.offset is not None:
        kept["document"] = {"name": sentence.document, "offset": sentence.offset}
    return {**sentence.meta, **({LAYOUT_KEY: kept} if kept else {})}


def fields_from_kept(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `meta_to_keep` returned: the values of a sentence's `meta`, `document`, `offset` and `layout`."""
    if LAYOUT_KEY not in meta:
        return {"meta": meta}
    kept = dict(meta[LAYOUT_KEY])
    file = FileLayout(**kept.pop("file")) if "file" in kept else None
    # Rows from before documents were stored have only the file.
    document = kept.pop("document", {"name": file and file.name, "offset": None})
    format = next(iter(kept), file.layout["format"] if file else None)
    return {
        "meta": {key: value for key, value in meta.items() if key != LAYOUT_KEY},
        "document": document["name"],
        "offset": document["offset"],
        "layout": SentenceLayout(format, kept.get(format, {}), file) if format else None,
    }
