"""The versions of JAX that tests compare with: 0.12 on Python 3.12 and later, 0.10 before.

What differs between them is said once, here or beside the test that meets it.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version("jax").split(".")[:3])
    except PackageNotFoundError:
        return ()


# The version that is installed; empty without JAX.
INSTALLED = _installed()
# Whether JAX is of the newest version that the tests know.
IS_NEWEST = INSTALLED >= (0, 12)

# Functions that JAX has since 0.12, by their names in the programs of the fuzzer. Before that,
# their tests compare with definitions.
NEW_FUNCTIONS = frozenset(
    (
        *("gnp.minmax", "gnp.top_k", "lax.log2", "lax.one_minus_square", "lax.polynomial"),
        "special.erfcinv",
    )
)
# Names that JAX no longer has in 0.12, by module: reasons in `tests/tools/api_left_out.py` stay for
# older versions.
REMOVED_NAMES = {
    "lax": frozenset(("precv", "psend")),
    "experimental.ode": frozenset(("api_util", "lu", "ravel_first_arg_")),
}
# Names that JAX has since 0.12 and that gnomon leaves out, by module.
NEW_NAMES_LEFT_OUT = {
    "": frozenset(("CompilerEffortLevel", "Inline")),
    "lax": frozenset(("psum_scatter_start",)),
    "ad_checkpoint": frozenset(("checkpoint_name_fwd",)),
    "experimental.layout": frozenset(("explicit_layout",)),
    "sharding": frozenset(("UnreducedKind",)),
}
# Programs of `tests/frontend/test_explicit_shardings.py` that JAX decides differently since 0.12;
# gnomon decides them as older versions do.
CHANGED_SHARDINGS = {
    "lax.dot_general(b, c, (((1,), (1,)), ((0,), (0,))))": "batch dimensions must be split alike, "
    "where one of them may be unsplit before",
    "xnp.empty_like(a)": "an error of JAX inside of jitted functions",
    "U / 2.0": "a ValueError where older versions raise ShardingTypeError",
    "U.mean()": "a ValueError where older versions raise ShardingTypeError",
    "shard_map(lambda t: t, in_specs=PX, out_specs=PU)(v)": "a varying result is not taken for the "
    "terms of a sum without lax.pcast",
}
