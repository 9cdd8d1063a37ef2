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
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from crossner_core.adaptation.pretraining import Events
from crossner_core.adaptation.texts import text_files
from crossner_core.errors import BadInput, CheckpointMismatch, InvalidConfig
from crossner_core.experiments.study import StudyConfig, StudyEvent
from crossner_core.experiments.training_cells import locked
from crossner_core.options.base import option
from crossner_core.options.dapt import DaptOptions

DOMAIN = "domain"  # the level that is all of a corpus, as in `wikipedia.levels`, which needs pyarrow
SETTINGS = ("direct", "pretrain_finetune", "joint")
_WAY = re.compile(
    r"(?P<masking>token|span)(?:-(?P<level>domain|entity|task|integrated))?(?:-(?P<percent>\d+(?:\.\d+)?))?"
)
_GRAMMAR = "MASKING[-LEVEL][-PERCENT], as in span-integrated, token-domain or span-25"


@dataclass(frozen=True, slots=True)
class Way:
    """How an encoder is further pre-trained: masking, level of a Wikipedia corpus ("" of a text), share in percent."""

    masking: str
    level: str
    percent: float

    @classmethod
    def parse(cls, label: str) -> Way:
        """Read a row's label; raise InvalidConfig for one that is none."""
        found = _WAY.fullmatch(label)
        percent = float(found["percent"] or 100) if found else 0.0
        if found is None or not 0 < percent <= 100:
            raise InvalidConfig(f"dapt_ways holds {label!r}; write {_GRAMMAR}, of more than 0 and at most 100 percent.")
        return cls(found["masking"], found["level"] or "", percent)


@dataclass(frozen=True)
class PretrainingConfig(StudyConfig):
    """A config whose study pre-trains an encoder for each way and corpus, where it is told of what text."""

    bare: ClassVar[str] = "none"
    """What the row of the encoder as it comes is called."""
    usual_ways: ClassVar[tuple[str, ...]] = ()
    usual_ways_of_text: ClassVar[tuple[str, ...]] = ()
    usual_level: ClassVar[str] = "integrated"

    settings: tuple[str, ...] = option(SETTINGS, "Transfer settings.", choices=SETTINGS)
    dapt_corpus: str = option(
        "",
        "Wikipedia corpus to pre-train encoders on, by its folder, in which {corpus} stands for the study's corpus. "
        "Empty: the encoders are those given.",
    )
    dapt_text: tuple[str, ...] = option((), "Text files to pre-train encoders on in place of a Wikipedia corpus.")
    dapt_ways: tuple[str, ...] = option((), f"Ways to pre-train, each {_GRAMMAR}. None means the paper's.")
    dapt: Mapping[str, Any] = option({}, "Options of that pre-training to change, by name.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dapt_corpus and self.dapt_text:
            raise InvalidConfig("dapt_corpus and dapt_text are both given; pre-train on one of them.")
        if not self.pretrains:
            self.refuse("dapt_ways", "dapt", why="neither dapt_corpus nor dapt_text says what to pre-train on")
            return
        if twice := sorted({way for way in self.dapt_ways if self.dapt_ways.count(way) > 1}):
            raise InvalidConfig(f"dapt_ways names {', '.join(twice)} twice; each must be there once.")
        if "masking" in self.dapt:
            raise InvalidConfig("dapt sets masking, which dapt_ways says; leave it out.")
        for label in self.ways:
            way = Way.parse(label)
            if self.dapt_text and way.level:
                raise InvalidConfig(f"dapt_ways holds {label!r}, but only a dapt_corpus has levels; leave them out.")
            self.options_of(way)
        if both := sorted({self.bare, *self.ways} & set(self.given_encoders)):
            raise InvalidConfig(
                f"encoders names {', '.join(both)}, which the study itself has; the labels must differ."
            )

    @property
    def pretrains(self) -> bool:
        """Say whether the study pre-trains encoders."""
        return bool(self.dapt_corpus or self.dapt_text)

    @property
    def ways(self) -> tuple[str, ...]:
        """The labels of the encoders that the study pre-trains."""
        if not self.pretrains:
            return ()
        return self.dapt_ways or (self.usual_ways if self.dapt_corpus else self.usual_ways_of_text)

    @property
    def labelled_encoders(self) -> dict[str, str]:
        """Return encoder names by label: "" for the recipe's own, those given, and the folders' names of the ways."""
        if not self.pretrains:
            return self.given_encoders
        return {self.bare: ""} | self.given_encoders | {label: self.folder_name(label) for label in self.ways}

    def options_of(self, way: Way) -> DaptOptions:
        """Return what a way's pre-training is told; encoder, device and precision are the recipe's if it names none."""
        recipe = self.recipe_of()
        usual = {"encoder": recipe.encoder, "device": recipe.device, "precision": recipe.precision}
        return DaptOptions.from_dict({**usual, **self.dapt, "masking": way.masking})

    def level_of(self, way: Way) -> str:
        """Return the level of the corpus that a way reads; "" of a text."""
        return (way.level or self.usual_level) if self.dapt_corpus else ""

    def is_for_all(self, way: Way) -> bool:
        """Say whether a way reads the same text for all corpora: no level but the whole knows of entity types."""
        return bool(self.dapt_text) or (self.level_of(way) == DOMAIN and "{corpus}" not in self.dapt_corpus)

    def folder_name(self, label: str) -> str:
        """Return the name of a way's folder, the same for the same text and options; {corpus} stands for the corpus."""
        way = Way.parse(label)
        text = [str(Path(one).resolve()) for one in ((self.dapt_corpus,) if self.dapt_corpus else self.dapt_text)]
        parts = [text, self.level_of(way), way.percent, self.options_of(way).hash]
        hash = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
        return f"{label}-{hash}" if self.is_for_all(way) else f"{{corpus}}-{label}-{hash}"

    def made_in(self, folder: Path) -> Self:
        """Return the config that names the encoders which lie in a folder, and pre-trains none."""
        if not self.pretrains:
            return self
        made = {label: str(folder / self.folder_name(label)) for label in self.ways}
        named = {self.bare: self.recipe_of().encoder} | self.given_encoders | made
        rest = {name: value for name, value in self.recipe.items() if name != "encoder"}  # each row has its own now
        none: dict[str, Any] = {"dapt_corpus": "", "dapt_text": (), "dapt_ways": (), "dapt": {}}
        return replace(self, encoders=tuple(f"{label}={name}" for label, name in named.items()), recipe=rest, **none)

    def said(self) -> tuple[str, ...]:
        """Say how the study's own encoders came about."""
        if not self.pretrains:
            return ()
        changes = f" with {json.dumps(dict(self.dapt), sort_keys=True)}" if self.dapt else ""
        text = Path(self.dapt_corpus).name or ", ".join(Path(one).name for one in self.dapt_text)
        return (f"Pre-trained by this study on {text}{changes}: {', '.join(self.ways)}.",)


def planned(config: PretrainingConfig) -> dict[str, tuple[Way, str]]:
    """Return the encoders that a config's study pre-trains: folder's name → way, and corpus of the study."""
    found: dict[str, tuple[Way, str]] = {}
    for label in config.ways:
        name, way = config.folder_name(label), Way.parse(label)
        for corpus in config.corpora:
            found.setdefault(_in_corpus(name, corpus), (way, corpus))
    return found


def check_text(config: PretrainingConfig) -> None:
    """Raise NotFound, BadInput or InvalidDomain where a config's text, or what its levels need, is not there."""
    from crossner_core.domains import load_domain
    from crossner_core.wikipedia.corpus import Corpus

    if config.dapt_text:
        text_files([Path(one) for one in config.dapt_text])
    levels = sorted({config.level_of(Way.parse(label)) for label in config.ways} - {DOMAIN})
    for corpus in config.corpora if config.dapt_corpus else ():
        load_domain(corpus)
        there = Corpus.open(Path(_in_corpus(config.dapt_corpus, corpus)))
        if levels and there.manifest.gazetteer is None:
            raise BadInput(
                f"The Wikipedia corpus {there.folder} is not pre-annotated, so it has no {', '.join(levels)} level: "
                "build it with --gazetteer, or choose ways of the domain level, such as token-domain."
            )


def pretrain(
    config: PretrainingConfig, folder: Path, should_stop: Callable[[], bool], total: int
) -> Generator[StudyEvent, None, bool]:
    """Pre-train in a folder what does not lie there yet, one encoder after the other; return False where it is stopped.

    What is stopped goes on from where it stood. `total` are the cells that come after. Raises the pre-training's own
    errors, and InvalidConfig where its loss is no number.
    """
    if not config.pretrains:
        return True
    check_text(config)
    all_of_them = planned(config)
    for at, (name, (way, corpus)) in enumerate(all_of_them.items(), start=1):
        ended = False
        with locked(folder / f"{name}.lock", partial(_gives_up, folder / name, should_stop)) as free:
            for event in _events(config, way, corpus, folder / name, should_stop) if free else ():
                if event.outcome == "not_finite":
                    raise InvalidConfig(f"Encoder {name}: {event.message} Change dapt, such as its learning_rate.")
                ended = event.outcome == "done"
                where = f"step {event.step} of {event.total or '?'}, loss {event.loss:.4f}" if event.loss else ""
                said = " ".join(part for part in (where, event.message) if part)
                yield StudyEvent(f"Encoder {at} of {len(all_of_them)}, {name}: {said}", 0, total)
        if not ended:
            return False
        shutil.rmtree(_work(folder / name), ignore_errors=True)
    return True


def _events(config: PretrainingConfig, way: Way, corpus: str, out: Path, should_stop: Callable[[], bool]) -> Events:
    """Pre-train one encoder, or say that it was; raise CheckpointMismatch where the text has changed since."""
    from crossner_core.adaptation.dapt import run_dapt
    from crossner_core.adaptation.dapt_sources import from_files, from_level

    options = config.options_of(way)
    if config.dapt_corpus:
        place, level = Path(_in_corpus(config.dapt_corpus, corpus)), config.level_of(way)
        source = from_level(place, corpus, level, percent=way.percent)
        if config.is_for_all(way):  # whichever corpus comes first
            provenance = {**source.provenance, "corpus": {**source.provenance["corpus"], "domain": ""}}
            source = replace(source, provenance=provenance)
    else:
        source = from_files([Path(one) for one in config.dapt_text], options, percent=way.percent)
    try:
        yield from run_dapt(
            options, source.texts, source.held_out, out=out, work=_work(out), provenance=source.provenance,
            should_stop=should_stop,
        )  # fmt: skip
    except CheckpointMismatch as error:
        raise CheckpointMismatch(
            f"The text has changed since {out} was begun. Remove that folder and {_work(out).name} beside it, and the "
            f"study pre-trains anew. ({error})"
        ) from error


def _gives_up(out: Path, should_stop: Callable[[], bool]) -> bool:
    """Say whether to wait no longer for an encoder; one that is there can be had at once."""
    return should_stop() and not out.exists()


def _in_corpus(name: str, corpus: str) -> str:
    return name.replace("{corpus}", corpus)


def _work(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")
