"""Which results of transformations are weakly typed: as in JAX."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.spatial.transform
import jax.scipy.stats
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.linalg
import gnomon.scipy.spatial.transform
import gnomon.scipy.stats
from gnomon.tools.fuzz.running import GNOMON, JAX
from tests.newest_jax import IS_NEWEST
from tests.sample import sample
from tests.tools import compared_samples, compared_table

Case = Callable[[Any, Any], Any]


def pulled(m: Any, f: Callable[..., Any], cotangent: Any, *primals: Any) -> Any:
    out, pullback = m.vjp(f, *primals)
    return out, pullback(cotangent)


def pushed(m: Any, f: Callable[..., Any], tangents: Any, *primals: Any) -> Any:
    out, linear = m.linearize(f, *primals)
    return out, linear(*tangents)


# Functions of a module like jax and a module like jax.numpy.
CASES: dict[str, Case] = {
    "grad": lambda m, n: m.grad(lambda x: n.sin(x) * 2)(3.0),
    "grad, strong": lambda m, n: m.grad(lambda x: n.sin(x) * 2)(n.float32(3)),
    "grad through a strong value": lambda m, n: m.grad(lambda x: x * n.float32(2))(3.0),
    "grad of no dependence": lambda m, n: m.grad(lambda x, y: n.sin(y), (0, 1))(3.0, 2.0),
    "grad by both kinds": lambda m, n: m.grad(lambda x, y: n.sum(x * y), (0, 1))(3.0, n.ones(2)),
    "grad of a tree": lambda m, n: m.value_and_grad(lambda t: t[0] * t[1].sum())((3.0, n.ones(2))),
    "grad of jit": lambda m, n: m.grad(m.jit(lambda x: x**2))(3.0),
    "grad of grad": lambda m, n: m.grad(m.grad(lambda x: x**3))(3.0),
    "grad of a cast": lambda m, n: m.grad(lambda x: x.astype(n.float16) * 1.0)(3.0),
    "value_and_grad": lambda m, n: m.value_and_grad(lambda x: x**2)(3.0),
    "jit of grad": lambda m, n: m.jit(m.grad(lambda x: x**2))(3.0),
    "eval_shape of grad": lambda m, n: m.eval_shape(
        m.grad(lambda x, y: x * y, (0, 1)), 3.0, n.ones(())
    ),
    "jvp": lambda m, n: m.jvp(n.sin, (3.0,), (1.0,)),
    "jvp along strong": lambda m, n: m.jvp(n.sin, (3.0,), (n.float32(1),)),
    "jvp at strong": lambda m, n: m.jvp(n.sin, (n.float32(3),), (1.0,)),
    "jvp to strong": lambda m, n: m.jvp(lambda x: x * n.float32(2), (3.0,), (1.0,)),
    "vjp": lambda m, n: pulled(m, n.sin, 1.0, 3.0),
    "vjp from strong": lambda m, n: pulled(m, n.sin, n.float32(1), 3.0),
    "vjp at strong": lambda m, n: pulled(m, n.sin, 1.0, n.float32(3)),
    "vjp of a strong result": lambda m, n: pulled(m, lambda x: x * n.float32(2), n.float32(1), 3.0),
    "vjp by both kinds": lambda m, n: pulled(m, lambda x, y: x * y, 1.0, 3.0, n.float32(2)),
    "linearize": lambda m, n: pushed(m, n.sin, (1.0,), 3.0),
    "linearize along strong": lambda m, n: pushed(m, n.sin, (n.float32(1),), 3.0),
    "linearize at strong": lambda m, n: pushed(m, n.sin, (1.0,), n.float32(3)),
    "hessian": lambda m, n: m.hessian(lambda x: x**3)(2.0),
    "jacrev": lambda m, n: m.jacrev(lambda t: t[0] * t[1] * n.ones(3))((2.0, n.float32(1))),
    "jacfwd": lambda m, n: m.jacfwd(lambda x: x**3)(2.0),
    "jacfwd to strong": lambda m, n: m.jacfwd(lambda x: x * n.ones(3))(2.0),
    "vmap": lambda m, n: m.vmap(lambda x, y: (x, y, 2.0), (0, None))(n.arange(3.0), 2.0),
    "cond": lambda m, n: m.lax.cond(True, lambda y: (y, 1.0), lambda y: (y, n.float32(2)), 3.0),
    "scan": lambda m, n: m.lax.scan(lambda c, x: (c * 2, (c, x, 2.0)), 3.0, n.arange(3.0)),
    "grad of scan": lambda m, n: m.grad(
        lambda x: m.lax.scan(lambda c, _: (c * 2, None), x, None, length=3)[0]
    )(3.0),
    "inverse": lambda m, n: n.linalg.inv(n.full((2, 2), 2.0)),
    "diagonals": lambda m, n: [
        (n.diagonal(x, k), n.linalg.diagonal(x, offset=k), n.diag(x, k))
        for x in (n.full((2, 2), 2.0), n.full((2, 3), 2.0))
        for k in (0, 1)
    ],
    "diag of a vector": lambda m, n: (n.diag(n.full(2, 2.0)), n.diagflat(n.full(2, 2.0))),
    "triangles": lambda m, n: (n.tril(n.full((2, 2), 2.0)), n.triu(n.ones((2, 2)))),
    "cross": lambda m, n: n.cross(n.full(3, 2.0), n.full(3, 1.0)),
    "matmul": lambda m, n: n.matmul(n.full((2, 2), 2.0), n.full((2, 2), 2.0)),
    "matmul by strong": lambda m, n: n.matmul(n.full((2, 2), 2.0), n.ones((2, 2))),
    "lu": lambda m, n: m.scipy.linalg.lu(n.full((2, 2), 2.0)),
    "hessenberg": lambda m, n: m.scipy.linalg.hessenberg(n.full((2, 2), 2.0), calc_q=True),
    "polar": lambda m, n: m.scipy.linalg.polar(n.full((2, 2), 2.0)),
    "toeplitz": lambda m, n: m.scipy.linalg.toeplitz(n.full(2, 2.0)),
    "tests for infinities": lambda m, n: (
        *(f(x) for f in (n.isinf, n.isposinf, n.isneginf) for x in (2.0, n.full(2, 2.0))),
        n.isfinite(2.0),
        n.isfinite(2j),
    ),
    "equality of arrays": lambda m, n: (n.array_equal(2.0, 2.0), n.array_equiv(2.0, 2.0)),
    "parts": lambda m, n: (n.angle(2.0), n.spacing(2.0), n.isreal(True), n.iscomplex(2.0)),
    "positions": lambda m, n: (
        n.unravel_index(5, (2, 3)),
        n.unravel_index(n.array(5), (2, 3)),
        n.ravel_multi_index((1, 2), (2, 3), mode="clip"),
    ),
    "choose": lambda m, n: n.choose(n.array([0, 1]), [1.0, 2.0], mode="clip"),
    "probability functions": lambda m, n: [
        getattr(m.scipy.special, name)(0.5)
        for name in (
            *("dawsn", "erfcx", "exp1", "gamma", "gammasgn", "gammaln", "log_ndtr", "ndtr"),
            *("ndtri", "spence", "erf", "entr", "digamma", "expi", "logit"),
        )
    ],
    "special functions of two operands": lambda m, n: [
        getattr(m.scipy.special, name)(2, 0.5)
        for name in ("beta", "betaln", "expn", "owens_t", "poch", "xlogy", "gammainc", "zeta")
    ],
    "special functions of complex numbers": lambda m, n: (
        m.scipy.special.gamma(0.5j),
        m.scipy.special.loggamma(0.5j),
    ),
    "distributions of integers": lambda m, n: [
        getattr(getattr(m.scipy.stats, name), function)(k, *parameters)
        for name, parameters, functions in (
            ("bernoulli", (0.5,), "pmf logpmf cdf"),
            ("betabinom", (3, 1.5, 2.5), "pmf logpmf"),
            ("binom", (3, 0.5), "pmf logpmf"),
            ("geom", (0.5,), "pmf logpmf"),
            ("nbinom", (3, 0.5), "pmf logpmf"),
            ("poisson", (1.5,), "pmf logpmf cdf"),
        )
        for function in functions.split()
        for k in (n.array([0, 1, 2]), n.array([0.0, 1.0]), 1)
    ],
    "distributions of reals": lambda m, n: (
        # JAX 0.12 gives a weak type, older versions do not.
        *([] if IS_NEWEST else [m.scipy.stats.uniform.cdf(0.5)]),
        m.scipy.stats.truncnorm.sf(0.5, -1, 1),
        m.scipy.stats.norm.cdf(0.5),
        m.scipy.stats.norm.pdf(0.5),
    ),
    "distributions of arrays": lambda m, n: [
        getattr(getattr(m.scipy.stats, name), function)(outcomes, *parameters)
        for name, parameters in (
            ("beta", (1.5, 2.5)),
            ("cauchy", ()),
            ("chi2", (1.5,)),
            ("expon", ()),
            ("gamma", (1.5,)),
            ("laplace", ()),
            ("norm", ()),
            ("pareto", (1.5,)),
            ("t", (1.5,)),
            ("uniform", ()),
        )
        for function in ("pdf", "logpdf", "cdf")
        if hasattr(getattr(m.scipy.stats, name), function)
        for outcomes in (n.array([0.25, 0.5]), n.array([0, 1]))
    ],
    "rotations": lambda m, n: m.scipy.spatial.transform.Rotation.from_quat(
        n.full(4, 0.5)
    ).as_matrix(),
    "while_loop": lambda m, n: m.lax.while_loop(lambda c: c < 10, lambda c: c * 2, 3.0),
}


def types(module: Any, tree: Any) -> list[tuple[Any, ...]]:
    leaves = module.tree_util.tree_leaves(tree)
    return [(leaf.shape, leaf.dtype.name, leaf.weak_type) for leaf in leaves]


@pytest.mark.parametrize("name", CASES)
def test_weak_types_are_those_of_jax(name: str) -> None:
    case = CASES[name]
    # JAX infers them and compiles nothing.
    assert types(gn, case(gn, gnp)) == types(jax, jax.eval_shape(lambda: case(jax, jnp)))


# The value of an operand of a sample, by its dtype.
_NUMBERS = {
    "float32": "0.5", "bfloat16": "0.5", "int32": "3", "uint8": "3", "bool": "True",
    "complex64": "(1 + 2j)",
}  # fmt: skip
_LETTER = re.compile(r"\b[A-Z]\b")
# Functions with other weak types than JAX's, with the reasons.
_KNOWN = {
    **dict.fromkeys(
        ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
        "JAX's are weakly typed if a size is given, and not otherwise",
    ),
    "place": "JAX returns an empty array, weakly typed, for a number",
    "fiedler_companion": "JAX's is weakly typed if it is empty, and not otherwise",
    "fftconvolve": "JAX multiplies numbers without a transform",
    **dict.fromkeys(
        ("hypot", "logical_and", "logical_or", "logical_xor"),
        "JAX's are weakly typed for numbers, and not for weakly typed arrays and numbers",
    ),
    **dict.fromkeys(("dctn", "idctn"), "JAX returns a number as it is, of any dtype"),
    "stats.gumbel_r.logsf": "JAX's is weakly typed for bools, and its `sf` is not",
    "mode": "JAX's is weakly typed for real numbers, and not for complex ones",
}


def _with_numbers(text: str, arrays: set[str]) -> str:
    """A sample with numbers instead of its operands, except for some arrays."""

    def operand(match: re.Match[str]) -> str:
        array = compared_samples.ARRAYS.get(match[0])
        if array is None:
            return match[0]
        number = _NUMBERS[array.dtype]
        if match[0] in arrays:
            return f"gnp.full({array.shape}, {number}, {array.dtype!r})"
        return number

    return _LETTER.sub(operand, text)


def _variants(name: str, function: Any) -> set[str]:
    """Samples of which all operands, or all but the first, or only the first, are numbers."""
    found = set()
    special = compared_samples.SPECIAL.get(name)
    for arguments in special or compared_table.generic_samples(name, function):
        text = arguments[1:] if arguments.startswith("@") else f"{name}({arguments})"
        letters = [x for x in _LETTER.findall(arguments) if x in compared_samples.ARRAYS]
        for arrays in (set(), {*letters[:1]}, {*letters[1:]}):
            found.add(_with_numbers(text, arrays))
    return found


def _result_types(library: Any, text: str) -> list[tuple[Any, ...]] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = eval(f"lambda: {text}", dict(library.namespace))
            result = library.package.eval_shape(call)
    except Exception:
        return None
    leaves = library.package.tree.leaves(result)
    return [(leaf.shape, str(leaf.dtype), bool(leaf.weak_type)) for leaf in leaves]


@pytest.mark.slow
@pytest.mark.parametrize("place", compared_table.PLACES)
def test_weak_types_of_functions_of_numbers_are_those_of_jax(place: str) -> None:
    wrong = []
    named = list(compared_table.functions(place))
    for name, function in sample(named, -(-len(named) // 2), place):
        if name in compared_samples.LEFT_OUT or {name, name.rpartition(".")[2]} & _KNOWN.keys():
            continue
        for text in sorted(_variants(name, function)):
            expected = _result_types(JAX, text)
            found = None if expected is None else _result_types(GNOMON, text)
            if found is not None and found != expected:
                wrong.append(f"{text}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)
