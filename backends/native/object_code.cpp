#include "object_code.h"

#include <new>
#include <stdexcept>

#if defined(__linux__) && defined(__x86_64__)

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace gnomon {
namespace {

[[noreturn]] void refuse(const std::string &why) {
    std::string message = "the object code cannot be loaded: " + why;
    for (char &c : message)
        if (c < ' ' || c > '~')
            c = '?';
    throw std::runtime_error(message);
}

constexpr size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

// The content of an object file; each read is checked.
class File {
  public:
    explicit File(std::string_view content) : content_(content) {
        header_ = read<Elf64_Ehdr>(0);
        if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
            header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
            header_.e_type != ET_REL || header_.e_shentsize != sizeof(Elf64_Shdr))
            refuse("it is no object file");
        if (header_.e_machine != EM_X86_64)
            refuse("it is for another processor");
        for (size_t i = 0; i < header_.e_shnum; ++i)
            sections.push_back(read<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
    }

    template <typename T> T read(uint64_t offset) const {
        T value;
        std::memcpy(&value, bytes(offset, sizeof(T)), sizeof(T));
        return value;
    }

    const char *bytes(uint64_t offset, uint64_t size) const {
        if (offset > content_.size() || size > content_.size() - offset)
            refuse("it is too short");
        return content_.data() + offset;
    }

    const Elf64_Shdr &section(size_t index) const {
        if (index >= sections.size())
            refuse("there is no such section");
        return sections[index];
    }

    std::string name(const Elf64_Shdr &strings, uint64_t offset) const {
        if (offset >= strings.sh_size)
            refuse("a name is missing");
        const char *start = bytes(strings.sh_offset + offset, strings.sh_size - offset);
        return {start, strnlen(start, strings.sh_size - offset)};
    }

    std::vector<Elf64_Shdr> sections;

  private:
    std::string_view content_;
    Elf64_Ehdr header_;
};

bool is_loaded(const Elf64_Shdr &section) { return section.sh_flags & SHF_ALLOC; }

uintptr_t in_process(const std::string &name) {
    void *found = dlsym(RTLD_DEFAULT, name.c_str());
    if (found == nullptr)
        refuse("this process has no " + name);
    return (uintptr_t) found;
}

} // namespace

bool ObjectCode::is_supported() { return true; }

ObjectCode::ObjectCode(std::string_view content) {
    File file(content);
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const Elf64_Shdr *table = nullptr;
    for (const Elf64_Shdr &section : file.sections)
        if (section.sh_type == SHT_SYMTAB)
            table = &section;
    if (table == nullptr)
        refuse("it has no symbols");
    const Elf64_Shdr &strings = file.section(table->sh_link);
    std::vector<Elf64_Sym> entries;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym))
        entries.push_back(file.read<Elf64_Sym>(table->sh_offset + at));

    // What is not written comes first.
    std::vector<size_t> offsets(file.sections.size());
    size_t end = 0, limit = 0;
    for (bool written : {false, true}) {
        for (size_t i = 0; i < file.sections.size(); ++i) {
            const Elf64_Shdr &section = file.sections[i];
            if (!is_loaded(section) || bool(section.sh_flags & SHF_WRITE) != written)
                continue;
            if (section.sh_flags & SHF_TLS)
                refuse("it has variables of threads");
            size_t alignment = section.sh_addralign > 1 ? section.sh_addralign : 1;
            if (alignment > page || section.sh_size > (size_t(1) << 40))
                refuse("a section is too large");
            offsets[i] = end = round_up(end, alignment);
            end += section.sh_size;
        }
        end = round_up(end, page);
        if (!written)
            limit = end;
    }
    if (limit == 0)
        refuse("it has no code");
    size_ = end;
    void *memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    memory_ = (char *) memory;
    try {
        for (size_t i = 0; i < file.sections.size(); ++i) {
            const Elf64_Shdr &section = file.sections[i];
            if (is_loaded(section) && section.sh_type != SHT_NOBITS)
                std::memcpy(memory_ + offsets[i], file.bytes(section.sh_offset, section.sh_size),
                            section.sh_size);
        }
        std::vector<uintptr_t> values(entries.size());
        for (size_t i = 1; i < entries.size(); ++i) {
            const Elf64_Sym &entry = entries[i];
            const std::string name = file.name(strings, entry.st_name);
            if (entry.st_shndx == SHN_UNDEF) {
                values[i] = in_process(name);
            } else if (entry.st_shndx == SHN_ABS) {
                values[i] = entry.st_value;
            } else {
                const Elf64_Shdr &section = file.section(entry.st_shndx);
                if (!is_loaded(section))
                    continue;
                if (entry.st_value > section.sh_size)
                    refuse("a symbol is outside of its section");
                values[i] = (uintptr_t) memory_ + offsets[entry.st_shndx] + entry.st_value;
                if (ELF64_ST_BIND(entry.st_info) != STB_LOCAL)
                    symbols_[name] = values[i];
            }
        }
        for (const Elf64_Shdr &section : file.sections) {
            if (section.sh_type == SHT_REL)
                refuse("relocations without addends");
            if (section.sh_type != SHT_RELA || !is_loaded(file.section(section.sh_info)))
                continue;
            const Elf64_Shdr &target = file.section(section.sh_info);
            for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size;
                 at += sizeof(Elf64_Rela)) {
                const Elf64_Rela rela = file.read<Elf64_Rela>(section.sh_offset + at);
                const uint32_t type = ELF64_R_TYPE(rela.r_info);
                const size_t index = ELF64_R_SYM(rela.r_info);
                if (target.sh_type == SHT_NOBITS)
                    refuse("a relocation of zeros");
                // LLVM's code for programs in this process may be anywhere: addresses and distances
                // have 64 bits.
                if (type != R_X86_64_64 && type != R_X86_64_PC64)
                    refuse("unknown relocation " + std::to_string(type));
                if (index >= entries.size() || target.sh_size < 8 ||
                    rela.r_offset > target.sh_size - 8)
                    refuse("a relocation is outside of its section");
                uintptr_t value = values[index] + (uintptr_t) rela.r_addend;
                char *place = memory_ + offsets[section.sh_info] + rela.r_offset;
                if (type == R_X86_64_PC64)
                    value -= (uintptr_t) place;
                std::memcpy(place, &value, 8);
            }
        }
        if (mprotect(memory_, limit, PROT_READ | PROT_EXEC) != 0)
            refuse("the system allows no code that is made while a program runs");
    } catch (...) {
        munmap(memory_, size_);
        throw;
    }
}

ObjectCode::~ObjectCode() { munmap(memory_, size_); }

} // namespace gnomon

#else

namespace gnomon {

bool ObjectCode::is_supported() { return false; }

ObjectCode::ObjectCode(std::string_view) {
    throw std::runtime_error("object code cannot be loaded on this system");
}

ObjectCode::~ObjectCode() = default;

} // namespace gnomon

#endif

namespace gnomon {

uintptr_t ObjectCode::symbol(const std::string &name) const { return symbols_.at(name); }

} // namespace gnomon
