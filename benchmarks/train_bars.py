"""Measure what the training engine must reach on the real corpora; each run is done once and kept under --out.

Chosen on dev, reported on test. The bars are for direct training: mean test F1 on music and ai. Pre-train then
fine-tune stands beside it; what it gains is judged by the study `differences`.

    python benchmarks/train_bars.py --data ../shared/data/ner --out /path/outside/the/repository
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crossner_core.domains import load_domain
from crossner_core.experiments.report import put_section
from crossner_core.formats import open_file
from crossner_core.schema import LabelledSentence
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.recipe import Recipe

SEEDS = (555, 666, 777)
DIRECT_BARS = {"music": 48.8, "ai": 45.3}
DOMAINS = ("music", "ai", "politics")
SETTINGS = ("direct", "pretrain_finetune")
SOURCE = "conll2003"
DESCRIPTION = "Train the cells, print their means and whether the bars are met."


def main() -> int:
    """Train what is missing, print the table, and return 0 if all bars are met."""
    options = _options()
    cells = []
    for seed in options.seeds:
        for domain in options.domains:
            for setting in options.settings:
                cells.append(run_cell(options, domain, setting, seed))
    verdicts = bars(cells)
    words = report(cells, verdicts, options.seeds)
    print(words)
    if options.report:
        put_section(options.report, "training", words)
    summary = {"machine": machine(), "cells": cells, "bars": [{"met": met, "text": text} for met, text in verdicts]}
    (options.out / "bars.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return 0 if all(met for met, _ in verdicts) else 1


def run_cell(options: argparse.Namespace, domain: str, setting: str, seed: int) -> dict[str, Any]:
    """Train one cell, or read it if it was trained before with the same recipe."""
    from crossner_core.training.loop import train

    recipe = Recipe.from_dict({**options.recipe, "setting": setting, "source": SOURCE, "seed": seed})
    path = options.out / f"{domain}-{setting}-{seed}-{_key(recipe)}.json"
    if path.exists():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    began = time.perf_counter()
    folder = options.out / "runs" / path.stem
    for event in train(
        recipe, read_data(options.data, domain, setting), checkpoint_dir=folder, source_cache=options.out / "source"
    ):
        if event.dev_f1 is not None or event.message:
            f1 = f"dev {100 * event.dev_f1:.2f}" if event.dev_f1 is not None else ""
            print(f"  {path.stem} {event.phase} epoch {event.epoch} {f1} {event.message}", flush=True)
    result = event.result
    assert result is not None and result.dev is not None and result.test is not None
    cell = {
        "domain": domain,
        "setting": setting,
        "seed": seed,
        "dev": 100 * result.dev.f1,
        "test": 100 * result.test.f1,
        "test_strict_iob2": 100 * result.test.strict_iob2.f1,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "wall_seconds": time.perf_counter() - began,
        "train_seconds": result.seconds,
        "tokens_per_second": result.tokens_per_second,
        "recipe": recipe.to_dict(),
    }
    path.write_text(json.dumps(cell, indent=1), encoding="utf-8")
    return cell


def read_data(root: Path, domain: str, setting: str) -> TrainingData:
    """Read a target domain and, for a transfer setting, the source corpus."""
    with_source, known = setting != "direct", load_domain(domain)
    return TrainingData(
        train=_read(root / domain / "train.txt"),
        types=known.type_names,
        parents=known.parents if with_source else {},
        dev=_read(root / domain / "dev.txt"),
        test=_read(root / domain / "test.txt"),
        sources=(SourceCorpus(*(_read(root / SOURCE / f"{part}.txt") for part in ("train", "dev"))),) * with_source,
    )


def table(cells: list[dict[str, Any]]) -> str:
    """Return the means as a Markdown table."""
    lines = ["| domain | setting | dev F1 | test F1 | deviation | test F1 by seed |", "|---|---|---|---|---|---|"]
    for domain, setting in sorted({(cell["domain"], cell["setting"]) for cell in cells}):
        here = [cell for cell in cells if (cell["domain"], cell["setting"]) == (domain, setting)]
        seeds = ", ".join(f"{cell['seed']}: {cell['test']:.2f}" for cell in here)
        dev, test = (statistics.mean(cell[name] for cell in here) for name in ("dev", "test"))
        spread = f"{statistics.stdev(cell['test'] for cell in here):.2f}" if len(here) > 1 else "–"
        lines.append(f"| {domain} | {setting} | {dev:.2f} | {test:.2f} | {spread} | {seeds} |")
    return "\n".join(lines)


def report(cells: list[dict[str, Any]], verdicts: list[tuple[bool, str]], seeds: list[int]) -> str:
    """Return the table and the verdicts as a section that states how they were measured."""
    here, recipe = machine(), cells[0]["recipe"]
    lines = [
        "## What the tagger reaches",
        "",
        "Written by `python benchmarks/train_bars.py --data FOLDER --out FOLDER --report docs/results`.",
        "",
        f"Encoder {recipe['encoder']}, architecture {recipe['architecture']}, seeds {', '.join(map(str, seeds))}; "
        "entity F1 in percent as conlleval counts it, on the whole test set; chosen on dev. "
        f"Source corpus {SOURCE}; one source checkpoint serves all seeds, so they vary the target stage alone. "
        f"Machine: {here['cpu'] or 'CPU'}, {here['cores']} cores, PyTorch {here['torch']}.",
        "",
        table(cells),
        "",
        *(f"- {'met' if met else 'NOT met'}: {text}" for met, text in verdicts),
    ]
    return "\n".join(lines)


def bars(cells: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    """Return for each bar whether it is met, in words."""
    verdicts = []
    for domain, bar in DIRECT_BARS.items():
        scores = [cell["test"] for cell in cells if (cell["domain"], cell["setting"]) == (domain, "direct")]
        if scores:
            mean = statistics.mean(scores)
            verdicts.append((mean >= bar, f"{domain} direct {mean:.2f}, bar {bar}"))
    return verdicts


def machine() -> dict[str, Any]:
    """Return the machine that the figures were measured on."""
    import torch

    return {
        "cpu": torch.cpu.get_capabilities().get("cpu_name", platform.processor()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _read(path: Path) -> tuple[LabelledSentence, ...]:
    return open_file(path).labelled


def _key(recipe: Recipe) -> str:
    """Return a short hash of what decides a cell: a direct one does not depend on the source stage."""
    values = recipe.to_dict()
    if recipe.setting == "direct":
        values = {
            name: value
            for name, value in values.items()
            if not name.startswith(("source", "upsample", "inherit", "head_first"))
        }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    parser.add_argument("--data", type=Path, required=True, help="folder with music, ai, politics, conll2003")
    parser.add_argument("--out", type=Path, required=True, help="folder outside the repository for runs and results")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--recipe", type=json.loads, default={}, help="JSON object of recipe fields to change")
    parser.add_argument("--report", type=Path, help="also write the section into this page, or folder of pages")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main())
