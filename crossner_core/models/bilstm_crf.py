"""A BiLSTM with a conditional random field on it: the tagger from before pre-trained encoders, for word vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.models._recurrent import run_lstm
from crossner_core.models.base import TokenTagger
from crossner_core.models.crf import Crf
from crossner_core.models.registry import register
from crossner_core.options.bilstm_crf import BilstmCrfOptions
from crossner_core.options.crf import CrfOptions


@register("bilstm_crf")
class BilstmCrf(Crf):
    """h_t = [LSTM→(x_1…x_t); LSTM←(x_W…x_t)], token scores W h_t + b, and a linear-chain CRF over them.

    Source: Lample et al. 2016, sections 2 and 3. x_t is the encoder's vector of a token; with the encoder `words` it is
    [word vector; vector of its characters]. p(y|x) = exp(Σ_t (P_{t,y_t} + A_{y_{t−1},y_t})) / Z; the loss is the mean
    of −log p(y|x) over tokens. Dropout comes before the BiLSTM, between its layers and before the head.

    As in CrossNER and LANER (word; word + char): two layers of 256, dropout 0.5 (politics 0.3) but not before the head,
    learning rate 1e-3, batches of 32, CoNLL-2003 and the target's sentences ten times (`joint`, `upsample` 10); their
    characters are n-gram vectors of a release, ours are learned. The BiLSTM+CRF of PDALN's table is Lample et al.'s:
    `words` with chars=lstm (25 each way), one layer of 100; its SGD at 0.01 is AdamW here. The BiLSTM starts anew in
    each window.
    """

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: BilstmCrfOptions) -> None:
        super().__init__(encoder, tags, options)
        self.lstm = _lstm(encoder.hidden_size, options)
        self.private = _lstm(encoder.hidden_size, options) if options.lstm_private else None

    @staticmethod
    def read_size(encoder: Encoder, options: CrfOptions) -> int:
        assert isinstance(options, BilstmCrfOptions)
        return 2 * options.lstm_size * (2 if options.lstm_private else 1)

    def read(self, batch: Batch, private: nn.LSTM | None = None) -> Tensor:
        """Return the BiLSTM's states (B, W, 2 · lstm_size); zero where there is no token.

        With `lstm_private` those of the second BiLSTM follow (B, W, 4 · lstm_size), or of `private` in its place.
        """
        vectors, sizes = self.dropout(self.token_vectors(batch)), batch.sizes.lengths
        if self.private is None:
            return run_lstm(self.lstm, vectors, sizes, bf16=self.use_bf16)
        own = self.private if private is None else private
        return torch.cat([run_lstm(lstm, vectors, sizes, bf16=self.use_bf16) for lstm in (self.lstm, own)], -1)

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy the rows of shared tags, and the BiLSTMs whole, from a model of the same shape."""
        if not isinstance(other, BilstmCrf):
            return ()
        pairs = [(self.lstm, other.lstm), (self.private, other.private)]
        if any(_shapes(mine) != _shapes(theirs) for mine, theirs in pairs):
            return ()
        for mine, theirs in pairs:
            if mine is not None and theirs is not None:
                mine.load_state_dict(theirs.state_dict())
        return super().copy_shared_tags(other, parents)


def _shapes(lstm: nn.LSTM | None) -> dict[str, torch.Size]:
    return {} if lstm is None else {name: value.shape for name, value in lstm.state_dict().items()}


def _lstm(size: int, options: BilstmCrfOptions) -> nn.LSTM:
    """Return an untrained BiLSTM over vectors of a size."""
    return nn.LSTM(
        size,
        options.lstm_size,
        options.lstm_layers,
        batch_first=True,
        bidirectional=True,
        dropout=options.dropout if options.lstm_layers > 1 else 0.0,
    )
