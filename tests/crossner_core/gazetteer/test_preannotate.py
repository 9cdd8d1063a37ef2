"""Links and the scan of unlinked text, put together into suggestions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from crossner_core.domains import Domain
from crossner_core.errors import EndpointUnavailable, InvalidConfig, UnknownType
from crossner_core.gazetteer.lookup import EmbeddedSource, Resource, Source
from crossner_core.gazetteer.matcher import ScanRules
from crossner_core.gazetteer.preannotate import PreannotationConfig, Preannotator
from crossner_core.schema import Link, Sentence, Suggestion, sentence_from_words
from tests.support.gazetteers.sparql_servers import DBR, triples

DATA = triples(
    {
        "Velvet Harbour (band)": ("Band", "Organisation"),
        "Night Owls": ("Band",),
        "Night": ("Song",),
        "Norland": ("Country", "Place"),
        "New Norland Times": ("Newspaper",),
        "Slow wave": ("Song",),
        "Echo": ("Album", "Song"),
        "It": ("Album",),
        "Rain": ("Song",),
        "Untyped Page": (),
        "Wham!": ("Band",),
    },
    redirects={"The Owls": "Night Owls"},
)


@pytest.fixture(scope="module")
def gazetteer(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedSource:
    """A file with the few resources above."""
    path = tmp_path_factory.mktemp("gazetteer") / "few.nt"
    path.write_bytes(DATA)
    return EmbeddedSource(path)


def words(text: str, *links: Link) -> Sentence:
    """Build a sentence from words with spaces between."""
    return sentence_from_words(text.split(), id="s", links=links)


def suggest(sentence: Sentence, source: Source, domain: Domain, **config: object) -> list[Suggestion]:
    """Pre-annotate one sentence."""
    return list(Preannotator([source], domain, PreannotationConfig(**config)).suggest([sentence])[0])  # type: ignore[arg-type]


def found(suggestions: Iterable[Suggestion], sentence: Sentence) -> list[tuple[str, str, str]]:
    """Return surface, type and source of suggestions."""
    return [(sentence.surface(item.start, item.end), item.type, item.source) for item in suggestions]


def test_preannotate_links_and_scan(gazetteer: Source, domain: Domain) -> None:
    sentence = words("All of the harbour group met the Night Owls in Norland .", Link(3, 5, "Velvet Harbour (band)"))
    suggestions = suggest(sentence, gazetteer, domain)
    assert found(suggestions, sentence) == [
        ("harbour group", "band", "link"),
        ("Night Owls", "band", "dbpedia"),
        ("Norland", "country", "dbpedia"),
    ]
    assert [item.entity for item in suggestions] == [
        f"{DBR}{name}" for name in ("Velvet_Harbour_(band)", "Night_Owls", "Norland")
    ]
    assert all(0 < item.score <= 1 for item in suggestions)


@pytest.mark.parametrize("config", [{"links": False}, {"scan": False}])
def test_preannotate_modes_can_be_switched_off(config: dict[str, bool], gazetteer: Source, domain: Domain) -> None:
    sentence = words("Fans of Velvet Harbour saw Night Owls .", Link(2, 4, "Velvet Harbour (band)"))
    sources = {item.source for item in suggest(sentence, gazetteer, domain, **config)}
    assert sources == ({"dbpedia"} if "links" in config else {"link"})


def test_preannotate_link_text_is_never_scanned(gazetteer: Source, domain: Domain) -> None:
    sentence = words("He read Night Owls twice .", Link(2, 4, "Untyped Page"))
    assert suggest(sentence, gazetteer, domain) == []
    half = words("He saw Night Owls twice .", Link(2, 3, "Untyped Page"))
    assert suggest(half, gazetteer, domain) == []


def test_preannotate_link_to_a_page_without_a_type_follows_the_config(gazetteer: Source, domain: Domain) -> None:
    sentence = words("He read that page twice .", Link(2, 4, "Untyped Page"))
    assert suggest(sentence, gazetteer, domain) == []
    suggestion = suggest(sentence, gazetteer, domain, untyped_link="organisation")[0]
    assert (suggestion.type, suggestion.entity) == ("organisation", None)
    with pytest.raises(UnknownType, match="person, musicalartist"):
        suggest(sentence, gazetteer, domain, untyped_link="planet")


def test_preannotate_link_goes_by_title_and_redirect_never_by_alias(gazetteer: Source, domain: Domain) -> None:
    sentence = words("Some fans of owls .", Link(3, 4, "the Owls"))
    assert found(suggest(sentence, gazetteer, domain), sentence) == [("owls", "band", "link")]
    alias = words("Some fans of harbour .", Link(3, 4, "Velvet Harbour"))
    assert suggest(alias, gazetteer, domain) == []
    exact = words("Some fans of harbour .", Link(3, 4, "velvet_Harbour_(band)#Members"))
    assert found(suggest(exact, gazetteer, domain), exact) == [("harbour", "band", "link")]


def test_preannotate_scan_is_leftmost_longest(gazetteer: Source, domain: Domain) -> None:
    sentence = words("They bought Night Owls and Night in Norland .")
    assert found(suggest(sentence, gazetteer, domain), sentence) == [
        ("Night Owls", "band", "dbpedia"),
        ("Night", "song", "dbpedia"),
        ("Norland", "country", "dbpedia"),
    ]


def test_preannotate_longer_name_of_no_type_covers_the_shorter_in_it(gazetteer: Source, domain: Domain) -> None:
    assert suggest(words("He wrote for the New Norland Times ."), gazetteer, domain) == []


@pytest.mark.parametrize(
    ("text", "surfaces"),
    [
        ("It was long .", []),
        ("They called It a day .", []),
        ("They walked in the rain at night .", []),
        ("They recorded slow wave there .", ["slow wave"]),
        ("They recorded the slow wave .", ["slow wave"]),
        ("Rain fell on Norland .", ["Rain", "Norland"]),
        ("He joined Wham ! in 1982 .", ["Wham !"]),
        ("The the and .", []),
        ("1982 .", []),
    ],
)
def test_preannotate_scan_minds_case_and_stop_words(
    text: str, surfaces: list[str], gazetteer: Source, domain: Domain
) -> None:
    sentence = words(text)
    assert [item[0] for item in found(suggest(sentence, gazetteer, domain), sentence)] == surfaces


def test_preannotate_scan_rules_can_be_loosened(gazetteer: Source, domain: Domain) -> None:
    sentence = words("They walked in the rain at slow wave .")
    loose = ScanRules(single_lower=True, max_lower_tokens=1)
    assert [item[0] for item in found(suggest(sentence, gazetteer, domain, rules=loose), sentence)] == ["rain"]


def test_preannotate_score_falls_with_ambiguity_case_and_position(gazetteer: Source, domain: Domain) -> None:
    def score(text: str, *links: Link) -> float:
        return suggest(words(text, *links), gazetteer, domain)[0].score

    sure = score("They heard Rain again .")
    assert score("Rain was heard again .") < sure
    assert score("They heard Echo again .") < sure
    assert score("They heard slow wave again .") < sure
    assert score("They heard Velvet Harbour again .") < sure
    assert score("They heard x again .", Link(2, 3, "Rain")) > sure
    assert score("They heard x again .", Link(2, 3, "The Owls")) < score(
        "They heard x again .", Link(2, 3, "Night Owls")
    )


def test_preannotate_score_falls_beside_another_capital(gazetteer: Source, domain: Domain) -> None:
    def score(text: str) -> float:
        return suggest(words(text), gazetteer, domain)[0].score

    sure = score("They heard Night Owls twice .")
    assert score("They heard West Night Owls twice .") < sure
    assert score("They heard Night Owls Radio twice .") < sure
    assert score("West of Norland it rained .") == score("In Norland In it rained .") == score("They toured Norland .")


def test_preannotate_single_word_beside_another_capital_is_part_of_a_longer_name(
    gazetteer: Source, domain: Domain
) -> None:
    # On the training sentences of music, politics and ai 10 of 90 such words were entities of their type.
    for text in ("They toured West Norland twice .", "They toured Norland Radio twice ."):
        assert suggest(words(text), gazetteer, domain) == []
        assert suggest(words(text), gazetteer, domain, rules=ScanRules(part_of_longer=True))[0].score < 0.5
    for text in ("They met President Norland twice .", "They met the Norland Senator twice ."):
        assert len(suggest(words(text), gazetteer, domain)) == 1


def test_preannotate_without_links_all_text_is_scanned(gazetteer: Source, domain: Domain) -> None:
    sentence = words("He saw Night Owls twice .", Link(2, 4, "Untyped Page"))
    assert found(suggest(sentence, gazetteer, domain, links=False), sentence) == [("Night Owls", "band", "dbpedia")]


def test_preannotate_leaves_out_what_scores_too_low(gazetteer: Source, domain: Domain) -> None:
    sentence = words("Rain fell on Norland .")
    assert [item[0] for item in found(suggest(sentence, gazetteer, domain, min_score=0.7), sentence)] == ["Norland"]


def test_preannotate_is_the_same_alone_and_in_any_company(gazetteer: Source, domain: Domain) -> None:
    sentences = [words(f"Night Owls and Echo played Norland for {at} days .") for at in range(150)]
    sentences[70] = words("No names here .")
    together = Preannotator([gazetteer], domain).suggest(sentences)
    alone = [Preannotator([gazetteer], domain, PreannotationConfig(chunk=1)).suggest([item])[0] for item in sentences]
    assert together == alone and len(together) == 150 and together[70] == ()
    assert Preannotator([gazetteer], domain).suggest([]) == []


class Down:
    """A source that never answers, but may know something from before."""

    name = "down.example"

    def __init__(self, known: dict[str, tuple[Resource, ...]]) -> None:
        self.known, self.asked = known, 0

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        """Fail."""
        self.asked += 1
        raise EndpointUnavailable("SPARQL endpoint down.example is down")

    def cached(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        """Return what was known."""
        return {name: self.known[name] for name in names if name in self.known}


def test_preannotate_goes_on_without_a_source_that_is_down(gazetteer: Source, domain: Domain) -> None:
    down = Down({"Old Friend": (Resource(f"{DBR}Old_Friend", ("http://dbpedia.org/ontology/Song",), "title"),)})
    problems: list[str] = []
    config = PreannotationConfig(chunk=1)
    sentences = [words("They heard Old Friend and Night Owls .")] * 3
    suggestions = Preannotator([down, gazetteer], domain, config, on_problem=problems.append).suggest(sentences)
    assert [[item.type for item in row] for row in suggestions] == [["song", "band"]] * 3
    assert problems == ["SPARQL endpoint down.example is down"] and down.asked == 1


def test_preannotate_asks_the_next_source_only_for_what_is_missing(gazetteer: Source, domain: Domain) -> None:
    class Recorder:
        name = "recorder"
        asked: list[str] = []  # noqa: RUF012

        def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
            self.asked += names
            return {}

    recorder = Recorder()
    Preannotator([gazetteer, recorder], domain).suggest([words("He met Night Owls and Somebody .")])
    assert "Somebody" in recorder.asked and "Night Owls" not in recorder.asked


@pytest.mark.parametrize(("option", "value"), [("min_score", 1.5), ("chunk", 0)])
def test_preannotate_config_is_checked(option: str, value: float) -> None:
    with pytest.raises(InvalidConfig, match=option):
        PreannotationConfig(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("longest", "lower"), [(0, 0), (3, 4)])
def test_preannotate_scan_rules_are_checked(longest: int, lower: int) -> None:
    with pytest.raises(InvalidConfig, match="max_"):
        ScanRules(max_tokens=longest, max_lower_tokens=lower)
