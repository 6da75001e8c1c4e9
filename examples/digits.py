"""Train a small neural network on handwritten digits, then ask which digits it finds hard.

The data are the 1797 images of 8x8 pixels that ship with scikit-learn: nothing is downloaded.

    python examples/digits.py
    python examples/digits.py --platform vulkan
"""

import argparse
import sys
import time
from itertools import pairwise

import numpy as np

import gnomon
import gnomon.numpy as gnp

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit("This example needs scikit-learn: pip install 'gnomon[examples]'")

SEED = 6
LAYERS = (64, 128, 64, 10)
EPOCHS = 30
BATCH_SIZE = 32
LEARNING_RATE = 0.1
MOMENTUM = 0.9
TEST_EXAMPLES = 360

# ------------------------------------------------------------------------------------- the data


def shuffled(key, count):
    """The numbers below ``count`` in a random order."""
    return np.asarray(gnomon.random.uniform(key, (count,))).argsort()


def load_data(key):
    """Images and one-hot labels as NumPy arrays, split into a training and a test set."""
    digits = load_digits()
    images = np.float32(digits.data / 16.0)
    labels = np.eye(10, dtype=np.float32)[digits.target]
    order = shuffled(key, len(images))
    test, train = order[:TEST_EXAMPLES], order[TEST_EXAMPLES:]
    return (images[train], labels[train]), (images[test], labels[test])


def minibatches(key, images, labels):
    """The data in a new order, in pieces of equal size; what is left over is dropped."""
    order = shuffled(key, len(images))
    for start in range(0, len(images) - BATCH_SIZE + 1, BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        yield images[chosen], labels[chosen]


# ------------------------------------------------------------------------------------ the network


def init_params(key):
    """A list of (weight, bias) pairs: parameters are a plain pytree."""
    params = []
    for inputs, outputs in pairwise(LAYERS):
        key, subkey = gnomon.random.split(key)
        scale = (2.0 / inputs) ** 0.5
        params.append((scale * gnomon.random.normal(subkey, (inputs, outputs)), gnp.zeros(outputs)))
    return params


def log_probabilities(params, x):
    """The logarithm of each digit's probability, for one image or for a batch."""
    for weight, bias in params[:-1]:
        x = gnp.maximum(x @ weight + bias, 0.0)
    weight, bias = params[-1]
    logits = x @ weight + bias
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - gnp.log(gnp.exp(logits).sum(axis=-1, keepdims=True))


def log_probabilities_example_args():
    """Example arguments for `gnomon compile examples/digits.py:log_probabilities`: one image."""
    return init_params(gnomon.random.key(SEED)), gnp.zeros(LAYERS[0])


def loss(params, x, y):
    """The mean cross-entropy."""
    return -(log_probabilities(params, x) * y).sum(axis=-1).mean()


def accuracy(params, x, y):
    """The fraction of images whose most probable digit is the right one."""
    return (log_probabilities(params, x).argmax(axis=-1) == y.argmax(axis=-1)).mean()


# ------------------------------------------------------------------------------------ the training

# Each of these is compiled once, when it is first called.
loss_and_gradient = gnomon.jit(gnomon.value_and_grad(loss))
test_accuracy = gnomon.jit(accuracy)
example_gradients = gnomon.jit(gnomon.vmap(gnomon.grad(loss), (None, 0, 0)))


@gnomon.jit
def update(params, velocity, gradient):
    """A step of gradient descent with momentum."""
    velocity = gnomon.tree_util.tree_map(lambda v, g: MOMENTUM * v - g, velocity, gradient)
    params = gnomon.tree_util.tree_map(lambda p, v: p + LEARNING_RATE * v, params, velocity)
    return params, velocity


def train(key, params, training_data, test_data):
    """The trained parameters; one line on the terminal shows how it is going."""
    velocity = gnomon.tree_util.tree_map(gnp.zeros_like, params)
    for epoch, epoch_key in enumerate(gnomon.random.split(key, EPOCHS), start=1):
        for x, y in minibatches(epoch_key, *training_data):
            value, gradient = loss_and_gradient(params, x, y)
            params, velocity = update(params, velocity, gradient)
        if sys.stdout.isatty():
            right = test_accuracy(params, *test_data)
            line = f"\repoch {epoch:2}/{EPOCHS}  loss {value:.4f}  test accuracy {right:.1%}"
            print(line, end="\n" if epoch == EPOCHS else "", flush=True)
    return params


def show_hardest(params, x, y, count=4):
    """The test images that pull at the parameters hardest: those with the largest gradients."""
    gradients = gnomon.tree_util.tree_leaves(example_gradients(params, x, y))
    squares = [(g**2).sum(axis=tuple(range(1, g.ndim))) for g in gradients]
    norms = np.asarray(gnp.sqrt(sum(squares)))
    guesses = log_probabilities(params, x).argmax(axis=-1)
    print(f"\nGradient of each test example: median norm {np.median(norms):.2g}. The largest:")
    columns = []
    for i in (-norms).argsort()[:count]:
        image = ["".join(" .:*#"[int(4 * p)] * 2 for p in row) for row in x[i].reshape(8, 8)]
        columns.append([f"norm {norms[i]:.3g}", f"a {y[i].argmax()}, read as {guesses[i]}", *image])
    for line in zip(*columns, strict=True):
        print("  ".join(f"{text:18}" for text in line).rstrip())


def main():
    """Train, report, and look at single examples."""
    started = time.perf_counter()
    data_key, params_key, training_key = gnomon.random.split(gnomon.random.key(SEED), 3)
    training_data, test_data = load_data(data_key)
    params = train(training_key, init_params(params_key), training_data, test_data)
    right, seconds = test_accuracy(params, *test_data), time.perf_counter() - started
    print(f"test accuracy {right:.2%} after {EPOCHS} epochs in {seconds:.1f} s")
    show_hardest(params, *test_data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--platform", help="where it runs: cpu, cuda, vulkan, tpu, ...")
    with gnomon.default_device(parser.parse_args().platform):
        main()
