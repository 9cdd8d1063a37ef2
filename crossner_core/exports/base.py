"""The registry of export targets, what each needs to know of a run, and the settings that travel with every export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.encoders.names import FLAIR, TRANSFORMER, WORDS, kind_named
from crossner_core.errors import InvalidConfig, StorageError
from crossner_core.folders import replace_folder, what_helps
from crossner_core.models.registry import architecture_title
from crossner_core.registry import Registry
from crossner_core.training.events import RunResult
from crossner_core.training.recipe import Recipe

if TYPE_CHECKING:
    from crossner_core.training.predictor import Predictor


@dataclass(frozen=True)
class About:
    """What an export says of its run: its name (letters, digits and `-`), the data it learnt from, and its result."""

    name: str
    trained_on: str
    result: RunResult | None = None


@dataclass(frozen=True)
class Export:
    """A target: `write` fills an empty folder; it takes encoders of some kinds, and architectures but those refused."""

    id: str
    title: str
    takes: str
    """What it can export, in words."""
    write: Callable[[Predictor, Path, About, bool], None]
    """Called with tagger, folder, what to say of it, and whether int8 weights are wanted."""
    has_int8: bool = True
    refused: Mapping[str, str] = field(default_factory=dict)
    """Reason by architecture, whatever the encoder."""
    encoders: tuple[str, ...] = (TRANSFORMER,)
    """The kinds of encoders that it takes."""

    def refusal(self, recipe: Recipe, kind: str = "") -> str:
        """Return why a tagger of this recipe cannot be exported; empty if it can.

        `kind` is that of its encoder, where it is known; else what the encoder's name says.
        """
        kind = kind or kind_named(recipe.encoder)
        if not (why := self._reason(recipe, kind)):
            return ""
        others = ", ".join(id for id in EXPORTS.ids() if not EXPORTS.one(id)._reason(recipe, kind))
        advice = f"Export to {others} instead." if others else "No other target takes this run: train such a tagger."
        return f"{why} What {self.id} takes: {self.takes}. {advice}"

    def _reason(self, recipe: Recipe, kind: str) -> str:
        """Return the sentence that says which part of a recipe cannot leave this way, and why; empty if none."""
        if kind not in self.encoders:
            why = _ENCODERS.get(kind, "only this workbench can read this kind of encoder.")
            return f"The encoder of this run is {recipe.encoder}, which cannot be exported to {self.id}: {why}"
        if is_plain(recipe):
            return ""
        name = recipe.architecture
        if not (why := self.refused.get(name, "")):
            return ""
        title = f"{name} ({architecture_title(name)})"
        return f"The architecture of this run is {title}, which cannot be exported to {self.id}: {why}"

    def require_int8(self, wanted: bool) -> None:
        """Raise InvalidConfig if int8 weights are wanted where there are none."""
        if wanted and not self.has_int8:
            able = ", ".join(id for id in EXPORTS.ids() if EXPORTS.one(id).has_int8)
            raise InvalidConfig(f"There are no int8 weights for {self.id}, only for {able}. Leave int8 out.")


NO_GRAPH = {"bartner": "it writes one entity after another, which the decoder that travels with a graph cannot do."}
"""Why architectures cannot leave as a graph, whatever the encoder."""
GRAPHS = "taggers of every architecture but bartner, on a transformer, on words or on flair"
"""What can leave as a graph."""
READABLE = (TRANSFORMER, WORDS, FLAIR)
"""The kinds of encoders that a graph can hold."""
_ENCODERS = {
    WORDS: "it reads whole words, and AutoModelForTokenClassification is a transformer that reads subwords.",
    FLAIR: "it reads a sentence character by character, and AutoModelForTokenClassification is a transformer that "
    "reads subwords.",
}
"""Why encoders of a kind cannot leave, where a target does not take them."""

EXPORTS: Registry[Export] = Registry("crossner_core.exports", "export target", by_name=True, apart=("base", "decoder"))


def register(export: Export) -> Export:
    """Register a target under its id, which is the name of its file."""
    return EXPORTS.add(export.id, export)


def is_plain(recipe: Recipe) -> bool:
    """Return whether a recipe's head is a linear layer on each token, whatever its architecture's name."""
    if recipe.architecture == "label_aware":
        return not (recipe.label_background or recipe.label_context)
    return recipe.architecture == "tagger"


def export_tagger(predictor: Predictor, folder: Path, target: str, about: About, *, int8: bool = False) -> None:
    """Write a tagger for a target into a folder, which is replaced as a whole.

    Raises InvalidConfig for an unknown target, an architecture or encoder that it cannot take, int8 where it has none,
    and a tagger that computes in bf16; StorageError if the folder cannot be written.
    """
    export = EXPORTS.one(target)
    export.require_int8(int8)
    if why := export.refusal(predictor.recipe, predictor.encoder.kind):
        raise InvalidConfig(why)
    if predictor.model.use_bf16:
        raise InvalidConfig(
            "The tagger computes in bf16, and what leaves in fp32, so that they cannot be compared; load it with "
            "device='cpu' and precision='fp32'."
        )
    _fill(folder, lambda beside: export.write(predictor, beside, about, int8))


def _fill(folder: Path, write: Callable[[Path], None]) -> None:
    """Write a new folder in the place of one, which a failure leaves as it was; raise StorageError."""
    place = folder.absolute()
    if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not (place / "README.md").is_file())):
        raise StorageError(f"{folder} exists and is no export: nothing was written. Give a new or an empty folder.")
    try:
        replace_folder(place, write)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error}. {what_helps(error)}") from error


def described(predictor: Predictor, about: About) -> dict[str, Any]:
    """Return what the settings of an export say of the run, as plain values."""
    return {
        "name": about.name,
        "trained_on": about.trained_on,
        "snapshot": predictor.snapshot,
        "recipe": predictor.recipe.to_dict(),
        "encoder": predictor.meta["encoder"],
        "encoder_hash": predictor.meta["encoder_hash"],
    }
