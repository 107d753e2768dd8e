// Mistakes: the class that MPI gives them, and a text that names them.
#pragma once

#include <string>

#include "../text.hpp"
#include "mpi_header.hpp"

namespace skerry::mpi {

using compat::text;

// Keeps the text for this thread until the call ends; returns the class.
int fail_with(int error_class, std::string what);
template <class... Parts>
[[gnu::cold]] int fail(int error_class, const Parts&... parts) {
  return fail_with(error_class, text(parts...));
}

// Of a status of Skerry's: MPI_SUCCESS, or its class. SKERRY_ERR_INVALID becomes `if_invalid`.
[[gnu::cold]] int failed(int status, int if_invalid);
inline int settle(int status, int if_invalid = MPI_ERR_RMA_SYNC) {
  if (status == 0) [[likely]]
    return MPI_SUCCESS;
  return failed(status, if_invalid);
}

// Calls the window's error handler with a code of this class, whose string is the kept text, and
// names the window as `named` says. Returns the code, if the handler does.
[[gnu::cold]] int raise(MPI_Win win, const char* call, int error_class, const std::string& named);

}  // namespace skerry::mpi
