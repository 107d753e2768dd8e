// SKERRY_ASSERT: an invariant of our own code. On in every build: a corrupted session is worse than
// a stopped job.
#pragma once

#include <cstdio>
#include <cstdlib>

#define SKERRY_ASSERT(condition, why)                                                        \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "skerry: broken invariant at %s:%d: %s (%s); please report it\n", \
                   __FILE__, __LINE__, #condition, why);                                     \
      std::abort();                                                                          \
    }                                                                                        \
  } while (0)

// SKERRY_INVARIANT: the same in debug and sanitizer builds alone, for what is checked where state
// changes. In release builds it is compiled and never run.
#ifdef NDEBUG
#define SKERRY_INVARIANT(condition, why) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define SKERRY_INVARIANT(condition, why) SKERRY_ASSERT(condition, why)
#endif
