"""People at their screens: each has a browser of their own, and finds things by role and visible text alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, TimeoutError

PATIENCE_MS = 60_000
ONCE_MORE_MS = (2_000, 4_000, 8_000)
NOTICED_MS = 200
DRAWN = '[data-testid="stApp"][data-test-script-state="notRunning"]'
SLIP_MS = 350  # a second Enter sooner than this counts as a slip


@dataclass(frozen=True)
class Person:
    """Somebody who is signed in, and the page before them."""

    name: str
    page: Any

    @classmethod
    def at(cls, browser: Any, base: str, name: str, password: str) -> Person:
        """Sign in with a browser of one's own."""
        context = browser.new_context(base_url=base, viewport={"width": 1280, "height": 1000})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Good to see you").wait_for()
        return cls(name, page)

    def opens(self, title: str, room: str = "") -> None:
        """Follow the sidebar's link to a page, or to its room and from there to the page."""
        for link in filter(None, (room, title)):
            self.page.get_by_role("link", name=link, exact=True).first.click()
            self.rests()
        self.page.get_by_role("heading", name=title, exact=True).wait_for()
        self.rests()

    def rests(self) -> None:
        """Wait until the page has answered what was done last: it is drawn anew, and for a moment twice."""
        self.page.wait_for_timeout(NOTICED_MS)
        self.page.locator(DRAWN).wait_for()

    def reads(self, text: str, patience_ms: int = PATIENCE_MS) -> None:
        """Wait until a text is on the screen."""
        self.page.get_by_text(text).first.wait_for(timeout=patience_ms)

    def presses(self, button: str) -> None:
        """Click a button; behind its words it may show its key."""
        self.page.get_by_role("button", name=re.compile(rf"^{re.escape(button)}( Shortcut .+| \S)?$")).click()
        self.rests()

    def turns_to(self, view: str) -> None:
        """Choose one of the views of a page."""
        self.page.get_by_role("radio", name=view, exact=True).click()
        self.rests()

    def ticks(self, words: str) -> None:
        """Click a check box or the title of a folded section."""
        self.page.get_by_text(words).first.click()
        self.rests()

    def fills(self, label: str, value: str) -> None:
        field = self.page.get_by_label(label, exact=True)
        field.fill(value)
        field.press("Tab")
        self.rests()

    def chooses(self, label: str, option: str) -> None:
        """Choose from a select box; `option` is how the choice begins."""
        box = self.page.get_by_role("combobox", name=re.compile(rf"(^|\. ){re.escape(label)}")).first
        entry = self.page.get_by_role("option", name=re.compile(rf"^{re.escape(option)}")).first
        choose(self.page, box, entry)
        self.rests()

    def uploads(self, *files: Path) -> None:
        with self.page.expect_file_chooser() as choosing:
            self.page.get_by_role("button", name="Upload", exact=True).click()
        choosing.value.set_files([str(path) for path in files])


def choose(page: Page, box: Locator, entry: Locator) -> None:
    """Open a select box and click an entry of its list."""
    for patience in (*ONCE_MORE_MS, PATIENCE_MS):
        box.click()
        try:
            return entry.click(timeout=patience)
        except TimeoutError:  # a page that was drawn anew has closed the list
            page.keyboard.press("Escape")
    raise AssertionError(f"{box} offers no {entry}")


class House(dict[str, Person]):
    """The people of a workbench by name; each signs in when first asked for."""

    def __init__(self, browser: Any, base: str, password: str) -> None:
        super().__init__()
        self._sign_in = partial(Person.at, browser, base, password=password)

    def __missing__(self, name: str) -> Person:
        self[name] = self._sign_in(name)
        return self[name]


@dataclass(frozen=True)
class Editor:
    """The span editor before a person: the sentence, what is marked in it, and the keys that its chips show."""

    page: Any

    @property
    def _sentence(self) -> Any:
        return self.page.get_by_role("listbox", name=re.compile("^Sentence"))

    def wait(self) -> None:
        self._sentence.get_by_role("option").first.wait_for()

    @property
    def words(self) -> list[str]:
        """The tokens of the sentence."""
        return [label.split(", ")[0] for label in self._labels()]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def _labels(self) -> list[str]:
        options = self._sentence.get_by_role("option")
        return [str(label) for label in options.evaluate_all("nodes => nodes.map(node => node.ariaLabel)")]

    def place_of(self, name: str) -> range:
        """Where a name stands, in tokens."""
        words, wanted = self.words, name.split()
        starts = (i for i in range(len(words)) if words[i : i + len(wanted)] == wanted)
        start = next(starts)
        return range(start, start + len(wanted))

    def marks(self, name: str, kind: str) -> None:
        """Select a name and press the key that the type's chip shows."""
        place = self.place_of(name)
        self._click(place[0])
        if len(place) > 1:
            self._click(place[-1], modifiers=["Shift"])
        chips = self.page.get_by_role("group", name="Entity types")
        chip = chips.get_by_role("button", name=re.compile(rf"\b{kind}$"))
        self.page.keyboard.press(str(chip.inner_text()).split()[0])

    def refuses_suggestions_beside(self, names: set[str]) -> None:
        """Remove each suggestion that is for none of these names."""
        own = {token for name in names for token in self.place_of(name)}
        while stray := [i for i, label in enumerate(self._labels()) if ", suggested " in label and i not in own]:
            self._click(stray[0])
            self.page.keyboard.press("Backspace")

    def _click(self, token: int, **how: Any) -> None:
        self._sentence.get_by_role("option").nth(token).click(**how)

    def confirms(self, most: int = 9) -> None:
        """Press Space on each span that the check asks to confirm, as the line below the sentence says."""
        asked = self.page.get_by_text(re.compile(r"to confirm \(\d+\)"))
        for _ in range(most):
            if not asked.count():
                return
            self.page.keyboard.press("Space")

    def counts(self) -> int:
        """How many are done, as the counter above the sentence has it."""
        return int(re.findall(r"\d+", self.page.get_by_text(re.compile(r"^\d+ done, \d+ left$")).inner_text())[0])

    def sends(self) -> None:
        """Press Enter once there is a sentence, and wait until it is counted and saved."""
        self.wait()
        before = self.counts()
        self.page.wait_for_timeout(SLIP_MS)
        self.page.keyboard.press("Enter")
        self.page.get_by_text(re.compile(rf"^{before + 1} done, ")).wait_for()
        self.page.get_by_text("Saved", exact=True).wait_for()
