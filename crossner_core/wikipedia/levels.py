"""The four corpora that CrossNER adapts a language model on: domain, entity, task and integrated.

Nothing is written: a level is a way of reading a pre-annotated corpus, so any domain works with any corpus.
Source: Liu et al. 2021 (CrossNER), "Pre-training corpus" and table 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossner_core.domains import Domain, load_domain
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.gazetteer.classes import specific_types
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.subsets import Keys, Subset, check_percent, keys_of
from crossner_core.wikipedia.corpus import SENTENCES, Corpus, CorpusSentence, sentences_of


@dataclass(frozen=True, slots=True)
class PublishedCorpus:
    """A domain's unlabelled corpus in CrossNER's table 1, and its levels' tokens as shares of it (table 3)."""

    domain: str
    paragraphs: int
    sentences: int
    tokens: int
    entity: float
    task: float
    integrated: float

    def ratio(self, level: str) -> float:
        """Return a level's share of the domain-level tokens as printed."""
        return 1.0 if level == "domain" else float(getattr(self, level))


PUBLISHED: dict[str, PublishedCorpus] = {
    one.domain: one
    for one in (
        PublishedCorpus("politics", 2_760_000, 9_070_000, 176_560_000, 0.37, 0.09, 0.56),
        PublishedCorpus("science", 1_720_000, 5_320_000, 98_500_000, 0.36, 0.04, 0.44),
        PublishedCorpus("music", 3_490_000, 9_820_000, 194_620_000, 0.49, 0.13, 0.76),
        PublishedCorpus("literature", 2_690_000, 9_170_000, 177_330_000, 0.49, 0.08, 0.65),
        PublishedCorpus("ai", 97_040, 287_620, 5_200_000, 0.52, 0.04, 0.60),
    )
}


DOMAIN, ENTITY, TASK, INTEGRATED = LEVELS = ("domain", "entity", "task", "integrated")
Mask = npt.NDArray[np.bool_]
_MENTIONS = ("mention_classes", "mention_types")


def annotators_tree(corpus: Corpus, gazetteers: Path | None = None) -> ClassTree:
    """Return the class tree of the gazetteer that annotated a corpus, the bundled one if that is missing.

    It is looked up by name in a folder of gazetteers, by default the one beside the folder of the corpora.
    """
    from crossner_core.gazetteer.compiled import CompiledGazetteer

    made_with = corpus.manifest.gazetteer
    folder = (gazetteers or corpus.folder.resolve().parent.parent / "gazetteers") / (
        made_with.name if made_with else ""
    )
    if made_with is None or not (folder / "manifest.json").is_file():
        return BUILTIN
    return CompiledGazetteer.open(folder).tree


@dataclass(frozen=True, slots=True)
class LevelConfig:
    """What puts a sentence into the entity or the task level."""

    entities: int = 2
    """Entity level: the minimum number of mentions with a class. The paper says "multiple"; a link counts
    if what it points to has a class, whether or not the domain has a type for it."""
    source: str = "conll2003"
    """The source domain: its types (person, organisation, location, misc) are not specialised."""
    general: tuple[str, ...] = ("country", "event")
    """Further types that are not specialised: common kinds of place and event that most CrossNER domains have."""
    upsample: int = 2
    """Integrated: how often the task level is repeated beside the entity level; the paper doubles it."""

    def __post_init__(self) -> None:
        if self.entities < 1 or self.upsample < 1:
            raise InvalidConfig(f"entities is {self.entities}, upsample {self.upsample}; both must be 1 or more.")


@dataclass(frozen=True, slots=True)
class LevelCount:
    """A level's size, its tokens as a share of the domain level's, and the share that CrossNER published, if any."""

    level: str
    sentences: int
    tokens: int
    ratio: float
    published: float | None


def specialised_types(domain: Domain, config: LevelConfig | None = None) -> tuple[str, ...]:
    """Return the types specific to a domain: those that the source domain lacks and that are not general.

    A type below a general one (politician below person) is specialised.
    """
    config = config or LevelConfig()
    plain = {*load_domain(config.source).type_names, *config.general}
    return tuple(name for name in domain.type_names if name not in plain)


class Levels:
    """The levels of one corpus for one domain."""

    def __init__(
        self, corpus: Corpus, domain: Domain, *, tree: ClassTree = BUILTIN, config: LevelConfig | None = None
    ) -> None:
        """Take the class tree of the gazetteer that annotated the corpus; `BUILTIN` has the commonest classes."""
        self.corpus, self.domain, self.tree, self.config = corpus, domain, tree, config or LevelConfig()
        self.specialised = frozenset(specialised_types(domain, self.config))
        self._stored = corpus.manifest.domain == domain.name
        self._known: dict[str, bool] = {}

    def counts(self) -> tuple[LevelCount, ...]:
        """Count the sentences and tokens of each level in one pass."""
        sentences, tokens = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0)
        for batch in self.corpus.tables(("token_starts", *_MENTIONS)):
            lengths = _lengths(batch.column("token_starts"))
            entity, task = self.masks(batch)
            for level in LEVELS:
                for mask, _ in self._layers(level, entity, task):
                    sentences[level] += int(np.count_nonzero(mask))
                    tokens[level] += int(lengths[mask].sum())
        printed = PUBLISHED.get(self.domain.name)
        return tuple(
            LevelCount(
                level,
                sentences[level],
                tokens[level],
                tokens[level] / tokens[DOMAIN] if tokens[DOMAIN] else 0.0,
                printed.ratio(level) if printed else None,
            )
            for level in LEVELS
        )

    def iterate(self, level: str, percent: float = 100.0, seed: int = 0) -> Iterator[CorpusSentence]:
        """Yield a share of a level in the corpus's order; smaller shares are subsets of larger ones of the same seed.

        Copies in the integrated level are consecutive, distinguished by `copy` in the sentence's meta (0 for the
        entity-level sentence, 1 and 2 for the task-level ones). A share needs 8 bytes per sentence of the level.
        """
        for batch, rows, copies in self._share(SENTENCES.names, level, percent, seed):
            for item, copy in zip(sentences_of(batch.take(pa.array(rows))), copies.tolist(), strict=True):
                if level != INTEGRATED:
                    yield item
                    continue
                meta = {**item.sentence.meta, "copy": copy}
                yield CorpusSentence(replace(item.sentence, meta=meta), item.mentions)

    def texts(self, level: str, percent: float = 100.0, seed: int = 0) -> Iterator[str]:
        """Yield the texts of `iterate`, much faster."""
        for batch, rows, _ in self._share(("text",), level, percent, seed):
            yield from batch.column("text").take(pa.array(rows)).to_pylist()

    def masks(self, batch: pa.RecordBatch) -> tuple[Mask, Mask]:
        """Tell which rows belong to the entity level and which to the task level."""
        mentions = batch.column("mention_classes")
        if mentions.null_count:
            raise BadInput(
                f"The corpus {self.corpus.name} is not pre-annotated, so its entities are unknown: build it with "
                "--gazetteer."
            )
        parents = pc.list_parent_indices(mentions).to_numpy()
        codes = pc.list_flatten(mentions).dictionary_encode()
        classes = codes.dictionary.to_pylist()
        numbers = codes.indices.to_numpy()
        typed = np.array([bool(names) for names in classes], bool)
        if self._stored:
            kinds = pc.list_flatten(batch.column("mention_types")).to_pylist()
            special = np.fromiter((kind in self.specialised for kind in kinds), bool, len(kinds))
        else:
            special = np.array([self._is_specialised(names) for names in classes], bool)[numbers]
        rows = batch.num_rows
        entity = np.bincount(parents[typed[numbers]], minlength=rows) >= self.config.entities
        return entity, np.bincount(parents[special], minlength=rows) > 0

    def _is_specialised(self, classes: str) -> bool:
        if (known := self._known.get(classes)) is None:
            types = specific_types(classes.split(), self.domain, self.tree)
            known = self._known[classes] = bool(types) and types[0] in self.specialised
        return known

    def _layers(self, level: str, entity: Mask, task: Mask) -> list[tuple[Mask, int]]:
        """Return the rows of a level, once for each copy number."""
        if level == DOMAIN:
            return [(np.ones(len(entity), bool), 0)]
        if level != INTEGRATED:
            return [(entity if level == ENTITY else task, 0)]
        return [(entity, 0), *((task, copy) for copy in range(1, self.config.upsample + 1))]

    def _share(
        self, columns: Sequence[str], level: str, percent: float, seed: int
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield each batch with the rows to take of it, in order, and their copy numbers."""
        check_level(level)
        check_percent(percent)
        subset = None
        if percent < 100:
            keys = [key for batch in self._batches((), level) for key in self._keys(batch, level, seed)[0]]
            subset = Subset.of(np.concatenate(keys) if keys else np.zeros(0, np.uint64), percent)
        for batch in self._batches(columns, level):
            keys, rows, copies = self._keys(batch, level, seed, hashed=subset is not None)
            row, copy = np.concatenate(rows), np.concatenate(copies)
            if subset is not None:
                inside = subset.admit(np.concatenate(keys))
                row, copy = row[inside], copy[inside]
            order = np.lexsort((copy, row))
            if order.size:
                yield batch, row[order], copy[order]

    def _batches(self, columns: Sequence[str], level: str) -> Iterator[pa.RecordBatch]:
        needed = ("id",) if level == DOMAIN else ("id", *_MENTIONS)
        return self.corpus.tables(list(dict.fromkeys((*columns, *needed))))

    def _keys(
        self, batch: pa.RecordBatch, level: str, seed: int, *, hashed: bool = True
    ) -> tuple[list[Keys], list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]:
        every = np.ones(batch.num_rows, bool)
        entity, task = (every, every) if level == DOMAIN else self.masks(batch)
        ids = batch.column("id") if hashed else None
        keys, rows, copies = [], [], []
        for mask, copy in self._layers(level, entity, task):
            rows.append(np.flatnonzero(mask))
            copies.append(np.full(len(rows[-1]), copy, np.int64))
            if ids is not None:
                keys.append(keys_of(ids.filter(pa.array(mask)).to_pylist(), seed=seed, copy=copy))
        return keys, rows, copies


def check_level(level: str) -> None:
    """Raise InvalidConfig for an unknown level."""
    if level not in LEVELS:
        raise InvalidConfig(f"There is no level {level!r}; there are {', '.join(LEVELS)}.")


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.list_value_length(lists).to_numpy(zero_copy_only=False), np.int64)
