"""Sentences that take several windows: entities across a seam, and nothing else decoded otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from crossner_core.encoders.windows import Batch
from crossner_core.models.bartner import Bartner, Memory
from crossner_core.models.base import TokenTagger
from crossner_core.models.coach import Coach
from crossner_core.models.crf import Crf
from crossner_core.models.heads import head_tags
from crossner_core.models.registry import architecture_ids
from crossner_core.schema import Sentence, Span, sentence_from_words
from crossner_core.tags import tag_problems
from crossner_core.training.predictor import Predictor, build_model
from tests.support.training_builders import TYPES, tiny_encoder, tiny_recipe

ROOM = 32
ARCHITECTURES = architecture_ids()


def predictor_of(architecture: str, **changes: object) -> Predictor:
    encoder = tiny_encoder(dropout=0.0)
    model = build_model(tiny_recipe(architecture=architecture, **changes), encoder, TYPES)
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder."):
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return Predictor(model.eval(), encoder, TYPES[:2], max_length=ROOM, meta={"recipe_hash": "x"})


def mixed_sentences() -> list[Sentence]:
    words = ("Ines", "toured", "Oslo", "last", "year", "with", "Lanterns", ".")
    sizes = (3, 70, 8, 25, 120, 12, 45, 30, 5)
    return [
        sentence_from_words([words[(at * 5 + size) % len(words)] for at in range(size)], id=str(size)) for size in sizes
    ]


def certain_outputs(states: Tensor, memory: Memory) -> Tensor:
    """Score as `certain` does what BARTNER writes: `Ines` before a person's end, and that before any other word."""
    width = memory.possible.shape[1] - len(TYPES) - 1
    ines = tiny_encoder().model.get_input_embeddings().weight[tiny_encoder().tokenizer.convert_tokens_to_ids("ines")]
    own = (memory.given[:, :width] == ines).all(-1)  # (B, W)
    rest = torch.tensor([10.0, *[0.0] * (len(TYPES) - 1), 5.0]).expand(len(own), -1)
    scores = torch.cat((torch.where(own, 20.0, -20.0), rest), 1).masked_fill(~memory.possible, -1e4)
    return scores.unsqueeze(1)


def certain(model: TokenTagger) -> Callable[[Batch], Tensor]:
    """Make a model's tags depend on its words alone: a run of `Ines` is a person, all else is O."""
    inside = tiny_encoder().tokenizer.convert_tokens_to_ids("ines")
    head = model.predictor.head if hasattr(model, "predictor") else model.head
    size = head.in_features if isinstance(model, Crf) else tiny_encoder().hidden_size
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        if isinstance(model, Coach):
            model.to_types.weight.zero_()  # no span tells its type: each is a person, the first of them
        for at, tag in enumerate(("O", "B-person", "I-person")):
            head.weight[model.tags.index(tag), at] = 20.0

    def vectors(batch: Batch) -> Tensor:
        own = batch.input_ids.gather(1, batch.positions) == inside  # (B, W)
        former = batch.input_ids.gather(1, (batch.positions - 1).clamp(min=0)) == inside  # (B, W)
        kinds = torch.stack([~own, own & ~former, own & former], -1).float()  # (B, W, 3)
        return torch.cat([kinds, torch.zeros(*own.shape, size - 3)], -1)

    return vectors


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_seams_do_not_cut_entities(architecture: str, constrained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = predictor_of(architecture, constrained=constrained)
    model = predictor.model
    if isinstance(model, Bartner):
        monkeypatch.setattr(model, "choices", certain_outputs)
    else:
        monkeypatch.setattr(model, "read" if isinstance(model, Crf) else "token_vectors", certain(model))
    if isinstance(model, Crf):  # what a CRF learns of first and last tags speaks of sentences, not of windows
        with torch.no_grad():
            model.moves.zero_()
            model.start[model.tags.index("I-person")] = -50.0
            model.end[0] = 50.0
    words = ["last"] * 40
    words[18:34] = ["Ines"] * 16
    long, short = sentence_from_words(words, id="a"), sentence_from_words(["Ines", "toured"], id="b")
    seam = predictor.encoder.windows([long])[1].start
    assert 18 < seam < 34
    # A person at the very end of the first window, and another kind of word at the beginning of the next.
    edge = sentence_from_words([*["last"] * (seam - 1), "Ines", *["last"] * (40 - seam)], id="c")
    assert predictor.predict_spans([long, short, edge]) == [
        (Span(18, 34, "person"),),
        (Span(0, 1, "person"),),
        (Span(seam - 1, seam, "person"),),
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_seams_change_nothing_for_sentences_of_one_window(architecture: str) -> None:
    predictor, sentences = predictor_of(architecture), mixed_sentences()
    windows = predictor.encoder.windows(sentences)
    alone = [at for at, one in enumerate(windows) if (one.start, one.end) == (0, len(sentences[one.sentence].tokens))]
    assert 3 < len(alone) < len(windows) - 5
    answers, allowed = predictor.predict_tags(sentences, 4), len(head_tags(predictor.types))
    with predictor.evaluating():
        for indices, batch in predictor.batches(windows, 4):
            for at, decoded in zip(indices, predictor.model.decode(batch, allowed), strict=True):
                if at in alone:
                    tags = tuple(predictor.model.tags[tag] for tag in decoded.tags)
                    assert answers[windows[at].sentence] == (tags, tuple(decoded.probabilities))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_seams_hold_to_iob2_and_scores_are_of_the_same_tags(architecture: str) -> None:
    predictor, sentences = predictor_of(architecture), mixed_sentences()
    answers, scores = predictor.predict_tags(sentences, 4), predictor.tag_scores(sentences, 4)
    for sentence, (tags, _), own in zip(sentences, answers, scores, strict=True):
        assert list(tag_problems(tags, "IOB2")) == [] and own.tags(predictor.model.tags) == tags
        assert len(tags) == len(sentence.tokens)
