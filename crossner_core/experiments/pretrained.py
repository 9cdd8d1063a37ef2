"""Studies that pre-train the encoders of their rows themselves: each once, kept in OUT/encoders.

Torch-free on import, as `study`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from crossner_core.adaptation.pretraining import Events, ShouldStop
from crossner_core.errors import CheckpointMismatch, InvalidConfig
from crossner_core.experiments.study import StudyConfig, StudyEvent
from crossner_core.experiments.training_cells import locked
from crossner_core.options.base import option

SETTINGS = ("direct", "pretrain_finetune", "joint")


@dataclass(frozen=True)
class PretrainingConfig(StudyConfig):
    """A config whose study pre-trains an encoder for each of `own_labels`, one for all corpora or one for each.

    A kind of pre-training fills in what raises NotImplementedError here.
    """

    bare: ClassVar[str] = "none"
    """What the row of the encoder as it comes is called."""
    own_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that say what is pre-trained; empty, nothing is."""

    settings: tuple[str, ...] = option(SETTINGS, "Transfer settings.", choices=SETTINGS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bare in self.own_labels:
            raise InvalidConfig(f"{self.bare} is what the encoder as it comes is called; give another label.")
        if both := sorted({self.bare, *self.own_labels} & set(self.given_encoders)) if self.own_labels else ():
            raise InvalidConfig(
                f"encoders names {', '.join(both)}, which the study itself has; the labels must differ."
            )

    @property
    def own_labels(self) -> tuple[str, ...]:
        """The labels of the encoders that the study pre-trains."""
        raise NotImplementedError

    def folder_name(self, label: str) -> str:
        """Return the name of an encoder's folder, the same for the same text and options.

        `{corpus}` in it stands for the corpus where each has an encoder of its own.
        """
        raise NotImplementedError

    def check_text(self) -> None:
        """Raise a WorkbenchError where the text that is read is not there."""
        raise NotImplementedError

    def events(self, label: str, corpus: str, out: Path, work: Path, should_stop: ShouldStop) -> Events:
        """Pre-train an encoder."""
        raise NotImplementedError

    def said(self) -> str:
        """Say on what the study's own encoders are pre-trained, and what is not as usual."""
        raise NotImplementedError

    @property
    def labelled_encoders(self) -> dict[str, str]:
        """Return encoder names by label: "" for the recipe's own, those given, the folders' names of the study's."""
        if not self.own_labels:
            return self.given_encoders
        return {self.bare: ""} | self.given_encoders | {label: self.folder_name(label) for label in self.own_labels}

    def begin_with(self) -> dict[str, Any]:
        """Return what a pre-training takes from the recipe unless it is told otherwise."""
        recipe = self.recipe_of()
        return {"encoder": recipe.encoder, "device": recipe.device, "precision": recipe.precision}

    def made_in(self, folder: Path) -> Self:
        """Return the config that names the encoders which lie in a folder, and pre-trains none."""
        if not self.own_labels:
            return self
        made = {label: str(folder / self.folder_name(label)) for label in self.own_labels}
        named = {self.bare: self.recipe_of().encoder} | self.given_encoders | made
        rest = {name: value for name, value in self.recipe.items() if name != "encoder"}  # each row has its own now
        none: dict[str, Any] = {name: type(getattr(self, name))() for name in self.own_fields}
        return replace(self, encoders=tuple(f"{label}={name}" for label, name in named.items()), recipe=rest, **none)


def named_by(label: str, *parts: Any) -> str:
    """Return a folder's name: a label, and a hash of what decides what lies in it."""
    return f"{label}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]}"


def changes_said(changes: Mapping[str, Any]) -> str:
    """Say what a pre-training is told that is not as usual."""
    return f" with {json.dumps(dict(changes), sort_keys=True)}" if changes else ""


def planned(config: PretrainingConfig) -> dict[str, tuple[str, str]]:
    """Return the encoders that a config's study pre-trains: folder's name → label, and corpus of the study."""
    found: dict[str, tuple[str, str]] = {}
    for label in config.own_labels:
        name = config.folder_name(label)
        for corpus in config.corpora:
            found.setdefault(in_corpus(name, corpus), (label, corpus))
    return found


def pretrain(
    config: PretrainingConfig, folder: Path, should_stop: Callable[[], bool], total: int
) -> Generator[StudyEvent, None, bool]:
    """Pre-train in a folder what does not lie there yet, one encoder after the other; return False where it is stopped.

    What is stopped goes on from where it stood. `total` are the cells that come after. Raises the pre-training's own
    errors, and InvalidConfig where its loss is no number.
    """
    if not config.own_labels:
        return True
    config.check_text()
    all_of_them = planned(config)
    for at, (name, (label, corpus)) in enumerate(all_of_them.items(), start=1):
        out, work = folder / name, folder / f"{name}.work"
        ended = False
        with locked(folder / f"{name}.lock", partial(_gives_up, out, should_stop)) as free:
            for event in _events(config, label, corpus, out, work, should_stop) if free else ():
                if event.outcome == "not_finite":
                    raise InvalidConfig(f"Encoder {name}: {event.message} Change its options, as the learning_rate.")
                ended = event.outcome == "done"
                where = f"step {event.step} of {event.total or '?'}, loss {event.loss:.4f}" if event.loss else ""
                said = " ".join(part for part in (where, event.message) if part)
                yield StudyEvent(f"Encoder {at} of {len(all_of_them)}, {name}: {said}", 0, total)
        if not ended:
            return False
        shutil.rmtree(work, ignore_errors=True)
    return True


def in_corpus(name: str, corpus: str) -> str:
    """Fill in a corpus where a name says so."""
    return name.replace("{corpus}", corpus)


def _events(
    config: PretrainingConfig, label: str, corpus: str, out: Path, work: Path, should_stop: ShouldStop
) -> Events:
    """Pre-train one encoder, or say that it was; raise CheckpointMismatch where the text has changed since."""
    try:
        yield from config.events(label, corpus, out, work, should_stop)
    except CheckpointMismatch as error:
        raise CheckpointMismatch(
            f"The text has changed since {out} was begun. Remove that folder and {work.name} beside it, and the study "
            f"pre-trains anew. ({error})"
        ) from error


def _gives_up(out: Path, should_stop: ShouldStop) -> bool:
    """Say whether to wait no longer for an encoder; one that is there can be had at once."""
    return should_stop() and not out.exists()
