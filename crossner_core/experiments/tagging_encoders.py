"""Config of studies that pre-train their encoders by entity tagging (NER-BERT), each on a corpus of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from crossner_core.adaptation.pretraining import Events, ShouldStop
from crossner_core.errors import InvalidConfig
from crossner_core.experiments.pretrained import PretrainingConfig, described_changes, named_by
from crossner_core.experiments.study import labelled
from crossner_core.options.base import option
from crossner_core.options.entity_tagging import TaggingPretrainOptions


@dataclass(frozen=True)
class TaggingConfig(PretrainingConfig):
    """Encoders by the entity-tagging corpora that they are pre-trained on, one for all corpora of the study."""

    own_fields: ClassVar[tuple[str, ...]] = ("tagged", "tagging")

    tagged: tuple[str, ...] = option(
        (),
        "Entity-tagging corpora (or labelled files) to pre-train encoders on, as LABEL=FOLDER. "
        "None means the encoders given.",
    )
    tagging: Mapping[str, Any] = option({}, "Options of that pre-training to change, by name.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tagged:
            self.refuse("tagging", why="tagged names nothing to pre-train on")
        if len(self.places) != len(self.tagged):
            raise InvalidConfig(f"tagged is {list(self.tagged)}; the labels must differ.")
        self.options()

    @property
    def places(self) -> dict[str, str]:
        """Return the corpora by label; that of one without is its folder's name."""
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
        """Raise BadInput where a corpus is not there, or is none of entity tagging."""
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
