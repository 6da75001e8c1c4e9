"""Functions with custom derivative rules, and the types of the arguments of these rules."""

from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.custom_rules import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from gnomon._transformations.custom_vjp import closure_convert, custom_gradient, custom_vjp
from gnomon._transformations.linear_call import linear_call

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]
