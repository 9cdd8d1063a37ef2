"""CPU tensors that claim to be on a GPU, so that code for a GPU runs, and fails where its tensors are on two devices.

While `claimed_gpu()` is active, PyTorch seems to have one GPU. Which tensors are on it is kept by storage. Each
operation checks that its tensors are on one device, and its results are there too; what PyTorch allows between devices
is allowed: copies, CPU scalars of no dimension, CPU indices into a GPU tensor. Random numbers of the GPU come from a
generator of its own. What no CPU can show stays unseen: kernels, cuDNN but for one of its refusals, NCCL, bf16, speed.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")

# Operations whose lengths or batch sizes must be on the CPU, by the place of that argument.
_LENGTHS = {"_pack_padded_sequence": 1, "_pack_padded_sequence_backward": 2, "_pad_packed_sequence": 1, "lstm.data": 1}
_COPIES = {"copy_", "_to_copy"}
_INDEXING = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
_FROM_DATA = {"tensor", "as_tensor", "asarray"}
_RANDOM = {"bernoulli", "bernoulli_", "uniform_", "normal_", "random_", "multinomial", "native_dropout", "rand_like"}
# What no GPU does in one order: of what PyTorch lists under `use_deterministic_algorithms`, what is like ours.
_UNORDERED = {"nll_loss2d_forward", "nll_loss2d_backward", "put_", "histc", "kthvalue", "_ctc_loss_backward"}
_WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}


def _is_unordered(func: Any, name: str, args: Any) -> bool:
    """Return whether a GPU adds or chooses in any order, so that PyTorch refuses it in deterministic mode."""
    if name == "cumsum":
        return bool(args[0].is_floating_point())
    if name == "bincount":
        return len(args) > 1 and isinstance(args[1], Tensor)  # weights
    return name in _UNORDERED or (name == "median" and func._overloadname == "dim")


class TwoDevices(RuntimeError):
    """An operation was given tensors of the CPU and of the GPU."""


class ClaimedGpu(TorchDispatchMode):
    """The devices of storages, and where the host waited for the GPU: `waits` counts by place in this repository."""

    def __init__(self) -> None:
        super().__init__()
        self._ours: dict[int, tuple[StorageWeakRef, bool | None]] = {}
        self._purge_at = 10_000
        self.waits: Counter[str] = Counter()
        self.generator = torch.Generator().manual_seed(0).get_state()

    def is_gpu(self, tensor: Tensor) -> bool:
        """Whether a tensor claims to be on the GPU."""
        return self._side(tensor) is True

    def claim(self, result: Any, gpu: bool | None) -> Any:
        """Put all tensors of a result on a device; None leaves open which, for what C++ made inside an operation."""
        for tensor in _tensors([result]):
            storage = tensor.untyped_storage()
            self._ours[storage._cdata] = (StorageWeakRef(storage), gpu)
        if len(self._ours) > self._purge_at:
            self._ours = {key: value for key, value in self._ours.items() if not value[0].expired()}
            self._purge_at = 2 * len(self._ours) + 10_000
        return result

    def wait(self, what: str) -> None:
        """Count that the host waits for the GPU."""
        self.waits[f"{_place()} {what}"] += 1

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from the GPU's generator inside the block."""
        before = _REAL["get_rng_state"]()
        _REAL["set_rng_state"](self.generator)
        try:
            yield
        finally:
            self.generator = _REAL["get_rng_state"]()
            _REAL["set_rng_state"](before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "lstm" and func._overloadname == "data":
            name = "lstm.data"
        given = [*args, *kwargs.values()]
        if name == "set_":  # the storage keeps its device
            return func(*args, **kwargs)
        if not _tensors(given):
            return self.claim(func(*args, **kwargs), None)
        if name in _COPIES:
            if name == "copy_" and self.is_gpu(args[1]) and self._side(args[0]) is False:
                self.wait("copy_")
            result = func(*args, **kwargs)
            return result if name == "copy_" else self.claim(result, self._side(args[0]))
        gpu = self._checked(name, args, given)
        if gpu and torch.are_deterministic_algorithms_enabled() and _is_unordered(func, name, args):
            raise RuntimeError(f"{name} does not have a deterministic implementation on a GPU ({_place()})")
        if gpu and (name in _WAITS or self._masks(name, args)):
            self.wait(name)
        if name in _INDEXING and self.is_gpu(args[0]):
            for index in _tensors(list(args[1])):
                if not self.is_gpu(index) and index.dim():
                    self.wait(f"{name} to the GPU")
        if gpu and name in _RANDOM:
            with self.drawing():
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        if name in _LENGTHS and name.endswith("sequence"):
            return self.claim(result[0], gpu), self.claim(result[1], False)
        return self.claim(result, gpu)

    def _checked(self, name: str, args: Any, given: list[Any]) -> bool | None:
        """Return the device of an operation; raise TwoDevices if it has two."""
        if name in _LENGTHS:
            place = _LENGTHS[name]
            if self.is_gpu(args[place]):
                raise TwoDevices(f"{name}: its lengths must be on the CPU ({_place()})")
            given = [value for number, value in enumerate(args) if number != place]
        if name in _INDEXING and self.is_gpu(args[0]):  # CPU indices into a GPU tensor are moved
            given = [args[0], *args[2:3]]
        scalars = [value for value in given if isinstance(value, Tensor) and value.dim() == 0]
        strict = [tensor for tensor in _tensors(given) if not any(tensor is scalar for scalar in scalars)]
        sides = {self._side(tensor) for tensor in strict} - {None}
        if len(sides) == 2:
            shapes = [f"{'GPU' if self.is_gpu(each) else 'CPU'} {tuple(each.shape)}" for each in strict]
            raise TwoDevices(f"{name} has tensors on two devices: {', '.join(shapes)} ({_place()})")
        alone = {self._side(scalar) for scalar in scalars}
        if sides == {False} and True in alone:
            raise TwoDevices(f"{name} puts a GPU scalar into a CPU tensor ({_place()})")
        return True if True in sides | alone else False if False in sides | alone else None

    def _masks(self, name: str, args: Any) -> bool:
        """Whether an indexing is by a mask of the GPU, whose number of places the host must know."""
        if name not in _INDEXING:
            return False
        return any(
            isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) and self.is_gpu(index)
            for index in args[1]
        )

    def _side(self, tensor: Tensor) -> bool | None:
        known = self._ours.get(tensor.untyped_storage()._cdata)
        return False if known is None else known[1]  # a weak reference keeps an address from being used again


_REAL: dict[str, Any] = {"get_rng_state": torch.get_rng_state, "set_rng_state": torch.set_rng_state}


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among values and in lists of them."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += _tensors(value)
    return tensors


def _place() -> str:
    """Return the innermost function of this repository's own code that is running, or of whatever runs."""
    frame: FrameType | None = sys._getframe(1)
    names = []
    while frame is not None:
        file = frame.f_code.co_filename
        if "claimed_device" not in file:
            names.append(f"{file.rpartition('/')[2]}:{frame.f_code.co_name}")
            if "/crossner_core/" in file and "/tests/" not in file:
                return names[-1]
        frame = frame.f_back
    return names[0]


def _asked(device: Any) -> bool:
    """Whether a device that is asked for is the GPU."""
    return device is not None and torch.device(device).type == "cuda"


def _factory(gpu: ClaimedGpu, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function such as torch.zeros that puts what it makes on the device asked for."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        asked = _asked(kwargs.pop("device", None))
        if make.__name__ in _FROM_DATA:
            asked = asked or any(gpu.is_gpu(like) for like in _tensors(args[:1]))
        if not asked:
            return gpu.claim(make(*args, **kwargs), False)
        if make.__name__ in _FROM_DATA and not any(gpu.is_gpu(like) for like in _tensors(args[:1])):
            gpu.wait(f"{make.__name__} to the GPU")
        with gpu.drawing():
            return gpu.claim(make(*args, **kwargs), True)

    return made


def _like(gpu: ClaimedGpu, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function such as new_zeros or zeros_like, on its tensor's device unless another is asked for."""

    @functools.wraps(make)
    def made(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        wanted = gpu.is_gpu(self) if device is None else _asked(device)
        if not wanted:
            return gpu.claim(make(self, *args, **kwargs), False)
        with gpu.drawing():
            return gpu.claim(make(self, *args, **kwargs), True)

    return made


class _Moves:
    """The methods of a tensor that move it or read it."""

    def __init__(self, gpu: ClaimedGpu) -> None:
        self.gpu, self.real_to, self.real_clone = gpu, Tensor.to, Tensor.clone

    def to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):
            other = args[0]
            return self.to(tensor, GPU if self.gpu.is_gpu(other) else CPU, other.dtype, *args[1:], **kwargs)
        device, rest = kwargs.pop("device", None), list(args)
        if rest and (rest[0] is None or isinstance(rest[0], (str, int, torch.device))):
            device = rest.pop(0)
        here = self.gpu.is_gpu(tensor)
        wanted = here if device is None else _asked(device)
        moved = self.real_to(tensor, *([] if device is None else [CPU]), *rest, **kwargs)
        if wanted == here:
            return moved
        if not kwargs.get("non_blocking"):
            self.gpu.wait("to" if here else "to the GPU")
        return self.gpu.claim(self.real_clone(moved), wanted)

    def read(self, name: str) -> Callable[..., Any]:
        real = getattr(Tensor, name)

        @functools.wraps(real)
        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.gpu.is_gpu(tensor):
                if name == "numpy":
                    raise TypeError(f"can't convert cuda:0 device type tensor to numpy ({_place()})")
                self.gpu.wait(name)
            return real(tensor, *args, **kwargs)

        return read


@contextmanager
def claimed_gpu() -> Iterator[ClaimedGpu]:
    """Let PyTorch seem to have a GPU inside the block."""
    gpu = ClaimedGpu()
    moves = _Moves(gpu)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(CUDA|cuDNN).*")
        for make in _device_constructors():
            name = getattr(make, "__name__", "")
            if getattr(torch, name, None) is make:
                patch.setattr(torch, name, (_like if name.endswith("_like") else _factory)(gpu, make))
        patch.setattr(torch, "from_numpy", _factory(gpu, torch.from_numpy))
        for name in ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"):
            patch.setattr(Tensor, name, _like(gpu, getattr(Tensor, name)), raising=False)
        for name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"):
            patch.setattr(torch, name, _like(gpu, getattr(torch, name)))
        patch.setattr(Tensor, "device", property(lambda self: GPU if gpu.is_gpu(self) else CPU), raising=False)
        patch.setattr(Tensor, "is_cuda", property(gpu.is_gpu), raising=False)
        patch.setattr(Tensor, "is_cpu", property(lambda self: not gpu.is_gpu(self)), raising=False)
        patch.setattr(Tensor, "to", lambda self, *args, **kwargs: moves.to(self, *args, **kwargs), raising=False)
        patch.setattr(Tensor, "cpu", lambda self, *_: moves.to(self, CPU), raising=False)
        patch.setattr(Tensor, "cuda", lambda self, *_, **__: moves.to(self, GPU), raising=False)
        patch.setattr(Tensor, "pin_memory", lambda self, *_: self, raising=False)
        for name in ("numpy", "tolist"):
            patch.setattr(Tensor, name, moves.read(name), raising=False)
        copied = Tensor.__deepcopy__
        patch.setattr(Tensor, "__deepcopy__", lambda self, memo: gpu.claim(copied(self, memo), gpu.is_gpu(self)))
        _patch_groups(patch, gpu)
        _patch_cuda(patch, gpu)
        _patch_cudnn(patch, gpu)
        with gpu:
            yield gpu


def _patch_groups(patch: pytest.MonkeyPatch, gpu: ClaimedGpu) -> None:
    """Let the optimizer and clipping see the claimed device of the tensors that they group by device."""
    real = torch._C._group_tensors_by_device_and_dtype

    def grouped(lists: Any, with_indices: bool = False) -> Any:
        made = {}
        for (device, dtype), (tensors, indices) in real(lists, with_indices).items():
            whole = [[each for each in row if each is not None] for row in tensors]
            sides = {gpu.is_gpu(row[0]) for row in whole if row}
            made[GPU if True in sides else device, dtype] = (tensors, indices)
        return made

    patch.setattr(torch._C, "_group_tensors_by_device_and_dtype", grouped)


def _patch_cuda(patch: pytest.MonkeyPatch, gpu: ClaimedGpu) -> None:
    """Let `torch.cuda` answer as on a machine with one GPU."""

    def get_state(_: Any = None) -> Tensor:
        return gpu.claim(gpu.generator.clone(), False)

    def set_state(state: Tensor, _: Any = None) -> None:
        gpu.generator = state.clone()

    def seed(number: int) -> None:
        gpu.generator = torch.Generator().manual_seed(number).get_state()

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "claimed GPU",
        "is_bf16_supported": lambda **_: False,
        "reset_peak_memory_stats": lambda *_: None,
        "max_memory_allocated": lambda *_: 0,
        "get_rng_state": get_state,
        "set_rng_state": set_state,
        "manual_seed": seed,
        "manual_seed_all": seed,
        "is_current_stream_capturing": lambda: False,
        "device": lambda *_: nullcontext(),
        "_initialized": True,
    }
    for name, answer in answers.items():
        patch.setattr(torch.cuda, name, answer)


def _patch_cudnn(patch: pytest.MonkeyPatch, gpu: ClaimedGpu) -> None:
    """Let an LSTM in evaluation mode refuse its backward pass on the GPU, as cuDNN does unless it is off."""
    real = torch._VF.lstm

    def refuse(_: Tensor) -> None:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")

    def lstm(*args: Any) -> Any:
        result = real(*args)
        training = args[7] if isinstance(args[1], Tensor) else args[6]
        states = result[0]
        if gpu.is_gpu(args[0]) and torch._C._get_cudnn_enabled() and not training and states.requires_grad:
            states.register_hook(refuse)
        return result

    patch.setattr(torch._VF, "lstm", lstm, raising=False)


def whole_on_gpu(gpu: ClaimedGpu, model: nn.Module) -> bool:
    """Whether all weights and buffers of a model are on the GPU."""
    return all(gpu.is_gpu(value) for value in model.state_dict().values())
