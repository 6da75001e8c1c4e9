#include "dict_layouts.h"

#include "equality.h"

#include <cstring>

namespace gnomon {

namespace {

nb::list copy(const nb::list &list) {
    PyObject *result = PyList_GetSlice(list.ptr(), 0, NB_LIST_GET_SIZE(list.ptr()));
    if (!result)
        nb::raise_python_error();
    return nb::steal<nb::list>(result);
}

// Sorts like optree: by the keys; if these cannot be compared, by type name and key; if that fails
// too, not at all. (`list.sort` leaves a list half sorted when a comparison raises, so each attempt
// works on a copy.)
nb::list total_order_sorted(const nb::list &keys) {
    nb::list attempt = copy(keys);
    if (PyList_Sort(attempt.ptr()) == 0)
        return attempt;
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        nb::raise_python_error();
    PyErr_Clear();

    nb::list decorated;
    for (nb::handle key : keys) {
        nb::handle type = key.type();
        nb::object name =
            nb::str("{}.{}").attr("format")(type.attr("__module__"), type.attr("__qualname__"));
        decorated.append(nb::make_tuple(name, key));
    }
    if (PyList_Sort(decorated.ptr()) == 0) {
        nb::list sorted;
        for (nb::handle pair : decorated)
            sorted.append(pair[1]);
        return sorted;
    }
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        nb::raise_python_error();
    PyErr_Clear();
    return keys;
}

std::shared_ptr<const DictLayout> make_layout(PyObject *const *keys, size_t size) {
    auto layout = std::make_shared<DictLayout>();
    nb::list inserted;
    std::unordered_map<PyObject *, uint32_t> position;
    for (size_t i = 0; i < size; ++i) {
        layout->keys.push_borrowed(keys[i]);
        inserted.append(nb::handle(keys[i]));
        position[keys[i]] = (uint32_t) i;
    }
    // Python code may run from here on, so `keys` is no longer used.
    nb::list sorted = total_order_sorted(inserted);
    layout->order.reserve(size);
    for (nb::handle key : sorted)
        layout->order.push_back(position.at(key.ptr()));
    layout->sorted_keys = nb::tuple(sorted);
    layout->hash = strict_hash(layout->sorted_keys.ptr());
    return layout;
}

} // namespace

std::shared_ptr<const DictLayout> DictLayouts::find(PyObject *const *keys, size_t size) {
    uint64_t hash = size;
    for (size_t i = 0; i < size; ++i)
        hash = mix(hash, (uint64_t) (uintptr_t) keys[i]);

    auto found = layouts_.find(hash);
    if (found != layouts_.end()) {
        const std::vector<PyObject *> &known = found->second->keys.items();
        if (known.size() == size && std::memcmp(known.data(), keys, size * sizeof(PyObject *)) == 0)
            return found->second;
    }

    std::shared_ptr<const DictLayout> layout = make_layout(keys, size);
    if (layouts_.size() >= max_layouts)
        clear();
    std::shared_ptr<const DictLayout> replaced = layout;
    replaced.swap(layouts_[hash]);
    return layout;
}

void DictLayouts::clear() {
    auto layouts = std::move(layouts_);
    layouts_.clear();
}

int DictLayouts::traverse(visitproc visit, void *arg) const {
    for (const auto &item : layouts_) {
        if (int result = item.second->keys.traverse(visit, arg))
            return result;
        Py_VISIT(item.second->sorted_keys.ptr());
    }
    return 0;
}

} // namespace gnomon
