// Memory of IREE's arrays that is not cleared.

#pragma once

#include <cstddef>

namespace gnomon {

// Makes a loaded library get buffers of `least` bytes or more from malloc where it calls calloc.
//
// IREE allocates each buffer by calloc, which clears memory that was used before: a pass over the
// array in the calling thread, before the kernel that writes it starts. The first page is still
// cleared, because IREE's own description of a buffer precedes its contents in the same allocation.
//
// The library is the one that contains `address`. Returns whether it calls calloc through a slot
// that could be changed. This works only for ELF libraries; elsewhere nothing happens.
bool leave_memory_uncleared(const void *address, std::size_t least);

} // namespace gnomon
