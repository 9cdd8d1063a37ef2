"""CoNLL-U: words with `SpaceAfter=No`, entities in MISC as `NER=B-person` or in brackets, `Entity=(1-person-…`.

Source: Universal Dependencies' format, and its profile of Entity (Zeldes 2022, GUM; CorefUD).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, register
from crossner_core.formats.source import Data, after_block, refused
from crossner_core.formats.standoff import (
    Mark,
    Range,
    StandoffOptions,
    Text,
    count_links,
    file_of,
    fitting_type,
    pieces_of,
    stem_of,
    text_of,
    text_portions,
)
from crossner_core.schema import Span
from crossner_core.tags import detect_scheme, is_tag, spans_from_tags, tags_from_spans

_TAGS = ("NER", "ner", "NE", "ne", "ner_tag", "NER_tag")
_ENTITY, _IDENTITIES = "Entity", "identities of entities (Wikipedia pages)"
_NO_VALUE = re.compile(r"[|\s=]")
_LINE = re.compile(r"at line (\d+)|line (\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class ConlluLayout(Layout):
    """The layout of CoNLL-U."""


@dataclass
class _Open:
    """A document as its sentences come: text, places of sentences and words, and entities."""

    name: str
    text: list[str]
    size: int
    sentences: list[Range]
    words: list[Range]
    marks: list[Mark]
    losses: Counter[str]
    waiting: list[tuple[str, str, int]]  # opened brackets: their group, type and beginning
    annotated: bool = False


def read(files: Sequence[InputFile], options: StandoffOptions) -> Iterator[Parsed]:
    """Read the documents of each file (`# newdoc`), or the file as one."""
    for name, data in files:
        stem = stem_of(name)
        made = _new(stem)
        field, named, count = 1, 0, 0
        scheme = detect_scheme(_written_tags(data, name))
        for number, sentence in enumerate(_sentences(data, name), 1):
            meta = sentence.metadata
            if any("misc" not in token for token in sentence):
                raise refused(name, 1, f"sentence {number} has words with fewer than the ten columns of CoNLL-U")
            if "global.Entity" in meta:
                field = _field(meta["global.Entity"], ("etype", "entity", "type"), 1)
                named = _field(meta["global.Entity"], ("identity",), 0)
            for key in ("newdoc id", "newdoc"):
                if key in meta:
                    if made.words:
                        yield from _document(made, options, name)
                    count += 1
                    made = _new(meta[key] or f"{stem}/{count}")
                    break
            if "newpar" in meta or "newpar id" in meta:
                _gap(made, "\n")
            _add(made, sentence, field, scheme)
            made.losses[_IDENTITIES] += _identities(sentence, named) if named else 0
        if made.words:
            yield from _document(made, options, name)


def _new(name: str) -> _Open:
    return _Open(name, [], 0, [], [], [], Counter(), [])


def _sentences(data: Data, name: str) -> Iterator[Any]:
    from conllu import parse_incr
    from conllu.exceptions import ParseException

    for source in text_portions(data, name, after_block):
        try:
            yield from parse_incr(StringIO(source.text))
        except ParseException as error:
            line = _LINE.search(str(error))
            number = int(next(filter(None, line.groups()))) if line else 1
            number += source.first_line
            raise refused(name, number, f"it is no CoNLL-U: {' '.join(str(error).split())}") from error


def _document(made: _Open, options: StandoffOptions, name: str) -> Iterator[Parsed]:
    made.losses["brackets of Entity that are never closed"] += len(made.waiting)
    held = Text(made.name, "".join(made.text), made.sentences, made.words)
    yield from pieces_of(
        held, made.marks, options, ConlluLayout(), file=name, annotated=made.annotated, losses=made.losses
    )


def _gap(made: _Open, gap: str) -> None:
    if made.text:
        if made.text[-1].isspace():
            made.size -= len(made.text.pop())
        made.text.append(gap)
        made.size += len(gap)


def _add(made: _Open, sentence: Any, field: int, scheme: str) -> None:
    """Add a sentence: its surface words, of a multi-word token the whole one, and its entities."""
    start, tags, places = made.size, list[str](), list[Range]()
    until, covering = 0, Counter[str]()
    for token in sentence:
        id, misc = token["id"], token["misc"] or {}
        if isinstance(id, tuple) and id[1] == ".":
            made.losses["empty nodes"] += 1
            continue
        if isinstance(id, tuple):  # a multi-word token: the text has it as one
            until = id[2]
        elif id <= until:
            _words_of_one(made, misc, places, tags, field)
            covering["words of multi-word tokens"] += 1
            continue
        made.text.append(token["form"])
        here = (made.size, made.size + len(token["form"]))
        made.size = here[1]
        places.append(here)
        tags.append(_tag(misc))
        if misc.get("SpaceAfter") != "No":
            made.text.append(" ")
            made.size += 1
        _brackets(made, misc.get(_ENTITY), here, field)
    if not places:
        return
    made.sentences.append((start, places[-1][1]))
    made.words += places
    made.losses.update(covering)
    if any(tags):
        made.annotated = True
        for span in spans_from_tags([tag or "O" for tag in tags], scheme, strict=False):
            made.marks.append(Mark(((places[span.start][0], places[span.end - 1][1]),), span.type))


def _words_of_one(made: _Open, misc: Mapping[str, str], places: list[Range], tags: list[str], field: int) -> None:
    """Take the entities of a word within a multi-word token for those of the token."""
    if not places:
        return
    tags[-1] = tags[-1] if tags[-1] not in ("", "O") else _tag(misc)
    _brackets(made, misc.get(_ENTITY), places[-1], field)


def _tag(misc: Mapping[str, str]) -> str:
    tag = next((misc[key] for key in _TAGS if misc.get(key)), "")
    return tag if not tag or is_tag(tag) else "O"


def _written_tags(data: Data, name: str) -> Iterator[list[str]]:
    """Yield the tags of a whole file, portion by portion."""
    written_tags = re.compile(rf"(?:\t|\|)(?:{'|'.join(_TAGS)})=([^|\s]+)")
    for source in text_portions(data, name, after_block, counted=False):
        yield [tag for tag in written_tags.findall(source.text) if is_tag(tag)]


def _field(declared: str | None, names: Sequence[str], default: int) -> int:
    """Return which part of a bracket has one of these names: GUM declares `GRP-etype-…-identity`."""
    parts = (declared or "").split("-")
    return next((number for number, part in enumerate(parts) if part in names), default)


def _identities(sentence: Any, named: int) -> int:
    """Count the brackets that name a Wikipedia page, which is no address: the file does not say in which language."""
    values = (str((token["misc"] or {}).get(_ENTITY) or "") for token in sentence)
    brackets = (bracket.split("-") for value in values for bracket in re.findall(r"\(([^()]*)", value))
    return sum(len(parts) > named and parts[named] != "_" for parts in brackets)


def _brackets(made: _Open, value: str | None, here: Range, field: int) -> None:
    """Open and close brackets: `(1-person-giv:act-2-coref)`, `(abstract(3-place`, `3)`."""
    if not value:
        return
    made.annotated = True
    position = 0
    while position < len(value):
        if value[position] == "(":
            end = min(
                (place for place in (value.find("(", position + 1), value.find(")", position + 1)) if place > 0),
                default=-1,
            )
            inner = value[position + 1 : end if end > 0 else len(value)]
            parts = inner.split("-")
            group, type = parts[0], parts[field] if len(parts) > field else parts[0]
            if end > 0 and value[end] == ")":
                made.marks.append(Mark((here,), type))
                position = end + 1
            else:
                made.waiting.append((group, type, here[0]))
                position = end if end > 0 else len(value)
            continue
        end = value.find(")", position)
        group = value[position:end].split("-")[0] if end >= 0 else ""
        number = next((n for n in range(len(made.waiting) - 1, -1, -1) if group in ("", made.waiting[n][0])), None)
        if end < 0 or number is None:
            made.losses["brackets of Entity that open nowhere"] += 1
            position = len(value) if end < 0 else end + 1
            continue
        _, type, start = made.waiting.pop(number)
        made.marks.append(Mark(((start, here[1]),), type))
        position = end + 1


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write all documents into one file; entities are `NER=` tags in MISC, a sentence without annotation has none."""
    lines: list[str] = []
    for document in documents:
        count_links(document, losses)
        text, starts = text_of(document)
        lines.append(f"# newdoc id = {' '.join(document.name.split())}")
        for number, (record, start) in enumerate(zip(document.sentences, starts, strict=True), 1):
            sentence = record.sentence
            lines += [f"# sent_id = {document.name}-{number}", f"# text = {' '.join(sentence.text.split())}"]
            following = [start + token.start for token in sentence.tokens[1:]]
            spans = [
                Span(span.start, span.end, fitting_type(document.layout.outer_type(span.type), _NO_VALUE, losses))
                for span in record.spans or ()
            ]
            tags = tags_from_spans(spans, len(sentence.tokens)) if record.spans is not None else []
            for place, token in enumerate(sentence.tokens):
                end = start + token.end
                adjoining = following[place] == end if place < len(following) else not text[end : end + 1].isspace()
                misc = ([f"NER={tags[place]}"] if tags else []) + (["SpaceAfter=No"] if adjoining else [])
                form = re.sub(r"\s+", "_", sentence.text[token.start : token.end])
                losses["tokens unchanged"] += form != sentence.text[token.start : token.end]
                lines.append("\t".join([str(place + 1), form, *["_"] * 7, "|".join(misc) or "_"]))
            lines.append("")
    yield file_of(documents, ".conllu"), ("\n".join(lines) + "\n").encode()


register(
    Format(
        "conllu",
        "CoNLL-U",
        (".conllu",),
        read,
        write,
        options_type=StandoffOptions,
        layout_type=ConlluLayout,
        by_document=True,
        annotates_documents=True,
        one_file=True,
        content=re.compile(rb"^\d+(?:[-.]\d+)?\t(?:[^\t\n]*\t){8}[^\t\n]*$", re.MULTILINE),
        example="1\tMara\t_\t_\t_\t_\t_\t_\t_\tNER=B-person",
    )
)
