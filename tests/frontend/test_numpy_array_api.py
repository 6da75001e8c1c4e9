"""`gnomon.numpy` as an array API namespace, compared with `jax.numpy`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.test_dtypes import KINDS

ASKED: list[Any] = [None, *KINDS, ("bool", "real floating"), ()]


def test_arrays_and_tracers_know_their_namespace() -> None:
    x = gnp.ones(3)
    found = []
    gn.jit(lambda x: (found.append(x.__array_namespace__()), x)[1])(x)
    assert [x.__array_namespace__(), *found] == [gnp, gnp]
    assert x.__array_namespace__(api_version=gnp.__array_api_version__) is gnp
    assert gnp.__array_api_version__ == jnp.__array_api_version__
    with pytest.raises(ValueError, match="of the array API is not supported; use '2024"):
        x.__array_namespace__(api_version="2021.12")


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("x64", [False, True])
def test_dtypes(x64: bool, kind: Any) -> None:
    with gn.enable_x64(x64), jax.enable_x64(x64):
        ours, theirs = gnp.__array_namespace_info__(), jnp.__array_namespace_info__()
        assert ours.dtypes(kind=kind) == theirs.dtypes(kind=kind)
        assert ours.default_dtypes() == theirs.default_dtypes()


def test_devices_and_capabilities() -> None:
    info = gnp.__array_namespace_info__()
    assert info.default_device() is None
    assert info.devices() == [None, *gn.devices()]
    assert info.capabilities() == jnp.__array_namespace_info__().capabilities()


@pytest.mark.parametrize("value", [None, "ab", {}, range(3), object(), [1, 2]])
def test_shapes_of_what_is_no_array(value: Any) -> None:
    for name in ("shape", "ndim", "size"):
        with pytest.warns(DeprecationWarning, match=f"{name} of a"):
            assert getattr(gnp, name)(value) == getattr(np, name)(value)
