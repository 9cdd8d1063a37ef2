"""BARTNER: a decoder writes the entities of a sentence one after another, each as its tokens and then its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models.base import TokenTagger
from crossner_core.models.dropout import Dropout
from crossner_core.models.heads import copy_tag_rows, first_tags, tag_types
from crossner_core.models.registry import register
from crossner_core.models.viterbi import FORBIDDEN
from crossner_core.options.bartner import BartnerOptions

_HEADS_OF = 64  # dimensions of an attention head in BART
_LEAST = 1e-6  # of a probability, so that its logarithm is finite


class Memory(NamedTuple):
    """What a decoder reads and chooses from: C = W + T + 1 outputs, the tokens, the types, and the end."""

    hidden: Tensor  # (B, L, H) the encoder's vectors of all subwords
    mask: Tensor | None  # (B, L) None if nothing is padded
    given: Tensor  # (B, C, H) what is read back of an output
    keys: Tensor  # (B, C, H) what an output is chosen by
    possible: Tensor  # (B, C) False for padding, and for what a window's corpus does not annotate


@register("bartner")
class Bartner(TokenTagger):
    """P_t = softmax([K h_t; G h_t]), K = α MLP(H) + (1 − α) E: tokens by K, types and the end by rows of G.

    h_t is the state of a decoder that reads the outputs so far and the encoder's vectors H; E are the embeddings of the
    tokens. Both are those of each token's first subword. An entity is its tokens in order, then its type; the loss is
    that of the whole sequence, over the sentence's tokens. G starts as the mean embedding of the subwords of a type's
    name, the end as that of the closing subword, which is also what is read first. Source: Yan et al. 2021 (A unified
    generative framework for NER), section 3, the variant by words, and LANER's baseline; they take BART's encoder and
    decoder, learning rate 1e-5, 30 epochs.

    The decoder is the encoder's own where that is BART-shaped, else a new one. Ours: an output that does not go on with
    a well-formed sequence is never chosen (in the paper it is dropped afterwards), so that entities are whole, in order
    and apart; of the others the best is taken. A token's probabilities are those at the steps that decided on it: of an
    entity's token, that of the entity's tokens together times those of the types; of another, that no entity began
    there when it was passed over. Of a corpus that annotates some types only, every other token counts as outside. The
    paper's decoder begins with the opening subword, and has dropout on the embeddings. Without subwords an encoder's
    vectors stand for the embeddings, and G starts at random.
    """

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: BartnerOptions) -> None:
        super().__init__(encoder, tags)
        self.options, size = options, encoder.hidden_size
        self.has_embeddings = encoder.tokenizer is not None
        self.own = None if _decoder_of(encoder.model) is not None else _new_decoder(encoder, options)
        self.pointed = nn.Sequential(nn.Linear(size, size), Dropout(options.dropout), nn.ReLU(), nn.Linear(size, size))
        self.dropout = Dropout(options.dropout)
        self.head = nn.Linear(size, 1 + len(tag_types(self.tags)), bias=False)  # the end, then the types
        nn.init.normal_(self.head.weight, std=0.02)
        if self.has_embeddings:
            with torch.no_grad():
                self.head.weight.copy_(_names(encoder, tag_types(self.tags)))

    @property
    def decoder(self) -> Any:
        """The decoder: the encoder's, or its own."""
        return _decoder_of(self.encoder) if self.own is None else self.own

    def loss(self, batch: Batch) -> Tensor:
        """Return the negative log-likelihood of the sequences over the number of tokens with a known tag."""
        memory = self.read(batch)
        targets = sequences(batch.tags, self.head.out_features - 1)[:, : self._most]  # (B, S)
        before = targets[:, :-1].clamp(min=0).unsqueeze(-1).expand(-1, -1, memory.given.shape[-1])
        given = torch.cat((memory.given[:, -1:], memory.given.gather(1, before)), 1)  # (B, S, H)
        states = self._states(memory, given).last_hidden_state
        scores = self.choices(states, memory)  # (B, S, C)
        losses = nn.functional.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return losses / (batch.tags != IGNORED).sum().clamp(min=1)

    def read(self, batch: Batch, allowed: int | None = None) -> Memory:
        """Return what the decoder reads, and the outputs it may choose: tokens, types of the first `allowed` tags."""
        hidden, types = self.hidden(batch), self.head.out_features - 1
        first = batch.positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1])  # (B, W, H)
        tokens = hidden.gather(1, first)  # (B, W, H)
        embedded = tokens
        if self.has_embeddings:
            embedded = self.encoder.get_input_embeddings()(batch.input_ids).gather(1, first)
        share = self.options.pointer_share
        keys = share * self.pointed(tokens) + (1 - share) * embedded
        rows = self.head.weight.roll(-1, 0).expand(len(hidden), -1, -1)  # (B, T + 1, H) the end last
        foreign = batch.tags.new_zeros(len(hidden), types, dtype=torch.bool)
        if batch.foreign is not None:
            foreign = batch.foreign[:, 1::2]
        foreign = foreign | (torch.arange(types, device=foreign.device) >= len(tag_types(self.tags[:allowed])))
        possible = torch.cat((batch.mask & ~foreign.all(1, keepdim=True), ~foreign, torch.ones_like(foreign[:, :1])), 1)
        padded = batch.host is None or batch.host.padded
        return Memory(
            hidden, batch.attention_mask if padded else None, torch.cat((embedded, rows), 1),
            self.dropout(torch.cat((keys, rows), 1)), possible,
        )  # fmt: skip

    def choices(self, states: Tensor, memory: Memory) -> Tensor:
        """Return the scores (B, S, C) of the outputs after decoder states (B, S, H)."""
        scores = (self.dropout(states) @ memory.keys.transpose(1, 2)).float()
        return scores.masked_fill(~memory.possible.unsqueeze(1), FORBIDDEN)

    def scores(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of each token's tags (B, W, K), given the entities that are written."""
        return self.decode_tags(batch)[1]

    def tag_log_probabilities(self, batch: Batch) -> Tensor:
        return self.scores(batch)

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the tags of the entities that are written, and the log-probabilities of all tags.

        One at a window's start goes on with the entity before it if that has the same type.
        """
        writing = self._write(self.read(batch, allowed), len(tag_types(self.tags[:allowed])))
        tags, inside = writing.tags, writing.inside
        if batch.before is not None:
            first = tags[:, 0]
            goes_on = (first > 0) & (batch.before > 0) & ((first - 1) // 2 == (batch.before - 1) // 2)
            tags = torch.cat(((first + goes_on).unsqueeze(1), tags[:, 1:]), 1)
        typed = inside.unsqueeze(2) * writing.types  # (B, W, A)
        begun = ((tags == 0) | (tags % 2 == 1)).unsqueeze(2)
        pairs = torch.stack((torch.where(begun, typed, 0.0), torch.where(begun, 0.0, typed)), -1)  # (B, W, A, 2)
        both = torch.cat(((1 - inside).unsqueeze(2), pairs.flatten(2)), -1).clamp(min=_LEAST)
        return tags, (both / both.sum(-1, keepdim=True)).log()

    def tag_rows(self) -> dict[str, Tensor]:
        """Return the rows of the end and the types, which no other head can take for those of tags."""
        return {"written.head.weight": self.head.weight}

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy all that belongs to no type, then the rows of equally named types (else of an ancestor)."""
        if not isinstance(other, Bartner) or not self.copy_alike(other, ("own.", "pointed.")):
            return ()
        rows = [(self.head.weight, other.head.weight)]
        copy_tag_rows(rows, first_tags(self.tags), first_tags(other.tags), parents)
        return tuple(tag for tag in self.tags if tag in other.tags)

    @property
    def _most(self) -> int:
        """The most outputs of a sequence."""
        return int(self.decoder.config.max_position_embeddings)

    def _states(self, memory: Memory, given: Tensor, cache: Any = None, *, keep: bool = False) -> Any:
        return self.decoder(
            inputs_embeds=given, encoder_hidden_states=memory.hidden, encoder_attention_mask=memory.mask,
            past_key_values=cache, use_cache=keep,
        )  # fmt: skip

    def _write(self, memory: Memory, types: int) -> _Writing:
        """Write the entities of each window, taking the best output that goes on with a well-formed sequence."""
        rows, width = len(memory.hidden), memory.possible.shape[1] - self.head.out_features
        writing, cache = _Writing(rows, width, types, memory.hidden.device), None
        given = memory.given[:, -1:]
        with _keeping_activations(self.decoder):
            for _ in range(min(2 * width + 1, self._most)):
                answer = self._states(memory, given, cache, keep=True)
                cache = answer.past_key_values
                scores = self.choices(answer.last_hidden_state, memory)[:, 0]  # (B, C)
                chosen = writing.add(scores, memory.possible)
                if bool(writing.done.all()):
                    break
                given = memory.given.gather(1, chosen.view(-1, 1, 1).expand(-1, -1, memory.given.shape[-1]))
        return writing


class _Writing:
    """What is written so far of each of B windows, and the probabilities that led to it."""

    def __init__(self, rows: int, width: int, types: int, device: torch.device) -> None:
        self.tags = torch.zeros(rows, width, dtype=torch.long, device=device)
        self.inside = torch.zeros(rows, width, device=device)  # the probability of being in an entity
        self.types = torch.full((rows, width, types), 1 / types, device=device)  # of each type, if in one
        self.done = torch.zeros(rows, dtype=torch.bool, device=device)
        self._open = torch.zeros_like(self.done)
        self._last = torch.full((rows,), -1, device=device)
        self._start = torch.zeros_like(self._last)
        self._log = torch.zeros(rows, device=device)  # of the tokens of the open entity
        self._places = torch.arange(width, device=device)

    def add(self, scores: Tensor, possible: Tensor) -> Tensor:
        """Take the best output by the scores (B, C) of those that may follow; return it (B,)."""
        width, types = self.tags.shape[1], self.types.shape[2]
        opened, places = self._open.unsqueeze(1), self._places
        tokens = torch.where(opened, places == self._last.unsqueeze(1) + 1, places > self._last.unsqueeze(1))
        rest = torch.cat((opened.expand(-1, possible.shape[1] - width - 1), ~opened), 1)
        allowed = torch.cat((tokens, rest), 1) & possible
        logs = scores.masked_fill(~allowed, FORBIDDEN).log_softmax(-1)
        chosen = logs.argmax(-1)
        log = logs.gather(1, chosen.unsqueeze(1)).squeeze(1)
        of_types = scores[:, width : width + types].softmax(-1).unsqueeze(1)  # (B, 1, A)
        working, token, ended = ~self.done, chosen < width, chosen == possible.shape[1] - 1
        reached = torch.where(token, chosen, width).unsqueeze(1)
        passed = (working & ~self._open).unsqueeze(1) & (places > self._last.unsqueeze(1)) & (places < reached)
        self.inside = torch.where(passed, logs[:, :width].exp(), self.inside)
        self.types = torch.where(passed.unsqueeze(2), of_types, self.types)
        typed = working & ~token & ~ended
        covered = typed.unsqueeze(1) & (places >= self._start.unsqueeze(1)) & (places <= self._last.unsqueeze(1))
        self.inside = torch.where(covered, self._log.exp().unsqueeze(1), self.inside)
        self.types = torch.where(covered.unsqueeze(2), of_types, self.types)
        tag = 2 + 2 * (chosen - width).unsqueeze(1) - (places == self._start.unsqueeze(1)).long()
        self.tags = torch.where(covered, tag, self.tags)
        pointed = working & token
        begins = pointed & ~self._open
        self._start = torch.where(begins, chosen, self._start)
        self._log = torch.where(begins, log, torch.where(pointed, self._log + log, self._log))
        self._last = torch.where(pointed, chosen, self._last)
        self._open = torch.where(working, token, self._open)
        self.done = self.done | ended
        return chosen


def sequences(tags: Tensor, types: int) -> Tensor:
    """Return the outputs (B, S) that stand for tags (B, W): tokens by their place, W + type, W + `types` at the end.

    After the end they are IGNORED; tokens whose tag is unknown are in no entity.
    """
    rows, width = tags.shape
    inside, kinds = tags > 0, (tags - 1) // 2
    before = nn.functional.pad(tags[:, :-1], (1, 0))
    begins = inside & ((tags % 2 == 1) | (before <= 0) | ((before - 1) // 2 != kinds))
    ends = inside & ~nn.functional.pad(inside[:, 1:] & ~begins[:, 1:], (0, 1))
    sizes = inside.sum(1) + begins.sum(1)  # (B,)
    longest = int(sizes.max()) + 1
    places = inside.cumsum(1) + begins.cumsum(1) - 2  # (B, W) of a token; behind an entity's last one is its type
    outputs = tags.new_full((rows, longest + 1), IGNORED)  # its last column takes what is no output
    numbers = torch.arange(width, device=tags.device).expand(rows, -1)
    outputs = outputs.scatter(1, places.where(inside, longest), numbers)
    outputs = outputs.scatter(1, (places + 1).where(ends, longest), width + kinds)
    return outputs.scatter(1, sizes.unsqueeze(1), width + types)[:, :longest]


@contextmanager
def _keeping_activations(decoder: nn.Module) -> Iterator[None]:
    """Let a decoder keep its activations for a while: one that computes them again has no cache of what it wrote."""
    layers: list[Any] = [part for part in decoder.modules() if getattr(part, "gradient_checkpointing", False)]
    for layer in layers:
        layer.gradient_checkpointing = False
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = True


def _decoder_of(model: Any) -> Any:
    """Return the decoder of a BART-shaped module; None of an encoder alone."""
    config = getattr(model, "config", None)
    return model.decoder if getattr(config, "model_type", "") in ("bart", "mbart") else None


def _new_decoder(encoder: Encoder, options: BartnerOptions) -> Any:
    from transformers import BartConfig
    from transformers.models.bart.modeling_bart import BartDecoder

    size = encoder.hidden_size
    heads = next(heads for heads in range(max(1, size // _HEADS_OF), 0, -1) if size % heads == 0)
    config = BartConfig(
        d_model=size,
        decoder_layers=options.decoder_layers,
        decoder_attention_heads=heads,
        decoder_ffn_dim=4 * size,
        dropout=options.dropout,
        max_position_embeddings=2 * encoder.max_length,
        vocab_size=2,  # it reads vectors, so that no token begins or ends a text
        bos_token_id=None,
        eos_token_id=None,
        forced_eos_token_id=None,
        decoder_start_token_id=None,
    )
    decoder = BartDecoder(config)
    decoder.embed_tokens = None  # it is given vectors
    return decoder


def _names(encoder: Encoder, types: Sequence[str]) -> Tensor:
    """Return the mean embeddings (1 + T, H) of the subwords that close a window, then of those of each type's name."""
    embeddings = encoder.model.get_input_embeddings().weight
    words = [type.replace("_", " ").split() or [type] for type in types]
    named = [[id for piece in pieces for id in piece] for pieces in encoder.pieces(words)] if types else []
    return torch.stack([embeddings[ids].mean(0) for ids in ([*encoder.ends()[1]], *named)])
