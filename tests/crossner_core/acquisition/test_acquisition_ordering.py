"""A turn's scores: what the models before said of each sentence, and how far scoring is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from crossner_core.acquisition import scoring, signals
from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.selecting import strategy
from crossner_core.acquisition.signal_store import SignalStore
from crossner_core.schema import Sentence
from crossner_core.training.predictor import Predictor, build_model
from tests.support.training_builders import TYPES, own_sentences, tiny_encoder, tiny_recipe


def model(seed: int) -> Predictor:
    """Return an untrained tagger; another seed gives other tags."""
    encoder = tiny_encoder(seed=seed)
    torch.manual_seed(seed)
    made = build_model(tiny_recipe(), encoder, TYPES).eval()
    return Predictor(made, encoder, TYPES, max_length=64, meta={})


def pool(count: int) -> list[Sentence]:
    """Return sentences none of which says the same as another; those of a smaller pool come first."""
    found = {item.sentence.content_hash: item.sentence for item in own_sentences(60)}
    return list(found.values())[:count]


def history(folder: Path, count: int, *, newest: int, earlier: tuple[int, ...] = ()) -> tuple[list[float], list[str]]:
    """Return how much the tags of each sentence have changed, and the notes; the models are named by their seeds."""
    ordering = PoolOrdering(folder, Scorer(model(newest), str(newest), tuple(map(str, earlier))), TYPES)
    chosen = strategy("fluctuation")
    found = ordering.pool(pool(count), chosen).signals[signals.HISTORY]
    notes = PoolOrdering(folder, ordering.scorer, TYPES).order(pool(count), 3, chosen, np.random.default_rng(1)).notes
    assert notes == ordering.notes
    return found.tolist(), list(notes)


def said(folder: Path, key: int, sentences: list[Sentence]) -> list[np.ndarray]:
    return list(SignalStore(folder / f"model-{key}").load(sentences, [signals.TAGS])[signals.TAGS])


def test_first_model_has_nothing_to_compare_with_and_the_notes_say_so(tmp_path: Path) -> None:
    found, notes = history(tmp_path, 12, newest=1)
    assert found == [0.0] * 12
    assert notes == ["No earlier model has read these sentences: fluctuation uses entropy alone."]


def test_sentences_that_are_new_leave_the_others_their_history(tmp_path: Path) -> None:
    history(tmp_path, 12, newest=1)
    before, notes = history(tmp_path, 12, newest=2, earlier=(1,))
    assert not notes and max(before) > 0
    found, notes = history(tmp_path, 13, newest=3, earlier=(1, 2))
    assert notes == ["No earlier model has read 1 of 13 sentences: fluctuation treats them as unchanged."]
    one, two, three = (said(tmp_path, key, pool(12)) for key in (1, 2, 3))
    expected = [(np.mean(a != b) + np.mean(b != c)) / 2 for a, b, c in zip(one, two, three, strict=True)]
    assert max(expected) > 0 and found == pytest.approx([*expected, 0.0])


def test_model_that_has_not_read_a_sentence_is_passed_over_for_that_one_alone(tmp_path: Path) -> None:
    history(tmp_path, 12, newest=1)
    history(tmp_path, 4, newest=2, earlier=(1,))
    found, notes = history(tmp_path, 12, newest=3, earlier=(1, 2))
    one, three = (said(tmp_path, key, pool(12)) for key in (1, 3))
    two = said(tmp_path, 2, pool(4))
    through = [(np.mean(a != b) + np.mean(b != c)) / 2 for a, b, c in zip(one[:4], two, three[:4], strict=True)]
    past = [np.mean(a != c) for a, c in zip(one[4:], three[4:], strict=True)]
    assert not notes and found == pytest.approx([*through, *past])


def test_progress_names_who_reads_and_counts_only_what_is_new_to_it(tmp_path: Path) -> None:
    heard: list[tuple[float, str]] = []
    encoder, first = tiny_encoder(), model(1)

    def score(predictor: Predictor, key: str, count: int) -> list[tuple[float, str]]:
        heard.clear()
        ordering = PoolOrdering(
            tmp_path, Scorer(predictor, key, (), encoder), TYPES, on_progress=lambda *one: heard.append(one)
        )
        ordering.pool(pool(count), strategy("token_entropy"), gold=own_sentences(2, offset=100))
        return list(heard)

    assert score(first, "1", 6) == [
        (0.0, "the encoder has read 0 of 8 sentences new to it"),
        (8 / 14, "the encoder has read 8 of 8 sentences new to it"),
        (8 / 14, "the model has read 0 of 6 sentences new to it"),
        (1.0, "the model has read 6 of 6 sentences new to it"),
    ]
    assert [said for _, said in score(first, "1", 7)] == [
        f"the {who} has read {done} of 1 sentences new to it" for who in ("encoder", "model") for done in (0, 1)
    ]
    second = model(2)
    assert score(second, "2", 7) == [
        (0.0, "the model has read 0 of 7 sentences new to it"),
        (1.0, "the model has read 7 of 7 sentences new to it"),
    ]
    assert not score(second, "2", 7)


def test_progress_of_a_large_pool_is_heard_after_each_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "CHUNK", 4)
    shares: list[float] = []
    ordering = PoolOrdering(
        tmp_path, Scorer(model(1), "1", (), tiny_encoder()), TYPES, on_progress=lambda share, said: shares.append(share)
    )
    ordering.pool(pool(8), strategy("token_entropy"))
    assert shares == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]


def part_of_pool(folder: Path, key: int, earlier: tuple[str, ...] = (), chosen: str = "token_entropy") -> PoolOrdering:
    """Order the pool with a model that reads 10 of its sentences; return the ordering."""
    ordering = PoolOrdering(folder, Scorer(model(key), str(key), earlier), TYPES, most_read=10)
    selection = ordering.order(pool(30), 30, strategy(chosen), np.random.default_rng(key))
    assert len(set(selection.order.tolist())) == len(selection.order) == 10
    assert selection.notes == ("10 of the 30 sentences were read and ordered.",)
    _, read = SignalStore(folder / f"model-{key}").known(pool(30), [signals.TAGS])
    assert np.flatnonzero(read).tolist() == sorted(selection.order.tolist())
    return ordering


def test_large_pool_is_read_in_part_half_where_the_last_model_doubted(tmp_path: Path) -> None:
    assert part_of_pool(tmp_path, 1).scored == 10
    assert part_of_pool(tmp_path, 1).scored == 0  # the same model orders what it has read
    assert part_of_pool(tmp_path, 2, earlier=("1",)).scored == 10
    one, two = (SignalStore(tmp_path / f"model-{key}").known(pool(30), [signals.ENTROPY]) for key in (1, 2))
    lengths = np.array([len(sentence.tokens) for sentence in pool(30)])
    doubts = np.where(one[1], one[0][signals.ENTROPY] / lengths, -1.0)
    assert set(np.argsort(-doubts)[:5]) <= set(np.flatnonzero(two[1]))


def test_function_that_reads_nothing_orders_a_large_pool_whole(tmp_path: Path) -> None:
    ordering = PoolOrdering(tmp_path, Scorer(model(1), "1"), TYPES, most_read=10)
    found = ordering.order(pool(30), 30, strategy("longest"), np.random.default_rng(1))
    lengths = [len(pool(30)[index].tokens) for index in found.order]
    assert len(lengths) == 30 and lengths == sorted(lengths, reverse=True) and not found.notes


def test_empty_pool_without_gold_wants_for_nothing(tmp_path: Path) -> None:
    ordering = PoolOrdering(tmp_path, Scorer(None, "", (), tiny_encoder()), TYPES)
    found = ordering.order([], 3, strategy("bert_km"), np.random.default_rng(1))
    assert found.notes == ("The pool is empty.",) and not len(found.order)
