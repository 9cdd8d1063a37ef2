"""A cell: one recipe on one corpus with one seed. Its result is stored once under its key and shared by all studies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.evaluation.scores import Scores
from crossner_core.experiments.corpora import corpus_ids, read_corpus, read_sources
from crossner_core.experiments.records import CELLS, Records
from crossner_core.training.data import TrainingData
from crossner_core.training.events import StageScore
from crossner_core.training.recipe import Recipe, data_hash, effective, is_outdated
from crossner_core.training.settings.registry import needs_source, needs_unlabelled


@dataclass(frozen=True)
class Cell:
    """What to train: a recipe on a corpus; `size` limits its training sentences, taken in `order`.

    `gazetteer` is the folder of a compiled one whose proposals a student uses. It is not part of the key, which the
    proposals are by the hash of the data. The hashes are filled in by `Binder.bind`; only then is there a key.
    """

    corpus: str
    recipe: Recipe
    size: int | None = None
    order: str = "file"
    data_hash: str = ""
    encoder_hash: str = ""
    gazetteer: str = ""

    @property
    def source(self) -> str | None:
        """The source corpora, if the setting reads any, as the recipe names them."""
        return self.recipe.source if needs_source(self.recipe.setting) else None

    @cached_property
    def key(self) -> str:
        """Return a hash of corpus, sentences, encoder weights and the recipe's effective fields."""
        if not (self.data_hash and self.encoder_hash):
            raise ValueError("A cell has no key before it is bound to its data and its encoder.")
        decides = {name: value for name, value in effective(self.recipe.to_dict()).items() if name != "encoder"}
        parts = [self.corpus, self.size, self.order, self.data_hash, self.encoder_hash, decides]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    def __str__(self) -> str:
        recipe, size = self.recipe, f" of {self.size}" if self.size else ""
        encoder = Path(recipe.encoder).name
        return f"{self.corpus}{size} {recipe.setting} {recipe.architecture} {encoder} seed {recipe.seed}"

    @property
    def in_full(self) -> str:
        """The cell with all changes of its recipe, which distinguish it from others of a study."""
        recipe = self.recipe
        plain = Recipe(
            encoder=recipe.encoder, architecture=recipe.architecture, setting=recipe.setting, seed=recipe.seed
        )
        usual = effective(plain.to_dict())
        own = [f"{name} {value}" for name, value in effective(recipe.to_dict()).items() if usual.get(name) != value]
        return f"{self} ({', '.join(own)})" if own else str(self)


@dataclass(frozen=True)
class CellResult:
    """The result of a cell; `seconds` is computing time, `wall_seconds` everything. Scores as in `Scores`."""

    key: str
    corpus: str
    size: int | None
    order: str
    data_hash: str
    encoder_hash: str
    recipe: Mapping[str, Any]
    dev: Scores | None
    test: Scores
    outcome: str
    best_epoch: int | None
    epochs: int
    steps: int
    train_sentences: int
    seconds: float
    wall_seconds: float
    tokens_per_second: float
    peak_memory_mb: float
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    made_at: str
    notes: tuple[str, ...] = ()
    stages: tuple[StageScore, ...] = ()
    """The scores of each stage, of settings whose stages are reported; empty in results of older versions."""

    @property
    def f1(self) -> float:
        """Test F1 in percent, as conlleval counts it."""
        return 100 * self.test.f1

    @property
    def ran_on(self) -> str:
        """The machine in words: processor, cores, threads, device and precision."""
        of = self.machine
        threads = f"{of['threads']} thread{'s' if of['threads'] != 1 else ''}"
        device = "" if str(of["device"]).startswith("CPU") else f", {of['device']}"
        precision = f", {of['precision']}" if "precision" in of else ""
        return f"{of['cpu']}, {of['cores']} cores, {threads} a cell{device}{precision}"

    @property
    def cell(self) -> Cell:
        """The cell that produced this result."""
        recipe = Recipe.from_dict(self.recipe)
        return Cell(self.corpus, recipe, self.size, self.order, self.data_hash, self.encoder_hash)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back; F1 in percent is added for human readers."""
        values = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        for name in ("dev", "test"):
            values[name] = values[name].to_dict() if values[name] is not None else None
        values["stages"] = [asdict(stage) for stage in self.stages]
        if not self.stages:
            del values["stages"]
        scores = {"test_f1": self.f1, "test_f1_strict_iob2": 100 * self.test.strict_iob2.f1}
        per_type = {name: 100 * score.f1 for name, score in self.test.per_type.items()}
        dev = 100 * self.dev.f1 if self.dev is not None else None
        return values | {"percent": scores | {"dev_f1": dev, "test_f1_per_type": per_type}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CellResult:
        """Build a result from what `to_dict` returned."""
        made = {name: value for name, value in values.items() if name != "percent"}
        for name in ("dev", "test"):
            made[name] = Scores.from_dict(made[name]) if made[name] is not None else None
        stages = tuple(StageScore(**stage) for stage in made.get("stages", ()))
        return cls(**{**made, "notes": tuple(made["notes"]), "stages": stages})


class CellStore:
    """The results of cells in a folder of results, by key.

    A record's name is the key at the time of writing. If recipes have gained a field since, the key is recomputed from
    its recipe, so that no finished cell is lost.
    """

    def __init__(self, out: Path, *, index: bool = True) -> None:
        self.out = Path(out)
        self.records = Records(self.out, CELLS, CellResult.from_dict, CellResult.to_dict)
        self.known: dict[str, CellResult] = {}
        for name in self.records.keys() if index else ():
            result = self.records.get(name)
            if result is not None and (key := _present_key(result)) is not None:
                self.known[key] = replace(result, key=name)

    def get(self, key: str) -> CellResult | None:
        """Return a result if it exists; another process may have just written it."""
        if key not in self.known and (result := self.records.get(key)) is not None:
            self.known[key] = result
        return self.known.get(key)

    def put(self, result: CellResult) -> None:
        """Store a result; raise StorageError if it cannot be written."""
        self.records.put(result.key, result)
        self.known[result.key] = result


def run_folder(out: Path, key: str) -> Path:
    """Return the folder of a cell's checkpoint during training, and of its `tagger/` if that is kept."""
    return Path(out) / "runs" / key


_HASH = re.compile(r"[0-9a-f]{64}")


class Binder:
    """Fills in the hashes of cells; for one study run, in which neither corpora nor encoders change."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._encoders: dict[str, str] = {}
        self._data: dict[tuple[Any, ...], str] = {}

    def bind(self, cell: Cell) -> Cell:
        """Return the cell with the hashes of its data and encoder; a size of at least the corpus's counts as none."""
        whole = len(read_corpus(cell.corpus, self.root).train)
        size = cell.size if cell.size is not None and cell.size < whole else None
        cell = replace(cell, size=size, order=cell.order if size is not None else "file")
        seed = 0 if cell.order == "file" else cell.recipe.seed
        bare = needs_unlabelled(cell.recipe.setting)
        recipe = cell.recipe
        names = cell.gazetteer if recipe.uses_gazetteer else ""
        wanted = (cell.corpus, recipe.source_reading, cell.size, cell.order, seed, bare, recipe.reads_texts, names)
        if wanted not in self._data:
            self._data[wanted] = data_hash(cell.recipe, training_data(cell, self.root))
        return replace(cell, data_hash=self._data[wanted], encoder_hash=self.encoder(cell.recipe.encoder))

    def encoder(self, name: str) -> str:
        """Return the hash of an encoder's weights; where they are gone, the hash itself is a name, for stored cells."""
        from crossner_core.encoders.loading import load_encoder

        if _HASH.fullmatch(name):
            return name
        if name not in self._encoders:
            self._encoders[name] = load_encoder(name).fingerprint
        return self._encoders[name]


def training_data(cell: Cell, root: Path) -> TrainingData:
    """Read what a cell is trained and measured on."""
    sources = read_sources(cell.recipe, cell.corpus, root) if cell.source is not None else ()
    seed = 0 if cell.order == "file" else cell.recipe.seed
    data = read_corpus(cell.corpus, root).data(size=cell.size, seed=seed, order=cell.order, sources=sources)
    data = data if needs_unlabelled(cell.recipe.setting) else replace(data, unlabelled=())
    if not (cell.gazetteer and cell.recipe.uses_gazetteer):
        return data
    from crossner_core.gazetteer.asking import asking
    from crossner_core.training.settings.self_training.proposals import proposed_spans

    sentences = (*(item.sentence for item in data.train), *data.unlabelled)
    return replace(data, proposed=proposed_spans(asking(Path(cell.gazetteer), cell.corpus), sentences))


def find_corpora(asked: Iterable[str], usual: Iterable[str], root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the corpora to use, and the usual ones that are absent; requested ones must all be present."""
    chosen = tuple(asked) or tuple(usual)
    present = tuple(id for id in chosen if (root / id).is_dir())
    absent = tuple(id for id in chosen if id not in present)
    if absent and (tuple(asked) or not present):
        known = ", ".join(corpus_ids(root)) or "none"
        raise BadInput(f"There is no corpus {', '.join(absent)} in {root.resolve()}; those there are {known}.")
    return present, absent


def _present_key(result: CellResult) -> str | None:
    """Return the key as computed now; None for a recipe that is no longer valid, or made another model then."""
    if is_outdated(result.recipe):
        return None
    try:
        return result.cell.key
    except InvalidConfig:
        return None
