"""JSON lines with a text and its entities each, as doccano and Prodigy write them: what the two have in common."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.formats.base import InputFile, Layout, NamedFile, Parsed, Problem, Reader, Writer
from crossner_core.formats.source import Data, after_line, clip, refused
from crossner_core.formats.standoff import (
    Mark,
    Range,
    StandoffOptions,
    Text,
    count_links,
    document_of,
    file_of,
    text_of,
    text_portions,
)
from crossner_core.records import parse

Entities = tuple[list[tuple[int, int, str]], bool, list[Range] | None]
"""A line's entities, whether it is annotated, and its tokens if it gives them."""


def reader(
    layout: type[Layout],
    entities: Callable[[Mapping[str, Any], Counter[str]], Entities],
    whose: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _: (),
) -> Reader:
    """Return a reader that makes a document of each line; `entities` raises BadInput for what it cannot read.

    Where `whose` names the annotator of a line, a text is read once: as the annotator asked for has it, else as the one
    who comes first.
    """

    def read(files: Sequence[InputFile], options: StandoffOptions) -> Iterator[Parsed]:
        for name, data in files:
            bad, held = list[Problem](), Parsed(name, layout().format, (), (), layout())
            chosen, others = _Chosen(getattr(options, "annotator", "")), 0
            for number, line, newline in _lines(data, name):
                losses: Counter[str] = Counter()
                try:
                    values = parse(line, "JSON")
                    text = values.get("text") if isinstance(values, dict) else None
                    if not isinstance(text, str) or not text.strip():
                        raise BadInput(f"text must be a non-empty string, not {clip(json.dumps(text))}.")
                    if not chosen.takes(text, whose(values)):
                        others += 1
                        continue
                    marked, annotated, tokens = entities(values, losses)
                except BadInput as error:
                    bad.append(Problem(name, number, str(error)))
                    continue
                called = document_name(values) or f"{PurePosixPath(name).stem}/{values.get('id', number)}"
                marks = [Mark(((start, end),), type, number) for start, end, type in marked]
                own = Text(called, text, tokens=tokens)
                made = document_of(own, marks, options, layout(newline), file=name, annotated=annotated, losses=losses)
                if held.sentences or held.losses or held.problems:
                    yield held
                held, bad = replace(made, problems=(*bad, *made.problems)), []
            if chosen.missing:
                raise refused(name, 1, chosen.missing)
            lost = Counter(held.losses) + Counter({"tasks by other annotators": others})
            yield replace(held, problems=(*held.problems, *bad), losses=lost)

    return read


class _Chosen:
    """Whose line is read of each text."""

    def __init__(self, annotator: str) -> None:
        self.annotator, self.names, self.done = annotator, set[str](), dict[int, tuple[str, ...]]()
        self.is_there = not annotator

    def takes(self, text: str, people: tuple[str, ...]) -> bool:
        """Tell whether a line by these names is to be read."""
        self.names |= set(people)
        if self.annotator and self.annotator not in people:
            return False
        self.is_there = True
        return not people or self.done.setdefault(hash(text), people) == people

    @property
    def missing(self) -> str:
        """What is wrong where no line is by the annotator asked for, empty if one is."""
        listed = ", ".join(sorted(self.names)[:20]) or "not named"
        return "" if self.is_there else f"no line is by the annotator {self.annotator!r}; those here are {listed}"


def _lines(data: Data, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield the lines that are not blank, each with its number and the file's newline."""
    for source in text_portions(data, name, after_line):
        for index, line in enumerate(source.lines):
            if line.strip():
                yield source.number(index), line, source.newline


def writer(
    suffix: str, objects: Callable[[Parsed, str, list[int], Counter[str]], Iterable[Mapping[str, Any]]]
) -> Writer:
    """Return a writer of one file with a line for each of the `objects` of a document."""

    def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
        lines = []
        for document in documents:
            text, starts = text_of(document)
            count_links(document, losses)
            made = objects(document, text, starts, losses)
            lines += [json.dumps(values, ensure_ascii=False) + "\n" for values in made]
        yield file_of(documents, suffix), "".join(lines).encode()

    return write


def offsets(item: Any, start: str, end: str, type: str, what: str) -> tuple[int, int, str]:
    """Return an entity's offsets and type out of its object; raise BadInput naming what is missing."""
    first, last, kind = (item.get(key) for key in (start, end, type)) if isinstance(item, dict) else (None,) * 3
    if _is_whole(first) and _is_whole(last) and isinstance(kind, str) and kind:
        return int(first or 0), int(last or 0), kind
    raise BadInput(f"{what} {clip(json.dumps(item))} needs {start}, {end} (whole numbers) and {type}.")


def document_name(values: Mapping[str, Any]) -> str:
    """Return the name of its document that an object of ours has beside its text, or in its metadata."""
    meta = values.get("meta")
    marked = values.get("document") or (meta.get("document") if isinstance(meta, dict) else None)
    return marked if isinstance(marked, str) else ""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
