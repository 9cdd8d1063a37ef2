"""The papers' baselines beside BERT taggers, trained jointly: BiLSTM-CRF, Coach, the cross-domain language model of Jia
et al. 2019, FLAIR where its character models are given, BARTNER, and the multi-cell LSTM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crossner_core.encoders.names import FLAIR, WORDS
from crossner_core.experiments.published import DOMAINS, LIU, dapt_system, printed, published_f1
from crossner_core.experiments.studies._grid import Row, asked_for, each_encoder, grid_study, joined
from crossner_core.experiments.study import StudyConfig
from crossner_core.experiments.tables import Table
from crossner_core.options.base import option

BILSTM, COACH, JIA, CELLS = "BiLSTM-CRF", "Coach", "Jia et al. 2019", "Multi-cell LSTM"
CHARACTERS, WRITER = "FLAIR", "BARTNER"
WORD, BOTH, CASED = "word", "word+char", "word, case as in the file"
# Ten epochs on encoders too: of decoder or cells, which are new, dev F1 still rises steeply after the usual two.
_JOINT: Mapping[str, Any] = {"upsample": 10, "dropout": 0.5, "source_epochs": 10}
WORD_RATES: Mapping[str, Any] = {
    "source_learning_rate": 1e-3,
    "source_head_learning_rate": 1e-3,
    "transition_rate_scale": 1.0,
}
"""One rate for all that is learned, as in the released code."""
_WORDS: Mapping[str, Any] = {**WORD_RATES, "source_batch_size": 32}
_BODIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    BILSTM: ("bilstm_crf", {"lstm_size": 256, "lstm_layers": 2}),
    COACH: (
        "coach",
        {"lstm_size": 256, "lstm_layers": 2, "span_size": 200, "type_rows": False, "type_texts": "titles"},
    ),
    JIA: (
        "bilstm_crf",
        {"setting": "cross_domain_lm", "source_batch_size": 30, "lstm_size": 100, "lstm_layers": 1},
    ),
    CHARACTERS: ("bilstm_crf", {"lstm_size": 256, "lstm_layers": 1}),
    WRITER: ("bartner", {"dropout": 0.3}),
    CELLS: ("multi_cell", {}),
}
"""Architecture and options of each baseline, where the recipe does not say otherwise; its setting if not `joint`."""


@dataclass(frozen=True)
class BaselinesConfig(StudyConfig):
    """The word vectors of the rows that read words; `encoders` are those of BARTNER and the multi-cell LSTM."""

    words: str = option("glove", "Word vectors: a text file, glove (the package's), or size=N for random ones.")
    chars: str = option("cnn", "What reads the characters.", choices=("cnn", "lstm"))
    flair: str = option("", "Folder of FLAIR's character models, trained or converted; without one FLAIR has no row.")


def rows(config: BaselinesConfig) -> list[Row]:
    """Return baselines × what they read, each against the same with words alone and against the BiLSTM-CRF."""
    words = {WORD: f"{WORDS}:{config.words}", BOTH: f"{WORDS}:{config.words},chars={config.chars}"}
    made = [_of_words(config, body, read, words[read]) for body in (BILSTM, COACH) for read in words]
    if _of_file(config):
        known, base = published_f1(f"{BILSTM} {WORD}", "joint"), joined(BILSTM, WORD)
        cased = Row(
            joined(BILSTM, CASED), made[0].changes, f"{words[WORD]},case=exact", published=known, against=(base,)
        )
        made.insert(1, cased)
    made += [_of_words(config, JIA, BOTH, words[BOTH]), _of_words(config, CELLS, WORD, words[WORD])]
    if config.flair:
        made.append(_of_words(config, CHARACTERS, BOTH, f"{FLAIR}:{config.flair},words={config.words}"))
    for label, encoder in each_encoder(config):
        for body, against in ((WRITER, ()), (CELLS, (joined(CELLS, WORD),))):
            known = published_f1(dapt_system(label, encoder).replace("BERT-base", body), "joint")
            own = _changes(config, body, {})
            made.append(Row(joined(body, "encoder", label), own, encoder, published=known, against=against))
    return made


def _of_words(config: BaselinesConfig, body: str, read: str, encoder: str) -> Row:
    against = [joined(body, WORD)] if read != WORD and body in (BILSTM, COACH) else []
    against += [joined(BILSTM, read)] if body != BILSTM else []
    known = published_f1(body if body in (JIA, CHARACTERS) else f"{body} {read}", "joint")
    return Row(joined(body, read), _changes(config, body, _WORDS), encoder, published=known, against=tuple(against))


def _changes(config: BaselinesConfig, body: str, usual: Mapping[str, Any]) -> dict[str, Any]:
    architecture, own = _BODIES[body]
    chosen = {name: value for name, value in {**_JOINT, **usual, **own}.items() if name not in config.recipe}
    return {"setting": "joint", **chosen, "architecture": architecture}


def _notes(config: BaselinesConfig) -> list[str]:
    """Return what sets the rows that are shown apart from the papers'."""
    shown = asked_for(config, rows(config))
    of_words = [row for row in shown if row.encoder.startswith(WORDS)]
    notes = ["All learn for ten epochs, on encoders too."]
    if of_words:
        notes.append(
            "Word vectors of CrossNER's released code have 300 dimensions, its characters are n-gram vectors of a "
            "release; its rate is constant, without weight decay, and nothing is dropped before the head. In politics "
            "the BiLSTM-CRF's dropout is 0.3; here it is 0.5 everywhere. Coach's rate is 1e-4 there and 1e-3 here, as "
            "music's dev set chose: in ten epochs 1e-4 is too slow."
        )
    if any(row.label.startswith(JIA) for row in shown):
        notes.append(
            "The language models of Jia et al. 2019 read the domain's raw text there (music: 195 million tokens), here "
            "the labelled sentences alone."
        )
    if _of_file(config) and any(row.label.startswith((BILSTM, COACH)) for row in of_words):
        notes.append(
            "The released code of BiLSTM-CRF and Coach looks words up as they are written, among vectors of lower-case "
            "words, so that names have none of these. So does the row 'case as in the file'; the others also look in "
            "lower case."
        )
    return notes


def _printed() -> tuple[Table, ...]:
    """Return what the paper prints of baselines: BERT's rows stand beside the study *transfer*."""
    return tuple(
        replace(table, rows=tuple(row for row in table.rows if not str(row[0]).startswith("BERT")))
        for table in printed(LIU)
    )


def _of_file(config: BaselinesConfig) -> bool:
    """Return whether word vectors are read, not drawn at random."""
    return bool(config.words) and not config.words.startswith("size=")


grid_study(
    "baselines",
    rows,
    BaselinesConfig,
    title="The papers' baselines",
    question="What do the papers' baselines on word vectors, and the multi-cell LSTM, reach here?",
    reference="Liu et al. 2021 (CrossNER), table 2, baseline models",
    corpora=DOMAINS,
    notes=_notes,
    published=_printed(),
)
