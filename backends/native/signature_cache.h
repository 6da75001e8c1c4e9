// The cache of a compiled function, which maps the signature of a call to the entry to run.
#pragma once

#include "direct_entry.h"
#include "flatten.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace gnomon {

// A signature as a Python object.
struct Key {
    Signature signature;

    explicit Key(Signature &&signature) : signature(std::move(signature)) {}

    // The leaves' tokens, in the order of the leaves.
    nb::tuple avals() const;
};

// May run Python code if objects of the signatures are equal but not identical.
bool signatures_equal(const Signature &a, const Signature &b);

// The cost of a hit in nanoseconds, on a 2-core x86-64 machine with Python 3.11 (3.10 to 3.13
// differ by less than the noise): no argument 160, three arrays 260, a dictionary of 20 arrays
// 1000, three NumPy arrays 450, three Python numbers 210.
//
// Every method needs the GIL, which also serializes threads. The module does not declare itself
// safe without it, so a free-threaded Python enables the GIL when it is imported. Methods that run
// Python code (callbacks, __eq__) may be re-entered from it.
class SignatureCache {
  public:
    SignatureCache(Environment environment, StaticArguments statics);
    SignatureCache(const SignatureCache &) = delete;

    // (entry or None, leaves, key or None)
    nb::tuple lookup(nb::tuple args, nb::dict kwargs, nb::handle context);
    // Runs the entry of a call; an entry that is no `DirectEntry` is called with a list of leaves.
    // The result is invalid if there is no entry, or if `lookup` raises an error for the arguments.
    // `kwargs` may be null.
    nb::object call(PyObject *args, PyObject *kwargs, nb::handle context);
    void insert(nb::handle_t<Key> key, nb::object entry);
    void clear();

    size_t size() const { return table_.size(); }
    uint64_t hits() const { return hits_; }
    uint64_t misses() const { return misses_; }

    int traverse(visitproc visit, void *arg) const;
    void drop_references();

  private:
    struct Slot {
        nb::object key_object;
        const Key *key; // inside key_object
        nb::object entry;
        DirectEntry *direct; // inside entry; null if it is of another type
    };
    using Table = std::unordered_multimap<uint64_t, Slot>;

    // A flattener that is borrowed from the pool for one call, so that its memory is reused.
    class Lease;

    Table::iterator find(const Signature &signature);
    std::shared_ptr<LeafTokens> tokens_of(nb::handle context);

    // There are few contexts (a switch, a device, a precision). A caller with more than this many
    // puts values into the context that do not belong there.
    static constexpr size_t max_contexts = 16;

    Environment environment_;
    StaticArguments statics_;
    DictLayouts layouts_;
    std::vector<std::shared_ptr<LeafTokens>> contexts_; // the most recently used first
    std::vector<std::unique_ptr<Flattener>> pool_;
    Table table_;
    uint64_t generation_ = 0; // changes with table_
    uint64_t hits_ = 0;
    uint64_t misses_ = 0;
};

} // namespace gnomon
