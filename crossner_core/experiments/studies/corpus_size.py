"""The corpus-size curve: encoders further pre-trained on growing shares of the domain's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.pretrained import DaptConfig
from crossner_core.experiments.published import dapt_system, published_f1
from crossner_core.experiments.studies._grid import Row, grid_study, joined

_LABEL = re.compile(r"(?:(?P<masking>[a-z]+(?:-[a-z]+)?)-)?(?P<percent>\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class CorpusSizeConfig(DaptConfig):
    """Encoders by the share of text they saw, in percent: 0=minilm span-1=… span-25=… span-100=….

    With `dapt_corpus` or `dapt_text` the encoders of the paper's curve are pre-trained.
    """

    bare: ClassVar[str] = "0"
    usual_ways: ClassVar[tuple[str, ...]] = ("span-1", "span-25", "span-50", "span-75", "span-100")
    usual_ways_of_text: ClassVar[tuple[str, ...]] = usual_ways


def rows(config: CorpusSizeConfig) -> list[Row]:
    """Return settings × encoders, each against the smallest share in the same setting."""
    shares = [(*_parsed(label), label, encoder) for label, encoder in config.labelled_encoders.items()]
    least = min(shares, key=lambda share: share[1])[2] if shares else ""
    # An encoder without further pre-training begins every line.
    maskings = sorted({masking for masking, percent, *_ in shares if percent}) or [""]
    made = []
    for setting in config.settings:
        for masking, percent, label, encoder in sorted(shares, key=lambda share: share[:2]):
            known = published_f1(_system(masking, percent, encoder), setting)
            against = (joined(setting, least),) if label != least else ()
            for line in [masking] if percent else maskings:
                row = Row(
                    joined(setting, label), {"setting": setting}, encoder, published=known, against=against,
                    line=joined(setting, line), x=percent,
                )  # fmt: skip
                made.append(row)
    return made


def _parsed(label: str) -> tuple[str, float]:
    match = _LABEL.fullmatch(label)
    if match is None or float(match["percent"]) > 100:
        raise InvalidConfig(f"Encoder label {label!r} gives no share; write a percentage, as in 25 or span-25.")
    return match["masking"] or "", float(match["percent"])


def _system(masking: str, percent: float, encoder: str) -> str:
    if percent in (0, 100):
        whole = masking if "-" in masking else f"{masking or 'span'}-integrated"
        return dapt_system(whole if percent else "", encoder)
    return ""


def _checked_rows(config: CorpusSizeConfig) -> list[Row]:
    if not config.labelled_encoders:
        raise InvalidConfig(
            "encoders is empty; give one for each share of the text in percent, as in 0=minilm span-25=FOLDER "
            "span-100=FOLDER (FOLDER may hold {corpus}), or set dapt_corpus or dapt_text to pre-train them."
        )
    return rows(config)


grid_study(
    "corpus_size",
    _checked_rows,
    CorpusSizeConfig,
    title="Size of the pre-training corpus",
    question="How much text of the domain does further pre-training of the encoder need?",
    reference="Liu et al. 2021 (CrossNER), figure 2",
    corpora=("music",),
    axis="share of the corpus (%)",
)
