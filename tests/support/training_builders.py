"""Small sentences, a small encoder and small runs for the tests of the training engine."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import BartConfig, BartModel, BertConfig, BertModel, BertTokenizer

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.flair import Flair
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.names import TRANSFORMER, kind_named
from crossner_core.encoders.transformer import Transformer
from crossner_core.encoders.windows import Batch
from crossner_core.encoders.words import Words
from crossner_core.models.base import TokenTagger
from crossner_core.schema import LabelledSentence, Span, sentence_from_words
from crossner_core.training.batches import tag_indices
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.recipe import Recipe

BANDS = ["Quiet Harbour", "The Tin Foxes", "Marble", "North of Noon", "Lanterns"]
PEOPLE = ["Ada Brook", "Milo Fenn", "Ines", "Otto Vale Junior"]
PLACES = ["Leeds", "New Haven", "Oslo", "Porto"]
PATTERNS = [
    ("{p} sang with {b} in {c} .", "pbc"),
    ("{b} toured {c} last year .", "bc"),
    ("In {c} , {p} left {b} .", "cpb"),
    ("{p} was born in {c} .", "pc"),
]
TYPES = ("person", "band", "location")


def labelled(words: list[str], spans: list[tuple[int, int, str]], id: str = "s") -> LabelledSentence:
    """Return a sentence of these words with these spans."""
    return LabelledSentence(sentence_from_words(words, id=id), tuple(Span(*span) for span in spans))


def own_sentences(count: int, *, offset: int = 0) -> tuple[LabelledSentence, ...]:
    """Return sentences about made-up bands, people and places."""
    made = []
    for at in range(offset, offset + count):
        pattern, _ = PATTERNS[at % len(PATTERNS)]
        names = {
            "p": ("person", PEOPLE[at % len(PEOPLE)]),
            "b": ("band", BANDS[at % len(BANDS)]),
            "c": ("location", PLACES[(at // 2) % len(PLACES)]),
        }
        words: list[str] = []
        spans: list[tuple[int, int, str]] = []
        for piece in pattern.split():
            if piece.startswith("{"):
                type_name, name = names[piece[1]]
                spans.append((len(words), len(words) + len(name.split()), type_name))
                words += name.split()
            else:
                words.append(piece)
        made.append(labelled(words, spans, id=f"own-{at}"))
    return tuple(made)


def tiny_flair(hidden_size: int) -> Flair:
    """Return untrained character models that know the letters of the own sentences."""
    letters = {letter for item in own_sentences(60) for word in item.sentence.words for letter in word}
    return Flair.make({"characters": "".join(sorted(letters)), "hidden_size": hidden_size})


def tiny_words(chars: str = "none") -> Words:
    """Return a body of word vectors in which every other word of the own sentences has a fixed one, as of a file."""
    known = _own_words()[::2]
    encoder = Words.make({"size": 8, "chars": chars, "known": len(known)})
    encoder.rows = {word: row for row, word in enumerate(known, 1)}
    encoder.model.fixed[1:] = torch.randn((len(known), 8), generator=torch.Generator().manual_seed(5))
    return encoder


def tiny_encoder(*, dropout: float = 0.1, seed: int = 3, positions: int = 64) -> Encoder:
    """Return a randomly initialised BERT of two layers that knows the words of the own sentences."""
    tokenizer = _own_tokenizer(positions)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config, add_pooling_layer=False)
    return Transformer.of(model, tokenizer, "tiny", max_length=positions)


def tiny_bart(*, dropout: float = 0.1, tokenizer: Any = None) -> Encoder:
    """Return a randomly initialised BART of one layer a side, by default with the words of the own sentences."""
    if tokenizer is None:
        tokenizer = _own_tokenizer(64)
    sizes = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in
             (("layers", 1), ("attention_heads", 2), ("ffn_dim", 48))}  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BartModel(
            BartConfig(
                vocab_size=len(tokenizer), d_model=32, max_position_embeddings=64, dropout=dropout,
                pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.cls_token_id,
                eos_token_id=tokenizer.sep_token_id, decoder_start_token_id=tokenizer.sep_token_id, **sizes,
            )
        )  # fmt: skip
    return Transformer.of(model, tokenizer, "bart", max_length=64)


def _own_words() -> list[str]:
    return sorted({word.lower() for item in own_sentences(60) for word in item.sentence.words})


def _own_tokenizer(positions: int) -> BertTokenizer:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_own_words(), "un", "##able"]
    vocab = {word: number for number, word in enumerate(words)}
    return BertTokenizer(vocab=vocab, do_lower_case=True, model_max_length=positions)


BODIES: dict[str, Callable[[], Encoder]] = {
    "words:own": tiny_words,
    "words:own,chars=lstm": partial(tiny_words, "lstm"),
    "words:own,chars=cnn": partial(tiny_words, "cnn"),
    "flair:own": partial(tiny_flair, 24),
    "bart": tiny_bart,
}
"""Bodies other than the tiny encoder, by the name that recipes of tests have for them."""


def encoder_for(recipe: Recipe, *, dropout: float = 0.1) -> Encoder:
    """Return the body that a recipe names: one of `BODIES`, an untrained one, else the tiny encoder."""
    if recipe.encoder in BODIES:
        return BODIES[recipe.encoder]()
    kind = kind_named(recipe.encoder)
    return tiny_encoder(dropout=dropout) if kind == TRANSFORMER else load_encoder(recipe.encoder)


def save_encoder(folder: Path, **changes: object) -> Path:
    """Write the tiny encoder as a local folder; `changes` go into its tokenizer config."""
    encoder = tiny_encoder()
    encoder.save(folder)
    if changes:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def tiny_recipe(**changes: object) -> Recipe:
    """Return a recipe that trains the tiny encoder in a moment, in single precision on the CPU."""
    values: dict[str, object] = {
        "learning_rate": 5e-3,
        "head_learning_rate": 1e-2,
        "source_learning_rate": 5e-3,
        "batch_size": 4,
        "max_epochs": 5,
        "dev_every": 1,
        "max_length": 64,
        "min_epoch_steps": 1,
        "source_epochs": 2,
        "head_first_epochs": 2,
        "upsample": 2,
        "source_batch_size": 4,
        "pdaln_batch_size": 0,
        "pdaln_base_epochs": 0,
        "precision": "fp32",
        "device": "cpu",
    }
    return Recipe.from_dict({**values, **changes})


def batch_for(model: TokenTagger, count: int = 5) -> Batch:
    """Return the first of the own sentences as a batch of a model."""
    encoder, items = tiny_encoder(), own_sentences(count)
    windows = encoder.windows([item.sentence for item in items])
    return encoder.collate(windows, tag_indices(items, model.tags))


def tiny_data(count: int = 12, *, source: bool = False, dev: bool = True) -> TrainingData:
    """Return training, dev and test sentences, with source sentences when asked for."""
    sources = (SourceCorpus(own_sentences(16, offset=100)),) if source else ()
    return TrainingData(
        train=own_sentences(count),
        types=TYPES,
        dev=own_sentences(6, offset=30) if dev else (),
        test=own_sentences(6, offset=40),
        sources=sources,
    )


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """Let the system refuse to write beyond so many bytes of a file, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
