"""The tasks of a campaign, each one stage of one sentence, with their state and who has them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from crossner_core.errors import BadInput
from db import task_rows
from db.engine import Store
from db.tables import STAGES, TASK_STATES
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task; `leased_to` and `done_by` are display names. A lease that has expired is anybody's."""

    id: int
    sentence_id: int
    external_id: str
    stage: str
    state: str
    leased_to: str | None
    lease_expires: dt.datetime | None
    done_by: str | None
    done_at: dt.datetime | None


def list_tasks(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    stage: str | None = None,
    state: str | None = None,
    after: int = 0,
    limit: int = 100,
) -> tuple[TaskView, ...]:
    """Return a campaign's tasks with numbers above `after`, at most `limit`; of one stage and state if these are named.

    Raises BadInput for a stage or state that does not exist. For researchers and admins.
    """
    require(actor, *KEEPERS)
    for what, value, known in (("stage", stage, STAGES), ("state", state, TASK_STATES)):
        if value is not None and value not in known:
            raise BadInput(f"There is no {what} {value!r}; there are {', '.join(known)}.")
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        rows = task_rows.listed(session, campaign_id, stage=stage, state=state, after=after, limit=limit)
        return tuple(
            TaskView(
                id=task.id,
                sentence_id=task.sentence_id,
                external_id=external_id,
                stage=task.stage,
                state=task.state,
                leased_to=holder,
                lease_expires=task.lease_expires,
                done_by=doer,
                done_at=task.done_at,
            )
            for task, external_id, holder, doer in rows
        )
