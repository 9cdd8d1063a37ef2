"""A run's model leaves by command and as a zip of the page."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from crossner_core.errors import CheckpointError, InvalidConfig, NotAllowed
from crossner_core.exports.decoder import Tagger
from crossner_core.training.predictor import load_tagger
from db.engine import Store
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.runs import adaptation, exporting

pytestmark = pytest.mark.slow


def test_export_of_a_run_by_its_number_and_as_a_zip(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.setenv("CROSSNER_DATABASE_URL", str(store.url))
    admin, checkpoints = person(store, "admin"), tmp_path / "checkpoints"
    data = own_dataset(store, admin)
    run = adaptation.start_run(store, admin, dataset_id=data.id, recipe=recipe_here(tmp_path))
    with pytest.raises(CheckpointError, match="no checkpoint: it is queued"):
        exporting.export_run(store, admin, run, to="onnx", folder=tmp_path / "out", checkpoints=checkpoints)
    work(store, tmp_path)
    exporting.export_run(store, admin, run, to="onnx", folder=tmp_path / "out", checkpoints=checkpoints)
    sentences = [item.sentence for item in own_sentences(8)]
    ours = load_tagger(checkpoints / f"run-{run}", device="cpu").predict_spans(sentences)
    theirs = Tagger.load(tmp_path / "out").tag([sentence.words for sentence in sentences])
    assert [[(s.start, s.end, s.type) for s in spans] for spans in theirs] == [
        [(s.start, s.end, s.type) for s in spans] for spans in ours
    ]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "data set own" in card and "| person |" in card and "max_epochs" in card
    packed = exporting.export_zip(store, admin, run, to="huggingface")
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert f"run-{run}-huggingface/pipeline.py" in names and f"run-{run}-huggingface/model.safetensors" in names
    with pytest.raises(InvalidConfig, match="choose one of huggingface, onnx, spacy"):
        exporting.export_zip(store, admin, run, to="paper")
    with pytest.raises(InvalidConfig, match="no int8 weights for huggingface"):
        exporting.export_zip(store, admin, run, to="huggingface", int8=True)
    with pytest.raises(NotAllowed):
        exporting.export_zip(store, person(store, "annotator"), run, to="onnx")
