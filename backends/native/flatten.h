// Flattens a call's arguments into the leaves, in order, and the signature by which the call is
// looked up.
#pragma once

#include "dict_layouts.h"
#include "leaf_tokens.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace gnomon {

// The kind of an element of Signature::words, in its lowest three bits. A leaf is a pointer to its
// token, whose lowest bits are zero; other kinds have the number of children above the tag.
enum class Tag : uint64_t {
    leaf = 0,
    none = 1,
    tuple = 2,
    list = 3,
    dict = 4,
    custom = 5,
    static_argument = 6,
    call = 7,
};
static_assert(alignof(PyObject) >= 8, "the lowest three bits of a pointer must be free");

// Calls with equal signatures run the same program.
struct Signature {
    // The arguments' structure in preorder. Leaf tokens are strong references.
    std::vector<uint64_t> words;
    // The objects that the words cannot represent, in the same order: key tuples of dictionaries,
    // types and data of custom nodes, static arguments, and finally the context.
    References objects;
    uint64_t hash = 0;

    Signature() = default;
    Signature(const Signature &) = delete;
    Signature(Signature &&) = default;
    Signature &operator=(Signature &&other) noexcept;
    ~Signature() { clear(); }

    void push_structure(Tag tag, size_t arity) { push_word(uint64_t(arity) << 3 | uint64_t(tag)); }
    void push_leaf(nb::object &&token) {
        push_word((uint64_t) (uintptr_t) token.ptr());
        token.release();
    }
    // `object_hash` is the object's strict_hash.
    void push_object(PyObject *object, uint64_t object_hash) {
        hash = mix_hash(object_hash);
        objects.push_borrowed(object);
    }

    static PyObject *leaf_token(uint64_t word) {
        return (word & 7) == uint64_t(Tag::leaf) ? (PyObject *) (uintptr_t) word : nullptr;
    }

    int traverse(visitproc visit, void *arg) const;
    void clear();

  private:
    uint64_t mix_hash(uint64_t value) const;
    void push_word(uint64_t word) {
        hash = mix_hash(word);
        words.push_back(word);
    }
};

// Which arguments of a function are static.
struct StaticArguments {
    std::vector<bool> positions;
    std::vector<nb::object> names; // interned

    // Raises TypeError or ValueError for anything but tuples of non-negative ints and of strings.
    StaticArguments(nb::tuple argnums, nb::tuple argnames);

    bool has_position(size_t index) const { return index < positions.size() && positions[index]; }
    bool has_name(PyObject *name) const;
};

// Walks the arguments of one call. The nodes are those of JAX and optree. This class handles None,
// exact tuples, lists and dictionaries (values in the order of the sorted keys); the caller's
// flatten_custom handles named tuples, dataclasses, OrderedDict and other registered types.
//
// Callbacks run Python code that may modify the containers during the walk, so references to the
// children of mutable containers are held.
class Flattener {
  public:
    // `kwargs` may be null.
    void flatten_call(const Environment &env, DictLayouts &layouts,
                      std::shared_ptr<LeafTokens> tokens, const StaticArguments &statics,
                      PyObject *args, PyObject *kwargs);

    // Drops all references and keeps the memory.
    void clear();

    Signature signature;
    References leaves;
    bool is_uncached = false; // a leaf must not be cached, so the signature is incomplete

  private:
    void flatten(PyObject *node);
    void flatten_children(size_t first);
    void flatten_custom(PyObject *node);
    void push_leaf(PyObject *leaf, nb::object &&token);
    void push_static(PyObject *value, nb::handle name);
    // Appends the values of `dict` to pending_ in insertion order.
    std::shared_ptr<const DictLayout> collect_dict(PyObject *dict);

    const Environment *env_ = nullptr;
    DictLayouts *layouts_ = nullptr;
    std::shared_ptr<LeafTokens> tokens_;
    References pending_;           // a stack: children of the containers that are being walked
    std::vector<PyObject *> keys_; // borrowed, used inside collect_dict only
};

// The error for a static argument that cannot be hashed. Set when the module is initialized.
extern PyObject *non_hashable_static_argument_error;

} // namespace gnomon
