"""Of Coach what the contract tests do not say: spans with types, unseen types, windows, and what is taken over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from crossner_core.encoders.windows import Batch
from crossner_core.encoders.words import Words
from crossner_core.models.base import TypeTexts
from crossner_core.models.coach import Coach, spans_of
from crossner_core.tags import spans_from_tags
from crossner_core.training import zero_shot
from crossner_core.training.batches import tag_indices
from crossner_core.training.descriptions import read_texts
from crossner_core.training.loop import train
from crossner_core.training.predictor import build_model, load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, batch_for, own_sentences, tiny_data, tiny_encoder, tiny_recipe

VECTORS = {name: torch.randn(2, 32, generator=torch.Generator().manual_seed(len(name))) for name in (*TYPES, "misc")}


def model_for(types: tuple[str, ...] = TYPES, seed: int = 0, **changes: object) -> Coach:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        values = {"architecture": "coach", "lstm_size": 5, "span_size": 4, "dropout": 0.0, **changes}
        made = build_model(tiny_recipe(**values), tiny_encoder(), types)
        assert isinstance(made, Coach)
        with torch.no_grad():
            for part in (made.own_rows, made.start, made.moves, made.end):
                part.normal_()
            made.head.weight.mul_(50)
    made.describe(TypeTexts({name: VECTORS[name] for name in types}))
    return made.eval()


def _log_paths(model: Coach, states: Tensor, *, constrained: bool) -> tuple[Tensor, Tensor]:
    """Every sequence (P, W) of O, B and I over the states (W, R) of one sentence, and its score (P,)."""
    scores = model.head(states)
    paths = torch.cartesian_prod(*[torch.arange(3)] * len(states))
    if constrained:
        before = torch.nn.functional.pad(paths[:, :-1], (1, 0))
        paths = paths[~((paths == 2) & (before == 0)).any(1)]
    total = model.start[paths[:, 0]] + model.moves[paths[:, :-1], paths[:, 1:]].sum(1) + model.end[paths[:, -1]]
    return paths, total + scores[torch.arange(len(states)), paths].sum(1)


def _log_types(model: Coach, states: Tensor, start: int, end: int) -> Tensor:
    """The log-probabilities of the types of one span."""
    read, _ = model.spans(states[start:end].unsqueeze(0))
    feature = model.to_types.weight @ read[0].sum(0)
    rows = [normalize(VECTORS[name].mean(0), dim=0) + own for name, own in zip(TYPES, model.own_rows, strict=True)]
    return torch.stack([row @ feature for row in rows]).log_softmax(0)


def _sentences(model: Coach, batch: Batch) -> list[Tensor]:
    states = model.read(batch)
    return [states[row, :size] for row, size in enumerate(batch.mask.sum(1).tolist())]


def _spans(path: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in spans_from_tags([("O", "B-x", "I-x")[step] for step in path])]


def test_coach_tags_are_marginals_of_steps_times_types_of_the_best_spans() -> None:
    model = model_for()
    with torch.no_grad():
        model.moves[1, 2] += 4.0  # spans of several tokens
    batch = batch_for(model)
    tags, scores = model.decode_tags(batch)
    inside = 0
    for row, states in enumerate(_sentences(model, batch)):
        paths, weights = _log_paths(model, states, constrained=True)
        best, shares = tuple(paths[weights.argmax()].tolist()), weights.softmax(0)
        types = {place: _log_types(model, states, place, place + 1) for place in range(len(states))}
        for start, end in _spans(best):
            types |= dict.fromkeys(range(start, end), _log_types(model, states, start, end))
            inside += int(end - start > 1)
        for place, of_types in types.items():
            of_steps = [shares[paths[:, place] == step].sum() for step in range(3)]
            expected = [of_steps[0], *(of_steps[step] * each.exp() for each in of_types for step in (1, 2))]
            torch.testing.assert_close(scores[row, place].exp(), torch.stack(expected), atol=1e-5, rtol=1e-4)
            assert float(scores[row, place].exp().sum().detach()) == pytest.approx(1.0, abs=1e-5)
            kind = int(of_types.argmax())
            assert int(tags[row, place]) == (0 if best[place] == 0 else best[place] + 2 * kind)
    assert inside


def test_coach_loss_is_that_of_gold_spans_and_of_their_types_over_tokens() -> None:
    model = model_for()
    batch = batch_for(model)
    losses = torch.zeros(())
    for row, states in enumerate(_sentences(model, batch)):
        gold = batch.tags[row, : len(states)].tolist()
        steps = tuple(0 if tag == 0 else 2 - tag % 2 for tag in gold)
        paths, weights = _log_paths(model, states, constrained=False)
        losses = losses + weights.logsumexp(0) - weights[(paths == torch.tensor(steps)).all(1)].squeeze()
        for start, end in _spans(steps):
            losses = losses - _log_types(model, states, start, end)[(gold[start] - 1) // 2]
    torch.testing.assert_close(model.loss(batch), losses / batch.mask.sum(), rtol=1e-4, atol=1e-5)


def test_coach_chooses_among_allowed_types_only() -> None:
    model = model_for()
    batch = batch_for(model)
    tags, scores = model.decode_tags(batch, 3)
    assert scores.shape[-1] == 3 and int(tags.max()) <= 2
    torch.testing.assert_close(scores[batch.mask].exp().sum(-1), torch.ones(int(batch.mask.sum())))


def test_coach_span_that_continues_another_windows_keeps_its_type() -> None:
    model = model_for()
    with torch.no_grad():
        model.moves[:, 2] += 1e3  # I wherever it is allowed
    batch = batch_for(model)
    for kind in range(len(TYPES)):
        batch.before = torch.full((len(batch.tags),), 1 + 2 * kind)
        tags, scores = model.decode_tags(batch)
        assert (tags[:, 0] == 2 + 2 * kind).all() and (scores[:, 0].argmax(-1) == 2 + 2 * kind).all()
    batch.before = torch.zeros(len(batch.tags), dtype=torch.long)
    assert (model.decode_tags(batch)[0][:, 0] % 2 != 0).logical_or(model.decode_tags(batch)[0][:, 0] == 0).all()


def test_coach_spans_of_a_batch() -> None:
    spans = spans_of(torch.tensor([[1, 2, 0, 1], [0, 1, 1, 2]]))
    assert spans.rows.tolist() == [0, 0, 1, 1] and spans.starts.tolist() == [0, 3, 1, 2]
    assert spans.sizes.tolist() == [2, 1, 1, 2]
    assert spans.number[0, 1] == 0 and spans.number[1].tolist()[1:] == [2, 3, 3]


def test_coach_without_spans_learns_where_none_is() -> None:
    model = model_for()
    batch = batch_for(model)
    batch.tags = batch.tags.clamp(max=0)
    loss = model.loss(batch)
    loss.backward()
    assert torch.isfinite(loss) and model.head.weight.grad is not None and model.to_types.weight.grad is None


def test_coach_may_know_types_by_their_descriptions_alone() -> None:
    model, with_rows = model_for(type_rows=False), model_for()
    batch = batch_for(model)
    before = model.decode_tags(batch)[1]
    assert not torch.allclose(before, with_rows.decode_tags(batch)[1])
    with torch.no_grad():
        model.own_rows.add_(1.0)
    assert torch.equal(model.decode_tags(batch)[1], before)
    model.describe(TypeTexts({name: VECTORS[name].flip(-1) for name in TYPES}))
    assert not torch.allclose(model.decode_tags(batch)[1], before)


def test_coach_finds_types_that_it_was_not_trained_on(tmp_path: Path) -> None:
    recipe = tiny_recipe(architecture="coach", lstm_size=16, span_size=16, max_epochs=25, type_rows=False)
    data = replace(tiny_data(), texts={"person": ("ada sang",), "band": ("marble toured",), "location": ("in oslo",)})
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None and last.result.test is not None and last.result.test.f1 > 0.5
    kept = load_tagger(tmp_path)
    items = list(data.test)
    same = zero_shot.for_types(kept, tiny_encoder(), data.texts)
    assert same.predict_spans([item.sentence for item in items]) == kept.predict_spans([i.sentence for i in items])
    # Other names for the same meanings are found alike.
    texts = {name.upper(): own for name, own in data.texts.items()}
    renamed = zero_shot.for_types(kept, tiny_encoder(), texts).predict_spans([item.sentence for item in items])
    expected = kept.predict_spans([item.sentence for item in items])
    assert any(expected)
    assert [[(s.start, s.end, s.type) for s in each] for each in renamed] == [
        [(s.start, s.end, s.type.upper()) for s in each] for each in expected
    ]


def test_coach_takes_all_that_belongs_to_no_type_and_vectors_of_equally_named_types() -> None:
    source, target = model_for(("misc", "person"), seed=1), model_for(("person", "band"), seed=2)
    band, own = target.own_rows[1].clone(), target.encoder.state_dict()
    assert target.copy_shared_tags(source) == ("O", "B-person", "I-person")
    for name in ("lstm.weight_ih_l0", "spans.weight_hh_l0_reverse", "to_types.weight", "head.weight", "moves", "end"):
        assert torch.equal(target.state_dict()[name], source.state_dict()[name])
    assert torch.equal(target.own_rows[0], source.own_rows[1]) and torch.equal(target.own_rows[1], band)
    assert all(torch.equal(value, target.encoder.state_dict()[name]) for name, value in own.items())
    crf = build_model(tiny_recipe(architecture="bilstm_crf", lstm_size=5), tiny_encoder(), TYPES)
    assert model_for().copy_shared_tags(model_for(span_size=3)) == () == model_for().copy_shared_tags(crf)
    assert crf.copy_shared_tags(model_for()) == ()


def test_coach_texts_are_read_by_the_pretrained_encoder_whatever_other_architectures_do() -> None:
    encoder, texts = tiny_encoder(), {"band": ("marble toured", "the tin foxes")}
    for architecture, reads in (("coach", False), ("type_aware", True)):
        recipe = tiny_recipe(architecture=architecture, type_encoder="own")
        assert (read_texts(recipe, encoder, texts).batch is not None) == reads


def test_coach_learns_from_word_vectors_too() -> None:
    encoder, items = Words.new("size=16,chars=cnn"), own_sentences(4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(tiny_recipe(architecture="coach", lstm_size=5, span_size=4, dropout=0.0), encoder, TYPES)
        model.describe(TypeTexts({name: torch.randn(1, encoder.hidden_size) for name in TYPES}))
    assert model.own_rows.shape == (3, encoder.hidden_size) and isinstance(model, Coach)
    batch = encoder.collate(encoder.windows([item.sentence for item in items]), tag_indices(items, model.tags))
    before = model.loss(batch)
    before.backward()
    weights = list(encoder.model.parameters())
    assert weights and all(part.grad is not None and part.grad.any() for part in weights if part.requires_grad)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model.loss(batch) < before
    tags, scores = model.eval().decode_tags(batch)
    assert tags.shape == batch.mask.shape and scores.shape == (*tags.shape, 1 + 2 * len(TYPES))
    torch.testing.assert_close(scores.exp().sum(-1)[batch.mask], torch.ones(int(batch.mask.sum())))


def test_coach_options_count_for_it_alone() -> None:
    own = Recipe(architecture="coach")
    assert replace(Recipe(), span_size=100).hash == Recipe().hash
    for name, value in (("span_size", 100), ("template_weight", 0.5), ("type_rows", False), ("type_texts", "titles")):
        assert replace(own, **{name: value}).hash != own.hash  # type: ignore[arg-type]
    assert replace(own, type_encoder="own").hash == own.hash and own.reads_texts


def with_and_without_templates(types: tuple[str, ...] = TYPES) -> tuple[Coach, Coach]:
    model, plain = model_for(types, template_weight=3.0), model_for(types)
    plain.load_state_dict(model.state_dict(), strict=False)
    return model, plain


def test_coach_templates_are_near_with_the_right_types_and_far_with_others() -> None:
    model, plain = with_and_without_templates()
    batch = batch_for(model)
    vectors, states = model.token_vectors(batch), model.read(batch)
    kinds = torch.nn.functional.normalize(torch.stack([VECTORS[name].mean(0) for name in TYPES]), dim=-1)
    kinds = kinds + model.own_rows

    def pooled(attention: torch.nn.Module, own: Tensor) -> Tensor:
        return (attention(own).softmax(0) * own).sum(0)

    torch.manual_seed(4)
    others = torch.randint(1, 3, (2, int((batch.tags % 2 == 1).sum())))
    total, number = torch.zeros(()), 0
    for row, size in enumerate(batch.mask.sum(1).tolist()):
        tags = batch.tags[row, :size].tolist()
        sentence = pooled(model.templates.of_sentence, states[row, :size])
        distances = []
        for which in range(3):
            words, span = [], number
            for token, tag in enumerate(tags):
                if tag == 0:
                    words.append(vectors[row, token])
                elif tag % 2 == 1:
                    right = (tag - 1) // 2
                    words.append(kinds[right if which == 0 else (right + int(others[which - 1, span])) % 3])
                    span += 1
            read, _ = model.templates.lstm(torch.stack(words).unsqueeze(0))
            distances.append((pooled(model.templates.of_template, read[0]) - sentence).square().mean())
        number = span
        total = total + size * (distances[0] - (distances[1] + distances[2]) / 2)
    torch.manual_seed(4)
    expected = plain.loss(batch) + 3.0 * total / batch.mask.sum()
    assert abs(float(total.detach())) > 1e-4
    torch.testing.assert_close(model.loss(batch), expected)


def test_coach_templates_leave_sentences_without_a_span_alone() -> None:
    model, plain = with_and_without_templates()
    batch = batch_for(model, 1)
    bare = replace(batch, tags=batch.tags.clamp(max=0))
    torch.testing.assert_close(model.loss(bare), plain.loss(bare))
    single, without = with_and_without_templates(("person",))
    marked = replace(batch, tags=torch.where(batch.tags > 2, 0, batch.tags))
    torch.testing.assert_close(single.loss(marked), without.loss(marked))
