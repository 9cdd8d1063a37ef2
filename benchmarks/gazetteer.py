"""What the compiled gazetteer must reach, against spaCy's PhraseMatcher and a plain dictionary, on made-up names.

`python -m benchmarks.gazetteer --work DIR` writes dumps of 3.9 million made-up pages into DIR (once), builds, and
measures. The build is measured in wall time, as it decompresses in its own threads; the other rates are in CPU time, to
be independent of other load. Speeds to compare are measured alternately in one process. Both start from the words of a
sentence; for the PhraseMatcher that includes making a Doc from them; its rate on ready Docs is given too. The
PhraseMatcher takes minutes and 5 GB at full size: `--pages` makes all of it smaller, `--no-phrasematcher` leaves it
out. A missed bar gives exit code 1, or 0 with `--no-bars`.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.made_up_names import FILES, sentences, write_dumps

PAGES = 3_920_000  # makes about 3.64 million surfaces
SENTENCES = 100_000
BLOCK = 2_000  # sentences measured before switching to the other
BARS: dict[str, tuple[str, float]] = {
    "open_ms": ("<", 10),
    "resident_mb": ("<", 60),
    "scan_ratio": (">=", 1.5),
    "memory_ratio": (">=", 50),
    "tokenise_scan_ratio": (">=", 4),
    "differing_sentences": ("<=", 0),
    "triples_per_s": (">=", 120_000),
    "build_peak_mb": ("<", 1000),
}


def build(work: Path) -> dict[str, Any]:
    """Build from the dumps; rates in wall time and CPU time of the whole process, and of decompressing alone."""
    from crossner_core.gazetteer.building import build_from_dumps
    from crossner_core.gazetteer.triples import _pieces

    files = [work / name for name in FILES]
    wall, cpu, steps = time.perf_counter(), time.process_time(), list[float]()
    manifest = build_from_dumps(
        files,
        work / "gazetteer",
        name="made-up",
        replace=True,
        progress=lambda _: steps.append(time.perf_counter()),
    )
    ended = time.perf_counter()
    *_, read, sorted_ = steps
    reading, tables, writing = read - wall, sorted_ - read, ended - sorted_
    wall, cpu = ended - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    triples = manifest.counts["triples"]
    start = time.process_time()
    lines = sum(piece.count(b"\n") for path in files for piece in _pieces(path))
    unpacking = time.process_time() - start
    return {
        "triples": triples,
        "surfaces": manifest.counts["surfaces"],
        "triples_per_s": triples / wall,
        "triples_per_s_of_cpu_time": triples / cpu,
        "unpacking_alone_lines_per_s": lines / unpacking,
        "reading_s": reading,
        "unpacking_s": unpacking,
        "tables_s": tables,
        "writing_s": writing,
        "build_peak_mb": peak,
        "disk_mb": sum(file.bytes for file in manifest.files) / 1e6,
    }


def resident_mb() -> float:
    """Return the memory that this process has in use, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def made_up_sentences(gazetteer: Any, n: int) -> list[str]:
    """Make sentences with names of the gazetteer in them."""
    rng = random.Random(7)
    names = [gazetteer.surface_of(rng.randrange(len(gazetteer))) for _ in range(min(3 * n, 200_000))]
    return list(sentences(rng, names, n))


def oracle(work: Path, n: int) -> dict[str, Any]:
    """Compare the scan with a walk over a plain dictionary of the same names."""
    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.tokenize import words_of

    gazetteer = CompiledGazetteer.open(work / "gazetteer")
    texts = made_up_sentences(gazetteer, n)
    names = {gazetteer.surface_of(key): key for key in range(len(gazetteer))}
    longest = max(name.count(" ") for name in names) + 1
    differing = matches = tokens = 0
    rows = [words_of(text) for text in texts]
    for words, scan in zip(rows, gazetteer.scan(rows), strict=True):
        plain, expected, start = [token.replace("’", "'") for token in words], [], 0
        while start < len(plain):
            for end in range(min(len(plain), start + longest), start, -1):
                if (key := names.get(" ".join(plain[start:end]))) is not None:
                    expected.append((start, end, key))
                    start = end - 1
                    break
            start += 1
        differing += scan != expected
        matches, tokens = matches + len(expected), tokens + len(words)
    return {
        "sentences": n,
        "tokens_a_sentence": tokens / n,
        "names_a_sentence": matches / n,
        "differing_sentences": differing,
    }


def compare(work: Path, n: int, phrasematcher: bool) -> dict[str, Any]:
    """Measure opening, memory and speed, and those of the PhraseMatcher."""
    import numpy as np  # loaded first, so that it does not count as the gazetteer's

    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.tokenize import words_of

    child = [sys.executable, "-c", _SENTENCES, str(work), str(n)]
    texts = json.loads(subprocess.run(child, check=True, capture_output=True).stdout)
    words = [words_of(text) for text in texts]
    CompiledGazetteer.open(work / "gazetteer")  # imports and the disk cache
    before, opened = resident_mb(), []
    for _ in range(20):
        start = time.perf_counter()
        gazetteer = CompiledGazetteer.open(work / "gazetteer")
        opened.append(1000 * (time.perf_counter() - start))
    just_open = resident_mb() - before
    for low in range(0, n, BLOCK):
        gazetteer.scan(words[low : low + BLOCK])
    figures: dict[str, Any] = {
        "open_ms": float(np.median(opened)),
        "resident_mb_after_open": just_open,
        "resident_mb": resident_mb() - before,
    }
    if phrasematcher:
        figures |= _against_spacy(gazetteer, texts, words, figures["resident_mb"])
    else:
        figures["scan_per_s"] = _rates({"scan": gazetteer.scan}, {"scan": words})["scan"]
    return figures


_SENTENCES = """
import json, sys
from pathlib import Path
from benchmarks.gazetteer import made_up_sentences
from crossner_core.gazetteer.compiled import CompiledGazetteer
print(json.dumps(made_up_sentences(CompiledGazetteer.open(Path(sys.argv[1]) / "gazetteer"), int(sys.argv[2]))))
"""


def _against_spacy(gazetteer: Any, texts: list[str], words: list[list[str]], ours_mb: float) -> dict[str, Any]:
    import spacy
    from spacy.matcher import PhraseMatcher
    from spacy.tokens import Doc

    from crossner_core.tokenize import words_of

    nlp = spacy.blank("en")
    before, start = resident_mb(), time.process_time()
    matcher = PhraseMatcher(nlp.vocab)
    for low in range(0, len(gazetteer), 10_000):
        keys = (gazetteer.surface_of(key) for key in range(low, min(low + 10_000, len(gazetteer))))
        matcher.add("name", [Doc(nlp.vocab, words=key.split(" ")) for key in keys])
    built, theirs_mb = time.process_time() - start, resident_mb() - before
    few = min(len(texts), 20_000)  # spaCy's documents take memory, too
    docs = [nlp.make_doc(text) for text in texts[:few]]
    gc.collect()
    gc.freeze()  # keeps the benchmark's own objects out of garbage collection
    rates = _rates(
        {
            "scan": gazetteer.scan,
            "phrasematcher": lambda rows: [matcher(Doc(nlp.vocab, words=row)) for row in rows],
            "phrasematcher_ready_docs": lambda rows: [matcher(doc) for doc in rows],
            "tokenise_scan": lambda rows: gazetteer.scan([words_of(text) for text in rows]),
            "spacy_tokenise_match": lambda rows: [matcher(nlp.make_doc(text)) for text in rows],
        },
        {
            "scan": words[:few],
            "phrasematcher": words[:few],
            "phrasematcher_ready_docs": docs,
            "tokenise_scan": texts[:few],
            "spacy_tokenise_match": texts[:few],
        },
    )
    return {
        **{f"{name}_per_s": rate for name, rate in rates.items()},
        "phrasematcher_build_s": built,
        "phrasematcher_mb": theirs_mb,
        "memory_ratio": theirs_mb / ours_mb,
        "scan_ratio": rates["scan"] / rates["phrasematcher"],
        "scan_ratio_ready_docs": rates["scan"] / rates["phrasematcher_ready_docs"],
        "tokenise_scan_ratio": rates["tokenise_scan"] / rates["spacy_tokenise_match"],
    }


def _rates(work: dict[str, Callable[[Sequence[Any]], object]], rows: dict[str, Sequence[Any]]) -> dict[str, float]:
    """Return sentences per second of CPU time of each, measured alternately."""
    spent = dict.fromkeys(work, 0.0)
    size = len(next(iter(rows.values())))
    for low in range(0, size, BLOCK):
        for name, run in work.items():
            part = rows[name][low : low + BLOCK]
            start = time.process_time()
            run(part)
            spent[name] += time.process_time() - start
    return {name: size / seconds for name, seconds in spent.items()}


def main() -> int:
    """Run each part in its own process; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for dumps and gazetteer; kept")
    parser.add_argument("--pages", type=int, default=PAGES, help="pages to make up")
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--no-phrasematcher", action="store_true")
    parser.add_argument("--no-bars", action="store_true")
    parser.add_argument("--only", choices=("build", "oracle", "compare"), help="one part, in this process")
    parser.add_argument("--out", type=Path, help="file for the figures as JSON")
    options = parser.parse_args()
    if options.only:
        parts = {
            "build": lambda: build(options.work),
            "oracle": lambda: oracle(options.work, options.sentences),
            "compare": lambda: compare(options.work, options.sentences, not options.no_phrasematcher),
        }
        print(json.dumps(parts[options.only]()))
        return 0
    if not all((options.work / name).exists() for name in FILES):
        write_dumps(options.work, options.pages, seed=1)
    figures: dict[str, Any] = {}
    for part in ("build", "oracle", "compare"):
        command = [sys.executable, "-m", "benchmarks.gazetteer", *sys.argv[1:], "--only", part]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures |= json.loads(done.stdout)
    missed = 0
    for name, value in figures.items():
        bar = BARS.get(name)
        met = bar is None or {"<": value < bar[1], "<=": value <= bar[1], ">=": value >= bar[1]}[bar[0]]
        missed += not met
        verdict = "" if bar is None else f"  bar {bar[0]} {bar[1]:,}: {'met' if met else 'MISSED'}"
        print(f"{name:32} {value:>14,.1f}{verdict}" if isinstance(value, float) else f"{name:32} {value:>14,}{verdict}")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")
    return int(missed > 0 and not options.no_bars)


if __name__ == "__main__":
    raise SystemExit(main())
