"""Tag the sentences of a file with a trained checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossner_core.errors import NotFound
from crossner_core.formats import read_bytes, write
from crossner_core.formats.base import Record
from db import run_rows
from db.engine import Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.data.snapshots import MAY_CHANGE


def folder_of_run(store: Store, actor: Actor, run_id: int, checkpoints: Path) -> Path:
    """Return the folder of a run's checkpoint; raise CheckpointError where there is none or it is gone."""
    from workbench.running import checkpoint_folder

    require(actor, *MAY_CHANGE)
    with store.read() as session:
        run = run_rows.get(session, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.")
        if run.campaign_id is not None:
            enter(session, actor, run.campaign_id, *MAY_CHANGE)
        else:
            fresh(session, actor, *MAY_CHANGE)
        return checkpoint_folder(run, checkpoints)


def tag_file(
    checkpoint: Path, data: bytes, *, name: str, format: str | None, to: str, options: Mapping[str, Any] | None = None
) -> bytes:
    """Read sentences of any format and write them with the checkpoint's predicted entities."""
    from crossner_core.training.predictor import load_tagger

    parsed = read_bytes(data, name=name, format=format, **(options or {}))
    sentences = [record.sentence for record in parsed.sentences]
    predicted = load_tagger(checkpoint).predict_spans(sentences)
    records = [Record(sentence, spans) for sentence, spans in zip(sentences, predicted, strict=True)]
    return write(records, to).encode("utf-8")
