"""Entity-tagging pre-training: F1 that rises, resuming, windows on disk, tagged corpora, and the encoder it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from crossner_core.adaptation.__main__ import main
from crossner_core.adaptation.entity_tagging import EntityTaggingTask, run_entity_tagging
from crossner_core.adaptation.prepared import CHUNK, Arrays, Buckets, TaggedWindows, prepare_windows
from crossner_core.adaptation.pretraining import PretrainEvent, PretrainResult, read_result
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import BadInput, CheckpointMismatch, UnknownType
from crossner_core.formats import write
from crossner_core.models.heads import head_tags
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.loop import train
from crossner_core.wikipedia.entity_tagging import TaggingConfig, build_tagging_corpus
from crossner_core.wikipedia.tagged_corpus import read_tagged
from tests.support.corpus_builders import make_corpus
from tests.support.training_builders import (
    TYPES,
    labelled,
    own_sentences,
    save_encoder,
    tiny_data,
    tiny_encoder,
    tiny_recipe,
)

SENTENCES, HELD_OUT = own_sentences(48), own_sentences(16, offset=60)


def options(**changes: object) -> TaggingPretrainOptions:
    values: dict[str, object] = {
        "learning_rate": 5e-3,
        "head_learning_rate": 1e-2,
        "epochs": 3,
        "batch_size": 8,
        "device": "cpu",
        "precision": "fp32",
    }
    return TaggingPretrainOptions.from_dict({**values, **changes})


def run_all(folder: Path, given: TaggingPretrainOptions, **changes: object) -> list[PretrainEvent]:
    values: dict[str, object] = {
        "sentences": lambda: iter(SENTENCES),
        "held_out": HELD_OUT,
        "types": TYPES,
        "encoder": tiny_encoder(),
    }
    made = {**values, **changes}
    held_out = made.pop("held_out")
    aside = None if held_out is None else lambda: iter(held_out)  # type: ignore[call-overload]
    text = PretrainText(made.pop("sentences"), aside, made.pop("types"))  # type: ignore[arg-type]
    return list(run_entity_tagging(given, text, out=folder / "out", work=folder / "work", **made))  # type: ignore[arg-type]


def result_of(events: list[PretrainEvent]) -> PretrainResult:
    assert events[-1].result is not None and events[-1].outcome == "done"
    return events[-1].result


def prepare(folder: Path, sentences: Iterator[LabelledSentence], max_length: int = 64) -> Iterator[int]:
    text = PretrainText(lambda: iter(sentences), lambda: iter(HELD_OUT), TYPES)
    return prepare_windows(folder, text, tiny_encoder(), max_length, share=0.1, seed=0, meta={})


def test_windows_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    list(prepare(tmp_path, iter(SENTENCES), max_length=16))
    stored = TaggedWindows(Arrays(tmp_path / "train"))
    windows = tiny_encoder().windows([item.sentence for item in SENTENCES], 16)
    found, tags = stored.read(range(len(stored)))
    assert [(one.input_ids, one.positions) for one in found] == [(one.input_ids, one.positions) for one in windows]
    names = head_tags(TYPES)
    for window, known in zip(windows, tags, strict=True):
        item = SENTENCES[window.sentence]
        expected = tags_from_spans(item.spans, len(item.sentence.tokens))[window.start : window.end]
        assert [names[tag] for tag in known] == list(expected)


def test_windows_are_written_as_the_corpus_is_read(tmp_path: Path) -> None:
    read = 0

    def many() -> Iterator[LabelledSentence]:
        nonlocal read
        for read in range(1, 5_001):
            yield SENTENCES[read % len(SENTENCES)]

    for number, _ in zip(count(1), prepare(tmp_path, many()), strict=False):
        assert read <= number * CHUNK
    assert len(TaggedWindows(Arrays(tmp_path / "train"))) == 5_000


def test_buckets_hold_each_window_once_an_epoch_and_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(5, 100, 70_000).astype(np.uint32)
    buckets = Buckets(lengths, 4)  # more than one part
    batches = [buckets.batch((7, 1, 0), number) for number in range(len(buckets))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(70_000))
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert padded < 1.25 * int(lengths.sum())
    assert not np.array_equal(buckets.batch((7, 1, 1), 0), batches[0])
    assert np.array_equal(Buckets(lengths, 4).batch((7, 1, 0), 17_000), batches[17_000])


def test_entity_tagging_raises_held_out_f1(tmp_path: Path) -> None:
    result = result_of(run_all(tmp_path, options()))
    assert result.after > 0.9 > 0.3 > result.before and result.is_better
    assert (result.kind, result.measure) == ("entity_tagging", "f1")
    assert result.after == max(one.value for one in result.history)  # the best is kept
    assert result.provenance["types"] == list(TYPES) and read_result(tmp_path / "out") == result


def test_entity_tagging_encoder_goes_into_a_recipe(tmp_path: Path) -> None:
    result = result_of(run_all(tmp_path, options(epochs=1)))
    assert load_encoder(result.encoder).fingerprint == result.provenance["fingerprint"]
    *_, last = train(tiny_recipe(encoder=result.encoder, max_epochs=1), tiny_data(), checkpoint_dir=tmp_path / "run")
    assert last.result is not None and last.result.outcome == "all_epochs"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return result_of(run_all(tmp_path_factory.mktemp("whole"), options(head_first_steps=3, accumulate=2, epochs=2)))


@pytest.mark.parametrize("stop_at", [2, 6, 14])
def test_entity_tagging_resumed_equals_uninterrupted(
    tmp_path: Path, uninterrupted: PretrainResult, stop_at: int
) -> None:
    whole, given = uninterrupted, options(head_first_steps=3, accumulate=2, epochs=2)
    asked = count(1)
    parts = run_all(tmp_path / "parts", given, should_stop=lambda: next(asked) == stop_at)
    assert parts[-1].outcome == "stopped"
    resumed = result_of(run_all(tmp_path / "parts", given))
    same = {"encoder": "", "seconds": 0.0, "peak_memory_mb": 0.0}
    assert replace(resumed, **same) == replace(whole, **same)  # type: ignore[arg-type]


def test_entity_tagging_accumulated_steps_are_the_same(tmp_path: Path) -> None:
    list(prepare(tmp_path, iter(SENTENCES)))
    losses = []
    for parts in (1, 3):
        given = options(accumulate=parts, dropout=0.0)
        arrays = Arrays(tmp_path / "train"), Arrays(tmp_path / "held_out")
        task = EntityTaggingTask(given, TYPES, tiny_encoder(dropout=0.0), *arrays)
        task.model.head.weight.data.fill_(0.1)
        losses.append(sum(task.loss(part).item() for part in task.batch(1, 0, 0, given.accumulate).parts))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_entity_tagging_splits_ninety_to_ten_without_sharing_sentences(tmp_path: Path) -> None:
    made = tuple(labelled(["Ines", "sang", "un" * (at + 1)], [(0, 1, "person")], id=str(at)) for at in range(300))
    result = result_of(
        run_all(tmp_path, options(epochs=1, max_steps=1), sentences=lambda: iter(made * 2), held_out=None)
    )
    held_out = result.provenance["held_out_windows"]
    assert 30 <= held_out <= 90 and held_out % 2 == 0  # a sentence and its copy go the same way
    assert held_out + result.provenance["corpus_windows"] == 600


def test_entity_tagging_refuses_bad_questions(tmp_path: Path) -> None:
    with pytest.raises(UnknownType, match="band, location"):
        run_all(tmp_path, options(), types=("person",))
    with pytest.raises(BadInput, match="without duplicates"):
        run_all(tmp_path, options(), types=("person", "person"))
    with pytest.raises(BadInput, match="no labelled sentence"):
        run_all(tmp_path, options(), sentences=lambda: iter(()))
    result_of(run_all(tmp_path, options(epochs=1, max_steps=1)))
    with pytest.raises(CheckpointMismatch, match="corpus"):
        run_all(tmp_path, options(epochs=1, max_steps=1), types=TYPES[::-1])


def test_command_pre_trains_on_a_tagged_corpus_and_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--encoder", str(save_encoder(tmp_path / "encoder")), "--epochs", "1", "--device", "cpu"]
    tagged = tmp_path / "tagged"
    build_tagging_corpus(make_corpus(tmp_path), tagged, TaggingConfig(min_entities=1))
    split = ["--held-out-share", "0.3"]
    assert main(["entity-tagging", "--tagged", str(tagged), "--out", str(tmp_path / "a"), *split, *common]) == 0
    types = {span.type for item in read_tagged(tagged) for span in item.spans}
    assert len(types) > 3 and set(read_result(tmp_path / "a").provenance["types"]) == types
    file = tmp_path / "own.conll"
    file.write_text(write(SENTENCES, "conll"))
    given = ["--labelled", str(file), "--held-out", str(file), "--batch-size", "4"]
    assert main(["entity-tagging", *given, "--out", str(tmp_path / "b"), *common]) == 0
    assert sorted(read_result(tmp_path / "b").provenance["types"]) == sorted(TYPES)
    assert "F1" in capsys.readouterr().out
