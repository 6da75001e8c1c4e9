"""One transformer trained five ways: on one device, and on all devices of a mesh.

python examples/parallel_training.py                                   (one device)
GNOMON_NUM_CPU_DEVICES=8 python examples/parallel_training.py          (eight of one process)
python -m gnomon.distributed.launch -n 4 examples/parallel_training.py (four processes)

The model, the data and the optimizer are the same each time, and so are the losses. The ways differ
in what the devices share and what they send:

* data: each device has all parameters and a part of the batch; gradients are summed.
* tensor: each device has a part of the heads and of the hidden units; activations are summed.
* fully sharded: like data, but each device keeps a part of each parameter. Parameters are gathered
  where they are used, and gradients are scattered.
* pipeline: each device has some of the layers; activations go from device to device.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P, lax

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = 32, 16, 8, 32, 8
LENGTH, BATCH = 8, 8
RATE = 0.3
AXIS = "devices"

Params = dict[str, Any]
Step = Callable[[Params, Any], tuple[Params, Any]]


# ------------------------------------------------------------------------------------------- model


def initial_params() -> Params:
    """The parameters; those of all layers are stacked."""
    size = WIDTH // HEADS
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "query": (LAYERS, WIDTH, HEADS, size),
        "key": (LAYERS, WIDTH, HEADS, size),
        "value": (LAYERS, WIDTH, HEADS, size),
        "output": (LAYERS, HEADS, size, WIDTH),
        "up": (LAYERS, WIDTH, HIDDEN),
        "down": (LAYERS, HIDDEN, WIDTH),
    }
    keys = gn.random.split(gn.random.key(0), len(shapes))
    return {
        name: 0.2 * gn.random.normal(key, shape)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def tokens_to_learn() -> Any:
    """Sequences that count up by one or two."""
    start = gn.random.randint(gn.random.key(1), (BATCH, 1), 0, VOCABULARY)
    stride = gn.random.randint(gn.random.key(2), (BATCH, 1), 1, 3)
    return (start + stride * gnp.arange(LENGTH + 1)) % VOCABULARY


def normalized(x: Any) -> Any:
    """The rows of ``x`` with mean square one."""
    return x * lax.rsqrt(gnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer(p: Params, x: Any, total: Callable[[Any], Any]) -> Any:
    """One layer; ``total`` sums what parts of the heads or of the hidden units contribute."""
    y = normalized(x)
    query, key, value = (gnp.einsum("bsd,dhk->bhsk", y, p[n]) for n in ("query", "key", "value"))
    scores = gnp.einsum("bhsk,bhtk->bhst", query, key) / query.shape[-1] ** 0.5
    past = gnp.tri(x.shape[1], dtype=bool)
    weights = gn.nn.softmax(gnp.where(past, scores, -1e9))
    mixed = gnp.einsum("bhst,bhtk->bhsk", weights, value)
    # The halves keep the training from amplifying roundings, so that all ways agree.
    x = x + total(gnp.einsum("bhsk,hkd->bsd", mixed, p["output"])) / 2
    return x + total(gn.nn.gelu(normalized(x) @ p["up"]) @ p["down"]) / 2


def layers(p: Params, x: Any, total: Callable[[Any], Any] = lambda x: x) -> Any:
    """All layers whose parameters are given."""
    stacked = {name: value for name, value in p.items() if name != "embedding"}
    return lax.scan(lambda x, own: (layer(own, x, total), None), x, stacked)[0]


def cross_entropy(p: Params, x: Any, targets: Any) -> Any:
    """The mean cross entropy of the next tokens."""
    logits = gn.nn.log_softmax(normalized(x) @ p["embedding"].T)
    return -gnp.mean(gnp.take_along_axis(logits, targets[..., None], -1))


def loss(p: Params, tokens: Any, total: Callable[[Any], Any] = lambda x: x) -> Any:
    """The loss of sequences."""
    x = layers(p, p["embedding"][tokens[:, :-1]], total)
    return cross_entropy(p, x, tokens[:, 1:])


# ------------------------------------------------------------------------------------ ways to train


def descend(loss: Callable[[Params, Any], Any]) -> Step:
    """A step of gradient descent. It is the same for whole parameters and for shards of them."""

    def step(p: Params, tokens: Any) -> tuple[Params, Any]:
        value, gradient = gn.value_and_grad(loss)(p, tokens)
        return {name: p[name] - RATE * gradient[name] for name in p}, value

    return step


def over(mesh: Any, loss: Callable[[Params, Any], Any], specs: Any, tokens: Any) -> Step:
    """A step that runs on each device, with specs of the parameters and of the sequences."""
    mapped: Step = gn.jit(
        gn.shard_map(descend(loss), mesh=mesh, in_specs=(specs, tokens), out_specs=(specs, P()))
    )
    return mapped


def data_parallel(mesh: Any) -> Step:
    """Devices share the parameters and split the batch."""
    return over(mesh, lambda p, t: lax.pmean(loss(p, t), AXIS), P(), P(AXIS))


def tensor_parallel(mesh: Any) -> Step:
    """Devices split heads and hidden units."""
    heads, units = P(None, None, AXIS), P(None, AXIS)
    specs = {
        "embedding": P(),
        **dict.fromkeys(("query", "key", "value", "up"), heads),
        **dict.fromkeys(("output", "down"), units),
    }
    return over(mesh, lambda p, t: loss(p, t, lambda x: lax.psum(x, AXIS)), specs, P())


def fully_sharded(mesh: Any) -> Step:
    """Devices split the batch and the first dimension of every parameter."""

    def sharded_loss(p: Params, tokens: Any) -> Any:
        whole = {name: lax.all_gather(v, AXIS, tiled=True) for name, v in p.items()}
        return lax.pmean(loss(whole, tokens), AXIS)

    return over(mesh, sharded_loss, P(AXIS), P(AXIS))


def pipelined(mesh: Any) -> Step:
    """Devices split the layers; sequences follow each other through them, two at a time."""
    stages = mesh.shape[AXIS]
    count = BATCH // 2

    def staged_loss(p: Params, tokens: Any) -> Any:
        stage = lax.axis_index(AXIS)
        groups = tokens.reshape(count, 2, LENGTH + 1)

        def tick(carry: Any, t: Any) -> Any:
            received, total = carry
            entering = p["embedding"][groups[gnp.clip(t, 0, count - 1)][:, :-1]]
            x = layers(p, gnp.where(stage == 0, entering, received))
            leaving = t - (stages - 1)
            targets = groups[gnp.clip(leaving, 0, count - 1)][:, 1:]
            counts = (stage == stages - 1) & (leaving >= 0)
            total = total + gnp.where(counts, cross_entropy(p, x, targets), 0.0)
            sent = lax.ppermute(x, AXIS, [(i, i + 1) for i in range(stages - 1)])
            return (sent, total), None

        start = lax.pcast((gnp.zeros((2, LENGTH, WIDTH)), gnp.zeros(())), AXIS, to="varying")
        (_, total), _ = lax.scan(tick, start, gnp.arange(count + stages - 1))
        return lax.psum(total, AXIS) / count

    specs = {name: P() if name == "embedding" else P(AXIS) for name in initial_params()}
    return over(mesh, staged_loss, specs, P())


WAYS: dict[str, Callable[[Any], Step]] = {
    "one device": lambda mesh: gn.jit(descend(loss)),
    "data": data_parallel,
    "tensor": tensor_parallel,
    "fully sharded": fully_sharded,
    "pipeline": pipelined,
}


def train(way: str, mesh: Any, steps: int) -> list[float]:
    """The losses of some steps."""
    step, p, tokens = WAYS[way](mesh), initial_params(), tokens_to_learn()
    losses = []
    for _ in range(steps):
        p, value = step(p, tokens)
        losses.append(float(value))
    return losses


def main() -> None:
    """Train in each way, and print the losses."""
    if "GNOMON_NUM_PROCESSES" in os.environ:
        gn.distributed.initialize()
    devices = gn.devices()
    # Heads, layers and sequences are split evenly over at most eight devices.
    count = next(n for n in (8, 4, 2, 1) if n <= len(devices))
    mesh = gn.make_mesh((count,), (AXIS,), devices=devices[:count])
    say = print if gn.process_index() == 0 else lambda text: None
    say(f"devices: {count}; the losses of steps 1, 10 and 20:")
    for way in WAYS:
        losses = train(way, mesh, 20)
        say(f"{way:>14}: " + "  ".join(f"{losses[i]:.4f}" for i in (0, 9, 19)))


if __name__ == "__main__":
    main()
