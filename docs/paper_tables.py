"""The main tables of the four papers, row by row: what we measured beside each row, or what it would take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean

from crossner_core.experiments.published import NER_BERT_OTHERS, printed
from crossner_core.experiments.stored import StoredStudy
from crossner_core.experiments.studies._grid import CLAIM_SEEDS, KEPT_NOTHING
from crossner_core.experiments.tables import Measured, Table, Value

PAPERS = (
    ("CrossNER, table 2", "Liu et al. 2021 (CrossNER)", "", ""),
    ("LANER, tables 2 to 4", "Hu et al. 2022", "laner_ablation", ""),
    ("NER-BERT, table 2", "Liu et al. 2021 (NER-BERT)", "", ""),
    ("PDALN, table 1", "Zhang et al. 2021", "pdaln_grid", "one follows the paper's recipe, the other ours"),
)
"""A heading here, how the name of the paper's source begins, a study, and in what its rows differ from all others."""
ONE_RATE, _PAPER = "one-rate", "paper"
"""Sections of studies whose rows were trained as in the papers, and stand for those of the same name."""
_VARIED = ("char-lstm", "lm-weight")
"""Sections that vary one thing in some rows of another section, which stands for them: its rows are alike."""
_NOT_RUN = "not run yet"
_HERE = ("music", "ai", "politics", "restaurant", "wikigold", *NER_BERT_OTHERS)
"""The corpora that could be measured on, in the order in which they are named."""
_NEEDS = (
    ("DAPT", "CrossNER's Wikipedia text of each domain (music: 195 million tokens), not at hand"),
    ("NER-BERT (4 types)", _NOT_RUN),
    ("NER-BERT", "the paper's corpus of mentions (315 types, 16 million sentences), not at hand"),
    ("BARTNER", "weights of BART, not at hand; its new decoder on MiniLM was not trained there"),
)
"""What a row takes, where its system holds these words."""
_JIA = (
    "its language models read raw text of both domains in its own paper, here the sentences of the corpora alone; that "
    "may be why"
)
_STAGED, _BACKGROUND = "pretrain_finetune", "LANER w/o label background"
_WHY: Mapping[tuple[tuple[str, str], tuple[str, str], str], str] = {
    (("LANER", _STAGED), (_BACKGROUND, _STAGED), "music"): (
        "we do not know why; with scaled attention scores, which the paper does not have, they are 0.24 apart in the "
        "paper's order ([differences](differences.md), *scaled*: +6.54 and +6.30 over the tagger), too little for "
        "three seeds"
    ),
    (("LANER w/o label context", _STAGED), (_BACKGROUND, _STAGED), "music"): (
        "it is so with scaled attention scores, too ([differences](differences.md), *scaled*: +4.56 and +6.30 over the "
        "tagger): here the label context helps, and the label background does not; we do not know why"
    ),
    (("BERT-base", _STAGED), ("LANER", "direct"), "music"): (
        "by argmax the source adds 1.59 to the tagger here, and LANER adds 3.91 without any source "
        "([differences](differences.md), [laner](laner.md))"
    ),
    (("Jia et al. 2019", "joint"), ("BERT-base", "direct"), "music"): (
        "the order differs on ai alone; the paper's BERT-base is not held to IOB2, and by argmax ours has 52.25 "
        f"(*LANER, tables 2 to 4*); {_JIA}"
    ),
    (("PDALN (mean)", "semi-supervised"), ("PDALN w/ MT", "semi-supervised"), "wikigold"): (
        "no difference is shown: trained alongside it, on a GPU with three seeds, PDALN is 0.02 ahead "
        "([pdaln](pdaln.md), *paper*)"
    ),
    (("PDALN (mean)", "unsupervised"), ("BERT + CRF", "unsupervised"), "wikigold"): (
        "we do not know why; the loss is undecided, the published gain excluded ([pdaln](pdaln.md))"
    ),
    (("PDALN (mean)", "unsupervised"), ("BERT + CRF", "semi-supervised"), "wikigold"): (
        "the loss of the line above, and what 100 labelled sentences add to the CRF; both are undecided"
    ),
}
"""What we know of why the first system and setting are not better than the second here, as they are there.

The third part is the first corpus that the pair is compared over. A reason is given where both rows have seeds enough
for an order.
"""
_WHY_NOT = {
    ("Multi-cell LSTM", "music"): (
        "it reads MiniLM alone here, which learns with it, in the released code a frozen BERT beside word vectors and "
        "characters; whether that is why, we do not know"
    ),
    ("FLAIR", "music"): "its character models are small ones of ours ([laner](laner.md))",
    ("BARTNER", "music"): "it has a new decoder on MiniLM in place of BART's",
    ("Jia et al. 2019", "bionlp13pc"): _JIA,
    ("Jia et al. 2019", "wikigold"): f"{_JIA}, their weight is not ([pdaln](pdaln.md))",
    ("NER-BERT (4 types)", "bionlp13pc"): "it learnt from 20,000 silver sentences, in the paper from 16 million",
}
"""What we know of why a system is not as good on a corpus here as there, whatever it is compared with."""
_UNLIKE = "one is held to IOB2, the other is not"
_CLOSE = 0.005
_DECODED_ALIKE = f"on {CLAIM_SEEDS} seeds or more and decoded alike"
_DECODED_OTHERWISE = f"on {CLAIM_SEEDS} seeds or more, one held to IOB2 and the other not"
_FEW_SEEDS = "on fewer seeds"
_TRAINED_OTHERWISE = "not to be compared, since"
_BEST_RUN = "PDALN (best run)"
"""A published row that is the best of another's runs on test, and in no order."""
_COLUMNS = ("system", "setting", "published", "ours", "decoding", "over", "seeds", "measured in, or what it takes")
_FREE = '"constrained": false'
"""In what a study says of itself: its rows are not held to IOB2."""
_WITHOUT_CRF = ("BERT-base", "LANER", "NER-BERT")


def _place(corpus: str) -> int:
    """Return a corpus's place among those named first."""
    return _HERE.index(corpus) if corpus in _HERE else len(_HERE)


@dataclass(frozen=True)
class _Row:
    """A published row and what we measured, by corpus; nothing measured is an empty `ours` and no study.

    `where` is the row of the study, or what it takes to measure one.
    """

    system: str
    setting: str
    published: Mapping[str, float]
    ours: Mapping[str, Measured]
    seeds: Value
    study: StoredStudy | None
    where: str

    def values(self) -> tuple[Value, ...]:
        """Return the row's cells: means over the corpora that ours was measured on, without ours over all."""
        over = sorted(self.ours or [corpus for corpus in self.published if corpus in _HERE], key=_place)
        over = over or list(self.published)
        ours = Measured(self.ours_over(over)) if self.ours else None
        named = ", ".join(over)
        where = self.where
        if self.study is not None:
            where = f"{self.study.id} {self.study.section}".strip() + f": {where}"
        known = Measured(self.published_over(over))
        seeds = "–" if self.system == _BEST_RUN else self.seeds
        return (self.system, self.setting, known, ours, self.decoding(), named, seeds, where)

    def decoding(self) -> str | None:
        """Return how ours finds a sentence's tags."""
        if self.study is None:
            return None
        if self.system == "BARTNER":
            return "token by token"
        if self.is_held():
            return "IOB2"
        return "argmax" if self.system.startswith(_WITHOUT_CRF) else "best path"

    def is_held(self) -> bool:
        """Return whether its tags are held to IOB2."""
        return self.study is not None and _FREE not in self.study.measured.partition(", in single rows")[0]

    def published_over(self, corpora: Iterable[str]) -> float:
        return fmean(self.published[corpus] for corpus in corpora)

    def ours_over(self, corpora: Iterable[str]) -> float:
        return fmean(self.ours[corpus].mean or 0.0 for corpus in corpora)

    def has_order(self) -> bool:
        """Return whether ours was measured on seeds enough for an order: `1–3` are too few on some corpus."""
        return bool(self.ours) and int(str(self.seeds or 0).split("–")[0]) >= CLAIM_SEEDS

    def is_as_there(self) -> bool:
        """Return whether it was trained as in the papers."""
        return self.study is not None and self.study.section in (ONE_RATE, _PAPER)

    def is_varied(self) -> bool:
        """Return whether it varies a row that stands for it in another section."""
        return self.study is not None and self.study.section in _VARIED

    def is_of(self, study: str) -> bool:
        """Return whether it was measured by a study with this id."""
        return self.study is not None and self.study.id == study

    def is_like(self, study: str) -> bool:
        """Return whether it was measured as the rows of a study: by it, or by the paper's recipe."""
        return self.is_of(study) or (self.study is not None and self.study.section == _PAPER)


def side_by_side(studies: Sequence[StoredStudy]) -> str:
    """Return the papers' main tables as Markdown, ours beside each row, and how often ours has the published order."""
    parts, listed = list[str](), dict[str, str]()
    for heading, source, alike, apart in PAPERS:
        rows = [row for table in printed(source) for row in _rows(table, studies, alike)]
        table = Table(heading, _COLUMNS, tuple(best.values() for best, *_ in rows))
        parts += [f"## {heading}", table.to_markdown(), _orders(rows, alike, apart, heading, listed)]
    return "\n\n".join(parts)


def _rows(table: Table, studies: Sequence[StoredStudy], alike: str) -> Iterator[list[_Row]]:
    """Yield for each published row what was measured, the row to show first; then the best one decoded otherwise."""
    corpora = table.columns[2:]
    for system, setting, *values in table.rows:
        published = {corpus: float(value) for corpus, value in zip(corpora, values, strict=True)}  # type: ignore[arg-type]
        measured = sorted(
            _measured(str(system), str(setting), published, studies),
            key=lambda row: (
                len(row.ours),
                row.has_order(),
                row.is_of(alike),
                row.is_as_there(),
                not row.is_varied(),
            ),
            reverse=True,
        )
        otherwise = [row for row in measured if row.is_held() != measured[0].is_held()]
        needs = _Row(str(system), str(setting), published, {}, None, None, _needs(str(system), published))
        yield [*measured[:1], *otherwise[:1]] or [needs]


def _needs(system: str, corpora: Iterable[str]) -> str:
    """Return what it takes to measure a system on these corpora."""
    away = [corpus for corpus in corpora if corpus not in _HERE]
    needs = next((words for part, words in _NEEDS if part in system), _NOT_RUN)
    if _NOT_RUN not in needs or not away:
        return needs
    return f"{needs}; {', '.join(away)} {'is' if len(away) == 1 else 'are'} not at hand"


def _measured(system: str, setting: str, published: dict[str, float], studies: Sequence[StoredStudy]) -> Iterator[_Row]:
    """Yield what studies measured beside just these published figures.

    A row of a study carries the published figures it stands for, by which it is found.
    """
    for study in sorted(studies, key=lambda study: bool(study.section)):
        for table in study.tables:
            places = [place for place, name in enumerate(table.columns) if name in published]
            for row in table.rows:
                if str(row[0]).endswith(KEPT_NOTHING):
                    continue
                cells = {table.columns[place]: row[place] for place in places}
                known = {name: cell for name, cell in cells.items() if isinstance(cell, Measured)}
                if known and all(
                    cell.mean is not None
                    and cell.published is not None
                    and abs(cell.published - published[name]) < _CLOSE
                    for name, cell in known.items()
                ):
                    seeds = row[table.columns.index("n")] if "n" in table.columns else None
                    yield _Row(system, setting, published, known, seeds, study, str(row[0]))


def _orders(rows: Sequence[Sequence[_Row]], alike: str, apart: str, heading: str, listed: dict[str, str]) -> str:
    """Say how many pairs of rows stand in the published order here, over the corpora of both, and which do not.

    `apart` says in what the rows of the study `alike` differ from all others, so that no order is expected. A pair is
    listed once: `listed` has the heading of each one so far, and gets this `heading` for those of these rows.
    """
    otherwise = f"{_TRAINED_OTHERWISE} {apart}"
    kinds = (_DECODED_ALIKE, _DECODED_OTHERWISE, _FEW_SEEDS, otherwise)
    counts = {kind: [0, 0] for kind in kinds}  # pairs, and those in the published order
    enough, few = dict[str, list[str]](), dict[str, list[str]]()  # pairs in another order, by why
    again = []
    means = [row for row in rows if row[0].system != _BEST_RUN]
    for a, b in filter(None, (_pair(*both) for both in combinations(means, 2))):
        over = [corpus for corpus in a.ours if corpus in b.ours]
        better, worse = (a, b) if a.published_over(over) > b.published_over(over) else (b, a)
        there = better.published_over(over) - worse.published_over(over)
        by_corpus = {corpus: better.ours_over([corpus]) - worse.ours_over([corpus]) for corpus in over}
        kind = _FEW_SEEDS
        if apart and a.is_like(alike) != b.is_like(alike):
            kind = otherwise
        elif a.has_order() and b.has_order():
            kind = _DECODED_ALIKE if a.is_held() == b.is_held() else _DECODED_OTHERWISE
        counts[kind][0] += 1
        if (here := round(fmean(by_corpus.values()), 2) or 0.0) > 0:  # a tie is in no order
            counts[kind][1] += 1
        elif kind != otherwise:
            names = " − ".join(f"{row.system}, {row.setting}" for row in (better, worse))
            each = ", ".join(f"{corpus} {gain:+.2f}" for corpus, gain in by_corpus.items())
            gain = f"{names}: {here:+.2f} here ({each if len(over) > 1 else over[0]}), {there:+.2f} there"
            if gain in listed:
                again.append(f"{names} (*{listed[gain]}*)")
                continue
            listed[gain] = heading
            (few if kind == _FEW_SEEDS else enough).setdefault(_why(better, worse, over), []).append(gain)
    counted = "; ".join(f"{kind}, {pairs} ({kept})" for kind, (pairs, kept) in counts.items() if pairs)
    if not counted:
        return "No two rows are measured over the same corpora."
    parts = [f"Pairs of rows with corpora in common, in brackets those in the published order: {counted}."]
    for others, seeds in (
        (enough, f"on {CLAIM_SEEDS} seeds or more"),
        (few, f"{_FEW_SEEDS}, where chance may be why"),
    ):
        if others:
            lines = "\n".join(f"- {'; '.join(gains)}; {why}." for why, gains in others.items())
            parts.append(f"Pairs in another order, {seeds}:\n\n{lines}")
    if again:
        parts.append(f"Also in another order, listed above: {'; '.join(again)}.")
    return "\n\n".join(parts)


def _pair(one: Sequence[_Row], two: Sequence[_Row]) -> tuple[_Row, _Row] | None:
    """Return what to compare of two published rows: measured over a common corpus, decoded alike if there is such."""
    pairs = [
        (a, b)
        for a, b in product(one, two)
        if (over := [corpus for corpus in a.ours if corpus in b.ours])
        and a.published_over(over) != b.published_over(over)
    ]
    return max(pairs, key=lambda pair: pair[0].is_held() == pair[1].is_held(), default=None)


def _why(better: _Row, worse: _Row, over: Sequence[str]) -> str:
    """Say what we know of why a row is not better than another here, over these corpora."""
    known = _WHY.get(((better.system, better.setting), (worse.system, worse.setting), over[0]))
    if known and better.has_order() and worse.has_order():
        return known
    unlike = _UNLIKE if better.is_held() != worse.is_held() else ""
    lacks = _WHY_NOT.get((better.system, over[0]), "")
    return "; ".join(filter(None, [unlike, lacks])) or "we do not know why"
