"""The options of a simulated campaign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from crossner_core.acquisition.selecting import strategy, without_idle_weights
from crossner_core.acquisition.signals import PROPOSED
from crossner_core.errors import InvalidConfig
from crossner_core.options.base import Checked, is_as_before, option
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.training.recipe import Recipe, effective
from crossner_core.training.settings.self_training.plan import with_students


@dataclass(frozen=True)
class SimulationOptions(Checked):
    """One strategy played on one corpus with one seed.

    The pool is the corpus's train and dev sentences, except `dev_sentences` of them for early stopping, which are the
    same for all strategies of a seed; test is only measured on.
    """

    strategy: str = option("random", "Strategy: acquisition functions joined by +.")
    self_training: bool = option(False, "Train models on the rest of the pool too, as unlabelled text.")
    gazetteer_teaches: bool = option(
        False, "With self-training, also use what a gazetteer proposes in the rest of the pool.", later=True
    )
    at: tuple[int, ...] = option(
        (20, 40, 60, 80, 100), "Numbers of labelled sentences at which a model is trained and evaluated.", min=1
    )
    dev_sentences: int = option(50, "Sentences held out of the pool for early stopping.", min=0, max=100_000)
    random_share: float = option(
        0.0, "Share of the sentences that are chosen at random, as in a live queue.", min=0.0, max=1.0, later=True
    )
    suggestions: bool = option(
        False, "Show annotators the suggestions of the newest model, and of a gazetteer if one is given."
    )
    suggestions_from: float = option(0.0, "Proposals with a lower score are hints, not suggestions.", min=0.0, max=1.0)
    warm_epochs: int = option(
        0,
        "Warm start: train the previous round's model for this many epochs, with self-training as its own teacher; "
        "0: each model starts from the encoder.",
        min=0,
        max=1000,
        later=True,
    )
    zero_shot: bool = option(
        False,
        "Begin with the model of the source stage: it chooses and suggests before the first label.",
        later=True,
    )
    seed: int = option(555, "Seed of the dev sentences, of the strategy's random choices, and of the models.", min=0)

    @property
    def label(self) -> str:
        """Its name in curves and tables."""
        extras = f", {100 * self.random_share:g}% by chance" if self.random_share else ""
        extras += ", self-training" if self.self_training else ""
        extras += " and gazetteer" if self.gazetteer_teaches else ""
        extras += f", warm start of {self.warm_epochs} epochs" if self.warm_epochs else ""
        extras += ", zero-shot start" if self.zero_shot else ""
        return f"{self.strategy}{extras}{', suggestions' if self.suggestions else ''}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if strategy(self.strategy).self_training:
            raise InvalidConfig(f"strategy is {self.strategy!r}; give the functions alone, and set self_training.")
        if self.gazetteer_teaches and not self.self_training:
            raise InvalidConfig("gazetteer_teaches needs self_training; set both, or neither.")
        if not self.at or list(self.at) != sorted(set(self.at)):
            raise InvalidConfig(f"at is {list(self.at)}; give at least one number, each larger than the one before.")


@dataclass(frozen=True)
class Simulation:
    """A simulated campaign: corpus, options, annotator, and the recipe of its models.

    With `others`, the seed assigns each sentence to the first annotator or one of them. With `below`, models of fewer
    labelled sentences than each number, in rising order, have the recipe beside it as it is, but for the seed.
    """

    corpus: str
    options: SimulationOptions
    recipe: Recipe
    annotator: AnnotatorOptions = field(default_factory=AnnotatorOptions)
    others: tuple[AnnotatorOptions, ...] = ()
    below: tuple[tuple[int, Recipe], ...] = ()

    def __post_init__(self) -> None:
        if self.options.self_training:
            with_students(self.recipe)
        if self.options.zero_shot and not self.recipe.is_staged:
            raise InvalidConfig(
                f"zero_shot begins with the model of a source stage, and the setting {self.recipe.setting!r} has none; "
                "choose pretrain_finetune, or leave zero_shot out."
            )

    @property
    def models_recipe(self) -> Recipe:
        """The recipe of its models with the campaign's seed: with self-training, the setting that adds students."""
        recipe = replace(self.recipe, seed=self.options.seed)
        with_gazetteer = self.options.gazetteer_teaches
        return with_students(recipe, gazetteer=with_gazetteer) if self.options.self_training else recipe

    def recipe_at(self, sentences: int) -> Recipe:
        """Return the recipe of its model of so many labelled sentences."""
        fewer = (recipe for below, recipe in self.below if sentences < below)
        return replace(next(fewer, self.models_recipe), seed=self.options.seed)

    @property
    def annotators(self) -> tuple[AnnotatorOptions, ...]:
        """All annotators who share its sentences."""
        return (self.annotator, *self.others)

    @property
    def asks_gazetteer(self) -> bool:
        """Whether a given gazetteer is queried: for suggestions or teachers, by a strategy, or before any model."""
        chosen = strategy(self.options.strategy)
        uses_gazetteer = self.options.suggestions or self.options.gazetteer_teaches
        return uses_gazetteer or chosen.model or PROPOSED in chosen.needs

    def key(self, data_hash: str, encoder_hash: str, gazetteer_hash: str = "") -> str:
        """Return a hash of everything that affects the results."""
        recipe = _counted(self.models_recipe)
        known = {spec.name: spec for spec in fields(SimulationOptions)}
        options = {name: value for name, value in asdict(self.options).items() if not is_as_before(known[name], value)}
        parts: list[Any] = [self.corpus, options, asdict(self.annotator), recipe, data_hash, encoder_hash]
        parts += (
            [[asdict(annotator) for annotator in self.others]] if self.others else []
        )  # one annotator's key is as before
        parts += [[[below, _counted(self.recipe_at(below - 1))] for below, _ in self.below]] if self.below else []
        parts += [gazetteer_hash] if gazetteer_hash and self.asks_gazetteer else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return {
            "corpus": self.corpus,
            "options": asdict(self.options),
            "recipe": self.recipe.to_dict(),
            "annotator": asdict(self.annotator),
            "others": [asdict(annotator) for annotator in self.others],
            "below": [[below, recipe.to_dict()] for below, recipe in self.below],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Simulation:
        """Build a simulation from what `to_dict` returned."""
        options = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values["options"].items()
        }
        if "strategy" in options:
            options["strategy"] = without_idle_weights(str(options["strategy"]))
        return cls(
            values["corpus"],
            _made(SimulationOptions, options),
            Recipe.from_dict(values["recipe"]),
            _made(AnnotatorOptions, values["annotator"]),
            tuple(_made(AnnotatorOptions, value) for value in values.get("others", ())),
            tuple((below, Recipe.from_dict(recipe)) for below, recipe in values.get("below", ())),
        )

    def __str__(self) -> str:
        return f"{self.corpus} {self.options.label} seed {self.options.seed}"


def _counted(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in effective(recipe.to_dict()).items() if name != "encoder"}


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    known = {spec.name for spec in fields(kind)}
    if unknown := sorted(set(values) - known):
        raise InvalidConfig(f"Unknown option {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
    return kind(**values)
