"""The time to the first result of a jitted function, with nothing compiled before.

    python -m gnomon.tools.bench.first_result

Each time is measured in a new process with an empty cache, from the first call to its result. It
includes tracing, compilation and the start of the compiler, but not imports and the creation of
arrays. The processes of the frameworks alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.tools.bench.frameworks import Framework, load_frameworks
from gnomon.tools.bench.workloads.training import WIDE, batch, network, step_function

VARIANTS = ("gnomon", "gnomon tiered", "jax")


def _mlp(framework: Framework) -> tuple[Any, tuple[Any, ...]]:
    params = [(framework.from_numpy(w), framework.from_numpy(b)) for w, b in network(WIDE)]
    x, y = map(framework.from_numpy, batch(WIDE))
    return step_function(framework), (params, x, y)


_LAYERS, _HEADS, _EMBEDDING, _CONTEXT, _VOCABULARY = 4, 4, 128, 64, 65


def _gpt(framework: Framework) -> tuple[Any, tuple[Any, ...]]:
    """A step of gradient descent of a GPT with 4 layers of width 128, batch 8, context 64."""
    module, np_ = framework.module, framework.np
    rng, width = np.random.default_rng(0), _EMBEDDING

    def weight(*shape: int) -> Any:
        return framework.from_numpy(rng.normal(0, 0.02, shape).astype(np.float32))

    params = {
        "tokens": weight(_VOCABULARY, width),
        "positions": weight(_CONTEXT, width),
        "layers": [
            {
                "qkv": weight(width, 3 * width),
                "out": weight(width, width),
                "up": weight(width, 4 * width),
                "down": weight(4 * width, width),
            }
            for _ in range(_LAYERS)
        ],
    }
    tokens = framework.from_numpy(rng.integers(0, _VOCABULARY, (8, _CONTEXT + 1)).astype(np.int32))

    def normalized(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / np_.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def attention(x: Any, layer: Any) -> Any:
        n, t, _ = x.shape
        heads = (x @ layer["qkv"]).reshape(n, t, 3, _HEADS, width // _HEADS)
        q, k, v = (heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scores = q @ k.transpose(0, 1, 3, 2) / (width // _HEADS) ** 0.5
        scores = np_.where(np_.tril(np_.ones((t, t), bool)), scores, -1e9)
        mixed = module.nn.softmax(scores, -1) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(n, t, width) @ layer["out"]

    def loss(params: Any, tokens: Any) -> Any:
        x = params["tokens"][tokens[:, :-1]] + params["positions"]
        for layer in params["layers"]:
            x = x + attention(normalized(x), layer)
            x = x + module.nn.gelu(normalized(x) @ layer["up"]) @ layer["down"]
        logits = module.nn.log_softmax(normalized(x) @ params["tokens"].T, -1)
        return -np_.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

    def step(params: Any, tokens: Any) -> Any:
        value, gradient = module.value_and_grad(loss)(params, tokens)
        return value, module.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return step, (params, tokens)


def _convolution(framework: Framework) -> tuple[Any, tuple[Any, ...]]:
    """A 3x3 convolution, NHWC, of 8 images of 32x32 with 64 channels."""
    rng = np.random.default_rng(0)
    x = framework.from_numpy(rng.standard_normal((8, 32, 32, 64), dtype=np.float32))
    w = framework.from_numpy(rng.standard_normal((3, 3, 64, 64), dtype=np.float32))

    def convolve(x: Any, w: Any) -> Any:
        return framework.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return convolve, (x, w)


PROGRAMS: dict[str, Callable[[Framework], tuple[Any, tuple[Any, ...]]]] = {
    "MLP training step": _mlp,
    "GPT training step": _gpt,
    "convolution": _convolution,
}


def measure(program: str, variant: str) -> float:
    """The seconds of the first call, measured in this process."""
    name, _, tiered = variant.partition(" ")
    ((framework,), _) = load_frameworks([name])
    function, arguments = PROGRAMS[program](framework)
    options = {"tiered": True} if tiered else {}
    jitted = framework.module.jit(function, **options)
    framework.wait(arguments)
    start = time.perf_counter()
    framework.wait(jitted(*arguments))
    return time.perf_counter() - start


def _in_new_process(program: str, variant: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--program", program, "--variant", variant],
            env={**os.environ, "GNOMON_CACHE_DIR": folder},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return float(done.stdout.split()[-1])


def main(arguments: list[str] | None = None) -> None:
    """Print the table or, with ``--program`` and ``--variant``, one time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per program and variant")
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument("--variant", choices=VARIANTS)
    given = parser.parse_args(arguments)
    if given.program and given.variant:
        print(measure(given.program, given.variant))
        return
    load = os.getloadavg()[0]
    print(f"seconds to the first result, medians of {given.rounds}; load {load:.1f} at the start")
    print("| program | " + " | ".join(VARIANTS) + " | tiered / jax |")
    print("|---|" + "---:|" * (len(VARIANTS) + 1))
    for program in [given.program] if given.program else PROGRAMS:
        times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for _ in range(given.rounds):
            for variant in VARIANTS:
                times[variant].append(_in_new_process(program, variant))
        medians = [statistics.median(times[variant]) for variant in VARIANTS]
        cells = [f"{median:.2f}" for median in medians] + [f"{medians[1] / medians[2]:.2f}"]
        print(f"| {program} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
