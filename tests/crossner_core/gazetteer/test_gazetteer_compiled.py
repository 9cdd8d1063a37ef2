"""What a compiled gazetteer says about names and text, and which folders it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import marisa_trie
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput, NotFound
from crossner_core.gazetteer import compiled as compiled_module
from crossner_core.gazetteer.compiled import CompiledGazetteer, Flag, NameBits, Scanner
from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed
from crossner_core.gazetteer.titles import key_of
from crossner_core.tokenize import _PLAIN, _token_pattern, tokenize, words_of
from tests.support.gazetteers.builders import build

FACTS: list[Fact] = [
    Typed("Moss Harbour (band)", "Band"),
    Typed("Moss Harbour", "Village"),
    Typed("Moss Harbour (album)", "Album"),
    Typed("Moss Harbour (album)", "MusicalWork"),
    Typed("Velda Quarn", "Politician"),
    Typed("Wow!", "Band"),
    Typed("Slow hop", "MusicGenre"),
    Typed("Tilly's Garden", "Song"),
    Label("Velda Quarn", "Dame Velda Quarn"),
    Redirect("Quarn", "Velda Quarn"),
    Count("Moss Harbour (band)", 7),
    Count("Moss Harbour", 40),
]


@pytest.fixture(scope="module")
def gazetteer(tmp_path_factory: pytest.TempPathFactory) -> CompiledGazetteer:
    return build(tmp_path_factory.mktemp("gazetteer") / "tiny", FACTS)


def test_an_ambiguous_surface_keeps_every_page_most_linked_first(gazetteer: CompiledGazetteer) -> None:
    found = gazetteer.entries("Moss  Harbour")
    assert [(one.entity, one.classes, one.flags, one.prior) for one in found] == [
        ("Moss Harbour", ("Village",), Flag.TITLE, 40),
        ("Moss Harbour (band)", ("Band",), Flag.SUFFIX, 7),
        ("Moss Harbour (album)", ("Album", "MusicalWork"), Flag.SUFFIX, 0),
    ]


def test_names_and_text_meet_whatever_the_spacing(gazetteer: CompiledGazetteer) -> None:
    assert gazetteer.entries("Wow !") == gazetteer.entries("Wow!") != ()
    words = words_of("They saw Tilly’s Garden and Wow! live.")
    assert [words[start:end] for start, end, _ in gazetteer.scan([words])[0]] == [
        ["Tilly", "’s", "Garden"],
        ["Wow", "!"],
    ]


def test_a_link_reaches_a_page_by_title_or_redirect_only(gazetteer: CompiledGazetteer) -> None:
    assert gazetteer.page("moss Harbour (band)#History").entity == "Moss Harbour (band)"  # type: ignore[union-attr]
    assert gazetteer.page("Quarn").entity == "Velda Quarn"  # type: ignore[union-attr]
    assert gazetteer.page("Dame Velda Quarn") is None
    assert gazetteer.page("Nobody") is None


def test_matches_are_all_names_and_scan_those_that_win(gazetteer: CompiledGazetteer) -> None:
    words = ["the", "Dame", "Velda", "Quarn", "plays", "slow", "hop", "in", "Moss", "Harbour"]
    every = [(start, end, gazetteer.surface_of(key)) for start, end, key in gazetteer.matches([words])[0]]
    assert every == [
        (1, 4, "Dame Velda Quarn"),
        (2, 4, "Velda Quarn"),
        (3, 4, "Quarn"),
        (5, 7, "slow hop"),
        (8, 10, "Moss Harbour"),
    ]
    assert [row[:2] for row in gazetteer.scan([words])[0]] == [(1, 4), (5, 7), (8, 10)]
    assert gazetteer.entries_of(gazetteer.scan([words])[0][1][2])[0].flags == Flag.LOWERCASED


def test_look_up_answers_as_a_source(gazetteer: CompiledGazetteer) -> None:
    found = gazetteer.lookup(["Quarn", "slow hop", "Nobody", "a\\b", "Moss Harbour"])
    assert found["Nobody"] == found["a\\b"] == ()
    assert found["Quarn"][0].entity == "http://dbpedia.org/resource/Velda_Quarn"
    assert [one.via for one in found["Moss Harbour"]] == ["title", "name", "name"]
    assert found["Quarn"][0].via == "redirect" and found["slow hop"][0].via == "name"
    assert found["Moss Harbour"][2].classes == (
        "http://dbpedia.org/ontology/Album",
        "http://dbpedia.org/ontology/MusicalWork",
    )


def test_classes_are_counted_with_the_tree(gazetteer: CompiledGazetteer) -> None:
    assert gazetteer.classes_with_counts()["Band"] == 2
    assert gazetteer.classes_with_counts()["MusicalWork"] == 1
    assert "Work" in gazetteer.tree.ancestors("Album")


def test_odd_tokens_match_nothing_and_break_nothing(gazetteer: CompiledGazetteer) -> None:
    assert gazetteer.scan([]) == gazetteer.matches([]) == []
    rows = [[], ["Velda Quarn"], ["", "Quarn", ""], [""], ["x y", "Velda", "Quarn"]]
    scans = [[match[:2] for match in found] for found in gazetteer.scan(rows)]
    assert scans == [[], [], [(1, 2)], [], [(1, 3)]]
    assert gazetteer.matches(rows)[2] == gazetteer.scan(rows)[2]


def test_a_name_ends_with_its_sentence(gazetteer: CompiledGazetteer) -> None:
    assert gazetteer.scan([["Moss"], ["Harbour"]]) == [[], []]


def _copy(gazetteer: CompiledGazetteer, tmp_path: Path) -> Path:
    return Path(shutil.copytree(gazetteer.folder, tmp_path / "copy"))


def test_a_missing_gazetteer_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no gazetteer.*workbench gazetteer build"):
        CompiledGazetteer.open(tmp_path / "none")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_with_the_command(
    gazetteer: CompiledGazetteer, tmp_path: Path, version: object
) -> None:
    folder = _copy(gazetteer, tmp_path)
    value = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**value, "version": version}))
    with pytest.raises(BadInput, match=r"another version.*workbench gazetteer build .*--replace"):
        CompiledGazetteer.open(folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"format": "crossner-gazetteer", "version": 1}'])
def test_a_damaged_manifest_is_refused(gazetteer: CompiledGazetteer, tmp_path: Path, text: str) -> None:
    folder = _copy(gazetteer, tmp_path)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(BadInput, match="Build it again"):
        CompiledGazetteer.open(folder)


@pytest.mark.parametrize("name", ["surfaces.marisa", "entry_starts.npy", "classes.json"])
def test_missing_and_shortened_files_are_refused(gazetteer: CompiledGazetteer, tmp_path: Path, name: str) -> None:
    folder = _copy(gazetteer, tmp_path)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-5])
    with pytest.raises(BadInput, match=rf"{name} has .* bytes"):
        CompiledGazetteer.open(folder)
    (folder / name).unlink()
    with pytest.raises(BadInput, match=rf"{name} is missing"):
        CompiledGazetteer.open(folder)


@pytest.mark.parametrize("name", ["surfaces.marisa", "entry_starts.npy", "entity_priors.npy"])
def test_changed_bytes_are_found_by_verify_or_on_opening(
    gazetteer: CompiledGazetteer, tmp_path: Path, name: str
) -> None:
    gazetteer.verify()
    folder = _copy(gazetteer, tmp_path)
    data = bytearray((folder / name).read_bytes())
    data[-9] ^= 0xFF
    (folder / name).write_bytes(data)
    with pytest.raises(BadInput, match="Build it again"):
        CompiledGazetteer.open(folder).verify()


def test_a_folder_moved_elsewhere_still_opens(gazetteer: CompiledGazetteer, tmp_path: Path) -> None:
    assert CompiledGazetteer.open(_copy(gazetteer, tmp_path)).entries("Quarn") == gazetteer.entries("Quarn")


def oracle(names: set[str], words: Sequence[str]) -> list[tuple[int, int, str]]:
    """Walk a plain set of names token by token."""
    plain = [word.replace("’", "'") for word in words]
    found = []
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            if _may_be_in_key("".join(plain[start:end]) or " ") and (name := " ".join(plain[start:end])) in names:
                found.append((start, end, name))
    return found


_words = st.sampled_from(["a", "ab", "b", "A", "\0", "a\0", "’s", "'s", "é", "-", "a b", "", "the", "an", "ba", "."])


def _may_be_in_key(word: str) -> bool:
    return bool(word) and not set(word) & set(" \0’")


WAYS = [
    pytest.param(None, id="Python"),
    pytest.param(
        compiled_module._SCAN,
        id="C",
        marks=pytest.mark.skipif(compiled_module._SCAN is None, reason="there was no C compiler at installation"),
    ),
]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=300, deadline=None)
@given(
    st.sets(st.lists(_words.filter(_may_be_in_key), min_size=1, max_size=4).map(" ".join)),
    st.lists(st.lists(_words, max_size=14), max_size=5),
)
def test_scan_is_what_a_dictionary_finds(
    way: Callable[..., Any] | None, names: set[str], texts: list[list[str]]
) -> None:
    trie = marisa_trie.Trie(names)
    bits = NameBits.empty()
    bits.add(sorted(names))
    scanner = Scanner(trie, bits)
    with mock.patch.object(compiled_module, "_SCAN", way):
        every, winning = scanner.matches(texts), scanner.scan(texts)
    for words, matches, scan in zip(texts, every, winning, strict=True):
        expected = oracle(names, words)
        assert [(start, end, trie.restore_key(key)) for start, end, key in matches] == expected
        winners, free = [], 0
        for start, end, name in expected:
            if start >= free:
                winners.append((start, end, name))
                free = end
        assert [(start, end, trie.restore_key(key)) for start, end, key in scan] == winners


def test_scan_in_c_compiles_without_a_warning() -> None:
    compiler, headers = shutil.which("cc") or shutil.which("gcc"), Path(sysconfig.get_paths()["include"])
    if compiler is None or not (headers / "Python.h").exists():
        pytest.skip("no C compiler, or Python's headers are not installed")
    source = Path(compiled_module.__file__).with_name("_scan.c")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{headers}"]
    done = subprocess.run([compiler, *flags, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_scan_refuses_what_is_no_text_and_goes_on(
    gazetteer: CompiledGazetteer, way: Callable[..., Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_module, "_SCAN", way)
    for rows in ([["Velda", 7]], [["Velda"], None], 7):
        with pytest.raises(TypeError):
            gazetteer.scan(rows)  # type: ignore[arg-type]
    assert [match[:2] for match in gazetteer.scan([("Velda", "Quarn")])[0]] == [(0, 2)]
    assert gazetteer.scan([["\ud800", "Velda", "Quarn"]])[0][0][:2] == (1, 3)


@given(st.text(max_size=30))
def test_a_key_is_the_tokens_joined_however_it_was_found(name: str) -> None:
    words = [name[token.start : token.end] for token in tokenize(name)]
    assert words_of(name) == words
    assert key_of(name) == " ".join(words).replace("’", "'")


@pytest.mark.parametrize(
    "name", ["Oslo", "New-Wave Öre", "a_b", "É-", "x--y", "Wow!", "O'Neil's", "U.S. Steel", "½ x", "एक दो"]
)
def test_keys_of_chosen_names_are_their_tokens(name: str) -> None:
    assert key_of(name) == " ".join(name[token.start : token.end] for token in tokenize(name))


@given(st.text(st.sampled_from("aB1 .,'’-_(\u0301é\n\t😀\u200d$@^`/Z"), max_size=16))
def test_the_quick_way_to_a_token_finds_what_the_others_find(text: str) -> None:
    slow = re.compile(_token_pattern().pattern.removeprefix(f"{_PLAIN}|"))
    assert slow.pattern != _token_pattern().pattern
    assert words_of(text) == slow.findall(text)
