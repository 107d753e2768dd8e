// Errors of a process or system that has no room for another descriptor or socket. They pass when
// something else is closed. A caller that meets one waits for that before it asks again.
#pragma once

#include <cerrno>

namespace skerry {

constexpr bool is_shortage(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

}  // namespace skerry
