"""Mutated inputs through every way in: imported, or refused in words with nothing kept; and what tells."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, CheckpointError
from crossner_core.training.predictor import load_tagger
from crossner_core.wikipedia.category_tables import table_rows, tables_of
from db.tables import Campaign
from tests.support.fuzz import child
from tests.support.fuzz.checkpoints import tagger_files
from tests.support.fuzz.mutating import mutate
from tests.support.fuzz.running import GOOD, plan, run
from tests.support.fuzz.ways import WAYS, Scene, Way

CASES = 2_000
SEED = 26


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.mark.slow
def test_mutated_inputs_are_imported_or_refused_in_words() -> None:
    cases = plan(CASES)
    results = run(cases, seed=SEED)
    assert len(cases) > 0.98 * CASES and {result.way for result in results} == set(WAYS)
    harm = [f"{result.way} {result.number}: {result.verdict}\n{result.words}" for result in results
            if result.verdict not in GOOD]  # fmt: skip
    assert not harm, "\n\n".join(harm)
    for name in WAYS:
        verdicts = {result.verdict for result in results if result.way == name}
        assert verdicts == set(GOOD), f"{name}: all were {verdicts}; the mutations are too wild or too tame"


@pytest.mark.parametrize("name", WAYS)
def test_inputs_to_begin_with_are_accepted(scene: Scene, name: str) -> None:
    for files in WAYS[name].seeds(scene):
        assert child.attempt(WAYS[name], scene, files, [])["verdict"] == "accepted"


def test_the_same_seed_and_number_give_the_same_input(scene: Scene) -> None:
    seeds = [{"a": b"Ada\tO\n\nBo\tB-x\n"}, {"a": b'{"text": "Ada"}\n'}]
    made = [[mutate(seeds, random.Random(f"1 files {number}")) for number in range(200)] for _ in range(2)]
    assert made[0] == made[1] and len({files.get("a", b"") for files in made[0]}) > 150


def _add_campaign_and_refuse(scene: Scene, files: Mapping[str, bytes]) -> None:
    with scene.store.write() as session:
        session.add(Campaign(name="half", domain_name="music", domain_toml=""))
    raise BadInput("refused, but half of it is there")


def _take_memory(scene: Scene, files: Mapping[str, bytes]) -> None:
    bytearray(2 * child.BYTES)


def _fail(scene: Scene, files: Mapping[str, bytes]) -> None:
    raise KeyError("x")


def _wait(scene: Scene, files: Mapping[str, bytes]) -> None:
    time.sleep(5)


HARM = {"half import": _add_campaign_and_refuse, "memory": _take_memory, "traceback": _fail, "slow": _wait}


@pytest.mark.parametrize("verdict", HARM)
def test_harm_is_noticed(scene: Scene, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "SECONDS", 0.5)
    feed: Callable[[Scene, Mapping[str, bytes]], None] = HARM[verdict]
    assert child.attempt(Way("w", lambda _: [], feed, rows=True), scene, {}, [])["verdict"] == verdict


def test_what_is_only_logged_is_noticed(scene: Scene) -> None:
    logged: list[str] = []
    way = Way("w", lambda _: [], lambda *_: logged.append("Traceback …"))
    assert child.attempt(way, scene, {}, logged)["verdict"] == "traceback"


# What the mutated inputs found, as small as it gets.


def test_a_category_table_with_a_column_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "categorylinks.sql"
    path.write_bytes(b"CREATE TABLE `categorylinks` (\n  `cl_\xa4` int(8)\n);\n")
    assert tables_of(path) == ("categorylinks",)
    with pytest.raises(BadInput, match="has no column cl_from; it has cl_\ufffd"):
        list(table_rows(path, "categorylinks", ("cl_from",)))


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("meta.json", '"max_length": 64', '"max_length": [64]', "max_length"),
        ("meta.json", '"max_length": 64', '"max_length": 1', "max_length"),
        ("meta.json", '"types": [', '"types": [], "other": [', "types"),
        ("meta.json", '"recipe": {', '"recipe": [[]], "other": {', "recipe"),
        ("encoder/config.json", '"vocab_size": ', '"vocab_size": 1000000', "describes .* weights"),
        ("encoder/config.json", '"num_hidden_layers": ', '"num_hidden_layers": 1000000', "states .* layers"),
        ("encoder/config.json", '"max_position_embeddings": 64', '"max_position_embeddings": [64]', "TypeError"),
        ("encoder/tokenizer.json", '"ada": ', '"ada": 1000', "do not match"),
        ("encoder/tokenizer_config.json", '"model_max_length": 64', '"model_max_length": []', "not a number"),
    ],
)
def test_a_damaged_tagger_is_refused_in_words(tmp_path: Path, name: str, old: str, new: str, says: str) -> None:
    tagger_files(tmp_path)
    path = tmp_path / name
    text = path.read_text(encoding="utf-8")
    compact = old if old in text else old.replace(": ", ":")
    assert compact in text, text[:2000]
    path.write_text(text.replace(compact, new, 1), encoding="utf-8")
    with pytest.raises(CheckpointError, match=says):
        load_tagger(tmp_path)
