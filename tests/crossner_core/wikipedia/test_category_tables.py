"""Where categories come from (a corpus, SQL tables of any version, DBpedia) and selections by them."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, Conflict, NotFound
from crossner_core.wikipedia.categories import TreeConfig, select
from crossner_core.wikipedia.category_tables import (
    CorpusCategories,
    DbpediaCategories,
    SqlCategories,
    columns_of,
    read_categories,
    table_rows,
)
from crossner_core.wikipedia.corpus import Corpus
from tests.support.corpus_builders import make_corpus

TREE = {"Music of Velmark": ["Arts of Velmark"], "Politics of Velmark": ["Velmark"], "Arts of Velmark": ["Velmark"]}
PAGE = """-- invented
DROP TABLE IF EXISTS `page`;
CREATE TABLE `page` (
  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,
  `page_namespace` int(11) NOT NULL DEFAULT 0,
  `page_title` varbinary(255) NOT NULL DEFAULT '',
  `page_random` double unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (`page_id`),
  UNIQUE KEY `page_name_title` (`page_namespace`,`page_title`)
) ENGINE=InnoDB;
INSERT INTO `page` VALUES (1,0,'Ilse_Maron',0.5),(2,0,'Who\\'s_(there),(now)',0.25),(3,0,'Mill',0.1);
INSERT INTO `page` VALUES (11,14,'Music',0.5),(12,14,'Singers',0.7),(13,14,'Mills',NULL);
"""
OLD = """CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_to` varbinary(255) NOT NULL DEFAULT '',
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  PRIMARY KEY (`cl_from`,`cl_to`)
) ENGINE=InnoDB;
INSERT INTO `categorylinks` VALUES (1,'Singers','A\\\\','page'),(2,'Music','it''s),(','page'),(12,'Music','','subcat');
INSERT INTO `categorylinks` VALUES (3,'Mills','','page'),(3,'Red_link','\\n','page');
"""
NEW = """CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  `cl_target_id` bigint(20) unsigned NOT NULL
) ENGINE=InnoDB;
INSERT INTO `categorylinks` VALUES
(1,'A','page',902),
(2,'B','page',901),
(12,'','subcat',901),
(3,'','page',903),(3,'','page',904),(3,'','page',77);
"""
BOTH = OLD.replace("`cl_to` varbinary", "`cl_target_id` bigint(20) DEFAULT NULL,\n  `cl_to` varbinary")
for _row, _target in (("(1,'Singers'", 902), ("(2,'Music'", 901), ("(12,'Music'", 901), ("(3,'Mills'", 903)):
    BOTH = BOTH.replace(_row, f"{_row.split(',')[0]},{_target},''")
BOTH = BOTH.replace("(3,'Red_link'", "(3,NULL,'Red_link'")
TARGETS = """CREATE TABLE `linktarget` (`lt_id` bigint(20), `lt_namespace` int(11), `lt_title` varbinary(255));
INSERT INTO `linktarget` VALUES (901,14,'Music'),(902,14,'Singers'),(903,14,'Mills'),(904,14,'Red_link'),(77,0,'Mill');
"""


def _files(folder: Path, **tables: str) -> list[Path]:
    found = []
    for name, text in tables.items():
        found.append(folder / f"invented-{name}.sql.gz")
        found[-1].write_bytes(gzip.compress(text.encode()))
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpora"), category_pages=TREE)


@pytest.mark.parametrize(
    ("links", "more"), [(OLD, {}), (NEW, {"linktarget": TARGETS}), (BOTH, {"linktarget": TARGETS})]
)
def test_sql_tables_of_every_version_give_the_same(tmp_path: Path, links: str, more: dict[str, str]) -> None:
    source = SqlCategories(_files(tmp_path, page=PAGE, categorylinks=links, **more))
    reached = source.graph.reach(TreeConfig(("Music",), 1))
    assert reached.titles == ("Music", "Singers")
    members = source.members(reached)
    assert members.pages is not None and members.pages.tolist() == [1, 2]
    assert source.members(source.graph.reach(TreeConfig(("Red link",)))).pages.tolist() == [3]  # type: ignore[union-attr]
    assert source.members(source.graph.reach(TreeConfig(("Mills",)))).pages.tolist() == [3]  # type: ignore[union-attr]


def test_rows_come_by_name_whatever_the_order_of_columns(tmp_path: Path) -> None:
    (path,) = _files(tmp_path, page=PAGE)
    rows = list(table_rows(path, "page", ("page_title", "page_id", "page_random")))
    assert rows[1] == (b"Who's_(there),(now)", b"2", b"0.25")
    assert rows[-1] == (b"Mills", b"13", None)
    assert columns_of(path, "page") == ("page_id", "page_namespace", "page_title", "page_random")


def test_an_insert_that_names_its_columns_is_read_by_these(tmp_path: Path) -> None:
    (path,) = _files(tmp_path, t="CREATE TABLE t (a int, b int);\nINSERT INTO t (`b`, `a`) VALUES (1, 2), (3, 4);\n")
    assert list(table_rows(path, "t", ("a", "b"))) == [(b"2", b"1"), (b"4", b"3")]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, bytes])
def test_escapes_line_ends_and_packings(tmp_path: Path, pack: type) -> None:
    path = tmp_path / "x.sql"
    text = "CREATE TABLE `t` (\n `a` int,\n `b,(c` enum('x,)','y') DEFAULT 'x,)',\n KEY `k` (`a`)\n);\n"
    text += (
        r"""INSERT INTO `t` VALUES (1,'a\'b\\'),(2,'tab\tline\nquote""'),(3,_binary 'zero\0'),(-4,'raw
newline'),(5,'');"""
        + "\nUNLOCK TABLES;\n"
    )
    path.write_bytes(pack(text.encode()))
    assert columns_of(path, "t") == ("a", "b,(c")
    values = [row[0] for row in table_rows(path, "t", ("b,(c",))]
    assert values == [b"a'b\\", b'tab\tline\nquote""', b"zero\0", b"raw\nnewline", b""]


def test_a_missing_column_names_those_there_are(tmp_path: Path) -> None:
    (path,) = _files(tmp_path, page=PAGE)
    with pytest.raises(BadInput, match="no column page_touched; it has page_id, page_namespace, page_title, page_ran"):
        list(table_rows(path, "page", ("page_touched",)))
    bare = "CREATE TABLE `categorylinks` (`cl_from` int, `cl_goal` int);\n"
    with pytest.raises(BadInput, match="neither cl_to nor cl_target_id; it has cl_from, cl_goal"):
        SqlCategories(_files(tmp_path, page=PAGE, categorylinks=bare))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("(2,'B','page',901)", "(2,'B','page')", "cannot read the row"),
        ("(2,'B','page',901)", "(2,'B','page',901,5)", "cannot read the row"),
        ("(3,'','page',77);", "", "ends inside a statement"),
        ("(3,'','page',77);", "(3,'','pa", "cannot read the row"),
    ],
)
def test_rows_that_do_not_fit_the_columns_are_refused(tmp_path: Path, before: str, after: str, says: str) -> None:
    (path,) = _files(tmp_path, categorylinks=NEW.replace(before, after))
    with pytest.raises(BadInput, match=says):
        list(table_rows(path, "categorylinks", ("cl_from", "cl_target_id")))


def test_truncated_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    (path,) = _files(tmp_path, page=PAGE)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="cut off"):
        list(table_rows(path, "page", ("page_id",)))
    with pytest.raises(NotFound, match="no file"):
        SqlCategories([tmp_path / "absent.sql.gz"])
    with pytest.raises(BadInput, match="has no table linktarget; it has page"):
        list(table_rows(_files(tmp_path, page=PAGE)[0], "linktarget", ("lt_id",)))
    with pytest.raises(BadInput, match="The table linktarget is missing"):
        SqlCategories(_files(tmp_path, page=PAGE, categorylinks=NEW))
    with pytest.raises(BadInput, match="not an SQL dump"):
        SqlCategories(_files(tmp_path, nothing="hello\n"))
    with pytest.raises(BadInput, match="not a mix of the two"):
        read_categories([tmp_path / "a.sql.gz", tmp_path / "b.nt"])


def test_dbpedia_gives_tree_and_articles(tmp_path: Path) -> None:
    base, skos = "http://dbpedia.org/resource/", "http://www.w3.org/2004/02/skos/core#"
    tree = tmp_path / "skos_categories_en.ttl.bz2"
    tree.write_bytes(
        bz2.compress(
            f"# started\n<{base}Category:Caf%C3%A9_singers> <{skos}broader> <{base}Category:Music> .\n"
            f'<{base}Category:Music> <{skos}prefLabel> "Music"@en .\n'
            f"<{base}Category:Music> <{skos}broader> <{base}Category:Café_singers> .".encode()
        )
    )
    articles = tmp_path / "article_categories_en.nt"
    articles.write_text(
        f"<{base}Ilse_Maron> <http://purl.org/dc/terms/subject> <{base}Category:Café_singers> .\n"
        f"<{base}Mill> <http://purl.org/dc/terms/subject> <{base}Category:Mills> .\n"
    )
    source = read_categories([articles, tree])
    assert isinstance(source, DbpediaCategories)
    reached = source.graph.reach(TreeConfig(("Music",), 3))
    assert reached.titles == ("Music", "Café singers")
    assert source.members(reached).titles == {"Ilse Maron"}
    assert source.graph.cycles() == (("Café singers", "Music"),)
    with pytest.raises(BadInput, match="skos:broader"):
        _ = DbpediaCategories([articles]).graph


def test_select_writes_a_corpus_of_the_pages_within_reach(corpus: Corpus, tmp_path: Path) -> None:
    config = TreeConfig(("Arts of Velmark",), 2)
    made = select(corpus, CorpusCategories(corpus), config, tmp_path / "music")
    counts = made.manifest.counts
    assert (counts.pages, counts.kept, counts.categories) == (7, 5, 2) and counts.is_complete
    assert counts.sentences == len(list(made.sentences())) == 35
    expected = [one for one in corpus.sentences() if one.sentence.meta["title"].endswith("(music)")]
    assert list(made.sentences()) == expected
    assert counts.tokens == sum(len(one.sentence.tokens) for one in expected)
    assert counts.links == sum(len(one.sentence.links) for one in expected)
    assert counts.mentions == sum(len(one.mentions or ()) for one in expected)
    parent = made.manifest.derived_from
    assert parent is not None and parent.hash == corpus.manifest.hash
    assert parent.how["roots"] == ["Arts of Velmark"] and parent.how["categories_by_depth"] == [1, 1]
    assert len(made.manifest.shards) == len(corpus.manifest.shards)


def test_select_again_gives_the_same_bytes_and_another_selection_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    source, config = CorpusCategories(corpus), TreeConfig(("Velmark",), 1, ("Arts of Velmark",))
    first = select(corpus, source, config, tmp_path / "one")
    assert len(first) == 25
    assert select(corpus, source, config, tmp_path / "one").manifest == first.manifest
    (tmp_path / "two" / "sentences").mkdir(parents=True)  # begun, never finished
    assert select(corpus, source, config, tmp_path / "two").manifest == first.manifest
    with pytest.raises(Conflict, match="another corpus"):
        select(corpus, source, TreeConfig(("Velmark",), 3), tmp_path / "one")


def test_a_selection_can_be_selected_from(corpus: Corpus, tmp_path: Path) -> None:
    wide = select(corpus, CorpusCategories(corpus), TreeConfig(("Velmark",), 3), tmp_path / "wide")
    narrow = select(wide, CorpusCategories(wide), TreeConfig(("Arts of Velmark",), 1), tmp_path / "narrow")
    assert (len(wide), len(narrow)) == (60, 35)


def test_select_by_page_numbers_and_by_titles(corpus: Corpus, tmp_path: Path) -> None:
    page = PAGE.replace("(1,0,'Ilse_Maron',0.5)", "(4,0,'Page_1961_(politics)',0.5)")
    links = OLD.replace("(1,'Singers'", "(4,'Singers'").replace("(2,'Music'", "(2000,'Music'")
    made = select(
        corpus, SqlCategories(_files(tmp_path, page=page, categorylinks=links)), TreeConfig(("Music",)), tmp_path / "n"
    )
    assert [one.sentence.meta["title"] for one in made.sentences()] == ["Page 1961 (politics)"] * 5


def test_no_page_within_reach_says_what_to_do(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"No page .* is in the 1 categories within 0 steps of Velmark: go deeper"):
        select(corpus, CorpusCategories(corpus), TreeConfig(("Velmark",), 0), tmp_path / "none")
    assert not (tmp_path / "none").exists()
