"""Where the time of computing goes: shares by the kind of operation, on one thread."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

PRODUCTS = ("matrix products", "PyTorch's LSTM")
"""What no other way of writing the same thing would save."""
KINDS: dict[str, tuple[str, ...]] = {
    "matrix products": ("addmm", "addmm_", "mm", "bmm", "baddbmm", "baddbmm_"),
    "PyTorch's LSTM": ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"),
    "attention": ("_scaled_dot_product_flash_attention_for_cpu", "_softmax", "_softmax_backward_data"),
    "GELU and norms": ("gelu", "gelu_backward", "native_layer_norm", "native_layer_norm_backward"),
    "elementwise": (
        *("sigmoid", "sigmoid_", "sigmoid_backward", "tanh", "tanh_backward", "mul", "mul_", "add", "add_", "sub_"),
        *("addcmul_", "sum"),
    ),
    "lookups and copies": ("index_select", "index", "gather", "scatter_", "embedding", "copy_", "cat"),
    "filling with zeros": ("fill_", "zero_"),
    "optimizer": ("_fused_adamw_", "linalg_vector_norm"),
}
_LEAST = 0.03


def shares(work: Callable[[], object]) -> tuple[str, float]:
    """Return the shares of a call's time by kind in words, those above three percent first; and that of PRODUCTS."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work()
        with profile(activities=[ProfilerActivity.CPU]) as measured:
            work()
    finally:
        torch.set_num_threads(threads)
    spent = dict.fromkeys(KINDS, 0.0)
    kinds = {f"aten::{name}": kind for kind, names in KINDS.items() for name in names}
    every = measured.key_averages()
    for row in every:
        if row.key in kinds:
            spent[kinds[row.key]] += row.self_cpu_time_total
    total = sum(row.self_cpu_time_total for row in every)
    told = {kind: own / total for kind, own in spent.items() if own / total >= _LEAST}
    parts = [f"{kind} {share:.0%}" for kind, share in sorted(told.items(), key=lambda pair: -pair[1])]
    words = ", ".join((*parts, f"all else {1 - sum(told.values()):.0%}"))
    return words, sum(spent[kind] for kind in PRODUCTS) / total
