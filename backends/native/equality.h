// Hash and equality of the Python objects in a signature: static arguments, dictionary keys, the
// data of custom tree nodes, and the caller's context.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace gnomon {

// Mixes `value` into the running hash `seed`.
inline uint64_t mix(uint64_t seed, uint64_t value) {
    uint64_t hash = (seed ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
}

// Python's hash and `==`, but stricter, because two values that a program can distinguish must not
// share an executable. Types must be the same (`1`, `1.0` and `True` differ), and floats are
// compared bit by bit (`0.0` and `-0.0` differ, a NaN equals itself). Both rules apply inside
// tuples, and inside whatever `set_comparison` looks into.
//
// Either function may run Python code, and throws nanobind::python_error if that code raises.
uint64_t strict_hash(PyObject *object);
bool strict_equal(PyObject *a, PyObject *b);

// Sets the function that compares two different objects of one type, for types that this file does
// not know. The default is `==`.
void set_comparison(nanobind::object comparison);

} // namespace gnomon
