"""Measure pre-annotation against gold: how much it finds and how much of that is right, by entity type.

Builds a gazetteer from dumps in DBpedia's format, and pre-annotates the sentences of each domain with it. The ceiling
is the share of gold entities whose surface the gazetteer knows at all.

    python -m benchmarks.coverage --data ../shared/data/ner --slice ../shared/data/dbpedia/slice
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_core.domains import Domain, load_domain
from crossner_core.evaluation.coverage import Coverage, CoverageTable, coverage
from crossner_core.experiments.report import put_section
from crossner_core.formats import open_file
from crossner_core.gazetteer.building import build_from_dumps
from crossner_core.gazetteer.classes import specific_types
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.ontology import BUILTIN, read_ontology
from crossner_core.gazetteer.preannotate import Preannotator
from crossner_core.schema import LabelledSentence

DOMAINS = ("politics", "music", "ai")
SPLITS = ("train", "dev", "test")
PAPER = 63.64
COMMAND = "python -m benchmarks.coverage --data FOLDER --slice FOLDER --report docs/results"


@dataclass(frozen=True, slots=True)
class Cell:
    """One split of a domain: what was found, how many gold entities the gazetteer has, and has with their type."""

    domain: str
    split: str
    table: CoverageTable
    known: int
    typed: int
    seconds: float


def main() -> int:
    """Measure, print, and write the section."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        gazetteer = build(options.slice, options.ontology, Path(folder) / "slice")
        cells, tables = [], {}
        for name in options.domains:
            rows = {split: open_file(options.data / name / f"{split}.txt").labelled for split in SPLITS}
            domain = load_domain(name)
            cells += [measure(gazetteer, domain, split, rows[split]) for split in SPLITS]
            tables[name] = measure(gazetteer, domain, "all", [row for split in SPLITS for row in rows[split]]).table
        words = report(cells, tables, gazetteer)
    print(words)
    if options.report:
        put_section(options.report, "coverage", words)
    return 0


def build(dumps: Path, ontology: Path | None, out: Path) -> CompiledGazetteer:
    """Compile the dumps of a folder with the classes of an ontology."""
    tree = BUILTIN if ontology is None else read_ontology(ontology)
    build_from_dumps(sorted(dumps.glob("*.ttl*")), out, name=dumps.name, tree=tree, on_problem=print)
    return CompiledGazetteer.open(out)


def measure(gazetteer: CompiledGazetteer, domain: Domain, split: str, rows: Sequence[LabelledSentence]) -> Cell:
    """Pre-annotate sentences independently and compare with gold."""
    machine = Preannotator([gazetteer], domain)
    began = time.process_time()
    suggestions = machine.suggest(row.sentence for row in rows)
    seconds = time.process_time() - began
    table = coverage(((row.sentence, row.spans) for row in rows), suggestions, domain.type_names)
    known = typed = 0
    for row in rows:
        for span in row.spans:
            entries = gazetteer.entries(row.sentence.surface(span.start, span.end))
            known += bool(entries)
            typed += any(span.type in specific_types(entry.classes, domain, gazetteer.tree) for entry in entries)
    return Cell(domain.name, split, table, known, typed, seconds)


def report(cells: Sequence[Cell], tables: dict[str, CoverageTable], gazetteer: CompiledGazetteer) -> str:
    """Return the section as Markdown."""
    counts = gazetteer.manifest.counts
    matched, gold, known = (sum(values) for values in zip(*map(_sums, cells), strict=True))
    rate = sum(cell.table.sentences for cell in cells) / max(sum(cell.seconds for cell in cells), 1e-9)
    lines = [
        "## What pre-annotation finds",
        "",
        f"Written by `{COMMAND}`.",
        "",
        f"Gazetteer: a made-up slice ({counts['entities']:,} entities, {counts['surfaces']:,} surfaces) of the gold "
        "entities of train and dev, with a third missing, some classes too coarse and some wrong. "
        "Coverage: gold entities suggested with exactly their tokens. Right: with their type too. Ceiling: gold "
        "entities whose surface the slice knows at all; in brackets, knows with the right type. Precision: suggestions "
        "with gold's tokens and type; of tokens: whatever the type. All in percent.",
        "",
        "| domain | split | gold | ceiling (typed) | coverage | right | suggested | precision | of tokens |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(_row, cells),
        "",
        f"Altogether, {_percent(matched, gold)} % of the gold entities are pre-annotated: "
        f"{_percent(matched, known)} % of those that the slice knows. The paper's {PAPER} % divides by the entities "
        "that carry a hyperlink, of which DBpedia knows far more; these files carry no links, so here every gold "
        "entity counts, and only the scan of plain text can find it. Of the test entities the slice knows those that "
        "train or dev have too. The rules of the scan were chosen on train and dev of music and politics, after "
        "looking at ai's as well; test had no say.",
        "",
        f"Pre-annotation ran at {rate:,.0f} sentences a second of CPU time.",
        "",
        "By entity type, all splits together:",
        "",
        "| domain | type | gold | coverage | right | suggested | precision |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, table in tables.items():
        lines += [_type_row(name, kind, counts) for kind, counts in table.per_type.items()]
    return "\n".join(lines)


def _sums(cell: Cell) -> tuple[int, int, int]:
    return cell.table.overall.found, cell.table.overall.gold, cell.known


def _row(cell: Cell) -> str:
    counts = cell.table.overall
    ceiling = f"{_percent(cell.known, counts.gold)} ({_percent(cell.typed, counts.gold)})"
    return (
        f"| {cell.domain} | {cell.split} | {counts.gold:,} | {ceiling} | {_percent(counts.found, counts.gold)} | "
        f"{_percent(counts.correct, counts.gold)} | {counts.suggested:,} | "
        f"{_percent(counts.correct, counts.suggested)} | "
        f"{_percent(counts.placed, counts.suggested)} |"
    )


def _type_row(domain: str, kind: str, counts: Coverage) -> str:
    percentages = (_percent(counts.found, counts.gold), _percent(counts.correct, counts.gold))
    return (
        f"| {domain} | {kind} | {counts.gold:,} | {' | '.join(percentages)} | {counts.suggested:,} | "
        f"{_percent(counts.correct, counts.suggested)} |"
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def _options(arguments: Iterable[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure pre-annotation against gold.")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of one folder per domain with train, dev, test"
    )
    parser.add_argument("--slice", type=Path, required=True, help="folder with DBpedia dumps: .ttl or .ttl.bz2")
    parser.add_argument("--ontology", type=Path, help="DBpedia's ontology; default: the one beside the slice, if any")
    parser.add_argument("--domains", nargs="+", default=list(DOMAINS))
    parser.add_argument("--report", type=Path, help="also write the section into this page, or folder of pages")
    options = parser.parse_args(None if arguments is None else list(arguments))
    beside = options.slice.parent / "ontology.owl.xz"
    options.ontology = options.ontology or (beside if beside.exists() else None)
    return options


if __name__ == "__main__":
    sys.exit(main())
