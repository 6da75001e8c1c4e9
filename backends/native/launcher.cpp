#include "launcher.h"

namespace gnomon {

uint64_t Launcher::generation = 0;
bool Launcher::recording = false;

Launcher::Launcher(nb::object buffer_type, nb::object device, nb::sequence output_types)
    : buffers_(std::move(buffer_type)), device_(std::move(device)) {
    for (nb::handle type : output_types) {
        shapes_.push_back(type[0]);
        dtypes_.push_back(type[1]);
    }
}

nb::object Launcher::new_buffer(size_t index, PyObject *view, PyObject *array) const {
    nb::object buffer = nb::steal(PyType_GenericAlloc((PyTypeObject *) buffers_.type.ptr(), 0));
    if (!buffer.is_valid())
        nb::raise_python_error();
    set_slot(buffer.ptr(), buffers_.shape, shapes_[index].ptr());
    set_slot(buffer.ptr(), buffers_.dtype, dtypes_[index].ptr());
    set_slot(buffer.ptr(), buffers_.device, device_.ptr());
    set_slot(buffer.ptr(), buffers_.view, view);
    set_slot(buffer.ptr(), buffers_.array, array);
    for (Py_ssize_t offset : {buffers_.pending, buffers_.host, buffers_.deleted})
        set_slot(buffer.ptr(), offset, Py_None);
    return buffer;
}

int Launcher::traverse(visitproc visit, void *arg) const {
    Py_VISIT(device_.ptr());
    return 0;
}

} // namespace gnomon
