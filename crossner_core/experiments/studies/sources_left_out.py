"""What each of several source corpora is worth: F1 with all of them, less F1 without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined, source_text
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.base import option
from crossner_core.training.recipe import source_weights, type_entries
from crossner_core.training.settings.registry import needs_source, setting_ids


@dataclass(frozen=True)
class SourcesLeftOutConfig(StudyConfig):
    """Sources and a setting that reads them; the map of their types and the temperature are recipe fields."""

    sources: str = option(
        "conll2003, science, literature",
        "Source corpora, separated by commas; NAME*2 counts one twice. None of them may be a target.",
    )
    setting: str = option(
        "pretrain_finetune",
        "Transfer setting of all rows.",
        choices=tuple(id for id in setting_ids() if needs_source(id)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = list(source_weights(self.sources))
        if len(names) < 2:
            raise InvalidConfig(f"sources is {self.sources!r}; name at least two, so that one can be left out.")
        if both := [name for name in names if name in self.corpora]:
            raise InvalidConfig(f"{', '.join(both)} is both a source and a corpus to train on; name it once.")


def rows(config: SourcesLeftOutConfig) -> list[Row]:
    """Return a row with all sources, and one without each, with which the first is compared."""
    names, made = list(source_weights(config.sources)), []
    for label, encoder in each_encoder(config):
        without = tuple(joined(f"without {name}", label) for name in names)
        made.append(Row(joined("all sources", label), _changes(config, names), encoder, against=without))
        for left_out, row_label in zip(names, without, strict=True):
            others = [name for name in names if name != left_out]
            made.append(Row(row_label, _changes(config, others), encoder))
    return made


def _changes(config: SourcesLeftOutConfig, names: Sequence[str]) -> dict[str, str]:
    """Return what a row with these sources changes; what is said of types of others is left out."""
    weights = source_weights(config.sources)
    changes = {
        "setting": config.setting,
        "source": source_text({name: weights[name] for name in names}),
    }
    parts = [part.strip() for part in str(config.recipe.get("source_types", "")).split(",") if part.strip()]
    kept = [part for part in parts if all(of in ("", *names) for _, of in type_entries(part))]
    return changes | ({"source_types": ", ".join(kept)} if kept != parts else {})


grid_study(
    "sources_left_out",
    rows,
    SourcesLeftOutConfig,
    title="What each source is worth",
    question="How much F1 does a target lose without one of its source corpora?",
    reference="Leave one source out; no paper's table",
    corpora=("music", "ai", "politics"),
)
