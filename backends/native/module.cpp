// The Python module gnomon._native.

#include "signature_cache.h"

#include <nanobind/nanobind.h>

#include <string>
#include <type_traits>

namespace nb = nanobind;
using namespace nb::literals;

namespace gnomon {

namespace {

struct Uncached {};

template <typename T> int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self))
        return 0;
    if constexpr (std::is_same_v<T, Key>)
        return nb::inst_ptr<Key>(self)->signature.traverse(visit, arg);
    else
        return nb::inst_ptr<T>(self)->traverse(visit, arg);
}

int clear_key(PyObject *self) {
    if (!nb::inst_ready(self))
        return 0;
    Signature dropped = std::move(nb::inst_ptr<Key>(self)->signature);
    return 0;
}

int clear_cache(PyObject *self) {
    if (nb::inst_ready(self))
        nb::inst_ptr<SignatureCache>(self)->drop_references();
    return 0;
}

PyType_Slot key_slots[] = {
    {Py_tp_traverse, (void *) traverse<Key>}, {Py_tp_clear, (void *) clear_key}, {0, nullptr}};

PyType_Slot cache_slots[] = {{Py_tp_traverse, (void *) traverse<SignatureCache>},
                             {Py_tp_clear, (void *) clear_cache},
                             {0, nullptr}};

void require_callable(nb::handle object, const char *name) {
    if (!PyCallable_Check(object.ptr()))
        throw nb::type_error((std::string(name) + " must be callable").c_str());
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native part of gnomon: looks up the program of a call by its signature.";

    // Jitted functions that are still referenced when the interpreter ends, for example from a
    // module's globals, are not leaks. The tests look for real leaks.
    nb::set_leak_warnings(false);

    // JAX raises ValueError for a static argument that cannot be hashed, Python raises TypeError.
    nb::object bases = nb::make_tuple(nb::handle(PyExc_TypeError), nb::handle(PyExc_ValueError));
    non_hashable_static_argument_error = PyErr_NewExceptionWithDoc(
        "gnomon._native.NonHashableStaticArgumentError",
        "A value given for a static argument cannot be hashed.", bases.ptr(), nullptr);
    if (!non_hashable_static_argument_error)
        nb::raise_python_error();
    m.attr("NonHashableStaticArgumentError") = nb::handle(non_hashable_static_argument_error);

    nb::class_<Uncached>(m, "Uncached", "The type of UNCACHED.")
        .def("__repr__", [](const Uncached &) { return "gnomon._native.UNCACHED"; });
    nb::object uncached = nb::cast(Uncached());
    m.attr("UNCACHED") = uncached;

    nb::class_<Key>(m, "Key", nb::type_slots(key_slots),
                    "The signature of a call. Keys of calls that run the same program are equal.")
        .def_prop_ro("avals", &Key::avals, "The tokens of the leaves, in the order of the leaves.")
        .def("__hash__", [](const Key &key) { return (Py_ssize_t) key.signature.hash; })
        .def(
            "__eq__",
            [](const Key &key, nb::handle other) -> nb::object {
                Key *other_key;
                if (!nb::try_cast(other, other_key) || other_key == nullptr)
                    return nb::borrow(Py_NotImplemented);
                return nb::bool_(signatures_equal(key.signature, other_key->signature));
            },
            nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));

    nb::class_<SignatureCache>(m, "SignatureCache", nb::type_slots(cache_slots),
                               "Maps the signature of a call to the entry to run for it.")
        .def(
            "__init__",
            [](SignatureCache *self, nb::object abstractify, nb::object flatten_custom,
               nb::type_object array_type, nb::tuple static_argnums, nb::tuple static_argnames) {
                require_callable(abstractify, "abstractify");
                require_callable(flatten_custom, "flatten_custom");
                nb::object sentinel = nb::module_::import_("gnomon._native").attr("UNCACHED");
                new (self)
                    SignatureCache(Environment(abstractify, flatten_custom, array_type, sentinel),
                                   StaticArguments(static_argnums, static_argnames));
            },
            "abstractify"_a.none(), "flatten_custom"_a.none(), "array_type"_a,
            "static_argnums"_a = nb::tuple(), "static_argnames"_a = nb::tuple(),
            R"(Makes an empty cache.

Args:
  abstractify: Called with a leaf, returns its token: an interned object with all properties of the
    leaf on which a program may depend. Tokens are compared by identity. Returns UNCACHED if the
    call must not be looked up; raises TypeError if the object is not a valid argument. For each
    context, it is called once for each of bool, int, float and complex, once for each dtype and
    shape of NumPy arrays and scalars, and each time for any other leaf.
  flatten_custom: Called with an object that is neither None, an array, a number, nor exactly a
    tuple, list or dict. Returns None for a leaf, or (children, data) for a node of a tree; data is
    hashable.
  array_type: Instances of exactly this type are leaves whose token is read from the slot `_aval`;
    if that is None, abstractify is called.
  static_argnums: Positions of static arguments, counted from the first; positions beyond the
    arguments of a call are ignored.
  static_argnames: Names of static keyword arguments.)")
        .def("lookup", &SignatureCache::lookup, "args"_a, "kwargs"_a, "context"_a.none(),
             nb::sig("def lookup(self, args: tuple, kwargs: dict, context: object) "
                     "-> tuple[object | None, list, Key | None]"),
             R"(Looks up a call.

Returns (entry, leaves, key): the entry that was inserted for calls with this signature, or None;
the leaves of the dynamic arguments (positional ones first, then by keyword in sorted order); the
key for which to insert an entry, or None if a leaf is UNCACHED.

Static arguments and the context (any hashable object that the program depends on) are compared by
type, hash and equality; floats bit by bit.

Raises:
  NonHashableStaticArgumentError: a static argument cannot be hashed; the message names it.
  TypeError: abstractify raised it for a leaf that is not a valid argument.)")
        .def("insert", &SignatureCache::insert, "key"_a, "entry"_a.none(),
             nb::sig("def insert(self, key: Key, entry: object) -> None"),
             "Sets the entry, which must not be None, for calls with this key.")
        .def("clear", &SignatureCache::clear,
             "Removes all entries and cached tokens of leaves, and resets the counters.")
        .def("size", &SignatureCache::size, "The number of entries.")
        .def_prop_ro("hits", &SignatureCache::hits, "The number of lookups that found an entry.")
        .def_prop_ro("misses", &SignatureCache::misses,
                     "The number of lookups of cacheable calls that found no entry.");
}

} // namespace gnomon
