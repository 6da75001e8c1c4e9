"""The trained network of examples/digits.py as a function of images alone, to be called from C.

gnomon compile examples/c/classifier.py:classify -o libclassify.a
cc -I. examples/c/classify.c libclassify.a -lm -o classify
python examples/c/classifier.py images.bin
./classify images.bin
"""

import sys
from pathlib import Path

import gnomon
import gnomon.numpy as gnp

sys.path.insert(0, str(Path(__file__).parents[1]))

import digits

BATCH = 36

data_key, params_key, training_key = gnomon.random.split(gnomon.random.key(digits.SEED), 3)
training_data, test_data = digits.load_data(data_key)
params = digits.train(training_key, digits.init_params(params_key), training_data, test_data)


def classify(images):
    """The digit of each image, and the logarithms of the probabilities of all ten."""
    scores = digits.log_probabilities(params, images)
    return {"digits": scores.argmax(axis=-1), "scores": scores}


classify_example_args = (gnp.zeros((BATCH, digits.LAYERS[0])),)

if __name__ == "__main__":
    # The test images, then their digits, as a C program reads them.
    images, labels = test_data
    with open(sys.argv[1], "wb") as file:
        file.write(images.tobytes() + labels.argmax(axis=-1).astype("int32").tobytes())
