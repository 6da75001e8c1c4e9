#include "equality.h"

#include "recursion.h"

#include <cstring>

namespace nb = nanobind;

namespace gnomon {

namespace {

uint64_t bits(double value) {
    uint64_t result;
    std::memcpy(&result, &value, sizeof(result));
    return result;
}

// A type of the module `types`, which the limited API does not declare; it lives as long as the
// process.
PyTypeObject *type_of_types(const char *name) {
    nb::object type = nb::module_::import_("types").attr(name);
    return (PyTypeObject *) type.release().ptr();
}

// Whether equal objects of exactly this type cannot be distinguished.
bool is_plain(PyTypeObject *type) {
    if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type ||
        type == &PyType_Type)
        return true;
    static PyTypeObject *const functions = type_of_types("FunctionType");
    static PyTypeObject *const methods = type_of_types("MethodType");
    return type == functions || type == methods;
}

PyObject *comparison_function = nullptr; // lives as long as the process

} // namespace

uint64_t strict_hash(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyFloat_Type)
        return mix(1, bits(PyFloat_AsDouble(object)));
    if (type == &PyComplex_Type)
        return mix(mix(2, bits(PyComplex_RealAsDouble(object))),
                   bits(PyComplex_ImagAsDouble(object)));
    if (type == &PyTuple_Type) {
        RecursionGuard guard(" while hashing a signature");
        Py_ssize_t size = NB_TUPLE_GET_SIZE(object);
        uint64_t hash = mix(3, (uint64_t) size);
        for (Py_ssize_t i = 0; i < size; ++i)
            hash = mix(hash, strict_hash(NB_TUPLE_GET_ITEM(object, i)));
        return hash;
    }
    Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1)
        nb::raise_python_error();
    return (uint64_t) hash;
}

bool strict_equal(PyObject *a, PyObject *b) {
    if (a == b)
        return true;
    PyTypeObject *type = Py_TYPE(a);
    if (type != Py_TYPE(b))
        return false;
    if (type == &PyFloat_Type)
        return bits(PyFloat_AsDouble(a)) == bits(PyFloat_AsDouble(b));
    if (type == &PyComplex_Type)
        return bits(PyComplex_RealAsDouble(a)) == bits(PyComplex_RealAsDouble(b)) &&
               bits(PyComplex_ImagAsDouble(a)) == bits(PyComplex_ImagAsDouble(b));
    if (type == &PyTuple_Type) {
        RecursionGuard guard(" while comparing signatures");
        Py_ssize_t size = NB_TUPLE_GET_SIZE(a);
        if (size != NB_TUPLE_GET_SIZE(b))
            return false;
        for (Py_ssize_t i = 0; i < size; ++i)
            if (!strict_equal(NB_TUPLE_GET_ITEM(a, i), NB_TUPLE_GET_ITEM(b, i)))
                return false;
        return true;
    }
    int equal;
    if (!comparison_function || is_plain(type)) {
        equal = PyObject_RichCompareBool(a, b, Py_EQ);
    } else {
        PyObject *given[] = {a, b};
        nb::object result = nb::steal(PyObject_Vectorcall(comparison_function, given, 2, nullptr));
        equal = result.is_valid() ? PyObject_IsTrue(result.ptr()) : -1;
    }
    if (equal == -1)
        nb::raise_python_error();
    return equal == 1;
}

void set_comparison(nb::object comparison) {
    PyObject *old = comparison_function;
    comparison_function = comparison.release().ptr();
    Py_XDECREF(old);
}

} // namespace gnomon
