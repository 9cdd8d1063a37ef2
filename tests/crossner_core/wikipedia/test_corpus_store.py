"""A corpus on disk: read in streams, by id, row and text; damage and other versions are refused with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from crossner_core.errors import BadInput, NotFound
from crossner_core.schema import Link, Mention, Sentence
from crossner_core.tokenize import tokenize
from crossner_core.wikipedia.corpus import (
    PAGES,
    ROW_GROUP,
    SENTENCES,
    Corpus,
    CorpusSentence,
    CorpusWriter,
    PageRow,
    SentenceRows,
    pages_table,
)
from crossner_core.wikipedia.manifest import Counts, Manifest, Parent, Source, read_manifest
from tests.support.dump_builders import article, tree, write_dump
from workbench import cli

SOURCE = Source("made-up.xml.bz2", 100, "testwiki", "MediaWiki 1.45.0")


def _item(number: int) -> CorpusSentence:
    text = f"Ship {number} left Port Anna."
    meta = {
        "page": number // 3,
        "revision": 5,
        "title": f"T{number // 3}",
        "section": "",
        "paragraph": 0,
        "offset": number,
    }
    mentions = (
        Mention(3, 5, "Port Anna", ("City", "Place"), "city", "link", 0.75),
        Mention(0, 1, "Ship", (), None, "x", 0.1),
    )
    found = {0: None, 1: ()}.get(number % 3, mentions)
    sentence = Sentence(f"testwiki-{number // 3}-5-{number}", text, tokenize(text), (Link(3, 5, "Port Anna"),), meta)
    return CorpusSentence(sentence, found)


def _write(folder: Path, sizes: tuple[int, ...]) -> Corpus:
    writer, shards, number = CorpusWriter(folder), [], 0
    for at, size in enumerate(sizes):
        rows = SentenceRows()
        for one in range(number, number + size):
            rows.add(_item(one))
        pages = [PageRow(page, 5, f"T{page}", 0, "kept") for page in range(number // 3, (number + size) // 3)]
        shards.append(writer.write_shard(at, rows.table(), pages_table(pages)))
        number += size
    counts = Counts(pages=number // 3, kept=number // 3, sentences=number)
    return writer.finish(Manifest(SOURCE, {"note": 1}, counts, tuple(shards)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return _write(tmp_path_factory.mktemp("corpora") / "ships", (ROW_GROUP + 3, 0, 6))


def test_sentences_come_back_as_they_were_written(corpus: Corpus) -> None:
    assert corpus.name == "ships" and len(corpus) == ROW_GROUP + 9
    found = list(corpus.sentences())
    assert found == [_item(number) for number in range(len(corpus))]
    assert list(corpus.sentences(shards=[2])) == found[-6:]


def test_tables_and_pages_stream_chosen_columns(corpus: Corpus) -> None:
    batches = list(corpus.tables(["text", "id"]))
    assert batches[0].schema.names == ["text", "id"] and sum(len(one) for one in batches) == len(corpus)
    assert sum(len(one) for one in corpus.pages()) == len(corpus) // 3
    assert next(corpus.pages()).schema.names == PAGES.names
    with pytest.raises(BadInput, match="no column 'colour'; there are id, page"):
        list(corpus.tables(["colour"]))


def test_a_page_is_found_in_whichever_shard_and_row_group_it_lies(corpus: Corpus) -> None:
    last = (len(corpus) - 1) // 3
    for page in (0, 1, ROW_GROUP // 3, last):
        numbers = range(3 * page, min(3 * page + 3, len(corpus)))
        assert corpus.of_page(page) == [_item(number) for number in numbers], page
    assert corpus.of_page(last + 1) == [] == corpus.of_page(-1)


def test_rows_find_single_sentences(corpus: Corpus) -> None:
    last = len(corpus) - 1
    assert corpus.rows([last, 0, ROW_GROUP, 0]) == [_item(number) for number in (last, 0, ROW_GROUP, 0)]
    for number in (4000, ROW_GROUP + 1):
        assert corpus.rows([number]) == [_item(number)]
    for index in (-1, last + 1):
        with pytest.raises(NotFound, match=f"no sentence number {index}; it has {last + 1}"):
            corpus.rows([index])


def test_search_ignores_case_and_pages_through(corpus: Corpus) -> None:
    assert [one.sentence.text for one in corpus.search("ship 40 LEFT")] == ["Ship 40 left Port Anna."]
    assert corpus.search("port anna", limit=3, offset=ROW_GROUP + 1) == [_item(ROW_GROUP + n) for n in (1, 2, 3)]
    assert corpus.search("port anna", limit=9, offset=len(corpus) - 2) == [_item(len(corpus) - n) for n in (2, 1)]
    assert corpus.search("(.*)") == []


def test_writer_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _write(tmp_path / name, (7, 3))
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert read_manifest(tmp_path / "one").hash == read_manifest(tmp_path / "two").hash


def test_writer_refuses_other_columns(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        CorpusWriter(tmp_path).write_shard(0, pa.table({"id": ["a"]}), pages_table([]))
    assert SentenceRows().table().schema == SENTENCES


def test_manifest_comes_back_with_all_its_parts(tmp_path: Path) -> None:
    counts = Counts(pages=3, kept=1, redirects=1, skipped={"empty": 1}, fallback={"odd tag": 2})
    manifest = Manifest(
        SOURCE, {}, counts, (), derived_from=Parent("all", "0" * 64, {"roots": ["Ports"]}), truncated="x"
    )
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    assert read_manifest(tmp_path) == manifest and counts.is_complete
    total = counts + Counts(pages=1, skipped={"empty": 1, "broken XML": 1})
    assert total.skipped == {"broken XML": 1, "empty": 2} and not total.is_complete


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "manifest.json").write_text("{"), "cannot be read.*rebuild the corpus"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "is not the manifest"),
        (lambda folder: _set(folder, "format", 99), "format version 99, this program reads 1: rebuild the corpus"),
        (lambda folder: _set(folder, "counts", {"apples": 1}), "damaged"),
        (lambda folder: _set(folder, "shards", None), "damaged"),
        (lambda folder: (folder / "pages" / "00000.parquet").unlink(), "00000.parquet is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "not finished: run the same"),
    ],
)
def test_open_refuses_damage_and_other_versions(spoil: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    _write(tmp_path / "one", (3,))
    spoil(tmp_path / "one")
    with pytest.raises(BadInput, match=message):
        Corpus.open(tmp_path / "one")


def test_damaged_shard_is_refused_when_read(tmp_path: Path) -> None:
    corpus = _write(tmp_path / "one", (300,))
    path = tmp_path / "one" / "sentences" / "00000.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match=r"00000\.parquet cannot be read: copy the corpus again"):
        list(corpus.sentences())
    path.write_bytes(data[:400] + bytes(400) + data[800:])
    with pytest.raises(BadInput, match="does not match the manifest"):
        corpus.verify()
    with pytest.raises(NotFound, match="make one with `workbench corpus build`"):
        Corpus.open(tmp_path / "two")


def _set(folder: Path, key: str, value: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))


def test_commands_build_list_show_and_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.xml.bz2", [article(number) for number in range(3)])

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.main(["--home", str(tmp_path / "home"), "corpus", *map(str, arguments)])
        return (code, *capsys.readouterr())

    build = ("build", dump, "--workers", 1)
    assert run(*build, "--name", "ports")[0] == 0
    assert run(*build, "--name", "ports")[0] == 0
    assert (tmp_path / "home" / "corpora" / "ports" / "manifest.json").is_file()
    assert "with other settings" in run(*build, "--name", "ports", "--min-tokens", 5)[2]
    assert run(*build, "--output", tmp_path / "elsewhere")[0] == 0
    assert "ports  3      15         150     dump.xml.bz2" in run("list")[1]
    shown = run("show", "ports")[1]
    assert "sentences   15" in shown and "kept              3" in shown
    assert run("search", "ports", "harbour2 was LIT 3", "--limit", 5)[1].endswith("lit 3 times by Keeper5.\n")
    assert run("show", tmp_path / "elsewhere")[0] == 0
    for arguments, message in (
        (build, "either a name (--name) or a folder"),
        ((*build, "--name", "../up"), "'../up' cannot be used"),
        ((*build, "--name", "x", "--domain", "music"), "give --gazetteer too"),
        ((*build, "--name", "x", "--gazetteer", "none"), "no gazetteer is there"),
        (("build", tmp_path / "no.xml", "--name", "x"), "There is no file"),
        (("show", "nothing"), "There is no corpus 'nothing'; there are: ports."),
    ):
        code, _, said = run(*arguments)
        assert code == 2 and message in said
