// What the opaque handles of skerry.h are, and how a Status becomes a skerry_status. Nothing else.
#pragma once

#include <skerry/skerry.h>

#include <memory>
#include <string>

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/mutexes.hpp"
#include "job/segment.hpp"

// The handles are the objects: no table to look them up in, no allocation of their own.
namespace skerry::capi {

inline job::Job* of(skerry_job* handle) { return reinterpret_cast<job::Job*>(handle); }
inline const job::Job* of(const skerry_job* handle) {
  return reinterpret_cast<const job::Job*>(handle);
}
inline job::Group* of(skerry_group* handle) { return reinterpret_cast<job::Group*>(handle); }
inline const job::Group* of(const skerry_group* handle) {
  return reinterpret_cast<const job::Group*>(handle);
}
inline job::Segment* of(skerry_segment* handle) { return reinterpret_cast<job::Segment*>(handle); }
inline const job::Segment* of(const skerry_segment* handle) {
  return reinterpret_cast<const job::Segment*>(handle);
}
inline job::Mutexes* of(skerry_mutexes* handle) { return reinterpret_cast<job::Mutexes*>(handle); }

inline skerry_job* to(job::Job* object) { return reinterpret_cast<skerry_job*>(object); }
inline skerry_group* to(job::Group* object) { return reinterpret_cast<skerry_group*>(object); }
inline skerry_segment* to(job::Segment* object) {
  return reinterpret_cast<skerry_segment*>(object);
}
inline skerry_mutexes* to(job::Mutexes* object) {
  return reinterpret_cast<skerry_mutexes*>(object);
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

// Keeps the message for skerry_last_error of this thread.
int fail(const Status& status);
inline int done(const Status& status) { return status.ok() ? SKERRY_OK : fail(status); }
int null_argument(const char* what);
int forked();

}  // namespace skerry::capi
