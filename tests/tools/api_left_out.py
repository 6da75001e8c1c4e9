"""Names of JAX that gnomon does not have, and why: data of `api_table`."""

from __future__ import annotations

# Names of modules under ``jax``.
MODULES: tuple[str, ...] = (
    "", "lax", "lax.linalg", "numpy", "numpy.linalg", "numpy.fft", "random", "nn",
    "nn.initializers", "scipy.cluster.vq", "scipy.fft", "scipy.integrate", "scipy.interpolate",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg",
    "scipy.spatial.transform", "scipy.special", "scipy.stats", "tree", "tree_util", "ops", "image",
    "core", "test_util", "dtypes", "errors", "debug", "export", "flatten_util", "stages", "typing",
    "profiler",
    "ad_checkpoint", "custom_batching", "custom_derivatives", "experimental.checkify",
    "experimental.layout", "experimental.mesh_utils", "experimental.ode", "experimental.topologies",
    "sharding", "distributed", "example_libraries.optimizers", "example_libraries.stax",
)  # fmt: skip

_PRIMITIVES = "primitives of JAX; gnomon has the operations of its dialect instead, docs/ops.md"
_DEVICES = "deprecated names, and switches for details of how JAX traces meshes"
_INTERNAL = "internals of JAX, some of which only leaked into its public module"
_KEY_REUSE = "a check that no key is used twice, which is experimental in JAX"
_REFS = (
    "mutable arrays: gnomon's arrays are immutable, in Python and in the IR, so every pass may "
    "move, share and repeat operations; use x.at[i].set(v) and the carries of loops instead"
)
_PROCESSES = "collects profiles of other processes over gRPC, which gnomon does not use"
_ON_GPUS = "compiled by JAX for GPUs only; lax.ppermute works on every device"
_DEVICE_CODE = "for code of accelerators, or a feature that only XLA has"
_RENAMED = "present under other names: GnomonTypeError, GnomonIndexError, GnomonRuntimeError"
_HIDDEN_STATE = (
    "random numbers from a hidden state, which differ at each call; gnomon's results depend on "
    "arguments only, see lax.rng_bit_generator and random.uniform"
)
_STARTED = "a collective in two calls, for overlaps that programs arrange themselves"
_LAYOUTS = "layouts as parts of types; gnomon's arrays are row-major, see experimental.layout"
_EXTREMA = "maxima and minima that devices have yet to combine; unreduced values are sums"
_NARROW = "a dtype of fewer than 8 bits, or an 8-bit format that StableHLO does not have"

# For each module (or "*" for all), patterns of names by the reason why gnomon does not have them.
LEFT_OUT: dict[str, dict[str, str]] = {
    "*": {_PRIMITIVES: "*_p"},
    "": {
        _DEVICES: """
            host_count host_id host_ids thread_guard
            remove_size_one_mesh_axis_from_type auto_pcast
        """,
        _INTERNAL: """
            ad api_util interpreters lib array_garbage_collection_guard make_user_context
            monitoring version memory jax2tf_associative_scan_reductions softmax_custom_jvp
        """,
        _KEY_REUSE: "debug_key_reuse",
        _REFS: "Ref empty_ref free_ref freeze new_ref ref",
        _DEVICE_CODE: "CompilerEffortLevel Inline ds ffi",
    },
    "lax": {
        _ON_GPUS: "precv psend",
        _INTERNAL: "dce_sink stage",
        _STARTED: "psum_scatter_start",
        _HIDDEN_STATE: "rng_uniform",
    },
    "numpy": {
        _NARROW: "float4_* float6_* int1 uint1",
    },
    "nn": {
        _DEVICE_CODE: "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    },
    "core": {
        _INTERNAL: """
            AbstractValue Atom ParamDict ShapedArray Trace Value eval_context eval_jaxpr max_dim
            min_dim
        """,
    },
    "tree_util": {_INTERNAL: "default_registry"},
    "errors": {
        _RENAMED: "JAXIndexError JAXTypeError",
        _INTERNAL: "JaxprTypeError KeyReuseError",
    },
    "ad_checkpoint": {_INTERNAL: "checkpoint_name_fwd"},
    "experimental.layout": {_LAYOUTS: "explicit_layout"},
    "sharding": {_EXTREMA: "UnreducedKind"},
    "debug": {
        _INTERNAL: "DebugEffect OrderedDebugEffect",
    },
    "experimental.topologies": {_INTERNAL: "mesh_utils xb"},
    "experimental.ode": {
        _INTERNAL: """
            abs2 api_util core custom_derivatives fit_4th_order_polynomial initial_step_size
            interp_fit_dopri jnp lu map mean_error_ratio optimal_step_size partial
            promote_dtypes_inexact ravel_first_arg ravel_first_arg_ runge_kutta_step safe_map
            safe_zip tree_leaves tree_map zip
        """,
    },
    "experimental.mesh_utils": {_INTERNAL: "device_kind_handler_dict"},
    "example_libraries.optimizers": {
        _INTERNAL: """
            InitFn ParamsFn UpdateFn jnp map namedtuple partial safe_map safe_zip unzip2 zip
        """,
    },
    "example_libraries.stax": {
        _INTERNAL: """
            elu gelu glorot glorot_normal jnp leaky_relu log_softmax logsoftmax normal ones randn
            relu selu sigmoid softmax softplus standardize zeros
        """,
    },
    "profiler": {_PROCESSES: "register_subprocess"},
}
