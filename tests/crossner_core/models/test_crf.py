"""The conditional random field against sums over every path written out."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._linear_chain import Chain, log_partition, marginals, path_score
from crossner_core.models.crf import Crf
from crossner_core.models.heads import copy_pairs, head_tags
from crossner_core.models.viterbi import viterbi
from crossner_core.tags import tag_problems
from crossner_core.training.batches import tag_indices
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.engine import make_optimizer
from crossner_core.training.loop import train
from crossner_core.training.predictor import build_model, load_tagger
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_data, tiny_encoder, tiny_recipe

LENGTHS, TAGS = (4, 1, 3), 5


def example(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> tuple[Tensor, Tensor, Chain]:
    """Return scores (3, 4, 5) of sentences of four, one and three tokens, their mask, and a chain."""
    draw = torch.Generator().manual_seed(0)
    scores = scale * torch.randn(len(LENGTHS), max(LENGTHS), TAGS, generator=draw, dtype=dtype)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    sizes = ((TAGS,), (TAGS, TAGS), (TAGS,))
    return scores, mask, Chain(*(scale * torch.randn(size, generator=draw, dtype=dtype) for size in sizes))


def every_path(scores: Tensor, chain: Chain, length: int) -> dict[tuple[int, ...], float]:
    """Return the score of every path of a sentence (W, K), added up token by token."""
    found, scores, chain = {}, scores.detach(), Chain(*(part.detach() for part in chain))
    for path in product(range(scores.shape[1]), repeat=length):
        score = float(chain.start[path[0]] + chain.end[path[-1]])
        score += sum(float(scores[at, tag]) for at, tag in enumerate(path))
        found[path] = score + sum(float(chain.transitions[a, b]) for a, b in pairwise(path))
    return found


def model_for(architecture: str = "crf", types: tuple[str, ...] = TYPES, **options: object) -> Crf:
    """Return an untrained model whose chain is no longer even."""
    model = build_model(tiny_recipe(architecture=architecture, **options), tiny_encoder(), types).eval()
    draw = torch.Generator().manual_seed(5)
    for part in (getattr(model, "start", None), getattr(model, "moves", None), getattr(model, "end", None)):
        if part is not None:
            part.data.normal_(generator=draw)
    return model  # type: ignore[return-value]


def batch_of(model: Crf, count: int, first: int = 0) -> Batch:
    items, encoder = own_sentences(count, offset=first), tiny_encoder()
    windows = encoder.windows([item.sentence for item in items])
    return encoder.collate(windows, tag_indices(items, model.tags))


def test_crf_log_partition_equals_the_sum_over_all_paths() -> None:
    scores, mask, chain = example()
    for row, length in enumerate(LENGTHS):
        expected = torch.logsumexp(torch.tensor(list(every_path(scores[row], chain, length).values())), 0)
        assert float(log_partition(scores, mask, chain)[row]) == pytest.approx(float(expected), abs=1e-4)


def test_crf_marginals_equal_the_share_of_paths_through_a_tag() -> None:
    scores, mask, chain = example()
    shares = marginals(scores, mask, chain).exp()
    for row, length in enumerate(LENGTHS):
        paths = {path: math.exp(score) for path, score in every_path(scores[row], chain, length).items()}
        for at, tag in product(range(length), range(TAGS)):
            through = sum(weight for path, weight in paths.items() if path[at] == tag)
            assert float(shares[row, at, tag]) == pytest.approx(through / sum(paths.values()), abs=1e-5)


def test_crf_path_score_and_best_path_equal_the_search_through_all() -> None:
    scores, mask, chain = example()
    best = viterbi(scores, mask, *chain)
    for row, length in enumerate(LENGTHS):
        paths = every_path(scores[row], chain, length)
        assert tuple(best[row, :length].tolist()) == max(paths, key=paths.__getitem__)
        for path in list(paths)[::37]:
            tags = torch.tensor([[*path, *[0] * (max(LENGTHS) - length)]])
            one = path_score(scores[row : row + 1], mask[row : row + 1], chain, tags)
            assert float(one) == pytest.approx(paths[path], abs=1e-4)


def test_crf_gradients_equal_finite_differences() -> None:
    scores, mask, chain = example(torch.float64)
    inputs = [value.requires_grad_() for value in (scores, *chain)]
    tags = torch.tensor([[0, 3, 2, 2], [4, 0, 0, 0], [1, 1, 0, 0]])

    def loss(scores: Tensor, *parts: Tensor) -> Tensor:
        own = Chain(*parts)
        return log_partition(scores, mask, own) - path_score(scores, mask, own, tags)

    assert torch.autograd.gradcheck(loss, inputs)


def test_crf_gradient_of_the_partition_is_the_marginals() -> None:
    scores, mask, chain = example()
    (slope,) = torch.autograd.grad(log_partition(scores.requires_grad_(), mask, chain).sum(), scores)
    shares = marginals(scores, mask, chain).exp() * mask.unsqueeze(2)
    assert torch.allclose(slope, shares, atol=1e-5)


def test_crf_large_scores_and_padding_stay_finite_and_without_effect() -> None:
    scores, mask, chain = example(scale=300.0)
    dirty = scores.masked_fill(~mask.unsqueeze(2), 1e30).requires_grad_()
    partition = log_partition(dirty, mask, chain)
    assert torch.isfinite(partition).all() and torch.equal(partition, log_partition(scores, mask, chain))
    (slope,) = torch.autograd.grad(partition.sum(), dirty)
    assert torch.isfinite(slope).all() and not slope[~mask].any()


def test_crf_loss_is_a_mean_over_tokens_of_any_batch() -> None:
    model = model_for()
    whole, sizes, alone = float(model.loss(batch_of(model, 5)).detach()), [], []
    for at in range(5):
        one = batch_of(model, 1, first=at)
        sizes.append(int(one.mask.sum()))
        alone.append(float(model.loss(one).detach()))
    assert whole == pytest.approx(sum(n * x for n, x in zip(sizes, alone, strict=True)) / sum(sizes), abs=1e-5)


def test_crf_token_of_unknown_tag_counts_with_all_its_tags() -> None:
    model = model_for()
    batch = batch_of(model, 1)
    chances = []
    for tag in range(len(model.tags)):
        tags = batch.tags.clone()
        tags[0, 2] = tag
        chances.append(-float(model.loss(replace(batch, tags=tags)).detach()) * int(batch.mask.sum()))
    tags = batch.tags.clone()
    tags[0, 2] = IGNORED
    unknown = -float(model.loss(replace(batch, tags=tags)).detach()) * (int(batch.mask.sum()) - 1)
    assert unknown == pytest.approx(float(torch.logsumexp(torch.tensor(chances), 0)), abs=1e-3)


@pytest.mark.parametrize("allowed", [None, 5])
def test_crf_decoding_is_valid_and_its_probabilities_are_those_of_valid_paths(allowed: int | None) -> None:
    model = model_for()
    model.head.weight.data.normal_(generator=torch.Generator().manual_seed(1))
    batch = batch_of(model, 1, first=3)
    scores, chain, tags = model.scores(batch)[0, :, :allowed], model.tag_pairs().first(allowed), model.tags[:allowed]
    scores, few = scores[:3], torch.arange(batch.mask.shape[1]) < 3
    cut = replace(batch, mask=batch.mask & few)
    (answer,) = model.decode(cut, allowed)
    paths = every_path(scores, chain, 3)
    valid = {path: s for path, s in paths.items() if not list(tag_problems([tags[t] for t in path], "IOB2"))}
    assert tuple(answer.tags) == max(valid, key=valid.__getitem__)
    whole = sum(math.exp(score) for score in valid.values())
    for at, tag in enumerate(answer.tags):
        through = sum(math.exp(score) for path, score in valid.items() if path[at] == tag)
        assert answer.probabilities[at] == pytest.approx(through / whole, abs=1e-4)


def test_crf_unconstrained_decoding_may_say_anything() -> None:
    model = model_for(constrained=False)
    model.head.weight.data.zero_()
    model.head.bias.data[2] = 50.0  # I-person everywhere
    assert {tag for answer in model.decode(batch_of(model, 3)) for tag in answer.tags} == {2}
    held = model_for()
    held.load_state_dict(model.state_dict())
    assert all(model.tags[answer.tags[0]] != "I-person" for answer in held.decode(batch_of(model, 3)))


def test_crf_overfits_own_sentences(tmp_path: Path) -> None:
    sentences = own_sentences(20)
    data = TrainingData(train=sentences, types=TYPES, dev=sentences, test=sentences)
    recipe = tiny_recipe(architecture="crf", max_epochs=16)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None and last.result.test is not None and last.result.test.f1 == 1.0
    assert load_tagger(tmp_path).predict_spans([item.sentence for item in sentences]) == [s.spans for s in sentences]


def test_crf_learns_from_single_tokens_one_by_one_and_types_that_never_occur(tmp_path: Path) -> None:
    types = (*TYPES, *(f"type{number}" for number in range(14)))
    items = (labelled(["Marble"], [(0, 1, "band")]), labelled(["Hello"], []), *own_sentences(3))
    recipe = tiny_recipe(architecture="crf", batch_size=1, max_epochs=2)
    *_, last = train(recipe, TrainingData(items, types, dev=items), checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None and last.result.dev is not None and len(load_tagger(tmp_path).model.tags) == 35
    assert all(math.isfinite(record.loss) for record in last.result.history)


def test_crf_joint_training_never_predicts_types_of_the_source_alone(tmp_path: Path) -> None:
    data = tiny_data(source=True)
    misc = tuple(labelled([f"thing{n}"], [(0, 1, "misc")]) for n in range(20))
    recipe = tiny_recipe(architecture="crf", setting="joint")
    data = replace(data, sources=(SourceCorpus(data.source_train + misc),))
    for _event in train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder()):
        pass
    tagger = load_tagger(tmp_path)
    assert "B-misc" in tagger.model.tags
    found = tagger.predict_spans([item.sentence for item in misc])
    assert all(span.type in TYPES for spans in found for span in spans)


def test_crf_takes_over_rows_and_pairs_of_shared_tags() -> None:
    source, target = model_for(types=("misc", "person", "location")), model_for(types=("person", "band", "location"))
    source.moves.data += 10.0
    before = target.moves.clone()
    shared = target.copy_shared_tags(source)
    assert shared == ("O", "B-person", "I-person", "B-location", "I-location")
    for a, b in product(target.tags, repeat=2):
        at, there = (target.tags.index(a), target.tags.index(b)), None
        if a in shared and b in shared:
            there = source.moves[source.tags.index(a), source.tags.index(b)]
        assert torch.equal(target.moves[at], before[at] if there is None else there)
    row, come = target.tags.index("B-location"), source.tags.index("B-location")
    assert torch.equal(target.head.weight[row], source.head.weight[come])
    assert target.start[row] == source.start[come] and target.end[row] == source.end[come]


def test_crf_siblings_of_one_ancestor_stay_two_types() -> None:
    tags = head_tags(("singer", "writer", "person"))
    theirs = head_tags(("person",))
    source = Chain(torch.arange(3.0), torch.arange(9.0).view(3, 3) + 1, torch.arange(3.0))
    target = Chain(torch.zeros(7), torch.zeros(7, 7), torch.zeros(7))
    copy_pairs(target, tags, source, theirs, {"singer": "person", "writer": "person"})
    at = tags.index
    assert target.transitions[at("B-singer"), at("I-singer")] == source.transitions[1, 2]
    assert target.transitions[at("O"), at("B-writer")] == source.transitions[0, 1]
    assert target.transitions[at("B-singer"), at("I-writer")] == 0.0
    assert target.transitions[at("B-singer"), at("I-person")] == 0.0


def test_crf_takes_the_rows_of_a_plain_tagger() -> None:
    tagger, crf = model_for("tagger"), model_for()
    before = crf.moves.clone()
    assert crf.copy_shared_tags(tagger) == crf.tags
    assert torch.equal(crf.head.weight, tagger.head.weight) and torch.equal(crf.moves, before)


def test_crf_scores_of_tag_to_tag_learn_at_their_own_rate() -> None:
    model = model_for(transition_rate_scale=30.0)
    optimizer = make_optimizer(model, learning_rate=1e-4, head_learning_rate=1e-3, weight_decay=0.1, layer_decay=1.0)
    groups = {
        id(p): (group["peak"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]
    }
    assert groups[id(model.moves)] == groups[id(model.start)] == (pytest.approx(3e-2), 0.0)
    assert groups[id(model.head.weight)] == (1e-3, 0.1)
    assert tiny_recipe(transition_rate_scale=30.0).hash == tiny_recipe().hash  # a plain tagger does not care
