"""States in files: what is written is read back, and other states are refused."""

from __future__ import annotations

import collections

import ml_dtypes
import numpy as np
import pytest

import gnomon_runtime as gr

Point = collections.namedtuple("Point", "x y")


def state():
    return {
        "params": [
            {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float64(2)},
            (np.ones(3, ml_dtypes.bfloat16), None),
        ],
        "key": gr.Opaque("gnomon.KeyArray", b"threefry2x32", (np.uint32(1), np.uint32(2))),
        "point": Point(np.array([True, False]), np.zeros((0, 2), np.int8)),
    }


def test_a_state_comes_back(tmp_path) -> None:
    path = tmp_path / "state.safetensors"
    gr.save_state(path, state())
    found, expected = gr.load_state(path, state()), state()
    assert isinstance(found["point"], Point)
    assert found["params"][1][1] is None
    assert found["key"].data == b"threefry2x32"
    for mine, other in (
        (found["params"][0]["w"], expected["params"][0]["w"]),
        (found["params"][0]["b"], expected["params"][0]["b"]),
        (found["params"][1][0], expected["params"][1][0]),
        (found["key"].children[1], np.uint32(2)),
        (found["point"].x, expected["point"].x),
        (found["point"].y, expected["point"].y),
    ):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(mine, other)


def test_other_states_are_refused(tmp_path) -> None:
    path = tmp_path / "state.safetensors"
    gr.save_state(path, {"a": np.zeros(3), "b": [np.zeros(2)]})
    with pytest.raises(gr.CheckpointError, match="has no array 'c'"):
        gr.load_state(path, {"c": np.zeros(3)})
    with pytest.raises(gr.CheckpointError, match=r"'a' is float64\[3\].*float64\[4\]"):
        gr.load_state(path, {"a": np.zeros(4), "b": [np.zeros(2)]})
    with pytest.raises(gr.CheckpointError, match="that the state does not have: b/0"):
        gr.load_state(path, {"a": np.zeros(3)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(gr.CheckpointError):
        gr.load_state(path, {"a": np.zeros(3), "b": [np.zeros(2)]})
    with pytest.raises(TypeError, match="a/0 is neither an array"):
        gr.save_state(path, {"a": ["text"]})
    with pytest.raises(gr.CheckpointError, match="two arrays would be named '1'"):
        gr.save_state(path, {"1": np.zeros(1), 1: np.zeros(1)})
