"""The contracts of the transformations: closed forms, Python control flow, caching, errors."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.tolerance import assert_near


def close(actual: Any, expected: Any, ulps: float = 4.0) -> None:
    assert_near(actual, expected, ulps, scale=1.0)


# --------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("compiled", [False, True])
def test_third_derivative_of_tanh(compiled: bool) -> None:
    f = gn.grad(gn.grad(gn.grad(gnp.tanh)))
    close((gn.jit(f) if compiled else f)(1.0), 0.62162673)


@pytest.mark.parametrize("compiled", [False, True])
def test_hessian_is_symmetric_and_exact(compiled: bool) -> None:
    a = np.arange(9.0, dtype=np.float32).reshape(3, 3)

    def f(x: Any) -> Any:
        return gnp.exp(-x @ x) + x @ a @ x

    x = np.array([0.1, -0.4, 0.3], np.float32)
    hessian = gn.jacfwd(gn.jacrev(f))
    found = np.asarray((gn.jit(hessian) if compiled else hessian)(x))
    e = np.exp(-(x @ x))
    expected = e * (4 * np.outer(x, x) - 2 * np.eye(3)) + a + a.T
    close(found, found.T)
    close(found, expected)


def test_grad_through_python_control_flow() -> None:
    def branch(x: Any) -> Any:
        return x**3 if x > 0 else gnp.sin(x)

    close(gn.grad(branch)(2.0), 12.0)
    close(gn.grad(branch)(-2.0), np.cos(-2.0))
    close(gn.grad(gn.grad(branch))(2.0), 12.0)

    def newton(a: Any) -> Any:
        x = a
        while abs(x * x - a) > 1e-5:
            x = 0.5 * (x + a / x)
        return x

    close(gn.grad(newton)(3.0), 0.5 / np.sqrt(3.0))
    close(gn.grad(gn.grad(newton))(3.0), -0.25 * 3.0**-1.5)

    def power(x: Any, n: int) -> Any:
        return 1.0 if n == 0 else x * power(x, n - 1)

    close(gn.grad(power)(2.0, 5), 80.0)
    close(gn.jvp(lambda x: power(x, 5), (2.0,), (1.0,))[1], 80.0)


def test_control_flow_on_an_inner_value_of_nested_grads() -> None:
    def inner(x: Any, y: Any) -> Any:
        return x * y if x * y > 1 else x + y

    outer = gn.grad(lambda x: gn.grad(inner, argnums=1)(x, 2.0 * x))
    close(outer(2.0), 1.0)
    close(outer(0.1), 0.0)


def test_scan_and_cond_and_while() -> None:
    def cumulative(x: Any) -> Any:
        return lax.scan(lambda c, v: (c * v, c), 1.0, x)[0]

    x = np.array([2.0, 3.0, 4.0], np.float32)
    for f in (gn.grad(cumulative), gn.jit(gn.grad(cumulative))):
        close(f(x), [12.0, 8.0, 6.0])
    batch = np.stack([x, x + 1])
    close(gn.jit(gn.vmap(gn.grad(cumulative)))(batch), [[12, 8, 6], [20, 15, 12]])

    def double_until(x: Any) -> Any:
        return lax.while_loop(lambda v: v < 10, lambda v: 2 * v, x)

    close(gn.jvp(double_until, (3.0,), (1.0,))[1], 4.0)
    starts = np.array([3.0, 6.0, 11.0], np.float32)
    close(gn.jit(gn.vmap(gn.jacfwd(double_until)))(starts), [4, 2, 1])
    with pytest.raises(ValueError, match=r"Use lax\.scan"):
        gn.grad(double_until)(3.0)


def test_dead_code_is_not_compiled() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(1000):
            y = y * x
        return x

    text = gn.jit(f).lower(gnp.ones(3)).as_text()
    assert "multiply" not in text
    assert "return %arg0" in text


def test_the_primal_is_computed_once() -> None:
    lowered = gn.jit(gn.value_and_grad(lambda x: gnp.exp(gnp.sin(x)))).lower(1.0)
    assert lowered.as_text("gnomon").count('"gnomon.exp"') == 1
    assert lowered.as_text("gnomon").count('"gnomon.sin"') == 1


def test_unmapped_work_is_not_batched() -> None:
    def f(x: Any, w: Any) -> Any:
        return x * gnp.sum(gnp.sin(w))

    text = gn.jit(gn.vmap(f, (0, None))).lower(gnp.ones(7), gnp.ones(5)).as_text("gnomon")
    assert '"gnomon.sin"(%arg1) : (tensor<5xf32>)' in text


# --------------------------------------------------------------------------------------- jit


def test_signatures() -> None:
    traces = []

    @gn.jit
    def f(x: Any, y: Any = 1.0) -> Any:
        traces.append(1)
        return gn.tree_util.tree_map(lambda v: v * y, x)

    f(gnp.ones(3))
    f(np.zeros(3, np.float32))
    assert len(traces) == 1
    for i, argument in enumerate(
        [gnp.ones(4), gnp.ones(3, gnp.int32), (gnp.ones(3),), {"a": gnp.ones(3)}, 1.0, 1], start=2
    ):
        f(argument)
        f(argument)
        assert len(traces) == i
    f(gnp.ones(3), y=2.0)
    f(gnp.ones(3), y=3.0)
    assert len(traces) == 8


def test_static_arguments() -> None:
    traces = []

    def f(x: Any, n: int, *, flag: bool = False) -> Any:
        traces.append(n)
        return x**n if flag else x * n

    g = gn.jit(f, static_argnums=1, static_argnames="flag")
    close(g(2.0, 3), 6.0)
    close(g(3.0, 3), 9.0)
    close(g(2.0, 3, flag=True), 8.0)
    close(g(2.0, 4), 8.0)
    assert traces == [3, 3, 4]
    by_name = gn.jit(f, static_argnames=("n", "flag"))
    close(by_name(2.0, 3), 6.0)
    close(by_name(2.0, n=3, flag=True), 8.0)
    with pytest.raises(ValueError, match="hashable"):
        g(2.0, [3])
    with pytest.raises(ValueError, match="not an argument of"):
        gn.jit(f, static_argnames="k")


def test_donation() -> None:
    f = gn.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = gnp.ones(100), gnp.ones(100)
    close(f(x, y), np.full(100, 2.0))
    assert x.is_deleted()
    assert not y.is_deleted()
    with pytest.raises(RuntimeError, match="donated"):
        np.asarray(x)


def test_methods_and_decorator_arguments() -> None:
    class Model:
        scale = 3.0

        @gn.jit
        def linear(self: Any, x: Any) -> Any:  # pragma: no cover - self is not an array
            return x

        def apply(self, x: Any) -> Any:
            return gn.jit(lambda v: v * self.scale)(x)

    close(Model().apply(2.0), 6.0)
    with pytest.raises(TypeError):
        Model().linear(2.0)

    @gn.jit(static_argnums=(1,))
    def power(x: Any, n: int) -> Any:
        return x**n

    close(power(2.0, 3), 8.0)


def test_captured_arrays_are_arguments_and_keep_their_value() -> None:
    table = np.arange(1000, dtype=np.float32)
    constant = gnp.asarray(table)
    f = gn.jit(lambda i: constant[i])
    text = f.lower(3).as_text()
    assert "tensor<1000xf32>" in text.split("{")[1]
    table[:] = 0
    close(f(3), 3.0)
    gc.collect()
    close(f(4), 4.0)


def test_jit_of_a_function_that_closes_over_a_traced_value() -> None:
    close(gn.grad(lambda x: gn.jit(lambda y: x * y)(2.0))(3.0), 2.0)
    found = gn.jit(gn.grad(lambda x: gn.jit(lambda y: gnp.sin(x) * y)(x)))(3.0)
    close(found, np.cos(3) * 3 + np.sin(3))


def test_stages() -> None:
    lowered = gn.jit(gn.grad(gnp.sin)).lower(1.0)
    assert "gnomon.vjp" in lowered.as_text("traced")
    assert "gnomon.cos" in lowered.as_text("gnomon")
    assert "stablehlo." in lowered.as_text() and "gnomon." not in lowered.as_text()
    compiled = lowered.compile()
    close(compiled(0.5), np.cos(0.5))
    with pytest.raises(TypeError, match="compiled for"):
        compiled(gnp.ones(3))
    with pytest.raises(ValueError, match="no stage"):
        lowered.as_text("hlo")


# -------------------------------------------------------------------------- vjp, linearize, aux


def test_vjp_and_linearize_evaluate_once() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return {"a": gnp.sin(x) * y, "b": x + 2}

    x = np.array([0.1, 0.2], np.float32)
    _, pullback = gn.vjp(f, x, np.float32(3))
    for scale in (1.0, 2.0):
        ct = {"a": gnp.full(2, scale), "b": gnp.zeros(2)}
        dx, dy = pullback(ct)
        close(dx, 3 * np.cos(x) * scale)
        close(dy, np.sin(x).sum() * scale)
    _, push = gn.linearize(f, x, np.float32(3))
    close(push(np.ones(2, np.float32), np.float32(0))["a"], 3 * np.cos(x))
    assert len(calls) == 2
    close(gn.vmap(pullback)({"a": gnp.eye(2), "b": gnp.zeros((2, 2))})[0], np.diag(3 * np.cos(x)))
    for tangents in ((gnp.ones(2), gnp.int32(1)), (gnp.ones(2), gnp.bfloat16(1)), (x[:1], x[0])):
        with pytest.raises(ValueError, match="equal shapes and dtypes"):
            push(*tangents)
    with pytest.raises(TypeError, match="of one structure"):
        push((x,), x[0])
    assert gn.linearize(f, x, 3.0)[1](x, 0.0)["b"].weak_type is False
    assert gn.linearize(lambda x, y: gnp.sin(y), x, 3.0)[1](x, 0.0).weak_type
    with pytest.raises(ValueError, match="structure"):
        pullback(gnp.ones(2))
    with pytest.raises(ValueError, match="shape and dtype"):
        pullback({"a": gnp.ones(3), "b": gnp.zeros(2)})


def test_jvp_takes_primals_and_tangents_of_one_structure() -> None:
    assert [float(v) for v in gn.jvp(gnp.sin, [0.0], [1.0])] == [0, 1]
    for primals, tangents in (([0.0], (1.0,)), ((0.0,), [1.0]), ((0.0,), (1.0, 1.0))):
        with pytest.raises(TypeError, match="of one structure; got a"):
            gn.jvp(gnp.sin, primals, tangents)
    with pytest.raises(TypeError, match="equal shapes and dtypes"):
        gn.jvp(gnp.sin, (0.0,), (1,))


def test_map_takes_slices_in_batches() -> None:
    xs = {"a": gnp.arange(14.0).reshape(7, 2), "b": gnp.arange(7.0)}

    def f(x: Any) -> Any:
        return x["a"] * x["b"], {"b": x["b"]}

    for batch_size in (None, 0, 1, 3, 7, 10):
        product, rest = lax.map(f, xs, batch_size=batch_size)
        close(product, xs["a"] * xs["b"][:, None])
        close(rest["b"], xs["b"])
    assert lax.map(gnp.sin, gnp.zeros((0, 2)), batch_size=3).shape == (0, 2)
    close(gn.grad(lambda x: lax.map(gnp.sin, x, batch_size=2).sum())(xs["b"]), gnp.cos(xs["b"]))
    with pytest.raises(ValueError, match="batch_size must be positive"):
        lax.map(f, xs, batch_size=-1)


def test_aux() -> None:
    def f(x: Any) -> Any:
        return x * x, {"double": 2 * x}

    gradient, aux = gn.grad(f, has_aux=True)(3.0)
    close(gradient, 6.0)
    close(aux["double"], 6.0)
    (value, aux), gradient = gn.value_and_grad(f, has_aux=True)(3.0)
    close(value, 9.0)
    _, tangent, aux = gn.jvp(f, (3.0,), (1.0,), has_aux=True)
    close(tangent, 6.0)
    _, pullback, aux = gn.vjp(f, 3.0, has_aux=True)
    close(pullback(1.0)[0], 6.0)
    jacobian, aux = gn.jacfwd(f, has_aux=True)(3.0)
    close(jacobian, 6.0)
    jacobian, aux = gn.jacrev(f, has_aux=True)(3.0)
    close(aux["double"], 6.0)
    with pytest.raises(TypeError, match="pair"):
        gn.grad(lambda x: x * x, has_aux=True)(3.0)


def test_pytrees_and_argnums() -> None:
    def loss(params: Any, x: Any) -> Any:
        return gnp.sum(params["w"] * x) + params["b"][0]

    params = {"w": gnp.ones(3), "b": (gnp.asarray(2.0),)}
    x = gnp.arange(3.0)
    d_params, d_x = gn.grad(loss, argnums=(0, 1))(params, x)
    close(d_params["w"], x)
    close(d_params["b"][0], 1.0)
    close(d_x, np.ones(3))
    jacobian = gn.jacrev(lambda p: {"y": p["w"] * p["b"][0]})(params)
    close(jacobian["y"]["w"], 2 * np.eye(3))
    close(gn.grad(loss, argnums=-1)(params, x), np.ones(3))


def test_integer_arguments() -> None:
    gradient = gn.grad(lambda x, n: x * n, argnums=(0, 1), allow_int=True)(2.0, 3)
    close(gradient[0], 3.0)
    assert gradient[1].dtype == gn.dtypes.float0
    both = gn.grad(lambda x, n: x * n, argnums=(0, 1), allow_int=True)
    mapped = gn.vmap(both, (None, 0))(2.0, gnp.arange(3))
    close(mapped[0], [0.0, 1.0, 2.0])
    assert (mapped[1].shape, mapped[1].dtype) == ((3,), gn.dtypes.float0)
    assert gn.jit(both)(2.0, 3)[1].dtype == gn.dtypes.float0
    _, pullback = gn.vjp(lambda x, n: x * n, 2.0, 3)
    assert pullback(1.0)[1].dtype == gn.dtypes.float0


def test_auxiliary_data_may_be_anything() -> None:
    def f(x: Any) -> Any:
        return x * x, {"name": "loss", "square": x * x, "n": 3, "none": None}

    (value, aux), gradient = gn.value_and_grad(f, has_aux=True)(3.0)
    close([value, aux["square"], gradient], [9.0, 9.0, 6.0])
    assert (aux["name"], aux["n"], aux["none"]) == ("loss", 3, None)
    for found in (
        gn.vjp(f, 3.0, has_aux=True)[2],
        gn.jvp(f, (3.0,), (1.0,), has_aux=True)[2],
        gn.linearize(f, 3.0, has_aux=True)[2],
        gn.jacrev(f, has_aux=True)(3.0)[1],
        gn.jacfwd(f, has_aux=True)(3.0)[1],
    ):
        assert found["name"] == "loss"
        close(found["square"], 9.0)
    assert gn.grad(lambda x: [x, "aux"], has_aux=True)(1.0)[1] == "aux"
    with pytest.raises(TypeError, match="must return a pair"):
        gn.grad(lambda x: (x, 1, 2), has_aux=True)(1.0)


def test_an_argument_is_differentiated_by_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        gn.grad(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0)


def test_complex_vectors_are_not_tangents_of_real_values() -> None:
    _, pullback = gn.vjp(lambda x: x, 3.0)
    with pytest.raises(ValueError, match="complex64"):
        pullback(1j)
    with pytest.raises(TypeError, match="complex64"):
        gn.jvp(lambda x: x, (3.0,), (1j,))


def test_integer_results() -> None:
    def f(x: Any) -> Any:
        return x * 2, x.astype(int)

    _, pullback = gn.vjp(f, 3.0)
    close(pullback((1.0, 0))[0], 2.0)  # whatever represents the integer's cotangent
    jacobian = gn.jacfwd(f)(gnp.arange(2.0))
    close(jacobian[0], 2 * np.eye(2))
    assert (jacobian[1].shape, jacobian[1].dtype) == ((2, 2), np.int32)
    assert gn.jacrev(lambda n: n * 2.0, allow_int=True)(gnp.arange(3)).dtype == np.int32
    assert gn.jacrev(lambda n: n * 2.0, allow_int=True)(3).weak_type


def test_bounds_computed_from_the_argument_are_known_under_grad() -> None:
    def power(x: Any) -> Any:
        return lax.fori_loop(0, x.astype(int), lambda _, y: y * x, 1.0)

    close(gn.grad(power)(3.0), 27.0)


def test_traced_functions_see_sorted_dictionaries() -> None:
    def stacked(d: Any) -> Any:
        return gnp.stack(list(d.values())) @ gnp.asarray([1.0, 10.0])

    one, other = {"b": 1.0, "a": 2.0}, {"a": 2.0, "b": 1.0}
    compiled = gn.jit(stacked)
    close([compiled(one), compiled(other)], [12.0, 12.0])
    close([gn.grad(stacked)(d)["a"] for d in (one, other)], [1.0, 1.0])
    close(gn.checkpoint(stacked)(one), 12.0)
    close(gn.jit(lambda **k: stacked(k))(b=1.0, a=2.0), 12.0)


def test_complex_derivatives() -> None:
    z = np.complex64(1 + 2j)
    close(gn.grad(lambda v: gnp.abs(v) ** 2)(z), np.conj(2 * z))
    found = gn.grad(lambda v: v**3, holomorphic=True)(z)
    close(found, 3 * z**2)


# ---------------------------------------------------------------------------------------- vmap


def test_vmap_axes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    close(gn.vmap(gnp.sum, in_axes=1)(x), x.sum(0))
    close(gn.vmap(lambda v: v, in_axes=-1, out_axes=-1)(x), x)
    close(gn.vmap(lambda v: v, in_axes=0, out_axes=1)(x), x.T)
    scaled = gn.vmap(lambda d, s: d["a"] * s, ({"a": 0, "b": None}, None))
    close(scaled({"a": x, "b": 1.0}, 2.0), 2 * x)
    close(gn.vmap(lambda v: gnp.ones(2), axis_size=3, in_axes=None)(1.0), np.ones((3, 2)))
    a, b = gn.vmap(lambda v: (v, 7.0), out_axes=(0, None))(x)
    close(a, x)
    assert b.shape == ()


def test_vmap_errors() -> None:
    x = gnp.ones((2, 3))
    with pytest.raises(ValueError, match="inconsistent sizes"):
        gn.vmap(lambda a, b: a)(gnp.ones(2), gnp.ones(3))
    with pytest.raises(ValueError, match="tree prefix"):
        gn.vmap(lambda a: a, in_axes=({"k": 0},))(x)
    with pytest.raises(ValueError, match="rank should be at least 3"):
        gn.vmap(lambda a: a, in_axes=2)(x)
    with pytest.raises(ValueError, match="non-None"):
        gn.vmap(lambda a: a, in_axes=None)(x)
    with pytest.raises(ValueError, match="out_axes is None"):
        gn.vmap(lambda a: a, out_axes=None)(x)
    with pytest.raises(TypeError, match="in_axes"):
        gn.vmap(lambda a: a, in_axes="0")(x)
    with pytest.raises(ValueError, match="2 entries"):
        gn.vmap(lambda a: a, in_axes=(0, 0))(x)


# -------------------------------------------------------------------------------------- errors


def test_numpy_reads_integers_in_eager_derivatives() -> None:
    x = gnp.array([1.5, 0.5, 2.5])

    def f(x: Any) -> Any:
        order = np.asarray(gnp.argsort(x))
        assert isinstance(order, np.ndarray) and np.asarray(x > 1).tolist() == [True, False, True]
        return x[order] * np.asarray(x.astype("int32"), "float32")

    expected = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 2]], np.float32)
    np.testing.assert_array_equal(gn.jacrev(lambda x: gn.vjp(f, x)[0])(x), expected)
    np.testing.assert_array_equal(gn.jvp(f, (x,), (gnp.ones(3),))[1], [1, 0, 2])
    np.testing.assert_array_equal(gn.linearize(f, x)[1](gnp.ones(3)), [1, 0, 2])
    with pytest.raises(gn.errors.TracerArrayConversionError):
        gn.jit(gn.grad(lambda x: f(x).sum()))(x)


def test_concretization_errors_name_the_argument_and_the_line() -> None:
    @gn.jit
    def f(first: Any, flag: Any) -> Any:
        return first if flag else -first

    with pytest.raises(gn.errors.TracerBoolConversionError) as caught:
        f(1.0, True)
    assert "the argument 'flag'" in str(caught.value)
    assert "lax.cond" in str(caught.value)

    @gn.jit
    def g(x: Any) -> Any:
        y = x + 1
        if y > 0:
            return y
        return x

    with pytest.raises(gn.errors.TracerBoolConversionError, match=r"test_transformations\.py:\d+"):
        g(1.0)
    with pytest.raises(gn.errors.TracerBoolConversionError):
        gn.vmap(lambda x: x if x > 0 else -x)(gnp.ones(3))
    with pytest.raises(gn.errors.ConcretizationTypeError):
        gn.jit(lambda n: gnp.zeros(3)[: int(n)])(2)
    with pytest.raises(gn.errors.TracerIntegerConversionError):
        gn.jit(lambda n: [0, 1, 2][n])(2)
    with pytest.raises(gn.errors.TracerArrayConversionError):
        gn.jit(lambda x: np.sin(x))(1.0)
    with pytest.raises(gn.errors.TracerArrayConversionError):
        gn.vmap(lambda x: np.asarray(x))(np.arange(3))
    with pytest.raises(gn.errors.TracerArrayConversionError):
        gn.grad(lambda x: np.asarray(x) * x)(1.0)
    with pytest.raises(gn.errors.ConcretizationTypeError):
        gn.jit(lambda x: float(x))(1.0)
    with pytest.raises(gn.errors.NonConcreteBooleanIndexError, match="where"):
        gn.jit(lambda x: x[x > 0])(gnp.ones(3))


def test_escaped_tracer() -> None:
    leaked = []

    def f(x: Any) -> Any:
        leaked.append(x * 2)
        return x

    gn.jit(f)(1.0)
    with pytest.raises(gn.errors.UnexpectedTracerError, match="escaped"):
        gnp.sin(leaked[-1])
    gn.grad(f)(1.0)
    with pytest.raises(gn.errors.UnexpectedTracerError, match="grad of f"):
        leaked[-1] + 1


def test_grad_errors() -> None:
    with pytest.raises(TypeError, match="scalar-output"):
        gn.grad(lambda x: x)(gnp.ones(3))
    with pytest.raises(TypeError, match="scalar-output"):
        gn.grad(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match="int32"):
        gn.grad(lambda x: x * 1.0)(3)
    with pytest.raises(TypeError, match="real-valued outputs"):
        gn.grad(lambda x: x * 1j)(3.0)
    with pytest.raises(TypeError, match="complex inputs"):
        gn.grad(lambda x: x, holomorphic=True)(3.0)
    with pytest.raises(TypeError, match="positional"):
        gn.grad(lambda x: x, argnums=1)(3.0)
    with pytest.raises(TypeError, match="callable"):
        gn.grad(3)
    with pytest.raises(TypeError, match="must return arrays"):
        gn.jit(lambda x: "text")(1.0)
    with pytest.raises(ValueError, match="equal shapes"):
        gn.jvp(gnp.sin, (gnp.ones(3),), (gnp.ones(2),))


def test_every_part_of_control_flow_may_call_jitted_functions() -> None:
    kept = gn.jit(lambda x: x * 2)
    like = gn.ShapeDtypeStruct((), np.float32)
    x = gnp.float32(3)

    def host(factor: int) -> Any:
        f = gn.jit(lambda x: gn.pure_callback(lambda v: np.float32(factor * v), like, x))
        return lambda x: f(x) + kept(x)

    for index, expected in enumerate((6, 9, 12, 21)):
        branches = [kept, gn.jit(lambda x: x * 3), host(2), host(5)]
        assert float(lax.switch(index, branches, x)) == expected
    below = gn.jit(lambda v: v < 9)
    assert float(lax.while_loop(lambda v: below(v), lambda v: kept(v), x)) == 12
    assert float(lax.while_loop(lambda v: below(kept(v)), lambda v: v + kept(v), x)) == 9


def test_control_flow_errors() -> None:
    with pytest.raises(TypeError, match="equal output types"):
        lax.cond(True, lambda x: x, lambda x: x[:2], gnp.ones(3))
    with pytest.raises(TypeError, match="same output structure"):
        lax.cond(True, lambda x: x, lambda x: (x, x), gnp.ones(3))
    with pytest.raises(TypeError, match="carry"):
        lax.scan(lambda c, x: (c.astype(int), x), 1.0, gnp.ones(3))
    with pytest.raises(TypeError, match="structure"):
        lax.scan(lambda c, x: ((c, c), x), 1.0, gnp.ones(3))
    with pytest.raises(TypeError, match="pair"):
        lax.scan(lambda c, x: c, 1.0, gnp.ones(3))
    with pytest.raises(ValueError, match="leading axis"):
        lax.scan(lambda c, x: (c, x), 1.0, (gnp.ones(3), gnp.ones(4)))
    with pytest.raises(TypeError, match="boolean scalar"):
        lax.while_loop(lambda c: c, lambda c: c, 1.0)
    with pytest.raises(TypeError, match="integer"):
        lax.switch(1.5, [lambda: 1.0, lambda: 2.0])


# ------------------------------------------------------------------------------- inspection


def test_make_jaxpr_and_eval_shape() -> None:
    text = str(gn.make_jaxpr(lambda x: gn.vmap(gn.grad(gnp.sin))(x))(gnp.ones(3)))
    assert '"gnomon.vmap"' in text
    assert '"gnomon.vjp"' in text
    shape = gn.eval_shape(lambda x: {"y": x @ x.T}, gn.ShapeDtypeStruct((3, 4), gnp.float32))
    assert shape == {"y": gn.ShapeDtypeStruct((3, 3), np.float32)}


def test_devices() -> None:
    assert gn.default_backend() == "cpu"
    (device,) = gn.devices()
    x = gn.device_put({"a": np.ones(3)}, device)
    assert x["a"].devices() == {device}
    with pytest.raises(RuntimeError, match="tpu"):
        gn.devices("tpu")
