"""From a dump to pre-annotated Parquet: sentences/s per core, and whether memory grows with the dump.

    python -m benchmarks.wikipedia_build DUMP [--gazetteer DIR] [--domain NAME] [--times 1 10 40]

The dump is repeated in a multistream bz2 and in a plain one, with other page ids each time; each build runs in a
process of its own with one worker. Prints CPU seconds and sentences/s, then peak resident memory of parent and worker
for each size and the ratio of the largest to the smallest but one (a dump smaller than a shard fills no shard).
Exits with 1 if a bar is missed: 1,000 sentences/s per core, ratio under 1.15.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_RATE, BAR_RATIO = 1000, 1.15


def main() -> int:
    options = _options()
    if options.one is not None:
        _one(options)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rate = _speed(options, Path(folder))
        ratios = [_memory(options, Path(folder), kind) for kind in ("multistream", "single stream")]
    missed = rate < BAR_RATE or max(ratios) >= BAR_RATIO
    print(f"bars: {rate:,.0f} ≥ {BAR_RATE:,} sentences/s a core; {max(ratios):.3f} < {BAR_RATIO}")
    return 1 if missed else 0


def _speed(options: argparse.Namespace, folder: Path) -> float:
    """Build from the dump itself, without and with the gazetteer; return the last rate."""
    rate = 0.0
    for gazetteer in [None, options.gazetteer] if options.gazetteer else [None]:
        figures = _run(options, options.dump, folder / f"speed-{gazetteer is None}", gazetteer, workers=1, shard_mb=16)
        rate = figures["sentences"] / figures["cpu"]
        print(
            f"{'with' if gazetteer else 'without'} gazetteer: {figures['sentences']:,} sentences, "
            f"{figures['mentions']:,} mentions, {figures['cpu']:.2f} s CPU, "
            f"{figures['wall']:.2f} s, {rate:,.0f} sentences/s a core"
        )
    return rate


def _memory(options: argparse.Namespace, folder: Path, kind: str) -> float:
    """Build from the dump repeated; return the growth of peak memory from the second size to the last."""
    peaks = []
    for times in options.times:
        dump = folder / f"{times}.xml.bz2"
        repeat(options.dump, dump, times, streams=kind == "multistream")
        out = folder / f"{kind.replace(' ', '-')}-{times}"
        figures = _run(options, dump, out, options.gazetteer, workers=2, shard_mb=options.shard_mb)
        peaks.append((figures["parent_mb"], figures["worker_mb"]))
        print(
            f"{kind} × {times}: {figures['sentences']:,} sentences, {figures['shards']} shards, "
            f"peak {peaks[-1][0]:.0f} MB (parent), {peaks[-1][1]:.0f} MB (worker), {figures['wall']:.0f} s",
            flush=True,
        )
        dump.unlink()
    base = peaks[1] if len(peaks) > 2 else peaks[0]
    ratio = max(peaks[-1][0] / base[0], peaks[-1][1] / base[1])
    print(f"{kind}: ratio {ratio:.3f}")
    return ratio


def repeat(source: Path, target: Path, times: int, *, streams: bool) -> None:
    """Write a dump's pages several times with other ids; `streams` makes a bz2 stream of every 20 pages."""
    text = bz2.decompress(source.read_bytes())
    start, end = text.index(b"<page>"), text.rindex(b"</page>") + len(b"</page>")
    pages = re.findall(rb"<page>.*?</page>", text[start:end], re.DOTALL)
    with target.open("wb") as file:
        single = bz2.BZ2Compressor(9)

        def write(data: bytes) -> None:
            file.write(bz2.compress(data) if streams else single.compress(data))

        write(text[:start])
        for number in range(times):
            shift = number * 10_000_000
            for first in range(0, len(pages), 20):
                write(b"\n".join(_moved(page, shift) for page in pages[first : first + 20]) + b"\n")
        write(b"</mediawiki>\n")
        if not streams:
            file.write(single.flush())


def _moved(page: bytes, shift: int) -> bytes:
    return re.sub(rb"<id>(\d+)</id>", lambda match: b"<id>%d</id>" % (int(match[1]) + shift), page, count=1)


def _run(
    options: argparse.Namespace, dump: Path, out: Path, gazetteer: str | None, *, workers: int, shard_mb: int
) -> dict[str, float]:
    """Build in a process of its own, so that its peak memory can be measured."""
    command = [sys.executable, "-m", "benchmarks.wikipedia_build", str(dump), "--one", str(out)]
    command += ["--workers", str(workers), "--shard-mb", str(shard_mb)]
    if gazetteer:
        command += ["--gazetteer", gazetteer, *(["--domain", options.domain] if options.domain else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _one(options: argparse.Namespace) -> None:
    from crossner_core.tokenize import split_sentences
    from crossner_core.wikipedia.build import build_corpus
    from crossner_core.wikipedia.shards import BuildConfig
    from workbench.commands.corpus import annotator

    split_sentences("Loading is not measured.")
    spec = annotator(options.gazetteer, options.domain)
    wall, cpu = time.perf_counter(), time.process_time()
    manifest = build_corpus(
        options.dump, options.one, BuildConfig(shard_mb=options.shard_mb), preannotate=spec, workers=options.workers
    )
    counts = manifest.counts
    print(
        json.dumps(
            {
                "sentences": counts.sentences,
                "mentions": counts.mentions,
                "shards": len(manifest.shards),
                "cpu": time.process_time() - cpu,
                "wall": time.perf_counter() - wall,
                "parent_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "worker_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    parser.add_argument("--gazetteer", help="folder of a gazetteer to pre-annotate with")
    parser.add_argument("--domain", help="domain, by name")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10, 40], help="how often the dump is repeated")
    parser.add_argument("--shard-mb", type=int, default=4, help="shard size of the builds for memory")
    parser.add_argument("--workers", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
