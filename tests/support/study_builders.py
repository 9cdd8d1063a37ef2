"""Builders for tests of studies in the app: a data folder of small corpora, and a result as a run would leave it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_core.experiments.results import StudyResult, write_study
from crossner_core.experiments.tables import Measured, Table
from crossner_core.formats import write
from crossner_core.schema import LabelledSentence, Span
from tests.support.training_builders import own_sentences, tiny_recipe

RENAMED = {"conll2003": {"band": "organisation"}, "music": {}, "politics": {"band": "politicalparty"}}


def data_folder(folder: Path) -> Path:
    """Write small corpora of own sentences under names that the studies know."""
    for name, types in RENAMED.items():
        (folder / name).mkdir(parents=True)
        for split, count, offset in (("train", 16, 0), ("dev", 4, 30), ("test", 6, 40)):
            items = _renamed(own_sentences(count, offset=offset), types)
            (folder / name / f"{split}.jsonl").write_text(write(items, "jsonl"), encoding="utf-8")
    return folder


def _renamed(items: tuple[LabelledSentence, ...], types: dict[str, str]) -> tuple[LabelledSentence, ...]:
    def spans(item: LabelledSentence) -> tuple[Span, ...]:
        return tuple(Span(one.start, one.end, types.get(one.type, one.type)) for one in item.spans)

    return tuple(replace(item, spans=spans(item)) for item in items)


def small_config(encoder: str, **changes: Any) -> dict[str, Any]:
    """Return a study's config that trains in a moment: one corpus, one seed, one epoch."""
    base = tiny_recipe().to_dict()
    small = {name: base[name] for name in ("learning_rate", "batch_size", "max_length", "device", "upsample")}
    recipe = {**small, "encoder": encoder, "max_epochs": 1, "source_epochs": 1, "head_first_epochs": 0}
    return {"corpora": ["music"], "seeds": [1], "recipe": recipe, **changes}


def made_result(out: Path, **changes: Any) -> StudyResult:
    """Leave a result of the study `transfer` in a folder of experiments, as if it had been run."""
    figure = {"data": [{"type": "bar", "x": ["music"], "y": [70.5]}], "layout": {"title": {"text": "F1"}}}
    rows = (
        ("direct", Measured(70.5, 1.25, 3, published=66.59), 3),
        ("joint", Measured(None), 0),
        ("joint − direct", Measured(-2.0, None, 1, signed=True), 1),
    )
    values: dict[str, Any] = {
        "id": "transfer",
        "title": "Transfer settings and encoders",
        "question": "What helps?",
        "reference": "A paper, table 2",
        "tables": (Table("Means", ("", "music", "n"), rows, "F1 in percent."),),
        "notes": ("science is not there.",),
        "config": {"seeds": [1, 2, 3], "recipe": {"learning_rate": 3e-4, "device": "cpu"}},
        "recipe": tiny_recipe(learning_rate=3e-4).to_dict(),
        "seeds": (1, 2, 3),
        "corpora": ("music",),
        "encoders": ({"label": "own", "name": "tiny", "fingerprint": "0123456789abcdef"},),
        "machines": ("A small machine, 2 cores",),
        "versions": {"torch": "2"},
        "made_at": "2026-11-20T10:30:00+00:00",
        "cells": ("aa", "bb", "cc"),
        "missing": ("music joint seed 2: Memory ran out.",),
        "figure": figure,
    }
    result = StudyResult(**{**values, **changes})
    write_study(out, result)
    return result
