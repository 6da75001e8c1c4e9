#include "uncleared_memory.h"

#if defined(__linux__) && defined(__LP64__)

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gnomon {

namespace {

constexpr std::size_t cleared_bytes = 4096;
std::size_t least_uncleared = std::numeric_limits<std::size_t>::max();

void *allocate(std::size_t count, std::size_t size) {
    // A buffer is requested as one element; tables, which must start as zeros, as many elements.
    if (count != 1 || size < least_uncleared)
        return std::calloc(count, size);
    void *memory = std::malloc(size);
    if (memory != nullptr)
        std::memset(memory, 0, std::min(size, cleared_bytes));
    return memory;
}

// The parts of a library that this code reads, see "Dynamic Section" in the ELF specification.
struct Library {
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    // Relocations of functions, and all others.
    const ElfW(Rela) * relocations[2] = {nullptr, nullptr};
    std::size_t bytes[2] = {0, 0};

    Library(ElfW(Addr) base, const ElfW(Dyn) * entry) {
        for (; entry->d_tag != DT_NULL; ++entry) {
            // Some loaders leave offsets in this table, others replace them by addresses.
            const ElfW(Addr) value = entry->d_un.d_ptr;
            const ElfW(Addr) address = value < base ? base + value : value;
            switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols = reinterpret_cast<const ElfW(Sym) *>(address);
                break;
            case DT_STRTAB:
                names = reinterpret_cast<const char *>(address);
                break;
            case DT_JMPREL:
                relocations[0] = reinterpret_cast<const ElfW(Rela) *>(address);
                break;
            case DT_PLTRELSZ:
                bytes[0] = entry->d_un.d_val;
                break;
            case DT_RELA:
                relocations[1] = reinterpret_cast<const ElfW(Rela) *>(address);
                break;
            case DT_RELASZ:
                bytes[1] = entry->d_un.d_val;
                break;
            }
        }
    }

    // Calls `visit` with the offset of each slot that holds the address of the function.
    template <typename Visit> void slots_of(const char *function, Visit visit) const {
        if (symbols == nullptr || names == nullptr)
            return;
        for (int table = 0; table < 2; ++table) {
            if (relocations[table] == nullptr)
                continue;
            const std::size_t count = bytes[table] / sizeof(ElfW(Rela));
            for (std::size_t i = 0; i < count; ++i) {
                const ElfW(Rela) &relocation = relocations[table][i];
                const auto symbol = ELF64_R_SYM(relocation.r_info);
                if (symbol != 0 && std::strcmp(names + symbols[symbol].st_name, function) == 0)
                    visit(relocation.r_offset);
            }
        }
    }
};

// The loader makes slots read-only once it has filled them.
bool write_slot(void **slot, void *value, bool read_only) {
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    void *page =
        reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes - 1));
    if (read_only && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (read_only)
        mprotect(page, page_bytes, PROT_READ);
    return true;
}

struct Request {
    ElfW(Addr) address;
    bool done = false;
};

int visit_library(dl_phdr_info *info, std::size_t, void *data) {
    auto &request = *static_cast<Request *>(data);
    const ElfW(Dyn) *dynamic = nullptr;
    const ElfW(Phdr) *fixed = nullptr;
    bool contains = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = info->dlpi_phdr[i];
        const ElfW(Addr) offset = request.address - info->dlpi_addr - header.p_vaddr;
        if (header.p_type == PT_LOAD && offset < header.p_memsz)
            contains = true;
        else if (header.p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr + header.p_vaddr);
        else if (header.p_type == PT_GNU_RELRO)
            fixed = &header;
    }
    if (!contains)
        return 0;
    if (dynamic != nullptr) {
        Library(info->dlpi_addr, dynamic).slots_of("calloc", [&](ElfW(Addr) offset) {
            const bool read_only = fixed != nullptr && offset - fixed->p_vaddr < fixed->p_memsz;
            request.done |= write_slot(reinterpret_cast<void **>(info->dlpi_addr + offset),
                                       reinterpret_cast<void *>(allocate), read_only);
        });
    }
    return 1;
}

} // namespace

bool leave_memory_uncleared(const void *address, std::size_t least) {
    least_uncleared = least;
    Request request{reinterpret_cast<ElfW(Addr)>(address)};
    dl_iterate_phdr(visit_library, &request);
    return request.done;
}

} // namespace gnomon

#else

namespace gnomon {

bool leave_memory_uncleared(const void *, std::size_t) { return false; }

} // namespace gnomon

#endif
