// Runs a loaded program of IREE on buffers.
#pragma once

#include "launcher.h"

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
// The launcher takes only the common case: a synchronous program without functions of Python, that
// is expected to end soon, on arguments that are ready.
class IreeLauncher final : public Launcher {
  public:
    IreeLauncher(nb::object buffer_type, nb::object view_type, nb::object list_type,
                 nb::object device, nb::sequence output_types, bool keeps_results,
                 nb::object failed, nb::object owned);

    // Sets the loaded program; the launcher is not ready at first.
    void bind(nb::object pack, nb::object context, nb::object invoke, nb::object function,
              nb::object loaded);

    bool usable() const override {
        return ready && generation_ == generation && !recording && function_.is_valid();
    }
    bool push(Arguments &arguments, size_t index, PyObject *buffer) const override;
    // Returns false if another thread is running the program.
    bool launch(Arguments &arguments, References &results) override;
    int traverse(visitproc visit, void *arg) const override;
    void clear() override;

    bool ready = false; // the program is measured, and its last call was quick

  private:
    nb::object result(PyObject *values, size_t index) const;

    nb::object view_type_, list_type_;
    nb::object failed_;        // (error, state): raises the error of gnomon for one of IREE
    nb::object owned_;         // (results, state): copies those that are in the memory of arguments
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
