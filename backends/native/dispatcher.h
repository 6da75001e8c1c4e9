// The base class of compiled functions, whose calls begin in C++.
#pragma once

#include "signature_cache.h"

namespace gnomon {

// Calls the entry of a call's signature. All other calls are made by the method
// `_call(args, kwargs)` of the subclass, which is written in Python.
class Dispatcher {
  public:
    // `config.token` is the context of look-ups. While `config.operands_somewhere` or
    // `state.staging` say so, `_call` makes all calls. Reading them costs 0.15 us, so they are read
    // only while `context` is not set or `staging` is not zero.
    Dispatcher(nb::object cache, nb::object config, nb::object state);

    // The token of all threads; null if it differs between threads, or if operands are checked.
    static PyObject *context;
    // The number of traces in progress, in all threads, that stage all ops.
    static long staging;

    // `kwargs` may be null.
    nb::object call(nb::handle self, PyObject *args, PyObject *kwargs) const;

    int traverse(visitproc visit, void *arg) const;

  private:
    // The context of a call; invalid if `_call` must make it.
    nb::object context_of_call() const;

    nb::object cache_object_;
    SignatureCache *cache_; // inside cache_object_
    nb::object config_, state_;
    nb::object token_name_, operands_name_, staging_name_; // interned strings
};

// The slot tp_call.
PyObject *call_dispatcher(PyObject *self, PyObject *args, PyObject *kwargs) noexcept;

} // namespace gnomon
