"""Which strategy to trust, and what it saves: simulated campaigns on a campaign's own gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossner_core.acquisition.selecting import RECOMMENDED, WITHOUT_GAZETTEER, strategy
from crossner_core.errors import BadInput, InvalidConfig, NotFound
from crossner_core.evaluation.learning_curves import BASELINE, RoundPoint
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.training.recipe import Recipe
from db import campaign_rows, job_rows, layer_rows, simulation_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Job, SimulationRow
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.round_settings import on_less_gold, recipe_for
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.jobs.queue import JobView, view
from workbench.reports.annotator_costs import costs_in
from workbench.runs import rounds
from workbench.runs.source_corpora import settled

FIRST_SEED, SEEDS_APART = 555, 111
STEPS = 5
LEAST_POOL = 5 * STEPS
MOST_CAMPAIGNS = 60


@dataclass(frozen=True, slots=True)
class PlayView:
    """Simulated campaigns that were requested together: the job, and their settings.

    `done` of `total` are finished; `snapshot` names the gold; `annotators` took its sentences in turn.
    """

    job: JobView
    snapshot: str
    done: int
    total: int
    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    recipe: Mapping[str, Any]
    annotators: tuple[AnnotatorOptions, ...]
    priced_by: int | None
    """Number of sentences that the costs not given were fitted to, 0 for published ones; None for older plays."""
    gold_by_choice: Mapping[str, int] | None
    """Its gold sentences by what placed them in the queue, as `rounds.gold_by_choice`; None for older plays."""


@dataclass(frozen=True, slots=True)
class SimulationsView(PlayView):
    """A play with the measurements of its finished campaigns."""

    points: tuple[RoundPoint, ...]


def drawn_seeds(count: int) -> tuple[int, ...]:
    """Return `count` seeds: 555, 666, 777, …"""
    return tuple(FIRST_SEED + SEEDS_APART * number for number in range(count))


def start_simulations(
    store: Store,
    actor: Actor,
    campaign_id: int,
    strategies: Sequence[str],
    *,
    seeds: Sequence[int] = (),
    suggestions: bool = False,
    annotators: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Freeze the gold and queue simulated campaigns on it, random ones beside each strategy; return the job's id.

    Models are trained at four sizes, up to four fifths of the gold, with the recipe that the campaign's rounds have on
    so much gold; the share of a strategy's sentences that is random is that of the campaign's queue. Steps cost what
    they cost this campaign's annotators, or as published if there are too few sentences to fit. With `suggestions` the
    annotators of the strategies see what gazetteer, links and newest model suggest. Each of `annotators` overrides
    options (error rates, costs) for one of the annotators who take sentences in turn. Without `seeds` there are three.
    Raises BadInput if the gold is too small or has no test sentences, or if a strategy uses gazetteer and links but
    none of the gold was pre-annotated with them; Conflict while others are under way.
    """
    require(actor, *KEEPERS)
    texts = dict.fromkeys((BASELINE, *(strategy(text).text for text in strategies)))
    wanted = tuple(map(strategy, texts))
    drawn = tuple(dict.fromkeys(seeds)) or drawn_seeds(3)
    if len(wanted) < 2 or len(wanted) * len(drawn) > MOST_CAMPAIGNS:
        raise InvalidConfig(
            f"{len(wanted) - 1} strategies beside random × {len(drawn)} seeds; choose at least one, and "
            f"at most {MOST_CAMPAIGNS} campaigns in all."
        )
    with store.write() as session:
        campaign_rows.hold(session, campaign_id)
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        snapshot = snapshots.freeze_gold(session, actor, campaign)
        deaf = [asked.text for asked in wanted if asked.gazetteer]
        if deaf and not _have_names(session, campaign_id):
            raise BadInput(
                f"{deaf[0]!r} uses gazetteer and links, but no gold sentence was pre-annotated with them; pre-annotate "
                "before people begin, or leave out 'and gazetteer'."
            )
        own, seen = costs_in(session, campaign_id)
        annotator, *others = (own.differing(prices) for prices in annotators or ({},))
        options = SimulationOptions(at=_sizes(snapshot.counts), dev_sentences=snapshot.counts["dev"])
        payload = {"priced_by": seen, "gold_by_choice": dict(rounds.by_choice(session, campaign_id))}
        job_id, _ = queue.start(session, "simulation", payload, by=current, campaign_id=campaign_id)
        recipes = {chosen.text: _recipes(session, actor, campaign, chosen.text) for chosen in wanted}
        for seed in drawn:
            for chosen in wanted:
                shown = suggestions and chosen.text != BASELINE
                own_options = replace(
                    options, strategy=chosen.functions, self_training=chosen.self_training,
                    gazetteer_teaches=chosen.gazetteer, seed=seed,
                    random_share=0.0 if chosen.text == BASELINE else campaign.random_share,
                    suggestions=shown, suggestions_from=campaign.hint_below if shown else 0.0,
                )  # fmt: skip
                recipe, below = recipes[chosen.text]
                simulation = Simulation(
                    campaign.domain_name, own_options, recipe, annotator, tuple(others), below
                )  # fmt: skip
                simulation_rows.add(session, job_id=job_id, snapshot_id=snapshot.id, settings=simulation.to_dict())
        details = {"strategies": list(texts), "seeds": drawn}
        audit.record(session, current, "start_simulations", ("job", job_id), campaign_id, **details)
        return job_id


def _recipes(
    session: Session, actor: Actor, campaign: Campaign, text: str
) -> tuple[Recipe, tuple[tuple[int, Recipe], ...]]:
    """Return the recipe of a campaign's rounds by a strategy, and those they have on less gold; sources are frozen."""

    def frozen(recipe: Recipe) -> Recipe:
        return settled(session, actor, recipe, campaign_id=campaign.id)

    changes = campaign.turn_recipe
    return frozen(recipe_for(text, changes)), tuple((n, frozen(less)) for n, less in on_less_gold(text, changes))


def newest_simulations(
    store: Store, actor: Actor, campaign_id: int, *, with_points: bool = False
) -> SimulationsView | None:
    """Return the newest simulated campaigns on a campaign's gold; None before there were any.

    `with_points` asks for the newest with at least one finished campaign: new ones do not hide earlier results.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        newest = simulation_rows.newest_jobs(session, campaign_id, with_points=with_points)
        return _measured(newest[0], simulation_rows.of_job(session, newest[0].id)) if newest else None


def list_plays(store: Store, actor: Actor, campaign_id: int, *, limit: int = 100) -> tuple[PlayView, ...]:
    """Return all plays on a campaign's gold, newest first, whatever their outcome."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        jobs = simulation_rows.newest_jobs(session, campaign_id, limit=limit)
        rows = simulation_rows.told(session, [job.id for job in jobs])
        return tuple(PlayView(**_told(job, rows[job.id])) for job in jobs)


def get_play(store: Store, actor: Actor, campaign_id: int, job_id: int) -> SimulationsView:
    """Return one play with its points; raise NotFound for a job that simulated nothing on this campaign's gold."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        job, rows = job_rows.get(session, job_id), simulation_rows.of_job(session, job_id)
        if job is None or job.campaign_id != campaign_id or not rows:
            raise NotFound(f"Job {job_id} simulated nothing on this campaign's gold.")
        return _measured(job, rows)


def _measured(job: Job, rows: Sequence[SimulationRow]) -> SimulationsView:
    points = tuple(RoundPoint(**point) for row in rows for point in row.points or ())
    return SimulationsView(**_told(job, [(row, row.points is not None) for row in rows]), points=points)


def _told(job: Job, rows: Sequence[tuple[SimulationRow, bool]]) -> dict[str, Any]:
    """Return the fields of a PlayView."""
    simulations = [Simulation.from_dict(row.settings) for row, _ in rows]
    return {
        "job": view(job),
        "snapshot": snapshots.view(rows[0][0].snapshot).name,
        "done": sum(is_through for _, is_through in rows),
        "total": len(rows),
        "strategies": tuple(dict.fromkeys(simulation.options.label for simulation in simulations)),
        "seeds": tuple(dict.fromkeys(simulation.options.seed for simulation in simulations)),
        "recipe": simulations[0].recipe.to_dict(),
        "annotators": simulations[0].annotators,
        "priced_by": job.payload.get("priced_by"),
        "gold_by_choice": job.payload.get("gold_by_choice"),
    }


def usual_strategy(store: Store, actor: Actor, campaign_id: int) -> str:
    """Return the strategy to try first on a campaign's gold: the recommended one, if the gold was pre-annotated."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return RECOMMENDED if _have_names(session, campaign_id) else WITHOUT_GAZETTEER


def usual_annotator(store: Store, actor: Actor, campaign_id: int) -> AnnotatorOptions:
    """Return the default options of simulated annotators: steps cost what they cost in this campaign."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return costs_in(session, campaign_id)[0]


def _have_names(session: Session, campaign_id: int) -> bool:
    """Return whether gold sentences outside test were pre-annotated with gazetteer and links."""
    return layer_rows.count_preannotated_gold(session, campaign_id, splits=("pool", "dev")) > 0


def _sizes(counts: Mapping[str, int]) -> tuple[int, ...]:
    if not counts["test"]:
        raise BadInput(
            "There is no test gold, so nothing to measure a simulated campaign on; "
            "put some sentences into the test split and have them annotated."
        )
    pool = counts["pool"]
    if pool < LEAST_POOL:
        raise BadInput(
            f"{pool} sentences of the pool are gold; {LEAST_POOL} are needed to simulate a strategy on them."
        )
    return tuple(pool * step // STEPS for step in range(1, STEPS))
