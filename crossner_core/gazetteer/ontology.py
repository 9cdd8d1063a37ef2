"""The DBpedia ontology's class tree: which class is below which, bundled in part or read from the ontology's file.

Endpoints and dumps differ in whether a resource carries only its most specific class or all above it too; the tree
makes both equivalent. Source: https://dbpedia.org/ontology/ (rdfs:subClassOf).
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from crossner_core.errors import BadInput
from crossner_core.gazetteer.titles import ONTOLOGY

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked by its suffix."""
    match path.suffix:
        case ".bz2":
            return bz2.open(path, "rb")
        case ".gz":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        case ".xz":
            return lzma.open(path, "rb")
        case _:
            return path.open("rb")


@contextmanager
def unreadable(path: Path, what: str) -> Iterator[None]:
    """Turn what reading a file raises (missing, wrongly compressed, cut off, no valid XML or triples) into BadInput."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file.") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path.name}: is cut off or damaged ({error}); get it again.") from error
    except (ParseError, SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(f"{path.name}: cannot be read as {what}: {error}.") from error
    except OSError as error:
        if error.errno is None:  # bz2's error for data that is not bz2
            raise BadInput(f"{path.name}: is cut off or damaged ({error}); get it again.") from error
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error


THING = "Thing"
FORMATS = (".owl", ".rdf", ".xml", ".nt", ".ttl")

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_OWL = "http://www.w3.org/2002/07/owl#"
_SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"


@dataclass(frozen=True)
class ClassTree:
    """Classes by name (without their address) and the classes right above each; a top class has none.

    Build one with `of`, which repairs or cuts what is no tree and lists it in `problems`.
    """

    parents: Mapping[str, tuple[str, ...]]
    source: str = "bundled"
    problems: tuple[str, ...] = ()
    _above: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, parents: Mapping[str, Iterable[str]], *, source: str) -> ClassTree:
        """Build a tree: undeclared parents are matched in any letter case or left out, cycles are cut."""
        problems: list[str] = []
        known = _declared(parents, problems)
        _cut_cycles(known, problems)
        return cls({name: tuple(above) for name, above in known.items()}, source, tuple(problems))

    def known(self, name: str) -> bool:
        """Tell whether the tree has the class; `Thing`, which is above all, is not one."""
        return name in self.parents

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return the classes above a class, nearest first; () for a top class or an unknown one."""
        if (known := self._above.get(name)) is not None:
            return known
        above: list[str] = []
        level: tuple[str, ...] = (name,)
        while level:
            level = tuple(dict.fromkeys(parent for item in level for parent in self.parents.get(item, ())))
            level = tuple(item for item in level if item not in above and item != name)
            above += level
        if name in self.parents:  # unknown names are not cached: there may be any number of them
            self._above[name] = tuple(above)
        return tuple(above)

    def depth(self, name: str) -> int:
        """Return how many steps a class is below the top by the shortest way; 0 for a top class and an unknown one."""
        steps: int = 0
        level: tuple[str, ...] = (name,)
        while steps < len(self.parents) and all(self.parents.get(item) for item in level):
            level = tuple(dict.fromkeys(parent for item in level for parent in self.parents[item]))
            steps += 1
        return steps

    def descendants(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the classes of the tree that are among the names or below one of them, sorted."""
        tops = frozenset(names)
        return tuple(sorted(name for name in self.parents if name in tops or not tops.isdisjoint(self.ancestors(name))))

    def to_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON values."""
        return {"source": self.source, "parents": {name: list(self.parents[name]) for name in sorted(self.parents)}}

    @classmethod
    def from_json(cls, value: Any) -> ClassTree:
        """Read what `to_json` wrote; BadInput if it is something else."""
        try:
            parents = {str(name): [str(item) for item in above] for name, above in value["parents"].items()}
            return cls.of(parents, source=str(value["source"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                "The class tree is not an object with `source` and `parents`; it is damaged or of another version; "
                "build the gazetteer again."
            ) from error


def _declared(parents: Mapping[str, Iterable[str]], problems: list[str]) -> dict[str, list[str]]:
    folded = {name.casefold(): name for name in sorted(parents)}
    known: dict[str, list[str]] = {}
    for name in sorted(parents):
        above = known[name] = []
        for parent in dict.fromkeys(parents[name]):
            right = parent if parent in parents else folded.get(parent.casefold())
            if right is None:
                problems.append(f"{name}: its parent {parent} is not a class of the ontology and is left out")
            else:
                if right != parent:
                    problems.append(f"{name}: its parent {parent} is read as {right}")
                if right not in above:
                    above.append(right)
    return known


def _cut_cycles(parents: dict[str, list[str]], problems: list[str]) -> None:
    """Remove from the lists each step that closes a cycle."""
    done: set[str] = set()
    for start in parents:
        path = [start]
        while path:
            name = path[-1]
            step = next((parent for parent in parents[name] if parent not in done), None)
            if step is None:
                done.add(path.pop())
            elif step in path:
                problems.append(f"{name}: its parent {step} is below it (a cycle); that step is left out")
                parents[name].remove(step)
            else:
                path.append(step)


def read_ontology(path: Path | str) -> ClassTree:
    """Read the classes of the DBpedia ontology from RDF/XML, N-Triples or Turtle, plain or .xz, .bz2, .gz.

    Equivalent classes and parents outside DBpedia are ignored. BadInput for another format, a damaged file, or one
    without classes; minor faults are in the tree's `problems`.
    """
    path = Path(path)
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix in FORMATS), None)
    if kind is None:
        raise BadInput(
            f"{path.name}: an ontology file ends in {', '.join(FORMATS)}, maybe followed by .xz, .bz2 or .gz; "
            "get it as RDF/XML from https://dbpedia.org/ontology/."
        )
    parents: dict[str, list[str]] = {}
    with unreadable(path, "an ontology"), open_binary(path) as stream:
        for name, above in _from_xml(stream) if kind in FORMATS[:3] else _from_triples(stream, kind):
            parents.setdefault(name, []).extend(above)
    if not parents:
        raise BadInput(f"{path.name}: holds no class below {ONTOLOGY}; it is not a DBpedia ontology.")
    return ClassTree.of(parents, source=path.name)


def _name(iri: str | None) -> str | None:
    """Return the name of a class of DBpedia, None for any other."""
    return iri.removeprefix(ONTOLOGY) if iri and iri.startswith(ONTOLOGY) and len(iri) > len(ONTOLOGY) else None


def _from_xml(stream: IO[bytes]) -> Iterator[tuple[str, list[str]]]:
    from xml.etree.ElementTree import iterparse

    for _, element in iterparse(stream, events=("end",)):
        if element.tag == f"{{{_OWL}}}Class" or _says_class(element):
            name = _name(element.get(f"{{{_RDF}}}about"))
            above = [_name(item.get(f"{{{_RDF}}}resource")) for item in element.findall(_tag(_SUBCLASS))]
            if name is not None:
                yield name, [item for item in above if item is not None]
        if element.get(f"{{{_RDF}}}about") is not None:
            element.clear()


def _says_class(element: Element) -> bool:
    kinds = element.findall(f"{{{_RDF}}}type") if element.tag == f"{{{_RDF}}}Description" else []
    return any(kind.get(f"{{{_RDF}}}resource") == f"{_OWL}Class" for kind in kinds)


def _tag(iri: str) -> str:
    space, _, name = iri.partition("#")
    return f"{{{space}#}}{name}"


def _from_triples(stream: IO[bytes], kind: str) -> Iterator[tuple[str, list[str]]]:
    from pyoxigraph import NamedNode, RdfFormat, parse

    for quad in parse(stream, format=RdfFormat.N_TRIPLES if kind == ".nt" else RdfFormat.TURTLE):
        if not isinstance(quad.subject, NamedNode) or not isinstance(quad.object, NamedNode):
            continue
        name = _name(quad.subject.value)
        if name is not None and quad.predicate.value == f"{_RDF}type" and quad.object.value == f"{_OWL}Class":
            yield name, []
        elif name is not None and quad.predicate.value == _SUBCLASS:
            yield name, [above] if (above := _name(quad.object.value)) is not None else []


# parent: its children; `Thing` lists the top classes that have no children here or are entity types themselves
_TREE = """
Thing: Activity Agent Algorithm ArchitecturalStructure Award Biomolecule Browser ChemicalSubstance Cipher Currency
Thing: Device Disease EthnicGroup Event FileSystem Holiday Language MeanOfTransportation MedicalSpecialty Place Species
Thing: StarCluster Statistic TopicalConcept UnitOfWork Work
Agent: Organisation Family Deity FictionalCharacter
Person: Academic Archeologist Architect Aristocrat Artist Astronaut Athlete BusinessPerson Chef Cleric Coach Criminal
Person: Economist Engineer Journalist Judge Lawyer Linguist MilitaryPerson Model Monarch Noble OfficeHolder
Person: Philosopher PoliticianSpouse Politician Presenter Producer Psychologist Referee Religious RomanEmperor Royalty
Person: Scientist SportsManager Writer MovieDirector TelevisionDirector TheatreDirector OrganisationMember
Person: HorseTrainer Farmer Egyptologist MemberResistanceMovement Youtuber AmericanLeader
Artist: Actor ComicsCreator Comedian Dancer FashionDesigner Humorist MusicalArtist Painter Photographer Sculptor
MusicalArtist: MusicDirector Instrumentalist BackScene Singer ClassicalMusicArtist
Actor: VoiceActor AdultActor
Instrumentalist: Guitarist
Athlete: Boxer Cyclist GolfPlayer Gymnast SoccerPlayer Swimmer TennisPlayer RugbyPlayer Cricketer BasketballPlayer
Athlete: BaseballPlayer ChessPlayer Wrestler GridironFootballPlayer WinterSportPlayer MotorsportRacer
Cleric: Cardinal ChristianBishop Pope Priest Saint Vicar
Politician: Chancellor Congressman Deputy Governor Lieutenant Mayor MemberOfParliament President PrimeMinister Senator
Politician: VicePresident VicePrimeMinister Minister Ambassador
Royalty: BritishRoyalty
Scientist: Biologist Entomologist Medician Professor
Writer: Historian MusicComposer Poet ScreenWriter SongWriter PlayWright
FictionalCharacter: ComicsCharacter DisneyCharacter MythologicalFigure SoapCharacter
Organisation: Broadcaster Company EducationalInstitution EmployersOrganisation GeopoliticalOrganisation
Organisation: GovernmentAgency Group InternationalOrganisation Legislature MilitaryUnit Non-ProfitOrganisation
Organisation: Parliament PoliticalParty ReligiousOrganisation SportsClub SportsLeague SportsTeam TermOfOffice
Organisation: TradeUnion SambaSchool
Broadcaster: BroadcastNetwork RadioStation TelevisionStation
Company: Bank Brewery LawFirm Publisher RecordLabel Winery PublicTransitSystem
EducationalInstitution: College Library School University
Group: Band ComedyGroup
Non-ProfitOrganisation: RecordOffice
SportsTeam: BaseballTeam BasketballTeam CricketTeam HockeyTeam AmericanFootballTeam
Place: CelestialBody Cemetery ConcentrationCamp CountrySeat Garden HistoricPlace NaturalPlace Park PopulatedPlace
Place: ProtectedArea SiteOfSpecialScientificInterest WineRegion WorldHeritageSite
ArchitecturalStructure: AmusementParkAttraction Arena Building Infrastructure MilitaryStructure SportFacility Tower
ArchitecturalStructure: Square Monument Tunnel
Building: Casino Castle Factory HistoricBuilding Hospital Hotel Museum Prison ReligiousBuilding Restaurant
Building: ShoppingMall Skyscraper Venue
ReligiousBuilding: Church Monastery Mosque Shrine Synagogue Temple
Infrastructure: Airport Dam Port PowerStation RouteOfTransportation Station
Venue: Cinema Theatre Stadium
CelestialBody: Asteroid Constellation Galaxy Planet Satellite Star Nebula Swarm
NaturalPlace: Archipelago BodyOfWater Cape Cave Crater Desert Forest Glacier Mountain MountainPass MountainRange
NaturalPlace: Valley Volcano
BodyOfWater: Bay Lake Ocean Sea Stream
Stream: Canal River
PopulatedPlace: Agglomeration Community Continent Country Intercommunality Island Locality Region Settlement State
PopulatedPlace: Street Territory
Country: HistoricalCountry
Region: AdministrativeRegion NaturalRegion HistoricalRegion
AdministrativeRegion: ClericalAdministrativeRegion GovernmentalAdministrativeRegion
Settlement: CityDistrict HistoricalSettlement Town Village City
Work: Artwork CollectionOfValuables Database Document Film LineOfFashion MusicalWork RadioProgram Software
Work: TelevisionEpisode TelevisionSeason TelevisionShow WrittenWork Website
Artwork: Painting Sculpture
MusicalWork: Album ArtistDiscography ClassicalMusicComposition NationalAnthem Single Song Musical Opera
Software: VideoGame
WrittenWork: Book Comic Drama Law Letter MultiVolumePublication PeriodicalLiterature Play Poem Quote Treaty Annotation
WrittenWork: Article
Book: Novel
Novel: LightNovel
PeriodicalLiterature: AcademicJournal Magazine Newspaper UndergroundJournal
Event: LifeCycleEvent NaturalEvent SocietalEvent Competition
SocietalEvent: AcademicConference Attack Convention Election FilmFestival HistoricalEvent MilitaryConflict
SocietalEvent: MusicFestival Rebellion SportsEvent Meeting SpaceMission
SportsEvent: FootballMatch GrandPrix NationalFootballLeagueEvent Olympics Race Tournament WrestlingEvent
TopicalConcept: AcademicSubject Genre PhilosophicalConcept PoliticalConcept ScientificConcept Type Ideology
TopicalConcept: MathematicalConcept
Genre: LiteraryGenre MovieGenre MusicGenre ArtisticGenre
Award: Decoration NobelPrize
ChemicalSubstance: ChemicalCompound ChemicalElement Drug Mineral
Biomolecule: Enzyme Gene Hormone Protein Lipid Polysaccharide
Gene: HumanGene
Species: Archaea Bacteria Eukaryote
Eukaryote: Animal Fungus Plant
Animal: Bird Fish Insect Mammal Reptile Amphibian Person
Device: Battery Camera Engine InformationAppliance Instrument MobilePhone Weapon Robot
MeanOfTransportation: Aircraft Automobile Locomotive Ship Spacecraft Train Rocket SpaceShuttle SpaceStation
Activity: Game Sport
Game: BoardGame CardGame
SportsManager: SoccerManager
SportsLeague: SoccerLeague
Tournament: SoccerTournament
City: Capital CapitalOfRegion
NaturalEvent: Earthquake
Drug: CombinationDrug MonoclonalAntibody Vaccine
Swarm: Globularswarm Openswarm
Star: BrownDwarf
UnitOfWork: Case
Case: LegalCase
LegalCase: SupremeCourtOfTheUnitedStatesCase
Instrument: Guitar
Comic: ComicStrip Manga
Database: BiologicalDatabase
MotorsportRacer: RacingDriver
WinterSportPlayer: IceHockeyPlayer
GridironFootballPlayer: AmericanFootballPlayer
ChristianBishop: Archbishop
ComicsCharacter: AnimangaCharacter
GovernmentAgency: GovernmentCabinet
PublicTransitSystem: Airline BusCompany
SoccerClub: NationalSoccerClub
SportsClub: RugbyClub SoccerClub
Tower: Lighthouse
RouteOfTransportation: Bridge Road
Station: RailwayStation
GovernmentalAdministrativeRegion: Department District Municipality Province Prefecture
CollectionOfValuables: Archive
Song: EurovisionSongContestEntry
Language: ProgrammingLanguage
Olympics: OlympicEvent
RacingDriver: FormulaOneRacer
"""


def _builtin() -> ClassTree:
    parents: dict[str, list[str]] = {}
    for line in _TREE.strip().splitlines():
        parent, children = line.split(": ")
        for child in children.split():
            parents.setdefault(child, []).extend([parent] if parent != THING else [])
    return ClassTree.of(parents, source="bundled")


BUILTIN = _builtin()
