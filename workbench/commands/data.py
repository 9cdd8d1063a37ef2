"""Commands that import and export sentences, and `workbench dataset`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossner_core.type_maps import load_type_map, type_map_ids
from workbench.commands import common
from workbench.commands.common import MaybeCampaign, MaybeDataset

if TYPE_CHECKING:
    from workbench.data.exchange import ImportOutcome

datasets = typer.Typer(help="Data sets: labelled corpora outside campaigns.", no_args_is_help=True)

Format = Annotated[
    str | None, typer.Option(help="Id of a format: plain, conll, jsonl, … Default: by suffix and content.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("import")(import_)
    app.command("export")(export)


def import_(
    files: Annotated[
        list[Path], typer.Argument(help="Files or folders; for a data set, one folder with train, dev and test files.")
    ],
    campaign: MaybeCampaign = None,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the new data set.")] = None,
    split: Annotated[str, typer.Option(help="pool, dev or test (train, dev or test of a data set).")] = "pool",
    format: Format = None,
    domain: Annotated[
        str | None, typer.Option(help="Domain of the data set, which defines the allowed entity types.")
    ] = None,
    annotation: Annotated[
        str, typer.Option(help="What the files' annotation becomes in a campaign: suggestions, first, gold or none.")
    ] = "suggestions",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid sentences and report each.")] = False,
    paragraphs: Annotated[
        bool, typer.Option("--paragraphs", help="Plain text: split paragraphs into sentences.")
    ] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Let an I- tag begin an entity, as in silver data.")
    ] = False,
    type_map: Annotated[
        str | None, typer.Option(help=f"Type map: {', '.join(type_map_ids())}, or a .toml file.", metavar="NAME|FILE")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: an option of the --format, such as unfit=leave_out; repeat."),
    ] = None,
    map_type: Annotated[
        list[str] | None,
        typer.Option(help="THEIRS=OURS: rename an entity type, overriding the type map; can be repeated."),
    ] = None,
) -> None:
    """Import sentences into a campaign, or labelled files as a data set; all files or none."""
    if (campaign is None) == (dataset is None):
        common.refuse("Name either a --campaign or a --dataset to import into.")
    options: dict[str, Any] = {"split": "paragraphs"} if paragraphs else {}
    options |= {"lenient": True} if lenient else {}
    if option:
        from crossner_core.formats.base import options_from_text

        options |= options_from_text(format or common.refuse("--option needs a --format."), dict(map(_pair, option)))
    options |= load_type_map(type_map).options if type_map else {}
    if map_type:
        options["type_map"] = {**options.get("type_map", {}), **dict(map(_pair, map_type))}
    if dataset is not None:
        _import_dataset(dataset, files, split, format, domain, skip_bad, options)
        return
    assert campaign is not None
    done = _import(
        common.find_campaign(campaign).id,
        [named for file in files for named in _named(file)],
        format=format or ("plain" if paragraphs else None),
        split=split,
        annotation=annotation,
        skip_bad=skip_bad,
        options=options,
    )
    _report(done.problems)
    for line in done.again:
        typer.echo(f"left out: {line}", err=True)
    what = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    came = {"with gold": done.gold, "annotated once": done.first, "with suggestions": done.suggestions}
    annotated = "; ".join(f"{count} {words}" for words, count in came.items() if count)
    typer.echo(
        f"{what}: {done.added} sentences added to {split}{f' ({annotated})' if annotated else ''}, {done.duplicates} "
        f"duplicates left out, {len(done.problems)} skipped. {done.note}".rstrip()
    )


def export(
    campaign: MaybeCampaign = None,
    dataset: MaybeDataset = None,
    layer: Annotated[
        str, typer.Option(help="gold, first, second, suggestions or sentences; all: a zip of everything.")
    ] = "gold",
    split: Annotated[str | None, typer.Option(help="Export only this split. Default: all.")] = None,
    format: Annotated[str, typer.Option(help="Id of a format: jsonl, conll, plain, …")] = "jsonl",
    besides: Annotated[
        list[str] | None,
        typer.Option(
            help="Another layer in the same file, with people and times, where the format has a place; can be repeated."
        ),
    ] = None,
    with_names: Annotated[
        bool,
        typer.Option(
            "--with-names",
            help="With --besides: people by their user names, which are personal data. Default: person-1, person-2, …",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Export a layer of a campaign, the whole campaign as a zip, or a split of a data set."""
    from workbench.data import archive, exchange
    from workbench.data import datasets as sets
    from workbench.data.packing import in_numbers, packed

    store, actor = common.PLACE.store, common.PLACE.actor
    if (campaign is None) == (dataset is None):
        common.refuse("Name either a --campaign or a --dataset to export.")
    if (besides or with_names) and (dataset is not None or layer == "all"):
        common.refuse("--besides and --with-names go with a layer of a campaign.")
    if dataset is not None:
        data = sets.export_dataset(store, actor, dataset, split or "train", format=format)
    elif layer == "all":
        data = archive.export_campaign(store, actor, common.find_campaign(str(campaign)).id)
    else:
        campaign_id = common.find_campaign(str(campaign)).id
        written = exchange.export_files(
            store, actor, campaign_id, layer, format=format, split=split, besides=besides or (), with_names=with_names
        )
        data = packed(written.files, format)
        if written.losses:
            typer.echo(f"{format} cannot hold {in_numbers(written.losses)}; they are left out.", err=True)
    common.write_out(data, output)


@datasets.command("list")
def list_() -> None:
    """List the data sets."""
    from workbench.data import datasets as sets

    rows = [
        (data.name, data.domain_name or "–", len(data.types), *(data.count(split) for split in sets.SPLITS), data.runs)
        for data in sets.list_datasets(common.PLACE.store, common.PLACE.actor)
    ]
    common.table(rows, ("name", "domain", "types", "train", "dev", "test", "runs"))


@datasets.command()
def delete(name: str) -> None:
    """Delete a data set that no run has used as its target or source."""
    from workbench.data import datasets as sets

    sets.delete_dataset(common.PLACE.store, common.PLACE.actor, name)
    typer.echo(f"{name}: deleted.")


def _import(campaign_id: int, files: Sequence[tuple[str | None, bytes | Path]], **reading: Any) -> ImportOutcome:
    """Import files; show progress where that takes long."""
    from workbench.data import exchange, staging

    store, actor = common.PLACE.store, common.PLACE.actor
    paths = [(name or data.name, data) for name, data in files if isinstance(data, Path) and data.is_file()]
    seconds = staging.seconds_for(staging.sizes_of(paths), reading["format"])
    if len(paths) < len(files) or seconds < staging.LONG:
        return exchange.import_files(store, actor, campaign_id, files, **reading)
    with typer.progressbar(length=1_000, label="Importing", file=sys.stderr) as bar:
        done = 0

        def on_progress(share: float, message: str) -> None:
            nonlocal done
            bar.label = message
            bar.update(int(1_000 * share) - done)
            done = int(1_000 * share)

        return staging.import_apart(store, actor, campaign_id, paths, on_progress=on_progress, **reading)


def _import_dataset(
    name: str,
    files: list[Path],
    split: str,
    format: str | None,
    domain: str | None,
    skip_bad: bool,
    options: dict[str, Any],
) -> None:
    from workbench.data import datasets as sets

    if len(files) != 1:
        common.refuse("For a data set give one folder with train, dev and test files, or one file with --split.")
    splits = _find_splits(files[0]) if files[0].is_dir() else {"train" if split == "pool" else split: files[0]}
    done = sets.import_dataset(
        common.PLACE.store,
        common.PLACE.actor,
        name=name,
        splits=splits,
        domain=domain,
        format=format,
        skip_bad=skip_bad,
        options=options,
    )
    _report(done.problems)
    parts = ", ".join(f"{part.split} {part.sentences} sentences, {part.entities} entities" for part in done.splits)
    typer.echo(f"Data set {done.name}: {parts}; types: {', '.join(done.types)}")


def _find_splits(folder: Path) -> dict[str, Path]:
    """Find the files of a data set as studies and trainings do, and report those that are ignored."""
    from crossner_core.experiments.corpora import data_files, split_files

    splits = {split: paths[0] for split, paths in split_files(folder).items()}
    if others := [path.name for path in data_files(folder) if path not in splits.values()]:
        typer.echo(f"Ignored: {', '.join(others)}.", err=True)
    return splits


def _named(file: Path) -> Iterable[tuple[str | None, bytes | Path]]:
    """Name a file, or a folder's files of a known suffix by their paths in it."""
    if str(file) == "-":
        return [("stdin", common.read_in(file))]
    if not file.is_dir():
        return [(None, file)]
    from crossner_core.formats.base import known_suffixes

    paths = [path for path in sorted(file.rglob("*")) if path.suffix.lower() in known_suffixes() and path.is_file()]
    if not paths:
        common.refuse(f"The folder {file} has no file of a known suffix: {', '.join(known_suffixes())}.")
    return [(path.relative_to(file).as_posix(), path) for path in paths]


def _report(problems: tuple[str, ...]) -> None:
    for problem in problems:
        typer.echo(f"skipped {problem}", err=True)


def _pair(text: str) -> tuple[str, str]:
    theirs, sign, ours = text.partition("=")
    if not sign or not theirs or not ours:
        common.refuse(f"--map-type is {text!r}; write THEIRS=OURS.")
    return theirs, ours
