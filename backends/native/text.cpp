// The text that the compiler's library prints, piece by piece, without a Python call for each
// piece.
//
// MLIR prints through a callback that it calls for each token.
// `backends/iree/inside/compiler_ir.py` passes this one: a kernel has some three thousand tokens,
// which take 2 ms in Python.

#include "exported.h"

#include <cstddef>
#include <cstring>

// `MlirStringRef`.
struct Piece {
    const char *data;
    std::size_t length;
};

// `size` goes on counting where the memory ends, so that the caller knows how much is needed.
struct Text {
    char *data;
    std::size_t capacity, size;
};

extern "C" GNOMON_EXPORT void gnomon_append_text(Piece piece, void *target) {
    auto *text = static_cast<Text *>(target);
    if (piece.length <= text->capacity && text->size <= text->capacity - piece.length)
        std::memcpy(text->data + text->size, piece.data, piece.length);
    text->size += piece.length;
}
