"""gnomon: composable transformations of Python and NumPy programs, on MLIR."""

from gnomon import dtypes, errors, image, lax, nn, numpy, ops, random, scipy, tree, tree_util
from gnomon._api import (
    block_until_ready,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    eval_shape,
    local_device_count,
    local_devices,
    make_jaxpr,
    named_call,
    process_count,
    process_index,
    typeof,
)
from gnomon._array import Array
from gnomon._config import config, enable_x64
from gnomon._differentiate import (
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from gnomon._jit import ShapeDtypeStruct, clear_caches, jit
from gnomon._tracing import named_scope
from gnomon._vmap import vmap

__version__ = "0.1.0"

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "block_until_ready",
    "clear_caches",
    "config",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "dtypes",
    "enable_x64",
    "errors",
    "eval_shape",
    "grad",
    "hessian",
    "image",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "nn",
    "numpy",
    "ops",
    "process_count",
    "process_index",
    "random",
    "scipy",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]
