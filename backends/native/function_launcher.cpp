#include "function_launcher.h"

namespace gnomon {

namespace {

// The workspace starts at a multiple of this; a larger one is freed after the call.
constexpr size_t alignment = 64;
constexpr size_t most_kept = 16 << 20;

// The start of `PyArrayObject`, which is part of NumPy's binary interface.
struct NumpyArray {
    PyObject base;
    void *data;
    int rank;
    Py_ssize_t *dimensions, *strides;
    PyObject *owner, *descriptor;
    int flags;
};
constexpr int in_order = 0x1 | 0x100; // NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED

const NumpyArray &fields(PyObject *array) { return *reinterpret_cast<NumpyArray *>(array); }

// Whether the fields are where they are expected.
bool are_known(const nb::object &empty) {
    nb::object array = empty(nb::make_tuple(2, 3), "f4");
    nb::object flags = array.attr("flags");
    const NumpyArray &found = fields(array.ptr());
    return nb::cast<uintptr_t>(array.attr("ctypes").attr("data")) == (uintptr_t) found.data &&
           found.rank == 2 && found.dimensions[1] == 3 &&
           nb::cast<int>(flags.attr("num")) == found.flags && (found.flags & in_order) == in_order;
}

} // namespace

FunctionLauncher::FunctionLauncher(nb::object buffer_type, nb::object device,
                                   nb::sequence output_types, nb::object empty, uintptr_t address,
                                   size_t workspace, nb::object owner)
    : Launcher(std::move(buffer_type), std::move(device), std::move(output_types)),
      empty_(std::move(empty)), function_((Function) address), workspace_(workspace),
      owner_(std::move(owner)) {
    static const bool known = are_known(empty_);
    if (!known)
        throw std::runtime_error("this version of NumPy keeps the fields of arrays elsewhere");
}

bool FunctionLauncher::push(Arguments &arguments, size_t, PyObject *buffer) const {
    if (!is_ready(buffer))
        return false;
    PyObject *array = slot(buffer, buffers_.array);
    if (array == Py_None || (fields(array).flags & in_order) != in_order)
        return false;
    arguments.arrays.push_borrowed(array);
    return true;
}

bool FunctionLauncher::launch(Arguments &arguments, References &results) {
    References made;
    for (size_t i = 0; i < outputs(); ++i) {
        PyObject *given[] = {shapes_[i].ptr(), dtypes_[i].ptr()};
        nb::object array = nb::steal(PyObject_Vectorcall(empty_.ptr(), given, 2, nullptr));
        if (!array.is_valid())
            nb::raise_python_error();
        made.push(std::move(array));
    }
    Workspace workspace;
    if (!idle_.empty()) {
        workspace = std::move(idle_.back());
        idle_.pop_back();
    } else {
        workspace.reset(new char[workspace_ + alignment]);
    }
    std::vector<void *> pointers;
    pointers.reserve(arguments.arrays.size() + outputs() + 1);
    for (PyObject *array : arguments.arrays.items())
        pointers.push_back(fields(array).data);
    for (PyObject *array : made.items())
        pointers.push_back(fields(array).data);
    uintptr_t start = (uintptr_t) workspace.get();
    pointers.push_back((void *) ((start + alignment - 1) / alignment * alignment));
    std::vector<void *> packed;
    packed.reserve(pointers.size());
    for (void *&pointer : pointers)
        packed.push_back(&pointer);
    nb::object owner = owner_;
    {
        nb::gil_scoped_release released;
        function_(packed.data());
    }
    if (workspace_ <= most_kept)
        idle_.push_back(std::move(workspace));
    for (size_t i = 0; i < outputs(); ++i)
        results.push(new_buffer(i, Py_None, made[i]));
    return true;
}

int FunctionLauncher::traverse(visitproc visit, void *arg) const {
    Py_VISIT(owner_.ptr());
    return Launcher::traverse(visit, arg);
}

void FunctionLauncher::clear() { nb::object owner = std::move(owner_); }

} // namespace gnomon
