// Python's recursion limit for recursive C++ functions.
#pragma once

#include <nanobind/nanobind.h>

namespace gnomon {

// Deep or cyclic Python data ends in RecursionError, not in an overflow of the C stack.
class RecursionGuard {
  public:
    // `where` completes the message "maximum recursion depth exceeded".
    explicit RecursionGuard(const char *where) {
        if (Py_EnterRecursiveCall(where))
            nanobind::raise_python_error();
    }
    RecursionGuard(const RecursionGuard &) = delete;
    ~RecursionGuard() { Py_LeaveRecursiveCall(); }
};

} // namespace gnomon
