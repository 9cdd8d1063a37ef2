"""What reads much text: the gazetteer's build and scan, and Wikipedia's markup."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import wikipedia_parsing
from benchmarks.perf.row import Row, growth
from crossner_core.gazetteer import compiled
from crossner_core.wikipedia.wikitext import extract, extract_slow

SCAN_BAR, READY_BAR, MEMORY_BAR, BUILD_BAR, MARKUP_BAR = 100_000.0, 1.5, 100.0, 200_000.0, 10.0
PAGES = (4_000, 40_000, 400_000)


def rows(data: Path) -> Iterator[Row]:
    """Yield build and scan over made-up dumps, and markup over the sample dumps beside the corpora."""
    builds = {}
    with tempfile.TemporaryDirectory() as text:
        for pages in PAGES:
            folder = Path(text) / str(pages)
            folder.mkdir()
            builds[pages] = _gazetteer(folder, pages)
    figures = builds[PAGES[-1]]
    way = "C" if compiled._SCAN is not None else "Python, as there was no compiler"
    yield Row(
        f"gazetteer of {figures['surfaces']:,} names: sentences scanned from words ({way})",
        f"{figures['scan_per_s']:,.0f}/s of CPU time, {figures['resident_mb']:.0f} MB",
        f"spaCy's PhraseMatcher: {figures['phrasematcher_per_s']:,.0f}/s, {figures['phrasematcher_mb']:,.0f} MB",
        "",
        f"{SCAN_BAR:,.0f}/s in under {MEMORY_BAR:.0f} MB",
        figures["scan_per_s"] >= SCAN_BAR and figures["resident_mb"] < MEMORY_BAR,
    )
    yield Row(
        "the same against the PhraseMatcher on ready Docs",
        f"{figures['scan_ratio_ready_docs']:.2f} ×",
        f"{figures['phrasematcher_ready_docs_per_s']:,.0f}/s",
        "",
        f"{READY_BAR} ×",
        figures["scan_ratio_ready_docs"] >= READY_BAR,
    )
    yield Row(
        "gazetteer built from dumps",
        f"{figures['triples_per_s']:,.0f} triples/s, {figures['build_peak_mb']:.0f} MB at most",
        "",
        f"unpacking alone: {figures['unpacking_alone_lines_per_s']:,.0f} lines/s of CPU time",
        f"{BUILD_BAR:,.0f}/s",
        figures["triples_per_s"] >= BUILD_BAR,
        f"reading {figures['reading_s']:.1f} s, in which two threads unpack for {figures['unpacking_s']:.1f} s of CPU "
        f"time; then, on one core, names and tries {figures['tables_s']:.1f} s, writing {figures['writing_s']:.1f} s.",
    )
    seconds = [builds[pages]["triples"] / builds[pages]["triples_per_s"] for pages in PAGES]
    yield growth("the build with the dumps", PAGES, seconds, "pages")
    yield _markup(data.parent / "wikipedia")


def _gazetteer(folder: Path, pages: int) -> dict[str, Any]:
    """Build, and at the largest size scan, in processes of their own."""
    from benchmarks.made_up_names import write_dumps

    write_dumps(folder, pages, seed=1)
    figures: dict[str, Any] = {}
    for part in ("build", "compare") if pages == PAGES[-1] else ("build",):
        words = ["--work", str(folder), "--sentences", "20000", "--only", part]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.gazetteer", *words], check=True, stdout=subprocess.PIPE, text=True
        )
        figures |= json.loads(done.stdout)
    return figures


def _markup(folder: Path) -> Row:
    dumps = sorted(folder.glob("*.xml.bz2"))
    batch = [page for dump in dumps for page in wikipedia_parsing.pages(dump)]
    rounds = [
        (wikipedia_parsing.seconds(extract, batch), wikipedia_parsing.seconds(extract_slow, batch)) for _ in range(3)
    ]
    fast, slow = (min(column) for column in zip(*rounds, strict=True))
    return Row(
        f"Wikipedia's markup read, {len(batch)} pages",
        f"{len(batch) / fast:,.0f} pages/s of CPU time, {slow / fast:.1f} ×",
        f"mwparserfromhell: {len(batch) / slow:,.0f}/s",
        "",
        f"{MARKUP_BAR:.0f} ×",
        slow / fast >= MARKUP_BAR,
    )
