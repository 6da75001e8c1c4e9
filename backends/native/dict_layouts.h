// The order of a dictionary's values among the leaves: sorted by key.
#pragma once

#include "references.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace gnomon {

// The layout of dictionaries with given keys in a given insertion order.
struct DictLayout {
    References keys;             // in insertion order
    std::vector<uint32_t> order; // order[i]: insertion index of the i-th key in sorted order
    nb::object sorted_keys;      // tuple
    uint64_t hash;               // of sorted_keys
};

// Sorting the keys of a dictionary costs more than the rest of a lookup. Programs pass dictionaries
// with the same key objects again and again (a tree map reuses them, and literals in code are
// constants), so layouts are cached by the identity of the keys.
class DictLayouts {
  public:
    // `keys` are borrowed references, in insertion order. May run Python code (comparisons).
    std::shared_ptr<const DictLayout> find(PyObject *const *keys, size_t size);

    void clear();
    int traverse(visitproc visit, void *arg) const;

  private:
    // Bounds the memory for programs that create new key objects for each call.
    static constexpr size_t max_layouts = 1024;

    std::unordered_map<uint64_t, std::shared_ptr<const DictLayout>> layouts_;
};

} // namespace gnomon
