"""Documents whose annotation stands beside their text: sentences, tokens and entities out of offsets, and back."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats.base import Layout, Parsed, Problem, ReadOptions, Record, notes_of, whole
from crossner_core.formats.source import Boundary, Data, Source, clip, content_of, decode, describe, portions
from crossner_core.schema import FLAT, ONE_PIECE, Sentence, SentenceLayout, Span, Token, is_entity, is_storable
from crossner_core.tokenize import split_sentences, tokenize_at_most

REFUSE, LEAVE_OUT = UNFIT = "refuse", "leave_out"
OVERLAPPING, REPEATED = "overlapping entities", "entities given twice"
IN_PIECES, ACROSS, EMPTY = "entities in several pieces", "entities across sentences", "entities without text"
_GAP = "\n"
_PIECE = 2_000
"""Sentences of a piece of a document."""
_HINT = "Name the format, and its option unfit=leave_out, to leave such entities out and count them."
Range = tuple[int, int]
Entity = tuple[int, int, str, str | None]
"""Start, end, type in its file, resource."""


@dataclass(frozen=True)
class StandoffOptions(ReadOptions):
    """How to read a document with entities beside its text."""

    unfit: str = field(
        default=REFUSE,
        metadata={
            "doc": "Entities that overlap or are in pieces: refuse, or leave_out and count them.",
            "choices": UNFIT,
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unfit not in UNFIT:
            raise InvalidConfig(f"unfit is {self.unfit!r}; allowed are {' and '.join(UNFIT)}.")


@dataclass(frozen=True, slots=True)
class Mark:
    """An entity as a file has it: pieces (code points of the document's text), its type there, its line, and its fault.

    One with a fault is a problem, and its sentence is left out. `entity` is the resource that it is linked to.
    """

    pieces: tuple[Range, ...]
    type: str
    line: int = 1
    fault: str = ""
    entity: str | None = None


@dataclass(frozen=True)
class Text:
    """A document's text, and the sentences and tokens that its file gives (code points), if any."""

    name: str
    text: str
    sentences: Sequence[Range] | None = None
    tokens: Sequence[Range] | None = None


def read_text(data: Data, name: str) -> Source:
    """Decode a document's text as it is; raise BadInput where it is not UTF-8, since offsets count what is there."""
    return _sound(decode(content_of(data), name))


def text_portions(data: Data, name: str, boundary: Boundary, *, counted: bool = True) -> Iterator[Source]:
    """Decode a file of several documents portion by portion; raise as `read_text` does."""
    yield from map(_sound, portions(data, name, boundary, counted=counted))


def _sound(source: Source) -> Source:
    if source.problems:
        problems = tuple(f"{source.name}:{line}: {reason}" for line, reason in source.problems)
        raise BadInput(describe(problems), problems)
    return source


def document_of(
    text: Text,
    marks: Iterable[Mark],
    options: StandoffOptions,
    layout: Layout,
    *,
    file: str,
    annotated: bool | None = None,
    losses: Mapping[str, int] | None = None,
) -> Parsed:
    """Make the sentences of a document out of its text and its entities; problems are about `file`.

    Without given sentences the text is split, and never within an entity. Entities that a sentence cannot hold (nested,
    overlapping, in pieces, across given sentences) are problems, or left out and counted. Without `annotated` a
    document counts as annotated if it has an entity.
    """
    given = pieces_of(text, marks, options, layout, file=file, annotated=annotated, losses=losses)
    return whole(list(given))


def pieces_of(
    text: Text,
    marks: Iterable[Mark],
    options: StandoffOptions,
    layout: Layout,
    *,
    file: str,
    annotated: bool | None = None,
    losses: Mapping[str, int] | None = None,
    problems: Sequence[Problem] = (),
) -> Iterator[Parsed]:
    """Like `document_of`, in pieces of some sentences, for documents that may be large; `problems` come first."""
    made = _Making(text, options, file, Counter(losses or {}))
    entities = made.fitting(marks)
    ranges = made.ranges(entities)
    held = made.by_sentence(entities, ranges)
    with_spans = any(held) if annotated is None else annotated
    del entities, marks
    tail = text.text[ranges[-1][1] :] if ranges else text.text
    layout = replace(layout, tail=None if tail == layout.newline else tail, type_map=dict(options.type_map))
    records, done, first = list[Record](), 0, list(problems)
    for number, (start, end) in enumerate(ranges):
        if len(records) == _PIECE:
            yield Parsed(text.name, layout.format, tuple(records), tuple(first), layout, more=True)
            records, first = [], []
        before, done = text.text[done:start], end
        here, held[number] = held[number], []
        if made.is_bad(start, end):
            continue
        sentence = made.sentence(number, start, end, here)
        if sentence is not None:
            notes = {"before": before} if before != (_GAP if number else "") else {}
            own = SentenceLayout(layout.format, notes)
            spans = _spans(sentence, here) if with_spans else None
            records.append(Record(replace(sentence, layout=own), spans))
    every = (*first, *sorted(made.problems, key=lambda problem: problem.line))
    hint = _HINT if made.unfit else ""
    yield Parsed(text.name, layout.format, tuple(records), every, layout, +made.losses, hint)


def text_of(document: Parsed) -> tuple[str, list[int]]:
    """Return a document's whole text, and where each of its sentences begins in it."""
    parts: list[str] = []
    starts: list[int] = []
    position = 0
    for record in document.sentences:
        notes = notes_of(record.sentence, document.format)
        before = notes.get("before", _GAP if parts else "")
        if parts and not before:  # another sentence stood between them
            before = _GAP if record.sentence.offset is None or not _follows(record, document, len(starts)) else ""
        parts += [before, record.sentence.text]
        starts.append(position + len(before))
        position = starts[-1] + len(record.sentence.text)
    tail = document.layout.newline if document.layout.tail is None else document.layout.tail
    return "".join([*parts, tail]), starts


def entities_of(document: Parsed, starts: Sequence[int]) -> Iterator[Entity]:
    """Yield the entities of a document as (start, end, type in its file, resource), in code points of its text."""
    for record, position in zip(document.sentences, starts, strict=True):
        for span in record.spans or ():
            first, last = record.sentence.char_range(span.start, span.end)
            yield position + first, position + last, document.layout.outer_type(span.type), span.entity


def resource(identifier: object, losses: Counter[str]) -> str | None:
    """Return an identifier of a file as a span's entity; count one that is no address."""
    if not isinstance(identifier, str) or not identifier:
        return None
    if is_entity(identifier):
        return identifier
    losses["identifiers of entities that are no addresses"] += 1
    return None


def fitting_type(type: str, unfit: re.Pattern[str], losses: Counter[str]) -> str:
    """Return a type with `_` for what a format cannot hold in it, and count the entities whose type changed."""
    fitting = unfit.sub("_", type)
    losses["entity types unchanged"] += fitting != type
    return fitting


def is_annotated(document: Parsed) -> bool:
    """Tell whether any sentence of a document is annotated: many formats know that of whole documents alone."""
    return any(record.spans is not None for record in document.sentences)


def stem_of(name: str) -> str:
    """Return a file's name without its ending, which is the name of its document."""
    return str(PurePosixPath(name).with_suffix(""))


def file_of(documents: Sequence[Parsed], suffix: str) -> str:
    """Return the name of the one file of documents: of the only one, or `documents`."""
    return f"{documents[0].name if len(documents) == 1 else 'documents'}{suffix}"


def count_links(document: Parsed, losses: Counter[str]) -> None:
    """Count the links of a document's sentences as what its file does not hold."""
    if links := sum(len(record.sentence.links) for record in document.sentences):
        losses["links"] += links


@dataclass(frozen=True, slots=True)
class Utf16:
    """Offsets of a text in UTF-16 code units, as Java and JavaScript count, and in code points."""

    astral: tuple[int, ...]  # code-point places of characters that take two units

    @classmethod
    def of(cls, text: str) -> Utf16:
        return cls(() if text.isascii() else tuple(place for place, letter in enumerate(text) if ord(letter) > 0xFFFF))

    def units(self, place: int) -> int:
        """Return how many units precede a code point."""
        return place + bisect.bisect_left(self.astral, place)

    def points(self, unit: int) -> int:
        """Return the code point at a unit; the second half of a character counts as the character after it."""
        if not self.astral:
            return unit
        position = bisect.bisect_left(
            range(len(self.astral)), unit, key=lambda number: self.astral[number] + number + 1
        )
        return unit - position


class _Making:
    def __init__(self, text: Text, options: StandoffOptions, file: str, losses: Counter[str]) -> None:
        self.text, self.options, self.file, self.losses = text, options, file, losses
        self.problems: list[Problem] = []
        self.unfit = False
        self._bad: list[Range] = []
        self.given = text.tokens is not None
        self.token_starts = [start for start, _ in text.tokens] if text.tokens is not None else []

    def problem(self, line: int, reason: str, mark: Mark | None = None) -> None:
        """Note what is wrong; sentences that a bad entity touches are left out."""
        self.problems.append(Problem(self.file, line, reason))
        if mark is not None:
            bisect.insort(self._bad, (mark.pieces[0][0], max(end for _, end in mark.pieces)))

    def is_bad(self, start: int, end: int) -> bool:
        """Tell whether a bad entity touches a range."""
        return any(low < end and start < high for low, high in self._bad[: bisect.bisect_left(self._bad, (end, 0))])

    def not_held(self, kind: str, mark: Mark, reason: str) -> None:
        if self.options.unfit == REFUSE:
            self.unfit = True
            self.problem(mark.line, f"{self._shown(mark)}: {reason}.", mark)
        else:
            self.losses[kind] += 1

    def _shown(self, mark: Mark) -> str:
        start, end = mark.pieces[0][0], mark.pieces[-1][1]
        return f"entity [{start}, {end}) {clip(self.text.text[start:end])} of type {clip(mark.type)}"

    def fitting(self, marks: Iterable[Mark]) -> list[Mark]:
        """Return the entities that lie in the text in one piece, their types renamed, without white space around."""
        fit = []
        for mark in marks:
            if mark.fault:
                self.problem(mark.line, mark.fault, mark)
                continue
            try:
                ours = self.options.our_type(mark.type)
            except BadInput as error:
                self.problem(mark.line, str(error), mark)
                continue
            if ours and (pieces := self._pieces(mark)):
                fits = mark.pieces == (pieces,) and mark.type == ours  # as most do; one object less for each
                fit.append(mark if fits else Mark((pieces,), ours, mark.line, entity=mark.entity))
        return fit

    def _pieces(self, mark: Mark) -> Range | None:
        text, size = self.text.text, len(self.text.text)
        for start, end in mark.pieces:
            if not 0 <= start <= end <= size:
                self.problem(
                    mark.line,
                    f"entity [{start}, {end}) of type {clip(mark.type)} lies outside the text, which has {size:,} "
                    "characters: the text has changed since, or another count of characters is meant.",
                )
                return None
        pieces = sorted(mark.pieces)
        if any(text[end:start].strip() or start < end for (_, end), (start, _) in pairwise(pieces)):
            self.not_held(IN_PIECES, mark, f"it is in {len(pieces)} pieces; {ONE_PIECE}")
            return None
        start, end = pieces[0][0], pieces[-1][1]
        start, end = _without_space(text, start, end)
        if start >= end:
            self.losses[EMPTY] += 1
            return None
        return start, end

    def ranges(self, entities: Sequence[Mark]) -> list[Range]:
        """Return the sentences: those given, or split so that no entity is cut."""
        if self.text.sentences is not None:
            given = list[Range]()
            for start, end in sorted(self.text.sentences):
                start, end = _without_space(self.text.text, start, end)
                if given and start < given[-1][1]:
                    given[-1] = (given[-1][0], max(end, given[-1][1]))
                elif start < end:
                    given.append((start, end))
            return given
        split, merged = split_sentences(self.text.text), list[Range]()
        crossing = sorted(mark.pieces[0] for mark in entities)
        position = reach = 0
        for start, end in split:
            if merged and start < reach:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
            while position < len(crossing) and crossing[position][0] < end:
                reach = max(reach, crossing[position][1])
                position += 1
        return merged

    def by_sentence(self, entities: Sequence[Mark], ranges: Sequence[Range]) -> list[list[Mark]]:
        """Return the entities of each sentence in order, of overlapping ones the longest."""
        held: list[list[Mark]] = [[] for _ in ranges]
        starts = [start for start, _ in ranges]
        for mark in entities:
            ((start, end),) = mark.pieces
            number = bisect.bisect_right(starts, start) - 1
            if number < 0 or not (ranges[number][0] <= start and end <= ranges[number][1]):
                self.not_held(ACROSS, mark, "it lies in no one sentence of the document")
                continue
            held[number].append(mark)
        return [self._flat(marks) for marks in held]

    def _flat(self, marks: list[Mark]) -> list[Mark]:
        if len(marks) < 2:
            return marks
        kept: list[Mark] = []
        taken: list[Range] = []
        given: set[tuple[Range, str]] = set()
        for mark in sorted(
            marks, key=lambda each: (each.pieces[0][0] - each.pieces[0][1], each.pieces[0][0], each.type)
        ):
            here = mark.pieces[0]
            position = bisect.bisect_left(taken, here)
            neighbours = taken[max(position - 1, 0) : position + 1]
            if any(start < here[1] and here[0] < end for start, end in neighbours):
                if (here, mark.type) in given:
                    self.losses[REPEATED] += 1
                else:
                    self.not_held(OVERLAPPING, mark, f"it overlaps another; {FLAT}")
                continue
            taken.insert(position, here)
            given.add((here, mark.type))
            kept.append(mark)
        return sorted(kept, key=lambda each: each.pieces)

    def sentence(self, number: int, start: int, end: int, marks: Sequence[Mark]) -> Sentence | None:
        """Return a sentence with its tokens, cut where entities end; None, and a problem, for one that is too long."""
        words, most = self.text.text[start:end], self.options.max_tokens
        line = self.text.text.count("\n", 0, start) + 1 if len(words) > most else 1
        if len(words) > self.options.max_line:
            self.problem(line, f"a sentence of {len(words):,} characters; at most {self.options.max_line:,} are read.")
            return None
        if not is_storable(words):
            self.problem(line, f"the sentence {clip(words)} holds NUL or half a surrogate pair, and is no text.")
            return None
        tokens = self._own_tokens(start, end)
        count = len(tokens)
        if not tokens:
            kept_tokens, count = tokenize_at_most(words, most)
            tokens = [(token.start, token.end) for token in kept_tokens]
        if not 0 < count <= most:
            self.problem(line, f"a sentence of {count:,} tokens; 1 to {most:,} are read.")
            return None
        edges = sorted({edge - start for mark in marks for edge in mark.pieces[0]})
        cut, divided = _cut(tokens, edges)
        if self.given and divided:
            self.losses["tokens that an entity divides"] += divided
        for low, high in ((low - start, high - start) for mark in marks for low, high in mark.pieces):
            place = bisect.bisect_left(cut, (low, low))
            if place == len(cut) or cut[place][1] > high:  # no token is there
                cut.insert(place, (low, high))
        prefix = self.options.id_prefix or self.text.name
        made = tuple(Token(*pair) for pair in cut)
        return Sentence(f"{prefix}-{number + 1}", words, made, document=self.text.name, offset=start)

    def _own_tokens(self, start: int, end: int) -> list[Range]:
        if self.text.tokens is None:
            return []
        first, last = bisect.bisect_left(self.token_starts, start), bisect.bisect_left(self.token_starts, end)
        first -= first > 0 and self.text.tokens[first - 1][1] > start  # it begins in white space before the sentence
        kept_tokens: list[Range] = []
        for begin, stop in self.text.tokens[first:last]:
            begin = max(begin, kept_tokens[-1][1] + start if kept_tokens else start)
            if begin < min(stop, end) and self.text.text[begin : min(stop, end)].strip():
                kept_tokens.append((begin - start, min(stop, end) - start))
        return kept_tokens


def _without_space(text: str, start: int, end: int) -> Range:
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _cut(tokens: Sequence[Range], edges: Sequence[int]) -> tuple[list[Range], int]:
    """Cut tokens at the edges that lie within them; return how many were."""
    cut: list[Range] = []
    divided = 0
    for start, end in tokens:
        low, high = bisect.bisect_right(edges, start), bisect.bisect_left(edges, end)
        divided += low < high
        cut += pairwise([start, *edges[low:high], end])
    return cut, divided


def _spans(sentence: Sentence, marks: Sequence[Mark]) -> tuple[Span, ...]:
    """Return entities as runs of tokens; one between tokens has none and was no text."""
    assert sentence.offset is not None
    starts, ends = [token.start for token in sentence.tokens], [token.end for token in sentence.tokens]
    spans = []
    for mark in marks:
        start, end = (edge - sentence.offset for edge in mark.pieces[0])
        first, last = bisect.bisect_left(starts, start), bisect.bisect_right(ends, end)
        if first < last:
            spans.append(Span(first, last, mark.type, mark.entity))
    return tuple(spans)


def _follows(record: Record, document: Parsed, number: int) -> bool:
    """Tell whether a sentence stood right behind the one that precedes it now."""
    former = document.sentences[number - 1].sentence
    return former.offset is not None and former.offset + len(former.text) == record.sentence.offset
