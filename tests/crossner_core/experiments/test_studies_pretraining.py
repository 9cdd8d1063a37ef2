"""Studies that pre-train the encoders of their rows: each once, on levels of a corpus or shares of a text."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.adaptation.dapt import DaptTask
from crossner_core.adaptation.pretraining import PretrainEvent, read_result
from crossner_core.errors import BadInput, InvalidConfig, NotFound
from crossner_core.experiments import __main__ as command
from crossner_core.experiments import pretrained
from crossner_core.experiments.pretrained import Way
from crossner_core.experiments.results import StudyResult
from crossner_core.experiments.running import NothingMeasured, run_study
from crossner_core.experiments.studies.corpus_size import CorpusSizeConfig
from crossner_core.experiments.studies.ner_bert import NerBertConfig
from crossner_core.experiments.studies.transfer import TransferConfig
from crossner_core.experiments.study import StudyEvent, study
from crossner_core.formats import write
from crossner_core.schema import LabelledSentence
from tests.support.corpus_builders import make_corpus
from tests.support.study_builders import data_folder, small_config
from tests.support.training_builders import own_sentences, save_encoder

QUICK: dict[str, Any] = {
    "block_size": 16, "batch_size": 4, "max_steps": 2, "head_first_steps": 2, "held_out_share": 0.2,
}  # fmt: skip
SEVEN = (
    "token-domain", "token-entity", "token-task", "token-integrated", "span-entity", "span-task", "span-integrated",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_encoder(tmp_path_factory.mktemp("encoders") / "tiny"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_corpus(tmp_path_factory.mktemp("corpora")).folder)


def transfer(encoder: str, **changes: Any) -> TransferConfig:
    made = TransferConfig.from_dict(small_config(encoder, settings=["direct"], dapt=QUICK, **changes))
    assert isinstance(made, TransferConfig)
    return made


def run(config: Any, data: Path, out: Path, id: str = "transfer", **options: Any) -> list[StudyEvent]:
    return list(run_study(id, config, data=data, out=out, **options))


def write_file(path: Path, items: Sequence[LabelledSentence]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(write(items, "jsonl"), encoding="utf-8")


def result_of(events: list[StudyEvent]) -> StudyResult:
    assert events[-1].result is not None
    return events[-1].result


def made_encoders(out: Path) -> list[str]:
    return sorted(path.parent.name for path in (out / "encoders").glob("*/pretraining.json"))


def test_transfer_pre_trains_the_papers_seven_ways_and_trains_on_each(
    data: Path, encoder: str, corpus: str, tmp_path: Path
) -> None:
    config = transfer(encoder, dapt_corpus=corpus)
    assert config.own_labels == SEVEN
    events = run(config, data, tmp_path)
    result = result_of(events)
    assert [row[0] for row in result.tables[0].rows] == [f"direct, {label}" for label in ("none", *SEVEN)]
    assert result.tables[0].rows[-1][1].published == 73.39  # the paper's music, direct, span-integrated
    assert not result.missing and len(made_encoders(tmp_path)) == 7
    # The tiny encoder knows few of the words, and no mask moves to an unknown one: masking makes no difference to it.
    assert len({one["fingerprint"] for one in result.encoders}) >= 5
    assert [bool(one["pretrained"]) for one in result.encoders] == [False] + [True] * 7
    assert any(note.startswith("Pre-trained by this study on invented with {") for note in result.notes)
    assert not list((tmp_path / "encoders").glob("*.work")) and "Encoder 7 of 7" in "".join(e.message for e in events)
    told = {
        name[:-9].removeprefix("music-"): read_result(tmp_path / "encoders" / name) for name in made_encoders(tmp_path)
    }
    assert told.keys() == set(SEVEN)
    said = told["span-task"].provenance
    assert (said["corpus"]["domain"], said["corpus"]["level"], said["options"]["masking"]) == ("music", "task", "span")
    assert said["options"]["max_steps"] == 2 and said["options"]["encoder"] == encoder


def test_encoders_are_pre_trained_once_and_serve_other_studies(
    data: Path, encoder: str, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = ["span-integrated", "token-domain"]
    config = transfer(encoder, dapt_corpus=corpus, dapt_ways=ways)
    first = result_of(run(config, data, tmp_path))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "encoders").rglob("*.safetensors")}
    again = result_of(run(replace(config, seeds=(1, 2)), data, tmp_path))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "encoders").rglob("*.safetensors")} == before
    assert set(first.cells) < set(again.cells)
    # What is there needs no pre-training, even where nothing may be trained.
    tables = result_of(run(config, data, tmp_path, should_stop=lambda: True))
    assert tables.tables == first.tables
    more = replace(config, dapt_ways=("span-task",))
    (said,) = result_of(run(more, data, tmp_path, should_stop=lambda: True)).missing
    assert "the study was stopped before its encoder music-span-task-" in said
    with pytest.raises(NothingMeasured, match=r"^The study was stopped before its encoder music-span-task-"):
        run(more, data, tmp_path / "new", should_stop=lambda: True)


def test_stopped_pre_training_goes_on_and_gives_the_same_encoder(
    data: Path, encoder: str, corpus: str, tmp_path: Path
) -> None:
    config = transfer(encoder, dapt_corpus=corpus, dapt_ways=["span-integrated"])
    config = replace(config, dapt={**QUICK, "max_steps": 12})
    whole = result_of(run(config, data, tmp_path / "whole"))
    seen: list[StudyEvent] = []

    def stop() -> bool:
        return any("step 8 of 12" in event.message for event in seen)

    with pytest.raises(NothingMeasured, match="run the study again to resume"):
        for event in run_study("transfer", config, data=data, out=tmp_path / "parts", should_stop=stop):
            seen.append(event)
    assert made_encoders(tmp_path / "parts") == []
    events = run(config, data, tmp_path / "parts")
    assert any("Resumed after step" in event.message for event in events)
    assert result_of(events).encoders[1]["fingerprint"] == whole.encoders[1]["fingerprint"]


def test_corpus_size_pre_trains_on_shares_of_a_text(data: Path, encoder: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The {word} band played in hall {at} .\n" for at in range(80) for word in ("old", "new")))
    given = small_config(encoder, settings=["direct"], dapt=QUICK, dapt_text=[str(text)], corpora=["music", "politics"])
    config = CorpusSizeConfig.from_dict({**given, "dapt_ways": ["span-25", "span-100"]})
    assert isinstance(config, CorpusSizeConfig)
    result = result_of(run(config, data, tmp_path / "out", id="corpus_size"))
    assert [row[0] for row in result.tables[0].rows] == ["direct, 0", "direct, span-25", "direct, span-100"]
    assert len(made_encoders(tmp_path / "out")) == 2  # a text is the same for both corpora
    # Of another text it is made anew, and the one from before is kept; not where nothing may be trained.
    text.write_text(text.read_text() + "One line more .\n")
    events = run(config, data, tmp_path / "out", id="corpus_size", should_stop=lambda: True)
    assert result_of(events).tables == result.tables and len(made_encoders(tmp_path / "out")) == 2
    assert sum("the tables show the encoder as it was" in event.message for event in events) == 2
    events = run(config, data, tmp_path / "out", id="corpus_size")
    assert sum("have changed since it was started, so it starts over" in event.message for event in events) == 2
    assert (
        len(made_encoders(tmp_path / "out")) == 4
        and sum("-until-" in name for name in made_encoders(tmp_path / "out")) == 2
    )
    again = result_of(events)
    assert not again.missing and again.encoders[2]["fingerprint"] != result.encoders[2]["fingerprint"]


def test_corpora_of_their_own_are_named_by_the_targets(data: Path, encoder: str, tmp_path: Path) -> None:
    for name in ("music", "politics"):
        make_corpus(tmp_path, name=f"wiki-{name}")
    config = transfer(encoder, dapt_corpus=str(tmp_path / "wiki-{corpus}"), dapt_ways=["token-domain"])
    result = result_of(run(replace(config, corpora=("music", "politics")), data, tmp_path / "out"))
    assert len(made_encoders(tmp_path / "out")) == 2 and not result.missing
    shared = replace(config, dapt_corpus=str(tmp_path / "wiki-music"), dapt_ways=("token-domain", "span-task"))
    assert not result_of(run(replace(shared, corpora=("music",)), data, tmp_path / "two")).missing
    assert not result_of(run(replace(shared, corpora=("politics", "music")), data, tmp_path / "two")).missing
    # All of a corpus is the same for both; what its task level is hangs on the domain.
    kept = sorted(name[:-9] for name in made_encoders(tmp_path / "two"))
    assert kept == ["music-span-task", "politics-span-task", "token-domain"]
    with pytest.raises(NotFound, match="wiki-music"):
        run(replace(config, dapt_corpus=str(tmp_path / "nowhere" / "wiki-{corpus}")), data, tmp_path / "out")


def test_ner_bert_pre_trains_on_each_entity_tagging_corpus(data: Path, encoder: str, tmp_path: Path) -> None:
    write_file(tmp_path / "silver" / "one.jsonl", own_sentences(24))
    quick = {"max_steps": 2, "batch_size": 4, "max_length": 64, "held_out_share": 0.2}
    given = small_config(encoder, settings=["direct"], corpora=["music", "politics"], tagging=quick)
    config = NerBertConfig.from_dict({**given, "tagged": [f"4-types={tmp_path / 'silver'}"]})
    result = result_of(run(config, data, tmp_path / "out", id="ner_bert"))
    assert [row[0] for row in result.tables[0].rows] == ["direct, none", "direct, 4-types"]
    assert result.tables[0].rows[1][1].published == 71.02  # the paper's music, direct, 4 types
    assert [name[:-9] for name in made_encoders(tmp_path / "out")] == ["4-types"]  # one for both corpora
    told = read_result(tmp_path / "out" / "encoders" / made_encoders(tmp_path / "out")[0])
    assert (told.kind, told.steps, told.provenance["options"]["encoder"]) == ("entity_tagging", 2, encoder)
    assert any("by entity tagging with {" in note and "4-types on silver" in note for note in result.notes)
    wiki = str(make_corpus(tmp_path, name="wiki").folder)
    for wrong, says in (
        ([f"4-types={tmp_path / 'no'}"], "neither an entity-tagging corpus"),
        ([str(tmp_path)], "neither an entity-tagging corpus"),
        ([f"4-types={tmp_path / 'silver'}", f"full={wiki}"], "is not the manifest of an entity-tagging corpus"),
    ):
        with pytest.raises(BadInput, match=says):
            run(NerBertConfig.from_dict({**given, "tagged": wrong}), data, tmp_path / "new", id="ner_bert")
    assert made_encoders(tmp_path / "new") == []
    bare = NerBertConfig.from_dict({**given, "tagged": [f"{tmp_path}/silver"]})
    assert isinstance(bare, NerBertConfig) and bare.own_labels == ("silver",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tagging": QUICK}, "tagging would have no effect: tagged names nothing"),
        ({"tagged": ["a=x", "a=y"]}, "the labels must differ"),
        ({"tagged": ["../../evil=/x"]}, "'../../evil' is no label of an encoder"),
        ({"tagged": [".a=x"]}, "'.a' is no label"),
        ({"tagged": ["{corpus}=x"]}, "'{corpus}' is no label"),
        ({"tagged": ["=x"]}, "tagged holds '=x'; write LABEL=NAME"),
        ({"tagged": ["none=x"]}, "none is what the encoder as it comes is called"),
        ({"tagged": ["a=x"], "tagging": {"masking": "span"}}, "Unknown option masking"),
        ({"tagged": ["a=x"], "encoders": ["a=y"]}, "encoders names a"),
        ({"settings": ["joint"]}, "choose one of direct, pretrain_finetune"),
    ],
)
def test_tagging_that_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        NerBertConfig.from_dict(given)


def test_text_that_lacks_what_a_level_needs_is_refused_before_anything_is_trained(
    data: Path, encoder: str, tmp_path: Path
) -> None:
    bare = str(make_corpus(tmp_path, name="bare", classes=None).folder)
    config = transfer(encoder, dapt_corpus=bare, dapt_ways=["token-domain", "span-task"])
    with pytest.raises(BadInput, match="not pre-annotated, so it has no task level"):
        run(config, data, tmp_path / "out")
    strange = Path(shutil.copytree(data / "music", tmp_path / "data" / "strange")).parent
    with pytest.raises(NotFound, match="strange"):
        run(replace(config, dapt_ways=("token-domain",), corpora=("strange",)), strange, tmp_path / "out")
    with pytest.raises(BadInput, match="cannot be read"):
        run(transfer(encoder, dapt_text=[str(tmp_path / "no.txt")]), data, tmp_path / "out")
    assert made_encoders(tmp_path / "out") == []


def test_loss_that_is_no_number_says_which_encoder_and_what_to_change(
    data: Path, encoder: str, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Iterator[PretrainEvent]:
        yield PretrainEvent(3, 1, float("nan"), message="The loss of step 3 is no number.", outcome="not_finite")

    monkeypatch.setattr(pretrained, "_pretrain_one", broken)
    # The others are trained all the same, and the tables say what lacks and why.
    result = result_of(run(transfer(encoder, dapt_corpus=corpus, dapt_ways=["span-task"]), data, tmp_path))
    assert len(result.cells) == 1 and [row[-1] for row in result.tables[0].rows] == ["1", "0"]
    (said,) = result.missing
    assert "its encoder music-span-task-" in said
    assert "could not be pre-trained: The loss of step 3 is no number. With other options, as a lower" in said


def test_one_that_fails_in_an_unforeseen_way_leaves_the_others(
    data: Path, encoder: str, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = transfer(encoder, dapt_corpus=corpus, dapt_ways=["token-domain", "span-task"])
    run(replace(config, dapt_ways=("token-domain",)), data, tmp_path)
    (there,) = (tmp_path / "encoders").glob("*/pretraining.json")
    there.write_text("{")

    def short_of_memory(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(DaptTask, "__init__", short_of_memory)
    result = result_of(run(config, data, tmp_path))
    assert [row[-1] for row in result.tables[0].rows] == ["1", "0", "0"]
    said = sorted(result.missing)
    assert "is damaged" in said[1] and "RuntimeError: out of memory (see " in said[0], said
    assert len(list((tmp_path / "failures").glob("music-span-task-*.txt"))) == 1


def test_what_is_there_serves_where_the_text_is_gone(data: Path, encoder: str, tmp_path: Path) -> None:
    wiki = make_corpus(tmp_path, name="wiki").folder
    config = transfer(encoder, dapt_corpus=str(wiki), dapt_ways=["token-domain"])
    first = result_of(run(config, data, tmp_path / "out"))
    shutil.rmtree(wiki)
    assert result_of(run(config, data, tmp_path / "out")).tables == first.tables
    wider = replace(config, dapt_ways=("token-domain", "span-task"))
    with pytest.raises(NotFound, match="wiki"):
        run(wider, data, tmp_path / "out")
    tables = result_of(run(wider, data, tmp_path / "out", should_stop=lambda: True))
    assert [row[-1] for row in tables.tables[0].rows] == ["1", "1", "0"] and "music-span-task-" in tables.missing[0]


def test_results_say_what_the_study_was_told(data: Path, encoder: str, corpus: str, tmp_path: Path) -> None:
    config = transfer(encoder, dapt_corpus=corpus, dapt_ways=["token-domain"])
    result = result_of(run(config, data, tmp_path))
    assert result.config["dapt_corpus"] == corpus and result.config["dapt_ways"] == ["token-domain"]
    assert result.config["encoders"] == [] and result.recipe["encoder"] == encoder


def test_studies_that_mean_the_same_share_an_encoder(encoder: str, corpus: str) -> None:
    given = small_config(encoder, settings=["direct"], dapt=QUICK, dapt_corpus=corpus)
    sizes = CorpusSizeConfig.from_dict({**given, "dapt_ways": ["span-100", "span-25"]})
    assert isinstance(sizes, CorpusSizeConfig)
    one = transfer(encoder, dapt_corpus=corpus).folder_name("span-integrated")
    assert sizes.folder_name("span-100") == one != sizes.folder_name("span-25")
    assert one.startswith("{corpus}-span-integrated-")


def test_ctrl_c_saves_a_pre_training(
    data: Path, encoder: str, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = ["transfer", "--data", str(data), "--out", str(tmp_path), "--corpora", "music", "--seeds", "1"]
    words += ["--settings", "direct", "--recipe", json.dumps(small_config(encoder)["recipe"]), "--dapt-corpus", corpus]
    words += ["--dapt-ways", "token-domain", "--dapt", json.dumps({**QUICK, "max_steps": 12})]
    whole = pretrained._pretrain_one

    def interrupted(*given: Any) -> Iterator[PretrainEvent]:
        for event in whole(*given):
            if event.step == 8:
                os.kill(os.getpid(), signal.SIGINT)
            yield event

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(pretrained, "_pretrain_one", interrupted)
        assert command.main(words) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert "Stopped; run the same command again to resume." in capsys.readouterr().err
    assert command.main(words) == 0
    assert "Resumed after step " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dapt_corpus": "a", "dapt_text": ["b"]}, "both given"),
        ({"dapt_ways": ["span-task"]}, "dapt_ways and dapt would have no effect"),
        ({"dapt_corpus": "a", "dapt_ways": ["word-task"]}, "'word-task'; write MASKING"),
        ({"dapt_corpus": "a", "dapt_ways": ["span-0"]}, "'span-0'; write MASKING"),
        ({"dapt_corpus": "a", "dapt_ways": ["span-101"]}, "at most 100 percent"),
        ({"dapt_corpus": "a", "dapt_ways": ["span", "span"]}, "names span twice"),
        ({"dapt_text": ["a"], "dapt_ways": ["span-task"]}, "only a dapt_corpus has levels"),
        ({"dapt_corpus": "a", "dapt": {"masking": "span"}}, "dapt sets masking"),
        ({"dapt_corpus": "a", "dapt": {"steps": 1}}, "Unknown option steps"),
        ({"dapt_corpus": "a", "encoders": ["none=x"]}, "encoders names none, which the study itself has"),
        ({"dapt_corpus": "a", "encoders": ["span-task=x"]}, "encoders names span-task"),
    ],
)
def test_pre_training_that_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        TransferConfig.from_dict({"dapt": QUICK, **given} if "dapt" not in given else given)


def test_way_is_read_from_its_label() -> None:
    assert Way.parse("token-domain") == Way("token", "domain", 100.0)
    assert Way.parse("span-entity-2.5") == Way("span", "entity", 2.5)
    assert Way.parse("span-25") == Way("span", "", 25.0)


def test_rows_are_known_before_anything_is_pre_trained(encoder: str) -> None:
    config = transfer(encoder, dapt_corpus="somewhere", encoders=["own=mine"])
    labels = study("transfer").labels
    assert labels is not None and labels(config) == [f"direct, {label}" for label in ("none", "own", *SEVEN)]
    sizes = CorpusSizeConfig(dapt_corpus="somewhere", settings=("direct",))
    labels = study("corpus_size").labels
    assert labels is not None
    assert labels(sizes) == ["direct, 0", "direct, span-1", "direct, span-25", "direct, span-50", "direct, span-75",
                             "direct, span-100"]  # fmt: skip
    assert len(set(study("transfer").cells(config))) == 9


def test_command_makes_the_whole_table(
    data: Path, encoder: str, corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = small_config(encoder)
    words = ["transfer", "--data", str(data), "--out", str(tmp_path), "--corpora", "music", "--seeds", "1"]
    words += ["--settings", "direct", "--recipe", json.dumps(small["recipe"]), "--dapt-corpus", corpus]
    words += ["--dapt-ways", "span-integrated", "--dapt", json.dumps(QUICK)]
    assert command.main(words) == 0
    said = capsys.readouterr().out
    assert "Encoder 1 of 1, music-span-integrated-" in said and "| direct, span-integrated |" in said
    assert command.main([*words[:-1], '{"masking": "span"}']) == 2
    assert "dapt sets masking" in capsys.readouterr().err
