"""Requests made up from the API's own OpenAPI document, right and wrong ones, with every role's token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given  # noqa: E402
from hypothesis import settings as hypothesis_settings  # noqa: E402

from db.engine import Store  # noqa: E402
from db.migrate import migrate  # noqa: E402
from tests.support.api import secret_of, serving, settings_for  # noqa: E402
from tests.support.builders import make_campaign, make_gold, make_people  # noqa: E402
from workbench.data import snapshots  # noqa: E402
from workbench.http.api.declared import routes  # noqa: E402
from workbench.http.api.openapi import openapi  # noqa: E402
from workbench.runs import adaptation  # noqa: E402
from workbench.settings import open_store  # noqa: E402
from workbench.webhooks import managing  # noqa: E402

ROLES = {"annotator": "ann1", "expert": "eva", "researcher": "res", "admin": "adm"}
EXAMPLES = 12
"""Requests for each route and role."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a server on a store with gold, a snapshot, a run and a webhook, and a token for each role."""
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    people = make_people(store)
    campaign = make_campaign(store, people)
    make_gold(store, people, campaign)
    snapshot = snapshots.freeze(store, people["res"], campaign)
    adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe={})
    settings = settings_for(store, home, api_per_minute=1_000_000, webhook_private_hosts="192.0.2.1")
    opened, hook_url = open_store(settings), "https://192.0.2.1/"
    hook = managing.make_webhook(opened, people["res"], campaign, url=hook_url, events=["run.ended"])
    managing.send_test(opened, people["res"], campaign, hook.webhook.id)
    tokens = {role: secret_of(store, people[name]) for role, name in ROLES.items()}
    with serving(settings) as url:
        yield url, tokens
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", [route.name for route in routes()])
def test_answers_are_as_described(name: str, role: str, served: tuple[str, dict[str, str]]) -> None:
    url, tokens = served
    operation = schemathesis.openapi.from_dict(openapi()).find_operation_by_id(name)
    headers = {"authorization": f"Bearer {tokens[role]}"}
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.specs.openapi.checks.status_code_conformance,
        schemathesis.specs.openapi.checks.content_type_conformance,
        schemathesis.specs.openapi.checks.response_schema_conformance,
    ]

    @given(case=operation.as_strategy())
    @hypothesis_settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answers(case: object) -> None:
        response = case.call(base_url=url, headers=headers, timeout=60)  # type: ignore[attr-defined]
        case.validate_response(response, checks=checks)  # type: ignore[attr-defined]

    answers()
