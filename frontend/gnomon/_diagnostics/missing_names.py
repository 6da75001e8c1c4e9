"""Names of JAX that gnomon does not have, with the reasons that errors give; see docs/api.md."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["NOT_YET", "missing_attribute"]

_OLD = "it is an old name of JAX's; use process_count, process_index or process_indices"
_THREADS = "it checks that one thread at a time runs programs of several processes"
_REFERENCES = "there are no mutable arrays; use x.at[i].set(v) and the carries of loops"
_XLA = "it belongs to XLA alone"
_INTERNAL = "it shows JAX's own workings"

_NAMES = {
    _OLD: "host_count host_id host_ids",
    _THREADS: "thread_guard",
    _REFERENCES: "Ref empty_ref free_ref freeze new_ref ref",
    _XLA: "ds ffi CompilerEffortLevel Inline",
    _INTERNAL: """
        ad api_util array_garbage_collection_guard debug_key_reuse interpreters
        auto_pcast jax2tf_associative_scan_reductions lib make_user_context memory monitoring
        remove_size_one_mesh_axis_from_type softmax_custom_jvp version
    """,
}

NOT_YET: dict[str, str] = {
    name: reason for reason, names in _NAMES.items() for name in names.split()
}


def missing_attribute(name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that the package does not have."""
    reason = NOT_YET.get(name)
    if reason is not None:
        return AttributeError(
            f"gnomon has no {name!r}: {reason} (docs/api.md lists the names of JAX that it has)"
        )
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return AttributeError(f"module 'gnomon' has no attribute {name!r}{hint}")
