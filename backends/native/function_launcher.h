// Runs a function of machine code on the memory of NumPy arrays.
#pragma once

#include "launcher.h"

#include <memory>

namespace gnomon {

// The function takes an array of pointers to its arguments: the addresses of the operands, of the
// results and of a workspace. It takes no other reference, so calls may run at the same time.
class FunctionLauncher final : public Launcher {
  public:
    FunctionLauncher(nb::object buffer_type, nb::object device, nb::sequence output_types,
                     nb::object empty, uintptr_t address, size_t workspace, nb::object owner);

    bool usable() const override { return !recording && owner_.is_valid(); }
    // Takes arrays in row-major order, at multiples of the size of their elements.
    bool push(Arguments &arguments, size_t index, PyObject *buffer) const override;
    bool launch(Arguments &arguments, References &results) override;
    int traverse(visitproc visit, void *arg) const override;
    void clear() override;

  private:
    using Function = void (*)(void **);
    using Workspace = std::unique_ptr<char[]>;

    nb::object empty_; // `numpy.empty`
    Function function_;
    size_t workspace_;
    nb::object owner_; // keeps the code alive
    std::vector<Workspace> idle_;
};

} // namespace gnomon
