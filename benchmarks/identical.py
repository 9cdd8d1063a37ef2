"""Measure what marking identical words saves: one annotator goes through a corpus whose gold is the oracle.

When an entity is marked for the first time and its words stand elsewhere, they are marked in the rest of the sentence
and proposed in all later ones, as Ctrl+Enter does. A press is priced as a kept suggestion, although it is one key; all
other prices are those of the simulated annotator. Nothing else suggests. Beside a gazetteer or model less is left to
save.

    python -m benchmarks.identical --data ../shared/data/ner
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from crossner_core.calibration.proposals import best_spans
from crossner_core.errors import BadInput
from crossner_core.formats import open_file
from crossner_core.schema import LabelledSentence, Span, Suggestion
from crossner_core.simulation.annotators import AnnotatorOptions, annotate
from crossner_core.suggest.identical import CONFIDENCE, IDENTICAL, places_like

CORPORA = (
    "music/train", "music/test", "politics/train", "politics/test", "ai/test", "conll2003/dev", "wikigold/all",
)  # fmt: skip
SCOPES = ("sentence", "document", "campaign")


@dataclass
class Tally:
    """Entities, seconds without and with identical words, presses, and by scope what was made and was right."""

    entities: int = 0
    plain: float = 0.0
    aided: float = 0.0
    presses: int = 0
    made: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)

    def note(self, scope: str, span: Span, row: LabelledSentence) -> bool:
        """Count a span that was made; return whether gold has it."""
        self.made[scope] += 1
        self.right[scope] += span in row.spans
        return span in row.spans

    def row(self, name: str) -> str:
        plain, aided = (seconds / max(self.entities, 1) for seconds in (self.plain, self.aided))
        shares = [
            f"{100 * self.right[scope] / self.made[scope]:.0f} of {self.made[scope]}" if self.made[scope] else "-"
            for scope in SCOPES
        ]
        cells = (name, self.entities, f"{plain:.2f}", f"{aided:.2f}", f"{plain - aided:.2f}", self.presses, *shares)
        return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each corpus")
    parser.add_argument("--corpora", nargs="+", default=CORPORA, help="folder and file without its ending")
    parser.add_argument("--most", type=int, default=2000, help="sentences of each corpus, the first ones")
    options = parser.parse_args()
    heads = ("corpus", "entities", "s each", "with", "saved", "presses", *(f"right % {scope}" for scope in SCOPES))
    print("| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), sep="\n")
    for name in options.corpora:
        path = options.data / f"{name}.txt"
        if not path.exists():
            raise BadInput(f"There is no file {path}; --corpora names folders and files below --data.")
        print(measure(open_file(path).labelled[: options.most], AnnotatorOptions()).row(name), flush=True)
    return 0


def measure(rows: Sequence[LabelledSentence], prices: AnnotatorOptions) -> Tally:
    """Annotate the rows in order, without and with identical words."""
    tally, rng = Tally(), np.random.default_rng(0)
    waiting: dict[int, list[Suggestion]] = defaultdict(list)
    asked: set[tuple[str, str]] = set()
    for number, row in enumerate(rows):
        tally.entities += len(row.spans)
        tally.plain += annotate(row, (), (), prices, rng).seconds
        suggested = best_spans(waiting.pop(number, []))
        tally.aided += annotate(row, suggested, (), prices, rng).seconds
        for span in sorted(row.spans):
            key = row.sentence.surface(span.start, span.end), span.type
            here, later = list(_here(row, span)), list(_later(rows, number, span))
            if key in asked or not (here or later):
                continue
            asked.add(key)
            tally.presses += 1
            tally.aided += prices.seconds_kept + sum(_cost(tally, row, made, suggested, prices) for made in here)
            for other, made in later:
                same = row.sentence.document == rows[other].sentence.document
                tally.note("document" if same else "campaign", made, rows[other])
                waiting[other].append(Suggestion(made.start, made.end, made.type, IDENTICAL.id, CONFIDENCE))
    return tally


def _here(row: LabelledSentence, span: Span) -> Iterator[Span]:
    """Yield what the key marks in the span's sentence: nothing over what stands before it and so is marked already."""
    done = [other for other in row.spans if other.start <= span.start]
    for start, end in places_like(row.sentence, (span.start, span.end), row.sentence):
        if not any(start < other.end and other.start < end for other in done):
            yield Span(start, end, span.type)


def _later(rows: Sequence[LabelledSentence], number: int, span: Span) -> Iterator[tuple[int, Span]]:
    sentence = rows[number].sentence
    surface = sentence.surface(span.start, span.end)
    for other in range(number + 1, len(rows)):
        if surface in rows[other].sentence.text:
            for start, end in places_like(sentence, (span.start, span.end), rows[other].sentence):
                yield other, Span(start, end, span.type)


def _cost(
    tally: Tally, row: LabelledSentence, made: Span, suggested: Sequence[Span], prices: AnnotatorOptions
) -> float:
    """Return the seconds that a span marked by the key adds: it is deleted if wrong, else need not be made or taken."""
    if not tally.note("sentence", made, row):
        return prices.seconds_deleted
    return -prices.seconds_kept if made in suggested else -prices.seconds_added


if __name__ == "__main__":
    sys.exit(main())
