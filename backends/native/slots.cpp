#include "slots.h"

#include <string>

namespace gnomon {

namespace {

nb::object new_instance(nb::handle type) {
    nb::object instance = nb::steal(PyType_GenericAlloc((PyTypeObject *) type.ptr(), 0));
    if (!instance.is_valid())
        nb::raise_python_error();
    return instance;
}

} // namespace

// The stable ABI does not tell the offsets of slots. They are found by setting a slot and looking
// for its value in the instance's memory.
Py_ssize_t offset_of_slot(nb::handle type, const char *name) {
    nb::object instance = new_instance(type);
    nb::object marker = new_instance((PyObject *) &PyBaseObject_Type);
    nb::setattr(instance, name, marker);
    Py_ssize_t size = nb::cast<Py_ssize_t>(type.attr("__basicsize__"));
    Py_ssize_t found = 0;
    int matches = 0;
    for (Py_ssize_t offset = sizeof(PyObject); offset + (Py_ssize_t) sizeof(PyObject *) <= size;
         offset += sizeof(PyObject *)) {
        if (slot(instance.ptr(), offset) == marker.ptr()) {
            found = offset;
            ++matches;
        }
    }
    nb::delattr(instance, name);
    if (matches != 1)
        throw std::runtime_error(("the attribute " + std::string(name) + " of " +
                                  nb::repr(type).c_str() + " is not kept in a slot")
                                     .c_str());
    return found;
}

BufferLayout::BufferLayout(nb::object type_)
    : type(std::move(type_)), shape(offset_of_slot(type, "shape")),
      dtype(offset_of_slot(type, "dtype")), device(offset_of_slot(type, "device")),
      view(offset_of_slot(type, "_view")), array(offset_of_slot(type, "_array")),
      pending(offset_of_slot(type, "_pending")), host(offset_of_slot(type, "_host")),
      deleted(offset_of_slot(type, "_deleted")) {}

ArrayLayout::ArrayLayout(nb::object type_)
    : type(std::move(type_)), value(offset_of_slot(type, "_value")),
      buffer(offset_of_slot(type, "_buffer")), aval(offset_of_slot(type, "_aval")),
      weak_type(offset_of_slot(type, "weak_type")) {}

} // namespace gnomon
