"""The gnomon dialect: types, the op contract, and one room per family of ops."""
