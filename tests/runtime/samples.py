"""A small artifact that needs no compiler: its modules are bytes that nothing runs."""

from __future__ import annotations

import numpy as np

import gnomon_runtime as gr

F32 = gr.TensorType((3,), "float32")


def writer() -> gr.Writer:
    made = gr.Writer({"gnomon": "0.1.0"})
    made.add_weight("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    made.add_weight("flag", np.array(True))
    tree = gr.Tree({"tuple": [{"tuple": ["*", {"dict": [["a", "*"]]}]}, {"dict": []}]})
    entry = gr.Entry(
        "f", "loss", (F32, gr.TensorType((), "int32", True)), (F32,), tree, gr.Tree("*"),
        donated=(0,), weights=("w",), platforms=("cpu", "tpu"), vjp="f.vjp", notes={"line": 3},
    )  # fmt: skip
    made.add_entry(
        entry,
        portable={"cpu": b"portable program", "tpu": b"another"},
        program={"cpu": b"func @main"},
        modules=[
            (gr.Module("x86-64-v2", "iree", "cpu", machine="x86_64", features=("ssse3",)), b"elf"),
            (gr.Module("vulkan", "iree", "vulkan", versions={"iree": "3.13.0"}), b"spirv"),
        ],
    )
    out = gr.Tree({"tuple": ["*", None]})
    backward = gr.Entry("f.vjp", "loss", (F32,), (F32,), gr.Tree({"list": ["*"]}), out)
    made.add_entry(backward, portable={"cpu": b"portable program"})
    return made


def artifact_bytes() -> bytes:
    return writer().to_bytes()
