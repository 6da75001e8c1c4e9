// Strong references to Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

namespace gnomon {

namespace nb = nanobind;

// An interned string.
inline nb::object interned(const char *text) {
    nb::object name = nb::steal(PyUnicode_InternFromString(text));
    if (!name.is_valid())
        nb::raise_python_error();
    return name;
}

// A vector that owns one reference for each element. The hot path keeps these vectors between
// calls, so that a lookup only allocates the objects that it returns to Python.
class References {
  public:
    References() = default;
    References(const References &) = delete;
    References &operator=(const References &) = delete;
    References(References &&other) noexcept : items_(std::move(other.items_)) {
        other.items_.clear();
    }
    References &operator=(References &&other) noexcept {
        if (this != &other) {
            truncate(0);
            items_ = std::move(other.items_);
            other.items_.clear();
        }
        return *this;
    }
    ~References() { truncate(0); }

    void push_borrowed(PyObject *object) {
        items_.push_back(object);
        Py_INCREF(object);
    }

    void push(nb::object &&object) {
        items_.push_back(object.ptr());
        object.release();
    }

    // Dropping a reference may run Python code that uses this vector, so an element is removed from
    // the vector before its reference is dropped.
    void truncate(size_t size) {
        while (items_.size() > size) {
            PyObject *last = items_.back();
            items_.pop_back();
            Py_DECREF(last);
        }
    }

    // Moves the references to a new Python list and leaves the vector empty.
    nb::object release_to_list() {
        nb::object list = nb::steal(PyList_New((Py_ssize_t) items_.size()));
        if (!list.is_valid())
            nb::raise_python_error();
        for (size_t i = 0; i < items_.size(); ++i)
            NB_LIST_SET_ITEM(list.ptr(), (Py_ssize_t) i, items_[i]);
        items_.clear();
        return list;
    }

    int traverse(visitproc visit, void *arg) const {
        for (PyObject *item : items_)
            Py_VISIT(item);
        return 0;
    }

    size_t size() const { return items_.size(); }
    PyObject *operator[](size_t index) const { return items_[index]; }
    const std::vector<PyObject *> &items() const { return items_; }

  private:
    std::vector<PyObject *> items_;
};

} // namespace gnomon
