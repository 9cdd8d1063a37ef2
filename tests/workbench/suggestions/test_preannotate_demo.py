"""The bundled sample on the demo's own sentences: about the paper's share of the entities, and mostly right."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from crossner_core.domains import load_domain
from crossner_core.formats import read_bytes
from crossner_core.gazetteer.lookup import EmbeddedSource
from crossner_core.gazetteer.preannotate import Preannotator

DEMO = Path(workbench.__file__).parent / "demo"
PAPER_SHARE = 0.6364


@pytest.mark.parametrize("name", ["music", "politics"])
def test_preannotate_demo_covers_about_two_thirds_of_the_entities(name: str) -> None:
    path = DEMO / f"{name}.jsonl"
    records = read_bytes(path.read_bytes(), name=path.name).sentences
    suggestions = Preannotator([EmbeddedSource()], load_domain(name)).suggest([record.sentence for record in records])
    gold = {(record.sentence.id, span) for record in records for span in record.spans or ()}
    said = {(record.sentence.id, item.span) for record, row in zip(records, suggestions, strict=True) for item in row}
    assert abs(len(gold & said) / len(gold) - PAPER_SHARE) < 0.06
    assert len(gold & said) / len(said) > 0.9
