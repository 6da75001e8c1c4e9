"""Train a multilayer perceptron on handwritten digits, in plain functions over gnomon.numpy.

    pip install '.[examples]' && python examples/digits.py

The data are the 1797 digits of 8 x 8 pixels that ship with scikit-learn. At the end, one gradient
for each test digit, computed at once by vmap, shows which digits the network finds hard.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp

try:
    from sklearn import datasets
except ImportError:
    sys.exit("this example needs scikit-learn: pip install 'gnomon[examples]'")

Params = list[tuple[gn.Array, gn.Array]]


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images (pixels in [0, 1]) and labels, split once and for all."""
    digits = datasets.load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1437], order[1437:]
    return images[train], labels[train], images[test], labels[test]


def init(key: Any, sizes: list[int]) -> Params:
    """Weights and biases of each layer."""
    keys = gn.random.split(key, len(sizes) - 1)
    return [
        (gn.random.normal(k, (m, n)) * (2.0 / m) ** 0.5, gnp.zeros(n))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def logits(params: Params, x: Any) -> Any:
    """Scores of the ten classes for one image or a batch of them."""
    for weight, bias in params[:-1]:
        x = gnp.maximum(x @ weight + bias, 0)
    weight, bias = params[-1]
    return x @ weight + bias


def loss(params: Params, x: Any, y: Any) -> Any:
    """Cross-entropy, averaged over a batch (or of one example)."""
    scores = logits(params, x)
    log_probabilities = scores - gnp.log(gnp.sum(gnp.exp(scores), axis=-1, keepdims=True))
    return -gnp.mean(gnp.sum((y[..., None] == gnp.arange(10)) * log_probabilities, axis=-1))


@gn.jit
def step(params: Params, velocity: Params, x: Any, y: Any, rate: Any) -> Any:
    """One step of gradient descent with momentum."""
    value, gradient = gn.value_and_grad(loss)(params, x, y)
    velocity = gn.tree.map(lambda v, g: 0.9 * v - rate * g, velocity, gradient)
    return gn.tree.map(lambda p, v: p + v, params, velocity), velocity, value


@gn.jit
def accuracy(params: Params, x: Any, y: Any) -> Any:
    """The share of images whose highest score is the right one."""
    return gnp.mean(gnp.argmax(logits(params, x), axis=-1) == y)


def train(epochs: int, batch: int = 32, seed: int = 0) -> tuple[Params, float]:
    """Train; prints a progress line. Returns the parameters and the test accuracy."""
    x_train, y_train, x_test, y_test = load_digits()
    params = init(gn.random.key(seed), [64, 128, 64, 10])
    velocity = gn.tree.map(gnp.zeros_like, params)
    shuffle = np.random.default_rng(seed)
    steps = len(x_train) // batch
    live = sys.stdout.isatty()
    start = time.perf_counter()
    for epoch in range(epochs):
        order = shuffle.permutation(len(x_train))
        rate = 0.03 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        total = 0.0
        for i in range(steps):
            rows = order[i * batch : (i + 1) * batch]
            params, velocity, value = step(params, velocity, x_train[rows], y_train[rows], rate)
            total += float(value)
        test = float(accuracy(params, x_test, y_test))
        line = f"epoch {epoch + 1:3d}/{epochs}  loss {total / steps:.4f}  test accuracy {test:.1%}"
        print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    print(f"{chr(10) if live else ''}trained in {time.perf_counter() - start:.1f} s")
    return params, test


def show_hard_digits(params: Params) -> None:
    """Per-example gradients: the digits with the largest ones are those the network is least
    sure of.
    """
    _, _, x, y = load_digits()
    gradients = gn.jit(gn.vmap(gn.grad(loss), (None, 0, 0)))(params, x, y)
    squares = [gnp.sum(g.reshape(len(x), -1) ** 2, axis=1) for g in gn.tree.leaves(gradients)]
    norms = np.asarray(gnp.sqrt(sum(squares)))
    print(f"gradient norms of {len(x)} test digits: median {np.median(norms):.2g}, the largest:")
    hardest = np.argsort(norms)[::-1][:3]
    guesses = np.asarray(gnp.argmax(logits(params, x[hardest]), axis=-1))
    pictures = [
        ["".join(" .:-=+*#@"[int(v * 8)] * 2 for v in row) for row in x[i].reshape(8, 8)]
        for i in hardest
    ]
    for rows in zip(*pictures, strict=True):
        print("   " + "   ".join(rows))
    captions = [
        f"a {y[i]}, taken for {g} ({norms[i]:.1f})" for i, g in zip(hardest, guesses, strict=True)
    ]
    print("   " + "   ".join(f"{c:<16}" for c in captions))


def main() -> None:
    """Train, and look at what is hard."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    params, _ = train(options.epochs)
    show_hard_digits(params)


if __name__ == "__main__":
    main()
