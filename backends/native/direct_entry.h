// The entry of a signature whose calls need no Python code.
#pragma once

#include "launcher.h"

#include <cstdint>
#include <vector>

namespace gnomon {

class DirectEntry {
  public:
    DirectEntry(nb::object launcher, nb::object array_type, nb::object general,
                nb::object host_buffer, nb::sequence captures, nb::sequence avals,
                nb::sequence donated, nb::object unflatten);

    // Runs the program on the dynamic leaves of a call.
    nb::object call(const References &leaves);

    int traverse(visitproc visit, void *arg) const;
    void clear();

  private:
    // Whether the leaves to be donated are arrays, and none of them is passed twice.
    bool donatable(const References &leaves) const;
    bool push_leaves(const References &leaves, Launcher::Arguments &arguments) const;
    void donate(PyObject *array) const;
    nb::object wrapped(PyObject *buffer, const nb::object &aval, const nb::object &weak_type) const;

    nb::object launcher_object_;
    Launcher *launcher_; // inside launcher_object_
    ArrayLayout arrays_;
    nb::object general_;     // the entry for calls that the launcher does not take
    nb::object host_buffer_; // the buffer of a leaf that is no array, or has none yet
    References captures_;    // buffers
    std::vector<nb::object> avals_, weak_types_;
    std::vector<size_t> donated_;
    nb::object unflatten_; // None if the result is a single array
    nb::object donated_reason_;
};

} // namespace gnomon
