#include "leaf_tokens.h"

#include "equality.h"

#include <algorithm>
#include <array>

namespace gnomon {

namespace {

nb::object get_attribute(PyObject *object, const nb::object &name) {
    nb::object value = nb::steal(PyObject_GetAttr(object, name.ptr()));
    if (!value.is_valid())
        nb::raise_python_error();
    return value;
}

} // namespace

Environment::Environment(nb::object abstractify_, nb::object flatten_custom_,
                         nb::object array_type_, nb::object uncached_)
    : abstractify(std::move(abstractify_)), flatten_custom(std::move(flatten_custom_)),
      array_type(std::move(array_type_)), uncached(std::move(uncached_)),
      aval_name(interned("_aval")), dtype_name(interned("dtype")), shape_name(interned("shape")) {
    nb::module_ numpy = nb::module_::import_("numpy");
    ndarray_type = numpy.attr("ndarray");
    generic_type = numpy.attr("generic");
}

int Environment::traverse(visitproc visit, void *arg) const {
    Py_VISIT(abstractify.ptr());
    Py_VISIT(flatten_custom.ptr());
    Py_VISIT(array_type.ptr());
    return 0;
}

void Environment::clear() {
    // The types need not be cleared: nothing that they refer to refers back to a cache.
    abstractify.reset();
    flatten_custom.reset();
}

nb::object abstractify(const Environment &env, PyObject *leaf) {
    nb::object token = nb::steal(PyObject_Vectorcall(env.abstractify.ptr(), &leaf, 1, nullptr));
    if (!token.is_valid())
        nb::raise_python_error();
    return token;
}

LeafTokens::LeafTokens(nb::object context)
    : context_(std::move(context)), context_hash_(strict_hash(context_.ptr())) {}

nb::object LeafTokens::known(const Environment &env, PyObject *leaf) {
    PyTypeObject *type = Py_TYPE(leaf);
    if ((PyObject *) type == env.array_type.ptr()) {
        nb::object token = get_attribute(leaf, env.aval_name);
        return token.is_none() ? abstractify(env, leaf) : token;
    }
    if (type == &PyFloat_Type)
        return python_number(env, leaf, float_);
    if (type == &PyLong_Type)
        return python_number(env, leaf, int_);
    if (type == &PyBool_Type)
        return python_number(env, leaf, bool_);
    if (type == &PyComplex_Type)
        return python_number(env, leaf, complex_);
    if ((PyObject *) type == env.ndarray_type.ptr())
        return numpy_value(env, leaf, false);
    if (PyType_IsSubtype(type, (PyTypeObject *) env.generic_type.ptr()))
        return numpy_value(env, leaf, true);
    return nb::object();
}

nb::object LeafTokens::python_number(const Environment &env, PyObject *leaf, nb::object &memo) {
    if (memo.is_valid())
        return memo;
    nb::object token = abstractify(env, leaf);
    if (!token.is(env.uncached))
        memo = token;
    return token;
}

nb::object LeafTokens::numpy_value(const Environment &env, PyObject *leaf, bool is_scalar) {
    nb::object dtype = get_attribute(leaf, env.dtype_name);
    uint64_t hash = mix(is_scalar, (uint64_t) (uintptr_t) dtype.ptr());

    std::array<int64_t, max_rank> shape;
    size_t rank = 0;
    if (!is_scalar) {
        nb::object dims = get_attribute(leaf, env.shape_name);
        rank = (size_t) NB_TUPLE_GET_SIZE(dims.ptr());
        if (rank > max_rank)
            return abstractify(env, leaf);
        for (size_t i = 0; i < rank; ++i) {
            shape[i] = PyLong_AsSsize_t(NB_TUPLE_GET_ITEM(dims.ptr(), (Py_ssize_t) i));
            hash = mix(hash, (uint64_t) shape[i]);
        }
    }

    auto found = memos_.find(hash);
    if (found != memos_.end()) {
        const Memo &memo = found->second;
        if (memo.is_scalar == is_scalar && memo.dtype.is(dtype) && memo.shape.size() == rank &&
            std::equal(memo.shape.begin(), memo.shape.end(), shape.begin()))
            return memo.token;
    }

    nb::object token = abstractify(env, leaf);
    if (!token.is(env.uncached)) {
        if (memos_.size() >= max_memos)
            clear();
        Memo memo{is_scalar, dtype, std::vector<int64_t>(shape.begin(), shape.begin() + rank),
                  token};
        std::swap(memos_[hash], memo);
    }
    return token;
}

int LeafTokens::traverse(visitproc visit, void *arg) const {
    Py_VISIT(context_.ptr());
    Py_VISIT(bool_.ptr());
    Py_VISIT(int_.ptr());
    Py_VISIT(float_.ptr());
    Py_VISIT(complex_.ptr());
    for (const auto &item : memos_) {
        Py_VISIT(item.second.dtype.ptr());
        Py_VISIT(item.second.token.ptr());
    }
    return 0;
}

void LeafTokens::clear() {
    auto memos = std::move(memos_);
    memos_.clear();
}

} // namespace gnomon
