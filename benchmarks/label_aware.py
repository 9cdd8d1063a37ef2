"""The speed of LANER's label part, without the encoder, against the method of its released code.

    python -m benchmarks.label_aware

Training: scores and gradients of all tokens in one pass, against a loop that reruns the BiLSTM over the tags before
each position, as the released code does. Decoding: greedy for the whole batch, against the same for each sentence,
position by position. Both alternate in each round; the bars are on the median of the rounds' ratios. Exit 1 if a bar is
missed or the two differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.models._label_predictor import LabelPredictor, Vectors
from crossner_core.models.heads import head_tags
from crossner_core.models.viterbi import iob2_transitions

TRAINING_BAR, DECODING_BAR = 10.0, 5.0
TYPES = 13
# Greatest difference in double precision, relative to the greatest value.
SAME = 1e-9


def both_ways(predictor: LabelPredictor) -> nn.LSTM | None:
    """Return PyTorch's bidirectional LSTM with the predictor's own parameters; None if it has no BiLSTM."""
    if not predictor.bilstm:
        return None
    joined = nn.LSTM(predictor.size, predictor.size, batch_first=True, bidirectional=True)
    for name, parameter in predictor.forwards.named_parameters():
        setattr(joined, name, parameter)
    for name, parameter in predictor.backwards.named_parameters():
        setattr(joined, f"{name}_reverse", parameter)
    return joined


def position_states(predictor: LabelPredictor, lstm: nn.LSTM | None, labels: Tensor, tags: Tensor) -> Tensor:
    """Rerun the BiLSTM, if there is one, over the tags (B, at) before a position: (B, max(at, 1), 2 d2)."""
    if tags.shape[1] == 0:
        return predictor.begin.expand(len(tags), 1, -1)
    return labels[tags] if lstm is None else lstm(labels[tags])[0]


def position_loop(predictor: LabelPredictor, vectors: Vectors, history: Tensor) -> Tensor:
    """Return what `predictor(vectors, history)` does, (B, W, K), position by position."""
    lstm, labels = both_ways(predictor), predictor.label_vectors()
    scores = []
    for position in range(history.shape[1]):
        states = position_states(predictor, lstm, labels, history[:, :position])
        scores.append(predictor.token_scores(vectors, position, states))  # (B, K)
    return torch.stack(scores, 1)


def sentence_loop(predictor: LabelPredictor, vectors: Vectors, start: Tensor, transitions: Tensor) -> Tensor:
    """Return the tags (B, W) that `predictor.greedy` gives, sentence by sentence and position by position."""
    lstm, labels = both_ways(predictor), predictor.label_vectors()
    tags = torch.zeros(vectors.mask.shape, dtype=torch.long)
    for row, length in enumerate(vectors.mask.sum(1).tolist()):
        alone = vectors.rows(slice(row, row + 1))
        for position in range(length):
            states = position_states(predictor, lstm, labels, tags[row : row + 1, :position])
            scores = predictor.token_scores(alone, position, states)[0]  # (K,)
            tags[row, position] = (scores + (start if position == 0 else transitions[tags[row, position - 1]])).argmax()
    return tags


def example(options: argparse.Namespace) -> tuple[LabelPredictor, Vectors, Tensor]:
    """Make a predictor, token vectors and gold tags; lengths vary a little, as in a batch cut by length."""
    torch.manual_seed(options.seed)
    predictor = LabelPredictor(options.hidden, 2 * TYPES + 1, options.label_size)
    nn.init.normal_(predictor.head.weight, std=0.2)  # so that decoded tags differ
    tokens = torch.randn(options.batch, options.length, options.hidden)
    lengths = torch.randint(options.length * 7 // 8, options.length + 1, (options.batch,))
    lengths[0] = options.length
    mask = torch.arange(options.length) < lengths.unsqueeze(1)
    return predictor, Vectors(tokens, mask, tokens, mask), torch.randint(2 * TYPES + 1, mask.shape)


def learn(way: Callable[[], Tensor], predictor: LabelPredictor, vectors: Vectors, tags: Tensor) -> list[Tensor]:
    """Run a way forward and backward; return scores of real tokens and all gradients, the tokens' included."""
    predictor.zero_grad(set_to_none=True)
    vectors.tokens.grad = None
    scores = way()[vectors.mask]  # (N, K)
    functional.cross_entropy(scores, tags[vectors.mask]).backward()
    learned = (*predictor.parameters(), vectors.tokens)
    return [
        scores.detach(),
        *(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone() for parameter in learned),
    ]


def difference(options: argparse.Namespace) -> float:
    """Return the greatest difference between the two ways of training in double precision, relative."""
    predictor, vectors, tags = example(options)
    predictor.double()
    tokens = vectors.tokens.double().requires_grad_()
    vectors = Vectors(tokens, vectors.mask, tokens, vectors.mask)
    batched = learn(lambda: predictor(vectors, tags), predictor, vectors, tags)
    looped = learn(lambda: position_loop(predictor, vectors, tags), predictor, vectors, tags)
    return max(
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-12)) for a, b in zip(batched, looped, strict=True)
    )


def seconds(work: Callable[[], object]) -> float:
    """Measure the wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paired(quick: Callable[[], object], slow: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Return the medians of both times in seconds and of the rounds' ratios, after a call of the quick one."""
    quick()
    times = [(seconds(quick), seconds(slow)) for _ in range(rounds)]
    ratios = [second / first for first, second in times]
    return (*(statistics.median(column) for column in zip(*times, strict=True)), statistics.median(ratios))


def ways(options: argparse.Namespace) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return our way and the loop's of training on an example and of decoding it, ready to be called."""
    predictor, vectors, tags = example(options)
    vectors.tokens.requires_grad_()
    start, transitions = iob2_transitions(head_tags([f"type{number}" for number in range(TYPES)]))
    without_gradients = torch.inference_mode()
    return {
        "training": (
            lambda: learn(lambda: predictor(vectors, tags), predictor, vectors, tags),
            lambda: learn(lambda: position_loop(predictor, vectors, tags), predictor, vectors, tags),
        ),
        "decoding": (
            without_gradients(lambda: predictor.greedy(vectors, start, transitions)),
            without_gradients(lambda: sentence_loop(predictor, vectors, start, transitions)),
        ),
    }


def measure(options: argparse.Namespace) -> list[tuple[str, float, float, float, float]]:
    """Return name, seconds of both ways, ratio and bar, for training and for decoding."""
    both = ways(options)
    training, decoding = (paired(*both[name], options.rounds) for name in ("training", "decoding"))
    quick, slow = both["decoding"]
    same = bool((quick()[0] == slow()).all())
    print(f"decoding   both ways choose {'the same tags' if same else 'DIFFERENT tags'}")
    return [("training", *training, TRAINING_BAR), ("decoding", *decoding, DECODING_BAR if same else float("inf"))]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 if the bars are reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="sentences")
    parser.add_argument("--length", type=int, default=64, help="tokens of the longest sentence")
    parser.add_argument("--hidden", type=int, default=384, help="size of a token's vector")
    parser.add_argument("--label-size", type=int, default=100, help="size of a label's embedding")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of measuring")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(
        f"batch      {options.batch} × {options.length}, H {options.hidden}, d2 {options.label_size}, "
        f"{torch.get_num_threads()} threads, PyTorch {torch.__version__}"
    )
    apart = difference(options)
    print(f"difference {apart:.1e} between one pass and the loop, scores and gradients (bar {SAME})")
    reached = [apart <= SAME]
    for name, quick, slow, ratio, bar in measure(options):
        times = f"{1000 * quick:8.1f} ms, position by position {1000 * slow:9.1f} ms"
        print(f"{name}   {times}, ratio {ratio:6.1f} (bar {bar})")
        reached.append(ratio >= bar)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
