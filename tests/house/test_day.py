"""A day in a browser: a campaign is made, labelled, checked, adjudicated, reviewed, trained on, mended, and goes on.

Nobody is told anything but what is on the screen; each step is a function of the people who do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crossner_core.formats import write
from db.engine import Store
from db.migrate import migrate
from tests.support.campaigns import in_music
from tests.support.editor.people import SLIP_MS, Editor, House, Person
from tests.support.live import chromium
from tests.support.serving import serve, worker_process
from tests.support.training_builders import own_sentences, save_encoder
from workbench.accounts import accounts
from workbench.accounts.actors import Actor

__all__ = ["chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(420)]

PASSWORD = "a long pass phrase of our own"
PEOPLE = {"ada": "admin", "rosa": "researcher", "ann": "annotator", "ben": "annotator", "eva": "expert"}
CAMPAIGN = "Bands of the north"
WRONG = "In Oslo , Milo Fenn left Fjord Choir ."
TO_LABEL = (
    "Ada Brook sang with Marble in Oslo .",
    "Marble toured Oslo last year .",
    "Ines was born in Oslo .",
    WRONG,
)
LATER = ("Fjord Choir toured Leeds last year .", "Otto Vale Junior was born in Porto .")
KNOWN = {
    "Ada Brook": "musical artist",
    "Milo Fenn": "musical artist",
    "Ines": "musical artist",
    "Marble": "band",
    "Fjord Choir": "band",
    "Oslo": "location",
}
"""What annotators know of the names they read."""
SLIPS = {("Ines was born in Oslo .", "Oslo"): "band", (WRONG, "Fjord Choir"): "location"}
"""What annotator 1 gets wrong, and annotator 2 does not see."""
MINUTES_MS = 120_000
ENCODER = "tiny"


@pytest.fixture
def day(tmp_path: Path, chromium: Any) -> Iterator[tuple[House, Path]]:
    """Everybody at their screen, before an empty workbench with a worker, and the folder with the day's files."""
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    migrate(store)
    admin: Actor | None = None
    for name, role in PEOPLE.items():
        made = accounts.create_user(store, admin, name=name, display_name=name.title(), password=PASSWORD, role=role)
        admin = admin or made
    store.close()
    save_encoder(tmp_path / "encoders" / ENCODER)
    files = tmp_path / "files"
    files.mkdir()
    (files / "pool.txt").write_text("\n".join((*TO_LABEL, *LATER)) + "\n", encoding="utf-8")
    for split, offset in (("dev", 20), ("test", 28)):
        (files / f"{split}.jsonl").write_text(write(in_music(own_sentences(6, offset=offset)), "jsonl"))
    with ExitStack() as stack:
        base = stack.enter_context(serve(tmp_path))
        stack.enter_context(worker_process(tmp_path))
        people = House(chromium, base, PASSWORD)
        yield people, files
        for person in people.values():
            person.page.context.close()


def test_a_day_from_a_new_campaign_to_its_next_round(day: tuple[House, Path]) -> None:
    people, files = day
    make_the_campaign(people["ada"])
    bring_in_sentences(people["rosa"], files)
    label_the_first_sentences(people["ann"])
    check_them(people["ben"])
    adjudicate_them(people["eva"])
    review_the_gold_and_undo(people["eva"])
    train_a_run(people["rosa"])
    read_the_errors(people["rosa"])
    mend_an_error(people["eva"])
    start_the_next_round(people["rosa"])
    go_on(people["ann"])


def make_the_campaign(ada: Person) -> None:
    """The admin makes a campaign for everybody, without blind checks."""
    ada.opens("New campaign", room="Campaigns")
    ada.fills("Name of the campaign", CAMPAIGN)
    ada.chooses("Which domain", "Music")
    ada.presses("Next")
    ada.turns_to("Later")
    ada.presses("Next")
    ada.presses("Next")
    ada.fills("Blind share, %", "0")
    ada.presses("Make the campaign")
    ada.reads(f"The campaign {CAMPAIGN} is made.")


def bring_in_sentences(rosa: Person, files: Path) -> None:
    """The researcher imports a pool to annotate, and gold to choose and score models by."""
    rosa.opens("Sentences")
    for split, name, annotation, words in (
        ("pool", "pool.txt", "is left out", f"{len(TO_LABEL + LATER)} sentences imported"),
        ("dev", "dev.jsonl", "is gold", "6 sentences imported, 6 of them with gold"),
        ("test", "test.jsonl", "is gold", "6 sentences imported, 6 of them with gold"),
    ):
        rosa.turns_to("Import")
        rosa.chooses("Split", split)
        rosa.chooses("Annotation in the files", annotation)
        rosa.uploads(files / name)
        rosa.presses(f"Import into {CAMPAIGN}")
        rosa.reads(words)


def label_the_first_sentences(ann: Person) -> None:
    """Annotator 1 marks the names she reads, two of them wrongly."""
    ann.opens("Annotate")
    editor = Editor(ann.page)
    editor.wait()
    for done in range(len(TO_LABEL)):
        text = editor.text
        assert (text, editor.counts()) == (TO_LABEL[done], done)
        names = {name for name in KNOWN if f" {name} " in f" {text} "}
        editor.refuses_suggestions_beside(names)
        for name in names:
            editor.marks(name, SLIPS.get((text, name), KNOWN[name]))
        editor.sends()


def check_them(ben: Person) -> None:
    """Annotator 2 takes one band for an album, and confirms the rest."""
    ben.opens("Check")
    editor = Editor(ben.page)
    editor.wait()
    for done in range(len(TO_LABEL)):
        assert editor.counts() == done
        if editor.text == TO_LABEL[0]:
            editor.marks("Marble", "album")
        editor.confirms()
        editor.sends()


def adjudicate_them(eva: Person) -> None:
    """The expert decides what is in dispute, and leaves what both agree on."""
    eva.opens("Adjudicate")
    editor = Editor(eva.page)
    editor.wait()
    for _ in TO_LABEL:
        if editor.text == TO_LABEL[0]:
            eva.reads("2 of 3 decided")
            eva.page.keyboard.press("1")
            eva.reads("3 of 3 decided")
        editor.sends()


def review_the_gold_and_undo(eva: Person) -> None:
    """A review finds one of the slips; the expert changes it, takes that back, and changes it again."""
    eva.opens("Label review")
    eva.presses(f"Review {len(TO_LABEL) + 12} gold sentences")
    eva.page.get_by_role("radio", name="Inconsistent types").click(timeout=MINUTES_MS)
    eva.reads("“Oslo” is location 7 ×, band 1 × in the gold.")
    for button, words in (("Change", "1 of 1 decided"), ("Undo", "0 of 1 decided"), ("Change", "1 of 1 decided")):
        eva.page.wait_for_timeout(SLIP_MS)
        eva.presses(button)
        eva.reads(words)
    eva.reads("Decided · 1")


def train_a_run(rosa: Person) -> None:
    """The researcher freezes the gold and trains on it."""
    rosa.opens("Adaptation", room="Adaptation and encoders")
    rosa.turns_to("Train")
    rosa.presses(f"Freeze the gold now ({len(TO_LABEL) + 12} sentences)")
    rosa.reads("holds 16 sentences")
    rosa.chooses("Encoder", ENCODER)
    rosa.fills("Max epochs", "2")
    rosa.presses("Start one run")
    rosa.reads("Run 1 is queued")
    rosa.turns_to("Runs")
    rosa.page.get_by_text("— done").wait_for(timeout=MINUTES_MS)


def read_the_errors(rosa: Person) -> None:
    """The errors of the run on dev, then what gold has against the suggestions people were shown."""
    rosa.opens("Errors", room="Compare and errors")
    rosa.reads("6 dev sentences")
    rosa.chooses("Predictions of", "Suggestions")
    rosa.chooses("Sentences", "pool")
    rosa.fills("Text or id contains", "Fjord Choir")
    gold = rosa.page.get_by_role("mark").filter(has_text="Fjord Choir")
    assert "location" in gold.first.inner_text()


def mend_an_error(eva: Person) -> None:
    """The expert takes back the sentence she sent last, gives the band its type, and sends it again."""
    eva.opens("Adjudicate")
    eva.page.get_by_role("button", name="Previous").click()
    editor = Editor(eva.page)
    editor.wait()
    assert editor.text == WRONG
    editor.marks("Fjord Choir", "band")
    editor.sends()


def start_the_next_round(rosa: Person) -> None:
    """Rules that train on new gold: the worker takes the gold there is, trains, and orders the queue."""
    rosa.opens("Queue", room="Overview and queue")
    rosa.turns_to("Rules")
    rosa.chooses("Strategy", "recommended")
    rosa.fills("Retrain after n new gold sentences", "1")
    rosa.ticks("Recipe of those runs")
    rosa.ticks("Change the recipe")
    rosa.chooses("Encoder", ENCODER)
    rosa.fills("Max epochs", "2")
    rosa.presses("Save the rules")
    rosa.reads("The rules are saved.")
    rosa.turns_to("Next")
    rosa.reads("ordered by")
    rosa.reads("the next run after 1 more gold sentence", MINUTES_MS)


def go_on(ann: Person) -> None:
    """Annotator 1 finds her next sentence."""
    ann.opens("Annotate")
    editor = Editor(ann.page)
    editor.wait()
    assert editor.text in LATER
