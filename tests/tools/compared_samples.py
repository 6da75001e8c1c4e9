"""Arguments to call the public functions with, for `compared_table`."""

from __future__ import annotations

from gnomon.tools.fuzz.program import Array

# The name in an expression, and the array.
ARRAYS = {
    "F": Array((7,), "float32", "normal", 1),
    "G": Array((7,), "float32", "normal", 2),
    "H": Array((7,), "float32", "normal", 3),
    "E": Array((7,), "float32", "fraction", 4),
    "Q": Array((7,), "float32", "fraction", 5),
    "R": Array((7,), "float32", "fraction", 6),
    "M": Array((3, 5), "float32", "normal", 7),
    "N": Array((3, 5), "float32", "normal", 8),
    "I": Array((7,), "int32", "natural", 9),
    "J": Array((7,), "int32", "natural", 10),
    "K": Array((7,), "int32", "natural", 11),
    "C": Array((7,), "complex64", "complex", 12),
    "D": Array((7,), "complex64", "complex", 13),
    "B": Array((7,), "bool", "bits", 14),
    "U": Array((7,), "uint8", "natural", 15),
    "S": Array((4, 4), "float32", "dominant", 16),
    "P": Array((4, 4), "float32", "definite", 17),
    "V": Array((4,), "float32", "normal", 18),
    "W": Array((4,), "float32", "normal", 19),
    "T": Array((2, 3, 4), "float32", "normal", 20),
    "X": Array((3, 3), "complex64", "complex", 21),
    "Y": Array((7,), "bfloat16", "normal", 22),
    "Z": Array((2, 3, 8, 8), "float32", "normal", 23),
    "A": Array((4, 3, 3, 3), "float32", "normal", 24),
}

# Samples to try in turn, by the number of required arguments. Up to `SAMPLES` of those that JAX
# accepts are compared.
SAMPLES = 2
GENERIC: dict[int, tuple[str, ...]] = {
    0: ("", "3", "F"),
    1: ("F", "I", "C", "M", "E", "B", "S", "T", "3", "(2, 3)", "[F, G]"),
    2: (
        "F, G",
        "E, Q",
        "I, J",
        "F, I",
        "C, F",
        "M, N",
        "M, 1",
        "S, V",
        "S, S",
        "F, 2",
        "I, 2",
        "(2, 3), 2",
    ),
    3: ("F, G, H", "E, Q, R", "I, J, K", "M, N, 1", "F, I, J", "I, E, Q"),
    4: ("E, E, Q, R", "F, G, H, E", "I, I, E, Q", "I, J, K, E"),
}
OF_KEY: dict[int, tuple[str, ...]] = {
    1: ("random.key(1)", "random.key(2), (3,)", "random.PRNGKey(3), (2, 4)"),
    2: ("random.key(1), E", "random.key(2), 3", "random.PRNGKey(3), E + 1", "random.key(1), F"),
    3: (
        "random.key(1), E, Q",
        "random.key(1), E, Q + 1",
        "random.key(2), 1, 5",
        "random.key(2), 0.5, 2.0",
    ),
    4: (
        "random.key(1), E, E + 1, E + 2",
        "random.key(2), (3,), 0.0, 1.0",
        "random.key(2), (4,), -2, 7",
    ),
}

_TWO = ("F, G", "I, J", "F, 2", "F, I")
_BITS = ("I, J", "U, 3", "B, B")
_SCATTER = (
    "lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), "
    "scatter_dims_to_operand_dims=(0,))"
)
_CONV = ("Z, A, (1, 1), 'SAME'", "Z, A, (2, 1), 'VALID'")


def _of_eigh(call: str) -> str:
    """Eigenvalues and absolute eigenvectors: the signs of the vectors are free."""
    return f"@(lambda w, v: (w, gnp.abs(v)))(*{call})"


def _of_schur(call: str) -> str:
    """The product of the factors of a Schur form, whose order and signs are free."""
    return f"@(lambda t, z: z @ t @ z.mT)(*{call})"


# Functions that differ, by pattern, and the reason, as in docs/differences.md.
DIFFERENT: dict[str, str] = {
    "gnp.blackman": "nearer to the exact values: JAX rounds each step to float32",
    "special.hyp1f1": "computed in several ways, of which the best is chosen",
    "special.hyp2f1": "computed in several ways, of which the best is chosen",
    "*.digamma": "infinite at zeros; JAX before 0.12 gives nan",
    "stats.cauchy.ppf": "as in SciPy; JAX before 0.12 loses digits in the tails",
    "stats.cauchy.isf": "as in SciPy; JAX before 0.12 loses digits in the tails",
    "stats.norm.logcdf": "exact; JAX loses digits between 2 and 5",
    "special.expi": "-inf at 0, as in SciPy; JAX gives nan",
    "stats.bernoulli.*pmf": "numbers other than 0 and 1 have probability 0; JAX interpolates",
    "stats.binom.*pmf": "numbers beyond n have probability 0; JAX's may exceed 1",
    **dict.fromkeys(
        [
            *("stats.chi2.*pdf", "stats.gamma.*", "stats.pareto.*"),
            *("stats.geom.*pmf", "stats.nbinom.*pmf", "stats.poisson.*"),
        ],
        "nan for invalid parameters, as in SciPy; JAX gives numbers",
    ),
    "stats.gumbel_l.logcdf": "exact where the probability is near 1; JAX gives 0",
    "stats.gumbel_?.ppf": "-inf at 0, as in SciPy; JAX gives nan",
    "special.bessel_jn": "JAX gives nan where its recurrence overflows",
}

# The arguments, as Python; after an @ the whole expression.
SPECIAL: dict[str, tuple[str, ...]] = {
    **{f"gnp.{name}": _TWO for name in ["add", "subtract", "multiply", "maximum", "minimum"]},
    **{f"gnp.{name}": ("F, G", "I, J", "F, 2") for name in ["logaddexp", "logaddexp2"]},
    **{f"gnp.{name}": _BITS for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]},
    **{f"gnp.logical_{name}": ("F, G", "B, I") for name in ["and", "or", "xor"]},
    **{f"gnp.{name}": ("1", "6") for name in ["bartlett", "blackman", "hamming", "hanning"]},
    **{
        f"gnp.{name}": ("I, J", "F[:4], F[2:]")
        for name in ["intersect1d", "setdiff1d", "setxor1d", "union1d"]
    },
    **{
        f"gnp.{name}": ("I", "F", "I, size=4")
        for name in ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
    },
    "gnp.unique_all": ("I", "I, size=5"),
    "gnp.unique_values": ("I", "I, size=5"),
    "gnp.apply_along_axis": ("lambda v: v.sum(), 1, T", "gnp.sort, 0, M"),
    "gnp.apply_over_axes": ("gnp.sum, T, (0, 2)", "gnp.max, M, (1,)"),
    "gnp.arange": ("5", "1, 9, 2", "2.5", "3, dtype='float32'"),
    "gnp.argwhere": ("I", "B", "I, size=3"),
    "gnp.astype": ("F, 'int32'", "I, 'complex64'", "F, 'bool'"),
    "gnp.bincount": ("I", "I, E", "I, length=9"),
    "gnp.broadcast_to": ("F, (3, 7)", "M[:, :1], (3, 5)", "1, (2,)"),
    "gnp.choose": ("I % 2, [F, G]", "I, [F, G, H], mode='wrap'"),
    "gnp.compress": ("B, F", "B, F, size=4"),
    "gnp.cross": ("M[:, :3], N[:, :3]", "F[:3], I[:3]"),
    "gnp.diag_indices": ("3", "2, 3"),
    "gnp.diag_indices_from": ("S", "T[:, :2, :2]"),
    "gnp.dsplit": ("T, 2", "T, [1, 3]"),
    "gnp.einsum": ("'ij,kj->ik', M, N", "'i,i', F, I", "'ii->i', S", "'...j->...', T"),
    "gnp.expand_dims": ("F, 0", "M, (0, -1)"),
    "gnp.extract": ("B, F", "B, F, size=4"),
    "gnp.eye": ("3", "3, 4, k=1", "2, dtype='int32'"),
    "gnp.fill_diagonal": ("S, 2, inplace=False", "T[:, :2, :2], 3, inplace=False"),
    "gnp.flatnonzero": ("I", "I, size=3, fill_value=1", "B, size=9"),
    "gnp.fromfunction": ("lambda i, j: i + j, (2, 3)", "lambda i: i * 2., (4,)"),
    "gnp.frompyfunc": ("@gnp.frompyfunc(gnp.add, 2, 1)(F, G)",
                       "@gnp.frompyfunc(lambda x: x * 2, 1, 1)(I)"),
    "gnp.full": ("(2, 3), 1", "(2,), 1.5, 'float16'", "3, F[0]"),
    "gnp.hsplit": ("T, 3", "Z, [2]"),
    "gnp.vsplit": ("T, 2", "Z, [1]"),
    "gnp.identity": ("3", "2, 'int32'"),
    "gnp.indices": ("(2, 3)", "(2,), sparse=True"),
    "gnp.kaiser": ("5, 3.0", "1, 2.0"),
    "gnp.mask_indices": ("3, gnp.triu", "3, gnp.tril, 1"),
    "gnp.moveaxis": ("T, 0, 2", "T, (0, 1), (-1, 0)"),
    "gnp.nonzero": ("I", "B", "I, size=3, fill_value=1"),
    "gnp.permute_dims": ("T, (2, 0, 1)", "M, (1, 0)"),
    "gnp.place": ("F, B, G, inplace=False", "I, B, J, inplace=False"),
    "gnp.polyfit": ("F, G, 2", "F, G, 1, w=E"),
    "gnp.put": ("F, I, G, inplace=False", "M, 3, 1., inplace=False"),
    "gnp.put_along_axis": ("M, I[:3, None] % 5, 9., 1, inplace=False",
                           "F, I, 1., 0, inplace=False"),
    "gnp.ravel_multi_index": ("(I, J), (9, 9)", "(I, J), (2, 3), mode='wrap'"),
    "gnp.reshape": ("T, (4, 6)", "M, -1", "M, (5, 3), order='F'"),
    "gnp.rollaxis": ("T, 2", "T, 1, 3"),
    "gnp.roll": ("F, 2", "I, -1", "M, 1, 0"),
    "gnp.select": ("[B, I > 2], [F, G]", "[B], [I], 3"),
    "gnp.roots": ("F", "G[:4]"),
    "gnp.split": ("T, 2, 2", "F, [2, 3]", "T, 3, axis=1"),
    "gnp.swapaxes": ("T, 0, 2", "M, 0, 1"),
    "gnp.tri": ("3", "3, 4, 1, dtype='int32'"),
    "gnp.tril_indices": ("3", "3, 1, 4"),
    "gnp.triu_indices": ("3", "3, 1, 4"),
    "gnp.trim_zeros": ("I", "I, 'b'"),
    "gnp.unpackbits": ("U", "U, count=9, bitorder='little'"),
    "gnp.vecmat": ("V, S", "C[:3], X"),
    "gnp.vectorize": ("@gnp.vectorize(lambda x, y: x + y)(M, 2)",
                      "@gnp.vectorize(gnp.dot, signature='(n),(n)->()')(M, N)"),
    "gnp.where": ("B, F, G", "B, F, 0", "I > 2, I, F", "B"),
    "gnp.fft.fftfreq": ("5", "4, 0.5"),
    "gnp.fft.rfftfreq": ("5", "4, 0.5"),
    **{
        f"lax.{name}": (f"@gn.vmap(lambda x: lax.{name}(x, 'i'), axis_name='i')(M)",
                        f"@gn.vmap(lambda x: lax.{name}(x, 'i'), axis_name='i')(F)")
        for name in ["psum", "pmax", "pmin", "pmean", "all_gather"]
    },
    "lax.all_to_all": ("@gn.vmap(lambda x: lax.all_to_all(x, 'i', 0, 0), axis_name='i')(S)",
                       "@gn.vmap(lambda x: lax.all_to_all(x, 'i', 0, 1), axis_name='i')"
                       "(T[:, :2])"),
    "lax.axis_index": ("@gn.vmap(lambda x: x + lax.axis_index('i'), axis_name='i')(F)",
                       "@gn.vmap(lambda x: lax.axis_index('i'), axis_name='i')(M)"),
    "lax.axis_size": ("@gn.vmap(lambda x: x * lax.axis_size('i'), axis_name='i')(F)",
                      "@gn.vmap(lambda x: x / lax.axis_size('i'), axis_name='i')(I)"),
    "lax.ppermute": ("@gn.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 0)]), "
                     "axis_name='i')(F[:2])",
                     "@gn.vmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 0)]), "
                     "axis_name='i')(M)"),
    "lax.pshuffle": ("@gn.vmap(lambda x: lax.pshuffle(x, 'i', [1, 0]), axis_name='i')(F[:2])",
                     "@gn.vmap(lambda x: lax.pshuffle(x, 'i', [2, 0, 1]), axis_name='i')(M)"),
    "lax.psum_scatter": ("@gn.vmap(lambda x: lax.psum_scatter(x, 'i'), axis_name='i')(S)",
                         "@gn.vmap(lambda x: lax.psum_scatter(x, 'i', tiled=True), "
                         "axis_name='i')(S)"),
    "lax.pswapaxes": ("@gn.vmap(lambda x: lax.pswapaxes(x, 'i', 0), axis_name='i')(S)",
                      "@gn.vmap(lambda x: lax.pswapaxes(x, 'i', 1), axis_name='i')(T[:, :, :2])"),
    "lax.argmax": ("F, 0, 'int32'", "M, 1, 'int32'"),
    "lax.argmin": ("F, 0, 'int32'", "M, 1, 'int32'"),
    "lax.associative_scan": ("lax.add, F", "lax.mul, M, axis=1", "gnp.maximum, I, reverse=True"),
    "lax.batch_matmul": ("Z, Z", "T, T.swapaxes(1, 2)"),
    "lax.bitcast_convert_type": ("F, 'int32'", "I, 'float32'", "F, 'uint8'"),
    "lax.reshape": ("M, (5, 3)", "T, (4, 6), (2, 0, 1)"),
    "lax.shape_as_value": ("(2, 3)", "()"),
    "special.expn": ("gnp.array([1, 2, 3]), E[:3]", "3, E"),
    "lax.cumlogsumexp": ("F", "M, 1"),
    "lax.broadcast_to_rank": ("F, 2", "M, 3"),
    "lax.broadcast": ("F, (2, 3)", "I, ()"),
    "lax.broadcast_in_dim": ("F, (2, 7), (1,)", "M, (3, 2, 5), (0, 2)"),
    "lax.broadcasted_iota": ("'int32', (3, 4), 1", "'float32', (5,), 0"),
    "lax.composite": ("@lax.composite(lambda x: x * 2, 'my.double')(F)",
                      "@lax.composite(lambda x, *, k: x * k, 'my.scale')(I, k=3)"),
    "lax.concatenate": ("[F, G], 0", "[M, N], 1"),
    "lax.cond": ("True, lambda x: x + 1, lambda x: x * 2, F",
                 "I[0] > 2, lambda x, y: x, lambda x, y: y, F, G"),
    "lax.switch": ("1, [lambda x: x + 1, lambda x: x * 2], F",
                   "I[0], [lambda x, y: x, lambda x, y: y], F, G"),
    "lax.while_loop": ("lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, F)",
                       "lambda c: c < 9, lambda c: c + 2, 1"),
    "lax.fori_loop": ("0, 3, lambda i, c: c * 2 + i, F", "0, I[0], lambda i, c: c + i, 1"),
    "lax.scan": ("lambda c, x: (c + x, c * x), 0., F", "lambda c, x: (c * 2, x.sum()), V, T[0]",
                 "lambda c, x: (c + 1, None), I, None, length=3"),
    "lax.map": ("lambda x: x * 2, F", "gnp.sum, M", "gnp.sum, M, batch_size=2"),
    "lax.conv": _CONV,
    "lax.conv_general_dilated": (*_CONV, "Z, A, (1, 1), [(1, 2), (0, 1)], (2, 1), (1, 2)"),
    "lax.conv_general_dilated_local": (
        "Z[:, :, :3, :3], gnp.ones((2, 12, 2, 2)), (1, 1), 'VALID', (2, 2)",
        "Z[:, :1, :3, :3], gnp.ones((2, 4, 2, 2)), (1, 1), 'VALID', (2, 2)",
    ),
    "lax.conv_general_dilated_patches": ("Z, (2, 2), (1, 1), 'VALID'", "Z, (3, 1), (2, 1), 'SAME'"),
    "lax.conv_transpose": ("Z.transpose(0, 2, 3, 1), A.transpose(2, 3, 1, 0), (2, 2), 'SAME'",
                           "Z.transpose(0, 2, 3, 1), A.transpose(2, 3, 1, 0), (1, 2), 'VALID'"),
    "lax.conv_with_general_padding": ("Z, A, (1, 1), [(1, 0), (2, 1)], (1, 2), (1, 1)",
                                      "Z, A, (2, 2), 'SAME', (1, 1), (2, 1)"),
    "lax.convert_element_type": ("F, 'int32'", "I, 'bfloat16'", "1.5, 'float32'"),
    "lax.custom_linear_solve": ("lambda x: S @ x, V, lambda f, b: gnp.linalg.solve(S, b)",
                                "lambda x: 2 * x, F, lambda f, b: b / 2, symmetric=True"),
    "lax.custom_root": (
        "lambda x: x ** 3 - 2., 1., lambda f, x: gnp.cbrt(2.), lambda g, y: y / g(1.)",
        "lambda x: x - F, G, lambda f, x: F, lambda g, y: y",
    ),
    "lax.dot_general": ("M, N, (((1,), (1,)), ((), ()))", "T, T, (((2,), (2,)), ((0,), (0,)))"),
    "lax.dynamic_slice": ("M, (1, I[0]), (2, 2)", "F, (9,), (3,)"),
    "lax.dynamic_slice_in_dim": ("F, 2, 3", "M, I[0], 2, 1"),
    "lax.dynamic_update_slice": ("M, N[:2, :2], (1, I[0])", "F, G[:3], (-2,)"),
    "lax.dynamic_update_slice_in_dim": ("F, G[:2], 3, 0", "M, N[:, :1], I[0], 1"),
    "lax.dynamic_update_index_in_dim": ("F, 1., 3, 0", "M, N[0], I[0], 0"),
    "lax.expand_dims": ("F, (0,)", "M, (0, 3)"),
    "lax.fft": ("C, 'fft', (7,)", "F, 'rfft', (7,)", "X, 'ifft', (3, 3)"),
    "lax.full": ("(2, 3), 1", "(2,), 1.5, 'float16'", "(), F[0]"),
    "lax.gather": (
        "F, I[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,)",
        "M, I[:, None], lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 5), mode='fill'",
    ),
    **{
        f"lax.scatter{name}": (
            f"F, I[:, None], G, {_SCATTER}",
            f"I, J[:3, None], I[:3], {_SCATTER}",
        )
        for name in ["", "_add", "_sub", "_max", "_min", "_mul"]
    },
    "lax.scatter_apply": (
        f"F, gnp.array([[1], [3]]), gnp.sin, {_SCATTER}, update_shape=(2,), unique_indices=True",
        f"I, gnp.array([[1], [3]]), lambda x: x + 1, {_SCATTER}, update_shape=(2,), "
        "unique_indices=True",
    ),
    "lax.imag": ("C", "X"),
    "lax.real": ("C", "X"),
    "lax.index_take": ("M, (I % 3,), (0,)", "T, (I % 2, J % 3), (0, 1)"),
    "lax.iota": ("'int32', 5", "'float32', 4"),
    "lax.pad": ("F, 0., [(1, 2, 1)]", "I, 1, [(-1, 2, 0)]"),
    "lax.platform_dependent": ("F, cpu=lambda x: x + 1, default=lambda x: x * 2",
                               "I, default=lambda x: x * 2"),
    "lax.ragged_dot": ("M[:, :3], T[:, :, :3], gnp.array([1, 2])",
                       "M[:, :3], T, gnp.array([3, 0])"),
    "lax.random_gamma_grad": ("E, Q", "E + 1, R"),
    "lax.reduce": ("F, 0., lax.add, (0,)", "I, 1, lax.mul, (0,)", "M, -9., lax.max, (1,)"),
    **{
        f"lax.reduce_{name}": ("M, (1,)", "I, (0,)", "T, (0, 2)")
        for name in ["max", "min", "prod", "sum"]
    },
    **{f"lax.reduce_{name}": ("B, (0,)", "I, (0,)") for name in ["and", "or", "xor"]},
    "lax.reduce_precision": ("F, 5, 7", "F, 8, 3"),
    "lax.reduce_window": ("F, 0., lax.add, (3,), (2,), 'SAME'",
                          "M, -9., lax.max, (2, 2), (1, 1), 'VALID'"),
    "lax.rev": ("F, (0,)", "T, (0, 2)"),
    "lax.select_n": ("B, F, G", "I % 3, F, G, H"),
    "lax.slice": ("M, (0, 1), (2, 5), (1, 2)", "F, (2,), (5,)"),
    "lax.slice_in_dim": ("M, 1, 4, 2, axis=1", "F, 0, -1"),
    "lax.split": ("F, (3, 4)", "M, (1, 4), axis=1"),
    "lax.squeeze": ("M[:, :1], (1,)", "F[None], (0,)"),
    "lax.tile": ("F, (2,)", "M, (2, 1)"),
    "lax.transpose": ("T, (2, 0, 1)", "M, (1, 0)"),
    "lax.linalg.cholesky": ("P", "P[None]"),
    "lax.linalg.cholesky_update": ("gnp.linalg.cholesky(P).T, V", "S, W"),
    "lax.linalg.eig": ("P", "P[None]"),
    "lax.linalg.eigh": ("P", "P[None]", _of_eigh("lax.linalg.eigh(P, lower=False)[::-1]")),
    "lax.linalg.hessenberg": ("S", "S[None]"),
    "lax.linalg.householder_product": ("S, V", "S[:, :2], V[:2]"),
    "lax.linalg.lu_pivots_to_permutation": ("gnp.array([1, 2, 2]), 3", "gnp.array([3, 1]), 5"),
    "lax.linalg.ormqr": ("S, V, S", "S, V, S, transpose=True"),
    "lax.linalg.qdwh": ("S", "P"),
    "lax.linalg.schur": tuple(_of_schur(f"lax.linalg.schur({x})") for x in ("P", "P[None]")),
    "lax.linalg.symmetric_product": ("S, P", "S[None], P[None]"),
    "lax.linalg.tridiagonal": ("P", "P[None]"),
    "lax.linalg.tridiagonal_solve": ("V, V + 9, W, S", "V[None], V[None] + 9, W[None], S[None]"),
    "random.PRNGKey": ("0", "7"),
    "random.ball": ("random.key(1), 3", "random.key(1), 2, 1., (4,)"),
    "random.bernoulli": ("random.key(1), 0.3, (9,)", "random.key(2), E"),
    "random.clone": ("@random.key_data(random.clone(random.key(1)))",
                     "@random.key_data(random.clone(random.PRNGKey(1)))"),
    "random.fold_in": ("@random.key_data(random.fold_in(random.key(1), 3))",
                       "random.PRNGKey(2), 9"),
    "random.generalized_normal": ("random.key(1), 1.5, (3,)", "random.key(2), 2., (2, 3)"),
    "random.key": ("@random.key_data(random.key(5))", "@random.key_data(random.key(-1))"),
    "random.split": ("random.PRNGKey(1)", "random.PRNGKey(2), (2, 3)"),
    "random.key_data": ("random.key(5)", "random.split(random.key(5))"),
    "random.lognormal": ("random.key(1), 0.5, (3,)", "random.key(2), E"),
    "random.multinomial": ("random.key(1), 5, E[:4] / E[:4].sum()",
                           "random.key(2), 9., E[:3] / E[:3].sum()"),
    "random.multivariate_normal": ("random.key(1), V, P", "random.key(1), V, P, (3,)"),
    "random.orthogonal": ("random.key(1), 3", "random.key(1), 2, (3,)"),
    "random.triangular": ("random.key(1), 0., 1., 3.", "random.key(2), -1., 0.5, 1., (3,)"),
    "random.wrap_key_data": (
        "@random.key_data(random.wrap_key_data(gnp.array([1, 2], 'uint32')))",
        "@random.bits(random.wrap_key_data(gnp.array([3, 4], 'uint32')))",
    ),
    "special.bernoulli": ("5", "30"),
    "special.bessel_jn": ("E, v=3", "E[0], v=2, n_iter=20"),
    "special.sph_harm_y": ("gnp.array([2]), gnp.array([1]), E[:1], Q[:1], n_max=3",
                           "gnp.array([0, 1]), gnp.array([0, 1]), E[:2], Q[:2], n_max=2"),
    "special.zeta": ("E + 2, Q", "E + 1.5, 1."),
    **{
        f"stats.multinomial.{name}": ("I, I.sum(), E / E.sum()", "J, J.sum(), Q / Q.sum()")
        for name in ("logpmf", "pmf")
    },
    **{
        f"stats.multivariate_normal.{name}": ("V, W, P", "S, W, P", "F, G, 2.")
        for name in ("logpdf", "pdf")
    },
    "slinalg.cho_factor": ("P", "P, lower=True"),
    "slinalg.cho_solve": ("(gnp.linalg.cholesky(P), True), V", "(gnp.linalg.cholesky(P), True), S"),
    "slinalg.cholesky": ("P", "P, lower=True"),
    "slinalg.det": ("S", "X"),
    "slinalg.dft": ("3", "4, scale='n'"),
    "slinalg.eigh": ("P", _of_eigh("slinalg.eigh(P, lower=False)")),
    "slinalg.eigh_tridiagonal": ("V, W[:3], eigvals_only=True", "F, G[:6], eigvals_only=True"),
    "slinalg.expm": ("S * 0.1", "X"),
    "slinalg.expm_frechet": ("S * 0.1, P * 0.1", "S * 0.1, P * 0.1, compute_expm=False"),
    "slinalg.funm": ("S, gnp.exp", "P * 0.1, gnp.sin"),
    "slinalg.hadamard": ("4", "2, dtype='int32'"),
    "slinalg.helmert": ("3", "4, full=True"),
    "slinalg.hessenberg": ("S", "S, calc_q=True"),
    "slinalg.hilbert": ("3", "5"),
    "slinalg.inv": ("S", "X"),
    "slinalg.invhilbert": ("3", "2"),
    "slinalg.invpascal": ("3", "4, kind='lower'"),
    "slinalg.leslie": ("V, W[:3]", "F[:3], E[:2]"),
    "slinalg.lu_solve": ("slinalg.lu_factor(S), V", "slinalg.lu_factor(X), X"),
    "slinalg.pascal": ("3", "4, kind='upper'"),
    "slinalg.polar": ("S", "M, side='left'"),
    "slinalg.rsf2csf": ("*slinalg.schur(S)", "*slinalg.schur(P)"),
    "slinalg.schur": tuple(_of_schur(f"slinalg.schur({x})") for x in ("S", "P")),
    "slinalg.solve_sylvester": ("S, P, S", "S, P, P"),
    "slinalg.sqrtm": ("S", "P"),
    "ndimage.map_coordinates": ("M, [V, W], 1", "M, [V, W], 0, mode='wrap'"),
    **{
        f"ops.segment_{name}": ("F, I, 6", "M, I[:3], 7", "I, J, 6")
        for name in ["max", "min", "prod", "sum"]
    },
    "image.resize": ("M, (6, 4), 'linear'", "T, (2, 5, 4), 'nearest'", "M, (2, 3), 'cubic'"),
    "image.scale_and_translate": (
        "M, (6, 4), (0, 1), gnp.array([2., 1.]), gnp.array([0., 1.]), 'linear'",
        "M, (3, 5), (0,), gnp.array([.5]), gnp.array([1.]), 'cubic'",
    ),
    "optimize.minimize": (
        "@optimize.minimize(lambda x: ((x - 1) ** 2).sum(), V, method='BFGS').x",
        "@optimize.minimize(lambda x: ((x + F) ** 2).sum(), F, method='BFGS').x",
    ),
    "gnp.linalg.cholesky": ("P", "P, upper=True"),
    "gnp.linalg.cross": ("M[:, :3], N[:, :3]", "G[:3], F[:3]"),
    "gnp.linalg.det": ("S", "X"),
    "gnp.linalg.eigh": ("P", "P[None]", _of_eigh("gnp.linalg.eigh(P, UPLO='U')")),
    "gnp.linalg.eig": ("P", "P[None]"),
    "gnp.linalg.eigvals": ("P", "P[None]"),
    "gnp.linalg.eigvalsh": ("P", "P[None]", "P, 'U'"),
    "gnp.linalg.inv": ("S", "X", "S[None]"),
    "gnp.linalg.matrix_power": ("S, 3", "X, -2", "S, 0"),
    "gnp.linalg.multi_dot": ("[M, N.T, M]", "[F, F[:, None]]"),
    "gnp.linalg.slogdet": ("S", "X"),
    "gnp.linalg.tensorinv": ("S, 1", "T.reshape(6, 4)[:4], 1"),
    "gnp.top_k": ("F, 3", "M, 2, axis=0, mode='smallest'"),
    "lax.polynomial": ("F, [1.0, G, H]", "3, [1, 2]"),
    "gnp.linalg.tensorsolve": ("S, V", "X, X[0]"),
    "nn.dot_product_attention": (
        "T[None], T[None], T[None]", "T[None], T[None], T[None], is_causal=True", "Z, Z, Z",
    ),
}  # fmt: skip
LEFT_OUT: dict[str, str] = {
    name: reason
    for reason, names in {
        "prints, or sets how numbers are printed": "gnp.array_repr gnp.array_str "
        "gnp.get_printoptions gnp.printoptions gnp.set_printoptions",
        "reads or writes files and buffers": "gnp.fromfile gnp.load gnp.save gnp.savez "
        "gnp.frombuffer gnp.from_dlpack gnp.fromstring",
        "gives no array: see tests/frontend": "gnp.einsum_path gnp.promote_types gnp.result_type"
        " gnp.broadcast_shapes lax.dtype "
        "lax.broadcast_shapes lax.after_all lax.create_token gnp.fromiter "
        "lax.ConvGeneralDilatedDimensionNumbers lax.PrecisionLike lax.conv_dimension_numbers "
        "lax.conv_general_permutations lax.conv_general_shape_tuple lax.conv_shape_tuple "
        "lax.conv_transpose_shape_tuple lax.padtype_to_pads lax.reduce_window_shape_tuple "
        "random.key_dtype random.key_impl random.Key",
        "its values are not defined": "gnp.empty gnp.empty_like lax.empty",
        "differs in what it takes: see docs/differences.md": "lax.pbroadcast "
        "lax.with_sharding_constraint lax.ragged_dot_general lax.scaled_dot "
        "lax.rng_bit_generator",
        "needs a mesh: see tests/frontend": "lax.ragged_all_to_all lax.pcast",
    }.items()
    for name in names.split()
}
