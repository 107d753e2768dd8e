#include "errors.hpp"

#include <skerry/skerry.h>

#include <map>
#include <mutex>

#include "library.hpp"

namespace skerry::mpi {
namespace {

// Like errno: the one state of a call that is looked at after it.
thread_local std::string last_text;

bool set_string(int code, const std::string& what) {
  std::string shown = what.substr(0, MPI_MAX_ERROR_STRING - 1);
  return real().Add_error_string(code, shown.data()) == MPI_SUCCESS;
}

// MPICH 4.0 takes strings for codes of a predefined class and answers with something else.
bool keeps_strings(int code) {
  char shown[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  return set_string(code, "skerry") && real().Error_string(code, shown, &length) == MPI_SUCCESS &&
         std::string(shown) == "skerry";
}

// One code for each class, made when first needed; its string changes with every mistake. The class
// itself where the library can keep no string.
int code_of(int error_class, const std::string& what) {
  static std::mutex mutex;
  static std::map<int, int>* const codes = new std::map<int, int>;
  const std::lock_guard guard(mutex);
  auto [at, is_new] = codes->try_emplace(error_class, error_class);
  int made = 0;
  if (is_new && real().Add_error_code(error_class, &made) == MPI_SUCCESS && keeps_strings(made))
    at->second = made;
  if (at->second != error_class) set_string(at->second, what);
  return at->second;
}

bool is_fatal(MPI_Win win) {
  MPI_Errhandler handler;
  if (real().Win_get_errhandler(win, &handler) != MPI_SUCCESS) return false;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  real().Errhandler_free(&handler);
  return fatal;
}

}  // namespace

int fail_with(int error_class, std::string what) {
  last_text = std::move(what);
  return error_class;
}

int failed(int status, int if_invalid) {
  const std::string what = skerry_last_error();
  switch (static_cast<skerry_status>(status)) {
    case SKERRY_OK: return MPI_SUCCESS;
    case SKERRY_ERR_INVALID: return fail(if_invalid, what);
    case SKERRY_ERR_CONFLICT: return fail(MPI_ERR_RMA_CONFLICT, what);
    case SKERRY_ERR_OWNER_DIED: break;  // no MPI job goes on without its dead
    case SKERRY_ERR_RANGE: return fail(MPI_ERR_RMA_RANGE, what);
    case SKERRY_ERR_NO_MEMORY: return fail(MPI_ERR_NO_MEM, what);
    case SKERRY_ERR_FREED: return fail(MPI_ERR_WIN, what);
    case SKERRY_ERR_PEER_DEAD:
    case SKERRY_ERR_TIMEOUT:
    case SKERRY_ERR_NETWORK:
    case SKERRY_ERR_CONFIG:
    case SKERRY_ERR_UNSUPPORTED:
    case SKERRY_ERR_FORKED:
    case SKERRY_ERR_THREAD:
    case SKERRY_ERR_INTERNAL: break;
  }
  return fail(MPI_ERR_OTHER, skerry_status_name(status), ": ", what);
}

int raise(MPI_Win win, const char* call, int error_class, const std::string& named) {
  const std::string what = text(call, ": ", last_text, " (", named, ")");
  // The library ends the job then, and some print no more than the class.
  if (is_fatal(win)) std::fprintf(stderr, "skerry: %s\n", what.c_str());
  const int code = code_of(error_class, what);
  real().Win_call_errhandler(win, code);
  return code;
}

}  // namespace skerry::mpi
