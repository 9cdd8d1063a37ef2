"""LANER's label encoder and label predictor on vectors of tokens: one pass for training, greedy for decoding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossner_core.models._label_history import prefix_states, prefixes, step_scores, step_sums
from crossner_core.models._recurrent import with_backward
from crossner_core.models.dropout import Dropout

# CHUNK: tags that the backward LSTM reads at once in decoding, before it compares its state with the previous prefix's.
# ROUNDING: states count as equal within this many machine epsilons, relative to the value if that exceeds 1.
CHUNK, ROUNDING = 32, 8


@dataclass(frozen=True, slots=True)
class Vectors:
    """The encoder's output for a batch: the tokens to tag, and what the label background attends to."""

    tokens: Tensor  # (B, W, H)
    mask: Tensor  # (B, W) True where there is a token
    sentence: Tensor  # (B, M, H) the tokens again, or all subwords
    sentence_mask: Tensor  # (B, M)
    lengths: Tensor | None = None  # (B,) the tokens of each sentence, on the CPU, where the host knows them

    def rows(self, chosen: Tensor | slice) -> Vectors:
        """Return some of the sentences, by index."""
        return Vectors(self.tokens[chosen], self.mask[chosen], self.sentence[chosen], self.sentence_mask[chosen])


class LabelPredictor(nn.Module):
    """Tag scores from a token, the sentence and the preceding tags. Source: LANER, section 2.2, eq. 3–10.

    Departure from the paper: the first token, which has no preceding tags, attends from and to a learned begin state
    (the paper's e_0 is not defined; the released code lets its [CLS] predict a tag). In a history, K stands for a
    dropped tag (a zero embedding). Attention is masked. Our ablations: without `bilstm` a tag's state is its embedding,
    and 2·d2 is d2 below; without `learn_labels` embeddings keep their initial values. Scaled attention (Vaswani et al.
    2017) is also ours: LANER's scores are plain dot products.
    """

    def __init__(
        self,
        hidden: int,
        tags: int,
        size: int,
        *,
        background: bool = True,
        context: bool = True,
        bilstm: bool = True,
        learn_labels: bool = True,
        scale_background: bool = False,
        scale_context: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.background, self.context, self.bilstm, self.size = background, context, bilstm, size
        state = 2 * size if bilstm else size  # size of a tag's state in the attentions
        self.background_scale = hidden**-0.5 if scale_background else 1.0
        self.context_scale = state**-0.5 if scale_context else 1.0
        self.dropout = Dropout(dropout)
        if background or context:
            self.labels = nn.Embedding(tags, size).requires_grad_(learn_labels)  # U
            if bilstm:
                self.forwards = nn.LSTM(size, size, batch_first=True)
                self.backwards = nn.LSTM(size, size, batch_first=True)
            self.begin = nn.Parameter(0.1 * torch.randn(state))
        if background:
            self.to_sentence = nn.Linear(state, hidden)  # W2, b2
        if context:
            self.to_labels = nn.Linear(2 * hidden if background else hidden, state)  # W3, b3
        self.head = nn.Linear(hidden + (hidden if background else 0) + (state if context else 0), tags)  # Wo, bo
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, vectors: Vectors, history: Tensor) -> Tensor:
        """Return scores (B, W, K) of every token given the tags (B, W) before it; no token sees its own tag."""
        with with_backward(self):
            return self._forward(vectors, history)

    def _forward(self, vectors: Vectors, history: Tensor) -> Tensor:
        found, parts = None, [vectors.tokens]
        if self.background or self.context:
            labels = self.label_vectors()  # (K + 1, d2)
            ahead = self.forwards(labels[history])[0] if self.bilstm else labels[history]  # (B, W, d2)
        if self.background:
            states = ahead[:, :-1]  # (B, W - 1, d2)
            if self.bilstm:
                last = self.backwards(labels.unsqueeze(1))[0].squeeze(1)  # (K + 1, d2) where a prefix ends in that tag
                states = torch.cat([states, last[history][:, :-1]], -1)  # (B, W - 1, 2 d2) e_{i-1} of token i
            states = torch.cat([self.begin.expand(len(states), 1, -1), states], 1)  # (B, W, 2 d2)
            found = self._background(states, vectors)  # (B, W, H)
            parts.append(found)
        if self.context:
            query = self._label_query(vectors.tokens, found)  # (B, W, 2 d2)
            parts.append(self._context(query, labels, ahead, history, vectors.mask, vectors.lengths))  # (B, W, 2 d2)
        return self._scores(parts)

    def greedy(
        self, vectors: Vectors, start: Tensor, transitions: Tensor, first: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Tag tokens left to right, each by its best score: tags (B, W) and scores (B, W, A).

        Only the first A tags are candidates; `start` (A,) or (B, A) and `transitions` (A, A) [from, to] are added to
        the scores for each choice; `first` (B,) sets the first tokens' tags. All sentences are decoded in parallel.
        """
        lengths, order = vectors.mask.sum(1).sort(descending=True, stable=True)
        vectors = vectors.rows(order)
        start = start[order] if start.dim() == 2 else start
        rows, width = vectors.mask.shape
        tags = torch.zeros(rows, width, dtype=torch.long, device=lengths.device)
        scores = vectors.tokens.new_zeros(rows, width, len(transitions))
        alive = (lengths.unsqueeze(0) > torch.arange(width, device=lengths.device).unsqueeze(1)).sum(1).tolist()
        read = _Read(self, rows) if self.background or self.context else None
        for position, n in enumerate(alive):
            states = None if read is None else read.states(tags[:n, :position])  # (n, max(at, 1), 2 d2)
            here = self.token_scores(vectors.rows(slice(0, n)), position, states)[:, : len(transitions)]  # (n, A)
            chosen = (here + (start if position == 0 else transitions[tags[:n, position - 1]])).argmax(-1)  # (n,)
            tags[:n, position] = first[order[:n]] if first is not None and position == 0 else chosen
            scores[:n, position] = here
        back = order.argsort()
        return tags[back], scores[back]

    def label_vectors(self) -> Tensor:
        """Return the embeddings of all tags and, last, of a dropped tag: (K + 1, d2)."""
        return torch.cat([self.labels.weight, self.labels.weight.new_zeros(1, self.size)])

    def weights(self) -> dict[str, Tensor]:
        """Return by name what its scores depend on."""
        return dict(self.state_dict())

    def token_scores(self, vectors: Vectors, at: int, states: Tensor | None) -> Tensor:
        """Return the scores (n, K) of the tokens at one position, given the states of the preceding tags."""
        token, found = vectors.tokens[:, at : at + 1], None  # (n, 1, H)
        parts = [token]
        if self.background and states is not None:
            found = self._background(states[:, -1:], vectors)  # (n, 1, H)
            parts.append(found)
        if self.context and states is not None:
            weights = (self._label_query(token, found) @ states.transpose(1, 2)).softmax(-1)  # (n, 1, at)
            parts.append(weights @ states)  # (n, 1, 2 d2)
        return self._scores(parts).squeeze(1)

    def _background(self, states: Tensor, vectors: Vectors) -> Tensor:
        """Attend from states of tags (B, V, 2 d2) to the sentence: (B, V, H). Source: LANER eq. 4–6."""
        asked = self.background_scale * self.to_sentence(states)  # (B, V, H)
        scores = asked @ vectors.sentence.transpose(1, 2)  # (B, V, M)
        hidden = ~vectors.sentence_mask.unsqueeze(1)  # (B, 1, M)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ vectors.sentence

    def _label_query(self, tokens: Tensor, found: Tensor | None) -> Tensor:
        """Return the tokens' queries to the preceding tags, (B, V, 2 d2). Source: LANER eq. 7."""
        return self.context_scale * self.to_labels(tokens if found is None else torch.cat([tokens, found], -1))

    def _context(
        self, query: Tensor, labels: Tensor, ahead: Tensor, history: Tensor, mask: Tensor, lengths: Tensor | None
    ) -> Tensor:
        """Attend from every token to the states of its preceding tags: (B, W, 2 d2). Source: LANER eq. 3 and 8."""
        rows, width, size = ahead.shape
        begin = self.begin.expand(rows, 1, -1)  # (B, 1, 2 d2)
        later = torch.ones(width, width, dtype=torch.bool, device=mask.device).triu()  # (W, W)
        later[0, 0] = False  # the first token has no tag to attend to; its row is discarded below
        if not self.bilstm:
            weights = (query @ ahead.transpose(1, 2)).masked_fill(later, float("-inf")).softmax(-1)  # (B, W, W)
            return torch.cat([begin, (weights @ ahead)[:, 1:]], 1)
        there = prefixes(mask, lengths)
        if not there.sizes:
            return begin.expand(-1, width, -1)
        behind = prefix_states(self.backwards, labels, history.flatten()[there.tags], there.sizes)  # (P, d2)
        asked = query[..., size:].flatten(0, 1)[there.positions]  # (R, d2)
        packed = step_scores(behind, asked, there.sizes)  # (P,)
        scores = query[..., :size] @ ahead.transpose(1, 2)  # (B, W, W) token, tag before it
        scores = scores + packed.new_zeros(scores.numel()).scatter(0, there.pairs, packed).view_as(scores)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)  # (B, W, W)
        sums = step_sums(behind, weights.flatten()[there.pairs], there.sizes)  # (R, d2)
        whole = sums.new_zeros(rows * width, size).index_copy(0, there.positions, sums).view(rows, width, size)
        return torch.cat([begin, torch.cat([weights @ ahead, whole], -1)[:, 1:]], 1)

    def _scores(self, parts: list[Tensor]) -> Tensor:
        """Return scores (B, V, K) from token, background and context. Source: LANER eq. 9–10."""
        return self.head(self.dropout(torch.cat(parts, -1)))


class _Read:
    """The BiLSTM's states of the tags chosen so far: the forward ones grow, the backward ones restart each time."""

    def __init__(self, predictor: LabelPredictor, rows: int) -> None:
        self.predictor, self.labels = predictor, predictor.label_vectors()
        self.ahead: Tensor | None = None  # (n, at - 1, d2)
        self.behind = self.labels.new_zeros(rows, 0, predictor.size)  # (n, at - 1, d2)
        self.carried: tuple[Tensor, Tensor] | None = None
        # State and cell, (1, n, d2) each, from which the states before a multiple of CHUNK were computed.
        self.edges: dict[int, tuple[Tensor, Tensor]] = {}

    def states(self, tags: Tensor) -> Tensor:
        """Return the states (n, at, 2 d2) of the tags (n, at), or only the last if nothing attends to the others."""
        rows, count = tags.shape
        if count == 0:
            return self.predictor.begin.expand(rows, 1, -1)
        if not self.predictor.bilstm:
            return self.labels[tags]
        newest = self.labels[tags[:, -1]]  # (n, d2)
        nothing = newest.new_zeros(rows, newest.shape[1])
        former = (nothing, nothing) if self.carried is None else (self.carried[0][:rows], self.carried[1][:rows])
        # A single step of nn.LSTM takes several times as long as a cell's: it lays out its weights again.
        self.carried = torch.lstm_cell(newest, former, *self.predictor.forwards.all_weights[0])
        last = self.carried[0].unsqueeze(1)  # (n, 1, d2)
        if not self.predictor.context:
            behind = torch.lstm_cell(newest, (nothing, nothing), *self.predictor.backwards.all_weights[0])[0]
            return torch.cat([last, behind.unsqueeze(1)], -1)
        self.ahead = last if self.ahead is None else torch.cat([self.ahead[:rows], last], 1)
        self.behind = self._backwards(tags, self.behind[:rows])  # (n, at, d2)
        return torch.cat([self.ahead, self.behind], -1)

    def _backwards(self, tags: Tensor, former: Tensor) -> Tensor:
        """Return the backward states (n, at, d2), given those (n, at - 1, d2) without the last tag.

        If the LSTM reaches a chunk's edge with the same state and cell as for an earlier prefix, all states before it
        are the same, too. The cell is compared as well: a bounded state can agree where its cell does not. The
        comparison is with the values that the stored states were computed from, so that differences do not accumulate
        over prefixes.
        """
        parts: list[Tensor] = []
        carried, left = None, tags.shape[1]
        while left:
            # Less than half a chunk is too short to compare: it is read together with the preceding whole one.
            begin = max(left - CHUNK // 2, 0) // CHUNK * CHUNK
            found, carried = self.predictor.backwards(self.labels[tags[:, begin:left].flip(1)], carried)
            parts.insert(0, found.flip(1))  # (n, left - begin, d2)
            left = begin
            if left:
                if self._known(left, carried, len(tags)):
                    return torch.cat([former[:, :left], *parts], 1)
                self.edges[left] = carried
        return torch.cat(parts, 1)

    def _known(self, edge: int, carried: tuple[Tensor, Tensor], rows: int) -> bool:
        """Return whether state and cell at an edge equal, up to rounding, those behind its stored states."""
        if edge not in self.edges:
            return False
        smallest = ROUNDING * torch.finfo(carried[0].dtype).eps
        return all(
            bool(((now - then[:, :rows]).abs() <= smallest * now.abs().clamp(min=1)).all())
            for now, then in zip(carried, self.edges[edge], strict=True)
        )
