"""Accounts: names, passwords, roles, and what only an admin may do."""

from __future__ import annotations

import dataclasses

import pytest
from argon2 import PasswordHasher

from crossner_core.errors import Conflict, InvalidAccount, NotAllowed, NotFound, SignInRefused
from db.engine import Store
from workbench.accounts import accounts, passwords, sign_in
from workbench.accounts.actors import Actor

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


def add(store: Store, actor: Actor | None, name: str, role: str) -> Actor:
    return accounts.create_user(store, actor, name=name, display_name=name.title(), password=PASSWORD, role=role)


@pytest.fixture
def admin(store: Store) -> Actor:
    return add(store, None, "adm", "admin")


@pytest.fixture
def annotator(store: Store, admin: Actor) -> Actor:
    return add(store, admin, "ann", "annotator")


def signs_in(store: Store, name: str, password: str = PASSWORD) -> sign_in.SignedIn:
    return sign_in.sign_in(store, name=name, password=password, address="192.0.2.1")


def test_create_user_needs_no_actor_for_the_first_admin_only(store: Store) -> None:
    with pytest.raises(NotAllowed):
        add(store, None, "ann", "annotator")
    assert add(store, None, "adm", "admin").role == "admin"
    with pytest.raises(NotAllowed):
        add(store, None, "second", "admin")


@pytest.mark.parametrize("role", ["annotator", "expert", "researcher"])
def test_create_user_is_for_admins(store: Store, admin: Actor, role: str) -> None:
    other = add(store, admin, "other", role)
    with pytest.raises(NotAllowed, match="this is for admin"):
        add(store, other, "more", "annotator")


def test_create_user_reads_the_role_afresh(store: Store, admin: Actor, annotator: Actor) -> None:
    claims = dataclasses.replace(annotator, role="admin")
    with pytest.raises(NotAllowed):
        add(store, claims, "more", "annotator")


@pytest.mark.parametrize("name", ["", " ", "-x", "a b", "ä", "x" * 41, "a/b", "<b>"])
def test_create_user_refuses_unusable_names(store: Store, admin: Actor, name: str) -> None:
    with pytest.raises(InvalidAccount, match="cannot be an account name"):
        add(store, admin, name, "annotator")


def test_create_user_knows_one_spelling_of_a_name(store: Store, admin: Actor, annotator: Actor) -> None:
    with pytest.raises(Conflict, match="already"):
        add(store, admin, " ANN ", "annotator")
    assert signs_in(store, "Ann").actor == annotator


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaa", "x" * 1001])
def test_create_user_refuses_weak_passwords(store: Store, admin: Actor, password: str) -> None:
    with pytest.raises(InvalidAccount):
        accounts.create_user(store, admin, name="ann", display_name="Ann", password=password, role="annotator")


def test_create_user_refuses_unknown_roles_and_names_the_known(store: Store, admin: Actor) -> None:
    with pytest.raises(InvalidAccount, match="annotator, expert, researcher, admin"):
        add(store, admin, "ann", "owner")


def test_random_password_is_accepted_and_never_the_same() -> None:
    made = {passwords.random_password() for _ in range(50)}
    assert len(made) == 50
    for password in made:
        passwords.check_strength(password)


def test_verify_spends_the_same_work_without_a_stored_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> bool:
            seen.append(str(hash))
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "HASHER", Counting(time_cost=1, memory_cost=64, parallelism=1))
    assert not passwords.verify(PASSWORD, None)
    assert passwords.verify(PASSWORD, passwords.hash_password(PASSWORD))
    assert len(seen) == 2 and all(hash.startswith("$argon2id$") for hash in seen)


def test_verify_refuses_a_broken_hash() -> None:
    assert not passwords.verify(PASSWORD, "not a hash")


def test_list_people_shows_browsers_to_admins_alone(store: Store, admin: Actor, annotator: Actor) -> None:
    signs_in(store, "ann")
    signs_in(store, "ann")
    listed = {person.name: person for person in accounts.list_people(store, admin)}
    assert listed["ann"].browsers == 2 and listed["ann"].last_sign_in is not None
    assert listed["adm"].browsers == 0 and listed["adm"].last_sign_in is None
    with pytest.raises(NotAllowed):
        accounts.list_people(store, annotator)


def test_set_role_counts_at_once(store: Store, admin: Actor, annotator: Actor) -> None:
    token = signs_in(store, "ann").token
    accounts.set_role(store, admin, annotator.id, "expert")
    holder = sign_in.actor_for_token(store, token)
    assert holder is not None and holder.role == "expert"


def test_last_admin_can_be_neither_demoted_nor_closed(store: Store, admin: Actor, annotator: Actor) -> None:
    with pytest.raises(Conflict, match="last active admin"):
        accounts.set_role(store, admin, admin.id, "researcher")
    with pytest.raises(Conflict, match="last active admin"):
        accounts.set_active(store, admin, admin.id, False)
    accounts.set_role(store, admin, annotator.id, "admin")
    accounts.set_role(store, admin, admin.id, "researcher")
    assert accounts.operator(store).id == annotator.id


def test_closed_account_is_out_at_once_and_can_come_back(store: Store, admin: Actor, annotator: Actor) -> None:
    token = signs_in(store, "ann").token
    accounts.set_active(store, admin, annotator.id, False)
    assert sign_in.actor_for_token(store, token) is None
    assert accounts.current(store, annotator.id) is None
    with pytest.raises(SignInRefused):
        signs_in(store, "ann")
    with pytest.raises(NotAllowed, match="no longer active"):
        accounts.set_display_name(store, annotator, annotator.id, "Me")
    accounts.set_active(store, admin, annotator.id, True)
    assert sign_in.actor_for_token(store, token) is None
    assert signs_in(store, "ann").actor == annotator


def test_set_password_signs_out_and_changes_it(store: Store, admin: Actor, annotator: Actor) -> None:
    token = signs_in(store, "ann").token
    accounts.set_password(store, admin, annotator.id, "another long one")
    assert sign_in.actor_for_token(store, token) is None
    with pytest.raises(SignInRefused):
        signs_in(store, "ann")
    assert signs_in(store, "ann", "another long one").actor == annotator


def test_change_password_needs_the_present_one_and_keeps_this_browser(store: Store, annotator: Actor) -> None:
    here, elsewhere = signs_in(store, "ann").token, signs_in(store, "ann").token
    with pytest.raises(NotAllowed, match="present password"):
        accounts.change_password(store, annotator, present="wrong one, surely", new="another long one", token=here)
    accounts.change_password(store, annotator, present=PASSWORD, new="another long one", token=here)
    assert sign_in.actor_for_token(store, here) == annotator
    assert sign_in.actor_for_token(store, elsewhere) is None
    assert signs_in(store, "ann", "another long one").actor == annotator


def test_sign_out_everywhere_is_for_oneself_or_an_admin(store: Store, admin: Actor, annotator: Actor) -> None:
    kept, other, boss = signs_in(store, "ann").token, signs_in(store, "ann").token, signs_in(store, "adm").token
    with pytest.raises(NotAllowed):
        accounts.sign_out_everywhere(store, annotator, admin.id)
    accounts.sign_out_everywhere(store, annotator, annotator.id, keep_token=kept)
    assert sign_in.actor_for_token(store, kept) == annotator
    assert sign_in.actor_for_token(store, other) is None
    accounts.sign_out_everywhere(store, admin, annotator.id)
    assert sign_in.actor_for_token(store, kept) is None
    assert sign_in.actor_for_token(store, boss) == admin


def test_set_display_name_is_for_oneself_or_an_admin(store: Store, admin: Actor, annotator: Actor) -> None:
    accounts.set_display_name(store, annotator, annotator.id, "  Ann   Other ")
    accounts.set_display_name(store, admin, admin.id, "Boss")
    assert {person.display_name for person in accounts.list_people(store, admin)} == {"Ann Other", "Boss"}
    with pytest.raises(NotAllowed):
        accounts.set_display_name(store, annotator, admin.id, "Fool")
    with pytest.raises(InvalidAccount):
        accounts.set_display_name(store, annotator, annotator.id, "\x07")


def test_managing_an_unknown_person_is_not_found(store: Store, admin: Actor) -> None:
    with pytest.raises(NotFound, match="999"):
        accounts.set_role(store, admin, 999, "expert")
    with pytest.raises(NotFound):
        accounts.set_active(store, admin, 999, False)


def test_operator_needs_an_admin(store: Store) -> None:
    with pytest.raises(NotFound, match="no admin"):
        accounts.operator(store)
