"""Measure how much is right of what *Accept all* would take, by the least probability it takes.

The tagger is trained with the default recipe on a domain's train and calibrated on its dev. *Tagger*: its suggestions
alone. *Together*: those of tagger and gazetteer, merged, with weights that are learnt from the other folds of the same
split, as a campaign learns them from its gold. A suggestion is right if start, end and type are gold's.

    python -m benchmarks.accept_floor --data ../shared/data/ner --slice ../shared/data/dbpedia/slice --out FOLDER
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.calibration import FOLDS, Known, add_places, known_of, settle_places, trained
from benchmarks.coverage import build
from crossner_core.calibration.proposals import learn, propose
from crossner_core.calibration.sources import SourceWeights
from crossner_core.domains import load_domain
from crossner_core.experiments.corpora import read_corpus
from crossner_core.gazetteer.preannotate import Preannotator
from workbench.campaigns.settings import CampaignSettings

FLOOR = float(CampaignSettings.__dataclass_fields__["accept_from"].default)
FLOORS = (0.0, 0.5, 0.6, 0.7, FLOOR, 0.9, 0.95)
Scored = list[tuple[float, bool]]


def main() -> int:
    """Train what is missing, measure and print; return 0 if at the floor the share that is right reaches it."""
    options = _options()
    met = True
    with tempfile.TemporaryDirectory() as folder:
        gazetteer = build(options.slice, options.ontology, Path(folder) / "slice")
        for domain in options.domains:
            corpus = read_corpus(domain, options.data)
            run = options.out / "runs" / f"{domain}-{options.seed}"
            trained(run, corpus, domain, {"seed": options.seed})
            from crossner_core.training.predictor import load_tagger

            predictor, machine = load_tagger(run), Preannotator([gazetteer], load_domain(domain))
            for split, items in (("dev", corpus.dev), ("test", corpus.test)):
                both = known_of(predictor, machine, items)
                model = [([made for made in given if made.source.startswith("model")], gold) for given, gold in both]
                for name, scored in (("tagger", list(_scored(model, SourceWeights()))), ("together", _taught(both))):
                    shares = "  ".join(_share(scored, floor) for floor in FLOORS)
                    print(f"{domain} {split:4} {name:8} {shares}", flush=True)
                    met = met and _right(scored, FLOOR)[1] >= FLOOR
    outcome = "met" if met else "NOT met"
    print(f"{outcome}: from {FLOOR:.2f} on, at least {FLOOR:.0%} are right in every row")
    return 0 if met else 1


def _taught(known: Known) -> Scored:
    """Return proposals scored with weights learnt from the other folds."""
    scored: Scored = []
    for fold in range(FOLDS):
        weights = learn([row for number, row in enumerate(known) if number % FOLDS != fold])
        scored += _scored(known[fold::FOLDS], weights)
    return scored


def _scored(known: Known, weights: SourceWeights) -> Iterator[tuple[float, bool]]:
    for given, gold in known:
        for proposal in propose(given, weights):
            yield proposal.score, proposal.span in gold


def _right(scored: Scored, floor: float) -> tuple[int, float]:
    taken = [right for score, right in scored if score >= floor]
    return len(taken), sum(taken) / len(taken) if taken else 1.0


def _share(scored: Scored, floor: float) -> str:
    count, right = _right(scored, floor)
    return f">={floor:.2f}: {right:.1%} of {count}"


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how much is right of what Accept all takes.")
    add_places(parser)
    parser.add_argument("--seed", type=int, default=555)
    options = parser.parse_args(arguments)
    settle_places(options)
    return options


if __name__ == "__main__":
    sys.exit(main())
