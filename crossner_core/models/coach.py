"""Coach: a BiLSTM-CRF finds spans of any type, then each span is compared with the descriptions of the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._recurrent import run_lstm
from crossner_core.models._templates import Templates, wrong_types
from crossner_core.models._type_texts import ReadsTypes
from crossner_core.models.base import TokenTagger
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.heads import copy_tag_rows, head_tags, tag_types
from crossner_core.models.registry import register
from crossner_core.models.viterbi import FORBIDDEN
from crossner_core.options.coach import CoachOptions

# The tags of the first step: O, B and I of a type without a name.
STEPS = head_tags(("",))
# What belongs to no type: a new head starts from all of it.
_BY_NO_TYPE = ("lstm.", "head.", "start", "moves", "end", "spans.", "to_types.", "templates.")


class Spans(NamedTuple):
    """Spans of a batch: N of them, in the order of its tokens."""

    rows: Tensor  # (N,)
    starts: Tensor  # (N,)
    sizes: Tensor  # (N,)
    number: Tensor  # (B, W) which span a token is in; meaningless outside of all


@register("coach")
class Coach(ReadsTypes, BilstmCrf):
    """p(tags|x) = p(BIO|x) Π_spans p(type|span): a BiLSTM-CRF of three tags, then p(type|span) = softmax(M W r).

    r = Σ_{t in span} BiLSTM(h_start … h_end)_t over the states h of the first BiLSTM; the rows of M are the vectors of
    the types' descriptions, of their names where there is none. Both losses are added, as a mean over tokens; in
    training the spans are the gold ones. Source: Liu et al. 2020 (Coach), sections 2.1 to 2.3, and its use in CrossNER
    and LANER: the first BiLSTM 256 in each direction, two layers, the other 200, the types' names (`type_texts`
    titles), dropout 0.5, learning rate 1e-4 (in the study `baselines` 1e-3), `joint` with `upsample` 10, no template
    regularisation. With `template_weight` there is, with two wrong templates. Ours: dropout also before the head and
    before spans are read; one sum of losses in place of a step for each, and templates and sentences learn from each
    other from the first on; W, as descriptions are read by the encoder, whose size r has not; and M may have a learned
    part (`type_rows`), zero at first and for a type that was never seen.

    A tag's probability is p(B) p(type) or p(I) p(type): marginals of the CRF, and the types of the chosen span that a
    token is in. A token outside of all spans counts as a span of its own. Of a corpus that annotates some types only,
    the first step takes every other token as outside.
    """

    options: CoachOptions

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: CoachOptions) -> None:
        super().__init__(encoder, STEPS, replace(options, lstm_private=False))
        self.tags = tuple(tags)
        self.spans = nn.LSTM(2 * options.lstm_size, options.span_size, batch_first=True, bidirectional=True)
        self.to_types = nn.Linear(2 * options.span_size, encoder.hidden_size, bias=False)
        self.own_rows = nn.Parameter(torch.zeros(len(tag_types(self.tags)), encoder.hidden_size))
        self._know_types(encoder.hidden_size)
        if options.template_weight:
            self.templates = Templates(encoder.hidden_size, options.lstm_size)

    def loss(self, batch: Batch) -> Tensor:
        """Return the negative log-likelihood of spans and of their types over the number of tokens with a known tag.

        With templates, their loss is added; each sentence counts by its tokens.
        """
        states, steps = self.read(batch), _steps(batch)
        loss = self.path_loss(self._step_scores(states), steps)
        opened = _opened(steps.tags)
        spans = spans_of(opened)
        if not len(spans.rows):
            return loss
        scores = self.type_scores(states, spans)  # (N, T)
        if batch.foreign is not None:
            scores = scores.masked_fill(batch.foreign[spans.rows, 1::2], FORBIDDEN)
        types = (batch.tags[spans.rows, spans.starts] - 1) // 2
        more = nn.functional.cross_entropy(scores, types, reduction="sum")
        known = (batch.tags != IGNORED).sum(1)  # (B,)
        if self.options.template_weight and len(self.own_rows) > 1:
            named = self._type_vectors()[wrong_types(types, len(self.own_rows))]  # (1 + WRONG, N, H)
            distances = self.templates(self.token_vectors(batch), states, opened, batch.mask, named)  # (B,)
            more = more + self.options.template_weight * (distances * known).sum()
        return loss + more / known.sum().clamp(min=1)

    def type_scores(self, states: Tensor, spans: Spans) -> Tensor:
        """Return the scores (N, T) of the types for spans of tokens with these states (B, W, 2 · lstm_size)."""
        places = spans.starts.unsqueeze(1) + torch.arange(int(spans.sizes.max()), device=states.device)  # (N, S)
        inside = states[spans.rows.unsqueeze(1), places.clamp(max=states.shape[1] - 1)]
        read = run_lstm(self.spans, self.dropout(inside), spans.sizes, bf16=self.use_bf16)  # (N, S, 2 · span_size)
        return (self.to_types(read.sum(1)) @ self._type_vectors().T).float()

    def span_weights(self, count: int) -> dict[str, Tensor]:
        """Return by name what the first `count` types' scores of a span depend on besides the states of its tokens."""
        ways = {"forwards": "", "backwards": "_reverse"}
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        lstm = {f"{way}.{name}": getattr(self.spans, name + end) for way, end in ways.items() for name in names}
        return {**lstm, "types": self._type_vectors()[:count] @ self.to_types.weight}  # (count, 2 · span_size)

    def _type_vectors(self) -> Tensor:
        return self._means() + self.own_rows if self.options.type_rows else self._means()  # (T, H)

    def scores(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of each token's tags (B, W, K), given the spans of the best path."""
        return self.decode_tags(batch)[1]

    def tag_log_probabilities(self, batch: Batch) -> Tensor:
        return self.scores(batch)

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the tags of the best spans with the best type of each, and the log-probabilities of all tags.

        A span that continues one of the window before keeps its type.
        """
        states, steps = self.read(batch), _steps(batch)
        path, of_steps = self.best_path(self._step_scores(states), steps, len(STEPS))  # (B, W), (B, W, 3)
        path = path.masked_fill(~batch.mask, 0)
        opened = _opened(path)
        spans = spans_of(opened.masked_fill(batch.mask & (opened == 0), 1))
        scores = self.type_scores(states, spans)[:, : len(tag_types(self.tags[:allowed]))]  # (N, A)
        if batch.before is not None:
            scores = _continued(scores, spans, path, batch.before)
        of_types = scores.log_softmax(-1)
        typed = of_types[spans.number].unsqueeze(3) + of_steps[..., 1:].unsqueeze(2)  # (B, W, A, 2)
        tags = torch.where(path == 0, 0, path + 2 * of_types.argmax(-1)[spans.number])
        return tags, torch.cat((of_steps[..., :1], typed.flatten(2)), -1)

    def tag_rows(self) -> dict[str, Tensor]:
        """Return the rows of O, B and I, which all types share: no other head can take them for tags of its own."""
        return {"steps.head.weight": self.head.weight, "steps.head.bias": self.head.bias}

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy all that belongs to no type, then the learned vectors of equally named types (else of an ancestor)."""
        if not isinstance(other, Coach) or not self.copy_alike(other, _BY_NO_TYPE):
            return ()
        copy_tag_rows([(self.own_rows, other.own_rows)], self.tags[1::2], other.tags[1::2], parents)
        return tuple(tag for tag in self.tags if tag in other.tags)

    def _step_scores(self, states: Tensor) -> Tensor:
        return self.head(self.dropout(states)).float()  # (B, W, 3)


def spans_of(steps: Tensor) -> Spans:
    """Return the spans of steps (B, W): 1 begins a span, 2 continues it, anything else is outside."""
    begins = steps == 1
    number = (begins.flatten().cumsum(0) - 1).view_as(steps)
    rows, starts = begins.nonzero(as_tuple=True)
    return Spans(rows, starts, number[steps > 0].bincount(minlength=len(rows)), number)


def _opened(steps: Tensor) -> Tensor:
    """Return steps (B, W) in which a span begins with 1 also where it goes on from outside the window."""
    before = nn.functional.pad(steps[:, :-1], (1, 0))
    return torch.where((steps == 2) & (before <= 0), 1, steps)


def _step_of(tags: Tensor) -> Tensor:
    """Return 1 for the first tag of a type and 2 for its other one; what is no type's tag stays."""
    return torch.where(tags > 0, 2 - tags % 2, tags)


def _steps(batch: Batch) -> Batch:
    """Return the batch with steps in place of tags; foreign are B and I where a corpus annotates no type at all."""
    foreign, before = batch.foreign, batch.before
    if foreign is not None:
        none = foreign[:, 1:].all(1)
        foreign = torch.stack((torch.zeros_like(none), none, none), 1)
    before = None if before is None else _step_of(before)
    return replace(batch, tags=_step_of(batch.tags), foreign=foreign, before=before).with_host(batch.host)


def _continued(scores: Tensor, spans: Spans, path: Tensor, before: Tensor) -> Tensor:
    """Return type scores (N, A) that leave a span which continues another window's only the type it has there."""
    then = before[spans.rows]  # (N,)
    continues = (then > 0) & (spans.starts == 0) & (path[spans.rows, spans.starts] == 2)
    others = torch.arange(scores.shape[1], device=scores.device) != ((then - 1) // 2).unsqueeze(1)
    return scores.masked_fill(continues.unsqueeze(1) & others, FORBIDDEN)
