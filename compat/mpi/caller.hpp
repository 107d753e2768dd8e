// The debug mode (SKERRY_CHECK): who in the program called MPI.
#pragma once

#include "window.hpp"

namespace skerry::mpi {

void name_caller();    // for messages about calls of this thread: the innermost frame outside MPI
void forget_caller();  // the next calls of this thread are of Skerry's own callers again

// Around one call on a window. Nothing outside the debug mode.
class Caller {
 public:
  explicit Caller(const Window& window) : is_checked_(window.is_checked) {
    if (is_checked_) [[unlikely]]
      name_caller();
  }
  ~Caller() {
    if (is_checked_) [[unlikely]]
      forget_caller();
  }
  Caller(const Caller&) = delete;

 private:
  const bool is_checked_;
};

// While it lives, accesses of this thread are the adapter's, not the program's: not checked.
class Unchecked {
 public:
  explicit Unchecked(const Window& window);
  ~Unchecked();
  Unchecked(const Unchecked&) = delete;

 private:
  const bool is_checked_;
};

}  // namespace skerry::mpi
