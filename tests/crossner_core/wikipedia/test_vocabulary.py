"""Vocabulary overlap: what counts as a word, the matrix, and its sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.schema import LabelledSentence, sentence_from_words
from crossner_core.vocabulary import Vocabulary, overlap, sentence_words, vocabulary
from tests.support.corpus_builders import make_corpus
from tests.support.paths import ROOT
from workbench.commands import common, corpus_levels


def test_words_are_folded_letters_without_stop_words() -> None:
    found = vocabulary("v", [["The", "FERRY", "ferry", "of", "1962", "x-ray", "Straße"], ["ferry", "STRASSE", "mill"]])
    assert found == Vocabulary("v", ("ferry", "strasse", "mill"), 6)


def test_the_most_frequent_come_first_and_ties_by_the_alphabet() -> None:
    words = [["weir", "mill", "mill", "oar", "quay", "quay"]]
    assert vocabulary("v", words, top=3).words == ("mill", "quay", "oar")


def test_overlap_is_the_share_of_common_words() -> None:
    one = Vocabulary("one", ("a", "b", "c", "d"), 10)
    two = Vocabulary("two", ("c", "d", "e", "f"), 10)
    small = Vocabulary("small, odd", ("b", "z"), 2)
    found = overlap([one, two, small])
    assert found.matrix == ((100.0, 50.0, 50.0), (50.0, 100.0, 0.0), (50.0, 0.0, 100.0))
    assert found.to_csv().splitlines()[:2] == [',one,two,"small, odd"', "one,100.00,50.00,50.00"]
    assert found.to_markdown().splitlines()[-1] == "| small, odd | 50.0 | 0.0 | 100.0 | 2 |"


def test_sources_are_corpora_and_sentences(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    whole = vocabulary("corpus", corpus.words())
    again = vocabulary("sentences", sentence_words(one.sentence for one in corpus.sentences()))
    assert whole.words == again.words and whole.tokens == again.tokens
    assert vocabulary("few", corpus.words(1)).words == (
        "ferries",
        "ilse",
        "joined",
        "maron",
        "singer",
        "slow",
    )
    labelled = LabelledSentence(sentence_from_words(["Slow", "oars"], id="1"), ())
    assert vocabulary("labelled", sentence_words([labelled])).words == ("oars", "slow")


def test_bad_questions_are_refused() -> None:
    with pytest.raises(BadInput, match="v has no words"):
        vocabulary("v", [["the", "1"]])
    with pytest.raises(InvalidConfig, match="top is 0"):
        vocabulary("v", [["oar"]], top=0)
    same = Vocabulary("same", ("a",), 1)
    for sources in ([same], [same, same]):
        with pytest.raises(InvalidConfig, match="two or more sources"):
            overlap(sources)


def test_command_compares_corpora_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_corpus(tmp_path / "corpora")
    (tmp_path / "set").mkdir()
    for name in ("train", "test"):
        (tmp_path / "set" / f"{name}.txt").write_text("Ilse\tB-person\nMaron\tI-person\nrows\tO\n\n")
    monkeypatch.setattr(common, "PLACE", common.Place(home=tmp_path))
    app = typer.Typer()
    corpus_levels.add_to(app)
    out = tmp_path / "matrix.csv"
    app(
        args=["overlap", "invented", f"rowing={tmp_path / 'set'}", "--format", "csv", "-o", str(out)],
        standalone_mode=False,
    )
    assert out.read_text().splitlines()[0] == ",invented,rowing"
    app(args=["overlap", "a=invented", f"b={tmp_path / 'set' / 'test.txt'}"], standalone_mode=False)
    assert capsysbinary.readouterr().out.splitlines()[0] == b"| % | a | b | words |"
    (tmp_path / "set" / "last.txt").write_text("Swims\tO\n")
    words = []
    for limit in ("1", "3"):
        app(args=["overlap", "a=invented", f"b={tmp_path / 'set'}", "--limit", limit], standalone_mode=False)
        words.append(int(capsysbinary.readouterr().out.decode().splitlines()[-1].split("|")[-2]))
    assert words == [1, 4]  # last.txt comes first
    with pytest.raises(BadInput, match="no format 'png'"):
        app(args=["overlap", "a=invented", "b=invented", "--format", "png"], standalone_mode=False)


def test_stop_words_are_those_of_spacy_which_is_not_imported_for_them() -> None:
    code = (
        "import sys; from crossner_core.vocabulary import _stop_words; "
        "words = _stop_words(); assert not [name for name in sys.modules if name.startswith('spacy')]; "
        "from spacy.lang.en.stop_words import STOP_WORDS; assert words == STOP_WORDS and len(words) > 300"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
