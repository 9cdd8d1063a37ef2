"""Hugging Face transformers: weights and tokenizer only, never remote code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from crossner_core.encoders.base import Encoder, encoding_part, register
from crossner_core.encoders.names import TRANSFORMER
from crossner_core.encoders.windows import Batch
from crossner_core.errors import EncoderUnavailable, InvalidConfig

# The value of `Transformer.reading` for the bundled encoder, and so for every encoder made from it.
BUNDLED_READING = "f4a2c595d5508423526c594ae1708093118bb946300d6f1a376152210944dfca"
# Where tokenizers with the same vocabulary differ: case, accents, controls, CJK, digits, punctuation, unknown
# characters.
PROBE = ("Élan", "ÉLAN", "naïve", "co-operate", "a\u00adb", "1,024.50", "東京", "don't", "\u2047", "x" * 120)
# Settings of a body that its weights do not determine.
BODY = (
    "model_type", "num_attention_heads", "hidden_act", "layer_norm_eps", "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)  # fmt: skip
# Models whose tokenizers need to see the space before each of the words that they are given.
BYTE_LEVEL = {"roberta", "xlm-roberta", "gpt2", "longformer", "bart"}
# BERT-like positions are at most this many when neither config nor tokenizer says so.
DEFAULT_MAX_LENGTH = 512


@register
@dataclass(slots=True)
class Transformer(Encoder):
    """A pre-trained transformer with its tokenizer; `max_length` counts subwords, special ones included."""

    kind: ClassVar[str] = TRANSFORMER

    @classmethod
    def of(
        cls, model: Any, tokenizer: Any, name: str, *, max_length: int | None = None, folder: Path | None = None
    ) -> Self:
        """Make an encoder from a model and a fast tokenizer."""
        longest = max_length or _max_length(model.config, tokenizer)
        encoder = cls(model, tokenizer, int(model.config.hidden_size), longest, name, "", folder)
        encoder.fingerprint = encoder.measure_fingerprint()
        return encoder

    @property
    def pad_id(self) -> int:
        return int(self.tokenizer.pad_token_id)

    @property
    def values_a_position(self) -> int:
        return self.hidden_size * int(self.model.config.num_hidden_layers)

    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (self.tokenizer.cls_token_id,), (self.tokenizer.sep_token_id,)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Split words into subwords; a word that the tokenizer drops becomes the unknown subword."""
        words = [list(sentence) for sentence in sentences]
        encoded = self.tokenizer(
            words, is_split_into_words=True, add_special_tokens=False, truncation=False, verbose=False
        )
        unknown = self.tokenizer.unk_token_id
        return [
            _by_word(encoded["input_ids"][row], encoded.word_ids(row), len(own), unknown)
            for row, own in enumerate(words)
        ]

    def reading(self) -> str:
        """Return a hash of vocabulary, special subwords, tokenisation of probe words, and the body's settings.

        Based on the tokenizer's behaviour, not on its files, which differ between versions of its library: a folder
        whose tokenizer was repaired is another encoder. Empty if all equals the bundled encoder.
        """
        tokenizer = self.tokenizer
        normalizer = tokenizer.backend_tokenizer.normalizer
        parts = [
            sorted(tokenizer.get_vocab().items()),
            [normalizer.normalize_str(word) if normalizer is not None else word for word in PROBE],
            tokenizer(list(PROBE), is_split_into_words=True)["input_ids"],
            [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id, self.max_length],
            [getattr(self.model.config, name, None) for name in BODY],
        ]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return "" if digest == BUNDLED_READING else digest

    def last_layers(self, batch: Batch, most: int) -> Tensor:
        states = encoding_part(self.model)(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True
        ).hidden_states
        return torch.cat(states[-min(most, self.model.config.num_hidden_layers) :], -1)

    def recompute(self) -> None:
        try:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
        except (AttributeError, ValueError) as error:
            raise InvalidConfig(
                f"recompute is on, but encoder {self.name!r} cannot do it: {error} Switch it off."
            ) from error
        # Only reentrant checkpointing needs input gradients; with them, a frozen body would compute gradients too.
        self.model.disable_input_require_grads()

    def save(self, folder: Path, *, weights: bool = True) -> None:
        with quiet():
            (self.model if weights else self.model.config).save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)

    @classmethod
    def empty(cls, folder: Path, *, weights: Mapping[str, Tensor] | None = None) -> Self:
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        with _damage():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            if weights is not None:
                _check_size(config, weights)
            model = AutoModel.from_config(config)
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            longest, rows = _max_length(config, tokenizer), len(model.get_input_embeddings().weight)
        _check_tokenizer(tokenizer, rows, folder.name)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        return cls(model, tokenizer, int(config.hidden_size), longest, folder.name, "")

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        return cls.read(str(folder), name, folder=folder)

    @classmethod
    def read(cls, source: str, name: str, *, folder: Path | None = None) -> Self:
        """Read weights (safetensors only) and a fast tokenizer from a folder, or from the hub without one.

        Raises EncoderUnavailable, or what the library raises for damaged files.
        """
        try:
            with quiet(), _damage(AttributeError, NotImplementedError):
                tokenizer = _load_tokenizer(source, local=folder is not None)
                model = _load_model(source, local=folder is not None)
                rows = len(model.get_input_embeddings().weight)
        except (AttributeError, NotImplementedError) as error:
            raise EncoderUnavailable(
                f"Encoder {name!r} has no embeddings of subwords: choose a BERT-like encoder."
            ) from error
        _check_tokenizer(tokenizer, rows, name)
        return cls.of(model, tokenizer, name, folder=folder)


@contextmanager
def _damage(*passed_on: type[Exception]) -> Iterator[None]:
    """Raise ValueError for whatever the library raises of a damaged file: each of its versions has other errors."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (OSError, ValueError, ImportError, *passed_on)):
            raise
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _check_size(config: Any, weights: Mapping[str, Tensor]) -> None:
    """Refuse a config whose body has more layers or weights than there are; a body without weights costs no memory."""
    from transformers import AutoModel

    if (layers := getattr(config, "num_hidden_layers", 0)) > len(weights):
        raise ValueError(f"its config.json states {layers:,} layers, for which there are {len(weights):,} weights")
    with torch.device("meta"):
        body = AutoModel.from_config(config)
    # The pooler is not kept.
    size = sum(value.numel() for name, value in body.named_parameters() if not name.startswith("pooler."))
    if size > (most := sum(value.numel() for value in weights.values())):
        raise ValueError(f"its config.json describes {size:,} weights; there are {most:,}")


def _by_word(ids: Sequence[int], word_ids: Sequence[int | None], count: int, unknown: int) -> list[list[int]]:
    pieces: list[list[int]] = [[] for _ in range(count)]
    for subword, word in zip(ids, word_ids, strict=True):
        if word is not None:
            pieces[word].append(subword)
    return [piece or [unknown] for piece in pieces]


def _load_tokenizer(source: str, *, local: bool) -> Any:
    from transformers import AutoConfig, AutoTokenizer

    options: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    if AutoConfig.from_pretrained(source, **options).model_type in BYTE_LEVEL:
        options["add_prefix_space"] = True
    return AutoTokenizer.from_pretrained(source, **options)


def _load_model(source: str, *, local: bool) -> Any:
    from transformers import AutoModel

    model, info = AutoModel.from_pretrained(
        source,
        local_files_only=local,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        ignore_mismatched_sizes=True,  # reported below, in our own words
        output_loading_info=True,
    )
    if other := sorted(name for name, *_ in info["mismatched_keys"]):
        raise ValueError(f"The weights {_some(other)} differ in shape from its config.json.")
    if lacking := sorted(name for name in info["missing_keys"] if not name.startswith("pooler.")):
        raise ValueError(f"Its weights lack {_some(lacking)}: they belong to another model or are incomplete.")
    # The pooler sees only the first position; removing it leaves no weight untrained.
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _some(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _check_tokenizer(tokenizer: Any, rows: int, name: str) -> None:
    """Check that the tokenizer is fast and has words, and that each subword has one of the `rows` embeddings."""
    if not getattr(tokenizer, "is_fast", False):
        raise EncoderUnavailable(
            f"Encoder {name!r} has only a slow tokenizer, which cannot map subwords to tokens; "
            "choose an encoder with a tokenizer.json."
        )
    known = tokenizer.get_vocab()
    if len(known) <= len(set(tokenizer.all_special_ids)):
        raise EncoderUnavailable(
            f"Encoder {name!r}: its tokenizer has no words; put its tokenizer.json (or vocab.txt) next to its weights."
        )
    if max(known.values()) >= rows:
        raise EncoderUnavailable(
            f"Encoder {name!r}: its tokenizer numbers subwords up to {max(known.values()):,}, but the weights have "
            f"embeddings for {rows:,}; they do not match."
        )
    if not isinstance(longest := getattr(tokenizer, "model_max_length", 0), int | float):
        raise EncoderUnavailable(f"Encoder {name!r}: its tokenizer's model_max_length is {longest!r}, not a number.")
    for role in ("cls_token_id", "sep_token_id", "pad_token_id", "unk_token_id"):
        if getattr(tokenizer, role, None) is None:
            raise EncoderUnavailable(f"Encoder {name!r}: its tokenizer has no {role}; choose a BERT-like encoder.")


def _max_length(config: Any, tokenizer: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", DEFAULT_MAX_LENGTH) or DEFAULT_MAX_LENGTH)
    if getattr(config, "model_type", "") in {"roberta", "xlm-roberta", "camembert"}:
        positions -= 2  # positions start after the padding index there
    stated = int(getattr(tokenizer, "model_max_length", positions) or positions)
    return min(positions, stated) if stated > 0 else positions


@contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and reports while loading or saving; errors are still shown."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
