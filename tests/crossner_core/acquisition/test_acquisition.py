"""Every acquisition function on a pool; strategies, their reading, and the queue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Pool, acquisition, acquisition_ids
from crossner_core.acquisition.queue import with_random_share
from crossner_core.acquisition.selecting import select, strategy, without_idle_weights
from crossner_core.acquisition.signal_store import SignalStore
from crossner_core.acquisition.signals import Part, changes
from crossner_core.acquisition.vectors import farthest_first, without_look_alikes
from crossner_core.errors import BadInput, CheckpointError, InvalidConfig
from crossner_core.schema import Span, sentence_from_words
from tests.support.acquisition_builders import some_pool
from tests.support.training_builders import TYPES


def order(pool: Pool, text: str, count: int = 5, seed: int = 1) -> list[int]:
    return select(pool, count, strategy(text), np.random.default_rng(seed)).order.tolist()


@pytest.mark.parametrize("id", acquisition_ids())
def test_acquisition_function_orders_a_pool_without_repeats_and_by_its_seed(id: str) -> None:
    pool = some_pool()
    found = order(pool, id, 10)
    assert len(set(found)) == len(found) == 10
    assert set(found) <= set(range(len(pool)))
    assert found == order(pool, id, 10)
    assert acquisition(id).title and acquisition(id).reference


@pytest.mark.parametrize("id", acquisition_ids())
def test_acquisition_function_takes_a_pool_smaller_than_the_batch(id: str) -> None:
    assert sorted(order(some_pool(3), id, 10)) == [0, 1, 2]
    assert order(some_pool(0), id, 10) == []


@pytest.mark.parametrize("id", acquisition_ids())
def test_acquisition_function_takes_one_type_and_no_gold(id: str) -> None:
    pool = some_pool(8, gold=0)
    one = replace(
        pool, types=TYPES[:1], signals={**pool.signals, signals.EXPECTED: pool.signals[signals.EXPECTED][:, :1]}
    )
    assert len(order(one, id, 4)) == 4


def test_acquisition_scores_are_what_their_names_say() -> None:
    pool, rng = some_pool(), np.random.default_rng(0)

    def best(id: str) -> int:
        function = acquisition(id)
        assert function.score is not None
        return int(function.score(pool, function.config(), rng).argmax())

    assert best("longest") == int(pool.lengths.argmax())
    assert best("token_entropy") == int(pool.signals[signals.ENTROPY].argmax())
    assert best("mnlp") == int((pool.signals[signals.LOG_PROBABILITY] / pool.lengths).argmin())
    assert best("span_margin") == int(pool.signals[signals.MARGIN].argmin())
    assert best("expected_entities") == int(pool.signals[signals.EXPECTED].sum(1).argmax())
    assert best("fluctuation") == int(pool.signals[signals.HISTORY].argmax())


def test_rare_types_prefers_the_type_without_gold() -> None:
    expected = np.array([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    gold = [replace(item, spans=(Span(0, 1, TYPES[0]),)) for item in some_pool(gold=6).gold] * 20
    pool = replace(some_pool(2), gold=gold, signals={signals.EXPECTED: expected, signals.EMBEDDING: np.eye(2)})
    assert order(pool, "rare_types(power=1)", 1) == [1]
    assert order(pool, "rare_types(power=0)", 1) == [0]


def test_disagreement_counts_spans_that_only_one_has() -> None:
    same, other = (Span(0, 1, "person"),), (Span(0, 1, "band"), Span(2, 3, "band"))
    pool = replace(some_pool(2), predicted=[same, same], proposed=[same, other])
    function = acquisition("disagreement")
    assert function.score is not None
    assert function.score(pool, function.config(), np.random.default_rng(0)).tolist() == [0.0, 3.0]
    with pytest.raises(BadInput, match="pre-annotate first"):
        function.score(replace(pool, proposed=None), function.config(), np.random.default_rng(0))


def test_farthest_first_goes_away_from_gold_and_from_itself() -> None:
    line = np.array([[0.0], [1.0], [5.0], [9.0]], dtype=np.float32)
    chosen = farthest_first(line, 3, np.array([[0.0]], dtype=np.float32), np.random.default_rng(0))
    assert chosen.tolist() == [3, 2, 1]
    assert farthest_first(line, 1, None, np.random.default_rng(0)).tolist() == [2]  # nearest to the mean


def test_selection_puts_look_alikes_last() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    assert without_look_alikes(np.array([0, 1, 2]), vectors, 2, 0.95).tolist() == [0, 2]
    assert without_look_alikes(np.array([0, 1, 2]), vectors, 3, 0.95).tolist() == [0, 2, 1]


def test_mixture_adds_places_by_weight() -> None:
    pool = replace(
        some_pool(3),
        signals={signals.ENTROPY: np.array([9.0, 5.0, 1.0]), signals.EXPECTED: np.array([[0.0], [1.0], [2.0]])},
    )
    assert order(pool, "3*token_entropy + expected_entities") == [0, 1, 2]
    assert order(pool, "token_entropy + 3*expected_entities") == [2, 1, 0]


def test_mixture_with_a_set_chooses_among_the_best() -> None:
    pool = some_pool(24)
    entropy = np.arange(24, dtype=np.float64)
    pool = replace(pool, signals={**pool.signals, signals.ENTROPY: entropy})
    found = order(replace(pool), "token_entropy + k_centre", 2)
    assert len(found) == 2
    assert found != order(pool, "token_entropy", 2)


@pytest.mark.parametrize("text", ["token_entropy + bert_km", "token_entropy + k_centre", "bert_km"])
def test_what_comes_until_the_next_turn_is_a_set_of_its_own(text: str) -> None:
    vectors = np.random.default_rng(5).normal(size=(400, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    own = {signals.ENTROPY: np.arange(400.0), signals.EMBEDDING: vectors}
    pool = replace(some_pool(400), signals=own, gold=(), gold_embeddings=vectors[:0])
    alone = select(pool, 6, strategy(text), np.random.default_rng(0)).order.tolist()
    whole = select(pool, 300, strategy(text), np.random.default_rng(0), batch=6).order.tolist()
    assert whole[:6] == alone and len(set(whole)) == 300
    if "token_entropy" in text:
        assert min(alone) >= 350  # of the fifty of which the model is least sure
    as_one = select(pool, 300, strategy(text), np.random.default_rng(0)).order.tolist()
    assert as_one[:6] != alone
    every = select(pool, 6, strategy(text), np.random.default_rng(0), batch=60).order.tolist()
    assert every == alone


def test_cold_start_orders_by_clusters_else_by_gazetteer_else_by_chance_and_says_so() -> None:
    pool = some_pool(model=False)
    found = select(pool, 5, strategy("token_entropy"), np.random.default_rng(0))
    assert len(found.order) == 5
    assert "token_entropy" in found.notes[0] and found.notes[1] == "Until there is a model: bert_km."
    mixed = select(pool, 5, strategy("token_entropy + longest"), np.random.default_rng(0))
    assert mixed.notes[1] == "Until there is a model: bert_km."  # a first batch is not left to a strategy's rest
    for without, chosen in (({"signals": {}}, "gazetteer_entities"), ({"signals": {}, "proposed": None}, "random")):
        found = select(replace(pool, **without), 5, strategy("token_entropy"), np.random.default_rng(0))
        assert len(found.order) == 5 and found.notes[1] == f"Until there is a model: {chosen}."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wisdom", "choose one of random"),
        ("token_entropy(power=2)", "valid are length_power"),
        ("token_entropy(length_power=x)", "name=number"),
        ("token_entropy(length_power=7)", r"\[0, 1\]"),
        ("0*random", r"\(0, 1000\]"),
        ("token_entropy + 100*bert_km", "weight of bert_km is 100; it can only be 1: .* Leave its weight out"),
        ("0.5*k_centre", "weight of k_centre is 0.5; it can only be 1"),
        ("k_centre + badge", "at most one"),
        ("a b", "cannot be read"),
        ("", "cannot be read"),
        ("with self-training", "cannot be read"),
        ("longestwith self-training", "cannot be read"),
        ("longest with self-training + random", "cannot be read"),
        ("longest with gazetteer", "cannot be read"),
    ],
)
def test_strategy_that_cannot_be_read_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        strategy(text)


def test_strategy_may_have_its_models_learn_from_the_pool() -> None:
    found = strategy(" 2*longest+ bert_km  with self-training")
    assert found.self_training and found.functions == "2*longest + bert_km"
    assert found.text == "2*longest + bert_km with self-training" and strategy(found.text) == found
    assert not strategy("longest").self_training and not found.gazetteer
    told = strategy("longest with self-training and gazetteer")
    assert told.self_training and told.gazetteer and told.functions == "longest"
    assert told.text == "longest with self-training and gazetteer" and strategy(told.text) == told


def test_strategy_kept_with_the_weight_of_a_set_is_read_without_it() -> None:
    for kept, read in (
        ("token_entropy + 100*bert_km", "token_entropy + bert_km"),
        ("0.5 * k_centre+2*longest with self-training", "k_centre+2*longest with self-training"),
        ("2*token_entropy + 1.5* badge with self-training and gazetteer", None),
        ("3*wisdom", "3*wisdom"),
        ("", ""),
    ):
        assert without_idle_weights(kept) == (read if read is not None else kept.replace("1.5* ", ""))
    assert strategy("token_entropy + 1*bert_km").members[1].weight == 1


def test_queue_has_its_share_of_chance_and_every_sentence_once() -> None:
    chosen = list(range(40))
    places = with_random_share(chosen, 100, 0.25, np.random.default_rng(3))
    assert sorted(place.index for place in places) == list(range(100))
    first = places[:40]
    assert sum(place.by_chance for place in first) == 10
    ours = [place.index for place in first if not place.by_chance]
    assert ours == sorted(ours)
    assert [p.index for p in with_random_share(chosen, 100, 0.0, np.random.default_rng(3))][:40] == chosen
    assert all(place.by_chance for place in with_random_share(chosen, 100, 1.0, np.random.default_rng(3)))
    with pytest.raises(InvalidConfig, match="random share"):
        with_random_share(chosen, 100, 1.5, np.random.default_rng(3))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.5])
@pytest.mark.parametrize("count", [1, 4, 10])
def test_the_first_places_of_many_turns_have_their_share_of_chance(share: float, count: int) -> None:
    found = []
    for seed in range(400):
        places = with_random_share(list(range(60)), 80, share, np.random.default_rng(seed))
        found.append(sum(place.by_chance for place in places[:count]))
    assert set(found) <= {int(share * count + 1e-9), int(share * count + 1e-9) + 1}
    assert np.mean(found) == pytest.approx(share * count, abs=0.07)


def test_signal_store_scores_only_what_is_new(tmp_path: Path) -> None:
    sentences = some_pool(5).sentences
    store = SignalStore(tmp_path / "run-1")
    assert store.missing(sentences, [signals.ENTROPY]) == list(sentences)
    tags = np.empty(3, dtype=object)
    for at in range(3):
        tags[at] = np.full(at + 1, at, dtype=np.uint16)
    hashes = tuple(one.content_hash for one in sentences[:3])
    store.add(Part(hashes, {signals.ENTROPY: np.array([1.0, 2.0, 3.0]), signals.TAGS: tags}))
    assert store.missing(sentences, [signals.ENTROPY]) == list(sentences[3:])
    assert store.missing(sentences[:3], [signals.ENTROPY, signals.BALD]) == list(sentences[:3])
    found = store.load([sentences[2], sentences[0]], [signals.ENTROPY, signals.TAGS])
    assert found[signals.ENTROPY].tolist() == [3.0, 1.0]
    assert found[signals.TAGS][0].tolist() == [2, 2, 2]
    with pytest.raises(CheckpointError, match="1 of 2 sentences"):
        store.load([sentences[0], sentences[4]], [signals.ENTROPY])
    some = store.tags([sentences[4], sentences[1]])
    assert some[0] is None and some[1].tolist() == [1, 1]
    assert SignalStore(tmp_path / "run-2").tags(sentences[:2]).tolist() == [None, None]
    store.forget()
    assert store.missing(sentences, []) == list(sentences)


def test_changes_are_the_share_of_tags_that_moved() -> None:
    def model(*rows: list[int]) -> np.ndarray:
        found = np.empty(len(rows), dtype=object)
        for at, row in enumerate(rows):
            found[at] = np.array(row, dtype=np.uint16)
        return found

    assert changes([model([0, 1], [])]).tolist() == [0.0, 0.0]
    assert changes([model([0, 1], []), model([0, 2], []), model([0, 2], [])]).tolist() == [0.25, 0.0]


def test_pool_lengths_count_tokens() -> None:
    assert Pool([sentence_from_words(["One", "two"], id="a")], TYPES).lengths.tolist() == [2]
