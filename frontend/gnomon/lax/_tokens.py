"""Tokens, which JAX passes from one operation with an effect to the next to order them.

gnomon's effects keep their order without tokens, and only `after_all` takes them. So a token
holds no value: it is a pytree without leaves, in traced functions too.
"""

from __future__ import annotations

from gnomon import tree_util

__all__ = ["after_all", "create_token"]


@tree_util.register_pytree_node_class
class Token:
    """A token, which holds no value."""

    def block_until_ready(self) -> Token:
        """Return the token, which is always ready."""
        return self

    def tree_flatten(self) -> tuple[tuple[()], None]:
        """No leaves, and no other data."""
        return (), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[()]) -> Token:
        """A token."""
        return cls()


def create_token(_: object = None) -> Token:
    """A token that waits for no operation.

    Args:
      _: ignored.

    Example:
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.tree.leaves(lax.create_token())
      []
    """
    return Token()


def after_all(*operands: Token) -> Token:
    """A token after all of the given ones.

    Args:
      operands: tokens.

    Raises:
      TypeError: an operand is not a token.

    Example:
      >>> from gnomon import lax
      >>> token = lax.after_all(lax.create_token(), lax.create_token())
    """
    for operand in operands:
        if not isinstance(operand, Token):
            raise TypeError(f"after_all: operands must be tokens, got {operand!r}")
    return Token()
