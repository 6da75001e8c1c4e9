// Puts the object code of a compiled program into this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gnomon {

// Object code in the format ELF, for this machine's processor. Its memory is readable, and either
// executable or writable. Undefined symbols are those of the process, such as the C library's.
class ObjectCode {
  public:
    // Whether this system's format and processor are known.
    static bool is_supported();

    // Throws `std::runtime_error` if the content is damaged, for another processor, or has
    // something that this class does not know.
    explicit ObjectCode(std::string_view content);
    ObjectCode(const ObjectCode &) = delete;
    ~ObjectCode();

    // The address of a function or variable. Throws `std::out_of_range` if there is none.
    uintptr_t symbol(const std::string &name) const;
    size_t nbytes() const { return size_; }

  private:
    char *memory_ = nullptr;
    size_t size_ = 0;
    std::unordered_map<std::string, uintptr_t> symbols_;
};

} // namespace gnomon
