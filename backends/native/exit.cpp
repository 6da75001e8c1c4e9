#include "exit.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

namespace gnomon {
namespace {

std::thread::id main_thread;
std::terminate_handler previous = nullptr;

[[noreturn]] void stop() {
    if (std::this_thread::get_id() != main_thread) {
        // The end of the process does not wait for this thread.
        for (;;)
            std::this_thread::sleep_for(std::chrono::hours(1));
    }
    previous();
    std::abort();
}

} // namespace

void stop_threads_instead_of_terminating() {
    main_thread = std::this_thread::get_id();
    if (previous == nullptr)
        previous = std::set_terminate(stop);
}

} // namespace gnomon
