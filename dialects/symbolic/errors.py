"""The error for an operation on symbolic dimensions whose result depends on their values."""


class InconclusiveDimensionOperation(Exception):  # noqa: N818 - JAX's name
    """The result of an operation on symbolic dimensions depends on their values.

    A program with symbolic dimensions is traced once for all of their values, so Python cannot
    branch on a condition that holds for only some values, and cannot use a dimension where an
    integer is needed, as in ``range(n)``.

    Give more ``constraints=`` to `export.symbolic_shape` that decide the comparison, use ``max`` or
    ``min`` in the text of a shape, or compute with the dimension as an array
    (``gnomon.numpy.array(n)``).
    """
