"""Time and memory of a turn, step by step: new gold → run → scored pool → reordered queue.

    python -m benchmarks.pool_turn --data FOLDER [--gazetteer FOLDER] [--pool 10000] [--gold 110] [--strategy TEXT]

`--data` holds `music` and `wikineural`, whose sentences are the pool (repeated where it is larger). The model is
trained as a campaign's is on the first sentences of music, and on the pool where the strategy does so, with what a
built gazetteer proposes there (queried before any model and not timed: pre-annotation does it once per sentence).
Embeddings are computed once, and each model reads a sentence once; of a pool above MOST_READ sentences encoder and
model read that many, of a smaller one that grows by a hundred sentences only those.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.selecting import RECOMMENDED, WITHOUT_GAZETTEER, strategy
from crossner_core.domains import load_domain
from crossner_core.encoders.loading import load_encoder
from crossner_core.experiments.corpora import read_corpus
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.preannotate import Preannotator
from crossner_core.schema import Sentence, Span, sentence_from_words
from crossner_core.training.data import TrainingData
from crossner_core.training.loop import train
from crossner_core.training.machine import PeakMemory, prepare
from crossner_core.training.predictor import load_tagger
from crossner_core.training.settings.self_training.proposals import proposed_spans
from workbench.campaigns.round_settings import recipe_for

# Seconds from new gold to a reordered queue, on 2 cores with a pool of 10,000.
BAR, POOL = 180.0, 10_000
AGAIN = "turn of another model"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its figures; 0 if the bar is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pool", type=int, default=POOL)
    parser.add_argument("--gold", type=int, default=110)
    parser.add_argument("--dev", type=int, default=50)
    parser.add_argument("--strategy", help="default: the recommended one")
    parser.add_argument("--gazetteer", type=Path, help="folder of a built gazetteer, for strategies that use one")
    given = parser.parse_args(arguments)
    print(f"On {prepare()}.")
    sentences = pool_of(given.data, given.pool + 100)
    with tempfile.TemporaryDirectory() as folder:
        seconds = run(given, sentences, Path(folder))
    whole = f"a turn, run and order by its model: {seconds:.1f} s"
    if given.pool > POOL:
        print(whole)
        return 0
    print(f"{whole}, bar {BAR:.0f}: {'met' if seconds < BAR else 'NOT met'}")
    return 0 if seconds < BAR else 1


def run(given: argparse.Namespace, sentences: Sequence[Sentence], folder: Path) -> float:
    """Train, order, order again, order with a hundred more; return the seconds of a turn: run and order."""
    usual = RECOMMENDED if given.gazetteer else WITHOUT_GAZETTEER
    chosen = strategy(given.strategy or usual)
    recipe = recipe_for(chosen.text, {}, given.gold)
    data = labelled = labelled_music(given.data, given.gold, given.dev)
    if chosen.self_training:
        data = replace(data, unlabelled=tuple(sentences[: given.pool]))
        data = replace(data, proposed=names_in(given.gazetteer, data) if chosen.gazetteer else {})
    began = time.perf_counter()
    encoder = load_encoder("minilm")
    *_, last = train(recipe, data, checkpoint_dir=folder / "run", encoder=encoder)
    assert last.result is not None
    spent = said(
        f"run on {given.gold} sentences, {recipe.setting} ({last.result.tokens_per_second:.0f} tokens/s)", began
    )
    predictor = load_tagger(folder / "run")
    memory = PeakMemory(next(predictor.model.parameters()).device)
    for name, key, pool in (
        ("first turn, model and embeddings", "run-1", sentences[: given.pool]),
        (AGAIN, "run-2", sentences[: given.pool]),
        ("turn of the same model, nothing is new", "run-2", sentences[: given.pool]),
        ("turn of the same model, 100 sentences are new", "run-2", sentences),
    ):
        began = time.perf_counter()
        ordering = PoolOrdering(folder / "signals", Scorer(predictor, key, (), encoder), predictor.types)
        ordering = ordering.order(pool, 1000, chosen, np.random.default_rng(0), gold=labelled.train, batch=10)
        took = said(f"{name}: {ordering.scored:,} of {len(pool):,} scored, {len(ordering.order):,} ordered", began)
        spent += took if name == AGAIN else 0.0
    print(f"peak memory of the turns {memory.megabytes():.0f} MB ({memory.of})")
    return spent


def labelled_music(data: Path, gold: int, dev: int) -> TrainingData:
    """Return the first sentences of music as a campaign's gold: `gold` to learn from, the next `dev` as dev."""
    music = read_corpus("music", data).data(size=None, seed=0, order="file")
    both = (*music.train, *music.dev)
    return TrainingData(both[:gold], music.types, both[gold : gold + dev])


def pool_of(data: Path, count: int) -> list[Sentence]:
    """Return `count` different sentences: wikineural's, then the same with a number at the end."""
    corpus = read_corpus("wikineural", data)
    whole = [item.sentence for item in (*corpus.train, *corpus.dev, *corpus.test)]
    rounds = enumerate(islice(cycle(whole), count))
    return [
        sentence
        if number < len(whole)
        else sentence_from_words([*sentence.words, str(number // len(whole))], id=f"{sentence.id}-{number}")
        for number, sentence in rounds
    ]


def names_in(gazetteer: Path | None, data: TrainingData) -> dict[str, tuple[Span, ...]]:
    """Return what a gazetteer proposes in the sentences that a run learns from."""
    if gazetteer is None:
        raise SystemExit("The strategy's models learn from a gazetteer; give a built one with --gazetteer.")
    machine = Preannotator([CompiledGazetteer.open(gazetteer)], load_domain("music"))
    return proposed_spans(machine.suggest, (*(item.sentence for item in data.train), *data.unlabelled))


def said(what: str, began: float) -> float:
    """Print a step and its seconds; return them."""
    seconds = time.perf_counter() - began
    print(f"{what}: {seconds:.1f} s", flush=True)
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
