"""Who a token acts for."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import Field

from crossner_core.errors import NotFound
from workbench.accounts.roles import EVERYONE
from workbench.accounts.tokens import list_tokens
from workbench.http.api.declared import Answer, Call, Nothing, Scope, route


class Me(Answer):
    """The person that a token acts for, and the token."""

    id: int
    name: str
    display_name: str
    role: Annotated[str, Field(json_schema_extra={"enum": list(EVERYONE)})]
    token: str
    """The token's name."""
    scope: Scope
    expires_at: dt.datetime


@route("GET", "/me", scope="read", roles=EVERYONE, use=list_tokens)
def get_me(call: Call, inputs: Nothing) -> Me:
    """Say whom the token acts for, with which role and scope."""
    mine = {token.id: token for token in list_tokens(call.store, call.actor)}
    token = mine.get(call.token_id)
    if token is None:
        raise NotFound("The token is gone.")
    person = call.actor
    return Me(
        id=person.id,
        name=person.name,
        display_name=person.display_name,
        role=person.role,
        token=token.name,
        scope=token.scope,  # type: ignore[arg-type]
        expires_at=token.expires_at,
    )
