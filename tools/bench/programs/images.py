"""Convolutional networks, and pre- and postprocessing of images."""

from __future__ import annotations

import functools
from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program, descent


def _convolve(framework: Framework, x: Any, w: Any, stride: int = 1) -> Any:
    return framework.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _normalized(framework: Framework, x: Any) -> Any:
    """Normalization over the batch and the positions, without parameters."""
    x = x - x.mean((0, 1, 2))
    return x * framework.lax.rsqrt((x * x).mean((0, 1, 2)) + 1e-5)


def _cross_entropy(framework: Framework, logits: Any, labels: Any) -> Any:
    picked = framework.np.take_along_axis(
        framework.module.nn.log_softmax(logits), labels[:, None], -1
    )
    return -picked.mean()


def _convolution(framework: Framework) -> Built:
    arrays = Arrays(framework)
    given = arrays.normal(8, 32, 32, 64), arrays.normal(3, 3, 64, 64)
    return functools.partial(_convolve, framework), given


def _cnn_step(framework: Framework) -> Built:
    arrays, relu = Arrays(framework), framework.module.nn.relu
    params = {
        "first": arrays.normal(5, 5, 1, 32, scale=0.1),
        "second": arrays.normal(5, 5, 32, 64, scale=0.03),
        "dense": arrays.normal(7 * 7 * 64, 128, scale=0.02),
        "out": arrays.normal(128, 10, scale=0.1),
    }

    def pool(x: Any) -> Any:
        window = (1, 2, 2, 1)
        return framework.lax.reduce_window(
            x, -framework.np.inf, framework.lax.max, window, window, "VALID"
        )

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = pool(relu(_convolve(framework, x, params["first"])))
        x = pool(relu(_convolve(framework, x, params["second"])))
        x = relu(x.reshape(len(x), -1) @ params["dense"])
        return _cross_entropy(framework, x @ params["out"], labels)

    return descent(framework, loss), (
        params,
        arrays.normal(64, 28, 28, 1),
        arrays.integers(64, below=10),
    )


def _residual(framework: Framework, params: Any, x: Any) -> Any:
    relu = framework.module.nn.relu
    y = relu(_normalized(framework, _convolve(framework, x, params[0])))
    return relu(x + _normalized(framework, _convolve(framework, y, params[1])))


def _residual_arrays(framework: Framework) -> tuple[Any, Any]:
    arrays = Arrays(framework)
    params = [arrays.normal(3, 3, 32, 32, scale=0.06) for _ in range(2)]
    return params, arrays.normal(16, 32, 32, 32)


def _residual_forward(framework: Framework) -> Built:
    return functools.partial(_residual, framework), _residual_arrays(framework)


def _residual_gradient(framework: Framework) -> Built:
    def loss(params: Any, x: Any) -> Any:
        return (_residual(framework, params, x) ** 2).mean()

    return framework.module.grad(loss, (0, 1)), _residual_arrays(framework)


def _resnet_step(framework: Framework) -> Built:
    """ResNet-18 as used on CIFAR-10, at a quarter of the width."""
    arrays, relu = Arrays(framework), framework.module.nn.relu
    widths, strides = (16, 32, 64, 128), (1, 2, 2, 2)

    def kernel(size: int, given: int, made: int) -> Any:
        return arrays.normal(size, size, given, made, scale=(2 / (size * size * given)) ** 0.5)

    blocks, before = [], widths[0]
    for width, stride in zip(widths, strides, strict=True):
        for first in (True, False):
            block = [kernel(3, before, width), kernel(3, width, width)]
            if first and stride > 1:
                block.append(kernel(1, before, width))
            blocks.append(block)
            before = width
    params = {"stem": kernel(3, 3, widths[0]), "blocks": blocks, "out": arrays.normal(128, 10)}

    def residual(x: Any, kernels: Any) -> Any:
        stride = 2 if len(kernels) == 3 else 1
        y = relu(_normalized(framework, _convolve(framework, x, kernels[0], stride)))
        y = _normalized(framework, _convolve(framework, y, kernels[1]))
        if stride > 1:
            x = _normalized(framework, _convolve(framework, x, kernels[2], stride))
        return relu(x + y)

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = relu(_normalized(framework, _convolve(framework, x, params["stem"])))
        for kernels in params["blocks"]:
            x = residual(x, kernels)
        return _cross_entropy(framework, x.mean((1, 2)) @ params["out"], labels)

    return descent(framework, loss), (
        params,
        arrays.normal(16, 32, 32, 3),
        arrays.integers(16, below=10),
    )


def _unet(framework: Framework, arrays: Arrays) -> tuple[Any, Any]:
    """A U-Net with one level: parameters, and the function of them and an image."""
    silu, np_ = framework.module.nn.silu, framework.np
    params = {
        "in": arrays.normal(3, 3, 3, 32, scale=0.2),
        "down": arrays.normal(3, 3, 32, 64, scale=0.06),
        "middle": arrays.normal(3, 3, 64, 64, scale=0.04),
        "up": arrays.normal(3, 3, 64, 32, scale=0.04),
        "out": arrays.normal(3, 3, 64, 3, scale=0.04),
    }

    def apply(params: Any, x: Any) -> Any:
        fine = silu(_convolve(framework, x, params["in"]))
        coarse = silu(_convolve(framework, fine, params["down"], 2))
        coarse = silu(_normalized(framework, _convolve(framework, coarse, params["middle"])))
        shape = (*fine.shape[:3], coarse.shape[-1])
        coarse = framework.module.image.resize(coarse, shape, "nearest")
        coarse = silu(_convolve(framework, coarse, params["up"]))
        return _convolve(framework, np_.concatenate([fine, coarse], -1), params["out"])

    return params, apply


def _unet_gradient(framework: Framework) -> Built:
    arrays = Arrays(framework)
    params, apply = _unet(framework, arrays)

    def loss(params: Any, x: Any) -> Any:
        return (apply(params, x) ** 2).mean()

    return framework.module.grad(loss), (params, arrays.normal(8, 32, 32, 3))


def _diffusion_step(framework: Framework) -> Built:
    arrays, random = Arrays(framework), framework.module.random
    params, apply = _unet(framework, arrays)

    def loss(params: Any, images: Any, key: Any) -> Any:
        times, noises = random.split(key)
        kept = framework.np.cos(random.uniform(times, (len(images), 1, 1, 1)) * 1.57) ** 2
        noise = random.normal(noises, images.shape)
        noisy = framework.np.sqrt(kept) * images + framework.np.sqrt(1 - kept) * noise
        return ((apply(params, noisy) - noise) ** 2).mean()

    return descent(framework, loss), (params, arrays.normal(8, 32, 32, 3), random.key(0))


def _augmentation(framework: Framework) -> Built:
    arrays, np_, module = Arrays(framework), framework.np, framework.module

    def one(image: Any, angle: Any, flip: Any, gain: Any) -> Any:
        places = np_.arange(64.0) - 31.5
        rows, columns = places[:, None], places[None, :]
        sine, cosine = np_.sin(angle), np_.cos(angle)
        where = [cosine * rows - sine * columns + 31.5, sine * rows + cosine * columns + 31.5]
        turned = module.vmap(
            lambda c: module.scipy.ndimage.map_coordinates(c, where, order=1), 2, 2
        )(image)
        turned = np_.where(flip > 0.5, turned[:, ::-1], turned)
        return np_.clip(turned * gain, 0.0, 1.0)

    return module.vmap(one), (
        arrays.uniform(32, 64, 64, 3),
        arrays.uniform(32, low=-0.3, high=0.3),
        arrays.uniform(32),
        arrays.uniform(32, low=0.8, high=1.2),
    )


PROGRAMS = (
    Program("image/convolution", "3x3, NHWC, 8 images of 32x32, 64 to 64 channels", _convolution),
    Program("image/cnn_step", "a step of a CNN, 5x5 and pools, batch 64 of 28x28", _cnn_step),
    Program(
        "image/residual", "a residual block of 32 channels, 16 images of 32x32", _residual_forward
    ),
    Program("image/residual_grad", "its gradient", _residual_gradient),
    Program(
        "image/resnet_step",
        "a step of ResNet-18, 16 to 128 channels, batch 16",
        _resnet_step,
        # Normalizations divide by standard deviations: gradients lose two more digits.
        16384.0,
    ),
    Program("image/unet_grad", "gradient of a U-Net with one level, 8 images", _unet_gradient),
    Program("image/diffusion_step", "a denoising step with that U-Net", _diffusion_step, 65536.0),
    Program("image/augmentation", "32 images of 64x64 turned, flipped, scaled", _augmentation),
)
