"""The part of the DBpedia ontology's class tree that entity types are made of.

Endpoints and dumps differ in whether a resource carries only its most specific class or all above it too; the tree
makes both read alike. Source: https://dbpedia.org/ontology/ (rdfs:subClassOf).
"""

from __future__ import annotations

from functools import lru_cache

# parent: its children
_TREE = """
Agent: Person Organisation Family Deity FictionalCharacter
Person: Academic Ambassador Archeologist Architect Aristocrat Artist Astronaut Athlete BusinessPerson Celebrity Chef
Person: Cleric Coach Criminal Economist Engineer Historian Journalist Judge Lawyer Linguist MilitaryPerson Model
Person: Monarch Noble OfficeHolder Orphan Philosopher PoliticianSpouse Politician Presenter Producer Psychologist
Person: Referee Religious RomanEmperor Royalty Scientist SportsManager Writer MovieDirector TelevisionDirector
Person: TelevisionPersonality TheatreDirector OrganisationMember HorseTrainer Farmer Egyptologist
Person: MemberResistanceMovement Youtuber
Artist: Actor ComedyGroup ComicsCreator Comedian Dancer FashionDesigner Humorist MusicalArtist Painter Photographer
Artist: Sculptor MusicComposer MusicDirector Instrumentalist BackScene Singer ClassicalMusicArtist
MusicalArtist: ClassicalMusicComposer
Actor: VoiceActor
Instrumentalist: Guitarist
Athlete: Boxer Cyclist GolfPlayer Gymnast SoccerPlayer Swimmer TennisPlayer RugbyPlayer Cricketer BasketballPlayer
Athlete: BaseballPlayer IceHockeyPlayer ChessPlayer Wrestler AmericanFootballPlayer GridironFootballPlayer
Athlete: WinterSportPlayer MotorsportRacer
Cleric: Bishop Cardinal ChristianBishop Pope Priest Saint Vicar Archbishop
Politician: Chancellor Congressman Deputy Governor Lieutenant Mayor MemberOfParliament President PrimeMinister
Politician: Senator VicePresident VicePrimeMinister AmericanLeader Minister
Royalty: BritishRoyalty
Scientist: Biologist Chemist ComputerScientist Entomologist Geologist Mathematician Medician Physicist Professor
Writer: Historian MusicComposer Poet ScreenWriter SongWriter PlayWright
FictionalCharacter: AnimangaCharacter ComicsCharacter DisneyCharacter MythologicalFigure SoapCharacter
FictionalCharacter: VideogameCharacter
Organisation: Broadcaster Company EducationalInstitution EmployersOrganisation GeopoliticalOrganisation
Organisation: GovernmentAgency Group InternationalOrganisation Legislature MilitaryUnit Non-ProfitOrganisation
Organisation: Parliament PoliticalParty PublicTransitSystem ReligiousOrganisation SportsClub SportsLeague SportsTeam
Organisation: TermOfOffice TradeUnion TerroristOrganisation SambaSchool GovernmentCabinet
Broadcaster: BroadcastNetwork RadioStation TelevisionStation
Company: Airline Bank Brewery BusCompany LawFirm Publisher RecordLabel Winery
EducationalInstitution: College Library School University MedicalSchool
Group: Band
Non-ProfitOrganisation: RecordOffice
SportsTeam: BaseballTeam BasketballTeam CricketTeam HockeyTeam NationalSoccerClub RugbyClub SoccerClub
SportsTeam: AmericanFootballTeam
Place: ArchitecturalStructure CelestialBody Cemetery ConcentrationCamp CountrySeat Garden HistoricPlace
Place: HistoricalPlace Monument NaturalPlace Park PopulatedPlace ProtectedArea SiteOfSpecialScientificInterest
Place: WineRegion WorldHeritageSite
Location: Place
ArchitecturalStructure: AmusementParkAttraction Arena Building Gate Infrastructure MilitaryStructure SportFacility
ArchitecturalStructure: Stadium Tower Venue Square
Building: Casino Castle Factory HistoricBuilding Hospital Hotel Lighthouse Museum Prison ReligiousBuilding
Building: Restaurant ShoppingMall Skyscraper Theatre
ReligiousBuilding: Abbey Cathedral Church Monastery Mosque Shrine Synagogue Temple
Infrastructure: Airport Bridge Dam Port PowerStation Road RailwayStation RouteOfTransportation Station Tunnel
Venue: Cinema Theatre
CelestialBody: Asteroid Constellation Galaxy Planet Satellite Star Nebula Swarm
NaturalPlace: Archipelago BodyOfWater Cape Cave Crater Desert Forest Glacier Mountain MountainPass MountainRange
NaturalPlace: Valley Volcano
BodyOfWater: Bay Lake Ocean Sea Stream
Stream: Canal River
PopulatedPlace: Agglomeration Community Continent Country HistoricalRegion Intercommunality Island Locality Region
PopulatedPlace: Settlement State Street Territory
Country: HistoricalCountry SovereignState
Region: AdministrativeRegion ClericalAdministrativeRegion GovernmentalAdministrativeRegion NaturalRegion
AdministrativeRegion: Department District Municipality Province Prefecture
Settlement: CapitalOfRegion CityDistrict HistoricalSettlement Town Village City
Work: Annotation Archive Article ArtisticGenre Artwork CartoonSeries CollectionOfValuables Database Document Film
Work: LineOfFashion MusicalWork Musical Opera RadioProgram Software TelevisionEpisode TelevisionSeason
Work: TelevisionShow WrittenWork Website
Artwork: Painting Sculpture Statue
MusicalWork: Album ArtistDiscography ClassicalMusicComposition EurovisionSongContestEntry NationalAnthem Single Song
Software: OperatingSystem ProgrammingLanguage VideoGame
WrittenWork: Biography Book Comic Drama Essay Law Letter Manga Manuscript MultiVolumePublication Periodical
WrittenWork: PeriodicalLiterature Play Poem Quote Treaty Scripture
Book: Novel
Novel: LightNovel
PeriodicalLiterature: AcademicJournal Magazine Newspaper UndergroundJournal
Event: LifeCycleEvent NaturalEvent SocietalEvent SpaceMission
SocietalEvent: AcademicConference Attack Convention Election FilmFestival HistoricalEvent MilitaryConflict
SocietalEvent: MusicFestival Rebellion SportsEvent Referendum Meeting Competition
SportsEvent: FootballMatch GrandPrix NationalFootballLeagueEvent Olympics OlympicEvent Race Tournament
SportsEvent: WrestlingEvent
TopicalConcept: AcademicSubject ArtisticGenre Genre PhilosophicalConcept PoliticalConcept ScientificConcept Theorem
TopicalConcept: Type Algorithm Ideology MathematicalConcept
Genre: LiteraryGenre MovieGenre MusicGenre
Award: Decoration NobelPrize
ChemicalSubstance: ChemicalCompound ChemicalElement Drug Mineral
Biomolecule: Enzyme Gene Hormone Protein Lipid Polysaccharide
Gene: HumanGene MouseGene
Protein: Enzyme
Species: Archaea Bacteria Eukaryote Virus
Eukaryote: Animal Fungus Plant
Animal: Bird Fish Insect Mammal Reptile Amphibian
Device: Battery Camera Engine InformationAppliance Instrument MobilePhone Weapon Robot
MeanOfTransportation: Aircraft Automobile Locomotive Ship Spacecraft Train Rocket SpaceShuttle SpaceStation
Activity: Game Sport
Game: BoardGame CardGame
SportsManager: SoccerManager
SportsLeague: SoccerLeague
Tournament: SoccerTournament
City: Capital
NaturalEvent: Earthquake
Drug: CombinationDrug MonoclonalAntibody Vaccine
Swarm: Globularswarm Openswarm StarCluster
Star: BrownDwarf
UnitOfWork: Case
Case: LegalCase
LegalCase: SupremeCourtOfTheUnitedStatesCase
Instrument: Guitar
Comic: ComicStrip
Database: BiologicalDatabase
MotorsportRacer: FormulaOneRacer
AcademicSubject: MedicalSpecialty
"""


@lru_cache(maxsize=1)
def _parents() -> dict[str, tuple[str, ...]]:
    parents: dict[str, tuple[str, ...]] = {}
    for line in _TREE.strip().splitlines():
        parent, children = line.split(": ")
        for child in children.split():
            parents[child] = (*parents.get(child, ()), parent)
    return parents


@lru_cache(maxsize=4096)
def ancestors(name: str) -> tuple[str, ...]:
    """Return the classes above a class (names without their address), nearest first; () if it is not in the tree."""
    found: list[str] = []
    level: tuple[str, ...] = (name,)
    while level:
        level = tuple(dict.fromkeys(parent for item in level for parent in _parents().get(item, ())))
        level = tuple(item for item in level if item not in found and item != name)
        found += level
    return tuple(found)
