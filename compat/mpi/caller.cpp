#include "caller.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <string_view>

namespace skerry::mpi {
namespace {

// Set by name_caller; a return address.
thread_local const void* called_from = nullptr;

// Libraries between the program and the adapter: ours, and those that an MPI library's interfaces
// for other languages consist of.
bool stands_between(const void* address) {
  static constexpr std::string_view beginnings[] = {
      "libskerry",   "libmpi.so",         "libmpich.so",  "libmpi_abi.so", "libmpi_mpifh.so",
      "libmpi_use",  "libmpi_cxx.so",     "libmpicxx.so", "libmpifort",    "libmpichfort",
      "libmpichcxx", "libmpi_ignore_tkr", "libmpichf90",
  };
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view base = path.substr(path.rfind('/') + 1);
  for (std::string_view beginning : beginnings)
    if (base.starts_with(beginning)) return true;
  return false;
}

}  // namespace

// By unwinding: the preloaded library's entry hands its arguments on, and a Fortran program calls
// through one or two more functions.
void name_caller() {
  std::array<void*, 16> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  called_from = nullptr;
  for (int k = 0; k < count && called_from == nullptr; ++k) {
    void* const frame = frames[static_cast<size_t>(k)];
    if (!stands_between(frame)) called_from = frame;
  }
  skerry_window_caller(called_from, 0);
}

void forget_caller() {
  called_from = nullptr;
  skerry_window_caller(nullptr, 0);
}

Unchecked::Unchecked(const Window& window) : is_checked_(window.is_checked) {
  if (is_checked_) skerry_window_caller(called_from, 1);
}
Unchecked::~Unchecked() {
  if (is_checked_) skerry_window_caller(called_from, 0);
}

}  // namespace skerry::mpi
