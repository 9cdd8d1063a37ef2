"""Of BARTNER what the contract tests do not say: sequences, pointers, well-formed decoding, and BART-shaped folders."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import BartTokenizer

from crossner_core.encoders.base import Encoder, vectors
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.windows import Batch
from crossner_core.encoders.words import Words
from crossner_core.exports.base import EXPORTS
from crossner_core.models.bartner import Bartner, sequences
from crossner_core.models.heads import head_tags
from crossner_core.tags import spans_from_tags
from crossner_core.training.loop import train
from crossner_core.training.predictor import build_model, load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import (
    TYPES,
    batch_for,
    labelled,
    own_sentences,
    tiny_bart,
    tiny_data,
    tiny_encoder,
    tiny_recipe,
)

KINDS = len(TYPES)


def model_for(*, encoder: Encoder | None = None, dropout: float = 0.0, seed: int = 11) -> Bartner:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        made = build_model(tiny_recipe(architecture="bartner", dropout=dropout), encoder or tiny_encoder(), TYPES)
        assert isinstance(made, Bartner)
        torch.manual_seed(seed)  # with 11 some entities, one of them of two tokens
        with torch.no_grad():
            made.head.weight.normal_()
            *_, weight, bias = made.pointed.parameters()
            weight.mul_(20)
            bias.normal_()
    return made.eval()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_bartner_writes_the_same_in_training_whether_activations_are_recomputed(dropout: float) -> None:
    encoder = tiny_bart(dropout=dropout)
    model = model_for(dropout=dropout, encoder=encoder, seed=22).train()
    batch = batch_for(model)
    written: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []
    for recompute in (False, True):
        if recompute:
            encoder.recompute()
        model.zero_grad()
        torch.manual_seed(6)
        tags, scores = model.decode_tags(batch)
        scores[..., 0].sum().backward()
        grads = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
        written.append((tags, scores.detach(), grads))
        assert encoder.model.decoder.layers[0].gradient_checkpointing == recompute
    (tags, scores, grads), (tags_again, scores_again, grads_again) = written
    assert bool((tags > 0).any()) and torch.equal(tags_again, tags) and torch.equal(scores_again, scores)
    assert grads.keys() == grads_again.keys()
    for name, value in grads.items():
        torch.testing.assert_close(grads_again[name], value, msg=name)


def outputs_of(tags: list[int], width: int) -> list[int]:
    """The sequence of one window's gold tags, by hand."""
    made: list[int] = []
    for span in spans_from_tags([head_tags(TYPES)[max(tag, 0)] for tag in tags]):
        made += [*range(span.start, span.end), width + TYPES.index(span.type)]
    return [*made, width + KINDS]


def chances(model: Bartner, batch: Batch, row: int, done: list[int]) -> Tensor:
    """The scores (C,) of the outputs after those that are `done`, by one pass over all of these, token by token."""
    hidden = vectors(model.encoder, batch)[row : row + 1]
    size = int(batch.mask[row].sum())
    ids = [int(batch.input_ids[row, batch.positions[row, place]]) for place in range(size)]
    embedded = model.encoder.get_input_embeddings().weight[ids]
    rows = [*embedded, *model.head.weight[1:], model.head.weight[0]]
    places = [place if place < size else place - batch.mask.shape[1] + size for place in done]
    given = torch.stack([model.head.weight[0], *(rows[place] for place in places)]).unsqueeze(0)
    mask = batch.attention_mask[row : row + 1]
    state = model.decoder(inputs_embeds=given, encoder_hidden_states=hidden, encoder_attention_mask=mask)
    last = state.last_hidden_state[0, -1]
    scores = [
        last @ (0.5 * model.pointed(hidden[0, int(batch.positions[row, place])]) + 0.5 * embedded[place])
        for place in range(size)
    ]
    padding = [torch.tensor(-1e4)] * (batch.mask.shape[1] - size)
    return torch.stack([*scores, *padding, *(last @ each for each in rows[size:])])


def test_bartner_sequence_is_the_tokens_of_each_entity_then_its_type() -> None:
    tags = torch.tensor([[0, 1, 2, 1, 5, 6, 0], [2, 2, 4, 0, -100, -100, -100], [0, 0, 0, 0, 0, 0, 0]])
    made = sequences(tags, KINDS)
    expected = [[1, 2, 7, 3, 7, 4, 5, 9, 10], [0, 1, 7, 2, 8, 10], [10]]
    assert made.tolist() == [[*own, *[-100] * (9 - len(own))] for own in expected]


def test_bartner_loss_is_that_of_the_whole_sequence_over_tokens() -> None:
    model = model_for()
    batch = batch_for(model)
    total = torch.zeros(())
    for row, tags in enumerate(batch.tags.tolist()):
        done: list[int] = []
        for output in outputs_of(tags, batch.mask.shape[1]):
            total = total - chances(model, batch, row, done).log_softmax(0)[output]
            done.append(output)
    torch.testing.assert_close(model.loss(batch), total / (batch.tags >= 0).sum(), rtol=1e-4, atol=1e-4)


def write(model: Bartner, batch: Batch, row: int) -> tuple[list[int], dict[int, float], dict[int, Tensor]]:
    """One window's tags, and of each token how probable it is to be in an entity, and of which type, step by step."""
    width, size = batch.mask.shape[1], int(batch.mask[row].sum())
    tags, inside, types = [0] * size, dict[int, float](), dict[int, Tensor]()
    done, entity, share, last = list[int](), list[int](), 1.0, -1
    while True:
        scores = chances(model, batch, row, done)
        kinds = range(width, width + KINDS)
        may = [last + 1, *kinds] if entity else [*range(last + 1, width), width + KINDS]
        p = torch.full_like(scores, -1e4)
        for output in may:
            if output < size or output >= width:
                p[output] = scores[output]
        p = p.softmax(0)
        best = int(p.argmax())
        of_types = scores[width : width + KINDS].softmax(0)
        if not entity:
            for place in range(last + 1, best if best < size else size):
                inside[place], types[place] = float(p[place]), of_types
        if best == width + KINDS:
            return tags, inside, types
        if best < size:
            share, last = (share if entity else 1.0) * float(p[best]), best
            entity.append(best)
        else:
            for place in entity:
                inside[place], types[place] = share, of_types
                tags[place] = 1 + 2 * (best - width) + (place != entity[0])
            entity = []
        done.append(best)


@torch.no_grad()
def test_bartner_writes_well_formed_entities_with_the_probabilities_of_its_steps() -> None:
    model = model_for()
    batch = batch_for(model)
    tags, scores = model.decode_tags(batch)
    entities = tokens = 0
    for row, size in enumerate(batch.mask.sum(1).tolist()):
        expected, inside, types = write(model, batch, row)
        assert tags[row, :size].tolist() == expected
        entities += len(spans_from_tags([head_tags(TYPES)[tag] for tag in expected]))
        tokens += sum(tag > 0 for tag in expected)
        for place in range(size):
            p = scores[row, place].exp()
            assert float(p.sum()) == pytest.approx(1.0, abs=1e-5)
            assert float(p[0]) == pytest.approx(1 - inside[place], abs=2e-5)
            own = p[1:].view(KINDS, 2).sum(1)
            torch.testing.assert_close(own, inside[place] * types[place], atol=2e-5, rtol=1e-3)
    assert 0 < entities < tokens


def test_bartner_chooses_among_allowed_types_only() -> None:
    model = model_for()
    batch = batch_for(model)
    tags, scores = model.decode_tags(batch, 3)
    assert scores.shape[-1] == 3 and int(tags.max()) <= 2


def test_bartner_entity_at_a_windows_start_goes_on_with_one_of_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_for()
    batch = batch_for(model)
    width = batch.mask.shape[1]

    def choices(states: Tensor, memory: object) -> Tensor:
        scores = torch.zeros(len(states), 1, width + KINDS + 1)
        scores[..., 0], scores[..., width + 1], scores[..., -1] = 20.0, 10.0, 5.0  # the first token, its type, the end
        return scores

    monkeypatch.setattr(model, "choices", choices)
    band = 1 + 2 * TYPES.index("band")
    for before, first in ((0, band), (band, band + 1), (band + 1, band + 1), (band + 2, band), (band - 1, band)):
        tags = model.decode_tags(replace(batch, before=torch.full((len(batch.tags),), before)))[0]
        assert tags[:, 0].tolist() == [first] * len(tags) and not tags[:, 1:].any()


def test_bartner_type_starts_as_the_mean_of_the_subwords_of_its_name() -> None:
    encoder = tiny_encoder()
    model = build_model(tiny_recipe(architecture="bartner"), encoder, ("sang_marble", "band"))
    assert isinstance(model, Bartner)
    words = encoder.tokenizer.convert_tokens_to_ids(["sang", "marble"])
    table = encoder.model.get_input_embeddings().weight
    torch.testing.assert_close(model.head.weight[1], table[words].mean(0))
    torch.testing.assert_close(model.head.weight[0], table[encoder.tokenizer.sep_token_id])


@pytest.mark.parametrize("architecture", ["bartner", "tagger"])
def test_bart_folder_is_an_encoder_and_its_decoder_writes(architecture: str, tmp_path: Path) -> None:
    tiny_bart().save(tmp_path / "bart")
    encoder = load_encoder(str(tmp_path / "bart"))
    recipe = tiny_recipe(architecture=architecture, max_epochs=2)
    model = build_model(recipe, encoder, TYPES).eval()
    batch = batch_for(model)
    own = encoder.model.encoder(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    torch.testing.assert_close(vectors(encoder.model, batch), own)
    if isinstance(model, Bartner):
        assert model.own is None and model.decoder is encoder.model.decoder
    *_, last = train(recipe, tiny_data(), checkpoint_dir=tmp_path / "run", encoder=encoder)
    assert last.result is not None
    read = load_tagger(tmp_path / "run").predict_spans([item.sentence for item in tiny_data().test])
    assert read == list(last.result.predictions) and len(read) == len(tiny_data().test)


def byte_level_tokenizer(texts: list[str]) -> BartTokenizer:
    """Return a tokenizer like that of published BARTs, whose subwords are of bytes and have the space before a word."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special, letters = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], pre_tokenizers.ByteLevel.alphabet()
    options = {"special_tokens": special, "initial_alphabet": letters, "show_progress": False}
    learner.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=300, **options))
    learnt = json.loads(learner.to_str())["model"]
    return BartTokenizer(vocab=learnt["vocab"], merges=[tuple(pair) for pair in learnt["merges"]])


def test_bart_with_subwords_of_bytes_aligns_them_to_words_and_trains(tmp_path: Path) -> None:
    texts = [" ".join(item.sentence.words) for item in own_sentences(20)]
    tiny_bart(tokenizer=byte_level_tokenizer(texts)).save(tmp_path / "bart")
    encoder = load_encoder(str(tmp_path / "bart"))
    sentence = labelled(["Oslo", "sang", "東京", "isn't", "naïve", "."], [(0, 1, "location")]).sentence
    (pieces,) = encoder.pieces([sentence.words])
    assert [encoder.tokenizer.decode(ids) for ids in pieces] == [f" {word}" for word in sentence.words]
    subwords = [subword for ids in pieces for subword in ids]
    assert encoder.tokenizer.unk_token_id not in subwords and len(subwords) > 2 * len(pieces)
    batch, (first, last) = encoder.collate(encoder.windows([sentence])), encoder.ends()
    assert batch.input_ids[0].tolist() == [*first, *subwords, *last]
    assert batch.input_ids[0, batch.positions[0]].tolist() == [ids[0] for ids in pieces]
    recipe = tiny_recipe(architecture="bartner", max_epochs=1)
    *_, end = train(recipe, tiny_data(), checkpoint_dir=tmp_path / "run", encoder=encoder)
    assert end.result is not None and math.isfinite(end.result.history[-1].loss)
    read = load_tagger(tmp_path / "run")
    assert read.encoder.pieces([sentence.words]) == [pieces]
    assert read.predict_spans([item.sentence for item in tiny_data().test]) == list(end.result.predictions)


def test_bartner_points_at_word_vectors_and_says_why_it_is_not_exported() -> None:
    model = build_model(tiny_recipe(architecture="bartner"), words := Words.new("size=150"), TYPES).eval()
    assert isinstance(model, Bartner) and model.decoder.config.decoder_attention_heads == 2
    memory = model.read(batch := words.collate(words.windows([item.sentence for item in own_sentences(2)])))
    torch.testing.assert_close(memory.given[:, : batch.mask.shape[1]], model.token_vectors(batch))
    for target in ("huggingface", "onnx", "spacy"):
        assert "writes" in EXPORTS.one(target).refusal(Recipe(architecture="bartner"))
