// The attribute of functions that compiled kernels call by name.

#pragma once

#if defined(__GNUC__)
#define GNOMON_EXPORT __attribute__((visibility("default"), used))
#else
#define GNOMON_EXPORT
#endif
