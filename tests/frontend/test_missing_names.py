"""The error for names of JAX that gnomon does not have."""

from __future__ import annotations

import fnmatch

import pytest

import gnomon as gn
from gnomon._diagnostics.missing_names import NOT_YET

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("name", ["host_id", "ffi"])
def test_the_error_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"gnomon has no '{name}': .*docs/api\.md"):
        getattr(gn, name)


def test_every_name_that_is_left_out_is_known() -> None:
    from tests.tools.api_left_out import LEFT_OUT

    patterns = [pattern for names in LEFT_OUT[""].values() for pattern in names.split()]
    left_out = [n for n in dir(jax) if any(fnmatch.fnmatch(n, pattern) for pattern in patterns)]
    assert [name for name in left_out if name not in NOT_YET] == []
    assert [name for name in NOT_YET if hasattr(gn, name)] == []


def test_other_names_get_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'grda'; did you mean 'grad'\?"):
        gn.grda
    with pytest.raises(AttributeError, match="'gnomon' has no attribute '__path_of_what__'"):
        gn.__path_of_what__
    assert not hasattr(gn, "ffi")
