"""What to train: the recipe, from which forms and flags are generated, and the key of its source checkpoint."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.models.registry import architecture_ids
from crossner_core.options.bartner import BartnerOptions
from crossner_core.options.base import Checked, hindering, is_as_before, matters, option, value_before, value_name
from crossner_core.options.coach import CoachOptions
from crossner_core.options.cross_domain_lm import CrossDomainLmOptions
from crossner_core.options.datnet import DatnetOptions
from crossner_core.options.la_dtl import LaDtlOptions
from crossner_core.options.label_aware import LabelAwareOptions
from crossner_core.options.multi_cell import MultiCellOptions
from crossner_core.options.pdaln import OWN_BATCHES, OWN_EPOCHS, OWN_LOOKS, PdalnOptions
from crossner_core.options.scale import ScaleOptions
from crossner_core.options.self_training import SelfTrainingOptions
from crossner_core.options.type_aware import TypeAwareOptions
from crossner_core.training.data import TrainingData, corpus_hash, weighted
from crossner_core.training.settings.registry import is_together, needs_source, setting_ids
from crossner_core.type_maps import load_type_map

_SOURCE = {"setting": tuple(id for id in setting_ids() if needs_source(id))}
_STAGED = {"setting": ("pretrain_finetune", "transfer_self_training")}
SOURCE_ONLY = "source_only"
"""The setting that trains on no target sentence."""
_SOURCE_FIRST = {"setting": (*_STAGED["setting"], SOURCE_ONLY)}
_TOGETHER = {"setting": tuple(id for id in setting_ids() if is_together(id))}
_SOURCE_STAGE = {"setting": (*_SOURCE_FIRST["setting"], *_TOGETHER["setting"])}
# Settings with a CRF for each domain never ask a corpus for a type that it does not annotate.
_MARKED = {"setting": (*_SOURCE_FIRST["setting"], "joint")}
_NO_TARGET = {"setting": (SOURCE_ONLY,)}
# These train one stage, at the source's rates.
_NO_TARGET_STAGE = (_TOGETHER, _NO_TARGET)
# Fields that only the target stage reads, or that only affect where it is computed.
_TARGET = (
    "encoder",
    "setting",
    # What these make of the sources is in the hash of the source sentences.
    "source",
    "source_map",
    "source_types",
    "source_temperature",
    "learning_rate",
    "head_learning_rate",
    "batch_size",
    "max_epochs",
    "patience",
    "warmup_share",
    "dev_every",
    "head_first_epochs",
    "head_first_learning_rate",
    "inherit",
    "upsample",
    "seed",
)
# Only for the target stage: options against the gap between gold history and a model's own, which is wide with few
# sentences, and decoding, which does not affect the loss.
_OF_TARGET = ("label_history", "label_own_share", "label_noise", "label_embedding_dropout", "constrained")
SOURCE_MAPS = ("name", "parent")
"""How types of a source become the target's, apart from type maps."""
APART = "@"
"""Between a type and its source: the name of a type that is kept apart from others of that name."""
_TIMES = re.compile(r"\d{1,3}(\.\d{1,4})?")
# Fields that stored recipes may have and that no longer mean anything; with `type_size` types were compared otherwise.
_RETIRED = frozenset({"type_size"})
# Prefix of options for students, which follow the target stage.
_STUDENT = "self_training_"


@dataclass(frozen=True)
class Recipe(
    BartnerOptions,
    CoachOptions,
    MultiCellOptions,
    LabelAwareOptions,
    TypeAwareOptions,
    PdalnOptions,
    LaDtlOptions,
    DatnetOptions,
    CrossDomainLmOptions,
    SelfTrainingOptions,
    ScaleOptions,
    Checked,
):
    """Everything that affects a run's results, apart from the sentences themselves."""

    encoder: str = option(
        "minilm",
        "Encoder: minilm (bundled), one pre-trained here, a folder, a hub name, words (word vectors; after a colon "
        "with commas: a text file of vectors or glove, chars=lstm or chars=cnn, case=exact, size=N of random ones), or "
        "flair:FOLDER (character models, also by name, with word vectors after a comma: words=FILE or words=glove).",
        group="model",
    )
    architecture: str = option(
        "tagger", "Architecture on top of the encoder.", choices=architecture_ids(), group="model"
    )
    setting: str = option(
        "direct", "Transfer setting: how the source domain is used.", choices=setting_ids(), group="model"
    )
    source: str = option(
        "conll2003",
        "Source corpora, for settings that use them, separated by commas; NAME*2 counts one twice, NAME*0.5 half.",
        group="source",
        only=_SOURCE,
    )
    source_map: str = option(
        "name",
        "Types of sources: name shares those of the target's names; parent also takes a type that the target lacks as "
        "its parent, which the target has; or a type map, by its name or as a .toml file.",
        group="source",
        only=_SOURCE,
        later=True,
    )
    source_types: str = option(
        "",
        "Single types of sources, separated by commas: TYPE=OURS renames one, TYPE= leaves it out, TYPE keeps it apart "
        "from the target's; TYPE@SOURCE is the type of one source.",
        group="source",
        only=_SOURCE,
        later=True,
    )
    source_temperature: float = option(
        1.0,
        "Sampling temperature T, instead of weights: a source of n sentences is drawn with n^(1/T); 1 is as they are, "
        "higher is more even.",
        min=1.0,
        max=100.0,
        group="source",
        only=_SOURCE,
        later=True,
    )
    learning_rate: float = option(
        2e-4, "Peak learning rate of the encoder on the target.", min=1e-7, max=1e-2, unless=_NO_TARGET_STAGE
    )
    head_learning_rate: float = option(
        1e-3, "Peak learning rate of the layers on top of the encoder.", min=1e-7, max=1e-1, unless=_NO_TARGET_STAGE
    )
    layer_decay: float = option(
        1.0, "Layer-wise decay: factor on the learning rate per encoder layer, from the top down.", min=0.1, max=1.0
    )
    batch_size: int = option(8, "Sentences per step.", min=1, max=1024, unless=(*_NO_TARGET_STAGE, OWN_BATCHES))
    max_epochs: int = option(
        16,
        "Maximum epochs over the target's training sentences.",
        min=1,
        max=10_000,
        unless=(*_NO_TARGET_STAGE, OWN_EPOCHS),
    )
    patience: int = option(
        8,
        "Early stopping: epochs without a better dev F1 before the run stops.",
        min=1,
        max=10_000,
        unless=(_NO_TARGET,),
    )
    dev_every: int = option(
        3,
        "Epochs between evaluations on dev; the last epoch is always evaluated.",
        min=1,
        max=10_000,
        unless=(*_NO_TARGET_STAGE, OWN_LOOKS),
    )
    min_epoch_steps: int = option(
        6, "Minimum steps per epoch: a smaller training set is repeated within an epoch.", min=1, max=10_000
    )
    warmup_share: float = option(
        0.1,
        "Share of all steps in which the learning rate warms up to its peak.",
        min=0.0,
        max=0.9,
        unless=_NO_TARGET_STAGE,
    )
    schedule: str = option(
        "linear",
        "Learning-rate schedule after the warm-up, in every stage: linear decays to zero, constant stays at the peak.",
        choices=("linear", "constant"),
        later=True,
    )
    weight_decay: float = option(0.01, "Decoupled weight decay (not on biases and norms).", min=0.0, max=1.0)
    clip_norm: float = option(
        1.0, "Maximum gradient norm; larger gradients are scaled down; 0: none is.", min=0.0, max=1e3
    )
    max_length: int = option(
        256,
        "Subwords (of words and flair: words) per window; longer sentences are split with overlap.",
        min=16,
        max=8192,
    )
    source_learning_rate: float = option(
        5e-5,
        "Peak learning rate of the encoder in the source stage and in joint training; keep it low.",
        min=1e-7,
        max=1e-2,
        group="source",
        only=_SOURCE_STAGE,
    )
    source_head_learning_rate: float = option(
        5e-4,
        "Peak learning rate of the head in the source stage and in joint training.",
        min=1e-7,
        max=1e-1,
        group="source",
        only=_SOURCE_STAGE,
    )
    source_epochs: int = option(
        2,
        "Epochs over the source corpus; in joint training, over both corpora together.",
        min=1,
        max=1000,
        group="source",
        only=_SOURCE_STAGE,
    )
    source_batch_size: int = option(
        32,
        "Sentences per step in the source stage and in joint training.",
        min=1,
        max=1024,
        group="source",
        only=_SOURCE_STAGE,
    )
    source_warmup_share: float = option(
        0.1,
        "Warm-up share of the source stage and of joint training.",
        min=0.0,
        max=0.9,
        group="source",
        only=_SOURCE_STAGE,
    )
    source_seed: int = option(
        0,
        "Seed of the source stage; runs with different seeds share one source checkpoint.",
        min=0,
        max=2**31 - 1,
        group="source",
        only=_SOURCE_FIRST,
    )
    source_unmarked: str = option(
        "outside",
        "What a token that a corpus leaves unmarked is to types only other corpora mark: outside of them, or unknown.",
        choices=("outside", "unknown"),
        group="source",
        only=_MARKED,
        later=True,
    )
    source_head: str = option(
        "source",
        "Types of the source stage's head: source (its own, so that one checkpoint serves every target), or target "
        "(the target's too, as in CrossNER's released code).",
        choices=("source", "target"),
        group="source",
        only=_STAGED,
        later=True,
    )
    head_first_epochs: int = option(
        8,
        "First epochs after the source stage, in which only the head is trained.",
        min=0,
        max=1000,
        group="source",
        only=_STAGED,
    )
    head_first_learning_rate: float = option(
        5e-3,
        "Learning rate of the head while only the head is trained.",
        min=1e-7,
        max=1e-1,
        group="source",
        only=_STAGED,
        unless=({"head_first_epochs": (0,)},),
    )
    inherit: bool = option(
        True,
        "Initialise the head weights of a type that the source lacks from those of its parent type.",
        group="source",
        only=_SOURCE_FIRST,
        unless=({**_STAGED, "source_head": ("target",)},),
    )
    upsample: int = option(
        50,
        "Joint training: number of times each target sentence is repeated.",
        min=1,
        max=1000,
        group="source",
        only=_TOGETHER,
        unless=({"setting": ("cross_domain_lm_unsupervised",)},),
    )
    seed: int = option(
        555, "Seed of the head's initial weights, batch order and dropout.", min=0, max=2**31 - 1, group="machine"
    )
    device: str = option("auto", "Device to compute on.", choices=("auto", "cpu", "cuda"), group="machine")
    precision: str = option(
        "auto",
        "Floating-point precision of the encoder and, on a CPU, of a BiLSTM.",
        choices=("auto", "fp32", "bf16"),
        group="machine",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = source_weights(self.source)
        if needs_source(self.setting):
            check_temperature(self.source_temperature, weights)
        type_entries(self.source_types)
        if self.source_map not in SOURCE_MAPS and not self.source_map.endswith(".toml"):
            load_type_map(self.source_map)
        if not self.encoder.strip():
            raise InvalidConfig("encoder is empty; give 'minilm', a local folder, a hub name or 'words'.")

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON of what has an effect."""
        return hashlib.sha256(json.dumps(effective(self.to_dict()), sort_keys=True).encode()).hexdigest()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the source corpora."""
        return source_names(self.source)

    @property
    def reads_texts(self) -> bool:
        """Whether its architecture reads what the types mean."""
        return reads_texts(vars(self))

    @property
    def is_staged(self) -> bool:
        """Whether a stage on the source alone comes before the target's."""
        return self.setting in _STAGED["setting"]

    @property
    def own_text_encoder(self) -> bool:
        """Whether the tagger's own encoder reads the texts, and learns to."""
        return self.type_encoder == "own" and matters(Recipe.__dataclass_fields__["type_encoder"], vars(self))

    @property
    def source_reading(self) -> tuple[Any, ...]:
        """What decides which source sentences a run has, and with which types; empty if its setting uses none."""
        if not needs_source(self.setting):
            return ()
        return self.source, self.source_map, self.source_types, self.source_temperature

    @property
    def uses_gazetteer(self) -> bool:
        """Whether a run uses proposals of gazetteer and links."""
        return bool(effective(self.to_dict()).get("self_training_gazetteer"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe; an unknown key raises InvalidConfig and names the valid ones.

        One that `to_dict` of an earlier version returned keeps its meaning.
        """
        values = as_stored(values)
        known = {spec.name for spec in fields(cls)}
        unknown = sorted(set(values) - known - _RETIRED)
        if unknown:
            raise InvalidConfig(f"Unknown recipe field {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
        return cls(**{name: value for name, value in values.items() if name in known})


def source_names(source: str) -> tuple[str, ...]:
    """Return the corpora named in a recipe's `source`."""
    return tuple(name for name, _ in _named(source))


def source_weights(source: str) -> dict[str, float]:
    """Return how often each corpus named in a recipe's `source` counts; raise InvalidConfig for what is no weight."""
    weights: dict[str, float] = {}
    for name, times in _named(source):
        weight = float(times) if _TIMES.fullmatch(times) else 0.0
        if not 0.01 <= weight <= 100:
            raise InvalidConfig(f"source has {name}*{times}; a weight after * must be a number from 0.01 to 100.")
        if name in weights:
            raise InvalidConfig(f"source names {name!r} twice; to count it more often write {name}*2.")
        weights[name] = weight
    return weights


def check_temperature(temperature: float, weights: Mapping[str, float]) -> None:
    """Raise InvalidConfig for a temperature beside weights."""
    if temperature != 1 and (given := [f"{name}*{weight:g}" for name, weight in weights.items() if weight != 1]):
        raise InvalidConfig(
            f"source_temperature is {temperature:g}, and source has the weights {', '.join(given)}: both say how often "
            "a source counts. Leave one of them out."
        )


def type_entries(text: str, names: Sequence[str] | None = None) -> dict[tuple[str, str], str | None]:
    """Return what a recipe's `source_types` says of each (type, source), of every source where that is empty.

    None keeps a type apart, an empty name leaves it out. Raises InvalidConfig for a source that is not in `names`, if
    they are given.
    """
    entries: dict[tuple[str, str], str | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        left, sign, ours = (word.strip() for word in part.partition("="))
        name, at, source = (word.strip() for word in left.rpartition(APART)) if APART in left else (left, "", "")
        if not name or (at and not source):
            raise InvalidConfig(
                f"source_types has {part!r}; write TYPE=OURS, TYPE= or TYPE, or with TYPE{APART}SOURCE."
            )
        if at and names is not None and source not in names:
            raise InvalidConfig(
                f"source_types has {part!r}, and {source!r} is no source; those of this recipe are {', '.join(names)}."
            )
        if (name, source) in entries:
            raise InvalidConfig(f"source_types names {left!r} twice; a type of a source becomes one type.")
        entries[name, source] = ours if sign else None
    return entries


def _named(source: str) -> Iterator[tuple[str, str]]:
    """Yield each corpus with what stands after its *, or 1."""
    for part in source.split(","):
        name, star, times = part.rpartition("*")
        yield (name.strip(), times.strip()) if star else (times.strip(), "1")


def as_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's values with what was done before later fields existed, if an earlier version stored it.

    That is a recipe with every option that PDALN first had: a person who names some gets today's defaults for the rest.
    """
    specs = fields(PdalnOptions)
    if any(spec.name not in values for spec in specs if not spec.metadata["later"]):
        return dict(values)
    return {spec.name: value_before(spec) for spec in specs if spec.metadata["later"]} | dict(values)


def effective(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that affect a run's results: those of other architectures and settings are left out.

    So are options added later, at their defaults. Missing fields (of a recipe stored by an older version) count with
    their defaults; unknown ones are kept.
    """
    known = {spec.name: spec for spec in fields(Recipe)}
    whole = {name: spec.default for name, spec in known.items()} | as_stored(values)
    whole = {name: value for name, value in whole.items() if name not in _RETIRED}
    return {
        name: value
        for name, value in whole.items()
        if name not in known or (matters(known[name], whole) and not is_as_before(known[name], value))
    }


def without_effect(recipe: Recipe, given: Iterable[str]) -> tuple[str, ...]:
    """Explain, for each of the given fields that is not at its default and has no effect, why.

    A whole recipe may be given, as it was stored.
    """
    values, reasons = recipe.to_dict(), []
    for spec in fields(Recipe):
        if spec.name in given and values[spec.name] != spec.default and (names := hindering(spec, values)):
            why = (f"{name} {value_name(values[name])}" for name in names)
            reasons.append(f"{spec.name} has no effect with {' and '.join(why)}.")
    return tuple(reasons)


def is_outdated(values: Mapping[str, Any]) -> bool:
    """Whether what a stored recipe made is of another model than the same recipe makes now."""
    return "type_size" in values and reads_texts(values)


def reads_texts(values: Mapping[str, Any]) -> bool:
    """Whether a recipe, perhaps one that an older version stored, has an architecture that reads what types mean."""
    return matters(Recipe.__dataclass_fields__["type_texts"], values)


def data_hash(recipe: Recipe, data: TrainingData) -> str:
    """Return the hash of all that a run learns from: its sentences, and where it reads them the texts of its types."""
    if not recipe.reads_texts:
        return data.fingerprint
    both = [data.texts_of(data.types), data.texts_of(data.source_types, of_sources=True)]
    return hashlib.sha256(json.dumps([data.fingerprint, both]).encode()).hexdigest()


def source_key(recipe: Recipe, data: TrainingData, fingerprint: str) -> str:
    """Return a hash of the encoder by its fingerprint, source corpus, source hyper-parameters and source seed."""
    parts = source_options(recipe)
    parts |= {"encoder": fingerprint}
    parts |= {"train": corpus_hash(data.source_train), "dev": corpus_hash(data.source_dev)}
    if recipe.source_unmarked == "unknown":
        parts |= {"annotated": [[len(weighted(source)), *sorted(source.types)] for source in data.sources]}
    if recipe.source_head == "target":
        parts |= {"types": list(data.types)}
    if recipe.reads_texts:
        parts |= {"texts": data.texts_of(data.source_types, of_sources=True)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def source_options(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe's options for the source stage: recipes that agree in them share a checkpoint."""
    values = effective(source_recipe(recipe).to_dict())
    return {name: value for name, value in values.items() if name not in _TARGET and not name.startswith(_STUDENT)}


def source_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of a source stage's model: target-only options have their defaults."""
    defaults: dict[str, Any] = {spec.name: spec.default for spec in fields(Recipe) if spec.name in _OF_TARGET}
    return replace(recipe, **defaults)


def cached_source(folder: Path | None, recipe: Recipe, data: TrainingData, fingerprint: str) -> Path | None:
    """Return where the source checkpoint is or will be; None without a cache folder."""
    return Path(folder) / source_key(recipe, data, fingerprint) if folder is not None else None
