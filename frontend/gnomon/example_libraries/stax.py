"""Neural networks as pairs of functions, with the functions of `jax.example_libraries.stax`.

A layer is ``(init_fun, apply_fun)``. ``init_fun(rng, input_shape)`` returns ``(output_shape,
params)``, and ``apply_fun(params, inputs, **kwargs)`` returns the outputs. A dimension of a shape
may be -1, which means a batch of any size. Layers that draw random numbers take the keyword
``rng``.

Example:
  >>> import gnomon as gn
  >>> from gnomon.example_libraries import stax
  >>> init, predict = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(3), stax.LogSoftmax)
  >>> shape, params = init(gn.random.key(0), (-1, 5))
  >>> shape
  (-1, 3)
  >>> predict(params, gn.numpy.ones((4, 5))).shape
  (4, 3)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gnomon import lax, nn, random
from gnomon import numpy as gnp
from gnomon._api.functions import eval_shape
from gnomon._arrays.array import Array
from gnomon._compilation.stages import ShapeDtypeStruct
from gnomon._examples import example_section
from gnomon.lax._operands import as_tuple
from gnomon.nn import initializers

__all__ = [
    "AvgPool",
    "BatchNorm",
    "Conv",
    "Conv1DTranspose",
    "ConvTranspose",
    "Dense",
    "Dropout",
    "Elu",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "GeneralConv",
    "GeneralConvTranspose",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Relu",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SumPool",
    "Tanh",
    "elementwise",
    "parallel",
    "serial",
    "shape_dependent",
]

Shape: TypeAlias = "tuple[int, ...]"
Initializer: TypeAlias = "Callable[..., Array]"
Layer: TypeAlias = "tuple[Callable[..., Any], Callable[..., Any]]"

_normal = initializers.normal()
_small = initializers.normal(1e-6)
_Spec: TypeAlias = "tuple[str, str, str]"


def Dense(out_dim: int, W_init: Initializer | None = None, b_init: Initializer = _normal) -> Layer:
    """A layer that computes ``inputs @ W + b``.

    Args:
      out_dim: the size of the last dimension of the outputs.
      W_init, b_init: initializers of the parameters ``(W, b)``; Glorot's normal distribution, and
        a normal distribution of deviation 0.01, by default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> init, apply = stax.Dense(4)
      >>> shape, params = init(random.key(0), (-1, 3))
      >>> shape
      (-1, 4)
      >>> apply(params, gnp.ones((2, 3))).shape
      (2, 4)
    """
    weights = W_init or initializers.glorot_normal()

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        W_key, b_key = random.split(rng)
        W = weights(W_key, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (W, b_init(b_key, (out_dim,)))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Array:
        W, b = params
        return gnp.dot(inputs, W) + b

    return init_fun, apply_fun


# ----------------------------------------------------------------------------------- convolutions


def GeneralConv(
    dimension_numbers: _Spec,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = _small,
) -> Layer:
    """A layer of `gnomon.lax.conv_general_dilated`, plus a bias for each channel.

    Args:
      dimension_numbers: the layouts of inputs, kernel and outputs: ``("NHWC", "HWIO", "NHWC")``.
      out_chan: the number of channels of the outputs.
      filter_shape: the size of the kernel in the spatial dimensions.
      strides: one for each spatial dimension; 1 by default.
      padding: ``"VALID"``, ``"SAME"`` or pairs of numbers.
      W_init, b_init: initializers of the parameters ``(W, b)``.

    Example:
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> init, apply = stax.GeneralConv(("NHWC", "HWIO", "NHWC"), 4, (3, 3), padding="SAME")
      >>> shape, params = init(random.key(0), (-1, 8, 8, 1))
      >>> shape
      (-1, 8, 8, 4)
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(inputs: Any, W: Any) -> Array:
        return lax.conv_general_dilated(
            inputs, W, steps, padding, dimension_numbers=dimension_numbers
        )

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: _Spec,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = _small,
) -> Layer:
    """A layer of `gnomon.lax.conv_transpose`, plus a bias for each channel.

    Args:
      dimension_numbers: the layouts of inputs, kernel and outputs: ``("NHWC", "HWIO", "NHWC")``.
      out_chan: the number of channels of the outputs.
      filter_shape: the size of the kernel in the spatial dimensions.
      strides: the factor by which each spatial dimension grows; None means 1.
      padding: ``"VALID"``, ``"SAME"`` or pairs of numbers.
      W_init, b_init: initializers of the parameters ``(W, b)``.

    Example:
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> layer = stax.GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 4, (2, 2), strides=(2, 2))
      >>> shape, params = layer[0](random.key(0), (-1, 8, 8, 1))
      >>> shape
      (-1, 16, 16, 4)

    See also:
      `GeneralConv`
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(inputs: Any, W: Any) -> Array:
        return lax.conv_transpose(inputs, W, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def _convolution(
    convolve: Callable[[Any, Any], Array],
    dimension_numbers: _Spec,
    out_chan: int,
    filter_shape: Sequence[int],
    W_init: Initializer | None,
    b_init: Initializer,
) -> Layer:
    inputs_layout, kernel_layout, outputs_layout = dimension_numbers
    weights = W_init or initializers.glorot_normal(
        kernel_layout.index("I"), kernel_layout.index("O")
    )

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[inputs_layout.index("C")]}
        kernel_shape = tuple(channels[d] if d in channels else next(sizes) for d in kernel_layout)
        W_key, b_key = random.split(rng)
        W = weights(W_key, kernel_shape)
        b = b_init(b_key, tuple(out_chan if d == "C" else 1 for d in outputs_layout))
        return _shape_of(lambda x: convolve(x, W), input_shape), (W, b)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Array:
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


def _shape_of(layer: Callable[[Array], Array], input_shape: Shape) -> Shape:
    """The shape of a layer's outputs; dimensions of any size (-1) are kept."""
    known = tuple(1 if d == -1 else d for d in input_shape)
    found = eval_shape(layer, ShapeDtypeStruct(known, gnp.float32)).shape
    places = [i for i, d in enumerate(input_shape) if d == -1]
    return tuple(-1 if i in places else d for i, d in enumerate(found))


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


# ---------------------------------------------------------------------------------- normalization


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Initializer = initializers.zeros,
    gamma_init: Initializer = initializers.ones,
) -> Layer:
    """A layer that standardizes over a batch, and then scales and shifts.

    Args:
      axis: the axes over which mean and variance are taken.
      epsilon: added to the variance.
      center: add a parameter ``beta``.
      scale: multiply by a parameter ``gamma``.
      beta_init, gamma_init: initializers of the parameters ``(beta, gamma)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> init, apply = stax.BatchNorm(axis=(0,))
      >>> shape, params = init(random.key(0), (-1, 1))
      >>> apply(params, gnp.array([[1.0], [3.0]])).round(3)
      Array([[-1.],
             [ 1.]], dtype=float32)
    """
    axes = as_tuple(axis)

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = random.split(rng)
        beta = beta_init(beta_key, shape) if center else ()
        gamma = gamma_init(gamma_key, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Array:
        beta, gamma = params
        spread = tuple(None if i in axes else slice(None) for i in range(gnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            z = z * gamma[spread]
        return z + beta[spread] if center else z

    return init_fun, apply_fun


# ------------------------------------------------------------------------------ without parameters


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to its inputs.

    Args:
      fun: a function that keeps the shape.
      **fun_kwargs: keyword arguments of each call.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import stax
      >>> _, apply = stax.elementwise(gnp.clip, max=1.0)
      >>> apply((), gnp.array([0.5, 2.0]))
      Array([0.5, 1. ], dtype=float32)
    """
    return _plain(lambda inputs: fun(inputs, **fun_kwargs))


def _plain(apply: Callable[[Any], Any]) -> Layer:
    """A layer without parameters whose outputs have the shape of its inputs."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: apply(
        inputs
    )


Tanh = elementwise(gnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(gnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = _plain(lambda inputs: inputs)


def _flatten() -> Layer:
    def init_fun(rng: Any, input_shape: Shape) -> Any:
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Array:
        return gnp.reshape(inputs, (inputs.shape[0], -1))

    return init_fun, apply_fun


Flatten = _flatten()


def _pooling(
    name: str, what: str, reduce: Callable[..., Any], initial: float, average: bool = False
) -> Callable[..., Layer]:
    def make(
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: str = "VALID",
        spec: str | None = None,
    ) -> Layer:
        window, steps = tuple(window_shape), tuple(strides or (1,) * len(window_shape))
        spatial = len(window)
        places = (
            (0, spatial + 1) if spec is None else tuple(sorted((spec.index("N"), spec.index("C"))))
        )
        for place in places:
            window = (*window[:place], 1, *window[place:])
            steps = (*steps[:place], 1, *steps[place:])

        def pool(inputs: Any) -> Any:
            return lax.reduce_window(inputs, initial, reduce, window, steps, padding)

        def init_fun(rng: Any, input_shape: Shape) -> Any:
            return _shape_of(pool, input_shape), ()

        def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = pool(inputs)
            if not average:
                return out
            one = tuple(1 if i in places else d for i, d in enumerate(inputs.shape))
            return out / pool(gnp.ones(one, inputs.dtype))

        return init_fun, apply_fun

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A layer of {what} of windows.

    Args:
      window_shape: the size of a window in the spatial dimensions.
      strides: one for each spatial dimension; 1 by default.
      padding: ``"VALID"`` or ``"SAME"``.
      spec: the layout of the inputs, such as ``"NHWC"``; the batch first and the channels last by
        default.
    """ + example_section("libraries", name)
    return make


MaxPool = _pooling("MaxPool", "the largest elements", lax.max, -math.inf)
SumPool = _pooling("SumPool", "the sums", lax.add, 0.0)
AvgPool = _pooling(
    "AvgPool", "the means (in which padding does not count)", lax.add, 0.0, average=True
)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A layer that sets elements to 0 at random.

    Args:
      rate: the probability of **keeping** an element, as in JAX's stax; kept elements are divided
        by it.
      mode: ``"train"``; in any other mode, the layer does nothing.
    Raises:
      ValueError: the layer is applied without ``rng=``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> _, apply = stax.Dropout(0.5)
      >>> apply((), gnp.ones(4), rng=random.key(0))
      Array([0., 0., 2., 2.], dtype=float32)
      >>> stax.Dropout(0.5, mode="test")[1]((), gnp.ones(4), rng=random.key(0))
      Array([1., 1., 1., 1.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument: "
                "apply_fun(params, inputs, rng=key)"
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return gnp.where(keep, inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun


# ------------------------------------------------------------------------------------ composition


def FanOut(num: int) -> Layer:
    """A layer that returns its input several times, as a list.

    Args:
      num: the number of times.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import stax
      >>> pair = stax.parallel(stax.Relu, stax.Identity)
      >>> _, apply = stax.serial(stax.FanOut(2), pair, stax.FanInSum)
      >>> apply([(), [(), ()], ()], gnp.array([-1.0, 2.0]))
      Array([-1.,  4.], dtype=float32)
    """
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that joins several inputs along an axis.

    Args:
      axis: the axis along which the sizes may differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import stax
      >>> _, apply = stax.FanInConcat()
      >>> apply((), [gnp.ones((2, 3)), gnp.ones((2, 4))]).shape
      (2, 7)

    See also:
      `FanOut`, `parallel`
    """

    def init_fun(rng: Any, input_shape: Sequence[Shape]) -> Any:
        first = input_shape[0]
        place = axis % len(first)
        joined = sum(shape[place] for shape in input_shape)
        return (*first[:place], joined, *first[place + 1 :]), ()

    return init_fun, lambda params, inputs, **kwargs: gnp.concatenate(inputs, axis)


FanInSum = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: functools.reduce(operator.add, inputs),
)


def serial(*layers: Layer) -> Layer:
    """Apply layers one after the other.

    Args:
      layers: pairs of an init and an apply function.
    Returns:
      A layer whose parameters are a list of the layers' parameters.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> from gnomon.example_libraries import stax
      >>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2))
      >>> shape, params = init(random.key(0), (-1, 3))
      >>> apply(params, gnp.ones((5, 3))).shape
      (5, 2)

    See also:
      `parallel`
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init, _ in layers:
            rng, layer_rng = random.split(rng)
            input_shape, param = init(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply), param, rng in zip(layers, params, rngs, strict=True):
            inputs = apply(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Apply layers in parallel, each to an input of its own.

    Args:
      layers: pairs of an init and an apply function.
    Returns:
      A layer whose inputs, outputs and parameters are lists with one entry for each layer.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import stax
      >>> _, apply = stax.parallel(stax.Relu, stax.Identity)
      >>> apply([(), ()], [gnp.array(-1.0), gnp.array(-2.0)])
      [Array(0., dtype=float32, weak_type=True), Array(-2., dtype=float32, weak_type=True)]

    See also:
      `serial`, `FanOut`, `FanInSum`
    """

    def init_fun(rng: Any, input_shape: Sequence[Any]) -> Any:
        keys = random.split(rng, len(layers))
        made = [
            init(key, shape)
            for (init, _), key, shape in zip(layers, keys, input_shape, strict=True)
        ]
        return [shape for shape, _ in made], [params for _, params in made]

    def apply_fun(params: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
        rngs = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply(param, x, rng=rng, **kwargs)
            for (_, apply), param, x, rng in zip(layers, params, inputs, rngs, strict=True)
        ]

    return init_fun, apply_fun


def _keys(rng: Any, count: int) -> Any:
    return [None] * count if rng is None else random.split(rng, count)


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is constructed when the shape of its input is known.

    Args:
      make_layer: a function of the input's shape that returns a layer.

    Example:
      >>> from gnomon.example_libraries import stax
      >>> halve = stax.shape_dependent(lambda shape: stax.Dense(shape[-1] // 2))
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        shapes = [x.shape for x in inputs] if isinstance(inputs, (list, tuple)) else inputs.shape
        return make_layer(shapes)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
