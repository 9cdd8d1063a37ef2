"""The frame, Start, People and My account, as each role sees them."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher
from streamlit.testing.v1 import AppTest

from crossner_core.errors import BadInput, Conflict, NotAllowed
from db.engine import Store
from pages import shell
from pages.main import SECTIONS
from tests.support import builders
from tests.support.screens import PAGES, open_screen, part
from workbench.accounts import accounts, identities, passwords, sign_in, tokens
from workbench.accounts.actors import Actor
from workbench.accounts.oidc.arrivals import Arrival
from workbench.accounts.oidc.provider_settings import ProviderSettings
from workbench.accounts.roles import EVERYONE
from workbench.campaigns import campaigns
from workbench.labelling import adjudication, handout

People = dict[str, Actor]


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


def words(screen: AppTest) -> str:
    """Return everything the screen says, in one string."""
    assert not screen.exception, screen.exception
    kinds = ("title", "subheader", "markdown", "caption", "info", "warning", "error", "success", "code", "text")
    return "\n".join(str(element.value) for kind in kinds for element in screen.get(kind))


def links(screen: AppTest) -> list[str]:
    """Return the labels of the sidebar's links; the last one is the person."""
    return [link.proto.label for link in screen.sidebar.get("page_link")]


def press(screen: AppTest, label: str) -> AppTest:
    next(button for button in screen.button if button.label == label).click()
    return screen.run()


OVERSEEN = [
    "Overview and queue",
    "Corpora and gazetteer",
    "Adaptation and encoders",
    "Compare and errors",
    "Studies",
]
SCREENS = [screen for section in SECTIONS.values() for screen in section if (PAGES / f"{screen.file}.py").exists()]


@pytest.mark.parametrize("screen", [screen.file for screen in SCREENS])
def test_screen_shows_a_stranger_nothing(monkeypatch: pytest.MonkeyPatch, store: Store, screen: str) -> None:
    shown = words(open_screen(monkeypatch, store, screen, None))
    assert shown == "You are signed out. Nothing that was saved is lost."


@pytest.mark.parametrize(
    ("screen", "role"), [(one.file, role) for one in SCREENS for role in EVERYONE if role not in one.roles]
)
def test_screen_checks_the_role_itself(monkeypatch: pytest.MonkeyPatch, store: Store, screen: str, role: str) -> None:
    shown = words(open_screen(monkeypatch, store, screen, builders.make_person(store, "someone", role)))
    assert "; this is for " in shown and len(shown.splitlines()) == 1


@pytest.mark.parametrize("name", ["ann1", "eva", "res"])
def test_people_is_for_admins(monkeypatch: pytest.MonkeyPatch, store: Store, people: People, name: str) -> None:
    screen = open_screen(monkeypatch, store, "people", people[name])
    assert "this is for admin" in words(screen) and not screen.button and not screen.dataframe


def test_people_adds_a_person_whose_password_is_shown_once(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    screen = open_screen(monkeypatch, store, "people", people["adm"])
    screen.text_input[0].input("zoe")
    screen.text_input[1].input("Zoe Ley")
    press(screen, "Add, with a random password")
    password = screen.code[0].value
    assert sign_in.sign_in(store, name="zoe", password=password, address="192.0.2.1").actor.display_name == "Zoe Ley"
    assert not screen.run().code


def test_people_says_what_is_wrong_and_adds_nobody(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    screen = open_screen(monkeypatch, store, "people", people["adm"])
    screen.text_input[0].input("ANN1")
    assert "already" in words(press(screen, "Add, with a random password"))
    assert len(accounts.list_people(store, people["adm"])) == len(people)


def test_people_keeps_the_last_admin(monkeypatch: pytest.MonkeyPatch, store: Store, people: People) -> None:
    screen = open_screen(monkeypatch, store, "people", people["adm"])
    screen.selectbox(key="people:who").select(people["adm"].id).run()
    assert "last active admin" in words(press(screen, "Close the account"))
    assert accounts.current(store, people["adm"].id) is not None


def test_people_changes_role_password_and_state(monkeypatch: pytest.MonkeyPatch, store: Store, people: People) -> None:
    ann = people["ann1"].id
    screen = open_screen(monkeypatch, store, "people", people["adm"])
    screen.selectbox(key="people:who").select(ann).run()
    screen.selectbox(key=f"people:role:{ann}").select("expert").run()
    assert "is now expert" in words(press(screen, "Save the role"))
    press(screen, "New random password")
    password = screen.code[0].value
    assert sign_in.sign_in(store, name="ann1", password=password, address="192.0.2.1").actor.role == "expert"
    press(screen, "Close the account")
    assert accounts.current(store, ann) is None
    press(screen, "Reopen the account")
    assert accounts.current(store, ann) is not None


def test_account_changes_the_shown_name(monkeypatch: pytest.MonkeyPatch, store: Store, people: People) -> None:
    screen = open_screen(monkeypatch, store, "account", people["ann1"])
    screen.text_input[0].input("Anna")
    assert "Your display name is changed" in words(press(screen, "Change the name"))
    changed = accounts.current(store, people["ann1"].id)
    assert changed is not None and changed.display_name == "Anna"


def test_account_changes_the_password_with_the_present_one(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    accounts.set_password(store, people["adm"], people["ann1"].id, "the first password")
    screen = open_screen(monkeypatch, store, "account", people["ann1"])

    def change(present: str, new: str, again: str) -> str:
        fields = [field for field in screen.text_input if "password" in field.label]
        for field, text in zip(fields, (present, new, again), strict=True):
            field.input(text)
        return words(press(screen, "Change the password"))

    assert "differ" in change("the first password", "the second password", "the second passwort")
    assert "not right" in change("a wrong password", "the second password", "the second password")
    assert "is changed" in change("the first password", "the second password", "the second password")
    sign_in.sign_in(store, name="ann1", password="the second password", address="192.0.2.1")


def test_welcome_shows_the_work_of_the_campaign(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    screen = open_screen(monkeypatch, store, "main", people["ann1"])
    assert "**6** left · 0 done" in words(screen) and "Mara Vell" in words(screen)
    assert [button.label for button in screen.button if button.label == "Go on"] == ["Go on"]


def test_welcome_counts_what_waits_for_a_person_as_the_stage_does(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(4)[0], [], parts={"no_entities": True})
    left = {name: handout.progress(store, people[name], campaign, "annotate").left for name in ("ann1", "ann2")}
    assert left == {"ann1": 5, "ann2": 2}
    for name, number in left.items():
        assert f"**{number}** left" in words(open_screen(monkeypatch, store, "main", people[name]))


def test_welcome_names_an_open_question(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        tab = builders.Tab(store, people[name], campaign, stage)
        tab.do("submit", tab.items(1)[0], [], parts={"no_entities": True})
    task = builders.Tab(store, people["eva"], campaign, "adjudicate").items(1)[0]["task"]
    adjudication.ask(store, people["eva"], task, "Sure?")
    screen = open_screen(monkeypatch, store, "main", people["ann1"])
    links = [link.proto.label for link in screen.get("page_link")]
    assert "**1** question to answer, under My work" in links


def test_welcome_shows_an_admin_the_house(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    links = [link.proto.label for link in open_screen(monkeypatch, store, "main", people["adm"]).get("page_link")]
    assert any("open accounts" in link for link in links)
    assert any(link.startswith("**Doctor:** Nothing was examined yet") for link in links)


def test_welcome_without_a_campaign_says_who_can_help(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    assert "An admin can add you to one" in words(open_screen(monkeypatch, store, "main", people["ann1"]))


def test_frame_keeps_the_campaign_across_visits_when_a_new_one_is_made(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    assert open_screen(monkeypatch, store, "main", people["ann1"]).sidebar.selectbox(key="campaign").value == campaign
    newer = builders.make_campaign(store, people, name="More music")
    visit = open_screen(monkeypatch, store, "main", people["ann1"])  # another browser: no session, no address
    assert visit.sidebar.selectbox(key="campaign").value == campaign
    visit.sidebar.selectbox(key="campaign").select(newer).run()
    assert open_screen(monkeypatch, store, "main", people["ann1"]).sidebar.selectbox(key="campaign").value == newer
    campaigns.update_settings(store, people["adm"], newer, archived=True)
    assert open_screen(monkeypatch, store, "main", people["ann1"]).sidebar.selectbox(key="campaign").value == campaign


def test_frame_keeps_the_chosen_campaign_in_session_and_address(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    other = builders.make_campaign(store, people, name="More music")
    screen = open_screen(monkeypatch, store, "main", people["ann1"])
    assert "Ann1 · annotator" in links(screen)
    screen.sidebar.selectbox(key="campaign").select(campaign).run()
    assert screen.query_params["campaign"] in (str(campaign), [str(campaign)])
    screen.sidebar.selectbox(key="campaign").select(other).run()
    assert screen.session_state["campaign"] == other


def test_frame_takes_the_campaign_from_the_address_but_no_foreign_one(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    builders.make_campaign(store, people, name="More music")
    for asked, chosen in (("999", campaign + 1), (str(campaign), campaign), ("999", campaign), ("x", campaign)):
        screen = open_screen(monkeypatch, store, "main", people["ann1"], query={"campaign": asked})
        assert screen.session_state["campaign"] == chosen


def test_frame_forgets_what_another_person_left(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    screen = open_screen(monkeypatch, store, "main", people["ann1"])
    screen.session_state["draft"] = "of ann1"
    screen.run()
    assert screen.session_state["draft"] == "of ann1"
    fresh = open_screen(monkeypatch, store, "main", people["ann2"])
    assert "Ann2 · annotator" in links(fresh)
    screen.run()
    assert "draft" not in screen.session_state and "Ann2 · annotator" in links(screen)


def test_shown_errors_shows_ours_and_lets_bugs_through(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for kind in ("warning", "error", "code"):
        monkeypatch.setattr(shell.st, kind, lambda text, kind=kind, **_: said.append(f"{kind}: {text}"))
    for error in (NotAllowed("no"), Conflict("moved"), BadInput("bad file", tuple(f"line {n}" for n in range(60)))):
        with shell.shown_errors():
            raise error
    assert said[:3] == ["warning: no", "error: moved", "error: bad file"]
    assert said[3].endswith("… and 10 more")
    with pytest.raises(ZeroDivisionError), shell.shown_errors():
        _ = 1 / 0


def test_page_list_gives_each_role_its_screens() -> None:
    seen = {
        role: {screen.file for section in SECTIONS.values() for screen in section if role in screen.roles}
        for role in EVERYONE
    }
    common = {"welcome", "account", "gazetteer", "data"}
    assert seen["annotator"] == common | {"annotate", "check", "my_work"}
    overseen = {"campaign", "queue", "corpus", "coverage", "overlap"}
    overseen |= {"adaptation", "compare", "errors", "studies", "encoders"}
    kept = common | overseen | {"domains", "new_campaign", "campaigns", "audit"}
    assert seen["expert"] == seen["annotator"] | overseen | {"adjudicate", "label_review"}
    assert seen["researcher"] == kept
    assert seen["admin"] == seen["researcher"] | {"people", "doctor"}


@pytest.mark.parametrize(
    ("role", "rooms"),
    [
        ("annotator", ["Start", "Annotate", "Check", "My work", "Sentences", "Gazetteer"]),
        (
            "expert",
            [
                "Start",
                "Annotate",
                "Check",
                "Adjudicate",
                "Label review",
                "My work",
                OVERSEEN[0],
                "Sentences",
                *OVERSEEN[1:],
            ],
        ),
        ("researcher", ["Start", OVERSEEN[0], "Sentences", "Domains", "Campaigns", *OVERSEEN[1:], "Audit trail"]),
        (
            "admin",
            [
                "Start",
                OVERSEEN[0],
                "Sentences",
                "Domains",
                "Campaigns",
                *OVERSEEN[1:],
                "People",
                "Audit trail",
                "Doctor",
            ],
        ),
    ],
)
def test_sidebar_has_a_link_for_each_room_and_the_account_behind_the_name(
    monkeypatch: pytest.MonkeyPatch, store: Store, role: str, rooms: list[str]
) -> None:
    screen = open_screen(monkeypatch, store, "main", builders.make_person(store, "someone", role))
    assert not screen.exception, screen.exception
    assert links(screen)[:-1] == rooms and links(screen)[-1].endswith(role)
    assert screen.sidebar.get("page_link")[-1].proto.page == "account"


def test_address_of_a_campaign_that_is_not_theirs_says_so_until_another_is_chosen(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    screen = open_screen(monkeypatch, store, "main", people["ann1"], query={"campaign": "99"})
    assert "Campaign 99 is not open to you" in words(screen)
    assert "Campaign 99 is not open to you" in words(screen.run())
    assert "not open to you" not in words(
        open_screen(monkeypatch, store, "main", people["ann1"], query={"campaign": str(campaign)})
    )


def test_closed_page_says_for_whom_it_is_and_whom_to_ask(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    monkeypatch.setattr(shell, "store", lambda: store)

    def page(actor: object) -> None:
        from pages import shell

        shell.header("Overview", "")
        shell.why_closed(actor, "Overview", ("expert", "researcher", "admin"))

    shown = words(part(page, people["ann1"]).run())
    assert "Overview is for experts, researchers and admins; you are signed in as annotator" in shown
    assert "To get another role, ask Adm." in shown


def test_adjudicate_shows_every_expert_the_open_questions_and_closes_them(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        builders.Tab(store, people[name], campaign, stage).submit_all()
    task = builders.Tab(store, people["eva"], campaign, "adjudicate").items(1)[0]["task"]
    adjudication.ask(store, people["eva"], task, "A stage name?")
    other = builders.make_person(store, "max", "expert")
    campaigns.add_members(store, people["adm"], campaign, [other.id])
    assert "You asked both annotators: A stage name?" in words(
        open_screen(monkeypatch, store, "adjudicate", people["eva"], campaign=campaign)
    )
    screen = open_screen(monkeypatch, store, "adjudicate", other, campaign=campaign)
    assert "Eva asked both annotators: A stage name?" in words(screen)
    assert "asked both" not in words(press(screen, "Close without more answers"))
    assert adjudication.open_questions(store, other, campaign) == ()


def test_token_is_made_shown_once_and_revoked(monkeypatch: pytest.MonkeyPatch, store: Store, people: People) -> None:
    screen = open_screen(monkeypatch, store, "account", people["ann1"])
    next(field for field in screen.text_input if field.label == "Name of the token").set_value("<b>note</b>book")
    shown = words(press(screen, "Make a token"))
    assert "crossner_" in shown and "not shown again" in shown
    (made,) = tokens.list_tokens(store, people["ann1"])
    assert (made.name, made.scope, made.state) == ("<b>note</b>book", "read", "valid")
    assert "crossner_" not in words(open_screen(monkeypatch, store, "account", people["ann1"]))
    press(screen, "Revoke it")
    assert tokens.list_tokens(store, people["ann1"])[0].state == "revoked"


ISSUER = "https://login.example"


def knock(store: Store, name: str, first_sign_in: str = "wait") -> None:
    """Sign in with the provider for the first time."""
    settings = ProviderSettings(ISSUER, "workbench", "https://bench.example", first_sign_in=first_sign_in)
    arrival = Arrival(ISSUER, f"subject of {name}", name, f"*{name.title()}* <b>")
    if first_sign_in != "wait":
        identities.sign_in_by_provider(store, arrival, settings, hours=1)
        return
    with pytest.raises(NotAllowed, match="let you in"):
        identities.sign_in_by_provider(store, arrival, settings, hours=1)


def test_people_lets_in_links_and_refuses_those_who_wait(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = builders.make_people(store)
    for name in ("pat", "quin", "ann1"):
        knock(store, name)
    screen = open_screen(monkeypatch, store, "people", people["adm"])
    assert list(screen.dataframe[0].value["State"]).count("waits to be let in") == 3
    choices = screen.selectbox(key="people:waiting").options
    assert choices[0].startswith("pat · *Pat* <b> · pat (subject of pat)") and len(choices) == 3
    by_name = {person.name: person for person in accounts.list_people(store, people["adm"])}
    screen.selectbox(key=f"people:let_in:{by_name['pat'].id}").set_value("expert")
    screen = press(screen, "Let in")
    assert "is let in as expert" in words(screen)
    screen.selectbox(key="people:waiting").set_value(by_name["ann1-2"].id).run()
    screen.selectbox(key=f"people:link:{by_name['ann1-2'].id}").set_value(people["ann1"].id)
    screen = press(screen.run(), "Link to the account")
    assert "now signs in to the account ann1" in words(screen)
    screen = press(screen, "Refuse")
    now = {person.name: person for person in accounts.list_people(store, people["adm"])}
    assert (now["pat"].active, now["pat"].role, now["quin"].active, "ann1-2" in now) == (True, "expert", False, False)
    assert not any(view.waits_since for view in identities.list_identities(store, people["adm"]))
    assert "Waiting to be let in" not in words(screen)


def test_account_without_a_password_offers_no_form_for_one(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    knock(store, "pat", "annotator")
    admin = builders.make_person(store, "adm", "admin")
    person = next(each for each in accounts.list_people(store, admin) if each.name == "pat")
    pat = Actor(person.id, person.name, person.display_name, person.role)
    screen = open_screen(monkeypatch, store, "account", pat)
    assert "has no password" in words(screen) and f"pat (subject of pat) at {ISSUER}" in words(screen)
    assert next(button for button in screen.button if button.label == "Unlink").disabled
    accounts.set_password(store, admin, pat.id, "a long pass phrase")
    screen = press(open_screen(monkeypatch, store, "account", pat), "Unlink")
    assert "no longer opens your account" in words(screen)
    assert identities.list_identities(store, admin) == ()
