// Maps a leaf to its token, an interned object with all properties of the leaf on which a compiled
// program may depend (shape, dtype, weak type).
#pragma once

#include "references.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace gnomon {

// The caller's functions and types, fixed for the life of a cache.
struct Environment {
    nb::object abstractify;    // leaf -> interned token, or UNCACHED
    nb::object flatten_custom; // node -> None (a leaf) or (children, data)
    nb::object array_type;     // its instances have their token in the slot `_aval`
    nb::object ndarray_type;   // numpy.ndarray
    nb::object generic_type;   // numpy.generic
    nb::object uncached;       // the token of leaves that must not reach the cache
    nb::object aval_name, dtype_name, shape_name; // interned strings

    Environment(nb::object abstractify, nb::object flatten_custom, nb::object array_type,
                nb::object uncached);

    int traverse(visitproc visit, void *arg) const;
    void clear();
};

// The cache of tokens for one context. The token of a NumPy array or a Python number depends on the
// context (such as the x64 switch), so each context has its own cache.
class LeafTokens {
  public:
    explicit LeafTokens(nb::object context);

    const nb::object &context() const { return context_; }
    uint64_t context_hash() const { return context_hash_; }

    // The token of a leaf of array_type, of an exact int, float, complex, bool or numpy.ndarray, or
    // of an instance of numpy.generic. Returns an invalid object for anything else.
    nb::object known(const Environment &env, PyObject *leaf);

    int traverse(visitproc visit, void *arg) const;
    void clear();

  private:
    struct Memo {
        bool is_scalar;
        nb::object dtype;
        std::vector<int64_t> shape;
        nb::object token;
    };

    // Compiled programs have few shapes; programs with varying shapes call the evaluator.
    static constexpr size_t max_memos = 4096;
    static constexpr size_t max_rank = 64; // NumPy's own limit

    nb::object python_number(const Environment &env, PyObject *leaf, nb::object &memo);
    nb::object numpy_value(const Environment &env, PyObject *leaf, bool is_scalar);

    nb::object context_;
    uint64_t context_hash_;
    nb::object bool_, int_, float_, complex_;
    std::unordered_map<uint64_t, Memo> memos_;
};

// env.abstractify(leaf).
nb::object abstractify(const Environment &env, PyObject *leaf);

} // namespace gnomon
