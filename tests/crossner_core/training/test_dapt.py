"""DAPT: blocks that cover the corpus once, perplexity that falls, resuming, bad corpora, and the encoder it makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from crossner_core.adaptation import pretraining_job
from crossner_core.adaptation.__main__ import main
from crossner_core.adaptation.dapt import DaptTask, MaskedLanguageModel, fits, run_dapt, trained_head
from crossner_core.adaptation.prepared import Arrays, Blocks, WordIds, prepare_blocks
from crossner_core.adaptation.pretraining import PretrainEvent, PretrainResult, read_result
from crossner_core.adaptation.texts import (
    CHUNK,
    PretrainText,
    from_files,
    from_level,
    is_held_out,
    share_of,
    text_files,
)
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import BadInput, CheckpointMismatch, InvalidConfig, NotFound, StorageError
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.training.engine import TaskRun
from crossner_core.training.loop import train
from tests.support.corpus_builders import make_corpus
from tests.support.training_builders import own_sentences, save_encoder, tiny_data, tiny_encoder, tiny_recipe

DOCUMENTS = [item.sentence.words for item in own_sentences(60)]
HELD_OUT = [item.sentence.words for item in own_sentences(20, offset=200)]


def options(**changes: object) -> DaptOptions:
    values: dict[str, object] = {
        "learning_rate": 5e-3,
        "head_learning_rate": 5e-3,
        "epochs": 3,
        "head_first_steps": 4,
        "block_size": 24,
        "batch_size": 8,
        "device": "cpu",
        "precision": "fp32",
    }
    return DaptOptions.from_dict({**values, **changes})


def texts() -> Iterator[Sequence[str]]:
    return iter(DOCUMENTS)


def text_of(
    source: Callable[[], Iterator[Sequence[str]]],
    held_out: Sequence[Sequence[str]] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> PretrainText[Sequence[str]]:
    aside = None if held_out is None else lambda: iter(held_out)
    return PretrainText(source, aside, provenance=provenance or {})


def run_all(folder: Path, given: DaptOptions, **changes: object) -> list[PretrainEvent]:
    changes.setdefault("encoder", tiny_encoder())
    source, held_out = changes.pop("texts", texts), changes.pop("held_out", HELD_OUT)
    provenance = changes.pop("provenance", {})
    text = text_of(source, held_out, provenance)  # type: ignore[arg-type]
    return list(run_dapt(given, text, out=folder / "out", work=folder / "work", **changes))  # type: ignore[arg-type]


def result_of(events: list[PretrainEvent]) -> PretrainResult:
    assert events[-1].result is not None and events[-1].outcome == "done"
    assert not any(event.outcome for event in events[:-1])
    return events[-1].result


def prepared(folder: Path, documents: Sequence[Sequence[str]], size: int = 16) -> Blocks:
    tokenizer = tiny_encoder().tokenizer
    list(
        prepare_blocks(
            folder, text_of(lambda: iter(documents), HELD_OUT), WordIds(tokenizer), share=0.1, seed=0, meta={}
        )
    )
    return Blocks(Arrays(folder / "train"), tokenizer, size)


def test_blocks_cover_the_corpus_once_without_padding(tmp_path: Path) -> None:
    blocks, tokenizer = prepared(tmp_path, DOCUMENTS), tiny_encoder().tokenizer
    rows, lengths = blocks.rows(range(len(blocks)))
    assert (lengths[:-1] == 16).all() and (rows[:, 0] == tokenizer.cls_token_id).all()
    assert all(row[length - 1] == tokenizer.sep_token_id for row, length in zip(rows, lengths, strict=True))
    stretches = [row[1 : length - 1] for row, length in zip(rows, lengths, strict=True)]
    text = tokenizer.decode(np.concatenate(stretches)).split(" [SEP] ")
    assert text == [tokenizer.decode(tokenizer.encode(" ".join(one), add_special_tokens=False)) for one in DOCUMENTS]


def test_blocks_of_an_epoch_are_all_there_once(tmp_path: Path) -> None:
    blocks, given = prepared(tmp_path, DOCUMENTS), options(block_size=16)
    task = DaptTask(given, tiny_encoder(), Arrays(tmp_path / "train"), Arrays(tmp_path / "held_out"))
    epochs = [np.concatenate([task.indices(1, epoch, at) for at in range(task.epoch_steps)]) for epoch in range(2)]
    assert all(sorted(epoch) == list(range(len(blocks))) for epoch in epochs)
    assert epochs[0].tolist() != epochs[1].tolist()


def test_blocks_mask_no_special_subword_and_the_unknown_word_is_one(tmp_path: Path) -> None:
    tokenizer = tiny_encoder().tokenizer
    words = WordIds(tokenizer, "<unk>")
    sang, unknown = tokenizer.convert_tokens_to_ids(["sang", "[UNK]"])
    assert words.documents([["sang", "<unk>", "[SEP]", "[MASK]"]]) == [[sang, unknown, unknown, unknown]]
    documents = [["sang", "<unk>"] * 40]
    list(prepare_blocks(tmp_path, text_of(lambda: iter(documents), HELD_OUT), words, share=0.1, seed=0, meta={}))
    given = options(mask_share=0.9, block_size=16)
    task = DaptTask(given, tiny_encoder(), Arrays(tmp_path / "train"), Arrays(tmp_path / "held_out"))
    for part in task.batch(1, 0, 0, 1).parts:
        assert set(part.wanted.tolist()) == {sang}


def test_blocks_are_written_as_the_corpus_is_read(tmp_path: Path) -> None:
    read = 0

    def many() -> Iterator[Sequence[str]]:
        nonlocal read
        for _ in range(100_000):
            read += 1
            yield ("sang", "in", "Leeds")

    words = WordIds(tiny_encoder().tokenizer)
    writing = prepare_blocks(tmp_path, text_of(many, HELD_OUT), words, share=0.1, seed=0, meta={})
    for number, subwords in zip(count(1), writing, strict=False):
        assert read <= number * CHUNK and subwords == 4 * read - 1  # a [SEP] between two documents
    blocks = Blocks(Arrays(tmp_path / "train"), words.tokenizer, 128)
    assert isinstance(blocks.ids, np.memmap) and len(blocks.ids) == 399_999


def test_held_out_share_keeps_equal_documents_together(tmp_path: Path) -> None:
    tokenizer = tiny_encoder().tokenizer
    documents = [[f"un{'able' * (at % 7)}", "sang"] for at in range(200)] * 2
    writing = prepare_blocks(tmp_path, text_of(lambda: iter(documents)), WordIds(tokenizer), share=0.4, seed=1, meta={})
    list(writing)
    train, aside = (
        set(tokenizer.decode(Arrays(tmp_path / name)["ids"]).split(" [SEP] ")) for name in ("train", "held_out")
    )
    assert train and aside and not train & aside


def test_dapt_lowers_perplexity_on_a_repetitive_corpus(tmp_path: Path) -> None:
    events = run_all(tmp_path, options(epochs=12))
    result = result_of(events)
    assert result.after < 0.85 * result.before and result.is_better
    assert (result.kind, result.measure, result.epochs) == ("dapt", "perplexity", 12)
    assert next(event.measured for event in events if event.measured) == result.before
    assert result.history[-1].value == result.after and len(result.history) == 12
    assert events[-1].total == events[-1].step == result.steps and result.peak_memory_mb > 0
    assert read_result(tmp_path / "out") == result
    assert not list((tmp_path / "work").iterdir())


def test_dapt_measures_the_encoder_through_a_fresh_head(tmp_path: Path) -> None:
    moved = result_of(run_all(tmp_path / "a", options(epochs=12)))
    assert moved.refit is not None and moved.after < moved.refit < moved.before  # some of the fall was the head's
    still = result_of(run_all(tmp_path / "b", options(learning_rate=1e-7)))
    # An encoder that hardly moved measures as before, whatever the head learnt meanwhile.
    assert still.refit == pytest.approx(still.before, rel=1e-3) and still.after < 0.99 * still.before
    without = result_of(run_all(tmp_path / "c", options(learning_rate=1e-7, refit_head=False)))
    assert without.refit is None and without.after == still.after
    assert without.provenance["fingerprint"] == still.provenance["fingerprint"]


def test_dapt_encoder_loads_and_a_recipe_trains_with_it(tmp_path: Path) -> None:
    result = result_of(run_all(tmp_path, options(), provenance={"corpus": "own sentences"}))
    made = load_encoder(result.encoder)
    assert made.fingerprint == result.provenance["fingerprint"] != tiny_encoder().fingerprint
    assert result.provenance["base"]["fingerprint"] == tiny_encoder().fingerprint
    assert result.provenance["corpus"] == "own sentences" and len(result.provenance["corpus_hash"]) == 64
    assert DaptOptions.from_dict(result.provenance["options"]) == options()
    recipe = tiny_recipe(encoder=result.encoder, max_epochs=1)
    *_, last = train(recipe, tiny_data(), checkpoint_dir=tmp_path / "run")
    assert last.result is not None and last.result.outcome == "all_epochs"


def test_dapt_goes_on_from_an_encoder_with_its_head(tmp_path: Path) -> None:
    first = result_of(run_all(tmp_path / "a", options(epochs=8)))
    head = trained_head(first.encoder)
    assert head is not None and trained_head(str(save_encoder(tmp_path / "plain"))) is None
    again = result_of(run_all(tmp_path / "b", options(encoder=first.encoder, epochs=1), encoder=None))
    assert not again.provenance["head_is_new"] and again.provenance["head_first_steps"] == 0
    assert again.before == pytest.approx(first.after)


def test_dapt_goes_on_with_the_head_of_an_encoder_of_the_library(tmp_path: Path) -> None:
    first = result_of(run_all(tmp_path / "a", options(epochs=8)))
    (tmp_path / "library").mkdir()
    Path(first.encoder).rename(tmp_path / "library" / "mine")
    encoder = load_encoder("mine", tmp_path / "library")
    assert encoder.folder == tmp_path / "library" / "mine"
    again = result_of(run_all(tmp_path / "b", options(encoder="mine", epochs=1), encoder=encoder))
    assert not again.provenance["head_is_new"] and again.provenance["head_first_steps"] == 0
    assert again.before == pytest.approx(first.after)


def test_dapt_takes_the_head_of_a_masked_language_model(tmp_path: Path) -> None:
    tiny = tiny_encoder(dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        whole = BertForMaskedLM(tiny.model.config).eval()
    for parameter in whole.cls.predictions.transform.parameters():
        parameter.data += 0.1  # norms and biases are not what a new head has
    whole.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    encoder, head = load_encoder(str(tmp_path)), trained_head(str(tmp_path))
    assert head is not None
    model = MaskedLanguageModel(encoder).eval()
    assert fits(model.head, head)
    model.head.load_state_dict(head)
    ids = torch.arange(5, 25).view(2, 10)
    places, labels = torch.tensor([1, 4, 13]), torch.full((20,), -100)
    labels[places] = ids.flatten()[places]
    with torch.inference_mode():
        ours = model.loss_sum(ids, None, places, ids.flatten()[places]) / 3
        theirs = whole(input_ids=ids, labels=labels.view(2, 10)).loss
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)


def test_dapt_same_seed_same_numbers(tmp_path: Path) -> None:
    first = run_all(tmp_path / "a", options())
    torch.manual_seed(99)  # the global generator must not matter
    second = run_all(tmp_path / "b", options())
    assert [event.loss for event in first] == [event.loss for event in second]
    assert (
        load_encoder(str(tmp_path / "a" / "out")).fingerprint == load_encoder(str(tmp_path / "b" / "out")).fingerprint
    )
    other = result_of(run_all(tmp_path / "c", options(seed=1)))
    assert other.after != result_of(first).after


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    return result_of(run_all(tmp_path_factory.mktemp("whole"), options(keep_best=True, measure_every=2)))


@pytest.mark.parametrize("stop_at", [1, 4, 9, 14, 19])
def test_dapt_resumed_equals_uninterrupted(tmp_path: Path, uninterrupted: PretrainResult, stop_at: int) -> None:
    whole, given = uninterrupted, options(keep_best=True, measure_every=2)
    asked = count(1)
    parts = run_all(tmp_path / "parts", given, should_stop=lambda: next(asked) == stop_at)
    assert parts[-1].outcome == "stopped" and not (tmp_path / "parts" / "out").exists()
    resumed = result_of(run_all(tmp_path / "parts", given))
    same = {"encoder": "", "seconds": 0.0, "peak_memory_mb": 0.0}
    assert replace(resumed, **same) == replace(whole, **same)  # type: ignore[arg-type]
    heads = [Path(one.encoder, "tensors.safetensors").read_bytes() for one in (whole, resumed)]
    assert heads[0] == heads[1]  # the encoders' fingerprints are in the provenance


def test_dapt_accumulated_and_recomputed_steps_are_the_same(tmp_path: Path) -> None:
    still = tiny_encoder(dropout=0.0)
    whole = result_of(run_all(tmp_path / "a", options(), encoder=still))
    parts = result_of(run_all(tmp_path / "b", options(accumulate=3, recompute=True), encoder=still))
    assert parts.after == pytest.approx(whole.after, rel=1e-3) and parts.before == pytest.approx(whole.before, rel=1e-3)


def test_dapt_measures_alike_whatever_the_batch_size(tmp_path: Path) -> None:
    first = options(head_first_steps=0, epochs=1)
    results = [result_of(run_all(tmp_path / str(size), replace(first, batch_size=size))) for size in (3, 8, 40)]
    assert len({round(result.before, 3) for result in results}) == 1


def test_dapt_finished_run_answers_at_once_and_another_is_refused(tmp_path: Path) -> None:
    first = result_of(run_all(tmp_path, options()))
    (again,) = run_all(tmp_path, options())
    assert again.result == first and again.outcome == "done"
    with pytest.raises(CheckpointMismatch, match="options"):
        run_all(tmp_path, options(seed=1))
    with pytest.raises(CheckpointMismatch, match="corpus"):
        run_all(tmp_path, options(), texts=lambda: iter(DOCUMENTS[::-1]))
    afresh = result_of(run_all(tmp_path, options(seed=1), resume=False))
    assert afresh.after != first.after


def test_dapt_that_was_to_replace_another_goes_on(tmp_path: Path) -> None:
    first, asked = result_of(run_all(tmp_path, options())), count(1)
    events = run_all(tmp_path, options(seed=1), resume=False, should_stop=lambda: next(asked) == 9)
    assert events[-1].outcome == "stopped" and read_result(tmp_path / "out") == first
    events = run_all(tmp_path, options(seed=1))
    assert any("Resumed after step" in event.message for event in events)
    assert result_of(events).after != first.after
    with pytest.raises(InvalidConfig, match="give the work another folder"):
        text = text_of(texts, HELD_OUT)
        list(run_dapt(options(), text, out=tmp_path / "x", work=tmp_path / "x", encoder=tiny_encoder()))


def test_dapt_of_held_out_text_in_which_nothing_is_masked_measures_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"held-out subwords none is masked with a mask_share of 0.01"):
        run_all(tmp_path, options(mask_share=0.01), held_out=[["the", "band"]])


def test_dapt_stopped_run_refuses_another_corpus(tmp_path: Path) -> None:
    asked = count(1)
    assert run_all(tmp_path, options(), should_stop=lambda: next(asked) == 6)[-1].outcome == "stopped"
    with pytest.raises(CheckpointMismatch, match="corpus"):
        run_all(tmp_path, options(), provenance={"corpus": "another"})


def test_dapt_stopped_run_reads_its_corpus_again_if_need_be(tmp_path: Path) -> None:
    documents = [words for at in range(3) for words in DOCUMENTS]  # more than are looked at to know a corpus again
    given, asked = options(epochs=1), count(1)
    stopped = run_all(tmp_path, given, texts=lambda: iter(documents), should_stop=lambda: next(asked) == 8)
    assert stopped[-1].outcome == "stopped"
    for text in ([*documents[:-1], ["sang"]], documents):
        shutil.rmtree(tmp_path / "work" / "prepared")
        if text is not documents:
            with pytest.raises(CheckpointMismatch, match="corpus"):
                run_all(tmp_path, given, texts=lambda text=text: iter(text))
    events = run_all(tmp_path, given, texts=lambda: iter(documents))
    assert any("Resumed" in event.message for event in events)
    whole = result_of(run_all(tmp_path / "whole", given, texts=lambda: iter(documents)))
    assert result_of(events).provenance["fingerprint"] == whole.provenance["fingerprint"]


@pytest.fixture
def broken_loss() -> Iterator[pytest.MonkeyPatch]:
    """The ninth loss that is asked for is no number; undoing it mends that."""
    loss, asked = DaptTask.loss, count(1)

    def broken(self: DaptTask, part: object) -> torch.Tensor:
        return loss(self, part) * (float("nan") if next(asked) == 9 else 1.0)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DaptTask, "loss", broken)
        yield patched


def test_dapt_stops_at_a_loss_that_is_no_number_and_keeps_the_state_before(
    tmp_path: Path, broken_loss: pytest.MonkeyPatch
) -> None:
    events = run_all(tmp_path, options())
    broken_loss.undo()
    assert events[-1].outcome == "not_finite" and events[-1].result is None
    assert "step 5 (epoch 2, batch 1)" in events[-1].message and "work/state" in events[-1].message
    assert not (tmp_path / "out").exists()
    assert result_of(run_all(tmp_path, options())).after == result_of(run_all(tmp_path / "whole", options())).after


@pytest.mark.parametrize("sound", [True, False])
def test_dapt_goes_on_after_a_loss_that_is_no_number_with_a_lower_rate(
    tmp_path: Path, broken_loss: pytest.MonkeyPatch, sound: bool
) -> None:
    broken_loss.setattr(pretraining_job, "SECONDS_BETWEEN_SAVES", -1.0)
    broken_loss.setattr(pretraining_job, "SAVING_SHARE", 1e9)
    broken_loss.setattr(TaskRun, "is_sound", lambda self: sound)
    run_all(tmp_path, options())
    broken_loss.undo()
    with pytest.raises(CheckpointMismatch, match=r"another options.*--fresh"):
        run_all(tmp_path, options(seed=7))
    lower = options(learning_rate=1e-5, precision="fp32")
    events = run_all(tmp_path, lower)
    (resumed,) = [event.message for event in events if "Resumed after step" in event.message]
    assert "learning_rate is 1e-05 now, 0.005 before." in resumed
    (steered,) = result_of(events).provenance["steered"]
    assert steered["after_step"] == 4 and steered["changed"]["learning_rate"] == [0.005, 1e-5]


def test_dapt_goes_on_from_a_stopped_run_with_its_own_rate_alone(tmp_path: Path) -> None:
    asked = count(1)
    run_all(tmp_path, options(), should_stop=lambda: next(asked) == 6)
    with pytest.raises(CheckpointMismatch, match="another options"):
        run_all(tmp_path, options(learning_rate=1e-5))


def test_dapt_full_disk_is_said_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("crossner_core.training.checkpoint.save_file", full)
    with pytest.raises(StorageError, match=r"No space left.*Free some disk"):
        run_all(tmp_path, options())
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.setattr(np, "ascontiguousarray", full)
    with pytest.raises(StorageError, match=r"No space left.*Free some disk"):
        run_all(tmp_path / "b", options())
    assert not list((tmp_path / "b" / "work").rglob("*.bin"))


def test_dapt_saves_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining_job, "SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(pretraining_job, "SAVING_SHARE", 1e9)
    text = text_of(texts, HELD_OUT)
    run = run_dapt(options(), text, out=tmp_path / "out", work=tmp_path / "work", encoder=tiny_encoder())
    for event in run:
        if event.step >= 5:
            break
    del run  # as if killed
    events = run_all(tmp_path, options())
    assert any("Resumed" in event.message for event in events)
    assert result_of(events).after == result_of(run_all(tmp_path / "whole", options())).after


def test_dapt_refuses_corpora_without_text_and_folders_of_others(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no text"):
        run_all(tmp_path, options(), texts=lambda: iter(()))
    with pytest.raises(BadInput, match="held_out_share"):
        run_all(tmp_path, options(held_out_share=0.0001, seed=1), held_out=None)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="choose another"):
        run_all(tmp_path, options())
    with pytest.raises(NotFound, match=r"pretraining\.json"):
        read_result(tmp_path / "out")


def test_text_files_refuse_what_was_cut_off_or_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Ines sang .\n\nMarble tour")
    with pytest.raises(BadInput, match=r"middle of a line.*--last-line keep"):
        text_files([path])
    assert list(text_files([path], last_line="keep")()) == [["Ines", "sang", "."], ["Marble", "tour"]]
    assert list(text_files([path], last_line="drop")()) == [["Ines", "sang", "."]]
    path.write_bytes(b"\xef\xbb\xbfgood\r\nb\xff\n")
    with pytest.raises(BadInput, match=r"text\.txt:2: byte 0xff at byte 2 .*UTF-8"):
        list(text_files([path])())
    path.write_bytes(b"a\x00\n")
    with pytest.raises(BadInput, match="NUL"):
        list(text_files([path])())
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="empty"):
        text_files([path])
    with pytest.raises(BadInput, match="cannot be read"):
        text_files([tmp_path / "missing.txt"])


def test_level_texts_are_the_levels_sentences(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    whole = list(from_level(corpus.folder, "music", "domain").items())
    assert len(whole) == len(corpus)
    assert 0 < len(list(from_level(corpus.folder, "music", "integrated", percent=50).items())) < len(whole) * 2
    with pytest.raises(InvalidConfig, match="integrated"):
        from_level(corpus.folder, "music", "all")


def test_shares_of_a_text_are_nested_and_measured_on_the_same() -> None:
    given = options(held_out_share=0.2)
    documents = [("A", "document", str(number), ".") for number in range(2000)]
    whole = {" ".join(words) for words in documents}
    learned: list[set[str]] = []
    for percent in (1, 25, 75):
        part_of = share_of(text_of(lambda: iter(documents)), percent, given)
        assert part_of.held_out is not None
        here, away = ({" ".join(words) for words in part()} for part in (part_of.items, part_of.held_out))
        assert away == {one for one, out in zip(whole, is_held_out([*whole], 0.2, given.seed), strict=True) if out}
        assert here and not here & away
        assert len(here) == pytest.approx(0.8 * percent / 100 * len(whole), rel=0.1, abs=15)
        learned.append(here)
    assert learned[0] < learned[1] < learned[2] < whole
    other = share_of(text_of(lambda: iter(documents)), 25, given, seed=1)
    assert {" ".join(words) for words in other.items()} != learned[1]
    own = share_of(PretrainText(lambda: iter(documents), texts), 25, given)
    assert own.held_out is texts and {" ".join(words) for words in own.items()} > learned[1]  # nothing is held out
    whole_text = text_of(texts)
    assert share_of(whole_text, 100, given) == whole_text
    with pytest.raises(InvalidConfig, match="percent is 0; give more than 0 and at most 100"):
        share_of(whole_text, 0, given)


def test_options_are_checked_and_need_no_torch() -> None:
    for spec in (*fields(DaptOptions), *fields(TaggingPretrainOptions)):
        assert spec.metadata["help"].endswith(".") and spec.metadata["group"] in {"model", "target", "machine"}
        if type(spec.default) in (int, float):
            assert spec.metadata["min"] <= spec.default <= spec.metadata["max"]
    assert DaptOptions.from_dict(options().to_dict()) == options() and options().hash != options(seed=1).hash
    with pytest.raises(InvalidConfig, match=r"mask_shar\b.*mask_share"):
        DaptOptions.from_dict({"mask_shar": 0.1})
    with pytest.raises(InvalidConfig, match="masking"):
        options(masking="words")
    code = (
        "import sys\nimport crossner_core.options.dapt, crossner_core.options.entity_tagging\n"
        "import crossner_core.adaptation.pretraining\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_command_pre_trains_on_a_corpus_and_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder, corpus = save_encoder(tmp_path / "encoder"), make_corpus(tmp_path)
    common = ["--encoder", str(encoder), "--epochs", "1", "--head-first-steps", "1", "--device", "cpu"]
    level = ["--corpus", str(corpus.folder), "--domain", "music", "--level", "integrated", "--held-out-share", "0.2"]
    assert main(["dapt", *level, "--out", str(tmp_path / "a"), *common]) == 0
    assert read_result(tmp_path / "a").provenance["corpus"]["level"] == "integrated"
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(words) + "\n" for words in DOCUMENTS))
    assert main(["dapt", "--text", str(text), "--out", str(tmp_path / "b"), *common, "--keep-best"]) == 0
    (file,) = read_result(tmp_path / "b").provenance["corpus"]
    assert (file["name"], file["bytes"]) == ("text.txt", text.stat().st_size)
    assert json.loads((tmp_path / "b" / "pretraining.json").read_text())["measure"] == "perplexity"
    half = ["--text", str(text), "--percent", "50", "--held-out-share", "0.2"]
    assert main(["dapt", *half, "--out", str(tmp_path / "half"), *common]) == 0
    corpus_said = read_result(tmp_path / "half").provenance["corpus"]
    assert corpus_said == {"files": [file], "percent": 50.0, "seed": 0}
    assert read_result(tmp_path / "half").tokens < read_result(tmp_path / "b").tokens
    assert main(["dapt", *half, "--level", "task", "--out", str(tmp_path / "c"), *common]) == 1
    assert "--level is 'task', but only a --corpus has one" in capsys.readouterr().err
    labelled = tmp_path / "train.conll"
    labelled.write_text("".join(f"{word}\tO\n" for words in DOCUMENTS for word in (*words, "."))[:-1] + "\n")
    aside = tmp_path / "dev.conll"
    aside.write_text("".join("".join(f"{word}\tB-song\n" for word in words) + "\n" for words in HELD_OUT))
    source = from_files([labelled], labelled=True, held_out=[aside])
    assert source.held_out is not None and [list(words) for words in source.held_out()] == [
        list(one) for one in HELD_OUT
    ]
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(b"")
    assert main(["dapt", "--text", str(packed), "--out", str(tmp_path / "c"), *common]) == 1
    assert "is compressed; decompress it" in capsys.readouterr().err
    text.write_text("no end")
    assert main(["dapt", "--text", str(text), "--out", str(tmp_path / "c"), *common]) == 1
    assert "middle of a line" in capsys.readouterr().err


def test_pretraining_processes_that_do_not_know_of_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")  # as torchrun and accelerate launch set it
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InvalidConfig, match=r"process 1 of 2.*run_together"):
        run_all(tmp_path, options())
    for words in (["dapt", "--text", "nowhere.txt"], ["entity-tagging", "--labelled", "nowhere.conll"]):
        assert main([*words, "--out", str(tmp_path / "out")]) == 1
        assert "process 1 of 2" in capsys.readouterr().err  # before the files are looked at
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert result_of(run_all(tmp_path, options(max_steps=1))).steps == 1
