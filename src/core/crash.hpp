// What a rank does when it dies of a signal, if SKERRY_BACKTRACE or SKERRY_FREEZE ask for it.
#pragma once

#include <cstdint>

namespace skerry {

struct CrashActions {
  bool backtrace = false;  // to standard error
  bool freeze = false;     // then wait for a debugger, for ever
};

// For the whole process, once; later calls change the rank that is named. Signals that the program
// handles itself are left to it.
void watch_crashes(int32_t rank, const CrashActions& actions);
// Does the same for an end that is no signal. Returns, unless it freezes.
void report_crash(const char* why);

}  // namespace skerry
