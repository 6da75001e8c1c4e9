#include "readable.h"

namespace nb = nanobind;

namespace gnomon {
namespace {

// Owns a view of a NumPy array. It is all that a consumer can get hold of.
struct Memory {
    PyObject_HEAD Py_buffer view;
};

void destroy(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyBuffer_Release(&((Memory *) self)->view);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, (void *) destroy},
    {Py_tp_doc, (void *) "The memory of an array, which cannot be written to."},
    {0, nullptr}};

PyType_Spec memory_spec = {"gnomon._native.Memory", sizeof(Memory), 0,
                           Py_TPFLAGS_DEFAULT
#if PY_VERSION_HEX >= 0x030A0000
                               | Py_TPFLAGS_DISALLOW_INSTANTIATION
#endif
                           ,
                           memory_slots};

PyTypeObject *memory_type = nullptr;
PyObject *value_name = nullptr;
PyObject *method_name = nullptr;

nb::object value_of(PyObject *array) {
    nb::object value = nb::steal(PyObject_GetAttr(array, value_name));
    if (value.is_none())
        return nb::steal(PyObject_CallMethodObjArgs(array, method_name, nullptr));
    return value;
}

int get_buffer(PyObject *array, Py_buffer *view, int flags) {
    view->obj = nullptr;
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "arrays of gnomon cannot be written to; copy the array");
        return -1;
    }
    nb::object value = value_of(array);
    if (!value.is_valid())
        return -1;
    Memory *memory = PyObject_New(Memory, memory_type);
    if (memory == nullptr)
        return -1;
    memory->view.obj = nullptr;
    if (PyObject_GetBuffer(value.ptr(), &memory->view, flags) < 0) {
        Py_DECREF(memory);
        // NumPy raises ValueError for dtypes that the protocol does not have, and for layouts.
        if (PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyObject *type, *error, *traceback;
            PyErr_Fetch(&type, &error, &traceback);
            PyErr_NormalizeException(&type, &error, &traceback);
            PyErr_Format(PyExc_BufferError, "%S", error);
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(traceback);
        }
        return -1;
    }
    *view = memory->view;
    view->readonly = 1;
    view->obj = (PyObject *) memory;
    return 0;
}

PyType_Slot readable_slots[] = {
    {Py_bf_getbuffer, (void *) get_buffer},
    {Py_tp_doc, (void *) "The base class of arrays that the buffer protocol reads."},
    {0, nullptr}};

PyType_Spec readable_spec = {"gnomon._native.Readable", 0, 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, readable_slots};

} // namespace

nb::object make_readable_type() {
    value_name = PyUnicode_InternFromString("_value");
    method_name = PyUnicode_InternFromString("numpy_value");
    memory_type = (PyTypeObject *) PyType_FromSpec(&memory_spec);
    nb::object readable = nb::steal(PyType_FromSpec(&readable_spec));
    if (memory_type == nullptr || !readable.is_valid())
        throw nb::python_error();
    return readable;
}

} // namespace gnomon
