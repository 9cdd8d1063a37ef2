"""Dumps are read whatever their packing, and what is wrong with one costs no more than it must."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, NotFound
from crossner_core.wikipedia.dump import Page, SiteInfo, TruncatedDump, cut_pages, open_dump, parse_page, read_pages
from tests.support.dump_builders import END, HEAD, article, page, revision, write_dump

PAGES = [
    page(1, "Alba Bay", "A bay & a <ref>port</ref>."),
    page(2, "Alba", "#REDIRECT [[Alba Bay]]", redirect="Alba Bay"),
    page(3, "Category:Bays", "[[Category:Water]]", ns=14),
]


def _read(data: bytes, **options: object) -> tuple[list[Page], list[str]]:
    problems: list[str] = []
    return list(read_pages(io.BytesIO(data), on_problem=problems.append, **options)), problems  # type: ignore[arg-type]


def _plain(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + END).encode()


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress, lzma.compress], ids=["xml", "bz2", "gz", "xz"])
def test_read_pages_reads_every_packing_alike(pack: object) -> None:
    pages, problems = _read(pack(_plain(*PAGES)))  # type: ignore[operator]
    assert pages == [
        Page(1, "Alba Bay", 0, 10, None, "A bay & a <ref>port</ref>."),
        Page(2, "Alba", 0, 20, "Alba Bay", "#REDIRECT [[Alba Bay]]"),
        Page(3, "Category:Bays", 14, 30, None, "[[Category:Water]]"),
    ]
    assert problems == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_read_pages_streams_may_end_anywhere(size: int) -> None:
    data = _plain(*PAGES)
    packed = b"".join(bz2.compress(data[at : at + size]) for at in range(0, len(data), size))
    assert _read(packed)[0] == _read(data)[0]


def test_open_dump_reads_the_site() -> None:
    with open_dump(io.BytesIO(_plain())) as dump:
        assert dump.site.dbname == "testwiki" and dump.site.namespaces["Category"] == 14
        assert list(dump.chunks()) == []


def test_read_pages_broken_page_costs_only_itself() -> None:
    broken = page(7, "Broken Bay", "x").replace("</text>", "</txet>")
    entity = page(8, "Odd Bay", "x").replace(">x<", ">&nonesuch;<")
    latin = page(9, "Latin Bay", "y").encode().replace(b">y<", b">\xff\xfe<")
    data = (HEAD + broken + entity).encode() + latin + (PAGES[0] + END).encode()
    pages, problems = _read(data)
    assert [one.id for one in pages] == [1]
    assert len(problems) == 3 and "page 7 'Broken Bay' is broken XML" in problems[0]


def test_cut_pages_unclosed_and_unopened_pages_are_each_cut() -> None:
    unclosed = PAGES[0].replace("</page>", "")
    unopened = PAGES[1].replace("<page>", "<paeg>")
    data = _plain(unclosed, PAGES[2], unopened, PAGES[2], unclosed)
    for size in (len(data), 11):
        chunks = list(cut_pages(data[at : at + size] for at in range(0, len(data), size)))
        kinds = [parse_page(chunk, SiteInfo())[1] for chunk in chunks]
        assert kinds == ["broken XML", "", "broken XML", "", "broken XML"]


def test_read_pages_takes_the_last_revision() -> None:
    history = page(5, "Old Bay", "newest", more=revision(48, "oldest") + revision(49, "older"))
    assert _read(_plain(history))[0] == [Page(5, "Old Bay", 0, 50, None, "newest")]


def test_cut_pages_forgets_old_revisions_of_a_long_history() -> None:
    many = "".join(revision(number, "word " * 200_000) for number in range(30))
    data = _plain(page(5, "Old Bay", "newest", more=many), PAGES[0])
    assert len(data) > 25 << 20
    chunks = list(cut_pages(data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)))
    assert [parse_page(chunk, SiteInfo())[0].text[:6] for chunk in chunks] == ["newest", "A bay "]
    assert len(chunks[0]) < 17 << 20


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (page(4, "Module:X", "return {}", ns=828, model="Scribunto"), "model"),
        (page(4, "X", "").replace('<text xml:space="preserve"></text>', '<text deleted="deleted" />'), "deleted text"),
        (page(4, "X", "").replace("<id>4</id>", "<id>four</id>"), "broken XML"),
    ],
)
def test_parse_page_says_why_there_is_no_wikitext(odd: str, reason: str) -> None:
    found, why = parse_page(odd.strip().encode(), SiteInfo())
    assert (found.title, why) == ("Module:X" if reason == "model" else "X", reason)


def test_parse_page_without_ns_goes_by_the_prefix() -> None:
    site = SiteInfo(namespaces={"": 0, "Category": 14})
    assert parse_page(page(1, "Category:Bays", "x", ns=None).strip().encode(), site)[0].namespace == 14
    assert parse_page(page(1, "Bays: a list", "x", ns=None).strip().encode(), site)[0].namespace == 0


def test_read_pages_entity_bombs_have_no_place() -> None:
    bomb = '<!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    pages, problems = _read((bomb + HEAD + page(1, "X", "@").replace("@", "&b;") + PAGES[0] + END).encode())
    assert [one.title for one in pages] == ["Alba Bay"] and len(problems) == 1
    inside = page(1, "X", "x").replace("<title>", bomb + "<title>")
    assert parse_page(inside.strip().encode(), SiteInfo())[1] == "broken XML"


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress, lzma.compress], ids=["xml", "bz2", "gz", "xz"])
def test_read_pages_truncated_dump_gives_its_whole_pages_then_an_error(pack: object, tmp_path: Path) -> None:
    pages = [article(number, 40) for number in range(1, 400)]
    data = pack(_plain(*pages))  # type: ignore[operator]
    path = tmp_path / "cut.xml"
    path.write_bytes(data[: len(data) * 4 // 5])
    found: list[Page] = []
    with pytest.raises(TruncatedDump, match=r"cut\.xml is truncated: .*Download the dump again"):
        found.extend(read_pages(path))
    problems: list[str] = []
    allowed = list(read_pages(path, on_problem=problems.append, allow_truncated=True))
    assert len(problems) == 1 and [one.id for one in allowed] == list(range(1, len(allowed) + 1))
    if pack in (bytes, gzip.compress):  # of the others only whole blocks can be unpacked
        assert len(allowed) > 200


def test_read_pages_damage_in_the_middle_is_named_with_its_place(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "dump.xml.bz2", [article(number) for number in range(60)], streams=10)
    data = bytearray(path.read_bytes())
    middle = data.index(b"BZh91AY&SY", len(data) // 2) + 60
    data[middle : middle + 8] = b"\0" * 8
    path.write_bytes(bytes(data))
    problems: list[str] = []
    pages = list(read_pages(path, on_problem=problems.append, allow_truncated=True))
    assert 0 < len(pages) < 60 and len(pages) % 10 == 0
    assert "is damaged before its byte" in problems[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a MediaWiki dump"),
        (b"Once upon a time", "not a MediaWiki dump"),
        (b"<html><body>Not found</body></html>", "not a MediaWiki dump"),
        (bz2.compress(b"<rss/>"), "not a MediaWiki dump"),
        (b"7z\xbc\xaf\x27\x1c....", "7z archive"),
        (b"PK\x03\x04....", "zip archive"),
        (HEAD.replace("</dbname>", "</dbnam>").encode(), "<siteinfo> is broken"),
    ],
)
def test_read_pages_refuses_what_is_no_dump(data: bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        list(read_pages(io.BytesIO(data)))


def test_read_pages_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file .*none\.xml"):
        list(read_pages(tmp_path / "none.xml"))
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_pages(tmp_path))


def test_read_pages_real_sample(shared: Path) -> None:
    pages = list(read_pages(shared / "data" / "wikipedia" / "enwiki-sample-206-pages.xml.bz2"))
    assert len(pages) == 206 and len({one.id for one in pages}) == 206
    assert all(one.title and one.revision and one.text for one in pages)
