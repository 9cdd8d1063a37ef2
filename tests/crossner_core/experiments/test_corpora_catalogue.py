from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.experiments.corpora import Corpus, corpus_ids, read_corpus
from crossner_core.schema import LabelledSentence
from tests.support.paths import ROOT


def rows(*sentences: str) -> str:
    """Return columns of sentences written as `Mara/B-person left/O`."""
    return "\n\n".join("\n".join(word.replace("/", "\t") for word in one.split()) for one in sentences) + "\n"


def made(count: int, type_name: str = "person", prefix: str = "I-") -> list[str]:
    """Return sentences that differ, one entity each."""
    return [f"{prefix}{at}/B-{type_name} came/O at/O {at}/O" for at in range(count)]


def put(root: Path, id: str, **files: str) -> Path:
    """Write a corpus; `train_txt=` becomes `train.txt`."""
    folder = root / id
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def three(root: Path, id: str, **changes: str) -> Path:
    files = {"train_txt": rows(*made(4)), "dev_txt": rows(*made(2, prefix="d")), "test_txt": rows(*made(3, prefix="t"))}
    return put(root, id, **{**files, **changes})


def sizes(corpus: Corpus) -> tuple[int, int, int]:
    return len(corpus.train), len(corpus.dev), len(corpus.test)


def words(items: tuple[LabelledSentence, ...]) -> list[str]:
    return [item.sentence.words[0] for item in items]


def test_corpora_a_folder_of_three_files_is_one(tmp_path: Path) -> None:
    three(tmp_path, "tiny", train_txt=rows("Mara/B-zoo left/O", "A/B-ant", "Mara/B-ant left/O"))
    corpus = read_corpus("tiny", tmp_path)
    assert sizes(corpus) == (3, 2, 3)
    assert corpus.types == ("ant", "person", "zoo") and corpus.parents == {} and corpus.notes == ()
    ids = [item.sentence.id for part in (corpus.train, corpus.dev, corpus.test) for item in part]
    assert ids[0] == "tiny-train-1" and len(set(ids)) == 8
    assert all(not item.sentence.meta for item in corpus.train)


def test_corpora_of_a_domain_have_its_types_in_its_order(tmp_path: Path) -> None:
    three(tmp_path, "music")
    corpus = read_corpus("music", tmp_path)
    assert corpus.types[:3] == ("musicgenre", "song", "band") and len(corpus.types) == 13
    assert corpus.parents["musicalartist"] == "person"
    three(tmp_path, "music", train_txt=rows("Mara/B-singer"))
    with pytest.raises(BadInput, match=r"train.txt:1: entity type 'singer' is not one of musicgenre, .* type map"):
        read_corpus("music", tmp_path)


def test_corpora_like_conll_have_the_four_types(tmp_path: Path) -> None:
    for id, name in (("conll2003", "person"), ("sec-filings", "PER"), ("wnut16", "musicartist"), ("wnut17", "person")):
        texts = {split: rows(*made(3, name, prefix=split)) for split in ("train", "dev", "test")}
        three(tmp_path, id, **{f"{split}_txt": text for split, text in texts.items()})
        corpus = read_corpus(id, tmp_path)
        assert corpus.types == ("person", "location", "organisation", "misc")
        assert {span.type for item in corpus.test for span in item.spans} == {"person"}
        assert "types by the map" in corpus.notes[0]
    three(tmp_path, "wnut16", train_txt=rows("Mara/B-singer"))
    with pytest.raises(BadInput, match=r"train.txt:1: entity type 'singer' is not in the type map wnut16"):
        read_corpus("wnut16", tmp_path)


def test_corpora_own_type_map_lies_in_the_folder(tmp_path: Path) -> None:
    folder = three(tmp_path, "tiny")
    assert read_corpus("tiny", tmp_path).types == ("person",)
    (folder / "type_map.toml").write_text('[types]\nperson = "player"\n')
    assert read_corpus("tiny", tmp_path).types == ("player",)


def test_corpora_ids_are_the_known_and_those_that_are_there(tmp_path: Path) -> None:
    assert {"politics", "music", "conll2003", "wikigold", "wnut16"} <= set(corpus_ids())
    three(tmp_path, "tiny"), three(tmp_path, "ai"), (tmp_path / "empty").mkdir()
    assert corpus_ids(tmp_path) == ("ai", "tiny")
    assert corpus_ids(tmp_path / "nowhere") == ()
    with pytest.raises(BadInput, match=r"Unknown corpus 'nope'; known are politics, .* there are ai, tiny\."):
        read_corpus("nope", tmp_path)
    with pytest.raises(BadInput, match=r"Unknown corpus '../ai'"):
        read_corpus("../ai", tmp_path / "tiny")
    with pytest.raises(BadInput, match=r"corpus music is not at .*, where there are ai, tiny; put its train"):
        read_corpus("music", tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"notes_md": "x"}, r"has no file called train or all \(it has no data file\); name the training file"),
        ({"other_txt": "x"}, r"it has other.txt"),
        ({"train_txt": "x", "train_tsv": "x"}, "train.tsv, train.txt: more than one file for train"),
        ({"train_txt": "Mara left.\nShe did."}, "sentence bad-train-1 has no annotation"),
        ({"train_txt": rows(*(f"{word}/O" for word in "abcdefghijklmnop"))}, "has no entities"),
        ({"train_txt": rows(*made(2))}, "There are no (dev|test) sentences: 2 training sentences are too few"),
    ],
)
def test_corpora_that_cannot_be_used_say_why(tmp_path: Path, files: dict[str, str], message: str) -> None:
    put(tmp_path, "bad", **files)
    with pytest.raises(BadInput, match=message):
        read_corpus("bad", tmp_path)


def test_corpora_missing_splits_are_carved_the_same_every_time(tmp_path: Path) -> None:
    put(tmp_path, "one", train_txt=rows(*made(40)))
    corpus = read_corpus("one", tmp_path)
    assert sizes(corpus) == (28, 4, 8)
    assert words(corpus.dev) == ["I-8", "I-17", "I-24", "I-27"]
    assert sorted(words(corpus.train + corpus.dev + corpus.test)) == sorted(f"I-{at}" for at in range(40))
    assert "test: 8 of 40 sentences carved out of train (by hash)" in corpus.notes
    put(tmp_path, "two", train_txt=rows(*reversed(made(40))))
    again = read_corpus("two", tmp_path)
    assert set(words(again.dev)) == set(words(corpus.dev)) and set(words(again.test)) == set(words(corpus.test))


def test_corpora_carved_splits_keep_equal_sentences_together(tmp_path: Path) -> None:
    put(tmp_path, "one", train_txt=rows(*made(20), *made(20), *made(20)))
    assert set(read_corpus("one", tmp_path).duplicates.values()) == {0}


def test_corpora_duplicates_are_counted_and_stay(tmp_path: Path) -> None:
    test = rows("I-1/B-person came/O at/O 1/O", "d0/O came/O at/O 0/O", "d0/B-person came/O at/O 0/O", "new/B-person")
    three(tmp_path, "tiny", test_txt=test)
    corpus = read_corpus("tiny", tmp_path)
    assert corpus.duplicates == {"train→dev": 0, "train→test": 1, "dev→test": 2} and len(corpus.test) == 4


def test_corpora_wikigold_is_cut_between_articles(tmp_path: Path) -> None:
    articles = [rows(*(f"a{at}/I-PER of/O {line}/O" for line in range(5))).replace("\t", " ") for at in range(20)]
    text = "\n-DOCSTART- O\n\n".join([*articles, ""])
    put(tmp_path, "wikigold", all_txt=text)
    corpus = read_corpus("wikigold", tmp_path)
    assert sizes(corpus) == (35, 15, 50)
    parts = [set(words(part)) for part in (corpus.train, corpus.dev, corpus.test)]
    assert sum(map(len, parts)) == 20 == len(set.union(*parts))


def test_corpora_wikineural_is_read_leniently_from_its_parts(tmp_path: Path) -> None:
    def part(number: int) -> str:
        return "".join(f"0\tw{number}\tO\n1\tn{at}\tI-LOC\n\n" for at in range(20))

    put(tmp_path, "wikineural", **{"silver-1_conllu": part(1), "silver-2_conllu": part(2)})
    corpus = read_corpus("wikineural", tmp_path)
    assert sizes(corpus) == (34, 2, 4)
    assert {len(item.spans) for item in corpus.train} == {1}


def test_corpora_restaurant_does_not_take_the_released_dev_file(tmp_path: Path) -> None:
    test = rows(*made(3, prefix="t"))
    three(tmp_path, "restaurant", train_txt=rows(*made(30)), dev_txt=test, test_txt=test)
    corpus = read_corpus("restaurant", tmp_path)
    assert sizes(corpus) == (27, 3, 3) and corpus.duplicates["dev→test"] == 0
    assert corpus.notes[0] == "the dev file is not used: in the release it is the test file"


def test_corpora_data_takes_nested_subsets_and_leaves_the_rest_unlabelled(tmp_path: Path) -> None:
    three(tmp_path, "tiny", train_txt=rows(*made(30)))
    three(tmp_path, "conll2003")
    corpus, source = read_corpus("tiny", tmp_path), read_corpus("conll2003", tmp_path)
    small, large = (corpus.data(size=size, seed=3) for size in (5, 12))
    assert len(small.train) == 5 and set(words(small.train)) <= set(words(large.train))
    assert len(small.unlabelled) == 25 and len(large.unlabelled) == 18
    assert not set(words(small.train)) & {sentence.words[0] for sentence in small.unlabelled}
    assert corpus.data(size=5, seed=4).train != small.train
    assert corpus.data(size=5, order="file").train == corpus.train[:5]
    whole = corpus.data(sources=[source.as_source()])
    assert whole.train == corpus.train and whole.unlabelled == ()
    assert (whole.source_train, whole.source_dev) == (source.train, source.dev)
    with pytest.raises(InvalidConfig, match="Subset sizes are"):
        corpus.data(size=0)


def test_corpora_are_read_once_while_their_files_stay(tmp_path: Path) -> None:
    folder = three(tmp_path, "tiny")
    first = read_corpus("tiny", tmp_path)
    assert read_corpus("tiny", str(tmp_path)) is first
    (folder / "train.txt").write_text(rows(*made(9)))
    assert len(read_corpus("tiny", tmp_path).train) == 9


def test_corpora_need_neither_torch_nor_the_store() -> None:
    code = (
        "import sys; from crossner_core.experiments import corpora\n"
        "heavy = {'torch', 'transformers', 'spacy', 'sqlalchemy', 'streamlit'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert done.returncode == 0, done.stderr


# Sentences and entities of train, dev and test: a change here changes what every study measures.
REAL = {
    "politics": ((200, 1304), (541, 3482), (651, 4209)),
    "music": ((100, 648), (380, 2679), (465, 3336)),
    "ai": ((100, 532), (350, 1549), (431, 1809)),
    "restaurant": ((6894, 13830), (766, 1533), (1521, 3151)),
    "wikigold": ((552, 1149), (259, 448), (885, 1961)),
    "sec-filings": ((931, 914), (233, 254), (303, 318)),
}


@pytest.mark.parametrize("id", REAL)
def test_corpora_of_the_papers_are_split_as_ever(shared: Path, id: str) -> None:
    corpus = read_corpus(id, shared / "data" / "ner")
    parts = (corpus.train, corpus.dev, corpus.test)
    assert tuple((len(part), sum(len(item.spans) for item in part)) for part in parts) == REAL[id]


@pytest.mark.parametrize(("id", "train", "dev"), [("politics", 0, 1), ("music", 6, 17), ("ai", 0, 4)])
def test_corpora_duplicates_are_those_of_the_release(shared: Path, id: str, train: int, dev: int) -> None:
    found = read_corpus(id, shared / "data" / "ner").duplicates
    assert (found["train→test"], found["dev→test"]) == (train, dev)
