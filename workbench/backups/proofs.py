"""What two homes with the same content agree in: each gold sentence, and what each kept tagger predicts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_core.errors import CheckpointError, EncoderUnavailable, WorkbenchError
from crossner_core.schema import LabelledSentence, Sentence
from db import campaign_rows, run_rows
from db.engine import Session
from db.training_tables import Run
from workbench.backups.manifest import Entry, Predictions
from workbench.data import layers, snapshots
from workbench.data.datasets import dataset_parts

_SENTENCES = 3
_SCORE_TOLERANCE = 1e-3  # other processors round otherwise


def gold_lines(session: Session) -> Iterator[str]:
    """Yield a line of JSON for each gold sentence: campaign, sentence, and a hash of text, tokens, spans and split.

    Gold that cannot be read is a line with the reason in place of the hash.
    """
    for campaign in sorted(campaign_rows.everything(session), key=lambda campaign: campaign.id):
        try:
            gold = sorted(layers.gold(session, campaign.id), key=lambda item: item.sentence_id)
        except WorkbenchError as error:
            yield json.dumps([campaign.id, None, str(error)])
            continue
        for item in gold:
            yield json.dumps([campaign.id, item.sentence_id, _hash_of(item.labelled, item.split)])


def unreadable_gold(lines: Sequence[str]) -> list[str]:
    """Return, in words, the campaigns whose gold cannot be read."""
    return [
        f"The gold of campaign {campaign_id} cannot be read: {reason}"
        for campaign_id, sentence_id, reason in map(json.loads, lines)
        if sentence_id is None
    ]


def gold_problems(session: Session, expected: Sequence[str]) -> list[str]:
    """Return, in words, how a store's gold differs from these lines."""
    missing = dict.fromkeys(expected)
    extra = [line for line in gold_lines(session) if missing.pop(line, line) is not None]
    differing = {tuple(json.loads(line)[:2]): line for line in (*extra, *missing)}
    if not differing:
        return []
    (campaign_id, sentence_id), _ = next(iter(differing.items()))
    return [
        f"The gold of {len(differing)} sentences differs from the backed up store's, first of sentence {sentence_id} "
        f"in campaign {campaign_id}."
    ]


@dataclass(frozen=True, slots=True)
class KeptTagger:
    """A finished run whose tagger is kept in the folder `checkpoint` of a home, with sentences to try it on."""

    run_id: int
    checkpoint: str
    sentences: tuple[Sentence, ...]


def kept_taggers(session: Session) -> list[KeptTagger]:
    """Return the taggers that the store names, each with the first sentences of its test, dev or training gold."""
    samples: dict[tuple[int | None, int | None], tuple[Sentence, ...]] = {}
    taggers = []
    for run in run_rows.everything(session):
        if run.state != "done" or run.checkpoint is None:
            continue
        key = (run.snapshot_id, run.dataset_id)
        if key not in samples:
            samples[key] = _sample(session, run)
        taggers.append(KeptTagger(run.id, run.checkpoint, samples[key]))
    return taggers


def predictions(
    taggers: Sequence[KeptTagger], home: Path, files: Mapping[str, Entry], known: Sequence[Predictions] = ()
) -> Iterator[Predictions]:
    """Yield what taggers in a home predict; a known prediction is taken where the checkpoint's files are the same.

    `files` are those of the home, by path. PyTorch is loaded only for taggers whose predictions are not known.
    """
    by_run = {item.run_id: item for item in known if item.answers is not None}
    for tagger in taggers:
        content, earlier = _content(tagger.checkpoint, files), by_run.get(tagger.run_id)
        if earlier is not None and earlier.files == content:
            yield earlier
        else:
            yield _predicted(tagger, home, content)


def prediction_problems(recorded: Sequence[Predictions], now: Sequence[Predictions]) -> tuple[list[str], list[str]]:
    """Return what differs from the recorded predictions, and what could not be compared, in words."""
    wrong, skipped = [], []
    by_run = {item.run_id: item for item in now}
    for before in recorded:
        after = by_run.get(before.run_id)
        if before.answers is None or (after is not None and after.answers is None):
            reason = before.problem if before.answers is None or after is None else after.problem
            skipped.append(f"Predictions of run {before.run_id} were not compared: {reason}")
        elif after is None or not _alike(before.answers, after.answers or []):
            wrong.append(f"The tagger of run {before.run_id} predicts otherwise than when it was backed up.")
    return wrong, skipped


def _predicted(tagger: KeptTagger, home: Path, content: str) -> Predictions:
    folder = home / tagger.checkpoint
    if not folder.is_dir():
        return Predictions(tagger.run_id, content, problem=f"{tagger.checkpoint} is not there.")
    try:
        from crossner_core.training.predictor import load_tagger

        suggested = load_tagger(folder, device="cpu", precision="fp32").predict(tagger.sentences)
    except ImportError as error:
        return Predictions(tagger.run_id, content, problem=f"PyTorch cannot be loaded here ({error}).")
    except (CheckpointError, EncoderUnavailable) as error:
        return Predictions(tagger.run_id, content, problem=str(error))
    answers: list[list[list[Any]]] = [
        [[span.start, span.end, span.type, round(span.score, 6)] for span in spans] for spans in suggested
    ]
    return Predictions(tagger.run_id, content, answers)


def _sample(session: Session, run: Run) -> tuple[Sentence, ...]:
    if run.snapshot_id is not None:
        parts = snapshots.content_of(session, run.snapshot_id)[1]
    else:
        assert run.dataset is not None
        parts = dataset_parts(session, run.dataset)
    items = parts["test"] or parts["dev"] or parts.get("train") or parts.get("pool") or ()
    return tuple(item.sentence for item in items[:_SENTENCES])


def _content(checkpoint: str, files: Mapping[str, Entry]) -> str:
    """Return a hash of the names and contents of a checkpoint's files."""
    inside = sorted((name, entry.sha256) for name, entry in files.items() if name.startswith(f"{checkpoint}/"))
    return hashlib.sha256(json.dumps(inside).encode()).hexdigest()


def _alike(before: Sequence[Sequence[Sequence[Any]]], after: Sequence[Sequence[Sequence[Any]]]) -> bool:
    """Return whether spans are the same and their scores nearly so."""
    if [[span[:3] for span in spans] for spans in before] != [[span[:3] for span in spans] for spans in after]:
        return False
    pairs = zip((s[3] for spans in before for s in spans), (s[3] for spans in after for s in spans), strict=True)
    return all(abs(first - second) <= _SCORE_TOLERANCE for first, second in pairs)


def _hash_of(item: LabelledSentence, split: str) -> str:
    tokens = [[token.start, token.end] for token in item.sentence.tokens]
    spans = sorted([span.start, span.end, span.type] for span in item.spans)
    return hashlib.sha256(json.dumps([item.sentence.text, tokens, spans, split]).encode()).hexdigest()
