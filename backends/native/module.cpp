// The Python module gnomon._native.

#include "dispatcher.h"
#include "equality.h"
#include "exit.h"
#include "function_launcher.h"
#include "iree_launcher.h"
#include "object_code.h"
#include "readable.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
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

template <typename T> int clear(PyObject *self) {
    if (nb::inst_ready(self))
        nb::inst_ptr<T>(self)->clear();
    return 0;
}

PyType_Slot key_slots[] = {
    {Py_tp_traverse, (void *) traverse<Key>}, {Py_tp_clear, (void *) clear_key}, {0, nullptr}};

PyType_Slot cache_slots[] = {{Py_tp_traverse, (void *) traverse<SignatureCache>},
                             {Py_tp_clear, (void *) clear_cache},
                             {0, nullptr}};

PyType_Slot launcher_slots[] = {{Py_tp_traverse, (void *) traverse<Launcher>},
                                {Py_tp_clear, (void *) clear<Launcher>},
                                {0, nullptr}};

PyType_Slot entry_slots[] = {{Py_tp_traverse, (void *) traverse<DirectEntry>},
                             {Py_tp_clear, (void *) clear<DirectEntry>},
                             {0, nullptr}};

// Nothing needs to be cleared: the cache breaks the cycles through it.
PyType_Slot dispatcher_slots[] = {{Py_tp_traverse, (void *) traverse<Dispatcher>},
                                  {Py_tp_call, (void *) call_dispatcher},
                                  {0, nullptr}};

void require_callable(nb::handle object, const char *name) {
    if (!PyCallable_Check(object.ptr()))
        throw nb::type_error((std::string(name) + " must be callable").c_str());
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "The native part of gnomon: looks up and runs the program of a call.";

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
`strictly_equal`.

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

    m.def(
        "strictly_equal", [](nb::handle a, nb::handle b) { return strict_equal(a.ptr(), b.ptr()); },
        "a"_a.none(), "b"_a.none(),
        R"(Whether no program can distinguish two objects.

Types must be the same, and floats are compared bit by bit, also inside tuples and inside whatever
the function of `set_comparison` looks into.)");
    m.def("set_comparison", set_comparison, "comparison"_a,
          R"(Sets the function that compares two different objects of one type.

It is not called for numbers, strings, functions, classes and tuples. The default is `==`.)");

    m.def(
        "runtime_generation", [] { return Launcher::generation; },
        "A number that changes when programs must be loaded again.");
    m.def(
        "next_runtime_generation", [] { ++Launcher::generation; },
        "Makes all loaded programs invalid.");
    m.def(
        "set_recording", [](bool on) { Launcher::recording = on; }, "on"_a,
        "Sets whether calls are recorded, so that all must be made in Python.");

    m.def(
        "set_context",
        [](nb::object context) {
            PyObject *old = Dispatcher::context;
            Dispatcher::context = context.is_none() ? nullptr : context.release().ptr();
            Py_XDECREF(old);
        },
        "context"_a.none(),
        "Sets the context of all look-ups; None if it differs between threads, or if operands are "
        "checked.");
    m.def("stop_threads_instead_of_terminating", stop_threads_instead_of_terminating,
          R"(Lets all threads but the calling one stop where C++ would end the process.

To be called when the interpreter ends: a thread that returns from a call of IREE after that would
abort the process.)");
    m.attr("Readable") = make_readable_type();
    m.def(
        "remove_folder_at_exit", [](nb::bytes folder) { remove_folder_at_exit(folder.c_str()); },
        "folder"_a,
        "Removes a folder after all exit handlers have run; a forked child does not remove it.");
    m.def(
        "count_staging", [](int change) { Dispatcher::staging += change; }, "change"_a,
        "Changes the number of traces in progress, in all threads, that stage all ops.");

    nb::class_<CallLock>(m, "CallLock", "A lock for `with` that is fast to acquire if it is free.")
        .def(nb::init<>())
        .def(
            "__enter__",
            [](CallLock &self) {
                self.acquire();
                return nb::none();
            },
            nb::sig("def __enter__(self) -> None"))
        .def(
            "__exit__", [](CallLock &self, nb::args) { self.release(); },
            nb::sig("def __exit__(self, *exception: object) -> None"));

    nb::class_<ObjectCode>(m, "ObjectCode",
                           "Object code of a compiled program, in the memory of this process.")
        .def(
            "__init__",
            [](ObjectCode *self, nb::bytes content) {
                new (self) ObjectCode({content.c_str(), content.size()});
            },
            "content"_a, R"(Loads object code.

Args:
  content: The content of an object file.

Raises:
  RuntimeError: It is damaged, for another processor, or this system is not supported.)")
        .def_static("is_supported", &ObjectCode::is_supported,
                    "Whether object code can be loaded on this system.")
        .def(
            "symbol",
            [](const ObjectCode &self, const std::string &name) {
                try {
                    return self.symbol(name);
                } catch (const std::out_of_range &) {
                    throw nb::key_error(("the program has no function " + name).c_str());
                }
            },
            "name"_a, R"(The address of a function or variable, as long as the object lives.

Raises:
  KeyError: There is none.)")
        .def_prop_ro("nbytes", &ObjectCode::nbytes, "The bytes of memory that it takes.");
    nb::class_<Launcher>(m, "Launcher", nb::type_slots(launcher_slots),
                         "Runs a compiled program without a Python frame.");
    nb::class_<FunctionLauncher, Launcher>(m, "FunctionLauncher", nb::type_slots(launcher_slots),
                                           "Runs a function of machine code.")
        .def(nb::init<nb::object, nb::object, nb::sequence, nb::object, uintptr_t, size_t,
                      nb::object>(),
             "buffer_type"_a, "device"_a, "output_types"_a, "empty"_a, "address"_a, "workspace"_a,
             "owner"_a,
             R"(Makes a launcher.

Args:
  buffer_type: The class of buffers.
  device: The device of all buffers.
  output_types: The shape and dtype of each result.
  empty: Called with a shape and a dtype; returns a new array of NumPy.
  address: The function, which takes an array of pointers to its arguments: pointers to the operands,
    the results and a workspace.
  workspace: The number of bytes of the workspace.
  owner: Keeps the code alive.

Raises:
  RuntimeError: NumPy's arrays are not laid out as expected.)");
    nb::class_<IreeLauncher, Launcher>(m, "IreeLauncher", nb::type_slots(launcher_slots),
                                       "Runs a loaded program of IREE.")
        .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::sequence, bool,
                      nb::object, nb::object>(),
             "buffer_type"_a, "view_type"_a, "list_type"_a, "device"_a, "output_types"_a,
             "keeps_results"_a, "failed"_a, "owned"_a,
             R"(Makes a launcher without a program.

Args:
  buffer_type: The class of buffers.
  view_type, list_type: IREE's classes of buffer views and of lists of arguments.
  device: The device of all buffers.
  output_types: The shape and dtype of each result.
  keeps_results: Whether IREE's list of results, and with it their memory, is kept until the next
    call, which saves 0.4 us.
  failed: Called with an exception of the program and the state; raises the error to report, if it
    is another.
  owned: Called with the list of results and the state when an argument is in memory of NumPy;
    returns the results in memory of their own.)")
        .def("bind", &IreeLauncher::bind, "pack"_a, "context"_a, "invoke"_a, "function"_a,
             "loaded"_a,
             R"(Sets the loaded program.

Args:
  pack: Called with `context`, a tuple of views and an empty dict; returns a list of arguments.
  invoke: Called with `function`, the list of arguments and that of results.
  loaded: Has a `lock`, which is held during a call (a call that would wait for it is left to
    Python), the `state` for `Buffer.view_for`, and `slow`, which a slow call sets to True.)")
        .def_rw("ready", &IreeLauncher::ready,
                "Whether the next call may be made. `bind` and a slow call set it to False.");

    nb::class_<DirectEntry>(m, "DirectEntry", nb::type_slots(entry_slots),
                            "The entry of a signature whose calls need no Python code.")
        .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::sequence, nb::sequence,
                      nb::sequence, nb::object>(),
             "launcher"_a, "array_type"_a, "general"_a, "host_buffer"_a, "captures"_a, "avals"_a,
             "donated"_a, "unflatten"_a.none(),
             R"(Makes an entry for a launcher.

Args:
  array_type: The class of arrays: of the results, and of leaves whose buffer is in `_buffer`.
  general: The entry to call, with the list of leaves, when the launcher does not take the call.
  host_buffer: Called with a leaf that has no buffer; returns one.
  captures: Buffers of arguments after the leaves.
  avals: The types of the results.
  donated: The positions of leaves that a call deletes.
  unflatten: Called with the list of results; None if the result is a single array.)")
        .def(
            "__call__",
            [](DirectEntry &self, nb::list leaves) {
                References given;
                for (nb::handle leaf : leaves)
                    given.push_borrowed(leaf.ptr());
                return self.call(given);
            },
            "leaves"_a, nb::sig("def __call__(self, leaves: list) -> object"),
            "Runs the program on the dynamic leaves of a call.");

    nb::class_<Dispatcher>(m, "Dispatcher", nb::type_slots(dispatcher_slots),
                           R"(The base class of compiled functions: looks up and runs a call.

All calls that are not in the cache are made by the method `_call(args, kwargs)` of the subclass.)")
        .def(nb::init<nb::object, nb::object, nb::object>(), "cache"_a, "config"_a, "state"_a,
             R"(Makes a compiled function.

Args:
  cache: A SignatureCache.
  config: While there is no context for all threads, its attribute `token` is the context of
    look-ups, and `_call` makes all calls if its attribute `operands_somewhere` is true.
  state: While a trace stages ops, `_call` makes all calls if its attribute `staging` is not None.)");
}

} // namespace gnomon
