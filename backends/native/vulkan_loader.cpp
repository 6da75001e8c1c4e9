// Vulkan's loader for IREE, with semaphores that are signaled in order.
//
// IREE 3.13 wakes the thread that completes a queue's work by raising a timeline semaphore. It
// takes the next value by an atomic addition and signals it in a second step, from the thread that
// submits and from those that complete other queues' work: the later value may be signaled first.
// Vulkan forbids to signal a value that is not above the current one
// (VUID-VkSemaphoreSignalInfo-value- 03258); Mesa answers by giving up the device, with everything
// on it.
//
// IREE takes Vulkan's functions from the library that it is told (`backends/iree/vulkan.py` tells
// it this one): all of them are the loader's, but the one that signals. A value that has been
// passed needs no signal: who waited for it has been woken, and what was queued before the value
// was taken is seen by whoever wakes up by a later one.

#include <cstdint>
#include <cstring>
#include <mutex>

#include <dlfcn.h>
#include <pthread.h>

#define GNOMON_EXPORT extern "C" __attribute__((visibility("default"), used))

namespace {

// Of Vulkan's headers, which are not needed to build this. Handles have 64 bits on every platform.
using Result = std::int32_t;
constexpr Result success = 0;
using Handle = std::uint64_t;

struct SignalInfo {
    std::int32_t type;
    const void *next;
    Handle semaphore;
    std::uint64_t value;
};

using Function = void (*)();
using GetFunction = Function (*)(void *owner, const char *name);
using GetValue = Result (*)(void *device, Handle semaphore, std::uint64_t *value);
using Signal = Result (*)(void *device, const SignalInfo *info);

struct Loader {
    GetFunction of_instance = nullptr;
    GetFunction of_device = nullptr;
    GetValue get_value = nullptr;
    Signal signal = nullptr;
};

Loader loader;
std::mutex one_at_a_time;

Result signal_in_order(void *device, const SignalInfo *info) {
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    std::uint64_t value = 0;
    const Result result = loader.get_value(device, info->semaphore, &value);
    if (result != success) {
        return result;
    }
    return value >= info->value ? success : loader.signal(device, info);
}

Function of_device(void *device, const char *name);

// Our own version of a function, or null.
Function ours(const char *name) {
    if (std::strcmp(name, "vkSignalSemaphore") == 0) {
        return reinterpret_cast<Function>(signal_in_order);
    }
    return std::strcmp(name, "vkGetDeviceProcAddr") == 0 ? reinterpret_cast<Function>(of_device)
                                                         : nullptr;
}

Function of_device(void *device, const char *name) {
    const Function own = ours(name);
    return own != nullptr ? own : loader.of_device(device, name);
}

template <typename T> bool find(void *library, const char *name, T &result) {
    result = reinterpret_cast<T>(dlsym(library, name));
    return result != nullptr;
}

} // namespace

GNOMON_EXPORT Function vkGetInstanceProcAddr(void *instance, const char *name) {
    const Function own = ours(name);
    return own != nullptr ? own : loader.of_instance(instance, name);
}

// Takes the functions of Vulkan's own loader. Returns null, or what is wrong, in words that live
// until the thread's next call of the dynamic linker.
GNOMON_EXPORT const char *gnomon_open_vulkan(const char *path) {
    if (loader.of_instance != nullptr) {
        return nullptr;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Loader found;
    if (library == nullptr || !find(library, "vkGetInstanceProcAddr", found.of_instance) ||
        !find(library, "vkGetDeviceProcAddr", found.of_device) ||
        !find(library, "vkGetSemaphoreCounterValue", found.get_value) ||
        !find(library, "vkSignalSemaphore", found.signal)) {
        return dlerror();
    }
    // A forked child has none of the threads that may hold the lock in this moment.
    pthread_atfork([] { one_at_a_time.lock(); }, [] { one_at_a_time.unlock(); },
                   [] { one_at_a_time.unlock(); });
    loader = found;
    return nullptr;
}
