"""Names of JAX that gnomon does not have, and why: data of `api_table`."""

from __future__ import annotations

# Names of modules under ``jax``.
MODULES: tuple[str, ...] = (
    "", "lax", "lax.linalg", "numpy", "numpy.linalg", "numpy.fft", "random", "nn",
    "nn.initializers", "scipy.cluster.vq", "scipy.fft", "scipy.integrate", "scipy.interpolate",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg",
    "scipy.special", "scipy.stats", "tree", "tree_util", "ops", "image", "dtypes", "errors",
    "debug", "export", "flatten_util", "stages", "typing", "profiler", "ad_checkpoint",
    "custom_batching", "custom_derivatives", "experimental.checkify",
)  # fmt: skip

_PRIMITIVES = "primitives of JAX; ours are the ops of the dialect, docs/ops.md"
_DEVICES = "needs several devices or processes, which are not supported yet"
_INTERNAL = "JAX's own workings, or a name that leaked into its public module"
_CONFIG = (
    "an option for work on JAX itself; here leaked tracers are found where they are used, sums of "
    "small floats are formed in float32, and programs are verified while they are built"
)
_TRANSFERS = "not supported; on the host arrays are NumPy's memory, and nothing is transferred"
_ARTIFACTS = "artifacts for deployment, which are not written yet"
_MINIMIZE = "minimizers, not written yet: their steps are loops around value_and_grad"
_PROFILES = "profiles, which are not written yet"
_DEVICE_CODE = "for accelerator code, or a feature of XLA alone"
_NARROW = "a dtype of fewer than 8 bits, or an 8-bit format that StableHLO does not have"

# Module (or "*" for all) to reason to patterns of names. A name that is there needs no entry.
LEFT_OUT: dict[str, dict[str, str]] = {
    "*": {_PRIMITIVES: "*_p"},
    "": {
        _DEVICES: """
            NamedSharding P Shard distributed make_array_from_* make_mesh pmap reshard set_mesh
            shard_map smap host_count host_id host_ids thread_guard
            remove_size_one_mesh_axis_from_type auto_pcast
        """,
        _INTERNAL: """
            ad api_util core interpreters lib array_garbage_collection_guard make_user_context
            monitoring version memory float0 print_environment_info live_arrays
            jax2tf_associative_scan_reductions softmax_custom_jvp
        """,
        _CONFIG: """
            allow_f16_reductions check_tracer_leaks checking_leaks debug_key_reuse enable_checks
            no_execution
        """,
        _TRANSFERS: "transfer_guard*",
        _DEVICE_CODE: "Ref ds empty_ref free_ref freeze new_ref ref ffi",
        _ARTIFACTS: "export",
        _PROFILES: "profiler",
    },
    "lax": {
        _DEVICES: "pcast precv psend ragged_all_to_all with_sharding_constraint",
        _INTERNAL: "dce_sink dtype stage",
        _DEVICE_CODE: """
            DotAlgorithm DotAlgorithmPreset RandomAlgorithm after_all composite create_token
            rng_bit_generator rng_uniform Tolerance
        """,
    },
    "numpy": {
        _NARROW: "float4_* float6_* int1 uint1",
    },
    "nn": {
        _DEVICE_CODE: "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    },
    "scipy.optimize": {_MINIMIZE: "*"},
    "tree_util": {_INTERNAL: "default_registry"},
    "errors": {
        _INTERNAL: "InconclusiveDimensionOperation Jax* JAX* KeyReuseError",
    },
    "debug": {
        _INTERNAL: "DebugEffect OrderedDebugEffect",
        _DEVICES: "inspect_array_sharding visualize_*",
    },
    "export": {_ARTIFACTS: "*"},
    "profiler": {_PROFILES: "*"},
}
