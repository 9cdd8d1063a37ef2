"""Config of studies that pre-train their encoders as masked language models (DAPT), each in its way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from crossner_core.adaptation.pretraining import Events, ShouldStop
from crossner_core.adaptation.texts import text_files
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.experiments.pretrained import PretrainingConfig, described_changes, in_corpus, named_by
from crossner_core.options.base import option
from crossner_core.options.dapt import DaptOptions

DOMAIN = "domain"  # the level that is all of a corpus, as in `wikipedia.levels`, which needs pyarrow
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
        "Wikipedia corpus to pre-train encoders on, by its folder, in which {corpus} stands for the study's corpus. "
        "Empty: the encoders are those given.",
    )
    dapt_gazetteers: str = option(
        "",
        "Folder of gazetteers: that which annotated the Wikipedia corpus is looked for there by its name, and its "
        "classes say what the entity types of a level are. Empty: the folder gazetteers beside that of the corpora.",
    )
    dapt_text: tuple[str, ...] = option((), "Text files to pre-train encoders on in place of a Wikipedia corpus.")
    dapt_ways: tuple[str, ...] = option((), f"Ways to pre-train, each {_GRAMMAR}. None means the paper's.")
    dapt: Mapping[str, Any] = option({}, "Options of that pre-training to change, by name.")

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
        """Return the level of the corpus that a way reads; "" of a text."""
        return (way.level or self.usual_level) if self.dapt_corpus else ""

    def is_for_all(self, way: Way) -> bool:
        """Say whether a way reads the same text for all corpora: no level but the whole knows of entity types."""
        return bool(self.dapt_text) or (self.level_of(way) == DOMAIN and "{corpus}" not in self.dapt_corpus)

    def folder_name(self, label: str) -> str:
        way = Way.parse(label)
        text = [str(Path(path).resolve()) for path in ((self.dapt_corpus,) if self.dapt_corpus else self.dapt_text)]
        level = self.level_of(way)
        # Not by the label: studies that mean the same level and share share the encoder.
        what = "-".join(part for part in (way.masking, level, f"{way.percent:g}" if way.percent < 100 else "") if part)
        name = named_by(what, text, level, way.percent, self.options_of(way).hash)
        return name if self.is_for_all(way) else f"{{corpus}}-{name}"

    def check_text(self) -> None:
        """Raise NotFound, BadInput or InvalidDomain where the text, or what its levels need, is not there."""
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
