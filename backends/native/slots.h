// Direct access to the slots of Python classes, in place of a look-up of the attribute.
#pragma once

#include <nanobind/nanobind.h>

namespace gnomon {

namespace nb = nanobind;

// The distance in bytes from the start of an instance of `type` to its slot `name`, which is a
// member of `__slots__`. Raises RuntimeError or AttributeError if `name` is no such member.
Py_ssize_t offset_of_slot(nb::handle type, const char *name);

// The value in a slot; null if it is not set.
inline PyObject *&slot(PyObject *object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(object) + offset);
}

// Dropping the old value may run Python code, so the new one is stored first.
inline void set_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
    Py_INCREF(value);
    PyObject *old = slot(object, offset);
    slot(object, offset) = value;
    Py_XDECREF(old);
}

// The slots of `Buffer` of IREE's backend.
struct BufferLayout {
    nb::object type;
    Py_ssize_t shape, dtype, device, view, array, pending, host, deleted;

    explicit BufferLayout(nb::object type);
};

// The slots of `ConcreteArray`.
struct ArrayLayout {
    nb::object type;
    Py_ssize_t value, buffer, aval, weak_type;

    explicit ArrayLayout(nb::object type);
};

} // namespace gnomon
