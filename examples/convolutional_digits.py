"""Train a convolutional network on handwritten digits with `stax` and `optimizers`.

The layers are those of `gnomon.example_libraries.stax`, the update is Adam's from
`gnomon.example_libraries.optimizers`, and the steps of an epoch are one compiled loop. The data are
the 1797 images of 8x8 pixels that ship with scikit-learn. Where matplotlib is installed, the images
that the network misreads are drawn, each with its saliency: how much its score changes by pixel.

    python examples/convolutional_digits.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import gnomon
import gnomon.numpy as gnp
from gnomon.example_libraries import optimizers, stax

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit("This example needs scikit-learn: pip install 'gnomon[examples]'")

try:
    from matplotlib import pyplot
except ImportError:
    pyplot = None

SEED = 0
EPOCHS = 8
BATCH_SIZE = 32
TEST_EXAMPLES = 357

init_params, log_probabilities = stax.serial(
    stax.Conv(16, (3, 3), padding="SAME"),
    stax.Relu,
    stax.MaxPool((2, 2), strides=(2, 2)),
    stax.Conv(32, (3, 3), padding="SAME"),
    stax.Relu,
    stax.MaxPool((2, 2), strides=(2, 2)),
    stax.Flatten,
    stax.Dense(10),
    stax.LogSoftmax,
)
init_state, update, params_of = optimizers.adam(
    optimizers.exponential_decay(3e-3, decay_steps=200, decay_rate=0.8)
)


def load_data() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Images of one channel and their labels, in random order: a training and a test set."""
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images = np.float32(digits.images / 16.0)[order, :, :, None]
    labels = np.int32(digits.target)[order]
    test, train = slice(TEST_EXAMPLES), slice(TEST_EXAMPLES, None)
    return (images[train], labels[train]), (images[test], labels[test])


def loss(params: Any, images: Any, labels: Any) -> Any:
    """The mean cross-entropy."""
    scores = log_probabilities(params, images)
    return -gnp.mean(gnp.take_along_axis(scores, labels[:, None], axis=1))


@gnomon.jit
def accuracy(params: Any, images: Any, labels: Any) -> Any:
    """The fraction of images whose most probable digit is the right one."""
    return gnp.mean(log_probabilities(params, images).argmax(-1) == labels)


@gnomon.jit
def train_epoch(state: Any, step: Any, key: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """The optimizer's state after one pass over the data, and the mean loss of its steps."""
    count = len(images) // BATCH_SIZE
    order = gnomon.random.permutation(key, len(images))[: count * BATCH_SIZE]

    def one_step(carry: Any, chosen: Any) -> Any:
        state, step = carry
        batch = images[chosen], labels[chosen]
        value, gradient = gnomon.value_and_grad(loss)(params_of(state), *batch)
        return (update(step, gradient, state), step + 1), value

    batches = order.reshape(count, BATCH_SIZE)
    (state, _), losses = gnomon.lax.scan(one_step, (state, step), batches)
    return state, losses.mean()


@gnomon.jit
def saliency_of(params: Any, images: Any) -> Any:
    """For each image, the size of the derivative of the best score by each pixel."""

    def best(image: Any) -> Any:
        return log_probabilities(params, image[None]).max()

    return gnp.abs(gnomon.vmap(gnomon.grad(best))(images))


def draw_misread(params: Any, images: Any, labels: Any, count: int = 6) -> None:
    """Draw test images that the network misreads, above the saliency of their pixels."""
    if pyplot is None:
        return
    read = np.asarray(log_probabilities(params, images).argmax(-1))
    wrong = np.flatnonzero(read != labels)[:count]
    if not len(wrong):
        return
    maps = saliency_of(params, images[wrong])
    _, axes = pyplot.subplots(2, len(wrong), figsize=(1.6 * len(wrong), 3.6), squeeze=False)
    for column, i in enumerate(wrong):
        axes[0, column].imshow(images[i, :, :, 0], cmap="gray_r")
        axes[0, column].set_title(f"{labels[i]} read as {read[i]}", fontsize=9)
        axes[1, column].imshow(maps[column, :, :, 0], cmap="magma")
    for axis in axes.flat:
        axis.set_axis_off()
    if pyplot.isinteractive():
        pyplot.show()


def main() -> None:
    """Train, report each epoch, and draw what was misread."""
    training, test = load_data()
    keys = gnomon.random.split(gnomon.random.key(SEED), EPOCHS + 1)
    _, params = init_params(keys[0], (-1, 8, 8, 1))
    state = init_state(params)
    steps = len(training[0]) // BATCH_SIZE
    for epoch, key in enumerate(keys[1:]):
        state, value = train_epoch(state, epoch * steps, key, *training)
        right = accuracy(params_of(state), *test)
        print(f"epoch {epoch + 1}: loss {value:.4f}, test accuracy {right:.1%}")
    draw_misread(params_of(state), *test)


if __name__ == "__main__":
    main()
