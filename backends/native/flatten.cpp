#include "flatten.h"

#include "equality.h"
#include "recursion.h"

#include <string>

namespace gnomon {

PyObject *non_hashable_static_argument_error = nullptr;

namespace {

constexpr char while_flattening[] = " while flattening the arguments of a compiled function";

std::string name_of_type(nb::handle object) {
    nb::str name(object.type().attr("__name__"));
    return name.c_str();
}

} // namespace

// --- Signature -----------------------------------------------------------------------------------

uint64_t Signature::mix_hash(uint64_t value) const { return mix(hash, value); }

Signature &Signature::operator=(Signature &&other) noexcept {
    if (this != &other) {
        clear();
        words = std::move(other.words);
        other.words.clear();
        objects = std::move(other.objects);
        hash = other.hash;
        other.hash = 0;
    }
    return *this;
}

int Signature::traverse(visitproc visit, void *arg) const {
    for (uint64_t word : words)
        Py_VISIT(leaf_token(word));
    return objects.traverse(visit, arg);
}

void Signature::clear() {
    while (!words.empty()) {
        PyObject *token = leaf_token(words.back());
        words.pop_back();
        Py_XDECREF(token);
    }
    objects.truncate(0);
    hash = 0;
}

// --- StaticArguments -----------------------------------------------------------------------------

StaticArguments::StaticArguments(nb::tuple argnums, nb::tuple argnames) {
    for (nb::handle argnum : argnums) {
        if (!PyLong_CheckExact(argnum.ptr()))
            throw nb::type_error(
                ("static_argnums must be a tuple of ints, but it holds a value of type " +
                 name_of_type(argnum))
                    .c_str());
        Py_ssize_t index = PyLong_AsSsize_t(argnum.ptr());
        if (index == -1 && PyErr_Occurred())
            nb::raise_python_error();
        if (index < 0 || index > 0xFFFF)
            throw nb::value_error(
                ("static_argnums must count from the first argument, at most 65535, got " +
                 std::to_string(index))
                    .c_str());
        if (positions.size() <= (size_t) index)
            positions.resize((size_t) index + 1, false);
        positions[(size_t) index] = true;
    }
    for (nb::handle name : argnames) {
        if (!PyUnicode_CheckExact(name.ptr()))
            throw nb::type_error(
                ("static_argnames must be a tuple of strings, but it holds a value of type " +
                 name_of_type(name))
                    .c_str());
        PyObject *interned = name.inc_ref().ptr();
        PyUnicode_InternInPlace(&interned);
        names.push_back(nb::steal(interned));
    }
}

bool StaticArguments::has_name(PyObject *name) const {
    for (const nb::object &candidate : names) {
        if (candidate.ptr() == name)
            return true;
    }
    for (const nb::object &candidate : names) {
        int equal = PyObject_RichCompareBool(candidate.ptr(), name, Py_EQ);
        if (equal == -1)
            nb::raise_python_error();
        if (equal)
            return true;
    }
    return false;
}

// --- Flattener -----------------------------------------------------------------------------------

void Flattener::flatten_call(const Environment &env, DictLayouts &layouts,
                             std::shared_ptr<LeafTokens> tokens, const StaticArguments &statics,
                             PyObject *args, PyObject *kwargs) {
    env_ = &env;
    layouts_ = &layouts;
    tokens_ = std::move(tokens);

    size_t arity = (size_t) NB_TUPLE_GET_SIZE(args);
    signature.push_structure(Tag::call, arity);
    for (size_t i = 0; i < arity; ++i) {
        PyObject *argument = NB_TUPLE_GET_ITEM(args, (Py_ssize_t) i);
        if (statics.has_position(i))
            push_static(argument, nb::int_(i));
        else
            flatten(argument);
    }

    if (kwargs && NB_DICT_GET_SIZE(kwargs) != 0) {
        size_t first = pending_.size();
        std::shared_ptr<const DictLayout> layout = collect_dict(kwargs);
        for (uint32_t position : layout->order) {
            PyObject *argument = pending_[first + position];
            PyObject *name = layout->keys[position];
            if (!statics.names.empty() && statics.has_name(name))
                push_static(argument, name);
            else
                flatten(argument);
        }
        pending_.truncate(first);
    }

    signature.push_object(tokens_->context().ptr(), tokens_->context_hash());
}

void Flattener::clear() {
    signature.clear();
    leaves.truncate(0);
    pending_.truncate(0);
    keys_.clear();
    tokens_.reset();
    is_uncached = false;
}

void Flattener::flatten(PyObject *node) {
    PyTypeObject *type = Py_TYPE(node);
    if (type == &PyTuple_Type) {
        RecursionGuard guard(while_flattening);
        // A tuple is immutable and keeps its children alive as long as its owner holds it.
        Py_ssize_t arity = NB_TUPLE_GET_SIZE(node);
        signature.push_structure(Tag::tuple, (size_t) arity);
        for (Py_ssize_t i = 0; i < arity; ++i)
            flatten(NB_TUPLE_GET_ITEM(node, i));
    } else if (type == &PyDict_Type) {
        RecursionGuard guard(while_flattening);
        size_t first = pending_.size();
        std::shared_ptr<const DictLayout> layout = collect_dict(node);
        for (uint32_t position : layout->order)
            flatten(pending_[first + position]);
        pending_.truncate(first);
    } else if (type == &PyList_Type) {
        RecursionGuard guard(while_flattening);
        size_t first = pending_.size();
        Py_ssize_t arity = NB_LIST_GET_SIZE(node);
        for (Py_ssize_t i = 0; i < arity; ++i)
            pending_.push_borrowed(NB_LIST_GET_ITEM(node, i));
        signature.push_structure(Tag::list, (size_t) arity);
        flatten_children(first);
    } else if (node == Py_None) {
        signature.push_structure(Tag::none, 0);
    } else if (nb::object token = tokens_->known(*env_, node); token.is_valid()) {
        push_leaf(node, std::move(token));
    } else {
        flatten_custom(node);
    }
}

// Walks and pops the nodes above `first` on the stack of pending nodes.
void Flattener::flatten_children(size_t first) {
    size_t end = pending_.size();
    for (size_t i = first; i < end; ++i)
        flatten(pending_[i]);
    pending_.truncate(first);
}

void Flattener::flatten_custom(PyObject *node) {
    RecursionGuard guard(while_flattening);
    nb::object parts =
        nb::steal(PyObject_Vectorcall(env_->flatten_custom.ptr(), &node, 1, nullptr));
    if (!parts.is_valid())
        nb::raise_python_error();
    if (parts.is_none()) {
        push_leaf(node, abstractify(*env_, node));
        return;
    }
    if (!PyTuple_CheckExact(parts.ptr()) || NB_TUPLE_GET_SIZE(parts.ptr()) != 2)
        throw nb::type_error(
            ("flatten_custom must return None for a leaf or a pair (children, data) "
             "for a node, but it returned a value of type " +
             name_of_type(parts))
                .c_str());
    PyObject *data = NB_TUPLE_GET_ITEM(parts.ptr(), 1);
    uint64_t data_hash;
    try {
        data_hash = strict_hash(data);
    } catch (nb::python_error &error) {
        if (!error.matches(PyExc_TypeError))
            throw;
        nb::raise_from(error, PyExc_TypeError,
                       "the static data of a tree node of type %s must be hashable, but it is of "
                       "type %s; return tuples, strings or numbers from its flatten function",
                       name_of_type(node).c_str(), name_of_type(data).c_str());
    }
    nb::object children = nb::steal(PySequence_Tuple(NB_TUPLE_GET_ITEM(parts.ptr(), 0)));
    if (!children.is_valid())
        nb::raise_python_error();

    PyObject *type = (PyObject *) Py_TYPE(node);
    Py_ssize_t arity = NB_TUPLE_GET_SIZE(children.ptr());
    signature.push_structure(Tag::custom, (size_t) arity);
    signature.push_object(type, (uint64_t) (uintptr_t) type);
    signature.push_object(data, data_hash);
    for (Py_ssize_t i = 0; i < arity; ++i)
        flatten(NB_TUPLE_GET_ITEM(children.ptr(), i));
}

void Flattener::push_leaf(PyObject *leaf, nb::object &&token) {
    if (token.is(env_->uncached))
        is_uncached = true;
    signature.push_leaf(std::move(token));
    leaves.push_borrowed(leaf);
}

void Flattener::push_static(PyObject *value, nb::handle name) {
    uint64_t hash;
    try {
        hash = strict_hash(value);
    } catch (nb::python_error &error) {
        if (!error.matches(PyExc_TypeError))
            throw;
        nb::raise_from(
            error, non_hashable_static_argument_error,
            "static arguments must be hashable, but the value of static argument %s is "
            "of type %s, which is not: pass a hashable value (such as a tuple instead of a "
            "list), or remove the argument from static_argnums and static_argnames",
            nb::repr(name).c_str(), name_of_type(value).c_str());
    }
    signature.push_structure(Tag::static_argument, 0);
    signature.push_object(value, hash);
}

std::shared_ptr<const DictLayout> Flattener::collect_dict(PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t state = 0;
    while (PyDict_Next(dict, &state, &key, &value)) {
        keys_.push_back(key);
        pending_.push_borrowed(value);
    }
    // `find` takes references to the keys before it runs any Python code.
    std::shared_ptr<const DictLayout> layout = layouts_->find(keys_.data(), keys_.size());
    keys_.clear();
    signature.push_structure(Tag::dict, layout->order.size());
    signature.push_object(layout->sorted_keys.ptr(), layout->hash);
    return layout;
}

} // namespace gnomon
