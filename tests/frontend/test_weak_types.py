"""Which results of transformations are weakly typed: as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.linalg

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
    "while_loop": lambda m, n: m.lax.while_loop(lambda c: c < 10, lambda c: c * 2, 3.0),
}


def types(module: Any, tree: Any) -> list[tuple[Any, ...]]:
    leaves = module.tree_util.tree_leaves(tree)
    return [(leaf.shape, leaf.dtype.name, leaf.weak_type) for leaf in leaves]


@pytest.mark.parametrize("name", CASES)
def test_weak_types_are_those_of_jax(name: str) -> None:
    case = CASES[name]
    assert types(gn, case(gn, gnp)) == types(jax, case(jax, jnp))
