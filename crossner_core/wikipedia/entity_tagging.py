"""NER-BERT's entity-tagging corpus: linked names with the classes of their target pages, filtered and balanced.

Source: NER-BERT (Liu et al. 2021), sections 2.2 to 2.4. Sentences are chosen by the full set of categories for every
version, so that all versions hold the same sentences (section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, Conflict, InvalidConfig
from crossner_core.folders import check_writable
from crossner_core.gazetteer.ontology import BUILTIN, THING, ClassTree
from crossner_core.subsets import keys_of, uniform
from crossner_core.wikipedia.corpus import Corpus, file_sha256, write_beside
from crossner_core.wikipedia.tagged_corpus import ENTITY, TAGGED, CategoryCount, StepCount, TaggingManifest, label_name

FULL, MERGED, FOUR = VERSIONS = ("full", "merged", "4types")
# Classes below these are fine-grained; the ontology's top will not do, since Person is below Animal there.
KINDS = ("Person", "Organisation", "Place", "Work", "Event", "Species")
# Buildings left Place in newer versions of the ontology.
FOUR_TYPES = {
    "Person": "person",
    "Organisation": "organisation",
    "Place": "location",
    "Location": "location",
    "ArchitecturalStructure": "location",
}


def class_of(classes: Iterable[str]) -> str:
    """Return the most specific class, ENTITY where there is none; `classes` are most specific first."""
    return next((cls for cls in classes if cls != THING), ENTITY)


def labels(version: str, mentions: Mapping[str, int], tree: ClassTree, *, depth: int, below: int) -> dict[str, str]:
    """Map each class (with its mention count) to its label in a version; raise InvalidConfig for an unknown version.

    `full` keeps every class. `merged` moves a class to the one above it while it is more than `depth` steps below
    its kind (`KINDS`, or the ontology's top), or has fewer than `below` mentions including those moved to it. `4types`
    keeps person, organisation and location; all else, the paper's "miscellaneous", is ENTITY.
    """
    if version == FULL:
        return {cls: label_name(cls) for cls in mentions}
    if version == MERGED:
        return {cls: label_name(into) for cls, into in _merged(mentions, tree, depth, below).items()}
    if version == FOUR:
        return {cls: _four(cls, tree) for cls in mentions}
    raise InvalidConfig(f"There is no version {version!r}; there are {', '.join(VERSIONS)}.")


def _four(cls: str, tree: ClassTree) -> str:
    return next((FOUR_TYPES[step] for step in (cls, *tree.ancestors(cls)) if step in FOUR_TYPES), ENTITY)


def _merged(mentions: Mapping[str, int], tree: ClassTree, depth: int, below: int) -> dict[str, str]:
    path = {cls: _path(cls, tree) for cls in mentions}  # from the kind down to the class
    into = {cls: path[cls][min(depth, len(path[cls]) - 1)] for cls in mentions}
    for level in range(max((len(chain) for chain in path.values()), default=0) - 1, 0, -1):
        sums: dict[str, int] = {}
        for cls, target in into.items():
            sums[target] = sums.get(target, 0) + mentions[cls]
        for cls, target in into.items():
            steps = path[cls]
            if level < len(steps) and steps[level] == target and sums[target] < below:
                into[cls] = steps[level - 1]
    return into


def _path(cls: str, tree: ClassTree) -> list[str]:
    chain = [cls]
    while chain[-1] not in KINDS and (above := tree.parents.get(chain[-1])):
        chain.append(above[0])
    return chain[::-1]


PROBABILITY = {3: 0.3, 4: 0.5}
MANY = 0.7
LINK = "link"  # the pre-annotation source of a mention that comes from a link
_COLUMNS = (
    "id",
    "link_starts",
    "link_ends",
    "link_targets",
    "mention_starts",
    "mention_ends",
    "mention_entities",
    "mention_classes",
    "mention_sources",
)
Counts = npt.NDArray[np.int64]
Found = tuple[int, int, str, str]
"""A linked name: tokens `[start, end)`, its class or ENTITY, the page it stands for."""


@dataclass(frozen=True, slots=True)
class TaggingConfig:
    """How the entity-tagging corpus is filtered, balanced and labelled; the defaults are the paper's."""

    seed: int = 0
    """Seeds the drawing; the filter depends on a sentence's id alone, the balancing on the whole corpus."""
    min_entities: int = 10
    """Classes with fewer entities (pages that are linked to) are dropped; their mentions become ENTITY."""
    frequent: int = 20
    """How many of the most frequent categories, ENTITY among them, the probability filter takes as frequent."""
    alpha: float = 0.7
    """Balancing draws a category with probability proportional to (its mentions) ** alpha; 1 keeps the distribution."""
    balance: bool = True
    """Draw sentences so that rare categories come more often; without it each sentence comes once."""
    epoch: int = 0
    """How many sentences balancing draws, with replacement; 0 for as many as the filters leave."""
    version: str = FULL
    """full, merged or 4types."""
    merge_depth: int = 2
    """merged: the most steps a class may be below its kind."""
    merge_below: int = 0
    """merged: classes with fewer mentions go to the class above."""

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise InvalidConfig(f"version is {self.version!r}; give one of {', '.join(VERSIONS)}.")
        for name in ("min_entities", "frequent", "epoch", "merge_depth", "merge_below"):
            if getattr(self, name) < 0:
                raise InvalidConfig(f"{name} is {getattr(self, name)}; give 0 or more.")
        if not 0 <= self.alpha <= 1:
            raise InvalidConfig(f"alpha is {self.alpha:g}; give 0 (all categories equal) to 1 (as they are).")


@dataclass(slots=True)
class _Gathered:
    """The sentences with a class: their row in the corpus, their uniform number, and the classes of their links."""

    names: list[str]
    rows: Counts
    draws: npt.NDArray[np.float64]
    owner: Counts
    codes: npt.NDArray[np.int32]
    entities: list[set[str]]
    total: StepCount


def build_tagging_corpus(
    corpus: Corpus,
    out: Path,
    config: TaggingConfig | None = None,
    *,
    tree: ClassTree = BUILTIN,
    progress: Callable[[str, int], None] = lambda step, sentences: None,
) -> TaggingManifest:
    """Write the entity-tagging corpus of a pre-annotated corpus, shard by shard, and its manifest.

    The corpus is read twice; in between, about 30 bytes per sentence with a class are held in memory. The same corpus
    and config give the same bytes. Raise BadInput if the corpus is not pre-annotated or no sentence is left, Conflict
    if `out` holds anything else.
    """
    config = config or TaggingConfig()
    check_writable(out)
    if others := sorted(path.name for path in out.iterdir() if path.name not in ("manifest.json", "sentences")):
        raise Conflict(f"{out} holds other things ({', '.join(others[:3])}); give a folder of its own.")
    if (out / "manifest.json").exists() and TaggingManifest.read(out).corpus != corpus.manifest.hash:
        raise Conflict(f"{out} holds the entity-tagging corpus of another corpus; give another folder or remove it.")
    gathered = _gather(corpus, config, progress)
    steps = [gathered.total, _drop_scarce(gathered, config)]
    classy = np.bincount(gathered.owner[gathered.codes > 0], minlength=len(gathered.rows)) > 0
    steps.append(_count("sentences without a class dropped", gathered, classy.astype(np.int64)))
    left = classy & ~_filtered(gathered, classy, config)
    steps.append(_count("frequent with many ENTITY dropped by chance", gathered, left.astype(np.int64)))
    if not left.any():
        raise BadInput(
            f"No sentence of the corpus {corpus.name} is left: no class has {config.min_entities} linked entities. "
            "Lower min_entities, or take a larger corpus."
        )
    copies = _balanced(gathered, left, config) if config.balance else left.astype(np.int64)
    if config.balance:
        steps.append(_count("balanced", gathered, copies))
    before, after = (_mentions(gathered, choice) for choice in (left.astype(np.int64), copies))
    known = {gathered.names[index]: int(before[index]) for index in np.flatnonzero(before) if index}
    names = labels(config.version, known, tree, depth=config.merge_depth, below=config.merge_below)
    (out / "manifest.json").unlink(missing_ok=True)
    shards = _write(corpus, out, gathered, copies, names, progress)
    categories = _category_counts(gathered, before, after, names)
    manifest = TaggingManifest(corpus.manifest.hash, corpus.name, asdict(config), tuple(steps), categories, shards)
    write_beside(out / "manifest.json", manifest.to_json().encode())
    return manifest


def linked(row: tuple[Any, ...]) -> Iterator[Found]:
    """Yield the linked names of a row of `_COLUMNS` without its id, in order; overlapping ones are left out.

    The class is that of the link's own mention, or of one over the same tokens for the same page.
    """
    starts, ends, targets, mention_starts, mention_ends, entities, classes, sources = row
    known: dict[tuple[int, int], tuple[str, str, bool]] = {}
    for start, end, entity, names, source in zip(mention_starts, mention_ends, entities, classes, sources, strict=True):
        if source == LINK or (start, end) not in known:
            known[start, end] = (entity, names, source == LINK)
    last = 0
    for start, end, target in sorted(zip(starts, ends, targets, strict=True)):
        if start < last:
            continue
        last = end
        entity, names, is_link = known.get((start, end), (target, "", False))
        if is_link or entity == target:  # the entity of a link to a redirect is the page that leads to
            yield start, end, class_of(names.split()), entity
        else:
            yield start, end, ENTITY, target


def _rows(corpus: Corpus, *extra: str, shards: list[int] | None = None) -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
    for batch in corpus.tables((*_COLUMNS, *extra), shards=shards):
        if batch.column("mention_starts").null_count:
            raise BadInput(
                f"The corpus {corpus.name} is not pre-annotated, so the classes of its links are unknown: build it "
                "with --gazetteer."
            )
        yield batch, list(zip(*(batch.column(name).to_pylist() for name in _COLUMNS[1:]), strict=True))


def _gather(corpus: Corpus, config: TaggingConfig, progress: Callable[[str, int], None]) -> _Gathered:
    codes: dict[str, int] = {ENTITY: 0}
    entities: list[set[str]] = [set()]
    rows: list[int] = []
    draws, owners, found_codes = [], [], []
    at = mentions = unlabelled = 0
    for batch, table in _rows(corpus):
        ids, owner, numbers, chosen = batch.column("id"), [], [], []
        for number, row in enumerate(table):
            links = list(linked(row)) if row[0] else []
            mentions += len(links)
            unlabelled += sum(cls == ENTITY for _, _, cls, _ in links)
            if all(cls == ENTITY for _, _, cls, _ in links):
                continue
            for _, _, cls, target in links:
                if (code := codes.setdefault(cls, len(codes))) == len(entities):
                    entities.append(set())
                if code and len(entities[code]) < config.min_entities:
                    entities[code].add(target)
                owner.append(len(rows))
                numbers.append(code)
            chosen.append(number)
            rows.append(at + number)
        keys = keys_of(ids.take(pa.array(chosen, pa.int64())).to_pylist(), seed=config.seed, use="filter")
        draws.append(uniform(keys))
        owners.append(np.array(owner, np.int32))
        found_codes.append(np.array(numbers, np.int32))
        at += batch.num_rows
        progress("gather", at)
    total = StepCount("found", at, mentions, unlabelled, len(codes) - 1)
    return _Gathered(
        list(codes),
        np.array(rows, np.int64),
        np.concatenate([np.zeros(0), *draws]),
        np.concatenate([np.zeros(0, np.int64), *owners]),
        np.concatenate([np.zeros(0, np.int32), *found_codes]),
        entities,
        total,
    )


def _drop_scarce(gathered: _Gathered, config: TaggingConfig) -> StepCount:
    """Relabel mentions of classes with too few entities as ENTITY."""
    scarce = np.array([len(entities) < config.min_entities for entities in gathered.entities], bool)
    scarce[0] = False
    gathered.codes[scarce[gathered.codes]] = 0
    left = np.bincount(gathered.codes, minlength=len(gathered.names))[1:]
    unlabelled = gathered.total.mentions - int(left.sum())
    return replace(
        gathered.total,
        step="scarce classes dropped",
        unlabelled=unlabelled,
        categories=int(np.count_nonzero(left)),
    )


def _mentions(gathered: _Gathered, copies: Counts) -> Counts:
    """Count the mentions of each category, weighted by the copies of their sentences."""
    weights = copies[gathered.owner].astype(np.float64)
    return np.bincount(gathered.codes, weights, minlength=len(gathered.names)).astype(np.int64)


def _count(step: str, gathered: _Gathered, copies: Counts) -> StepCount:
    mentions = _mentions(gathered, copies)
    return StepCount(
        step, int(copies.sum()), int(mentions.sum()), int(mentions[0]), int(np.count_nonzero(mentions[1:]))
    )  # fmt: skip


def _filtered(gathered: _Gathered, classy: npt.NDArray[np.bool_], config: TaggingConfig) -> npt.NDArray[np.bool_]:
    """Tell which sentences the probability filter removes: all categories frequent, and three or more ENTITY."""
    sizes = _mentions(gathered, classy.astype(np.int64))
    order = sorted(np.flatnonzero(sizes).tolist(), key=lambda index: (-sizes[index], gathered.names[index]))
    rare = np.ones(len(sizes), bool)
    rare[order[: config.frequent]] = False
    count = len(gathered.rows)
    all_frequent = np.bincount(gathered.owner[rare[gathered.codes]], minlength=count) == 0
    unlabelled = np.bincount(gathered.owner[gathered.codes == 0], minlength=count)
    chance = np.where(unlabelled > max(PROBABILITY), MANY, 0.0)
    for number, probability in PROBABILITY.items():
        chance[unlabelled == number] = probability
    return all_frequent & (gathered.draws < chance)


def _balanced(gathered: _Gathered, left: npt.NDArray[np.bool_], config: TaggingConfig) -> Counts:
    """Draw sentences: a category by its weight, then one of the sentences with it; return how often each was drawn.

    ENTITY is not drawn: every remaining sentence has another category.
    """
    rng = np.random.default_rng(config.seed)
    sizes = _mentions(gathered, left.astype(np.int64))
    sizes[0] = 0
    order = sorted(np.flatnonzero(sizes).tolist(), key=gathered.names.__getitem__)
    weights = sizes[order].astype(np.float64) ** config.alpha
    draws = rng.multinomial(config.epoch or int(left.sum()), weights / weights.sum())
    inside = left[gathered.owner]
    pairs = np.unique(gathered.codes[inside].astype(np.int64) << 40 | gathered.owner[inside])
    starts = np.searchsorted(pairs, np.arange(len(sizes) + 1, dtype=np.int64) << 40)
    copies = np.zeros(len(left), np.int64)
    for code, number in zip(order, draws.tolist(), strict=True):
        drawn = rng.integers(starts[code], starts[code + 1], number)
        np.add.at(copies, pairs[drawn] & ((1 << 40) - 1), 1)
    return copies


def _write(
    corpus: Corpus,
    out: Path,
    gathered: _Gathered,
    copies: Counts,
    names: dict[str, str],
    progress: Callable[[str, int], None],
) -> tuple[tuple[str, int, str], ...]:
    """Write the sentences drawn at least once; return each shard's name, sentences and hash."""
    (out / "sentences").mkdir(parents=True, exist_ok=True)
    often = np.zeros(gathered.total.sentences, np.int64)
    often[gathered.rows] = copies
    at, shards = 0, []
    for number, shard in enumerate(corpus.manifest.shards):
        parts = []
        for batch, table in _rows(corpus, "text", "token_starts", "token_ends", shards=[number]):
            chosen = np.flatnonzero(often[at : at + batch.num_rows])
            parts.append(_tagged(batch, table, chosen, often[at + chosen], names))
            at += batch.num_rows
        path = out / "sentences" / shard.file_name
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches(parts, TAGGED), sink, compression="zstd", row_group_size=4096)
        write_beside(path, sink.getvalue().to_pybytes())
        shards.append((shard.file_name, sum(part.num_rows for part in parts), file_sha256(path)))
        progress("write", at)
    return tuple(shards)


def _tagged(
    batch: pa.RecordBatch, table: list[Any], chosen: npt.NDArray[np.intp], copies: Counts, names: dict[str, str]
) -> pa.RecordBatch:
    spans = [[(start, end, names.get(cls, ENTITY)) for start, end, cls, _ in linked(table[index])] for index in chosen]
    rows = batch.take(pa.array(chosen))
    columns = [rows.column(name) for name in ("id", "text", "token_starts", "token_ends")]
    columns += [
        pa.array([[span[part] for span in row] for row in spans], kind)
        for part, kind in enumerate((pa.list_(pa.int32()), pa.list_(pa.int32()), pa.list_(pa.string())))
    ]
    return pa.RecordBatch.from_arrays([*columns, pa.array(copies, pa.int32())], schema=TAGGED)


def _category_counts(
    gathered: _Gathered, before: Counts, after: Counts, names: dict[str, str]
) -> tuple[CategoryCount, ...]:
    """Count the mentions of each label in the filtered and in the balanced corpus, most first."""
    sums: dict[str, tuple[int, int]] = {}
    for index, cls in enumerate(gathered.names):
        label = names.get(cls, ENTITY if cls == ENTITY else label_name(cls))
        if before[index]:
            old = sums.get(label, (0, 0))
            sums[label] = (old[0] + int(before[index]), old[1] + int(after[index]))
    order = sorted(sums, key=lambda label: (-sums[label][0], label))
    return tuple(CategoryCount(label, *sums[label]) for label in order)
