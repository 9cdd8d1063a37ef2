from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossner_core.encoders.windows import IGNORED, Batch, cut
from crossner_core.models.base import Decoded, TokenTagger
from crossner_core.schema import sentence_from_words
from crossner_core.training.batches import mixed_batches, ordered_batches, shuffled_batches
from crossner_core.training.predictor import Predictor
from tests.support.training_builders import tiny_encoder

FIRST, LAST = -1, -2
ENDS = (FIRST,), (LAST,)
ENCODER = tiny_encoder()


def test_batches_first_subword_of_each_token() -> None:
    tokenizer = ENCODER.tokenizer
    sentence = sentence_from_words(["Ines", "unable", "toured"], id="a")
    (window,) = ENCODER.windows([sentence], 64)
    pieces = tokenizer.convert_ids_to_tokens(list(window.input_ids))
    assert pieces == ["[CLS]", "ines", "un", "##able", "toured", "[SEP]"]
    assert window.positions == (1, 2, 4)


def test_batches_token_without_subword_becomes_unknown() -> None:
    tokenizer = ENCODER.tokenizer
    (window,) = ENCODER.windows([sentence_from_words(["Ines", "\u200b", "toured"], id="a")], 64)
    assert tokenizer.convert_ids_to_tokens(list(window.input_ids))[2] == "[UNK]"
    assert len(window.positions) == 3


def test_batches_sentence_without_tokens_gives_no_window() -> None:
    windows = ENCODER.windows([sentence_from_words([], id="a"), sentence_from_words(["Ines"], id="b")], 64)
    assert [window.sentence for window in windows] == [1]
    assert ENCODER.windows([], 64) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=80), st.integers(15, 30))
def test_batches_windows_score_each_token_once(sizes: list[int], room: int) -> None:
    pieces = [[at * 10 + part for part in range(size)] for at, size in enumerate(sizes)]
    windows = cut(0, pieces, room + 2, ENDS)
    assert [at for window in windows for at in range(window.start, window.end)] == list(range(len(sizes)))
    for window in windows:
        assert len(window.input_ids) <= room + 2
        assert (window.input_ids[0], window.input_ids[-1]) == (FIRST, LAST)
        firsts = [window.input_ids[position] for position in window.positions]
        assert firsts == [pieces[at][0] for at in range(window.start, window.end)]


class Echo(TokenTagger):
    """A tagger that gives each token a tag by its first subword's number, so that every token shows where it went."""

    def decode(self, batch: Batch, allowed: int | None = None) -> list[Decoded]:
        firsts = batch.input_ids.gather(1, batch.positions)
        rows = [row[kept].tolist() for row, kept in zip(firsts, batch.mask, strict=True)]
        return [Decoded([id % len(self.tags) for id in row], [id / 1000 for id in row]) for row in rows]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["Ines", "unable", "toured", "."]), max_size=70), min_size=1, max_size=4))
@example([["Ines"] * 21 + ["unable"] * 30])  # the first window is shorter than the next
def test_batches_split_sentences_are_joined_in_order(texts: list[list[str]]) -> None:
    tagger = Predictor(Echo(ENCODER, ["O", "B-x", "I-x"]), ENCODER, ["x"], max_length=24,
                       meta={"recipe_hash": "0"})  # fmt: skip
    sentences = [sentence_from_words(words, id=str(at)) for at, words in enumerate(texts)]
    for words, (tags, probabilities) in zip(texts, tagger.predict_tags(sentences, batch_size=3), strict=True):
        first = [ENCODER.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
        assert tags == tuple(tagger.model.tags[id % 3] for id in first)
        assert probabilities == tuple(id / 1000 for id in first)


def test_batches_windows_overlap_gives_context() -> None:
    windows = cut(0, [[at] for at in range(100)], 42, ENDS)
    assert len(windows) > 2
    for window in windows[1:]:
        assert window.positions[0] > 3, "a scored token needs tokens before it to be read in context"


def test_batches_endless_word_keeps_its_first_subwords() -> None:
    windows = ENCODER.windows([sentence_from_words(["." * 5000, "Ines"], id="a")], 32)
    assert sum(len(window.positions) for window in windows) == 2
    assert all(len(window.input_ids) <= 32 for window in windows)


def test_batches_collate_pads_and_ignores() -> None:
    sentences = [sentence_from_words(["Ines"], id="a"), sentence_from_words(["Ines", "unable", "."], id="b")]
    batch = ENCODER.collate(ENCODER.windows(sentences, 64), [[1], [1, 0, 2]])
    assert batch.input_ids.shape == (2, 6) and batch.positions.shape == (2, 3)
    assert batch.tags.tolist() == [[1, IGNORED, IGNORED], [1, 0, 2]]
    assert batch.mask.tolist() == [[True, False, False], [True, True, True]]
    assert batch.attention_mask.sum(1).tolist() == [3, 6]


@pytest.mark.parametrize(("count", "size"), [(1, 16), (100, 16), (1000, 32), (17, 16), (5, 1)])
def test_batches_shuffled_cover_all_once(count: int, size: int) -> None:
    lengths = np.random.default_rng(1).integers(3, 60, count).tolist()
    batches = shuffled_batches(lengths, size, np.random.default_rng([5, 0]))
    assert sorted(at for batch in batches for at in batch) == list(range(count))
    assert max(map(len, batches)) <= size
    assert batches == shuffled_batches(lengths, size, np.random.default_rng([5, 0]))
    if count > size:
        assert batches != shuffled_batches(lengths, size, np.random.default_rng([5, 1]))


def test_batches_buckets_spare_padding() -> None:
    lengths = np.random.default_rng(1).integers(3, 90, 2000).tolist()
    batches = shuffled_batches(lengths, 16, np.random.default_rng(0))
    padded = sum(len(batch) * max(lengths[at] for at in batch) for batch in batches)
    assert padded < 1.35 * sum(lengths)


@pytest.mark.parametrize(
    ("first", "others", "size"),
    [
        (100, 1400, 30),
        (3, 40, 8),
        (50, 0, 16),
        (500, 500, 32),
        (50, 50, 1),
        (12, 40, 1),
        (500, 5, 3),
        (145, 75, 3),
        (1, 1, 2),
    ],
)
def test_batches_mixed_hold_both_kinds_wherever_there_are_enough(first: int, others: int, size: int) -> None:
    rng = np.random.default_rng(1)
    lengths = [*rng.integers(30, 60, first).tolist(), *rng.integers(3, 30, others).tolist()]
    batches = mixed_batches(lengths, first, size, np.random.default_rng([5, 0]))
    assert sorted(index for batch in batches for index in batch) == list(range(first + others))
    assert all(1 <= len(batch) <= size for batch in batches) and len(batches) == -(-(first + others) // size)
    of_first = [sum(index < first for index in batch) for batch in batches]
    assert max(of_first) - min(of_first) <= 1
    assert batches == mixed_batches(lengths, first, size, np.random.default_rng([5, 0]))
    if len(batches) > 1:
        assert batches != mixed_batches(lengths, first, size, np.random.default_rng([5, 1]))


def test_batches_ordered_longest_first() -> None:
    assert ordered_batches([3, 9, 5, 9], 2) == [[1, 3], [2, 0]]
