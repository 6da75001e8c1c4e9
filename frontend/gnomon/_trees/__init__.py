"""Pytrees: keys, registered types, the order of dictionaries, prefixes, flattening."""

# Before anything else imports optree.
from gnomon._trees import lifetime as lifetime
