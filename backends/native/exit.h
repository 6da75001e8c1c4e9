// The end of the process.

#pragma once

#include <string>

namespace gnomon {

// From now on, threads other than the calling one stop where C++ would end the process.
//
// When the interpreter ends, CPython before 3.14 ends each thread that asks for its lock, by
// unwinding its stack. A thread that returns from a call of IREE asks for the lock in a destructor,
// which must not be unwound, so C++ would abort the process. This happens if an interrupted call
// returns at that moment.
void stop_threads_instead_of_terminating();

// Removes a folder with its contents after all of Python's exit handlers have run: handlers that
// were registered before ours run after ours, and may need the folder. A forked child does not
// remove it.
void remove_folder_at_exit(const std::string &folder);

} // namespace gnomon
