"""People by issuer and subject: the policy for newcomers, roles by groups, linking, sessions that a provider ends."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

import pytest

from crossner_core.errors import BadInput, Conflict, InvalidAccount, NotAllowed, NotFound
from db.copying import filled, forget_processes
from db.engine import Store
from db.types import now
from tests.support.builders import make_person
from tests.support.postgres import either_store
from tests.support.screens import give_session
from workbench.accounts import accounts, identities, sign_in, tokens
from workbench.accounts.actors import Actor
from workbench.accounts.oidc.arrivals import Arrival
from workbench.accounts.oidc.id_tokens import LogoutNotice
from workbench.accounts.oidc.provider_settings import ProviderSettings

__all__ = ["either_store"]
ISSUER = "https://login.example"


def settings(**more: Any) -> ProviderSettings:
    values = {"issuer": ISSUER, "client_id": "workbench", "address": "https://bench.example"}
    return ProviderSettings(**(values | more))


OPEN = settings(first_sign_in="annotator")
BY_GROUPS = settings(first_sign_in="annotator", roles={"staff": "expert", "heads": "admin"})


def arrival(subject: str = "p-1", name: str = "pat", **more: Any) -> Arrival:
    return Arrival(ISSUER, subject, name, more.pop("display_name", "Pat P."), **more)


def enter(store: Store, policy: ProviderSettings = OPEN, **who: Any) -> sign_in.SignedIn:
    return identities.sign_in_by_provider(store, arrival(**who), policy, hours=12)


@pytest.fixture
def admin(either_store: Store) -> Actor:
    return make_person(either_store, "ada", "admin")


def test_who_is_new_waits_until_an_admin_lets_them_in(either_store: Store, admin: Actor) -> None:
    for _ in range(2):
        with pytest.raises(NotAllowed, match="an admin has to let you in"):
            enter(either_store, settings())
    (waiting,) = identities.list_identities(either_store, admin)
    assert (waiting.account, waiting.subject, waiting.shown_as) == ("pat", "p-1", "pat") and waiting.waits_since
    assert accounts.current(either_store, waiting.user_id) is None
    with pytest.raises(InvalidAccount, match="'boss'"):
        identities.let_in(either_store, admin, waiting.user_id, "boss")
    identities.let_in(either_store, admin, waiting.user_id, "expert")
    signed_in = enter(either_store, settings())
    assert (signed_in.actor.name, signed_in.actor.display_name, signed_in.actor.role) == ("pat", "Pat P.", "expert")
    assert sign_in.actor_for_token(either_store, signed_in.token) == signed_in.actor
    with pytest.raises(Conflict, match="does not wait"):
        identities.let_in(either_store, admin, waiting.user_id, "admin")


def test_policy_may_give_a_role_at_once(either_store: Store, admin: Actor) -> None:
    assert enter(either_store, settings(first_sign_in="researcher")).actor.role == "researcher"
    assert enter(either_store, OPEN).actor.role == "researcher"  # the policy is about newcomers


def test_closed_account_stays_closed(either_store: Store, admin: Actor) -> None:
    user = enter(either_store).actor
    accounts.set_active(either_store, admin, user.id, False)
    with pytest.raises(NotAllowed, match="'pat' is closed"):
        enter(either_store)
    with pytest.raises(NotAllowed):
        enter(either_store, settings(), subject="p-2")
    waiting = next(each for each in identities.list_identities(either_store, admin) if each.waits_since)
    accounts.set_active(either_store, admin, waiting.user_id, False)  # refused for good
    with pytest.raises(NotAllowed, match="is closed"):
        enter(either_store, settings(), subject="p-2")


def test_no_password_opens_such_an_account(either_store: Store, admin: Actor) -> None:
    enter(either_store)
    for password in ("!", "", "a long pass phrase"):
        with pytest.raises(NotAllowed, match="do not open an account"):
            sign_in.sign_in(either_store, name="pat", password=password, address="192.0.2.1")


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("ada", "ada-2"),
        ("Ada", "ada-2"),
        ("ada@elsewhere.example", "ada-2"),
        ("José Núñez", "jose-nunez"),
        ("../\x00<b>", "b"),
        ("", "person"),
        ("日本", "person"),
        ("x" * 60, "x" * 40),
    ],
)
def test_name_is_a_label_alone_and_never_opens_another_account(
    either_store: Store, admin: Actor, name: str, account: str
) -> None:
    actor = enter(either_store, name=name, display_name="").actor
    assert actor.name == account and actor.id != admin.id and actor.role == "annotator"
    assert 1 <= len(actor.display_name) <= 80 and actor.display_name.isprintable()


def test_long_names_that_are_taken_get_numbers_too(either_store: Store) -> None:
    made = [enter(either_store, subject=f"p-{number}", name="y" * 50).actor.name for number in range(3)]
    assert made == ["y" * 40, "y" * 38 + "-2", "y" * 38 + "-3"]


def test_same_subject_of_another_issuer_is_somebody_else(either_store: Store) -> None:
    first = enter(either_store).actor
    other = Arrival("https://other.example", "p-1", "pat", "Pat P.")
    second = identities.sign_in_by_provider(either_store, other, OPEN, hours=12).actor
    assert (first.name, second.name) == ("pat", "pat-2")


def test_groups_give_the_role_at_each_sign_in(either_store: Store, admin: Actor) -> None:
    assert enter(either_store, BY_GROUPS, groups=("staff", "others")).actor.role == "expert"
    assert enter(either_store, BY_GROUPS, groups=("staff", "heads")).actor.role == "admin"
    assert enter(either_store, BY_GROUPS, groups=("others",)).actor.role == "annotator"


def test_role_that_an_admin_gave_is_not_lost_for_want_of_groups(either_store: Store, admin: Actor) -> None:
    user = enter(either_store, BY_GROUPS).actor
    accounts.set_role(either_store, admin, user.id, "researcher")
    assert enter(either_store, BY_GROUPS, groups=("others",)).actor.role == "researcher"
    assert enter(either_store, BY_GROUPS, groups=("staff",)).actor.role == "expert"


def test_who_has_left_the_groups_waits_again(either_store: Store, admin: Actor) -> None:
    policy = settings(roles={"staff": "expert"})
    with pytest.raises(NotAllowed, match="let you in"):
        enter(either_store, policy, groups=("others",))
    signed_in = enter(either_store, policy, groups=("staff",))
    assert signed_in.actor.role == "expert"
    assert identities.list_identities(either_store, admin)[0].waits_since is None
    token = tokens.create_token(either_store, signed_in.actor, name="t")
    with pytest.raises(NotAllowed, match="let you in"):
        enter(either_store, policy, groups=())
    assert sign_in.actor_for_token(either_store, signed_in.token) is None
    assert tokens.bearer_of(either_store, token.secret) is None
    assert enter(either_store, policy, groups=("staff",)).actor.role == "expert"


def test_no_group_opens_an_account_that_an_admin_has_closed(either_store: Store, admin: Actor) -> None:
    policy = settings(roles={"staff": "expert"})
    with pytest.raises(NotAllowed, match="let you in"):
        enter(either_store, policy)
    (waiting,) = identities.list_identities(either_store, admin)
    accounts.set_active(either_store, admin, waiting.user_id, False)  # refused for good
    with pytest.raises(NotAllowed, match="is closed"):
        enter(either_store, policy, groups=("staff",))


def test_groups_never_take_the_last_admin_nor_one_with_a_password(
    either_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert enter(either_store, BY_GROUPS, groups=("heads",)).actor.role == "admin"
    assert enter(either_store, BY_GROUPS, groups=("staff",)).actor.role == "admin"
    assert "pat stays admin" in caplog.text
    pat = enter(either_store, BY_GROUPS, groups=()).actor
    local = accounts.create_user(
        either_store, pat, name="loc", display_name="", password="a long pass phrase", role="admin"
    )
    assert enter(either_store, BY_GROUPS, groups=("staff",)).actor.role == "expert"
    identities.link_own(either_store, local, arrival("p-9"))
    assert enter(either_store, BY_GROUPS, subject="p-9", groups=("staff",)).actor.role == "admin"


def test_person_links_and_unlinks_their_own_identity(either_store: Store, admin: Actor) -> None:
    ann = accounts.create_user(
        either_store, admin, name="ann", display_name="", password="a long pass phrase", role="expert"
    )
    identities.link_own(either_store, ann, arrival("p-7", "annie"))
    identities.link_own(either_store, ann, arrival("p-7", "annie"))
    ways = identities.own_ways_in(either_store, ann)
    assert ways.has_password and [(way.subject, way.shown_as) for way in ways.identities] == [("p-7", "annie")]
    signed_in = enter(either_store, settings(), subject="p-7", name="other")
    assert signed_in.actor == ann
    with pytest.raises(Conflict, match="another account"):
        identities.link_own(either_store, admin, arrival("p-7"))
    bob = make_person(either_store, "bob", "annotator")
    with pytest.raises(NotFound):
        identities.unlink_identity(either_store, bob, ways.identities[0].id)
    identities.unlink_identity(either_store, ann, ways.identities[0].id)
    assert sign_in.actor_for_token(either_store, signed_in.token) is None
    assert identities.own_ways_in(either_store, ann).identities == ()


def test_last_way_in_is_not_unlinked(either_store: Store, admin: Actor) -> None:
    pat = enter(either_store).actor
    ways = identities.own_ways_in(either_store, pat)
    assert not ways.has_password
    for actor in (pat, admin):
        with pytest.raises(Conflict, match="has no password"):
            identities.unlink_identity(either_store, actor, ways.identities[0].id)
    accounts.set_password(either_store, admin, pat.id, "a long pass phrase")
    identities.unlink_identity(either_store, admin, ways.identities[0].id)


def test_admin_links_somebody_who_waits_to_an_account_that_is_here(either_store: Store, admin: Actor) -> None:
    ann = make_person(either_store, "ann", "expert")
    with pytest.raises(NotAllowed):
        enter(either_store, settings(), name="ann")
    (waiting,) = identities.list_identities(either_store, admin)
    assert waiting.account == "ann-2"
    identities.link_identity(either_store, admin, ann.id, issuer=ISSUER, subject="p-1")
    assert enter(either_store, settings()).actor == ann
    assert "ann-2" not in [person.name for person in accounts.list_people(either_store, admin)]
    with pytest.raises(Conflict, match="already"):
        identities.link_identity(either_store, admin, ann.id, issuer=ISSUER, subject="p-1")


def test_admin_links_somebody_before_their_first_sign_in(either_store: Store, admin: Actor) -> None:
    ann = make_person(either_store, "ann", "expert")
    for issuer, subject, words in (("login", "p", "issuer"), (ISSUER, "", "subject"), (ISSUER, "a\nb", "subject")):
        with pytest.raises(BadInput, match=words):
            identities.link_identity(either_store, admin, ann.id, issuer=issuer, subject=subject)
    with pytest.raises(NotFound, match="999"):
        identities.link_identity(either_store, admin, 999, issuer=ISSUER, subject="p-1")
    identities.link_identity(either_store, admin, ann.id, issuer=ISSUER, subject="p-1")
    assert enter(either_store, settings()).actor == ann


def test_used_account_outlives_a_move_of_its_identity_and_its_sessions_do_not(
    either_store: Store, admin: Actor
) -> None:
    signed_in, ann = enter(either_store), make_person(either_store, "ann", "expert")
    identities.link_identity(either_store, admin, ann.id, issuer=ISSUER, subject="p-1")
    assert sign_in.actor_for_token(either_store, signed_in.token) is None
    assert {person.name for person in accounts.list_people(either_store, admin)} == {"ada", "ann", "pat"}


def notice(*, subject: str = "", sid: str = "", seconds: float = 0) -> LogoutNotice:
    return LogoutNotice(ISSUER, subject, sid, now() + dt.timedelta(seconds=seconds))


def test_provider_ends_one_session_or_all_of_a_person(either_store: Store, admin: Actor) -> None:
    first, second, third = (enter(either_store, sid=sid) for sid in ("s-1", "s-2", "s-3"))
    other = enter(either_store, subject="p-2", sid="s-1")
    by_hand = give_session(either_store, first.actor)
    assert identities.end_sessions(either_store, notice(subject="p-1", sid="s-1")) == 1
    alive = [sign_in.actor_for_token(either_store, each.token) is not None for each in (first, second, third, other)]
    assert alive == [False, True, True, True]
    assert identities.end_sessions(either_store, notice(sid="s-2")) == 1
    assert identities.end_sessions(either_store, notice(subject="nobody")) == 0
    assert (
        identities.end_sessions(either_store, notice(subject="p-1", seconds=-60)) == 0
    )  # sent again after a new sign-in
    assert identities.end_sessions(either_store, notice(subject="p-1")) == 1
    assert sign_in.actor_for_token(either_store, by_hand) is not None  # the provider did not open this one
    assert identities.provider_of(either_store, other.token) == (ISSUER, "")
    assert identities.provider_of(either_store, by_hand) is None


def test_attempts_with_the_provider_are_limited_by_address(either_store: Store) -> None:
    limit = sign_in.SignInLimit(address=3)
    sign_in.attempt_settled(either_store, sign_in.attempt_by_provider(either_store, "192.0.2.1", limit=limit))
    for _ in range(3):
        sign_in.attempt_by_provider(either_store, "192.0.2.1", limit=limit)
    with pytest.raises(NotAllowed, match="Too many failed attempts"):
        sign_in.attempt_by_provider(either_store, "192.0.2.1", limit=limit)
    sign_in.attempt_by_provider(either_store, "192.0.2.2", limit=limit)


def test_restored_store_knows_people_and_has_nobody_signed_in(either_store: Store, admin: Actor) -> None:
    signed_in = enter(either_store, sid="s-1", id_token="a.b.c")
    with either_store.write() as session:
        forget_processes(session)
    with either_store.read() as session:
        assert not {"login_session", "provider_session"} & set(filled(session))
    assert sign_in.actor_for_token(either_store, signed_in.token) is None
    assert enter(either_store).actor == signed_in.actor
