"""Every use case × every kind of person: who is let in is a table, and a use case without a row fails.

`authorisation.json` names, for each use case, who is let in; everybody else must get NotAllowed, or see no such
campaign, and leave the store as it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from db.engine import Store
from tests.support.authorisation import ALLOWED, PERSONS, Scene, dump, outcome, scene_in, use_cases
from workbench.accounts import passwords

CASES = use_cases()
ROWS: dict[str, str] = json.loads((Path(__file__).parent / "authorisation.json").read_text(encoding="utf-8"))
NEVER = {"unknown", "closed"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    with scene_in(tmp_path_factory.mktemp("scene")) as made:
        return made


def allowed(name: str) -> set[str]:
    return set(ROWS[name].split(", "))


def test_every_use_case_has_a_row_and_every_row_a_use_case() -> None:
    assert len(CASES) > 120
    missing, gone = sorted(CASES.keys() - ROWS.keys()), sorted(ROWS.keys() - CASES.keys())
    assert not missing, f"say in authorisation.json who may call {missing}"
    assert not gone


def test_rows_name_known_persons_and_nobody_without_an_account() -> None:
    for name in ROWS:
        assert allowed(name) and allowed(name) <= set(PERSONS) - NEVER, name


@pytest.mark.parametrize("name", sorted(CASES))
def test_only_those_of_the_table_are_let_in(
    name: str, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    assert let_in_by(name, scene, tmp_path) == allowed(name)


def on_disk(store: Store) -> list[bytes]:
    """Return the bytes of a store's file and of its log: where these are the same, so is the content."""
    files = (Path(f"{store.url.database}{end}") for end in ("", "-wal"))
    return [file.read_bytes() if file.exists() else b"" for file in files]


def let_in_by(name: str, scene: Scene, folder: Path) -> set[str]:
    """Return who is let in; a refusal that left the store as it was leaves it to the next person, too."""
    let_in: set[str] = set()
    left = list(PERSONS)
    while left:
        with scene.copied(folder) as store:
            before, bytes_before = dump(store), on_disk(store)
            while left:
                person = left.pop(0)
                if outcome(store, name, CASES[name], scene, person, folder) == ALLOWED:
                    let_in.add(person)
                    break
                if on_disk(store) != bytes_before:
                    assert dump(store) == before, f"{person} was refused, but changed the store"
    return let_in
