"""The entity-tagging corpus on disk: its table, its manifest, its figure, and reading it back.

Layout of its folder: `manifest.json` and `sentences/00000.parquet …`, one per shard of the corpus it was made from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, NotFound
from crossner_core.records import Record, read
from crossner_core.schema import LabelledSentence, Sentence, Span, Token
from crossner_core.subsets import keys_of

FORMAT = 1
ENTITY = "ENTITY"
_NOT_NAME = re.compile(r"[^a-z0-9]")
_INTS = pa.list_(pa.int32())
TAGGED = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("token_starts", _INTS),  # character offsets in text
        ("token_ends", _INTS),
        ("span_starts", _INTS),  # token offsets
        ("span_ends", _INTS),
        ("span_types", pa.list_(pa.string())),  # a class in lower case, or ENTITY
        ("copies", pa.int32()),  # how often it occurs in an epoch
    ]
)


def label_name(cls: str) -> str:
    """Write a class as an entity type: `MusicalArtist` → `musicalartist`."""
    return cls if cls == ENTITY else _NOT_NAME.sub("", cls.lower())


@dataclass(frozen=True, slots=True)
class StepCount(Record):
    """What is left after a step: sentences, mentions, how many of these are ENTITY, and categories without ENTITY."""

    step: str
    sentences: int
    mentions: int
    unlabelled: int
    categories: int


@dataclass(frozen=True, slots=True)
class CategoryCount(Record):
    """A category's mentions after the filters (`before` balancing) and `after` balancing."""

    category: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class TaggingFigure:
    """NER-BERT's figure 1: each category's share of all mentions before and after balancing, most frequent first."""

    categories: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """Each category's share of the mentions, before and after."""
        totals = sum(self.before) or 1, sum(self.after) or 1
        return tuple((old / totals[0], new / totals[1]) for old, new in zip(self.before, self.after, strict=True))

    def to_csv(self) -> str:
        """Write one row per category: its name, mentions before and after, and their shares in percent."""
        lines = ["category,before,after,before_percent,after_percent"]
        for name, old, new, (was, became) in zip(self.categories, self.before, self.after, self.shares, strict=True):
            lines.append(f"{name},{old},{new},{100 * was:.4f},{100 * became:.4f}")
        return "\n".join(lines) + "\n"

    def to_markdown(self) -> str:
        """Write the same as a table."""
        lines = ["| category | before | after | before % | after % |", "|---|---|---|---|---|"]
        for name, old, new, (was, became) in zip(self.categories, self.before, self.after, self.shares, strict=True):
            lines.append(f"| {name} | {old:,} | {new:,} | {100 * was:.2f} | {100 * became:.2f} |")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class TaggingManifest(Record):
    """The manifest of an entity-tagging corpus; `shards` are (file name, sentences, SHA-256)."""

    corpus: str
    corpus_name: str
    config: Mapping[str, Any]
    steps: tuple[StepCount, ...]
    categories: tuple[CategoryCount, ...]
    shards: tuple[tuple[str, int, str], ...]
    format: int = FORMAT

    @property
    def figure(self) -> TaggingFigure:
        """The data of the before/after plot."""
        rows = self.categories
        return TaggingFigure(
            tuple(row.category for row in rows), tuple(row.before for row in rows), tuple(row.after for row in rows)
        )

    def to_json(self) -> str:
        """Write the manifest as JSON, keys in order."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> TaggingManifest:
        """Read a folder's manifest; raise NotFound without one, BadInput for a damaged one or another version."""
        path = folder / "manifest.json"
        try:
            values = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise NotFound(
                f"There is no entity-tagging corpus in {folder}: make one with `workbench corpus entity-tagging`."
            ) from error
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); rebuild the corpus.") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT or "steps" not in values:
            raise BadInput(f"{path} is not the manifest of an entity-tagging corpus of format {FORMAT}; rebuild it.")
        try:
            return read(cls, values, "it")
        except BadInput as error:
            raise BadInput(f"{path} is damaged: {error} Rebuild the corpus.") from error


def read_tagged(folder: Path, *, repeat: bool = True) -> Iterator[LabelledSentence]:
    """Yield the sentences with their spans, each as often as it occurs in an epoch, or once.

    Copies are consecutive: shuffle before training.
    """
    for name, _, _ in TaggingManifest.read(folder).shards:
        path = folder / "sentences" / name
        try:
            batches = pq.ParquetFile(path).iter_batches(4096, use_threads=False)
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield from [_sentence(*row[:-1])] * (row[-1] if repeat else 1)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read ({error}); rebuild the entity-tagging corpus.") from error


def typed_sentences(folder: Path, classes: Iterable[str], count: int, *, seed: int = 0) -> list[LabelledSentence]:
    """Return at most `count` sentences whose names all have a class, each once, chosen by seed and id, in order.

    Types are written as in `classes` where it has them (`MusicalArtist`), so that their names can be read. A sentence
    with a name of unknown class is left out: it would say that this is no entity.
    """
    known = {label_name(name): name for name in classes}
    items = [item for item in read_tagged(folder, repeat=False) if all(span.type != ENTITY for span in item.spans)]
    keys = keys_of((item.sentence.id for item in items), seed=seed, use="source")
    chosen = sorted(np.argsort(keys, kind="stable")[:count].tolist())
    return [
        replace(item, spans=tuple(replace(span, type=known.get(span.type, span.type)) for span in item.spans))
        for item in map(items.__getitem__, chosen)
    ]


def _sentence(
    id: str, text: str, starts: list[int], ends: list[int], begins: list[int], stops: list[int], types: list[str]
) -> LabelledSentence:
    return LabelledSentence(
        Sentence(id, text, tuple(map(Token, starts, ends))), tuple(map(Span, begins, stops, types))
    )  # fmt: skip
