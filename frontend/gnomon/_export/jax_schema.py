"""The numbers of the fields in JAX's exports, of versions 2 to 11.

See jax/_src/export/serialization.fbs.
"""

from __future__ import annotations

VERSION, NAME, IN_TREE, IN_AVALS, OUT_TREE, OUT_AVALS, DEVICES_SHORT = range(7)
IN_SHARDINGS, OUT_SHARDINGS, PLATFORMS, ORDERED_EFFECTS, UNORDERED_EFFECTS = range(7, 12)
DISABLED_CHECKS, MODULE, CONVENTION, KEPT, HAS_SYMBOLIC_SIZES, VJP, DEVICES = range(12, 19)
# Version 10 shares equal types and shardings; their fields above remain for older readers.
UNIQUE_AVALS, UNIQUE_MESHES, UNIQUE_SHARDINGS = range(19, 22)
IN_AVAL_INDICES, OUT_AVAL_INDICES, IN_SHARDING_INDICES, OUT_SHARDING_INDICES = range(22, 26)

# A type.
AVAL_SHAPE, AVAL_DTYPE, AVAL_MEMORY = 1, 2, 3

# A node of a structure, and its kinds.
NODE_KIND, NODE_CHILDREN, NODE_KEYS, NODE_NAME, NODE_DATA = range(5)
LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)
ORDERED_DICT = "collections.OrderedDict"

# A disabled safety check, and its kinds.
CHECK_KIND, CHECK_TARGET = 0, 1
CHECK_PLATFORM, CHECK_CUSTOM_CALL = 0, 1

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu"),
    "float4_e2m1fn",
)
"""The names of the dtypes by their number; the generators of random keys follow."""
