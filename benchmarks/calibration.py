"""Measure how well suggestion scores are calibrated: the tagger's on test, and those of tagger and gazetteer together.

The tagger is trained with the default recipe and calibrated on dev; nothing is chosen on test. Source weights are
learned as in a campaign, from gold of sentences with suggestions: those of the other folds of test. Runs are kept under
--out and not trained again.

    python -m benchmarks.calibration --data ../shared/data/ner --slice ../shared/data/dbpedia/slice --out FOLDER

With --tagger, a type-aware tagger suggests instead, without a label of the domain (so --domains is one that was no
source of it), calibrated on dev of another domain: the state of a campaign on its first day.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage import build
from crossner_core.calibration.proposals import Proposal, best_of, learn, propose
from crossner_core.calibration.reliability import Reliability, reliability
from crossner_core.calibration.sources import SourceWeights
from crossner_core.domains import load_domain
from crossner_core.experiments.corpora import Corpus, read_corpus
from crossner_core.experiments.report import put_section
from crossner_core.gazetteer.lookup import Source
from crossner_core.gazetteer.preannotate import Preannotator
from crossner_core.schema import LabelledSentence, Suggestion

DOMAINS = ("music", "ai", "politics")
BAR = 0.05
FOLDS = 5
GOLD, DRAWS = (5, 10, 25, 50, 100), 5
THRESHOLDS = tuple(step / 20 for step in range(0, 15))
# Keystrokes per span: marked by hand (jump, two hints, type), accepted, dropped, taken from a hint (Tab, Space).
BY_HAND, ACCEPT, DROP, TAKE_HINT = 4, 1, 1, 2
COMMAND = "python -m benchmarks.calibration --data FOLDER --slice FOLDER --out FOLDER --report docs/results"

Known = list[tuple[list[Suggestion], frozenset[Any]]]


@dataclass(frozen=True)
class Cell:
    """One run: its scores on test raw and calibrated; all proposals on test before and after learning from gold."""

    domain: str
    seed: int
    f1: float
    method: str
    temperature: float
    raw: Reliability
    calibrated: Reliability
    untaught: Reliability
    taught_on_dev: Reliability
    merged: Reliability
    dev: Reliability
    keys: tuple[float, ...]
    """Keystrokes per sentence on dev, at each of THRESHOLDS."""


def main() -> int:
    """Train what is missing, measure, print; return 0 if every error on test is within the bar."""
    options = _options()
    if options.tagger:
        return first_day(options)
    with tempfile.TemporaryDirectory() as folder:
        gazetteer: Source = build(options.slice, options.ontology, Path(folder) / "slice")
        cells = [measure(options, domain, seed, gazetteer) for domain in options.domains for seed in options.seeds]
    words = report(cells)
    print(words)
    if options.report:
        put_section(options.report, "calibration", words)
    (options.out / "calibration.json").write_text(json.dumps([asdict(cell) for cell in cells], indent=1))
    return 0 if all(max(cell.calibrated.error, cell.merged.error) <= BAR for cell in cells) else 1


def measure(options: argparse.Namespace, domain: str, seed: int, gazetteer: Source) -> Cell:
    """Train or read a run, and measure its suggestions and the gazetteer's."""
    from crossner_core.training.predictor import load_tagger

    corpus = read_corpus(domain, options.data)
    folder = options.out / "runs" / f"{domain}-{seed}"
    result = trained(folder, corpus, domain, {**options.recipe, "seed": seed})
    predictor = load_tagger(folder)
    machine = Preannotator([gazetteer], load_domain(domain))
    dev, test = (known_of(predictor, machine, part) for part in (corpus.dev, corpus.test))
    weights = learn(dev)
    calibration = result.calibration
    assert calibration is not None and result.test is not None  # the corpora have dev and test
    cell = Cell(
        domain,
        seed,
        result.test.f1,
        calibration.calibration.spans.method,
        calibration.calibration.temperature,
        calibration.raw,
        calibration.calibrated,
        _reliability(test, SourceWeights()),
        _reliability(test, weights),
        _cross_fitted(test),
        _cross_fitted(dev),
        tuple(keys(dev, weights, threshold) for threshold in THRESHOLDS),
    )
    print(f"  {domain} {seed}: F1 {100 * cell.f1:.2f}, error {cell.calibrated.error:.3f}, {weights.groups}", flush=True)
    return cell


def first_day(options: argparse.Namespace) -> int:
    """Print the errors of suggestions on test before, and after, the first sentences with gold."""
    from crossner_core.calibration.model_scores import calibrate
    from crossner_core.encoders.loading import load_encoder
    from crossner_core.training.predictor import load_tagger
    from crossner_core.training.zero_shot import open_domain

    known, out = load_tagger(options.tagger), ("misc",)
    encoder = load_encoder(known.recipe.encoder)
    other, elsewhere = open_domain(known, encoder, options.data / options.calibrate_on, options.calibrate_on, out)
    calibrate(other, elsewhere.dev)
    with tempfile.TemporaryDirectory() as folder:
        gazetteer: Source = build(options.slice, options.ontology, Path(folder) / "slice")
        for domain in options.domains:
            predictor, corpus = open_domain(known, encoder, options.data / domain, domain, out)
            predictor.calibrate(other.calibration)
            suggested = known_of(predictor, Preannotator([gazetteer], load_domain(domain)), corpus.test)
            test = [([each for each in given if each.type not in out], gold) for given, gold in suggested]
            alone = [([each for each in given if each.source.startswith("model:")], gold) for given, gold in test]
            print(
                f"{domain}: tagger alone {_reliability(alone, SourceWeights()).error:.3f}, together with the gazetteer:"
            )
            print(f"  before gold {_reliability(test, SourceWeights()).error:.3f}")
            for size in GOLD:
                errors = [_after(test, size, seed) for seed in range(DRAWS)]
                print(f"  after {size} sentences with gold {np.mean(errors):.3f} ± {np.std(errors, ddof=1):.3f}")
    return 0


def _after(known: Known, size: int, seed: int) -> float:
    """Return the error on other sentences once weights are learnt from some, which the seed draws."""
    order = np.random.default_rng(seed).permutation(len(known))
    taught, others = ([known[place] for place in part] for part in (order[:size], order[size:]))
    return _reliability(others, learn(taught)).error


def trained(folder: Path, corpus: Corpus, domain: str, values: Mapping[str, Any]) -> Any:
    """Return the result of a run; an existing one is read."""
    from dataclasses import replace

    from crossner_core.training.loop import train
    from crossner_core.training.recipe import Recipe

    data = replace(corpus.data(), types=load_domain(domain).type_names)
    result = None
    for event in train(Recipe.from_dict(values), data, checkpoint_dir=folder):
        result = event.result
    return result


def keys(known: Known, weights: SourceWeights, hint_below: float) -> float:
    """Return keystrokes per sentence when proposals below a score are hints: taken if right, ignored if not."""
    total = 0
    for suggestions, gold in known:
        shown = best_of(propose(suggestions, weights))
        right = {proposal.span for proposal in shown} & gold
        total += BY_HAND * (len(gold) - len(right))
        for proposal in shown:
            total += _cost(proposal, proposal.span in gold, hint_below)
    return total / max(len(known), 1)


def _cost(proposal: Proposal, right: bool, hint_below: float) -> int:
    if proposal.score < hint_below:
        return TAKE_HINT if right else 0
    return ACCEPT if right else DROP


def known_of(predictor: Any, machine: Preannotator, items: Sequence[LabelledSentence]) -> Known:
    sentences = [item.sentence for item in items]
    both = zip(predictor.predict(sentences), machine.suggest(sentences), items, strict=True)
    return [([*model, *names], frozenset(item.spans)) for model, names, item in both]


def _reliability(known: Known, weights: SourceWeights) -> Reliability:
    rows = [(proposal.score, proposal.span in gold) for given, gold in known for proposal in propose(given, weights)]
    return reliability(*(np.asarray(part) for part in zip(*rows, strict=True)))


def _cross_fitted(known: Known) -> Reliability:
    """Measure proposals with weights learned on the other folds."""
    rows = []
    for fold in range(FOLDS):
        weights = learn([row for number, row in enumerate(known) if number % FOLDS != fold])
        for given, gold in known[fold::FOLDS]:
            rows += [(proposal.score, proposal.span in gold) for proposal in propose(given, weights)]
    return reliability(*(np.asarray(part) for part in zip(*rows, strict=True)))


def report(cells: Sequence[Cell]) -> str:
    """Return the section as Markdown."""
    lines = [
        "## How far suggestion scores can be believed",
        "",
        f"Written by `{COMMAND}`.",
        "",
        "Expected calibration error in ten bins of equal mass (equal width in brackets) of all suggestions on test; a "
        "span is right if start, end and type are gold's. *Raw*: the least softmax share among a span's tags. "
        "*Calibrated*: temperature and map fitted on dev. *Together*: proposals of tagger and gazetteer, merged: "
        "before any gold has said what a source is worth; after dev has; after gold of the same pool has, which is "
        "what a campaign does (learnt on four fifths of test, measured on the fifth). Dev teaches less than gold of "
        "the same pool: the slice was made of names of train and dev, so that it knows far more of dev than of test.",
        "",
        "| domain | seed | test F1 | temperature, map | raw | calibrated | together | taught on dev | taught |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        parts = (cell.raw, cell.calibrated, cell.untaught, cell.taught_on_dev, cell.merged)
        errors = " | ".join(f"{part.error:.3f} ({part.error_equal_width:.3f})" for part in parts)
        made = f"{cell.temperature:.2f}, {cell.method}"
        lines.append(f"| {cell.domain} | {cell.seed} | {100 * cell.f1:.2f} | {made} | {errors} |")
    worst = max(max(cell.calibrated.error, cell.merged.error) for cell in cells)
    keys_at = np.mean([cell.keys for cell in cells], axis=0)
    best = THRESHOLDS[int(keys_at.argmin())]
    shown = ", ".join(
        f"{threshold:.2f}: {keys_at[THRESHOLDS.index(threshold)]:.2f}" for threshold in (0.0, 0.2, 0.3, 0.4, 0.5, 0.6)
    )
    lines += [
        "",
        f"- {'met' if worst <= BAR else 'NOT met'}: the largest error of the columns calibrated and taught is "
        f"{worst:.3f}, bar {BAR}",
        "- on dev, by folds, the error of taught proposals is "
        + ", ".join(f"{cell.domain} {cell.dev.error:.3f}" for cell in cells),
        f"- keys a sentence on dev by the score below which a proposal is a hint ({shown}); fewest at {best:.2f}. "
        f"A span marked by hand costs {BY_HAND} keys, accepted {ACCEPT}, dropped {DROP}, taken from a hint "
        f"{TAKE_HINT}.",
    ]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the calibration of suggestion scores.")
    add_places(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[555])
    parser.add_argument("--recipe", type=json.loads, default={}, help="JSON object of recipe fields to change")
    parser.add_argument("--tagger", type=Path, help="folder of a type-aware tagger to measure without a label")
    parser.add_argument("--calibrate-on", default="ai", help="domain whose dev calibrates it")
    parser.add_argument("--report", type=Path, help="also write the section into this page, or folder of pages")
    options = parser.parse_args()
    settle_places(options)
    return options


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where data, dump and results are, and which domains are measured."""
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of one folder per domain with train, dev, test"
    )
    parser.add_argument("--slice", type=Path, required=True, help="folder with DBpedia dumps: .ttl or .ttl.bz2")
    parser.add_argument("--ontology", type=Path, help="DBpedia's ontology; default: the one beside the slice, if any")
    parser.add_argument("--out", type=Path, required=True, help="folder outside the repository for runs and results")
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))


def settle_places(options: argparse.Namespace) -> None:
    """Look for the ontology beside the dump where none is named, and make the folder of results."""
    beside = options.slice.parent / "ontology.owl.xz"
    options.ontology = options.ontology or (beside if beside.exists() else None)
    options.out.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
