// What the opaque handles of skerry.h are, and how a Status becomes a skerry_status. Nothing else.
#pragma once

#include <skerry/skerry.h>
#include <skerry/window.h>

#include <cxxabi.h>

#include <memory>
#include <string>

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/mutexes.hpp"
#include "job/protected.hpp"
#include "job/segment.hpp"
#include "window/window.hpp"

// A job's handle is its address. The others name objects on the job's shelves: a handle of a freed
// object leads to what stands for all of them, and for mutexes and protected memory to null.
namespace skerry::capi {

inline job::Job* of(skerry_job* handle) { return reinterpret_cast<job::Job*>(handle); }
inline const job::Job* of(const skerry_job* handle) {
  return reinterpret_cast<const job::Job*>(handle);
}
inline job::Group* of(const skerry_group* handle) {
  return job::Shelf<job::Group>::object_of(handle);
}
inline job::Segment* of(const skerry_segment* handle) {
  return job::Shelf<job::Segment>::object_of(handle);
}
inline job::Mutexes* of(const skerry_mutexes* handle) {
  return job::Shelf<job::Mutexes>::object_of(handle);
}
inline job::Protected* of(const skerry_protected* handle) {
  return job::Shelf<job::Protected>::object_of(handle);
}

using WindowShelf = job::Shelf<std::unique_ptr<window::Window>>;
inline window::Window& of(const skerry_window* handle) { return **WindowShelf::object_of(handle); }

inline skerry_job* to(job::Job* object) { return reinterpret_cast<skerry_job*>(object); }
inline skerry_group* to(const job::Group* object) {
  return static_cast<skerry_group*>(job::Shelf<job::Group>::handle_of(object));
}
inline skerry_segment* to(const job::Segment* object) {
  return static_cast<skerry_segment*>(job::Shelf<job::Segment>::handle_of(object));
}
inline skerry_mutexes* to(const job::Mutexes* object) {
  return static_cast<skerry_mutexes*>(job::Shelf<job::Mutexes>::handle_of(object));
}
inline skerry_protected* to(const job::Protected* object) {
  return static_cast<skerry_protected*>(job::Shelf<job::Protected>::handle_of(object));
}

// A struct of a newer caller may be larger than the one known here; what is beyond `known` bytes
// must be zero. Errors: unsupported (a field is used that this library does not know).
Status check_unknown(const void* given, size_t known, size_t size, const char* what);

// A caller's exchange, for as long as its functions live. Errors: invalid (a size or position that
// cannot be, no allgather).
Status read_exchange(const skerry_exchange& given, job::Exchange* exchange);

// Collective, at the end of the job: rank 0 prints the counters of all ranks. An error ends the
// report, not the job.
void report_counters(skerry_job* job);

// Errors: invalid.
Status check_type(int type);

// Keeps the message for skerry_last_error of this thread.
int fail(const Status& status);
inline int done(const Status& status) { return status.ok() ? SKERRY_OK : fail(status); }
int null_argument(const char* what);
int forked();

// Of the exception that is being handled: a status, with its text. Programs in C and Fortran know
// no exceptions: none leaves a function of the interface, whatever ran out. The call failed on this
// rank alone, also a collective one.
int caught() noexcept;

// Ends the body of a function of the interface: `int f() try { ... } CAUGHT`. A thread that is
// cancelled is no failure: glibc unwinds its stack by an exception of its own.
#define CAUGHT                       \
  catch (abi::__forced_unwind&) {    \
    throw;                           \
  }                                  \
  catch (...) {                      \
    return ::skerry::capi::caught(); \
  }

}  // namespace skerry::capi
