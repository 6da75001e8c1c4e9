// Runs a loaded program of IREE on buffers.
#pragma once

#include "references.h"
#include "slots.h"

#include <cstdint>
#include <vector>

namespace gnomon {

// A lock that costs a tenth of `threading.Lock` if no other thread holds it.
class CallLock {
  public:
    CallLock();
    CallLock(const CallLock &) = delete;
    ~CallLock();

    // Does not wait; returns whether the lock is held now.
    bool try_acquire() { return PyThread_acquire_lock(lock_, NOWAIT_LOCK) != 0; }
    // Waits without the GIL; an interrupt ends the wait with its exception.
    void acquire();
    void release() { PyThread_release_lock(lock_); }

  private:
    PyThread_type_lock lock_;
};

// IREE's runtime is used through its Python objects, since its Python package exports no C
// interface. Their functions are called without a Python frame.
//
// A launcher takes only the common case: a synchronous program without functions of Python, that
// is expected to end soon, on arguments that are ready. It tells its caller when a call is not of
// this kind; the caller then takes `Executable.run`.
class Launcher {
  public:
    // The arguments of one call.
    struct Arguments {
        nb::object views; // a tuple of views of buffers
        // The memory of arguments that belongs to NumPy, which IREE does not keep alive.
        References keep_alive;

        explicit Arguments(size_t count);
    };

    Launcher(nb::object buffer_type, nb::object view_type, nb::object list_type, nb::object device,
             nb::sequence output_types, bool keeps_results, nb::object failed, nb::object owned);

    // Sets the loaded program; the launcher is not ready at first.
    void bind(nb::object pack, nb::object context, nb::object invoke, nb::object function,
              nb::object loaded);

    // Whether the next call may be made by the launcher.
    bool usable() const {
        return ready && generation_ == generation && !recording && function_.is_valid();
    }
    size_t outputs() const { return shapes_.size(); }
    const BufferLayout &buffers() const { return buffers_; }

    // Adds a buffer to the arguments. Returns false if the launcher cannot take it.
    bool push(Arguments &arguments, size_t index, PyObject *buffer) const;

    // Runs the program, and appends the buffers of its results. Returns false if another thread is
    // running it. Raises ExecutionError if it fails.
    bool launch(Arguments &arguments, References &results);

    int traverse(visitproc visit, void *arg) const;
    void clear();

    bool ready = false; // the program is measured, and its last call was quick
    // Changes when loaded programs become invalid, see `driver.runtime_generation`.
    static uint64_t generation;
    // Whether a profiler records calls, which it does in Python.
    static bool recording;

  private:
    nb::object new_buffer(PyObject *values, size_t index) const;

    BufferLayout buffers_;
    nb::object view_type_, list_type_, device_;
    nb::object failed_; // (error, state): raises the error of gnomon for one of IREE
    nb::object owned_;  // (results, state): copies those that are in the memory of arguments
    std::vector<nb::object> shapes_, dtypes_;
    nb::object count_, names_; // the number of results; an empty dict
    // Whether the list of results is kept for the next call, and their memory with it.
    bool keeps_results_;

    nb::object pack_, context_, invoke_, function_, loaded_, state_;
    nb::object lock_object_;
    CallLock *lock_ = nullptr; // inside lock_object_
    nb::object values_;        // IREE's list of results, while it is kept; only with the lock held
    uint64_t generation_ = 0;
};

} // namespace gnomon
