// Arrays as objects whose memory Python's buffer protocol reads, and never writes.

#pragma once

#include <nanobind/nanobind.h>

namespace gnomon {

// Makes the base class of arrays with a value, which has the buffer protocol. An array is read
// through its attribute `_value`, or its method `numpy_value()` if that is None.
//
// Consumers get the memory of NumPy's array without the array itself. A view of a NumPy array can
// be made writable again, but a view of such memory cannot.
nanobind::object make_readable_type();

} // namespace gnomon
