"""Tokens of the API: shown once, kept as a hash, valid for a time, and never more than their person may do."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound, StorageError
from db import account_rows
from db.engine import Store
from db.tables import ApiToken
from db.types import now
from workbench.accounts import accounts, tokens
from workbench.accounts.actors import Actor

People = dict[str, Actor]


def test_secret_is_returned_once_and_only_its_hash_is_kept(store: Store, people: People) -> None:
    made = tokens.create_token(store, people["ann1"], name=" my  laptop ", scope="write", days=2)
    assert made.secret.startswith("crossner_") and len(made.secret) == len("crossner_") + 43
    (listed,) = tokens.list_tokens(store, people["ann1"])
    assert (listed.name, listed.scope, listed.state, listed.last_used_at) == ("my laptop", "write", "valid", None)
    assert dt.timedelta(days=1.9) < listed.expires_at - now() <= dt.timedelta(days=2)
    with closing(sqlite3.connect(str(store.url.database))) as connection:
        assert made.secret not in "".join(connection.iterdump())


def test_bearer_has_the_role_of_the_moment(store: Store, people: People) -> None:
    secret = tokens.create_token(store, people["res"], name="x", scope="train").secret
    bearer = tokens.bearer_of(store, secret)
    assert bearer is not None and bearer.actor == people["res"] and bearer.scope == "train"
    accounts.set_role(store, people["adm"], people["res"].id, "annotator")
    bearer = tokens.bearer_of(store, secret)
    assert bearer is not None and bearer.actor.role == "annotator"


def test_last_use_is_kept_to_the_minute(store: Store, people: People) -> None:
    secret = tokens.create_token(store, people["res"], name="x").secret
    assert tokens.bearer_of(store, secret)
    (first,) = tokens.list_tokens(store, people["res"])
    assert tokens.bearer_of(store, secret)
    (second,) = tokens.list_tokens(store, people["res"])
    assert first.last_used_at is not None and second.last_used_at == first.last_used_at


def test_a_use_that_cannot_be_noted_lets_its_person_read(
    store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("disk full")

    secret = tokens.create_token(store, people["res"], name="x").secret
    monkeypatch.setattr(account_rows, "token_used", fail)
    bearer = tokens.bearer_of(store, secret)
    assert bearer is not None and bearer.actor == people["res"]


@pytest.mark.parametrize("end", ["revoked", "expired", "closed", "new password"])
def test_token_that_has_ended_opens_nothing(store: Store, people: People, end: str) -> None:
    made = tokens.create_token(store, people["res"], name="x")
    if end == "revoked":
        tokens.revoke_token(store, people["res"], made.token.id)
    elif end == "expired":
        with store.write() as session:
            session.execute(sa.update(ApiToken).values(expires_at=now() - dt.timedelta(seconds=1)))
    elif end == "closed":
        accounts.set_active(store, people["adm"], people["res"].id, False)
        assert tokens.bearer_of(store, made.secret) is None
        accounts.set_active(store, people["adm"], people["res"].id, True)
    else:
        accounts.set_password(store, people["adm"], people["res"].id, "correct horse battery")
    assert tokens.bearer_of(store, made.secret) is None
    assert tokens.list_tokens(store, people["res"])[0].state == ("expired" if end == "expired" else "revoked")


@pytest.mark.parametrize("secret", ["", "crossner_", "crossner_x", "x" * 50, "crossner_\udc80", "crossner_é"])
def test_what_is_no_token_opens_nothing(store: Store, secret: str) -> None:
    assert tokens.bearer_of(store, secret) is None


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"name": " "}, "1 to 80 printable characters; this one has 0"),
        ({"name": "a\x00b"}, "printable"),
        ({"name": "x" * 81}, "this one has 81"),
        ({"scope": "all"}, "no scope 'all'; choose one of read, write, train"),
        ({"days": 0}, "1 to 366 days, not 0"),
        ({"days": 367}, "not 367"),
    ],
)
def test_wrong_values_are_named(store: Store, people: People, wrong: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        tokens.create_token(store, people["res"], **{"name": "x", **wrong})  # type: ignore[arg-type]


def test_tokens_are_limited_and_others_are_not_seen(
    store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    first = tokens.create_token(store, people["res"], name="1").token
    tokens.create_token(store, people["res"], name="2")
    with pytest.raises(Conflict, match="2 valid tokens"):
        tokens.create_token(store, people["res"], name="3")
    with pytest.raises(NotAllowed):
        tokens.list_tokens(store, people["ann1"], user_id=people["res"].id)
    with pytest.raises(NotFound, match=f"no token {first.id}"):
        tokens.revoke_token(store, people["ann1"], first.id)
    assert len(tokens.list_tokens(store, people["adm"], user_id=people["res"].id)) == 2
    tokens.revoke_token(store, people["adm"], first.id)
    assert tokens.create_token(store, people["res"], name="3").token.state == "valid"
