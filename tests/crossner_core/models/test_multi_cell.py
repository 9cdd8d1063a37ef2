"""Of a multi-cell LSTM what the contract tests do not say: equations, losses, and what a later stage takes over."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from crossner_core.encoders.words import Words
from crossner_core.models.multi_cell import MultiCell
from crossner_core.training.batches import tag_indices
from crossner_core.training.predictor import build_model
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, batch_for, own_sentences, tiny_encoder, tiny_recipe


def model_for(types: tuple[str, ...] = TYPES, seed: int = 0, **changes: object) -> MultiCell:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        recipe = tiny_recipe(**{"architecture": "multi_cell", "cell_size": 5, "dropout": 0.0, **changes})
        made = build_model(recipe, tiny_encoder(), types)
    assert isinstance(made, MultiCell)
    return made.eval()


def _step(model: MultiCell, direction: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One token of one sentence, type by type: returns h, c, the types' cells (T, H) and the attention (T,)."""
    layer, size = model.layer, model.layer.hidden
    cells = []
    for of_input, of_state, bias in zip(*layer.rows(), strict=True):
        gate = of_input[direction] @ x + of_state[direction] @ h + bias[direction]
        i, z = gate[:size].sigmoid(), gate[size:].tanh()
        cells.append(i * z + (1 - i) * c)
    gate = layer.input[direction] @ x + layer.state[direction] @ h + layer.bias[direction]
    i, o, z = gate[:size].sigmoid(), gate[size : 2 * size].sigmoid(), gate[2 * size :].tanh()
    query = layer.query[direction] @ z
    scores = [layer.value[direction, :, 0] @ (query + layer.key[direction] @ cell).tanh() for cell in cells]
    attention = torch.stack(scores).softmax(0)
    mixed = sum(weight * cell for weight, cell in zip(attention, cells, strict=True))
    c = i * mixed + (1 - i) * c
    return o * c.tanh(), c, torch.stack(cells), attention


def test_multi_cell_follows_its_equations_step_by_step() -> None:
    model = model_for()
    batch = batch_for(model)
    vectors, composed = model.token_vectors(batch), model.compose(batch)
    sizes = batch.mask.sum(1).tolist()
    assert len(set(sizes)) > 1
    for row, size in enumerate(sizes):
        states, cells, attention = ([[], []] for _ in range(3))
        for direction in (0, 1):
            h = c = torch.zeros(5)
            for token in range(size)[:: 1 - 2 * direction]:
                h, c, of_types, weights = _step(model, direction, vectors[row, token], h, c)
                for kept, value in ((states, h), (cells, of_types), (attention, weights)):
                    kept[direction].append(value)
        ordered = [(part[0], part[1][::-1]) for part in (states, cells, attention)]
        for token in range(size):
            h, own, weights = ((ahead[token], behind[token]) for ahead, behind in ordered)
            assert torch.allclose(composed.states[row, token], torch.cat(h), atol=1e-6)
            assert torch.allclose(composed.cells[row, token], torch.cat(own, -1), atol=1e-6)
            assert torch.allclose(composed.attention[row, token], (weights[0] + weights[1]) / 2, atol=1e-6)


def test_multi_cell_adds_the_losses_of_types_and_attention_as_means_over_tokens() -> None:
    plain = model_for(cell_type_weight=0.0, cell_attention_weight=0.0)
    whole = model_for(cell_type_weight=0.5, cell_attention_weight=2.0)
    batch = batch_for(whole)
    composed = whole.compose(batch)
    of_types, of_attention = [], []
    for row, token in batch.mask.nonzero().tolist():
        tag = whole.tags[int(batch.tags[row, token])]
        kind = torch.tensor([0 if tag == "O" else 1 + TYPES.index(tag[2:])])
        own = composed.cells[row, token]
        logits = torch.stack([own[k] @ whole.type_weight[k] + whole.type_bias[k] for k in range(1 + len(TYPES))])
        of_types.append(cross_entropy(logits.unsqueeze(0), kind))
        of_attention.append(-composed.attention[row, token, kind].log().squeeze())
    expected = plain.loss(batch) + 0.5 * torch.stack(of_types).mean() + 2.0 * torch.stack(of_attention).mean()
    torch.testing.assert_close(whole.loss(batch), expected)


def test_multi_cell_says_nothing_of_types_that_a_corpus_does_not_annotate() -> None:
    model = model_for()
    batch = batch_for(model)
    foreign = torch.tensor([tag.endswith("band") for tag in model.tags]).expand(len(batch.tags), -1)
    kept = torch.where(batch.tags.unsqueeze(-1) == foreign[0].nonzero().squeeze(-1), 0, 1).all(-1)
    marked = replace(batch, tags=torch.where(kept, batch.tags, 0).masked_fill(~batch.mask, -100), foreign=foreign)
    model.loss(marked).backward()
    band = 1 + TYPES.index("band")
    assert not model.type_weight.grad[band].any() and model.type_weight.grad[band - 1].any()  # type: ignore[index]


def test_multi_cell_takes_cells_of_equally_named_types_and_what_belongs_to_none() -> None:
    source, target = model_for(("misc", "person"), seed=1), model_for(("person", "band"), seed=2)
    band = target.layer.type_input[2].clone()
    assert target.copy_shared_tags(source) == ("O", "B-person", "I-person")
    for mine, theirs in zip(target.layer.common(), source.layer.common(), strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(target._type_rows(), source._type_rows(), strict=True):
        assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[2])  # O, person
    assert torch.equal(target.layer.type_input[2], band)
    assert model_for().copy_shared_tags(model_for(cell_size=4)) == ()
    assert model_for().copy_shared_tags(build_model(tiny_recipe(architecture="crf"), tiny_encoder(), TYPES)) == ()


def test_multi_cell_begins_a_new_types_cell_near_that_of_its_parent() -> None:
    source, target = model_for(("misc", "person"), seed=1), model_for(("singer", "band"), seed=2)
    before = [rows.clone() for rows in target._type_rows()]
    assert target.copy_shared_tags(source, {"singer": "person"}) == ("O",)
    for mine, theirs, own in zip(target._type_rows(), source._type_rows(), before, strict=True):
        torch.testing.assert_close(mine[1], theirs[2] + 0.1 * own[1])
        assert torch.equal(mine[2], own[2])


def test_multi_cell_reads_word_vectors_too() -> None:
    encoder = Words.new("size=16,chars=cnn")
    recipe = tiny_recipe(architecture="multi_cell", cell_size=5)
    model, items = build_model(recipe, encoder, TYPES), own_sentences(3)
    batch = encoder.collate(encoder.windows([item.sentence for item in items]), tag_indices(items, model.tags))
    loss = model.loss(batch)
    loss.backward()
    assert torch.isfinite(loss) and model.encoder.learned.weight.grad.abs().sum() > 0
    assert len(model.decode(batch)[0].tags) == len(items[0].sentence.tokens)


def test_multi_cell_options_count_for_it_alone() -> None:
    for name, value in (("cell_size", 50), ("cell_type_weight", 0.5), ("cell_attention_weight", 0.0)):
        assert replace(Recipe(), **{name: value}).hash == Recipe().hash  # type: ignore[arg-type]
        own = Recipe(architecture="multi_cell")
        assert replace(own, **{name: value}).hash != own.hash  # type: ignore[arg-type]
