"""Studies that pre-train the encoders of their rows themselves: each once, kept in OUT/encoders.

Torch-free on import, as `study`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from crossner_core.adaptation.pretraining import Events, PretrainEvent, ShouldStop, read_result
from crossner_core.errors import BadInput, CheckpointMismatch, InvalidConfig, NotFound, StorageError, WorkbenchError
from crossner_core.experiments.study import StudyConfig, StudyEvent
from crossner_core.experiments.training_cells import failure, locked
from crossner_core.folders import what_helps
from crossner_core.options.base import option

SETTINGS = ("direct", "pretrain_finetune", "joint")
# They are parts of folders' names.
_LABEL = re.compile(r"[\w-][\w. -]*")


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
        if bad := [label for label in self.own_labels if not _LABEL.fullmatch(label)]:
            raise InvalidConfig(
                f"{bad[0]!r} is no label of an encoder that the study pre-trains: letters, digits, _, -, dots and "
                "blanks make one, and neither dot nor blank begins it."
            )
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

    def description(self) -> str:
        """Say on what the study's own encoders are pre-trained, and what is not as usual."""
        raise NotImplementedError

    @property
    def labelled_encoders(self) -> dict[str, str]:
        """Return encoder names by label: "" for the recipe's own, those given, the folders' names of the study's."""
        if not self.own_labels:
            return self.given_encoders
        return {self.bare: ""} | self.given_encoders | {label: self.folder_name(label) for label in self.own_labels}

    def begin_with(self) -> dict[str, Any]:
        """Return what a pre-training takes from the recipe unless its own options change it."""
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


def named_by(what: str, *parts: Any) -> str:
    """Return a folder's name: what lies in it, and a hash of what decides that."""
    return f"{what}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]}"


def described_changes(changes: Mapping[str, Any]) -> str:
    """Describe the options of a pre-training that are not the defaults."""
    return f" with {json.dumps(dict(changes), sort_keys=True)}" if changes else ""


def planned(config: PretrainingConfig) -> dict[str, tuple[str, str]]:
    """Return the encoders that a config's study pre-trains: folder's name → label, and corpus of the study."""
    encoders: dict[str, tuple[str, str]] = {}
    for label in config.own_labels:
        name = config.folder_name(label)
        for corpus in config.corpora:
            encoders.setdefault(in_corpus(name, corpus), (label, corpus))
    return encoders


def pretrain(
    config: PretrainingConfig, folder: Path, should_stop: Callable[[], bool], total: int
) -> Generator[StudyEvent, None, dict[str, str]]:
    """Pre-train in a folder what does not lie there yet, one encoder after the other; return which lack, and why.

    What was stopped is resumed; one that fails does not keep the others from being made. `total` are
    the cells that come after. Raises the config's errors of text that is not there, before anything is begun; where
    nothing is to be made of it, text may lack.
    """
    all_of_them, lacking = planned(config), dict[str, str]()
    readable = _is_readable(
        config, needed=not all(map(_is_made, map(folder.joinpath, all_of_them))) and not should_stop()
    )
    for number, (name, (label, corpus)) in enumerate(all_of_them.items(), start=1):
        out, where = folder / name, f"Encoder {number} of {len(all_of_them)}, {name}: "
        if not readable and _is_made(out):
            continue
        lacking[name] = f"the study was stopped before its encoder {name} was pre-trained; it goes on from there"
        if not readable:
            continue
        try:
            for event in _pretrain_one(config, label, corpus, out, should_stop):
                if event.outcome == "not_finite":
                    raise InvalidConfig(
                        f"{event.message} With other options, as a lower learning_rate, it begins anew."
                    )
                if event.outcome == "done":
                    del lacking[name]
                progress = f"step {event.step} of {event.total or '?'}, loss {event.loss:.4f}" if event.loss else ""
                yield StudyEvent(where + " ".join(part for part in (progress, event.message) if part), 0, total)
        except Exception as error:  # the other rows must not wait for it, whatever is wrong with it
            why = failure(folder.parent, name, error)
            lacking[name] = f"its encoder {name} could not be pre-trained: {why}"
            yield StudyEvent(where + why, 0, total)
    return lacking


def _is_made(out: Path) -> bool:
    try:
        read_result(out)
    except (NotFound, BadInput):  # a damaged one is reported when it is its turn
        return False
    return True


def _is_readable(config: PretrainingConfig, *, needed: bool) -> bool:
    """Say whether the text is there; raise what the config says where it is not, but `needed`."""
    try:
        config.check_text()
    except WorkbenchError:  # no harm: what lies there was made of it
        if needed:
            raise
        return False
    return True


def in_corpus(name: str, corpus: str) -> str:
    """Fill in a corpus where a name says so."""
    return name.replace("{corpus}", corpus)


def _pretrain_one(config: PretrainingConfig, label: str, corpus: str, out: Path, should_stop: ShouldStop) -> Events:
    """Pre-train one encoder, or say that it was; where its text or its start has changed since, begin anew.

    The one from before is kept beside it.
    """
    work = out.with_name(f"{out.name}.work")
    with locked(out.with_name(f"{out.name}.lock"), partial(_gives_up, out, should_stop)) as free:
        if not free:
            return
        ended = False
        for anew in (False, True):
            try:
                for event in config.events(label, corpus, out, work, should_stop):
                    ended = event.outcome == "done"
                    yield event
                break
            except CheckpointMismatch as error:
                if anew:
                    raise
                if should_stop():
                    if _is_made(out):
                        message = "What it is made of has changed since; the tables are of what it was."
                        yield PretrainEvent(0, 0, 0.0, message=message, outcome="done")
                    return
                yield PretrainEvent(0, 0, 0.0, message=f"{_set_aside(out, work)} ({error})")
        if ended:
            shutil.rmtree(work, ignore_errors=True)


def _set_aside(out: Path, work: Path) -> str:
    """Keep an encoder under another name, and forget what was begun; say so."""
    shutil.rmtree(work, ignore_errors=True)
    message = f"What {out.name} is made of has changed since it was begun, and it is made anew."
    if out.exists():
        aside = out.with_name(f"{out.name}-until-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
        try:
            out.rename(aside)
        except OSError as error:
            raise StorageError(f"{out} cannot be renamed: {error}. {what_helps(error)}") from error
        message += f" The one from before is {aside.name} now."
    return message


def _gives_up(out: Path, should_stop: ShouldStop) -> bool:
    """Say whether to wait no longer for an encoder; one that is there can be had at once."""
    return should_stop() and not out.exists()
