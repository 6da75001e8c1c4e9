"""`scipy.spatial.transform` compared with SciPy, in both widths; derivatives at zero angles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.spatial.transform as theirs

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.scipy.spatial.transform import Rotation, Slerp
from tests.tolerance import assert_near

RNG = np.random.default_rng(3)
QUATS = np.concatenate(
    [
        RNG.standard_normal((6, 4)),
        np.eye(4),
        -np.eye(4),
        [[1e-5, 0, 0, 1], [0, 1e-20, 0, -1], [1, 0, 0, 1e-7], [0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0]],
    ]
)
QUATS /= np.linalg.norm(QUATS, axis=1, keepdims=True)
# Products and angles magnify the rounding of a quaternion to some units.
UNITS = 16.0


@pytest.fixture(params=[False, True], ids=["f32", "f64"])
def x64(request: pytest.FixtureRequest) -> Any:
    with gn.enable_x64(request.param):
        yield request.param


def ours_and_theirs(quats: np.ndarray) -> tuple[Rotation, theirs.Rotation]:
    mine = Rotation.from_quat(gnp.array(quats))
    return mine, theirs.Rotation.from_quat(np.asarray(mine.as_quat(), np.float64))


def same_rotation(mine: Rotation, other: theirs.Rotation, units: float = UNITS) -> None:
    assert_near(mine.as_matrix(), other.as_matrix().astype(mine.quat.dtype), units)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("several", [False, True])
def test_every_form_is_scipys_and_leads_back(several: bool) -> None:
    for quats in [QUATS] if several else QUATS:
        mine, other = ours_and_theirs(quats)
        dtype = mine.quat.dtype
        same_rotation(mine, other)
        assert_near(mine.magnitude(), np.asarray(other.magnitude(), dtype), UNITS)
        assert_near(mine.as_mrp(), other.as_mrp().astype(dtype), UNITS)
        canonical = other.as_quat(canonical=True).astype(dtype)
        assert_near(mine.as_quat(canonical=True), canonical, UNITS)
        first = mine.as_quat(scalar_first=True)
        assert first.tolist() == np.roll(mine.as_quat(), 1, -1).tolist()
        for form in ("matrix", "rotvec", "mrp", "quat"):
            back = getattr(Rotation, f"from_{form}")(getattr(mine, f"as_{form}")())
            same_rotation(back, other, 2 * UNITS)
        same_rotation(mine.inv(), other.inv())
        same_rotation(Rotation.from_rotvec(mine.as_rotvec(degrees=True), True), other, 2 * UNITS)


@pytest.mark.usefixtures("x64")
def test_rotation_vectors_are_scipys() -> None:
    mine, other = ours_and_theirs(QUATS[:6])
    assert_near(mine.as_rotvec(), other.as_rotvec().astype(mine.quat.dtype), UNITS)
    tiny = gnp.array([[1e-6, -2e-6, 3e-6], [0, 0, 0]])
    assert_near(Rotation.from_rotvec(tiny).as_rotvec(), tiny, UNITS)


SEQUENCES = ["".join(s) for s in itertools.product("xyz", repeat=3) if s[1] not in (s[0], s[2])]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seq", [*SEQUENCES, *map(str.upper, SEQUENCES)])
def test_euler_angles_are_scipys(seq: str) -> None:
    angles = RNG.uniform(-1, 1, (5, 3)) * np.array([3.0, 1.4, 3.0])
    if seq[0] == seq[2]:
        angles[:, 1] += 1.6
    mine = Rotation.from_euler(seq, gnp.array(angles))
    given = np.asarray(gnp.array(angles), np.float64)
    dtype = mine.quat.dtype
    same_rotation(mine, theirs.Rotation.from_euler(seq, given))
    # The outer angles lose digits if the middle one is near an end: a tenth of a radian here.
    assert_near(mine.as_euler(seq), given.astype(dtype), 16 * UNITS)
    assert_near(mine.as_euler(seq, degrees=True), np.rad2deg(given).astype(dtype), 16 * UNITS)
    single = Rotation.from_euler(seq, gnp.rad2deg(gnp.array(angles[0])), degrees=True)
    assert single.single
    same_rotation(single, theirs.Rotation.from_euler(seq, given[0]), 2 * UNITS)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZXZ", "yzx", "YXZ"])
def test_angles_whose_axes_are_one_line_give_the_rotation(seq: str) -> None:
    middles = [0.0, np.pi] if seq[0] == seq[2] else [np.pi / 2, -np.pi / 2]
    for middle in middles:
        mine = Rotation.from_euler(seq, gnp.array([0.7, middle, -0.4]))
        back = Rotation.from_euler(seq, mine.as_euler(seq))
        # The error of a right angle is the square root of a unit.
        off = (mine.inv() * back).magnitude()
        assert float(off) < 4 * np.sqrt(np.finfo(off.dtype).eps)


@pytest.mark.usefixtures("x64")
def test_one_axis() -> None:
    one = float(gnp.array(0.3))
    same_rotation(Rotation.from_euler("y", 0.3), theirs.Rotation.from_euler("y", one))
    angles = np.array([0.5, 1.0, -2.0])
    for given in (angles, angles[:, None]):
        mine = Rotation.from_euler("Z", gnp.array(given))
        assert len(mine) == 3
        same_rotation(mine, theirs.Rotation.from_euler("Z", angles[:, None]))
    same_rotation(
        Rotation.from_euler("zx", gnp.array([0.5, 1.0])),
        theirs.Rotation.from_euler("zx", [0.5, 1.0]),
    )


@pytest.mark.usefixtures("x64")
def test_products_and_what_they_do_to_vectors() -> None:
    (p, p0), (q, q0) = ours_and_theirs(QUATS[:4]), ours_and_theirs(QUATS[2:6])
    same_rotation(p * q, p0 * q0)
    same_rotation(p[0] * q, p0[0] * q0)
    vectors = RNG.standard_normal((4, 3))
    mine = gnp.array(vectors)
    given = np.array(mine, np.float64)
    dtype = p.quat.dtype
    for inverse in (False, True):
        assert_near(p.apply(mine, inverse), p0.apply(given, inverse).astype(dtype), UNITS)
        assert_near(p[1].apply(mine, inverse), p0[1].apply(given, inverse).astype(dtype), UNITS)
        one = p.apply(mine[0], inverse)
        assert_near(one, p0.apply(given[0], inverse).astype(dtype), UNITS)
        assert p[0].apply(mine[0]).shape == (3,)


@pytest.mark.usefixtures("x64")
def test_means_sequences_and_identities() -> None:
    mine, other = ours_and_theirs(QUATS[:6])
    same_rotation(mine.mean(), other.mean(), 8 * UNITS)
    weights = np.arange(1.0, 7)
    same_rotation(mine.mean(gnp.array(weights)), other.mean(weights), 8 * UNITS)
    joined = Rotation.concatenate([mine, mine[0]])
    assert len(joined) == 7
    assert (len(mine[1:3]), mine[2].single, mine.single) == (2, True, False)
    assert Rotation.identity(3).as_matrix().tolist() == [np.eye(3).tolist()] * 3
    assert Rotation.identity().as_rotvec().tolist() == [0, 0, 0]


def test_random_rotations_have_no_preferred_direction() -> None:
    turns = Rotation.random(gn.random.key(0), 4000)
    # The standard deviation of a mean of 4000 entries of such a matrix is 1 / sqrt(12000).
    assert float(gnp.max(gnp.abs(gnp.mean(turns.as_matrix(), 0)))) < 5 / np.sqrt(12000)
    assert Rotation.random(gn.random.key(1)).single


@pytest.mark.usefixtures("x64")
def test_slerp_agrees_with_scipy_and_extrapolates() -> None:
    mine, other = ours_and_theirs(QUATS[:4])
    times = np.array([0.0, 1.0, 2.5, 4.0])
    between = Slerp.init(times, mine)
    at = np.array([0.0, 0.25, 1.0, 2.0, 2.5, 3.9, 4.0])
    same_rotation(between(at), theirs.Slerp(times, other)(at), 4 * UNITS)
    assert between(0.5).single
    half, whole = between(gnp.array([4.75, 5.5])).quat, mine[3]
    turn = mine[2].inv() * mine[3]
    same = (Rotation(half[1]).inv() * (whole * turn)).magnitude()
    assert float(same) < 64 * np.finfo(same.dtype).eps


def test_they_are_pytrees_that_compile_map_and_have_derivatives_at_zero() -> None:
    mine = Rotation.from_quat(gnp.array(QUATS[:5]))
    compiled = gn.jit(lambda r, v: (r * r).apply(v))(mine, gnp.ones((5, 3)))
    assert_near(compiled, (mine * mine).apply(gnp.ones((5, 3))), UNITS)
    mapped = gn.vmap(lambda r: r.as_euler("xyz"))(mine)
    assert_near(mapped, mine.as_euler("xyz"), UNITS)

    def turned(v: Any) -> Any:
        return Rotation.from_rotvec(v).apply(gnp.array([1.0, 2.0, 3.0]))

    # At the identity, the derivative is the cross product with the vector.
    cross = -np.array([[0, -3, 2], [3, 0, -1], [-2, 1, 0]], np.float32)
    assert_near(gn.jacobian(turned)(gnp.zeros(3)), cross, UNITS)
    there_and_back = gn.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())
    assert_near(there_and_back(gnp.zeros(3)), np.eye(3, dtype=np.float32), UNITS)
    assert_near(there_and_back(gnp.array([1e-5, 0, 2e-5])), np.eye(3, dtype=np.float32), UNITS)
    angles = gn.jacobian(lambda v: Rotation.from_rotvec(v).as_euler("xyz"))(gnp.zeros(3))
    assert_near(angles, np.eye(3, dtype=np.float32), UNITS)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, r"quat must have shape \(4,\)", lambda: Rotation.from_quat(gnp.ones(3))),
        (ValueError, r"matrix must have shape", lambda: Rotation.from_matrix(gnp.ones((2, 2)))),
        (ValueError, "Expected axes", lambda: Rotation.from_euler("xYz", gnp.ones(3))),
        (ValueError, "not one for each axis", lambda: Rotation.from_euler("xyz", gnp.ones(2))),
        (ValueError, "Expected 3 axes", lambda: Rotation.identity().as_euler("xy")),
        (ValueError, "consecutive axes", lambda: Rotation.identity().as_euler("xxy")),
        (TypeError, "not subscriptable", lambda: Rotation.identity()[0]),
        (TypeError, r"no len\(\)", lambda: len(Rotation.identity())),
        (TypeError, "unsupported operand", lambda: Rotation.identity() * 2),
        (ValueError, "at least 2", lambda: Slerp.init([0], Rotation.identity(1))),
        (TypeError, "must be a `Rotation`", lambda: Slerp.init([0, 1], gnp.ones((2, 4)))),
        (ValueError, "a time for each", lambda: Slerp.init([0, 1, 2], Rotation.identity(2))),
        (ValueError, "weights of shape", lambda: Rotation.identity(2).mean([1.0])),
    ],
)
def test_errors_of_bad_calls(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()
