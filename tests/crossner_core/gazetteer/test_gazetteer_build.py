"""From dumps or facts to a gazetteer: what becomes a surface, what is counted, and what is refused."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.errors import BadInput, StorageError, WorkbenchError
from crossner_core.gazetteer.building import build_from_dumps
from crossner_core.gazetteer.classes import COMMON, PLACE
from crossner_core.gazetteer.compiled import CompiledGazetteer, Flag
from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed, aliases, plural
from crossner_core.gazetteer.manifest import GazetteerManifest
from crossner_core.gazetteer.ontology import ClassTree
from tests.support.gazetteers.builders import as_line, build, label, redirect, typed, write
from tests.support.training_builders import small_files
from workbench.cli import main

FACTS: list[Fact] = [
    Typed("Nim Oru (band)", "Band"),
    Typed("Nim Oru", "River"),
    Typed("Nim Oru", "Stream"),
    Typed("Drift core", "MusicGenre"),
    Label("Nim Oru", "Nim Oru"),
    Label("Nim Oru (band)", "Nim Oru"),
    Label("Unheard Of", "Unheard Of"),
    Redirect("The Nims", "Nim Oru (band)"),
    Redirect("Old Nims", "The Nims"),
    Redirect("Nothing", "Unheard Of"),
]


def dumps(folder: Path, facts: list[Fact]) -> list[Path]:
    kinds = {"types.ttl.bz2": Typed, "labels.nt.gz": Label, "redirects.ttl": Redirect}
    return [
        write(folder / name, "# started\n", *(as_line(fact) for fact in facts if isinstance(fact, kind)))
        for name, kind in kinds.items()
    ]


def from_dumps(folder: Path, files: list[Path]) -> tuple[CompiledGazetteer, GazetteerManifest]:
    manifest = build_from_dumps(files, folder, name="tiny")
    return CompiledGazetteer.open(folder), manifest


def test_dumps_in_any_order_and_facts_give_the_same_files(tmp_path: Path) -> None:
    files = dumps(tmp_path, FACTS)
    found = {from_dumps(tmp_path / f"d{at}", order)[1].hash for at, order in enumerate((files, files[::-1]))}
    found.add(build(tmp_path / "facts", FACTS).manifest.hash)
    found.add(build(tmp_path / "reversed", reversed(FACTS)).manifest.hash)
    mixed = write(tmp_path / "all.nt", *(as_line(fact) for fact in reversed(FACTS)))
    found.add(from_dumps(tmp_path / "mixed", [mixed])[1].hash)
    assert len(found) == 1


def test_classes_late_in_a_file_of_labels_are_not_lost(tmp_path: Path) -> None:
    """The first block says what a file holds; if that was wrong, all is read again."""
    many = [label(f"Page_{number}", f"Page {number}") for number in range(30_000)]
    path = write(tmp_path / "labels.nt", *many, typed("Page_7"))
    gazetteer, manifest = from_dumps(tmp_path / "out", [path, write(tmp_path / "types.nt", typed("Page_9"))])
    assert [one.entity for one in gazetteer.entries("Page 7")] == ["Page 7"]
    assert manifest.counts["triples"] == 30_002 and manifest.counts["entities"] == 2


def test_counts_add_up_and_say_what_was_skipped(tmp_path: Path) -> None:
    gazetteer, manifest = from_dumps(tmp_path / "out", dumps(tmp_path, FACTS))
    assert manifest.counts == {
        "triples": 10,
        "types": 4,
        "labels": 3,
        "redirects": 3,
        "surfaces": len(gazetteer),
        "ambiguous surfaces": 1,
        "entries": len(gazetteer) + 1,
        "entities": 3,
        "classes": 4,
    }
    assert manifest.skipped == {
        "comments and empty lines": 3,
        "labels of pages without a class": 1,
        "redirects to pages without a class": 1,
    }
    assert [one.name for one in manifest.source.files] == ["labels.nt.gz", "redirects.ttl", "types.ttl.bz2"]
    assert manifest.source.kind == "dump" and len(manifest.source.date) == 10


def test_chains_of_redirects_are_followed(tmp_path: Path) -> None:
    gazetteer, _ = from_dumps(tmp_path / "out", dumps(tmp_path, FACTS))
    for name in ("The Nims", "Old Nims"):
        assert [(one.entity, one.flags) for one in gazetteer.entries(name)] == [("Nim Oru (band)", Flag.REDIRECT)]


def test_redirects_in_a_circle_are_counted_and_skipped(tmp_path: Path) -> None:
    circle = [redirect("A", "B"), redirect("B", "C"), redirect("C", "A"), redirect("D", "A"), redirect("E", "E")]
    files = [write(tmp_path / "t.nt", typed("Page")), write(tmp_path / "r.nt", *circle, redirect("F", "Page"))]
    gazetteer, manifest = from_dumps(tmp_path / "out", files)
    assert manifest.skipped["redirects in a circle"] == 5
    assert gazetteer.entries("F") and not any(gazetteer.entries(one) for one in "ABCDE")


def test_a_circle_through_a_page_with_a_class_ends_there(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.nt", typed("A"), redirect("A", "B"), redirect("B", "A"))]
    gazetteer, _ = from_dumps(tmp_path / "out", files)
    assert [one.entity for one in gazetteer.entries("B")] == ["A"]
    assert gazetteer.page("A").flags == Flag.TITLE  # type: ignore[union-attr]


def test_disambiguation_pages_are_no_candidates(tmp_path: Path) -> None:
    lines = [typed("Nim"), typed("Nim_(disambiguation)"), redirect("Nims", "Nim_(disambiguation)")]
    gazetteer, manifest = from_dumps(tmp_path / "out", [write(tmp_path / "a.nt", *lines)])
    assert len(gazetteer.entries("Nim")) == 1 and not gazetteer.entries("Nims")
    assert manifest.skipped["disambiguation pages"] == 1


def test_a_class_outside_the_ontology_is_kept_as_stated(tmp_path: Path) -> None:
    gazetteer, _ = from_dumps(tmp_path / "out", [write(tmp_path / "a.nt", typed("Nim", "Zorbologist"))])
    assert gazetteer.entries("Nim")[0].classes == ("Zorbologist",) and not gazetteer.tree.known("Zorbologist")


def test_right_to_left_titles_are_found_in_text(tmp_path: Path) -> None:
    lines = [typed("שיר_ירוק"), label("שיר_ירוק", "שיר ירוק"), typed("نهر_أزرق", "River")]
    gazetteer, _ = from_dumps(tmp_path / "out", [write(tmp_path / "a.nt", *lines)])
    words = ["את", "שיר", "ירוק", "و", "نهر", "أزرق"]
    assert [row[:2] for row in gazetteer.scan([words])[0]] == [(1, 3), (4, 6)]


def test_names_longer_than_any_title_are_counted(tmp_path: Path) -> None:
    lines = [typed("Nim"), label("Nim", "nim " * 200)]
    gazetteer, manifest = from_dumps(tmp_path / "out", [write(tmp_path / "a.nt", *lines)])
    assert manifest.skipped["names that are too long"] == 1 and len(gazetteer) == 1


def test_facts_that_can_be_no_title_are_counted(tmp_path: Path) -> None:
    gazetteer = build(tmp_path / "out", [Typed("Nim", "Band"), Typed("N\0im", "Band"), Typed(" _ ", "Band")])
    assert gazetteer.manifest.skipped["titles that cannot be read"] == 2 and len(gazetteer) == 1


def test_link_counts_of_redirects_go_to_their_page(tmp_path: Path) -> None:
    counts = [Count("Old Nims", 2), Count("The Nims", 3), Count("Nim Oru (band)", 5), Count("Nobody", 9)]
    gazetteer = build(tmp_path / "out", [*counts, *FACTS])
    assert [one.prior for one in gazetteer.entries("Nim Oru")] == [10, 0]
    assert gazetteer.manifest.skipped["link counts of pages without a class"] == 1


@pytest.mark.parametrize(
    ("name", "traits", "expected"),
    [
        ("Nim (band)", 0, {"Nim": Flag.SUFFIX}),
        ("Drift core", COMMON, {
            "drift core": Flag.LOWERCASED,
            "Drift cores": Flag.PLURAL,
            "drift cores": Flag.PLURAL | Flag.LOWERCASED,
        }),
        ("Zorb (genre)", COMMON, {
            "Zorb": Flag.SUFFIX,
            "zorb": Flag.SUFFIX | Flag.LOWERCASED,
            "Zorbs": Flag.SUFFIX | Flag.PLURAL,
            "zorbs": Flag.SUFFIX | Flag.PLURAL | Flag.LOWERCASED,
        }),
        ("Zorb", 0, {}),
        ("Bright Nim Award", COMMON, {"Bright Nim Awards": Flag.PLURAL}),
        ("Oru, Ontario", PLACE, {"Oru": Flag.COMMA}),
        ("Oru, Ontario (village)", PLACE, {"Oru, Ontario": Flag.SUFFIX, "Oru": Flag.SUFFIX | Flag.COMMA}),
        ("Oru, Jr.", 0, {}),
        ("Tilly's law", 0, {
            "Tilly law": Flag.POSSESSIVE,
            "Tillys law": Flag.POSSESSIVE,
            "tilly's law": Flag.LOWERCASED,
        }),
        ("McNim's", 0, {"McNims": Flag.POSSESSIVE}),
        ("(band)", 0, {}),
        ("", COMMON, {}),
        ("a", COMMON | PLACE, {}),
        (", x", PLACE, {}),
    ],
)  # fmt: skip
def test_aliases_of_a_name(name: str, traits: int, expected: dict[str, Flag]) -> None:
    assert dict(aliases(name, traits)) == expected


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("prize", "prizes"),
        ("box", "boxes"),
        ("dry branch", "dry branches"),
        ("city", "cities"),
        ("day", "days"),
        ("blues", ""),
        ("NASA", ""),
        ("x1", ""),
        ("a b c d e f", ""),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many


@given(st.text(max_size=20), st.sampled_from([0, COMMON, PLACE, COMMON | PLACE]))
def test_aliases_differ_from_the_name_and_are_none_too_short(name: str, traits: int) -> None:
    for alias, how in aliases(name, traits):
        assert alias.strip() and alias != name and how


def test_dumps_without_a_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no page has a class.*instance-types"):
        build_from_dumps([write(tmp_path / "a.nt", label("A", "A"))], tmp_path / "out", name="tiny")
    with pytest.raises(BadInput, match="No dump is given"):
        build_from_dumps([], tmp_path / "out", name="tiny")
    assert not (tmp_path / "out").exists()


def test_a_dump_that_is_cut_off_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "types.ttl.bz2"
    path.write_bytes(bz2.compress("".join(typed(f"Page_{n}_{n * 7919 % 1009}") for n in range(9000)).encode())[:-50])
    with pytest.raises(BadInput, match="cut off"):
        build_from_dumps([path], tmp_path / "out", name="tiny")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["types.ttl.bz2"]


@pytest.mark.parametrize("most", [10, 200, 1_000, 20_000, 100_000])
def test_a_full_disk_is_refused_in_words_and_leaves_nothing_behind(tmp_path: Path, most: int) -> None:
    path = write(tmp_path / "types.nt", *(typed(f"Page_{n}_{n * 7919 % 1009}") for n in range(3_000)))
    with small_files(most), pytest.raises(StorageError, match=r"gazetteer cannot be written \(.*\)\. Free some disk"):
        build_from_dumps([path], tmp_path / "out", name="tiny")
    assert [left.name for left in tmp_path.iterdir()] == ["types.nt"]


def test_an_existing_gazetteer_is_kept_unless_replaced(tmp_path: Path) -> None:
    out, first = tmp_path / "out", build(tmp_path / "out", FACTS)
    with pytest.raises(BadInput, match="--replace"):
        build(out, FACTS)
    files = [write(tmp_path / "a.nt", typed("Other"))]
    build_from_dumps(files, out, name="tiny", replace=True)
    assert first.entries("Nim Oru"), "what was open stays readable"
    assert CompiledGazetteer.open(out).entries("Other") and not CompiledGazetteer.open(out).entries("Nim Oru")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="something other"):
        build_from_dumps(files, tmp_path / "precious", name="tiny", replace=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.nt", "out", "precious"]


def test_the_tree_travels_with_the_gazetteer(tmp_path: Path) -> None:
    tree = ClassTree.of({"Zorb": (), "Smallzorb": ("Zorb",)}, source="own")
    files = [write(tmp_path / "a.nt", typed("Nim", "Zorb"), typed("Nim", "Smallzorb"))]
    build_from_dumps(files, tmp_path / "out", name="tiny", tree=tree)
    found = CompiledGazetteer.open(tmp_path / "out")
    assert found.tree.parents == tree.parents and found.manifest.source.ontology == "own"
    assert found.entries("Nim")[0].classes == ("Smallzorb", "Zorb")


def test_the_made_up_slice_is_built_whole(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "data" / "dbpedia" / "slice").glob("*.bz2"))
    if not files:
        pytest.skip("there is no slice of DBpedia beside the checkout")
    gazetteer, manifest = from_dumps(tmp_path / "out", files)
    taken = sum(manifest.counts[one] for one in ("types", "labels", "redirects"))
    lines = sum(bz2.decompress(path.read_bytes()).count(b"\n") for path in files)
    assert taken == manifest.counts["triples"] == lines and "bad lines" not in manifest.skipped
    assert manifest.counts["surfaces"] >= manifest.counts["entities"] == 4077
    gazetteer.verify()


def run(*words: str) -> int:
    return main(list(words))


def test_the_command_line_builds_shows_and_looks_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in dumps(tmp_path, FACTS)]
    home = ("--home", str(tmp_path / "home"))
    assert run(*home, "gazetteer", "build", "--name", "tiny", "--dump", *files) == 0
    assert run(*home, "gazetteer", "list") == 0
    assert "tiny" in capsys.readouterr().out
    assert run(*home, "gazetteer", "show", "tiny", "--verify") == 0
    assert "every file is whole" in capsys.readouterr().out
    assert run(*home, "gazetteer", "look-up", "tiny", "Nim Oru", "--domain", "music") == 0
    said = capsys.readouterr().out
    assert "Nim Oru (band)" in said and "band" in said and "suffix" in said
    assert run(*home, "gazetteer", "classes", "tiny", "--domain", "music") == 0
    assert "suggestion" in capsys.readouterr().out
    assert run("gazetteer", "build", "--output", str(tmp_path / "else"), *files) == 0
    assert run("gazetteer", "show", str(tmp_path / "else")) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["build", "--name", "x"], "exactly one source"),
        (["build", "--dump", "a", "--endpoint", "b", "--name", "x"], "exactly one source"),
        (["build", "--wikipedia", "a", "--name", "x"], "go together"),
        (["build", "--dump", "a.nt"], "--name"),
        (["build", "--dump", "a.nt", "--name", "../x"], "cannot be a folder"),
        (["build", "--dump", "none.nt", "--name", "x"], "none.nt"),
        (["build", "--dump", "none.nt", "--name", "x", "--language", "e n"], "anguage"),
        (["show", "none"], "no gazetteer 'none'"),
        (["look-up", "none", "x"], "no gazetteer 'none'"),
    ],
)
def test_what_the_command_line_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run("--home", str(tmp_path / "home"), "gazetteer", *words) == 2
    assert said in capsys.readouterr().err


def test_problems_are_errors_of_the_house() -> None:
    assert issubclass(BadInput, WorkbenchError)
