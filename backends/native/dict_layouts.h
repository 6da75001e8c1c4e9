// The order in which the values of a dictionary are leaves: sorted by key.
#pragma once

#include "references.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace gnomon {

// What there is to know about dictionaries with given keys in a given insertion order.
struct DictLayout {
    References keys;             // in insertion order
    std::vector<uint32_t> order; // order[i]: where the i-th key in sorted order was inserted
    nb::object sorted_keys;      // tuple
    uint64_t hash;               // of sorted_keys
};

// Sorting the keys of a dictionary costs more than all the rest of a look-up, and programs pass
// dictionaries built from the same key objects again and again (a tree map reuses them, and
// literals in code are constants): layouts are remembered by the identity of the keys.
class DictLayouts {
  public:
    // `keys` are borrowed references, in insertion order. May run Python code (comparisons).
    std::shared_ptr<const DictLayout> find(PyObject *const *keys, size_t size);

    void clear();
    int traverse(visitproc visit, void *arg) const;

  private:
    // Programs that make new key objects for each call would fill the memory otherwise.
    static constexpr size_t max_layouts = 1024;

    std::unordered_map<uint64_t, std::shared_ptr<const DictLayout>> layouts_;
};

} // namespace gnomon
