"""Random numbers as functions of a key, made from the same bits as those of ``jax.random``.

A key is used once. `split` makes new ones::

  key = random.key(0)
  key, subkey = random.split(key)
  x = random.normal(subkey, (3,))

Integers, uniform numbers and numbers that are computed from them exactly are identical to those of
JAX's partitionable Threefry. Numbers that involve logarithms, erf_inv and so on agree to a few
units in the last place. Batching by `vmap` and compiling do not change the numbers.
"""

from gnomon.random._choices import categorical, choice, gumbel, permutation, rademacher
from gnomon.random._counts import binomial, multinomial, poisson
from gnomon.random._distributions import (
    cauchy,
    double_sided_maxwell,
    exponential,
    geometric,
    laplace,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from gnomon.random._gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from gnomon.random._key_array import KeyArray, key_dtype
from gnomon.random._keys import (
    Key,
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_impl,
    split,
    wrap_key_data,
)
from gnomon.random._matrices import multivariate_normal, orthogonal
from gnomon.random._samplers import (
    bernoulli,
    bits,
    normal,
    randint,
    truncated_normal,
    uniform,
)

__all__ = [
    "Key",
    "KeyArray",
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
