"""Saving and reading checkpoints: safetensors and JSON, never pickle; written to a temporary folder, then renamed.

A run's folder holds `state/` until it ends (weights, best weights, optimizer moments, random state) and `tagger/`
plus `result.json` when it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from crossner_core.errors import CheckpointError, StorageError
from crossner_core.folders import recover_folder, replace_folder, sync, what_helps, write_json

FORMAT_VERSION = 1
META = "meta.json"
TENSORS = "tensors.safetensors"


def write_folder(
    folder: Path, meta: Mapping[str, Any], tensors: Mapping[str, Tensor], extra: Callable[[Path], None] | None = None
) -> None:
    """Write a folder atomically; `extra(path)` may add files to it before it is moved into place."""

    def fill(beside: Path) -> None:
        if extra is not None:
            _add_files(extra, beside)
        save_file(_apart(tensors), beside / TENSORS)
        sync(beside / TENSORS)
        write_json(beside / META, {"format": FORMAT_VERSION, **meta})

    try:
        replace_folder(folder, fill)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The checkpoint {folder} cannot be written: {error}. {what_helps(error)}") from error


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the CPU, those that share memory copied: BART's two embeddings are one."""
    saved: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        saved[name] = own.clone() if own.data_ptr() in taken else own
        taken.add(own.data_ptr())
    return saved


def _add_files(extra: Callable[[Path], None], folder: Path) -> None:
    """Write additional files; tokenizers raises a bare Exception if it fails."""
    try:
        extra(folder)
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise OSError(str(error)) from error


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_folder` wrote; raise CheckpointError if it is missing, damaged or of another version."""
    recover_folder(folder)
    meta = read_json(folder / META)
    if meta.get("format") != FORMAT_VERSION:
        raise CheckpointError(
            f"Checkpoint {folder} has format {meta.get('format')!r}; supported is {FORMAT_VERSION}. Train it again."
        )
    try:
        return meta, load_file(folder / TENSORS)
    except FileNotFoundError as error:
        raise CheckpointError(f"Checkpoint {folder} has no {TENSORS}. Train it again.") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"Checkpoint {folder} is damaged: {error}. Delete it and train again.") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise CheckpointError if it is missing or damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint at {path.parent}: {path.name} is missing.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"Checkpoint file {path} is damaged: {error}. Delete it and train again.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"Checkpoint file {path} is damaged: not an object. Delete it and train again.")
    return values


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str]) -> dict[str, Tensor]:
    """Return the optimizer's moments by parameter name and kind."""
    return {
        f"{names[parameter]}|{kind}": value
        for parameter, state in optimizer.state.items()
        for kind, value in state.items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str], tensors: Mapping[str, Tensor]
) -> None:
    """Restore what `optimizer_tensors` returned."""
    parameters = {name: parameter for parameter, name in names.items()}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("|")
        if name not in parameters:
            raise CheckpointError(f"The saved optimizer has a weight {name!r} that this model lacks; start afresh.")
        optimizer.state[parameters[name]][kind] = value.to(parameters[name].device, copy=True)


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, to be sent to another process."""
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with `prefix/` before their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under `prefix/`, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}
