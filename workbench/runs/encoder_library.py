"""The folder of pre-trained encoders: their orders, work folders, and the log kept with each.

`encoders/NAME` is an encoder as `load_encoder` takes it, with `pretraining.json` (cost and gains) and
`log.jsonl`. `encoders/.jobs/KEY` is the work folder of one that is being made, and is removed when it is done.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import MEASURES, PretrainEvent
from crossner_core.encoders.names import BUNDLED, FLAIR, TRANSFORMER
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.folders import is_name
from crossner_core.options.character_models import NEW, WITHOUT_EFFECT, CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.records import Record
from workbench.runs.pretraining_sources import Source

DAPT, TAGGING, CHARACTERS = "dapt", "entity_tagging", "character_models"
Options = DaptOptions | TaggingPretrainOptions | CharacterModelOptions


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to pre-train: its options, what it trains, and how an encoder so made is described.

    `body` is the kind of encoder that it starts from and makes, unless it starts from the word `anew`. It reads text,
    or with `on_labels` labelled sentences. Options in `leave` have no effect.
    """

    options: type[Options]
    how: str
    """Words, with options in braces."""
    starts_from: str
    body: str = TRANSFORMER
    anew: str | None = None
    on_labels: bool = False
    leave: tuple[str, ...] = ()


_BERT_LIKE = "a BERT-like encoder: minilm, one pre-trained here, a folder, or a hub name"
KINDS: Mapping[str, Kind] = {
    DAPT: Kind(DaptOptions, "DAPT with {masking} masking", _BERT_LIKE),
    TAGGING: Kind(TaggingPretrainOptions, "entity tagging", _BERT_LIKE, on_labels=True),
    CHARACTERS: Kind(
        CharacterModelOptions,
        "character models",
        f"{NEW}, or other character models: some pre-trained here, or a folder of some",
        body=FLAIR,
        anew=NEW,
        leave=WITHOUT_EFFECT,
    ),
}
LOG = "log.jsonl"
_JOBS = ".jobs"
# A step without a message is logged at most this often.
_SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True, slots=True)
class Order(Record):
    """A requested pre-training; `key` names its work folder, `made_by` the person."""

    name: str
    kind: str
    options: Mapping[str, Any]
    source: Source
    key: str
    made_by: str

    @property
    def base(self) -> str | None:
        """The encoder it starts from; None if it makes a new one."""
        name = str(self.options["encoder"])
        return None if name == KINDS[self.kind].anew else name

    @property
    def how(self) -> str:
        """Describe how the encoder is made."""
        return f"{KINDS[self.kind].how.format_map(self.options)} on {self.source.words}"

    @property
    def parsed_options(self) -> Options:
        """The options, checked."""
        return KINDS[self.kind].options.from_dict(self.options)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a pre-training's log; `at` in seconds since 1970, `measured` by its kind's measure, F1 in [0, 1]."""

    at: float
    step: int
    epoch: int
    loss: float | None
    measured: float | None
    message: str
    tokens_per_second: float = 0.0


def line_text(line: LogLine, kind: str) -> str:
    """Format a log line for people, without its time."""
    measure, _, unit = MEASURES[kind]
    return (
        f"pass {line.epoch:>2}  step {line.step:>7,}"
        + (f"  loss {line.loss:.4f}" if line.loss is not None else "")
        + (f"  {measure_title(measure)} {figure(measure, line.measured)}" if line.measured is not None else "")
        + (f"  {line.tokens_per_second:,.0f} {unit}/s" if line.tokens_per_second else "")
        + (f"  {line.message}" if line.message else "")
    )


def measure_title(measure: str) -> str:
    """Return what people read for a measure."""
    return "held-out F1, %" if measure == "f1" else f"held-out {measure}"


def figure(measure: str, value: float) -> str:
    """Format a measured value: an F1 in percent, any other as it is."""
    if measure == "f1":
        return f"{100 * value:.2f}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def check_name(name: str) -> None:
    """Raise InvalidConfig for a name that cannot be an encoder's."""
    taken = {BUNDLED: "it is the bundled encoder's", NEW: "it stands for models trained anew"}
    if not is_name(name) or name in taken:
        why = taken.get(name, "use up to 60 letters, digits, - _ and .")
        raise InvalidConfig(f"The name {name!r} cannot be given to an encoder: {why}; for example dapt-music.")


def work_folder(library: Path, key: str) -> Path:
    """The folder in which an encoder is made."""
    return library / _JOBS / key


def remove_work_folder(library: Path, key: str) -> None:
    """Remove the folder in which an encoder was made."""
    shutil.rmtree(work_folder(library, key), ignore_errors=True)


class PretrainLog:
    """The log of a pre-training as a file of JSON lines; on resume, the steps to be repeated are dropped first."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG
        self._is_first, self._written = True, 0.0

    def write(self, event: PretrainEvent) -> None:
        """Log an event if it has a message or a measurement; of the others, only one now and then."""
        if self._is_first and event.step:
            self._forget_after(event.step if event.message else event.step - 1)
        self._is_first = self._is_first and not event.step
        now = time.monotonic()
        matters = event.measured is not None or event.outcome or (event.message and event.step)
        if not matters and now - self._written < _SECONDS_BETWEEN_LINES:
            return
        self._written = now
        loss = event.loss if math.isfinite(event.loss) and event.loss else None
        self._append(
            LogLine(time.time(), event.step, event.epoch, loss, event.measured, event.message, event.tokens_per_second)
        )

    def say(self, message: str) -> None:
        """Write a line of the worker's own."""
        self._append(LogLine(time.time(), 0, 0, None, None, message))

    def _append(self, line: LogLine) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")

    def _forget_after(self, step: int) -> None:
        kept = [line for line in read_log(self.path.parent) if line.step <= step or line.message]
        beside = self.path.with_name(f".{LOG}.{os.getpid()}")
        beside.write_text("".join(json.dumps(asdict(line)) + "\n" for line in kept), encoding="utf-8")
        beside.replace(self.path)


def read_log(folder: Path) -> tuple[LogLine, ...]:
    """Read a log; a last line that was cut off by a crash is skipped."""
    try:
        text = (folder / LOG).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The log {folder / LOG} cannot be read: {error}.") from error
    whole = text.split("\n")[:-1]
    try:
        return tuple(LogLine(**json.loads(line)) for line in whole if line)
    except (ValueError, TypeError) as error:
        raise BadInput(f"The log {folder / LOG} is damaged: {error}.") from error
