// Runs a compiled program on buffers, without a Python frame.
#pragma once

#include "references.h"
#include "slots.h"

#include <cstdint>
#include <vector>

namespace gnomon {

// A launcher tells its caller when it cannot make a call; the caller then takes `Executable.run`.
class Launcher {
  public:
    // The arguments of one call.
    struct Arguments {
        explicit Arguments(size_t count_) : count(count_) {}

        size_t count;
        nb::object views; // a tuple of views of buffers, for programs of IREE
        // Arrays of NumPy, which the program does not keep alive.
        References arrays;
    };

    Launcher(nb::object buffer_type, nb::object device, nb::sequence output_types);
    Launcher(const Launcher &) = delete;
    virtual ~Launcher() = default;

    // Whether the next call may be made by the launcher.
    virtual bool usable() const = 0;
    size_t outputs() const { return shapes_.size(); }
    const BufferLayout &buffers() const { return buffers_; }

    // Adds a buffer to the arguments. Returns false if the launcher cannot take it.
    virtual bool push(Arguments &arguments, size_t index, PyObject *buffer) const = 0;

    // Runs the program, and appends the buffers of its results. Returns false if the call cannot be
    // made now. Raises the error of the program if it fails.
    virtual bool launch(Arguments &arguments, References &results) = 0;

    virtual int traverse(visitproc visit, void *arg) const;
    virtual void clear() = 0;

    // Changes when loaded programs become invalid, see `driver.runtime_generation`.
    static uint64_t generation;
    // Whether a profiler records calls, which it does in Python.
    static bool recording;

  protected:
    // Whether a buffer is one of the launcher's device, and its value is there.
    bool is_ready(PyObject *buffer) const {
        return (PyObject *) Py_TYPE(buffer) == buffers_.type.ptr() &&
               slot(buffer, buffers_.device) == device_.ptr() &&
               slot(buffer, buffers_.pending) == Py_None;
    }
    // The buffer of a result, which is in a view or an array; the other is None.
    nb::object new_buffer(size_t index, PyObject *view, PyObject *array) const;

    BufferLayout buffers_;
    nb::object device_;
    std::vector<nb::object> shapes_, dtypes_; // of the results
};

} // namespace gnomon
