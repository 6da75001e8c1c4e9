"""Functions made in the same way are equal, so that functions of them are traced once.

Also donated arrays that are used twice or not at all, and copies to the host.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.flatten_util import ravel_pytree
from gnomon.tree_util import Partial, tree_structure


def power(x: Any, y: Any) -> Any:
    return x**y


def test_unravel_functions() -> None:
    trees = [{"a": gnp.ones(2), "b": gnp.zeros((1, n), dtype)} for n, dtype in _KINDS]
    one, two, other, mixed = (ravel_pytree(tree)[1] for tree in trees)
    assert one == two
    assert hash(one) == hash(two)
    assert one not in (other, mixed)
    traces: list[None] = []

    @functools.partial(gn.jit, static_argnums=1)
    def run(flat: Any, unravel: Any) -> Any:
        traces.append(None)
        return unravel(2 * flat)

    for unravel in (one, two):
        assert tree_structure(run(gnp.ones(5), unravel)) == tree_structure(trees[0])
    assert len(traces) == 1


_KINDS = ((3, "float32"), (3, "float32"), (4, "float32"), (3, "float16"))


def test_universal_functions() -> None:
    one, two = (gnp.frompyfunc(power, 2, 1) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != gnp.frompyfunc(power, 2, 1, identity=1)
    assert one != gnp.frompyfunc(lambda x, y: x**y, 2, 1)
    assert gnp.add != gnp.multiply
    assert gnp.add != power


def test_partials_of_partials() -> None:
    inner = functools.partial(power, 2)
    partial = Partial(inner, 3)
    assert partial.func == inner
    assert hash(partial.func) == hash(inner)
    assert partial.func != functools.partial(power, 2)
    assert partial() == 8


def test_an_array_that_is_donated_and_read() -> None:
    x = gnp.ones(1000)
    add = gn.jit(lambda a, b: a + b, donate_argnums=0)
    assert float(add(gnp.ones(1000), x)[0]) == 2
    with pytest.raises(RuntimeError, match="donated, but it is also another argument"):
        add(x, x)
    assert not x.is_deleted()
    both = gn.jit(lambda a: (a[0] + a[1], a[0]), donate_argnums=0)
    with pytest.raises(RuntimeError, match="donated"):
        both([x, x])
    assert float(x[0]) == 1


def test_donated_arrays_that_no_result_can_take() -> None:
    x, y = gnp.ones((2, 3)), gnp.ones(2)
    f = gn.jit(lambda x, y: (x.sum(), 2 * y), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match=r"not usable: float32\[2,3\]\.") as caught:
        f(x, y)
    assert caught[0].filename == __file__
    assert y.is_deleted() and not x.is_deleted()
    f(x, gnp.ones(2))  # only the compilation warns


def test_copies_to_the_host_of_other_objects() -> None:
    class Remote:
        copies = 0

        def copy_to_host_async(self) -> None:
            self.copies += 1
            if self.copies > 1:
                raise OSError("gone")

    remote = Remote()
    tree = {"a": remote, "b": gnp.ones(3), "c": "text"}
    assert gn.copy_to_host_async(tree) is tree
    assert remote.copies == 1
    with pytest.raises(OSError, match="gone"):
        gn.copy_to_host_async(tree)
