// A Vulkan loader for IREE that signals semaphores in order and sleeps in waits.
//
// IREE loads Vulkan's functions from a configurable library, and `backends/iree/vulkan_loader.py`
// configures this one. It changes how semaphores are signaled and waited for, and forwards all
// other functions to the system's loader.
//
// Signals: IREE 3.13 wakes the thread that completes a queue's work by raising a timeline
// semaphore. It takes the next value by an atomic addition and signals it in a second step, both
// in the thread that submits and in the threads that complete other queues' work. The later value
// may therefore be signaled first. Vulkan forbids signaling a value that is not greater than the
// current one (VUID-VkSemaphoreSignalInfo-value-03258), and Mesa reacts by losing the device with
// everything on it. A value that has been passed need not be signaled: its waiters have been woken,
// and work that was queued before the value was taken is visible to the waiters of a later value.
//
// Waits: the threads that complete work, two for each device, wait for the end of the next piece of
// work or for that semaphore, whichever comes first. Devices that run on the processor (Mesa's
// lavapipe) implement a wait for any of several semaphores by polling without a pause, which keeps
// two cores busy as long as the process lives. A wait for one semaphore sleeps. This loader
// therefore waits for the first semaphore with short timeouts, and polls the others in between.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>

#include <dlfcn.h>
#include <pthread.h>

#define GNOMON_EXPORT extern "C" __attribute__((visibility("default"), used))

namespace {

// Copies of declarations in Vulkan's headers, so that building this file does not need the headers.
// Handles have 64 bits on every platform.
using Result = std::int32_t;
constexpr Result success = 0;
constexpr Result timed_out = 2;
constexpr std::int32_t kind_processor = 4;
constexpr std::uint32_t wait_for_any = 1;
using Handle = std::uint64_t;

struct SignalInfo {
    std::int32_t type;
    const void *next;
    Handle semaphore;
    std::uint64_t value;
};

struct WaitInfo {
    std::int32_t type;
    const void *next;
    std::uint32_t flags;
    std::uint32_t count;
    const Handle *semaphores;
    const std::uint64_t *values;
};

struct Properties {
    std::uint32_t versions_and_identifiers[4];
    std::int32_t kind;
    char limits_and_more[2028]; // fewer than a thousand in Vulkan 1.4
};

using Function = void (*)();

struct Loader {
    Function (*of_instance)(void *instance, const char *name) = nullptr;
    Function (*of_device)(void *device, const char *name) = nullptr;
    Result (*create_device)(void *physical, const void *info, const void *allocator,
                            void **device) = nullptr;
    void (*get_properties)(void *physical, Properties *properties) = nullptr;
    Result (*get_value)(void *device, Handle semaphore, std::uint64_t *value) = nullptr;
    Result (*signal)(void *device, const SignalInfo *info) = nullptr;
    Result (*wait)(void *device, const WaitInfo *info, std::uint64_t timeout) = nullptr;
};

Loader loader;
std::mutex mutex;
// Never destroyed, because IREE's threads wait even after the end of the interpreter.
std::set<void *> &processors = *new std::set<void *>;

Result create_device(void *physical, const void *info, const void *allocator, void **device) {
    const Result result = loader.create_device(physical, info, allocator, device);
    if (result == success) {
        Properties properties;
        loader.get_properties(physical, &properties);
        const std::lock_guard<std::mutex> lock(mutex);
        // A device that no longer exists may have had the same handle.
        processors.erase(*device);
        if (properties.kind == kind_processor) {
            processors.insert(*device);
        }
    }
    return result;
}

Result signal_in_order(void *device, const SignalInfo *info) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::uint64_t value = 0;
    const Result result = loader.get_value(device, info->semaphore, &value);
    if (result != success) {
        return result;
    }
    return value >= info->value ? success : loader.signal(device, info);
}

bool polls(void *device, const WaitInfo *info) {
    if ((info->flags & wait_for_any) == 0 || info->count < 2) {
        return false;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    return processors.count(device) != 0;
}

Result wait_asleep(void *device, const WaitInfo *info, std::uint64_t timeout) {
    using Clock = std::chrono::steady_clock;
    using Nanoseconds = std::chrono::nanoseconds;
    // This does not delay programs of many small pieces; an idle process polls 500 times a second.
    constexpr Nanoseconds shortest(20'000), longest(2'000'000);
    constexpr Nanoseconds for_ever = std::chrono::hours(24 * 365);
    if (!polls(device, info)) {
        return loader.wait(device, info, timeout);
    }
    const auto limit = std::min<std::uint64_t>(timeout, for_ever.count());
    const auto end = Clock::now() + Nanoseconds(limit);
    const WaitInfo first{info->type, info->next, 0, 1, info->semaphores, info->values};
    for (Nanoseconds slice = shortest;; slice = std::min(2 * slice, longest)) {
        const Nanoseconds left = std::max<Nanoseconds>(end - Clock::now(), Nanoseconds(0));
        const Result result = loader.wait(device, &first, std::min(slice, left).count());
        if (result != timed_out) {
            return result;
        }
        for (std::uint32_t i = 1; i < info->count; ++i) {
            std::uint64_t value = 0;
            const Result asked = loader.get_value(device, info->semaphores[i], &value);
            if (asked != success || value >= info->values[i]) {
                return asked;
            }
        }
        if (left == Nanoseconds(0)) {
            return timed_out;
        }
    }
}

Function of_device(void *device, const char *name);

// Returns this loader's version of a function, or null.
Function ours(const char *name) {
    const struct {
        const char *name;
        Function function;
    } table[] = {
        {"vkCreateDevice", reinterpret_cast<Function>(create_device)},
        {"vkGetDeviceProcAddr", reinterpret_cast<Function>(of_device)},
        {"vkSignalSemaphore", reinterpret_cast<Function>(signal_in_order)},
        {"vkWaitSemaphores", reinterpret_cast<Function>(wait_asleep)},
    };
    for (const auto &entry : table) {
        if (std::strcmp(name, entry.name) == 0) {
            return entry.function;
        }
    }
    return nullptr;
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

// Loads the functions of the system's loader. Returns null, or an error message that is valid until
// the thread's next call of the dynamic linker.
GNOMON_EXPORT const char *gnomon_open_vulkan(const char *path) {
    if (loader.of_instance != nullptr) {
        return nullptr;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Loader found;
    if (library == nullptr || !find(library, "vkGetInstanceProcAddr", found.of_instance) ||
        !find(library, "vkGetDeviceProcAddr", found.of_device) ||
        !find(library, "vkCreateDevice", found.create_device) ||
        !find(library, "vkGetPhysicalDeviceProperties", found.get_properties) ||
        !find(library, "vkGetSemaphoreCounterValue", found.get_value) ||
        !find(library, "vkSignalSemaphore", found.signal) ||
        !find(library, "vkWaitSemaphores", found.wait)) {
        return dlerror();
    }
    // A forked child lacks the thread that may hold the lock at the moment of the fork.
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
    loader = found;
    return nullptr;
}
