"""Taggers to export, what they find, and processes without the workbench that read an export."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.calibration.model_scores import Calibration
from crossner_core.calibration.span_maps import SpanMap
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.words import Words
from crossner_core.exports.base import About
from crossner_core.models.base import TypeTexts
from crossner_core.schema import LabelledSentence, Sentence, sentence_from_words
from crossner_core.training.predictor import Predictor, build_model
from tests.support.training_builders import TYPES, own_sentences, tiny_encoder, tiny_recipe

ABOUT = About("tiny-run-3", "data set own")
# Large LSTMs of such weights are chaotic: rounding alone changes what they find.
SMALL = {"lstm_size": 12, "span_size": 7, "cell_size": 9, "label_size": 8}
# Decided by few weights, so that many spans of all kinds are found without training.
CALIBRATED = Calibration(1.7, SpanMap("beta", ((0.8, 0.6), (0.2,))))


def predictor(architecture: str = "tagger", *, encoder: Encoder | None = None, **options: Any) -> Predictor:
    """Return a tagger with drawn weights whose windows hold 24 positions; its head has a type that it may not use."""
    encoder = encoder or tiny_encoder()
    recipe = tiny_recipe(architecture=architecture, encoder=encoder.name, **{**SMALL, **options})
    torch.manual_seed(5)
    model = build_model(recipe, encoder, (*TYPES, "source_only"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("encoder."):
                parameter.add_(0.5 * torch.randn_like(parameter))
    if recipe.reads_texts:
        model.describe(TypeTexts({name: torch.randn(2, encoder.hidden_size) for name in (*TYPES, "source_only")}))
    meta = {
        "recipe": recipe.to_dict(),
        "recipe_hash": "r",
        "snapshot": "s" * 64,
        "encoder": encoder.name,
        "encoder_hash": "e",
    }
    made = Predictor(model.eval(), encoder, TYPES, max_length=24, meta=meta)
    made.calibrate(CALIBRATED)
    return made


def word_encoder(folder: Path, *parts: str) -> Words:
    """Return an encoder of words with a file of vectors written into `folder`; `parts` go on with its name."""
    file = folder / "vectors.txt"
    words = ["the", "oslo", "Oslo", "leeds", "Marble", "sang", "in", "."]
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(len(words), 12, generator=generator).tolist()
    lines = (" ".join([word, *(f"{value:.3f}" for value in row)]) for word, row in zip(words, rows, strict=True))
    file.write_text("\n".join(lines), encoding="utf-8")
    return Words.new(",".join([str(file), *parts]))


def sentences() -> list[Sentence]:
    """Return sentences, one of them long enough for several windows, one with words the encoder does not know."""
    items: list[LabelledSentence] = list(own_sentences(20))
    long = [word for item in items[:12] for word in item.sentence.words]
    strange = ["O'Brien", "\u200b", "unable", "Zürich", "'s", "(", "Leeds"]
    return [*(item.sentence for item in items), sentence_from_words(long, id="l"), sentence_from_words(strange, id="x")]


def found(tagger: Predictor, given: Sequence[Sentence] = ()) -> list[list[tuple[int, int, str, float]]]:
    """Return the tagger's own spans with their scores, in `sentences()` or others."""
    return [[(s.start, s.end, s.type, s.score) for s in spans] for spans in tagger.predict(given or sentences())]


def assert_same(theirs: list[Any], ours: list[list[tuple[int, int, str, float]]]) -> None:
    """Compare spans, which must be equal, and scores, which may differ in their last digits."""
    assert sum(map(len, ours)) > 40
    assert [[tuple(span[:3]) for span in spans] for spans in theirs] == [[span[:3] for span in spans] for spans in ours]
    scores = [[span[3] for spans in answers for span in spans] for answers in (theirs, ours)]
    assert scores[0] == pytest.approx(scores[1], abs=2e-5)


def elsewhere(place: Path, code: str, *, without: tuple[str, ...] = (), **values: object) -> Any:
    """Run code in a process that cannot import the workbench, nor what is named; return the JSON it prints."""
    (place / "values.json").write_text(json.dumps(values))
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in (*without, "crossner_core"))
    script = f"import json, sys\n{blocked}values = json.load(open('values.json'))\n{code}"
    environment = {**os.environ, "HF_HOME": str(place / "hub"), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


READ_ONNX = """
sys.path.insert(0, values["folder"])
from decoder import Tagger
tagger = Tagger.load(values["folder"], threads=1)
print(json.dumps([tagger.tag(values["words"]), tagger.tag(values["words"], batch_size=1)]))
"""
