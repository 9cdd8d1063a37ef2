"""Studies that pre-train the encoders of their rows, by DAPT or entity tagging: each once, in OUT/encoders.

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
from crossner_core.adaptation.texts import text_files
from crossner_core.errors import BadInput, CheckpointMismatch, InvalidConfig, NotFound, StorageError, WorkbenchError
from crossner_core.experiments.study import StudyConfig, StudyEvent, labelled
from crossner_core.experiments.training_cells import failure, locked
from crossner_core.folders import what_helps
from crossner_core.options.base import option
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions

SETTINGS = ("direct", "pretrain_finetune", "joint")
# Labels become parts of folder names.
_LABEL = re.compile(r"[\w-][\w. -]*")
DOMAIN = "domain"  # the level of a whole corpus, as in `wikipedia.levels`, which needs pyarrow
_WAY = re.compile(
    r"(?P<masking>token|span)(?:-(?P<level>domain|entity|task|integrated))?(?:-(?P<percent>\d+(?:\.\d+)?))?"
)
_GRAMMAR = "MASKING[-LEVEL][-PERCENT], as in span-integrated, token-domain or span-25"


@dataclass(frozen=True)
class PretrainingConfig(StudyConfig):
    """A config whose study pre-trains an encoder for each of `own_labels`, one for all corpora or one for each.

    Each kind of pre-training implements what raises NotImplementedError here.
    """

    bare: ClassVar[str] = "none"
    """The label of the row with the unchanged encoder."""
    own_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that define what is pre-trained; if empty, nothing is."""

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
        """Raise a WorkbenchError if the text is missing."""
        raise NotImplementedError

    def events(self, label: str, corpus: str, out: Path, work: Path, should_stop: ShouldStop) -> Events:
        """Pre-train an encoder."""
        raise NotImplementedError

    def description(self) -> str:
        """Describe the text of the study's own encoders, and non-default options."""
        raise NotImplementedError

    @property
    def labelled_encoders(self) -> dict[str, str]:
        """Return encoder names by label: "" for the recipe's own, then given ones, then the study's own folders."""
        if not self.own_labels:
            return self.given_encoders
        return {self.bare: ""} | self.given_encoders | {label: self.folder_name(label) for label in self.own_labels}

    def begin_with(self) -> dict[str, Any]:
        """Return the options that pre-training takes from the recipe unless its own options change them."""
        recipe = self.recipe_of()
        return {"encoder": recipe.encoder, "device": recipe.device, "precision": recipe.precision}

    def made_in(self, folder: Path) -> Self:
        """Return the config that names the encoders in a folder and pre-trains none."""
        if not self.own_labels:
            return self
        made = {label: str(folder / self.folder_name(label)) for label in self.own_labels}
        named = {self.bare: self.recipe_of().encoder} | self.given_encoders | made
        rest = {name: value for name, value in self.recipe.items() if name != "encoder"}  # each row has its own now
        none: dict[str, Any] = {name: type(getattr(self, name))() for name in self.own_fields}
        return replace(self, encoders=tuple(f"{label}={name}" for label, name in named.items()), recipe=rest, **none)


def named_by(what: str, *parts: Any) -> str:
    """Return a folder's name: its content, and a hash of what determines it."""
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
    """Pre-train the encoders that a folder lacks, one after the other; return those still missing, with the reason.

    A stopped run is resumed; a failed one does not block the others. `total` is the number of cells that follow. Raises
    the config's errors for missing text before anything starts; text may be missing if nothing is to be made from it.
    """
    all_of_them, lacking = planned(config), dict[str, str]()
    readable = _is_readable(
        config, needed=not all(map(_is_made, map(folder.joinpath, all_of_them))) and not should_stop()
    )
    for number, (name, (label, corpus)) in enumerate(all_of_them.items(), start=1):
        out, where = folder / name, f"Encoder {number} of {len(all_of_them)}, {name}: "
        if not readable and _is_made(out):
            continue
        lacking[name] = (
            f"the study was stopped before its encoder {name} was pre-trained; run the study again to resume"
        )
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
        except Exception as error:  # whatever the error, the other rows must not wait
            why = failure(folder.parent, name, error)
            lacking[name] = f"its encoder {name} could not be pre-trained: {why}"
            yield StudyEvent(where + why, 0, total)
    return lacking


def _is_made(out: Path) -> bool:
    try:
        read_result(out)
    except (NotFound, BadInput):  # a damaged one is reported when its turn comes
        return False
    return True


def _is_readable(config: PretrainingConfig, *, needed: bool) -> bool:
    """Return whether the text is there; raise the config's error if it is missing but `needed`."""
    try:
        config.check_text()
    except WorkbenchError:  # no harm: the encoders exist already
        if needed:
            raise
        return False
    return True


def in_corpus(name: str, corpus: str) -> str:
    """Fill a corpus into a name's placeholder."""
    return name.replace("{corpus}", corpus)


def _pretrain_one(config: PretrainingConfig, label: str, corpus: str, out: Path, should_stop: ShouldStop) -> Events:
    """Pre-train one encoder, or report that it exists; if its text or base has changed since, start over.

    The earlier one is kept next to it.
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
                        message = "Its inputs have changed since; the tables show the encoder as it was."
                        yield PretrainEvent(0, 0, 0.0, message=message, outcome="done")
                    return
                yield PretrainEvent(0, 0, 0.0, message=f"{_set_aside(out, work)} ({error})")
        if ended:
            shutil.rmtree(work, ignore_errors=True)


def _set_aside(out: Path, work: Path) -> str:
    """Rename an encoder, discard unfinished work, and return a message about it."""
    shutil.rmtree(work, ignore_errors=True)
    message = f"The inputs of {out.name} have changed since it was started, so it starts over."
    if out.exists():
        aside = out.with_name(f"{out.name}-until-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
        try:
            out.rename(aside)
        except OSError as error:
            raise StorageError(f"{out} cannot be renamed: {error}. {what_helps(error)}") from error
        message += f" The one from before is {aside.name} now."
    return message


def _gives_up(out: Path, should_stop: ShouldStop) -> bool:
    """Return whether to stop waiting for an encoder; an existing one is available at once."""
    return should_stop() and not out.exists()


@dataclass(frozen=True, slots=True)
class Way:
    """How an encoder is further pre-trained: masking, level of a Wikipedia corpus ("" for text), share in percent."""

    masking: str
    level: str
    percent: float

    @classmethod
    def parse(cls, label: str) -> Way:
        """Parse a row's label; raise InvalidConfig if it is malformed."""
        match = _WAY.fullmatch(label)
        percent = float(match["percent"] or 100) if match else 0.0
        if match is None or not 0 < percent <= 100:
            raise InvalidConfig(f"dapt_ways holds {label!r}; write {_GRAMMAR}, of more than 0 and at most 100 percent.")
        return cls(match["masking"], match["level"] or "", percent)


@dataclass(frozen=True)
class DaptConfig(PretrainingConfig):
    """Encoders by their ways, which are the rows' labels."""

    own_fields: ClassVar[tuple[str, ...]] = ("dapt_corpus", "dapt_gazetteers", "dapt_text", "dapt_ways", "dapt")
    usual_ways: ClassVar[tuple[str, ...]] = ()
    usual_ways_of_text: ClassVar[tuple[str, ...]] = ()
    usual_level: ClassVar[str] = "integrated"

    dapt_corpus: str = option(
        "",
        "Folder of the Wikipedia corpus to pre-train encoders on; {corpus} in it stands for the study's corpus. "
        "Empty: use the encoders given.",
    )
    dapt_gazetteers: str = option(
        "",
        "Folder of gazetteers, with the one that pre-annotated the Wikipedia corpus: its classes define the entity "
        "types of a level. Empty: the folder gazetteers beside that of the corpora.",
    )
    dapt_text: tuple[str, ...] = option((), "Text files to pre-train encoders on, instead of a Wikipedia corpus.")
    dapt_ways: tuple[str, ...] = option((), f"Ways to pre-train, each {_GRAMMAR}. Default: the paper's.")
    dapt: Mapping[str, Any] = option({}, "Pre-training options to change, by name.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dapt_corpus and self.dapt_text:
            raise InvalidConfig("dapt_corpus and dapt_text are both given; pre-train on one of them.")
        if not self.own_labels:
            self.refuse("dapt_ways", "dapt", why="neither dapt_corpus nor dapt_text says what to pre-train on")
        if not self.dapt_corpus:
            self.refuse("dapt_gazetteers", why="only a dapt_corpus has levels")
        if twice := sorted({way for way in self.dapt_ways if self.dapt_ways.count(way) > 1}):
            raise InvalidConfig(f"dapt_ways names {', '.join(twice)} twice; each must be there once.")
        if "masking" in self.dapt:
            raise InvalidConfig("dapt sets masking, which dapt_ways says; leave it out.")
        for label in self.own_labels:
            way = Way.parse(label)
            if self.dapt_text and way.level:
                raise InvalidConfig(f"dapt_ways holds {label!r}, but only a dapt_corpus has levels; leave them out.")
            self.options_of(way)

    @property
    def own_labels(self) -> tuple[str, ...]:
        if not (self.dapt_corpus or self.dapt_text):
            return ()
        return self.dapt_ways or (self.usual_ways if self.dapt_corpus else self.usual_ways_of_text)

    def options_of(self, way: Way) -> DaptOptions:
        """Return the options of a way's pre-training."""
        return DaptOptions.from_dict({**self.begin_with(), **self.dapt, "masking": way.masking})

    def level_of(self, way: Way) -> str:
        """Return the level of the corpus that a way reads; "" for text."""
        return (way.level or self.usual_level) if self.dapt_corpus else ""

    def is_for_all(self, way: Way) -> bool:
        """Return whether a way reads the same text for all corpora: only the domain level ignores entity types."""
        return bool(self.dapt_text) or (self.level_of(way) == DOMAIN and "{corpus}" not in self.dapt_corpus)

    def folder_name(self, label: str) -> str:
        way = Way.parse(label)
        text = [str(Path(path).resolve()) for path in ((self.dapt_corpus,) if self.dapt_corpus else self.dapt_text)]
        level = self.level_of(way)
        # Not the label: studies with the same level and share use the same encoder.
        what = "-".join(part for part in (way.masking, level, f"{way.percent:g}" if way.percent < 100 else "") if part)
        name = named_by(what, text, level, way.percent, self.options_of(way).hash)
        return name if self.is_for_all(way) else f"{{corpus}}-{name}"

    def check_text(self) -> None:
        """Raise NotFound, BadInput or InvalidDomain if the text, or what its levels need, is missing."""
        from crossner_core.domains import load_domain
        from crossner_core.wikipedia.corpus import Corpus

        if self.dapt_text:
            text_files([Path(path) for path in self.dapt_text])
        levels = sorted({self.level_of(Way.parse(label)) for label in self.own_labels} - {DOMAIN})
        for corpus in self.corpora if self.dapt_corpus else ():
            load_domain(corpus)
            wikipedia = Corpus.open(Path(in_corpus(self.dapt_corpus, corpus)))
            if levels and wikipedia.manifest.gazetteer is None:
                raise BadInput(
                    f"The Wikipedia corpus {wikipedia.folder} is not pre-annotated, so it has no {', '.join(levels)} "
                    "level: build it with --gazetteer, or choose ways of the domain level, such as token-domain."
                )

    def events(self, label: str, corpus: str, out: Path, work: Path, should_stop: ShouldStop) -> Events:
        from crossner_core.adaptation.dapt import run_dapt
        from crossner_core.adaptation.texts import from_files, from_level, share_of

        way = Way.parse(label)
        options = self.options_of(way)
        if self.dapt_corpus:
            folder = Path(in_corpus(self.dapt_corpus, corpus))
            gazetteers = Path(self.dapt_gazetteers) if self.dapt_gazetteers else None
            source = from_level(folder, corpus, self.level_of(way), percent=way.percent, gazetteers=gazetteers)
            if self.is_for_all(way):  # whichever corpus comes first
                provenance = {**source.provenance, "corpus": {**source.provenance["corpus"], "domain": ""}}
                source = replace(source, provenance=provenance)
        else:
            source = share_of(from_files([Path(path) for path in self.dapt_text]), way.percent, options)
        return run_dapt(options, source, out=out, work=work, should_stop=should_stop)

    def description(self) -> str:
        text = Path(self.dapt_corpus).name or ", ".join(Path(path).name for path in self.dapt_text)
        return f"Pre-trained by this study on {text}{described_changes(self.dapt)}: {', '.join(self.own_labels)}."


@dataclass(frozen=True)
class TaggingConfig(PretrainingConfig):
    """Encoders by the entity-tagging corpora that they are pre-trained on, one for all corpora of the study."""

    own_fields: ClassVar[tuple[str, ...]] = ("tagged", "tagging")

    tagged: tuple[str, ...] = option(
        (),
        "Entity-tagging corpora (or labelled files) to pre-train encoders on, as LABEL=FOLDER. Empty: use the "
        "encoders given.",
    )
    tagging: Mapping[str, Any] = option({}, "Pre-training options to change, by name.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tagged:
            self.refuse("tagging", why="tagged names nothing to pre-train on")
        if len(self.places) != len(self.tagged):
            raise InvalidConfig(f"tagged is {list(self.tagged)}; the labels must differ.")
        self.options()

    @property
    def places(self) -> dict[str, str]:
        """Return the corpora by label; without one, the label is the folder's name."""
        given = labelled("tagged", self.tagged)
        return {Path(encoder).name if label == encoder else label: encoder for label, encoder in given.items()}

    @property
    def own_labels(self) -> tuple[str, ...]:
        return tuple(self.places)

    def options(self) -> TaggingPretrainOptions:
        """Return the options of the pre-training."""
        return TaggingPretrainOptions.from_dict({**self.begin_with(), **self.tagging})

    def folder_name(self, label: str) -> str:
        return named_by(label, str(Path(self.places[label]).resolve()), self.options().hash)

    def check_text(self) -> None:
        """Raise BadInput if a corpus is missing or is not for entity tagging."""
        from crossner_core.adaptation.texts import check_place

        for encoder in self.places.values():
            check_place(Path(encoder))

    def events(self, label: str, corpus: str, out: Path, work: Path, should_stop: ShouldStop) -> Events:
        from crossner_core.adaptation.entity_tagging import run_entity_tagging
        from crossner_core.adaptation.texts import from_place

        source = from_place(Path(self.places[label]))
        return run_entity_tagging(self.options(), source, out=out, work=work, should_stop=should_stop)

    def description(self) -> str:
        what = ", ".join(f"{label} on {Path(encoder).name}" for label, encoder in self.places.items())
        return f"Pre-trained by this study by entity tagging{described_changes(self.tagging)}: {what}."
