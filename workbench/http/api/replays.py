"""Idempotency keys: a request that makes something is carried out once, however often it is sent."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from crossner_core.errors import BadInput, Conflict
from db import account_rows
from db.engine import Store
from db.types import now

HEADER = "idempotency-key"
KEPT = dt.timedelta(hours=24)
MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Kept:
    """What was answered before."""

    status: int
    body: str


def checked_key(key: str) -> str:
    """Return a key; raise BadInput for one that cannot be kept."""
    if not 1 <= len(key) <= MOST_CHARACTERS or not key.isascii() or not key.isprintable():
        raise BadInput(f"The header Idempotency-Key has 1 to {MOST_CHARACTERS} printable ASCII characters.")
    return key


def begin(store: Store, token_id: int, key: str, request_hash: str) -> Kept | None:
    """Reserve a key for a request, and return None, or what the same request got before.

    Raises Conflict if the key came with another request, or if its request is under way or was cut off.
    """
    with store.write() as session:
        account_rows.forget_replies(session, before=now() - KEPT)
        if account_rows.claim_reply(session, token_id=token_id, key=key, request_hash=request_hash):
            return None
        row = account_rows.reply(session, token_id=token_id, key=key)
        assert row is not None
        if row.request_hash != request_hash:
            raise Conflict(
                f"The idempotency key {key!r} was used in the last 24 hours for another request; use a new key."
            )
        if row.status is None:
            raise Conflict(
                f"The request with the idempotency key {key!r} is under way, or was cut off when the server stopped; "
                "see whether it was carried out before you send it with a new key."
            )
        return Kept(row.status, row.body)


def keep(store: Store, token_id: int, key: str, kept: Kept) -> None:
    """Keep what a request was answered, for 24 hours."""
    with store.write() as session:
        account_rows.keep_reply(session, token_id=token_id, key=key, status=kept.status, body=kept.body)


def free(store: Store, token_id: int, key: str) -> None:
    """Free the key of a request that was refused, so that it may be sent again once it is put right."""
    with store.write() as session:
        account_rows.drop_reply(session, token_id=token_id, key=key)
