"""Take the pictures of docs/screens.md: one a screen, from a real server on the demo.

    python -m docs.take_screens [--home FOLDER] [--experiments FOLDER] [--data FOLDER] [--only NAME …]

Fills a store with the demo, starts the web app and a worker on it, waits for the first points of the curve, signs in
as each demo person with a headless browser and writes `docs/screens/NAME.png`. With `--home` the folder is kept, and
a second call goes on from what lies there. `--experiments` is a folder of results whose studies are shown, as
`python -m crossner_core.experiments … --out FOLDER` leaves it, and `--data` the folder of their corpora.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from crossner_core.acquisition.selecting import RECOMMENDED
from db.engine import Store
from db.migrate import migrate
from tests.support.paths import ROOT
from tests.support.serving import browser_page, browser_sign_in, serve, worker_process
from workbench.accounts import accounts
from workbench.accounts.passwords import random_password
from workbench.campaigns import campaigns
from workbench.demo import seed, wiki
from workbench.doctor import examining
from workbench.jobs import queue
from workbench.labelling import label_review
from workbench.runs import adaptation, encoders, rounds, simulations
from workbench.settings import Settings, open_store

FOLDER = Path(__file__).parent / "screens"
MOST_BYTES = 150_000
ENCODER = "dapt-music"
_EDITOR = "[role=listbox] [role=option]"
_DRAWN = """() => !document.querySelector('[data-testid="stSkeleton"]')
  && [...document.querySelectorAll('[data-testid="stDataFrame"]')].every(
    (table) => !table.checkVisibility() || (table.querySelector("canvas") && table.offsetWidth > 100))"""
_PLOT = ".js-plotly-plot .scatterlayer .point"


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: who looks at which screen, how large (CSS pixels), what to click, wait for and press first."""

    name: str
    person: str
    path: str
    height: int = 800
    width: int = 1280
    dark: bool = False
    view: str = ""
    wait: str = ""
    keys: str = ""
    choose: tuple[tuple[str, str], ...] = ()
    """Select boxes by label, with the option to choose in each."""
    opened: str = ""
    """Beginning of the title of a section to open."""


SHOTS = (
    Shot("sign_in", "", "/auth/login", height=520),
    Shot("welcome", "ann", "/", height=520),
    Shot("annotate", "ann", "/annotate", height=520, wait=_EDITOR),
    Shot("annotate_keys", "ann", "/annotate", height=670, wait=_EDITOR, keys="?"),
    Shot("annotate_dark", "ann", "/annotate", height=520, dark=True, wait=_EDITOR),
    Shot("annotate_narrow", "ann", "/annotate", width=360, height=780, wait=_EDITOR),
    Shot("check", "ben", "/check", height=520, wait=_EDITOR),
    Shot("adjudicate", "eva", "/adjudicate", height=900, wait=_EDITOR),
    Shot("label_review", "eva", "/label_review", height=760),
    Shot("my_work", "ben", "/my_work"),
    Shot("campaign", "eva", "/campaign", height=660),
    Shot("campaign_shares", "eva", "/campaign", height=620, view="Comparison with the paper"),
    Shot("campaign_agreement", "eva", "/campaign", height=520, view="Agreement"),
    Shot("campaign_suggestions", "eva", "/campaign", view="Suggestions"),
    Shot("campaign_effort", "eva", "/campaign", height=520, view="Effort"),
    Shot("queue", "rosa", "/queue", height=760),
    Shot("queue_rounds", "rosa", "/queue", height=480, view="Rounds"),
    Shot("queue_rules", "rosa", "/queue", height=580, view="Rules"),
    Shot("queue_saved", "rosa", "/queue", height=1240, view="Savings", wait=_PLOT),
    Shot("data", "rosa", "/data"),
    Shot("domains", "rosa", "/domains"),
    Shot("new_campaign", "rosa", "/new_campaign", height=560),
    Shot("corpus", "rosa", "/corpus", wait=".rows summary"),
    Shot("corpus_sample", "rosa", "/corpus", height=900, view="Sample into a campaign", wait=".rows summary"),
    Shot("gazetteer", "rosa", "/gazetteer", height=760, wait=".rows summary"),
    Shot("coverage", "rosa", "/coverage", height=900, view="The campaign, pre-annotated again"),
    Shot("overlap", "rosa", "/overlap", height=760),
    Shot("adaptation", "rosa", "/adaptation", height=800, wait=_PLOT),
    Shot("adaptation_types", "rosa", "/adaptation", height=1500, view="By type"),
    Shot("adaptation_growth", "rosa", "/adaptation", height=1560, view="As gold grows"),
    Shot("adaptation_calibration", "rosa", "/adaptation", height=960, view="Calibration"),
    Shot("adaptation_train", "rosa", "/adaptation", height=900, view="Train"),
    Shot(
        "adaptation_recipe",
        "rosa",
        "/adaptation",
        height=1100,
        view="Train",
        choose=(("Architecture", "LANER"), ("Setting", "Pre-train")),
        opened="LANER options",
    ),
    Shot("adaptation_runs", "rosa", "/adaptation", height=640, view="Runs"),
    Shot("compare", "rosa", "/compare", height=1100),
    Shot("errors", "rosa", "/errors", height=900),
    Shot("encoders", "rosa", "/encoders", height=1010, wait=_PLOT),
    Shot("encoders_pretrain", "rosa", "/encoders", height=680, view="Pre-train"),
    Shot("studies", "rosa", "/studies", height=1300, wait=".study table"),
    Shot("studies_run", "rosa", "/studies", height=860, view="Run"),
    Shot("people", "ada", "/people", height=600),
    Shot("audit", "ada", "/audit"),
    Shot("doctor", "ada", "/doctor", height=1060),
    Shot("campaigns", "ada", "/campaigns"),
    Shot("account", "ann", "/account", height=660),
)


def take(home: Path, shots: Sequence[Shot], *, runs: int, seconds: float, data: Path | None = None) -> None:
    """Take the pictures; raise AssertionError when a run of the demo fails, or `runs` are not done in time."""
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'workbench.sqlite3'}")
    store = open_store(settings)
    migrate(store)
    list(seed.seed_if_empty(store))
    list(wiki.make_if_absent(settings))
    admin = accounts.operator(store)
    passwords = {person.name: random_password() for person in accounts.list_people(store, admin)}
    for person in accounts.list_people(store, admin):
        accounts.set_password(store, admin, person.id, passwords[person.name])
    campaign = next(one.id for one in campaigns.list_campaigns(store, admin) if one.name.startswith("Music"))
    _order_encoder(store)
    with serve(home, environment={"CROSSNER_DATA": str(data.resolve())} if data else {}) as base, worker_process(home):
        _wait_for_encoder(store, seconds)
        _wait_for_runs(store, campaign, runs, seconds)
        _wait_for_turn(store, campaign, seconds)
        _look_again(store, campaign, seconds)
        _play(store, campaign, seconds)
        examining.examine(store, admin)
        for shot in shots:
            picture = _picture(base, shot, passwords.get(shot.person, ""), campaign)
            target = FOLDER / f"{shot.name}.png"
            target.write_bytes(picture)
            print(f"{target.relative_to(ROOT)}: {len(picture):,} bytes", flush=True)
    store.close()


def _wait_for_turn(store: Store, campaign: int, seconds: float) -> None:
    """Let a strategy order the campaign's queue once, with the model of its first runs."""
    admin = accounts.operator(store)
    if not rounds.list_rounds(store, admin, campaign):
        rounds.change_round_settings(store, admin, campaign, strategy=RECOMMENDED, retrain_every=25)
        rounds.order_now(store, admin, campaign)
    end = time.monotonic() + seconds
    while (newest := rounds.list_rounds(store, admin, campaign)[0]).state in ("queued", "running"):
        if time.monotonic() > end:
            raise AssertionError(f"Round {newest.id} is {newest.state} after {seconds:.0f} s.")
        time.sleep(1)
    if newest.state != "done":
        raise AssertionError(f"Round {newest.id} {newest.state}: {' '.join(newest.notes)}")


def _look_again(store: Store, campaign: int, seconds: float) -> None:
    """Let the worker look at the campaign's gold again, once."""
    admin = accounts.operator(store)
    if queue.newest_job(store, admin, "second_look", campaign) is None:
        label_review.look_again(store, admin, campaign)
    end = time.monotonic() + seconds
    while (job := queue.newest_job(store, admin, "second_look", campaign)) and job.state in ("queued", "running"):
        if time.monotonic() > end:
            raise AssertionError(f"The label review is {job.state} after {seconds:.0f} s.")
        time.sleep(1)
    if job is None or job.state != "done":
        raise AssertionError(f"The label review {job and job.state}: {job and job.error}")


def _play(store: Store, campaign: int, seconds: float) -> None:
    """Let the worker play a strategy on the campaign's gold, once."""
    admin = accounts.operator(store)
    if simulations.newest_simulations(store, admin, campaign) is None:
        usual = simulations.usual_strategy(store, admin, campaign)
        simulations.start_simulations(store, admin, campaign, [usual], seeds=simulations.drawn_seeds(2))
    end = time.monotonic() + seconds
    while (found := simulations.newest_simulations(store, admin, campaign)) and found.done < found.total:
        assert found.job.state in ("queued", "running"), f"{found.job.state}: {found.job.error}"
        assert time.monotonic() < end, f"{found.done} of {found.total} campaigns were played after {seconds:.0f} s."
        time.sleep(1)


def _wait_for_runs(store: Store, campaign: int, runs: int, seconds: float) -> None:
    admin, deadline, done = accounts.operator(store), time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        found = adaptation.list_runs(store, admin, campaign)
        failed = [f"run {run.id}: {run.error}" for run in found if run.state == "failed"]
        assert not failed, failed
        done = sum(run.state == "done" for run in found)
        if done >= runs:
            return
        time.sleep(1)
    raise AssertionError(f"{done} of {runs} runs were done after {seconds:g} s.")


def _order_encoder(store: Store) -> None:
    """Queue a short DAPT on the demo's corpus, unless there is one from a call before."""
    admin = accounts.operator(store)
    if len(encoders.list_encoders(store, admin)) > 1 or encoders.list_pretrainings(store, admin):
        return
    rosa = next(one for one in accounts.list_people(store, admin) if one.name == "rosa")
    asked = {"epochs": 6, "batch_size": 8, "block_size": 64, "head_first_steps": 20}
    actor = accounts.current(store, rosa.id)
    assert actor is not None
    encoders.start_on_text(
        store, actor, kind="dapt", name=ENCODER, options=asked, corpus=wiki.NAME, level="integrated", domain=wiki.DOMAIN
    )


def _wait_for_encoder(store: Store, seconds: float) -> None:
    admin, deadline = accounts.operator(store), time.monotonic() + seconds
    while waiting := encoders.list_pretrainings(store, admin):
        failed = [f"{one.name}: {one.job.error}" for one in waiting if one.job.state == "failed"]
        assert not failed, failed
        assert time.monotonic() < deadline, f"{ENCODER} was not pre-trained after {seconds:g} s."
        time.sleep(1)


def _picture(base: str, shot: Shot, password: str, campaign: int) -> bytes:
    size = {"width": shot.width, "height": shot.height}
    with browser_page(base, viewport=size, color_scheme="dark" if shot.dark else "light") as page:
        if shot.person:
            browser_sign_in(page, shot.person, password, path=f"{shot.path}?campaign={campaign}")
        else:
            page.goto(shot.path)
        if shot.view:
            page.get_by_test_id("stButtonGroup").get_by_text(shot.view, exact=True).click()
        for label, option in shot.choose:
            page.get_by_role("combobox", name=label).first.click()
            page.get_by_role("option", name=option).first.click()
            page.wait_for_selector('[data-test-script-state="notRunning"]', timeout=30_000)
        if shot.opened:
            page.get_by_test_id("stExpander").get_by_text(shot.opened).first.click()
        _settle(page, shot)
        return _smaller(page.screenshot())


def _settle(page: Any, shot: Shot) -> None:
    """Wait until the screen is drawn and nothing on it moves any more."""
    if shot.wait:
        page.wait_for_selector(shot.wait, timeout=30_000)
    if shot.keys:
        page.keyboard.press(shot.keys)
    if shot.person:
        time.sleep(1.0)
        page.wait_for_selector('[data-test-script-state="notRunning"]', timeout=30_000)
        page.wait_for_function(_DRAWN, timeout=30_000)
    page.mouse.move(shot.width - 1, shot.height - 1)
    time.sleep(1.5)


def _smaller(png: bytes) -> bytes:
    """Reduce a picture to a palette if it is too large; raise AssertionError when it stays so."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for one in (image, image.quantize(256, dither=Image.Dither.NONE)):
        small = io.BytesIO()
        one.save(small, "PNG", optimize=True)
        if small.tell() < MOST_BYTES:
            return small.getvalue()
    raise AssertionError(f"{small.tell():,} bytes; make the picture less high.")


def main() -> None:
    """Read the options and take the pictures."""
    names = [shot.name for shot in SHOTS]
    parser = argparse.ArgumentParser(description="Take the pictures of docs/screens.md.")
    parser.add_argument("--home", type=Path, help="folder for the store; default is a temporary one")
    parser.add_argument("--experiments", type=Path, help="results of studies to show; default is none")
    parser.add_argument("--data", type=Path, help="folder of corpora that a study can be run on; default is none")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=6, help="runs of the demo's curve to wait for")
    parser.add_argument("--seconds", type=float, default=900, help="how long to wait for them")
    options = parser.parse_args()
    chosen = [shot for shot in SHOTS if not options.only or shot.name in options.only]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        if options.experiments:
            results = options.experiments / "studies"
            shutil.copytree(results, home / "experiments" / "studies", dirs_exist_ok=True)
        take(home, chosen, runs=options.runs, seconds=options.seconds, data=options.data)


if __name__ == "__main__":
    main()
