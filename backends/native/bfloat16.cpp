// Conversions to bfloat16 that compiled kernels call by name.
//
// LLVM lowers some conversions to bfloat16 to calls of its runtime library (compiler-rt), which is
// not part of the system's C library. A kernel that reaches such a call would end the process
// ("undefined symbol: __truncsfbf2"). This file defines these functions;
// `backends/iree/driver.py` makes them visible to kernels.
//
// The platform returns a bfloat16 in the low bits of the first vector register. Not every compiler
// has the type, so the functions are declared to return `double`, which is returned in the same
// register (System V on x86-64, AAPCS64).

#include "exported.h"

#include <cstdint>
#include <cstring>

namespace {

template <typename To, typename From> To bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

constexpr std::uint32_t infinity_bits = 0x7f800000;

// Rounds to nearest, ties to even. A nan stays a nan, whichever bits are cut off.
std::uint16_t rounded(float value) {
    std::uint32_t word = bits<std::uint32_t>(value);
    if ((word & 0x7fffffff) > infinity_bits)
        return static_cast<std::uint16_t>((word >> 16) | 0x40);
    return static_cast<std::uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

// Returns a float that rounds to the same bfloat16 as the double. The float is truncated, with its
// last bit set if any bits were cut off ("round to odd"), so that the second rounding sees no false
// tie.
float to_odd(double value) {
    float nearest = static_cast<float>(value);
    double back = nearest;
    if (back == value || value != value)
        return nearest;
    std::uint32_t word = bits<std::uint32_t>(nearest);
    bool away = (value < 0 ? -back : back) > (value < 0 ? -value : value);
    if (away)
        --word; // Toward zero; the value below infinity is the largest number.
    return bits<float>(word | 1);
}

double in_register(std::uint16_t value) { return bits<double>(static_cast<std::uint64_t>(value)); }

} // namespace

extern "C" {
GNOMON_EXPORT double __truncsfbf2(float value) { return in_register(rounded(value)); }
GNOMON_EXPORT double __truncdfbf2(double value) { return in_register(rounded(to_odd(value))); }
}
