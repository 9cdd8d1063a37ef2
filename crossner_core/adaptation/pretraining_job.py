"""A pre-training as a job: prepared text, a state to resume from, and the encoder's folder at its end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_core.adaptation.blocks import HELD_OUT, TRAIN
from crossner_core.adaptation.prepared import Arrays
from crossner_core.adaptation.pretraining import (
    MEASURES,
    RESULT,
    Events,
    PretrainEvent,
    PretrainResult,
    ShouldStop,
    read_result,
)
from crossner_core.adaptation.pretraining_help import MakeTask, begin_run, share_run
from crossner_core.adaptation.pretraining_run import PretrainRun
from crossner_core.encoders import Encoder, encoder_fingerprint, quiet
from crossner_core.errors import BadInput, CheckpointError, CheckpointMismatch, InvalidConfig
from crossner_core.folders import check_writable, recover_folder, write_json
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.training.checkpoint import META, prefixed, read_folder, read_json, write_folder
from crossner_core.training.loop import STATE, STEPS_BETWEEN_EVENTS
from crossner_core.training.machine import PeakMemory
from crossner_core.training.precision import pick_device
from crossner_core.training.processes import present

PREPARED = "prepared"
# A killed run loses at most about this much work; where saving is slow, it takes a twentieth of the time at most.
SECONDS_BETWEEN_SAVES = 120.0
SAVING_SHARE = 0.05

# Options that a run whose loss was no number may go on with changed: how big its steps are, and in which numbers.
STEERING = ("learning_rate", "head_learning_rate", "head_first_learning_rate", "clip_norm", "precision")


class PretrainJob:
    """One job: `out` gets the encoder, `work` what is needed to get there and is emptied at the end."""

    def __init__(
        self, kind: str, options: PretrainOptions, out: Path, work: Path, provenance: Mapping[str, Any]
    ) -> None:
        present()  # refuses processes that do not know of each other, before anything is read
        self.kind, self.options, self.out, self.work = kind, options, Path(out), Path(work)
        self.provenance = dict(provenance)
        self.identity: dict[str, Any] = {}
        self.corpus_hash = ""
        self.steered: list[dict[str, Any]] = []
        self._saved_at, self._pause = time.monotonic(), SECONDS_BETWEEN_SAVES
        if self.out.resolve() == self.work.resolve():
            raise InvalidConfig(f"Encoder and work are both to lie in {self.out}; give the work another folder.")
        recover_folder(self.out, to_write=True)
        if self.out.exists() and not (self.out / RESULT).exists() and (self.out.is_file() or any(self.out.iterdir())):
            raise BadInput(f"{self.out} is there already and is no encoder that was pre-trained here; give another.")

    def identify(self, encoder: Encoder, **corpus: Any) -> None:
        """Say what this job is made of: a job with any other part is another job."""
        self.identity = {
            "kind": self.kind,
            "options": self.options.hash,
            "encoder": encoder.fingerprint,
            "corpus": {"named": self.provenance.get("corpus"), **corpus},
        }

    def forget(self) -> None:
        """Remove what an earlier run left in the work folder; its encoder stays until it is replaced."""
        for name in (STATE, PREPARED):
            shutil.rmtree(self.work / name, ignore_errors=True)

    def finished(self) -> PretrainEvent | None:
        """Return the last event of a job that ended here before; raise CheckpointMismatch if it was another one.

        One that was begun since, to replace it, goes on.
        """
        if not (self.out / RESULT).exists():
            return None
        begun = self.work / STATE / META
        if begun.exists() and read_json(begun).get("identity") == self.identity:
            return None
        self._check_same(self.out)
        result = read_result(self.out)
        message = "This pre-training was finished before."
        return PretrainEvent(result.steps, result.epochs, 0.0, result.after, message, 0.0, result, "done")

    def prepare(self, write: Callable[[Path, dict[str, Any]], Iterator[int]], should_stop: ShouldStop) -> Events:
        """Turn the corpus into numbers unless an earlier run did; the last event is "stopped" where it was told to.

        `write(folder, meta)` writes and yields how many subwords there are so far. Stopped half-way, it begins anew.
        """
        recover_folder(self.work / STATE, to_write=True)
        if (self.work / STATE).exists():
            self._check_same(self.work / STATE, may_steer=True)
        check_writable(self.work)
        check_writable(self.out.parent)
        folder = self.work / PREPARED
        if (folder / TRAIN / META).exists() and read_json(folder / TRAIN / META).get("identity") == self.identity:
            return
        count = 0
        for count in write(folder, {"identity": self.identity}):
            if should_stop():
                yield PretrainEvent(0, 0, 0.0, message="Stopped while the text was prepared.", outcome="stopped")
                return
            yield PretrainEvent(0, 0, 0.0, message=f"Text prepared: {count:,} subwords so far.")
        yield PretrainEvent(0, 0, 0.0, message=f"Text prepared: {count:,} subwords to train on.")

    def go(self, encoder: Encoder, make: MakeTask, should_stop: ShouldStop) -> Events:
        """Train from the saved state on; end with the event that carries the result."""
        folder = self.work / PREPARED
        held_out_hash = Arrays(folder / HELD_OUT).hash
        self.corpus_hash = Arrays(folder / TRAIN).hash
        self._peak = PeakMemory(pick_device(self.options.device))
        run = begin_run(self.options, make, encoder, folder)
        if (self.work / STATE).exists():
            meta, tensors = read_folder(self.work / STATE)
            if meta["corpus_hash"] != self.corpus_hash:
                raise CheckpointMismatch(
                    f"{self.work / STATE} was made with another corpus; give another folder or start without resuming "
                    "(--fresh)."
                )
            run.restore(meta["progress"], tensors)
            self.steered = list(meta.get("steered", ()))
            said = ""
            if changed := self._steered_from(meta):
                self.steered.append({"after_step": run.progress.step, "changed": changed})
                said = "".join(f" {name} is {to} now, {was} before." for name, (was, to) in changed.items())
            yield run.event(0.0, message=f"Resumed after step {run.progress.step}.{said}")
        share_run(run, make, encoder, folder)
        yield from self._drive(run, should_stop)
        if run.outcome == "done":
            run.restore_best()
            fresh: PretrainRun | None = None
            if self.options.refit_head and run.head_steps:
                self._save(run)  # stopped from here on, it goes on with the fresh head
                now = replace(encoder, model=run.task.model.encoder)
                fresh = begin_run(self.options, make, now, folder)
                share_run(fresh, make, now, folder)
                yield from self._refit(run, fresh, should_stop)
                if fresh.progress.before is None:
                    return
            hashes = {"corpus_hash": self.corpus_hash, "held_out_hash": held_out_hash}
            result = self._keep(run, encoder, hashes, refit=fresh.progress.before if fresh else None)
            self.forget()
            name = MEASURES[self.kind][0]
            said = f"Done: held-out {name} {result.before:.4g} before, {result.after:.4g} after"
            said += f", {result.refit:.4g} through a fresh head." if result.refit is not None else "."
            yield replace(run.event(0.0, result.after, said), result=result, outcome="done")

    def _drive(self, run: PretrainRun, should_stop: ShouldStop) -> Events:
        """Forward a run's events; save now and then, when told to stop and when the loss is no number."""
        for event in run.run():
            if run.outcome == "not_finite":
                yield self._broken(run, event)
                return
            if should_stop():
                self._save(run)
                message = "Stopped on request; the state is saved."
                yield replace(event, message=message, outcome="stopped")
                return
            if time.monotonic() - self._saved_at > self._pause:
                self._save(run)
            steps = run.progress.head_step + run.progress.step
            if event.measured is not None or steps % STEPS_BETWEEN_EVENTS == 0:
                yield event

    def _refit(self, run: PretrainRun, fresh: PretrainRun, should_stop: ShouldStop) -> Events:
        """Let a fresh head learn alone on the encoder as it is now, and measure; the encoder is not changed."""
        for event in fresh.run():
            if fresh.outcome == "not_finite":
                yield self._broken(run, event)
                return
            if event.measured is not None:
                yield run.event(0.0, event.measured, f"Through a fresh head: {event.message.partition(': ')[2]}")
                return
            if should_stop():
                yield replace(run.event(0.0), message="Stopped on request; the state is saved.", outcome="stopped")
                return
            if fresh.progress.head_step % STEPS_BETWEEN_EVENTS == 0:
                yield run.event(0.0, message=f"A fresh head learns: step {fresh.progress.head_step}.")

    def _save(self, run: PretrainRun, *, broken: bool = False) -> None:
        began = time.monotonic()
        meta = {
            "identity": self.identity,
            "corpus_hash": self.corpus_hash,
            "progress": run.plain_progress(),
            "options": self.options.to_dict(),
            "steered": self.steered,
            "broken": broken,
        }
        write_folder(self.work / STATE, meta, run.tensors())
        self._saved_at = time.monotonic()
        self._pause = max(SECONDS_BETWEEN_SAVES, (self._saved_at - began) / SAVING_SHARE)

    def _broken(self, run: PretrainRun, event: PretrainEvent) -> PretrainEvent:
        """Keep the weights of the step before, if they are any good, else what was saved last; say where."""
        state = self.work / STATE
        if run.is_sound():
            self._save(run, broken=True)
        elif state.exists():
            write_json(state / META, {**read_json(state / META), "broken": True})
        where = f" The weights before it are kept in {state}." if state.exists() else " Nothing was kept."
        return replace(event, message=event.message + where, outcome="not_finite")

    def _keep(
        self, run: PretrainRun, encoder: Encoder, hashes: Mapping[str, str], *, refit: float | None
    ) -> PretrainResult:
        """Write the encoder's folder: config, tokenizer, weights, the head beside them, and the result."""
        progress, model = run.progress, run.task.model
        assert progress.before is not None
        if self.options.recompute:
            model.encoder.activation_checkpointing_disable()
        provenance = {
            **self.provenance,
            "base": {"name": encoder.name, "fingerprint": encoder.fingerprint},
            "fingerprint": encoder_fingerprint(model.encoder, encoder.tokenizer, encoder.max_length),
            "options": self.options.to_dict(),
            "processes": run.processes.size,
            "head_first_steps": progress.head_step,
            "kept_step": progress.best_step if run.best is not None else progress.step,
            **({"steered": self.steered} if self.steered else {}),
            **hashes,
            **run.task.about(),
        }
        result = PretrainResult(
            kind=self.kind,
            encoder=str(self.out),
            before=progress.before,
            after=run.after,
            measure=MEASURES[self.kind][0],
            steps=progress.step,
            epochs=-(-progress.step // run.epoch_steps),
            tokens=progress.tokens,
            seconds=progress.seconds,
            refit=refit,
            peak_memory_mb=self._peak.megabytes(),
            provenance=provenance,
            history=tuple(progress.history),
        )

        def add_files(beside: Path) -> None:
            with quiet():
                model.encoder.save_pretrained(beside)
                run.task.tokenizer.save_pretrained(beside)
            write_json(beside / RESULT, result.to_dict())

        write_folder(self.out, {"identity": self.identity}, prefixed("head", model.head.state_dict()), add_files)
        return result

    def _check_same(self, folder: Path, *, may_steer: bool = False) -> None:
        meta = read_json(folder / META)
        there = meta.get("identity")
        if not isinstance(there, dict):
            raise CheckpointError(f"{folder} says nothing of what it was made with; give another folder.")
        other = sorted(name for name in self.identity if there.get(name) != self.identity[name])
        if other == ["options"] and may_steer and self._steered_from(meta):
            return
        if other:
            raise CheckpointMismatch(
                f"{folder} was made with another {' and another '.join(other)}; give another folder or start without "
                "resuming (--fresh)."
            )

    def _steered_from(self, meta: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the options, before and now, with which a broken run goes on changed; none if another one differs."""
        then, now = meta.get("options"), self.options.to_dict()
        if not meta.get("broken") or not isinstance(then, dict):
            return {}
        changed = {name: [then.get(name), now[name]] for name in now if then.get(name) != now[name]}
        return changed if changed.keys() <= set(STEERING) else {}
