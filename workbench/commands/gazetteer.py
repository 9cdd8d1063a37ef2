"""`workbench gazetteer`: names and classes of pages, compiled from dumps or an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.gazetteer.manifest import GazetteerManifest
    from crossner_core.gazetteer.ontology import ClassTree

app = typer.Typer(help="Gazetteers: build, list, show, look up.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(help="Gazetteer, by name or folder.")]
MaybeDomain = Annotated[str | None, typer.Option(help="Domain whose entity types to show, by name.")]


@app.command(context_settings={"allow_interspersed_args": True})
def build(
    name: Annotated[str | None, typer.Option(help="Name of the gazetteer, stored in the home folder.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the gazetteer, instead of a name.")] = None,
    dump: Annotated[
        list[Path] | None,
        typer.Option(
            help="DBpedia dump: types, labels or redirects; .ttl or .nt, plain, .bz2 or .gz; can be repeated."
        ),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[DUMP]...", help="More dumps.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="SPARQL endpoint to read page by page.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Read only this class from the endpoint; can be repeated.")
    ] = None,
    page_size: Annotated[int, typer.Option(help="Resources per query to the endpoint.")] = 5000,
    wikipedia: Annotated[Path | None, typer.Option(help="Wikipedia dump (pages-articles.xml.bz2).")] = None,
    mappings: Annotated[Path | None, typer.Option(help="DBpedia's infobox mappings, for --wikipedia.")] = None,
    ontology: Annotated[
        Path | None,
        typer.Option(help="DBpedia's ontology (.owl or .nt, compressed or not). Default: the bundled classes."),
    ] = None,
    language: Annotated[str, typer.Option(help="Language of the labels.")] = "en",
    replace: Annotated[bool, typer.Option("--replace", help="Rebuild a gazetteer that exists already.")] = False,
) -> None:
    """Build a gazetteer from DBpedia dumps, a SPARQL endpoint or a Wikipedia dump."""
    dumps = [*(dump or ()), *(more or ())]
    if sum((bool(dumps), endpoint is not None, wikipedia is not None)) != 1:
        common.refuse("Give exactly one source of facts: --dump FILES…, --endpoint URL or --wikipedia DUMP.")
    if (wikipedia is None) != (mappings is None):
        common.refuse("--wikipedia DUMP and --mappings FILE go together: the infobox gives the class of a page.")
    out, called = _target(name, output)
    tree = _tree(ontology)
    if dumps:
        from crossner_core.gazetteer.building import build_from_dumps

        manifest = build_from_dumps(
            dumps, out, name=called, tree=tree, language=language, replace=replace, on_problem=_say, progress=_say
        )
    elif endpoint is not None:
        manifest = _from_endpoint(endpoint, out, called, tree, tuple(classes or ()), page_size, language, replace)
    else:
        assert wikipedia is not None and mappings is not None  # checked above
        manifest = _from_wikipedia(wikipedia, mappings, out, called, tree, replace)
    typer.echo(f"{out}: {manifest.counts['surfaces']:,} surfaces of {manifest.counts['entities']:,} pages")


def _from_endpoint(
    endpoint: str,
    out: Path,
    name: str,
    tree: ClassTree,
    classes: tuple[str, ...],
    page_size: int,
    language: str,
    replace: bool,
) -> GazetteerManifest:
    import datetime
    import random

    from crossner_core.gazetteer.building import build_from_facts
    from crossner_core.gazetteer.from_endpoint import EndpointConfig, EndpointFacts
    from crossner_core.gazetteer.manifest import Origin

    facts = EndpointFacts(
        endpoint,
        EndpointConfig(classes=classes, language=language, page_size=page_size),
        tree=tree,
        rng=random.Random(0),
        on_problem=_say,
        on_progress=lambda cls, resources: _say(f"{cls}: {resources:,} pages"),
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    origin = Origin("endpoint", (), endpoint, today, language, tree.source)
    return build_from_facts(facts, out, name=name, origin=origin, tree=tree, replace=replace, progress=_say)


def _from_wikipedia(
    dump: Path, mappings: Path, out: Path, name: str, tree: ClassTree, replace: bool
) -> GazetteerManifest:
    from crossner_core.gazetteer.building import build_from_facts, newest_date, source_files
    from crossner_core.gazetteer.from_wikipedia import WikipediaFacts
    from crossner_core.gazetteer.infoboxes import read_mappings
    from crossner_core.gazetteer.manifest import Origin

    read = read_mappings(mappings)
    for problem in read.problems:
        _say(problem)
    facts = WikipediaFacts(dump, read, tree=tree, on_problem=_say)
    origin = Origin("wikipedia", source_files((dump, mappings)), "", newest_date((dump,)), "en", tree.source)

    def skipped() -> dict[str, int]:
        report = facts.report
        return {
            "pages that are no articles": report.other,
            "disambiguation pages": report.disambiguations,
            "pages without a class": report.untyped,
            "infoboxes without a mapping": sum(report.unknown.values()),
            "infoboxes that cannot be parsed": report.unread,
        }

    return build_from_facts(
        facts, out, name=name, origin=origin, tree=tree, replace=replace, skipped=skipped, progress=_say
    )


@app.command("list")
def list_() -> None:
    """List the gazetteers of the home folder."""
    from crossner_core.errors import WorkbenchError
    from crossner_core.folders import named_folders
    from crossner_core.gazetteer.manifest import read_manifest

    rows: list[tuple[object, ...]] = []
    for folder in named_folders(common.PLACE.settings.gazetteers):
        try:
            manifest = read_manifest(folder)
        except WorkbenchError as error:
            rows.append((folder.name, "–", "–", "–", "–", f"cannot be used: {error}"))
            continue
        sizes = (f"{manifest.counts[kind]:,}" for kind in ("surfaces", "entities"))
        rows.append((folder.name, *sizes, manifest.source.kind, manifest.source.date, manifest.hash[:12]))
    common.table(rows, ("name", "surfaces", "pages", "from", "date", "hash"))


@app.command()
def show(
    name: Which,
    verify: Annotated[bool, typer.Option("--verify", help="Verify every file against its hash.")] = False,
) -> None:
    """Show a gazetteer's sources and contents."""
    gazetteer = _open(name)
    if verify:
        gazetteer.verify()
    manifest, source = gazetteer.manifest, gazetteer.manifest.source
    typer.echo(f"{manifest.name} · {gazetteer.folder} · {manifest.hash[:12]}{' · every file is whole' * verify}")
    typer.echo(f"from {source.kind} {source.address} · {source.date} · {source.language} · ontology {source.ontology}")
    for file in source.files:
        typer.echo(f"  {file.name}  {file.bytes:,} bytes  {file.sha256[:12]}")
    kept = [(what, f"{number:,}") for what, number in manifest.counts.items()]
    aliases = [(f"by {what}", f"{number:,}") for what, number in manifest.aliases.items()]
    skipped = [(f"skipped: {what}", f"{number:,}") for what, number in manifest.skipped.items()]
    common.table([*kept, *aliases, *skipped], ("what", "number"))


@app.command("look-up")
def look_up(
    name: Which, surface: Annotated[str, typer.Argument(help="Name to look up.")], domain: MaybeDomain = None
) -> None:
    """Print every page that a name may refer to, most linked first."""
    from crossner_core.errors import NotFound
    from crossner_core.gazetteer.classes import specific_types

    gazetteer = _open(name)
    matches = gazetteer.entries(surface)
    if not matches:
        raise NotFound(f"{gazetteer.name} has no entry for {surface!r}.")
    chosen = common.find_domain(domain) if domain else None
    rows = []
    for entry in matches:
        ways = "+".join(str(flag.name).lower() for flag in entry.flags)
        row = [entry.entity, " ".join(entry.classes), ways, entry.prior]
        if chosen is not None:
            row.append(" ".join(specific_types(entry.classes, chosen, gazetteer.tree)) or "–")
        rows.append(row)
    common.table(rows, ("page", "classes", "how", "links", *(("type",) if domain else ())))


@app.command("classes")
def classes_(name: Which, domain: Annotated[str, typer.Option(help="Domain, by name.")]) -> None:
    """Report which classes of a gazetteer have no entity type in a domain, and suggest how to map them."""
    from crossner_core.gazetteer.classes import fall_through

    gazetteer = _open(name)
    counts = gazetteer.classes_with_counts()
    rows = fall_through(counts, common.find_domain(domain), gazetteer.tree)
    typer.echo(f"{len(rows)} of {len(counts)} classes have no entity type in {domain}.")
    common.table(
        [(row.cls, f"{row.entities:,}", "yes" if row.known else "no", row.suggestion) for row in rows],
        ("class", "pages", "in the ontology", "suggestion"),
    )


def _target(name: str | None, output: Path | None) -> tuple[Path, str]:
    from crossner_core.folders import is_name

    if name is None and output is None:
        common.refuse("Give the gazetteer a --name, or an --output folder.")
    if name is not None and not is_name(name):
        common.refuse(f"The name {name!r} cannot be a folder's; use up to 60 letters, digits, '.', '_' and '-'.")
    if output is not None:
        return output, name or output.resolve().name
    return common.PLACE.settings.gazetteers / str(name), str(name)


def _tree(ontology: Path | None) -> ClassTree:
    from crossner_core.gazetteer.ontology import BUILTIN, read_ontology

    if ontology is None:
        return BUILTIN
    tree = read_ontology(ontology)
    for problem in tree.problems:
        _say(problem)
    return tree


def _open(name: str) -> CompiledGazetteer:
    from crossner_core.gazetteer.compiled import CompiledGazetteer

    return CompiledGazetteer.open(common.find_folder(common.PLACE.settings.gazetteers, "gazetteer", name))


def _say(message: str) -> None:
    typer.echo(message, err=True)
