"""Character language models: rows of whole documents, bits that fall, resuming, going on, and the encoder they make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from crossner_core.adaptation.__main__ import main
from crossner_core.adaptation.character_models import (
    CharacterTask,
    Rows,
    frequent_characters,
    run_character_models,
    split_into_tokens,
)
from crossner_core.adaptation.prepared import Arrays, ArrayWriter
from crossner_core.adaptation.pretraining import PretrainEvent, PretrainResult, read_result
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.flair import EDGE, PADDING, Body, Flair
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import BadInput, EncoderUnavailable
from crossner_core.options.character_models import CharacterModelOptions
from tests.support.training_builders import own_sentences, save_encoder

DOCUMENTS = [item.sentence.words for item in own_sentences(60)]
HELD_OUT = [item.sentence.words for item in own_sentences(20, offset=200)]


def options(**changes: object) -> CharacterModelOptions:
    values: dict[str, object] = {
        "hidden_size": 16, "row_length": 80, "batch_size": 8, "learning_rate": 2e-2, "epochs": 3, "device": "cpu",
    }  # fmt: skip
    return CharacterModelOptions.from_dict({**values, **changes})


def text_of(documents: Sequence[Sequence[str]] = DOCUMENTS) -> PretrainText[Sequence[str]]:
    return PretrainText(lambda: iter(documents), lambda: iter(HELD_OUT))


def run_all(folder: Path, given: CharacterModelOptions, **changes: object) -> list[PretrainEvent]:
    return list(run_character_models(given, text_of(), out=folder / "out", work=folder / "work", **changes))  # type: ignore[arg-type]


def result_of(events: list[PretrainEvent]) -> PretrainResult:
    assert events[-1].result is not None and events[-1].outcome == "done"
    return events[-1].result


def arrays(folder: Path, documents: Sequence[Sequence[int]]) -> Arrays:
    with ArrayWriter(folder, {"ids": "<u2"}) as writer:
        for ids in documents:
            writer.add(ids=np.asarray([EDGE, *ids]))
        writer.finish({})
    return Arrays(folder)


def bits_one_at_a_time(body: Body, texts: Sequence[Sequence[int]]) -> float:
    """Return the bits per character of texts with their edges, read character by character by both models."""
    nats, count = 0.0, 0
    with torch.no_grad():
        for text in texts:
            for model, numbers in ((body.onward, list(text)), (body.backward, list(reversed(text)))):
                state = None
                for number, wanted in pairwise(numbers):
                    output, state = model.lstm(model.characters(torch.tensor([[number]])), state)
                    nats -= float(model.scores(output[0, 0]).log_softmax(-1)[wanted])
                    count += 1
    return nats / count / math.log(2)


def test_rows_are_whole_documents_and_a_long_one_is_cut(tmp_path: Path) -> None:
    documents = [[7, 8, 9], [5], [4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8], [6, 6], [7]]
    rows = Rows(arrays(tmp_path / "a", documents), 8)
    texts = [[number for number in row if number != PADDING] for row in rows.text(range(len(rows))).tolist()]
    assert texts == [
        [EDGE, 7, 8, 9, EDGE, 5, EDGE],
        [EDGE, 4, 5, 6, 7, 8, 9, 4],
        [4, 5, 6, 7, 8, EDGE],
        [EDGE, 6, 6, EDGE, 7, EDGE],
    ]
    joined = [EDGE, *(number for row in texts for number in row[1:])]
    assert joined == [*(number for ids in documents for number in (EDGE, *ids)), EDGE]
    assert rows.text([0, 3]).shape == (2, 7)


def test_its_measure_is_that_of_reading_one_character_at_a_time(tmp_path: Path) -> None:
    encoder = Flair.make({"characters": "abcdef", "hidden_size": 5})
    documents = [[4, 5, 6, 5], [9, 1, 4], [8], [4] * 30]
    task = CharacterTask(options(), encoder, arrays(tmp_path / "a", documents), arrays(tmp_path / "b", documents[:3]))
    task.model.eval()
    with torch.no_grad():
        measured = task.measure()
        parts = task.batch(1, 0, 0, 3).parts
        loss = sum(float(task.loss(part)) for part in parts)
    assert measured == pytest.approx(
        bits_one_at_a_time(encoder.model, [[2, 4, 5, 6, 5, 2, 9, 1, 4, 2, 8, 2]]), rel=1e-5
    )
    whole = [2, 4, 5, 6, 5, 2, 9, 1, 4, 2, 8, 2, *[4] * 30, 2]
    assert loss == pytest.approx(bits_one_at_a_time(encoder.model, [whole]) * math.log(2), rel=1e-5)


def test_the_most_frequent_characters_are_told_apart_without_halves_of_pairs() -> None:
    assert frequent_characters(iter([["aab", "𝕏𝕏𝕏"], ["\ud800\ud800", "c"]]), 3) == "𝕏ab"
    with pytest.raises(BadInput, match="no text to train on"):
        frequent_characters(iter([[]]), 3)


def test_bits_fall_and_the_same_seed_makes_the_same_encoder(tmp_path: Path) -> None:
    first, again = (result_of(run_all(tmp_path / name, options())) for name in "ab")
    assert first.measure == "bits per character" and first.is_better
    assert first.before > 4.5 and first.after < 4
    assert first.history == again.history and first.provenance["fingerprint"] == again.provenance["fingerprint"]
    other = result_of(run_all(tmp_path / "c", options(seed=1)))
    assert other.before != first.before
    encoder = load_encoder(str(tmp_path / "a" / "out"))
    assert isinstance(encoder, Flair) and encoder.fingerprint == first.provenance["fingerprint"]
    assert set(encoder.chosen.characters) == {character for words in DOCUMENTS for word in words for character in word}
    assert run_all(tmp_path / "a", options())[0].message == "This pre-training has already finished."


def test_a_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    whole = result_of(run_all(tmp_path / "whole", options()))
    steps = iter(range(1, 1000))
    cut = run_all(tmp_path / "cut", options(), should_stop=lambda: next(steps) == 7)
    assert cut[-1].outcome == "stopped" and 0 < cut[-1].step < whole.steps
    end = result_of(run_all(tmp_path / "cut", options()))
    assert (end.history, end.provenance["fingerprint"]) == (whole.history, whole.provenance["fingerprint"])


def test_models_go_on_from_where_others_ended(tmp_path: Path) -> None:
    first = result_of(run_all(tmp_path / "a", options()))
    second = result_of(run_all(tmp_path / "b", options(encoder=str(tmp_path / "a" / "out"))))
    assert second.before == pytest.approx(first.after) and second.after < first.after
    with pytest.raises(EncoderUnavailable, match="is no folder of character models alone"):
        run_all(tmp_path / "c", options(encoder=str(save_encoder(tmp_path / "bert"))))


def test_parts_of_a_batch_make_the_same_step(tmp_path: Path) -> None:
    whole, parts = (result_of(run_all(tmp_path / str(n), options(epochs=1, accumulate=n))) for n in (1, 3))
    assert parts.after == pytest.approx(whole.after, rel=1e-3) and parts.tokens == whole.tokens


def test_running_text_is_split_into_tokens() -> None:
    def read() -> Iterator[Sequence[str]]:
        return iter([["Ines", "toured", "Oslo,", "twice."]])

    split = split_into_tokens(PretrainText(read, provenance={"corpus": "a"}))
    assert list(split.items()) == [["Ines", "toured", "Oslo", ",", "twice", "."]] and split.held_out is None
    assert split.provenance == {"corpus": {"split": "a"}}


def test_command_trains_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{' '.join(words)}\n" for words in DOCUMENTS), encoding="utf-8")
    common = ["--hidden-size", "8", "--row-length", "80", "--batch-size", "20", "--device", "cpu"]
    given = ["--text", str(text), "--out", str(tmp_path / "out"), "--held-out-share", "0.2", "--percent", "60"]
    assert main(["character-models", *given, *common]) == 0
    shown = capsys.readouterr().out
    assert "Before: held-out bits per character" in shown and "Done: held-out bits per character" in shown
    assert read_result(tmp_path / "out").provenance["corpus"]["split"]["percent"] == 60
    assert main(["character-models", *given, *common, "--no-split"]) == 1
    assert "was made with another corpus" in capsys.readouterr().err
    assert main(["character-models", "--out", str(tmp_path / "other"), *common]) == 2
    assert "name one of --text, --labelled, --corpus" in capsys.readouterr().err
    assert main(["character-models", *given, *common, "--refit-head"]) == 2
    capsys.readouterr()
    assert main(["character-models", *given, *common, "--recipe", '{"head_first_steps": 30, "refit_head": false}']) != 0
    assert "head_first_steps is 30, but has no effect with this command; leave it out" in capsys.readouterr().err
