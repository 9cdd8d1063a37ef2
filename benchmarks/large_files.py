"""Read and import a large file of each format, each in a process of its own: seconds, and the most memory it took.

    python -m benchmarks.large_files [--megabytes 100] [--formats jsonl conll …] [--data ../shared/data/ner/politics]

The files are made of open data (CrossNER's politics), each sentence with a number at its end, so that no two are equal.
The most memory is that of the process above what it takes once the workbench is loaded.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from xml.sax.saxutils import escape

from crossner_core.domains import load_domain
from crossner_core.formats import make_document, open_file, write_files
from crossner_core.formats.base import Parsed, format_ids, get_format
from crossner_core.schema import LabelledSentence, sentence_from_words

BAR_MB = 500
"""Megabytes of memory that reading or importing 100 MB may take above what the loaded workbench takes."""
_DOCUMENT, _BOOK, _SAMPLE = 20, 1_000, 400
"""Sentences of a document where a file has many, of one that is a file, and to tell the bytes of a sentence by."""
_SUFFIXES = {"brat": ".txt", "tei": ".tei"}


def sentences(data: Path) -> Iterator[LabelledSentence]:
    """Yield the corpus's sentences again and again, each with a number of its own."""
    whole = [item for split in ("train", "dev", "test") for item in open_file(data / f"{split}.txt").labelled]
    for number, item in enumerate(cycle(whole), 1):
        sentence = sentence_from_words([*item.sentence.words[:-1], str(number), "."], id=f"p-{number}")
        yield LabelledSentence(sentence, tuple(span for span in item.spans if span.end < len(sentence.tokens) - 1))


def make(folder: Path, format: str, size: int, data: Path) -> None:
    """Write about `size` bytes: files of a book each where a document is a file, else one of many short documents."""
    items = sentences(data)
    if format == "tei":
        written = 0
        while written < size:
            written += (folder / f"large{written}.tei").write_text(_tei(islice(items, _BOOK)), "utf-8")
        return
    if format == "zip":
        make(folder, "webanno-tsv", size, data)
        files = list(folder.iterdir())
        with zipfile.ZipFile(folder / "large.zip", "w") as archive:
            for file in files:
                archive.write(file, file.name)
                file.unlink()
        return
    chosen = get_format(format)
    apart = _DOCUMENT if chosen.one_file else _BOOK if chosen.by_document else 0
    sample = _written([next(items) for _ in range(_SAMPLE)], format, apart)
    length = sum(len(content) for name, content in sample if Path(name).suffix != ".conf" and "TypeSystem" not in name)
    rows = [next(items) for _ in range(max(_SAMPLE, int(_SAMPLE * size / length)))]
    for name, content in _written(rows, format, apart):
        (folder / (name if Path(name).suffix else f"{name}{chosen.suffixes[0]}")).write_bytes(content)


def _written(rows: Sequence[LabelledSentence], format: str, apart: int) -> Sequence[tuple[str, bytes]]:
    step = apart or len(rows)
    documents: list[Parsed] = [
        make_document(f"large{start // step if apart else ''}", rows[start : start + step], format)
        for start in range(0, len(rows), step)
    ]
    return write_files(documents, format).files


def _tei(items: Iterable[LabelledSentence]) -> str:
    lines = ["<TEI><text><body>"]
    for item in items:
        text, done, parts = item.sentence.text, 0, list[str]()
        for span in item.spans:
            start, end = item.sentence.char_range(span.start, span.end)
            name = f'<rs type="{span.type}">{escape(text[start:end])}</rs>'
            parts += [escape(text[done:start]), name]
            done = end
        lines.append(f"<p>{''.join(parts)}{escape(text[done:])}</p>")
    return "\n".join([*lines, "</body></text></TEI>"])


def peak_mb() -> float:
    """Return the most memory that this process took so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def read_all(files: Sequence[Path], format: str) -> int:
    """Read the files as an import does, keeping nothing; return the number of sentences."""
    from crossner_core.formats import stream_files
    from crossner_core.formats.source import OnDisk

    count = Counter[str]()
    for piece in stream_files([(file.name, OnDisk(file)) for file in files], format):
        count["sentences"] += len(piece.sentences)
    return count["sentences"]


def import_all(files: Sequence[Path], format: str, home: Path) -> int:
    """Import the files into a new campaign as the worker's job does; return the number of sentences."""
    from db.migrate import migrate
    from workbench.accounts import accounts
    from workbench.campaigns import campaigns
    from workbench.data import staging
    from workbench.settings import Settings, open_store

    store = open_store(Settings(home=home))
    migrate(store)
    actor = accounts.create_user(
        store, None, name="bench", display_name="Bench", password="a long password", role="admin"
    )
    campaign = campaigns.create_campaign(store, actor, name="Large", domain=load_domain("politics"))
    report = staging.import_apart(store, actor, campaign, [(file.name, file) for file in files], format=format)
    return report.added


def measured(step: str, files: Sequence[Path], format: str, home: Path) -> dict[str, float]:
    """Do one step here; return its figures."""
    from workbench.data import exchange  # loaded before memory is counted from

    assert exchange.MAX_BYTES
    before, began = peak_mb(), time.perf_counter()
    count = read_all(files, format) if step == "read" else import_all(files, format, home)
    return {"sentences": count, "seconds": time.perf_counter() - began, "mb": peak_mb() - before}


def _child(step: str, format: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.large_files",
        "--step",
        step,
        "--formats",
        format,
        "--keep",
        str(folder),
    ]
    command += ["--megabytes", str(options.megabytes), "--data", str(options.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step} {format}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())


def main() -> int:
    """Print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--formats", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ner/politics"))
    parser.add_argument("--keep", type=Path, default=None, help="folder for the files; else a temporary one")
    parser.add_argument("--step", default="", help=argparse.SUPPRESS)
    parser.add_argument("--only-read", action="store_true", help="leave out the import")
    options = parser.parse_args()
    if options.step == "make":
        make(options.keep, options.formats[0], int(options.megabytes * 1e6), options.data)
        print("{}")
        return 0
    if options.step:
        with tempfile.TemporaryDirectory() as home:
            print(json.dumps(measured(options.step, _files(options.keep), options.formats[0], Path(home))))
        return 0
    worst = 0.0
    print(f"{'format':14}{'MB':>7}{'sentences':>11}{'read s':>8}{'MB/s':>7}{'memory':>9}{'import s':>10}{'memory':>9}")
    for format in options.formats or format_ids():
        with tempfile.TemporaryDirectory() as name:
            folder = (options.keep or Path(name)) / format
            if not folder.exists():
                folder.mkdir(parents=True)
                _child("make", format, options, folder)
            size = sum(file.stat().st_size for file in _files(folder)) / 1e6
            read = _child("read", format, options, folder)
            line = f"{format:14}{size:7.1f}{read['sentences']:11,.0f}{read['seconds']:8.1f}"
            line += f"{size / read['seconds']:7.1f}{read['mb']:6.0f} MB"
            worst = max(worst, read["mb"])
            if not options.only_read:
                brought = _child("import", format, options, folder)
                line += f"{brought['seconds']:10.1f}{brought['mb']:6.0f} MB"
                worst = max(worst, brought["mb"])
            print(line, flush=True)
    print(f"The most: {worst:.0f} MB; the bar for 100 MB is {BAR_MB} MB.")
    return int(worst > BAR_MB)


if __name__ == "__main__":
    raise SystemExit(main())
