"""`scipy.special` at the ends and signs of its arguments, compared with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as theirs

import gnomon as gn
from gnomon import numpy as gnp
from gnomon.scipy import special
from tests.tolerance import assert_each_near


@pytest.mark.parametrize(
    "function", [special.sici, pytest.param(gn.jit(special.sici), marks=pytest.mark.slow)]
)
def test_the_cosine_integral_has_no_limit_at_minus_infinity(function) -> None:  # type: ignore[no-untyped-def]
    si, ci = function(gnp.array([-np.inf, np.inf]))
    wanted_si, wanted_ci = theirs.sici(np.array([-np.inf, np.inf]))
    assert_each_near(si, wanted_si.astype(np.float32), 1)
    np.testing.assert_array_equal(ci, wanted_ci)


def test_spherical_harmonics_of_negative_polar_angles() -> None:
    theta = np.array([-0.5, -2.0, 0.7])
    for m in range(-3, 4):
        with gn.enable_x64(True):
            mine = special.sph_harm_y(np.array([3] * 3), np.array([m] * 3), theta, 0.3, n_max=3)
        assert_each_near(mine, theirs.sph_harm_y(3, m, theta, 0.3), 16, scale=1.0)


def test_scaled_complementary_error_function_of_complex_numbers() -> None:
    z = np.array([0.3 + 0.2j, -0.4 + 1j, 2 - 3j, 5 + 0j, -1 - 0.5j, 30 + 10j])
    with gn.enable_x64(True):
        mine = special.erfcx(gnp.array(z))
    # The numerator of a rational function of 48 terms.
    assert_each_near(mine, theirs.erfcx(z), 64)
