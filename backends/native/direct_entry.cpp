#include "direct_entry.h"

namespace gnomon {

DirectEntry::DirectEntry(nb::object launcher, nb::object array_type, nb::object general,
                         nb::object host_buffer, nb::sequence captures, nb::sequence avals,
                         nb::sequence donated, nb::object unflatten)
    : launcher_object_(std::move(launcher)), launcher_(nb::cast<Launcher *>(launcher_object_)),
      arrays_(std::move(array_type)), general_(std::move(general)),
      host_buffer_(std::move(host_buffer)), unflatten_(std::move(unflatten)),
      donated_reason_(nb::str("it was donated to a call")) {
    for (nb::handle capture : captures)
        captures_.push_borrowed(capture.ptr());
    for (nb::handle aval : avals) {
        avals_.push_back(nb::borrow(aval));
        weak_types_.push_back(aval.attr("weak_type"));
    }
    for (nb::handle position : donated)
        donated_.push_back(nb::cast<size_t>(position));
    if (avals_.size() != launcher_->outputs() || (unflatten_.is_none() && avals_.size() != 1))
        throw nb::value_error("the types of the results are not those of the program");
}

nb::object DirectEntry::call(const References &leaves) {
    if (!general_.is_valid())
        throw std::runtime_error("the compiled program was collected as garbage");
    References buffers;
    if (launcher_->usable() && donatable(leaves)) {
        Launcher::Arguments arguments(leaves.size() + captures_.size());
        if (push_leaves(leaves, arguments) && launcher_->launch(arguments, buffers)) {
            for (size_t position : donated_)
                donate(leaves[position]);
            if (unflatten_.is_none())
                return wrapped(buffers[0], avals_[0], weak_types_[0]);
            nb::object results = nb::steal(PyList_New((Py_ssize_t) buffers.size()));
            if (!results.is_valid())
                nb::raise_python_error();
            for (size_t i = 0; i < buffers.size(); ++i) {
                nb::object result = wrapped(buffers[i], avals_[i], weak_types_[i]);
                NB_LIST_SET_ITEM(results.ptr(), (Py_ssize_t) i, result.release().ptr());
            }
            PyObject *given[] = {results.ptr()};
            nb::object tree = nb::steal(PyObject_Vectorcall(unflatten_.ptr(), given, 1, nullptr));
            if (!tree.is_valid())
                nb::raise_python_error();
            return tree;
        }
    }
    nb::list given;
    for (PyObject *leaf : leaves.items())
        given.append(nb::handle(leaf));
    return general_(given);
}

bool DirectEntry::donatable(const References &leaves) const {
    for (size_t position : donated_) {
        PyObject *leaf = leaves[position];
        if ((PyObject *) Py_TYPE(leaf) != arrays_.type.ptr())
            return false;
        for (size_t i = 0; i < leaves.size(); ++i)
            if (i != position && leaves[i] == leaf)
                return false;
    }
    return true;
}

bool DirectEntry::push_leaves(const References &leaves, Launcher::Arguments &arguments) const {
    size_t index = 0;
    for (PyObject *leaf : leaves.items()) {
        nb::object buffer;
        if ((PyObject *) Py_TYPE(leaf) == arrays_.type.ptr())
            buffer = nb::borrow(slot(leaf, arrays_.buffer));
        if (!buffer.is_valid() || buffer.is_none()) {
            PyObject *given[] = {leaf};
            buffer = nb::steal(PyObject_Vectorcall(host_buffer_.ptr(), given, 1, nullptr));
            if (!buffer.is_valid())
                nb::raise_python_error();
        }
        if (!launcher_->push(arguments, index++, buffer.ptr()))
            return false;
    }
    for (PyObject *capture : captures_.items())
        if (!launcher_->push(arguments, index++, capture))
            return false;
    return true;
}

// `ConcreteArray.delete`.
void DirectEntry::donate(PyObject *array) const {
    const BufferLayout &layout = launcher_->buffers();
    nb::object buffer = nb::borrow(slot(array, arrays_.buffer));
    if (slot(array, arrays_.aval) == Py_None || buffer.type().ptr() != layout.type.ptr() ||
        slot(buffer.ptr(), layout.deleted) != Py_None) {
        nb::handle(array).attr("delete")();
        return;
    }
    set_slot(buffer.ptr(), layout.deleted, donated_reason_.ptr());
    for (Py_ssize_t offset : {layout.view, layout.array, layout.host, layout.pending})
        set_slot(buffer.ptr(), offset, Py_None);
    set_slot(array, arrays_.value, Py_None);
    set_slot(array, arrays_.buffer, Py_None);
}

nb::object DirectEntry::wrapped(PyObject *buffer, const nb::object &aval,
                                const nb::object &weak_type) const {
    PyObject *array = PyType_GenericAlloc((PyTypeObject *) arrays_.type.ptr(), 0);
    if (!array)
        nb::raise_python_error();
    set_slot(array, arrays_.value, Py_None);
    set_slot(array, arrays_.buffer, buffer);
    set_slot(array, arrays_.aval, aval.ptr());
    set_slot(array, arrays_.weak_type, weak_type.ptr());
    return nb::steal(array);
}

int DirectEntry::traverse(visitproc visit, void *arg) const {
    Py_VISIT(launcher_object_.ptr());
    Py_VISIT(general_.ptr());
    Py_VISIT(host_buffer_.ptr());
    Py_VISIT(unflatten_.ptr());
    return captures_.traverse(visit, arg);
}

void DirectEntry::clear() {
    // A call that is in progress keeps the entry alive, so there is none now. The launcher stays:
    // it drops its own references.
    nb::object general = std::move(general_), unflatten = std::move(unflatten_);
    captures_.truncate(0);
}

} // namespace gnomon
