"""A dump becomes the same corpus whoever makes its shards and whatever stops them, and every page is accounted for."""

from __future__ import annotations

import bz2
import dataclasses
import hashlib
import importlib.util
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, Conflict, InvalidConfig
from crossner_core.parallel import WorkerDied
from crossner_core.schema import Link, Sentence
from crossner_core.tokenize import tokenize
from crossner_core.wikipedia.build import Progress, build_corpus, is_multistream, make_shards
from crossner_core.wikipedia.corpus import Corpus
from crossner_core.wikipedia.dump import Page, SiteInfo, TruncatedDump, open_dump
from crossner_core.wikipedia.markup import CharLink, Extract, Paragraph
from crossner_core.wikipedia.shards import (
    BuildConfig,
    SentenceRules,
    ShardSettings,
    ShardTask,
    Tally,
    finished_report,
    page_sentences,
)
from tests.support.dump_builders import CAPITALS, END, HEAD, SMALL, article, page, tree, write_dump
from tests.support.paths import ROOT

ODD = [
    page(900, "Old Harbour", "#REDIRECT [[Harbour 1]]", redirect="Harbour 1"),
    page(901, "Category:Harbours", "[[Category:Coasts]]", ns=14),
    page(902, "Testwiki:Rules", "Be kind.", ns=4),
    page(903, "Blank", "  "),
    page(904, "Harbour", "'''Harbour''' may be:\n* [[Harbour 1]]\n\n{{Disambiguation}}"),
    page(905, "Only A Table", "{|\n| one || two\n|}"),
    page(906, "Broken", "x").replace("</text>", "</tex>"),
    page(907, "Module:X", "return", ns=828, model="Scribunto"),
]


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same pages as one bz2 stream and as many; about five shards of a megabyte."""
    folder = tmp_path_factory.mktemp("dumps")
    pages = [article(number, 2, padding=60_000) for number in range(1, 71)] + ODD
    return {
        "single": write_dump(folder / "single.xml.bz2", pages),
        "multi": write_dump(folder / "multi.xml.bz2", pages, streams=4),
    }


@pytest.fixture(scope="session")
def undisturbed(dumps: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Corpora built without any trouble by one worker."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for name, dump in dumps.items():
        build_corpus(dump, folder / name, SMALL, preannotate=CAPITALS)
    return {name: folder / name for name in dumps}


def test_build_accounts_for_every_page(undisturbed: dict[str, Path]) -> None:
    for folder in undisturbed.values():
        corpus = Corpus.open(folder)
        counts = corpus.manifest.counts
        assert (counts.pages, counts.kept, counts.redirects, counts.categories) == (78, 70, 1, 1)
        assert dict(counts.skipped) == {
            "broken XML": 1, "disambiguation": 1, "empty": 1, "model": 1, "namespace": 1, "no prose": 1,
        }  # fmt: skip
        rows = [row for batch in corpus.pages() for row in batch.to_pylist()]
        assert Counter(row["status"] for row in rows) == {"kept": 70, "redirect": 1, "category": 1, "skipped": 6}
        by_title = {row["title"]: row for row in rows}
        assert by_title["Old Harbour"]["redirect"] == "Harbour 1"
        assert by_title["Category:Harbours"]["categories"] == ["Coasts"]
        assert by_title["Broken"]["page"] == 906 and by_title["Broken"]["reason"] == "broken XML"
        assert by_title["Harbour 7"]["categories"] == ["Harbours"]
        for name in ("paragraphs", "sentences", "tokens", "links"):
            assert sum(row[name] for row in rows) == getattr(counts, name)
        assert len(corpus.manifest.shards) > 3
        corpus.verify()


def test_build_sentences_carry_links_mentions_and_where_they_stand(undisturbed: dict[str, Path]) -> None:
    (one,) = Corpus.open(undisturbed["single"]).search("harbour7 was lit 1 times")
    assert one.sentence.text == "The lighthouse of Harbour7 was lit 1 times by Keeper8."
    assert one.sentence.links == (Link(1, 2, "Lighthouse 7"),)
    assert one.sentence.id == f"testwiki-7-70-{one.sentence.meta['offset']}"
    assert dict(one.sentence.meta) | {"offset": 0} == {
        "page": 7, "revision": 70, "title": "Harbour 7", "section": "", "paragraph": 1, "offset": 0,
    }  # fmt: skip
    assert one.mentions is not None and [found.entity for found in one.mentions] == ["Harbour 7", "Harbour 7"]
    assert one.mentions[0].classes == ("Place", "Thing") and one.mentions[0].type is None


def test_build_one_stream_or_many_give_the_same_sentences(undisturbed: dict[str, Path]) -> None:
    single, multi = (Corpus.open(undisturbed[name]) for name in ("single", "multi"))
    assert list(single.sentences()) == list(multi.sentences())
    assert single.manifest.counts == multi.manifest.counts


def test_build_streams_that_cut_pages_are_read_as_one(dumps: dict[str, Path], tmp_path: Path) -> None:
    data = bz2.decompress(dumps["single"].read_bytes())
    odd = tmp_path / "odd.xml.bz2"
    odd.write_bytes(b"".join(bz2.compress(data[at : at + 900_000]) for at in range(0, len(data), 900_000)))
    with odd.open("rb") as file, dumps["multi"].open("rb") as multi, dumps["single"].open("rb") as single:
        assert [is_multistream(one) for one in (file, multi, single)] == [False, True, False]
    build_corpus(odd, tmp_path / "odd", SMALL)
    assert Corpus.open(tmp_path / "odd").manifest.counts.kept == 70


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single", "multi"])
def test_build_survives_a_killed_worker_byte_for_byte(
    kind: str, dumps: dict[str, Path], undisturbed: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed: list[int] = []

    def kill_one(_: Progress) -> None:
        if not killed:
            worker = multiprocessing.active_children()[0]
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)

    build_corpus(dumps[kind], tmp_path / "new", SMALL, preannotate=CAPITALS, workers=2, progress=kill_one)
    assert killed and "A worker process died" in caplog.text
    assert tree(tmp_path / "new") == tree(undisturbed[kind])


def test_pool_gives_up_on_a_shard_that_kills_every_worker(tmp_path: Path) -> None:
    settings = ShardSettings(SMALL, _site(), dataclasses.replace(CAPITALS, opener="tests.support.dump_builders:die"))
    with pytest.raises(WorkerDied, match=r"died 2 times while these shards were made: \[0\]"):
        list(make_shards([ShardTask(0, str(tmp_path), settings, "", block=b"")], 2, None))


_KILLED_PARENT = """
import multiprocessing, os, signal, sys
from pathlib import Path
from crossner_core.wikipedia.build import build_corpus
from tests.support.dump_builders import CAPITALS, SMALL

def stop(now):
    if now.shards == 2:
        print(*[one.pid for one in multiprocessing.active_children()], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    build_corpus(Path(sys.argv[1]), Path(sys.argv[2]), SMALL, preannotate=CAPITALS, workers=2, progress=stop)
"""


@pytest.mark.slow
def test_build_goes_on_after_the_parent_was_killed(
    dumps: dict[str, Path], undisturbed: dict[str, Path], tmp_path: Path
) -> None:
    script, out = tmp_path / "build.py", tmp_path / "new"
    script.write_text(_KILLED_PARENT)
    done = subprocess.run(
        [sys.executable, script, dumps["single"], out], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    workers = [Path("/proc") / pid for pid in done.stdout.split()]
    deadline = time.monotonic() + 20
    while any(_is_running(one) for one in workers):
        assert time.monotonic() < deadline, "the workers outlived their parent"
        time.sleep(0.1)
    with pytest.raises(BadInput, match="not finished: run the same"):
        Corpus.open(out)
    (out / "sentences" / ".00003.parquet.1").write_bytes(b"half a file")
    seen: list[Progress] = []
    build_corpus(dumps["single"], out, SMALL, preannotate=CAPITALS, progress=seen.append)
    assert seen[-1].reused >= 2
    assert tree(out) == tree(undisturbed["single"])


def _is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_build_again_does_nothing_and_other_settings_are_refused(
    dumps: dict[str, Path], undisturbed: dict[str, Path]
) -> None:
    folder = undisturbed["single"]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert build_corpus(dumps["single"], folder, SMALL, preannotate=CAPITALS) == Corpus.open(folder).manifest
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    for dump, config, spec in (
        (dumps["single"], BuildConfig(SentenceRules(min_tokens=5), 1), CAPITALS),
        (dumps["single"], SMALL, None),
        (dumps["single"], SMALL, dataclasses.replace(CAPITALS, hash="1" * 64)),
        (dumps["multi"], SMALL, CAPITALS),
    ):
        with pytest.raises(Conflict, match=r"already holds a corpus.*Choose another name"):
            build_corpus(dump, folder, config, preannotate=spec)


def test_build_into_a_folder_of_something_else_is_refused(dumps: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(Conflict, match="is not a corpus"):
        build_corpus(dumps["single"], tmp_path / "letters", SMALL)


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_build_truncated_dump_is_refused_then_resumed_or_allowed(
    kind: str, dumps: dict[str, Path], undisturbed: dict[str, Path], tmp_path: Path
) -> None:
    whole = dumps[kind].read_bytes()
    dump = tmp_path / f"{kind}.xml.bz2"
    dump.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(TruncatedDump, match=r"is truncated.*its shards stay.*Download the dump again"):
        build_corpus(dump, tmp_path / "new", SMALL, preannotate=CAPITALS)
    manifest = build_corpus(dump, tmp_path / "part", SMALL, preannotate=CAPITALS, allow_truncated=True)
    assert "is truncated" in manifest.truncated and 30 < manifest.counts.kept < 70
    assert manifest.counts.is_complete
    dump.write_bytes(whole)
    seen: list[Progress] = []
    build_corpus(dump, tmp_path / "new", SMALL, preannotate=CAPITALS, progress=seen.append)
    assert seen[-1].reused >= 2 and tree(tmp_path / "new") == tree(undisturbed[kind])


def test_finished_report_of_a_damaged_shard_is_none(dumps: dict[str, Path], tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "one.xml.bz2", [article(1)])

    class Cut(Exception):
        pass

    def stop(_: Progress) -> None:
        raise Cut

    with pytest.raises(Cut):
        build_corpus(dump, tmp_path / "new", SMALL, progress=stop)
    block = article(1).strip().encode()
    task = ShardTask(0, str(tmp_path / "new"), ShardSettings(SMALL, _site()), hashlib.sha256(block).hexdigest())
    assert finished_report(task) is not None
    path = tmp_path / "new" / "sentences" / "00000.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert finished_report(task) is None
    build_corpus(dump, tmp_path / "new", SMALL)
    Corpus.open(tmp_path / "new").verify()


def _site() -> SiteInfo:
    with open_dump(io.BytesIO((HEAD + END).encode())) as dump:
        return dump.site


def _sentences(text: str, *links: CharLink, rules: SentenceRules | None = None) -> tuple[list[Sentence], Tally]:
    tally = Tally()
    extract = Extract((Paragraph("", "First one here.", ()), Paragraph("Life", text, links)), (), ())
    rows = page_sentences(Page(1, "X", 0, 2, None, ""), extract, "w", rules or SentenceRules(1), tally)
    for row in rows:
        assert extract.text[row.meta["offset"] :].startswith(row.text) and row.tokens == tokenize(row.text)
    return rows[1:], tally


def test_page_sentences_a_boundary_inside_a_link_is_undone() -> None:
    text = "He saw Help! The Film twice. Then he left."
    (one, two), tally = _sentences(text, CharLink(7, 21, "Help! (film)"))
    assert one.text == "He saw Help! The Film twice." and one.links == (Link(2, 6, "Help! (film)"),)
    assert two.text == "Then he left." and tally.events["rejoined"] == 1


def test_page_sentences_links_cover_whole_tokens_and_never_overlap() -> None:
    text = "The Oslo-based firm met AB there."
    links = (CharLink(4, 8, "Oslo"), CharLink(24, 25, "A"), CharLink(25, 26, "B"))
    (one,), tally = _sentences(text, *links)
    assert one.links == (Link(1, 2, "Oslo"), Link(4, 5, "A"))
    assert tally.events == {"stretched": 2, "lost links": 1}


def test_page_sentences_spaces_at_a_links_ends_are_no_stretch() -> None:
    (one,), tally = _sentences("Down to Ny-Ålesund it went.", CharLink(7, 19, "Ny-Ålesund"))
    assert one.links == (Link(2, 3, "Ny-Ålesund"),) and not tally.events


def test_page_sentences_short_and_long_ones_are_dropped_and_counted() -> None:
    rows, tally = _sentences("Yes. He went to sea again. One two three four five six seven.", rules=SentenceRules(3, 7))
    assert len(rows) == 1 and tally.dropped == {"too short": 1, "too long": 1}
    with pytest.raises(InvalidConfig, match="max_tokens is 2"):
        SentenceRules(3, 2)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (requirements-ray.txt)")
@pytest.mark.slow
def test_build_as_ray_tasks_byte_for_byte(dumps: dict[str, Path], undisturbed: dict[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "build.py"  # a process of its own: Ray's warnings and threads are not ours
    script.write_text(_KILLED_PARENT.replace("workers=2, progress=stop", 'workers=2, ray="local"'))
    done = subprocess.run(
        [sys.executable, script, dumps["single"], tmp_path / "new"], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "new") == tree(undisturbed["single"])


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_build_without_ray_says_how_to_get_it(dumps: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"requirements-ray\.txt"):
        build_corpus(dumps["single"], tmp_path / "new", SMALL, ray="local")


@pytest.mark.slow
def test_build_real_sample_adds_up(shared: Path, tmp_path: Path) -> None:
    manifest = build_corpus(shared / "data" / "wikipedia" / "enwiki-sample-206-pages.xml.bz2", tmp_path / "new")
    counts = manifest.counts
    assert counts.pages == 206 and counts.is_complete and counts.redirects == 100
    assert counts.fast + sum(counts.fallback.values()) == 206 - counts.redirects
    corpus = Corpus.open(tmp_path / "new")
    ids = [id for batch in corpus.tables(["id"]) for id in batch.column("id").to_pylist()]
    assert len(ids) == len(set(ids)) == counts.sentences > 15_000
    assert sum(len(item.sentence.links) for item in corpus.sentences()) == counts.links
