#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

int alloc(skerry_group* group, uint64_t bytes, skerry_segment** segment,
          job::Segment::Pages pages) {
  if (group == nullptr || segment == nullptr) return null_argument("group or segment");
  CHECK(check_live(group));
  job::Segment* made = nullptr;
  const Status status = job::Segment::alloc(*of(group), bytes, job::purpose_program, &made, pages);
  if (!status.ok()) return fail(status);
  *segment = to(made);
  return SKERRY_OK;
}

}  // namespace

extern "C" {

int skerry_segment_alloc(skerry_group* group, uint64_t bytes, skerry_segment** segment) try {
  return alloc(group, bytes, segment, job::Segment::Pages::reserved);
}
CAUGHT
int skerry_segment_alloc_sparse(skerry_group* group, uint64_t bytes, skerry_segment** segment) try {
  return alloc(group, bytes, segment, job::Segment::Pages::when_touched);
}
CAUGHT

int skerry_segment_free(skerry_segment* segment) try {
  if (segment == nullptr) return null_argument("segment");
  job::Job& job = of(segment)->job();
  if (!job.is_alive()) return forked();
  return done(job.objects().free(of(segment)));
}
CAUGHT

int skerry_segment_label(skerry_segment* segment, const char* name, const char* text) try {
  if (segment == nullptr || name == nullptr) return null_argument("segment or name");
  job::Segment& s = *of(segment);
  if (!s.is_alive()) return forked();
  if (s.is_freed()) return fail(error(Code::freed, "the segment was freed"));
  return done(s.job().labels().set(s.id(), name, text == nullptr ? "" : text));
}
CAUGHT

uint64_t skerry_segment_bytes(const skerry_segment* segment, int rank) {
  return of(segment)->is_freed() ? 0 : of(segment)->bytes_of(rank);
}

void* skerry_segment_local(const skerry_segment* segment) {
  return of(segment)->is_freed() ? nullptr : of(segment)->own();
}

void* skerry_segment_pointer(const skerry_segment* segment, int rank) {
  if (of(segment)->is_freed()) return nullptr;
  const memory::Region* region = of(segment)->local(rank);
  return region == nullptr ? nullptr : region->base;
}

uint64_t skerry_segment_address(const skerry_segment* segment, int rank) {
  return of(segment)->is_freed() ? 0 : of(segment)->address_of(rank);
}

skerry_group* skerry_segment_group(const skerry_segment* segment) {
  return of(segment)->is_freed() ? nullptr : to(&of(segment)->group());
}

int skerry_segment_find(skerry_job* job, int rank, uint64_t address, skerry_segment** segment,
                        uint64_t* offset) try {
  if (job == nullptr || segment == nullptr || offset == nullptr)
    return null_argument("job, segment or offset");
  job::Job* j = of(job);
  if (!j->is_alive()) return forked();
  job::Objects::Slice slice;
  if (!j->objects().find_address(rank, address, &slice))
    return fail(
        error(Code::range, "address ", address, " of rank ", rank, " lies in no live segment"));
  *segment = to(slice.segment);
  *offset = address - slice.address;
  return SKERRY_OK;
}
CAUGHT

int skerry_memory_hold(const void* address) try {
  if (memory::hold(address)) return SKERRY_OK;
  return fail(error(Code::invalid, "no segment's memory is mapped at address ",
                    reinterpret_cast<uint64_t>(address),
                    ": give what skerry_segment_local, skerry_segment_pointer or their like of "
                    "windows returned"));
}
CAUGHT

void skerry_memory_unhold(const void* address) { memory::unhold(address); }

}  // extern "C"
