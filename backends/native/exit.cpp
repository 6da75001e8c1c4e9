#include "exit.h"

#include <Python.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#ifdef _WIN32
#include <process.h>
#define getpid _getpid
#else
#include <unistd.h>
#endif

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

// Folders, each with the process that removes it. Never destroyed, because the interpreter may end
// after the destructors of static objects have run.
auto &folders = *new std::vector<std::pair<int, std::filesystem::path>>;

void remove_folders() {
    for (const auto &[process, folder] : folders) {
        std::error_code ignored;
        if (process == getpid())
            std::filesystem::remove_all(folder, ignored);
    }
}

} // namespace

void stop_threads_instead_of_terminating() {
    main_thread = std::this_thread::get_id();
    if (previous == nullptr)
        previous = std::set_terminate(stop);
}

void remove_folder_at_exit(const std::string &folder) {
    if (folders.empty() && Py_AtExit(remove_folders) < 0)
        throw std::runtime_error("the interpreter accepts no more functions to call at exit");
    folders.emplace_back(getpid(), folder);
}

} // namespace gnomon
