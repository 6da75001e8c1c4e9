"""Pytrees: keys, registered types, the order of dictionaries, prefixes, flattening."""
