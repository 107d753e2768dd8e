#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

int check_mutexes(skerry_mutexes* mutexes) {
  if (mutexes == nullptr) return null_argument("mutexes");
  if (of(mutexes) == nullptr) return fail(error(Code::freed, "the mutexes were freed"));
  if (!of(mutexes)->segment().job().is_alive()) return forked();
  return SKERRY_OK;
}

[[gnu::noinline]] int lock_anywhere(skerry_mutexes* mutexes, int rank, uint32_t index) try {
  CHECK(check_mutexes(mutexes));
  return done(of(mutexes)->lock(rank, index));
}
CAUGHT

[[gnu::noinline]] int unlock_anywhere(skerry_mutexes* mutexes, int rank, uint32_t index) try {
  CHECK(check_mutexes(mutexes));
  return done(of(mutexes)->unlock(rank, index));
}
CAUGHT

int check_root(skerry_group* group, int rank) {
  if (of(group)->index_of(rank) >= 0) return SKERRY_OK;
  return fail(error(Code::invalid, "root ", rank, " is not a member of the group"));
}

int check_typed(int type, int reduction, const void* buffer, uint64_t count) {
  if (Status status = check_type(type); !status.ok()) return fail(status);
  if (Status status = job::check_reduction(static_cast<ElementType>(type), reduction); !status.ok())
    return fail(status);
  if (buffer == nullptr && count > 0) return null_argument("buffer");
  if (count > (uint64_t{1} << 58))
    return fail(error(Code::invalid, count, " elements: at most 2^58"));
  return SKERRY_OK;
}

int begin(skerry_group* group, skerry_handle* handle, job::Background::What what) {
  if (handle == nullptr) return null_argument("handle");
  return done(of(group)->job().background().begin(*of(group), std::move(what), handle));
}

// Some elements fit into what a group uses where it finds no memory for more.
constexpr uint64_t most_element_bytes = 1024;

}  // namespace

extern "C" {

skerry_group* skerry_world(skerry_job* job) { return to(&of(job)->world()); }

int skerry_group_split(skerry_group* parent, int color, int key, skerry_group** group) try {
  CHECK(check_live(parent));
  if (group == nullptr) return null_argument("group");
  job::Group* made = nullptr;
  const Status status = job::Group::split(*of(parent), color, key, &made);
  if (!status.ok()) return fail(status);
  *group = to(made);
  return SKERRY_OK;
}
CAUGHT

int skerry_group_create(skerry_job* job, const int* ranks, const skerry_exchange* exchange,
                        skerry_group** group) try {
  if (job == nullptr || ranks == nullptr || exchange == nullptr || group == nullptr)
    return null_argument("job, ranks, exchange or group");
  if (!of(job)->is_alive()) return forked();
  job::Exchange read;
  if (Status status = read_exchange(*exchange, &read); !status.ok()) return fail(status);
  job::Group* made = nullptr;
  const Status status = job::Group::create(*of(job), {ranks, static_cast<size_t>(read.count)}, read,
                                           &made);
  if (!status.ok()) return fail(status);
  *group = to(made);
  return SKERRY_OK;
}
CAUGHT

int skerry_group_shrink(skerry_group* group, int64_t timeout_ns, skerry_group** shrunk) try {
  CHECK(check_live(group));
  if (shrunk == nullptr) return null_argument("shrunk");
  job::Group* made = nullptr;
  const Status status = of(group)->survivors_.shrink(timeout_ns, &made);
  if (!status.ok()) return fail(status);
  *shrunk = to(made);
  return SKERRY_OK;
}
CAUGHT

int skerry_group_refill(skerry_group* group, int64_t timeout_ns, skerry_group** full) try {
  CHECK(check_live(group));
  if (full == nullptr) return null_argument("full");
  job::Group* made = nullptr;
  const Status status = of(group)->survivors_.refill(timeout_ns, &made);
  if (!status.ok()) return fail(status);
  *full = to(made);
  return SKERRY_OK;
}
CAUGHT

int skerry_group_free(skerry_group* group) try {
  CHECK(check_live(group));
  job::Group* const freed = of(group);
  const Status status = freed->free();
  freed->job().objects().discard_if_unused(freed);
  return done(status);
}
CAUGHT

int skerry_group_spares(const skerry_group* group) { return of(group)->survivors_.spares(); }
int skerry_group_size(const skerry_group* group) { return of(group)->size(); }

int skerry_group_index(const skerry_group* group, int rank) try {
  const int index = of(group)->index_of(rank);
  return index < 0 ? fail(error(Code::invalid, "rank ", rank, " is not a member of the group"))
                   : index;
}
CAUGHT

int skerry_group_rank(const skerry_group* group, int index) try {
  const Rank rank = of(group)->rank_of(index);
  return rank == no_rank
             ? fail(error(Code::invalid, "position ", index, " in a group of ", of(group)->size()))
             : rank;
}
CAUGHT

int skerry_sync(skerry_group* group) try {
  CHECK(check_live(group));
  return done(of(group)->sync());
}
CAUGHT

int skerry_barrier(skerry_group* group) try {
  CHECK(check_live(group));
  return done(of(group)->barrier());
}
CAUGHT

int skerry_broadcast(skerry_group* group, void* buffer, uint64_t bytes, int root_rank) try {
  CHECK(check_live(group));
  if (buffer == nullptr && bytes > 0) return null_argument("buffer");
  CHECK(check_root(group, root_rank));
  return done(of(group)->broadcast(buffer, bytes, root_rank));
}
CAUGHT

int skerry_reduce(skerry_group* group, int type, int reduction, void* buffer, uint64_t count,
                  int root_rank) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, buffer, count));
  CHECK(check_root(group, root_rank));
  return done(of(group)->reduce(static_cast<ElementType>(type), static_cast<Operation>(reduction),
                                buffer, count, root_rank));
}
CAUGHT

int skerry_allreduce(skerry_group* group, int type, int reduction, void* buffer,
                     uint64_t count) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, buffer, count));
  return done(of(group)->reduce(static_cast<ElementType>(type), static_cast<Operation>(reduction),
                                buffer, count, no_rank));
}
CAUGHT

int skerry_allgather(skerry_group* group, const void* in, uint64_t bytes, void* out) try {
  CHECK(check_live(group));
  if ((in == nullptr || out == nullptr) && bytes > 0) return null_argument("in or out");
  return done(of(group)->allgather(in, bytes, out));
}
CAUGHT

int skerry_allreduce_by(skerry_group* group, uint64_t element_bytes, skerry_combine combine,
                        void* context, void* buffer, uint64_t count) try {
  CHECK(check_live(group));
  if (combine == nullptr || (buffer == nullptr && count > 0))
    return null_argument("combine or buffer");
  if (element_bytes == 0 || element_bytes > most_element_bytes)
    return fail(error(Code::invalid, "elements of ", element_bytes, " bytes: 1 to ",
                      most_element_bytes, " bytes"));
  if (count > (uint64_t{1} << 48))
    return fail(error(Code::invalid, count, " elements: at most 2^48"));
  struct Call {
    skerry_combine function;
    void* context;
    uint64_t element_bytes;
  } call{combine, context, element_bytes};
  const auto each = [](void* given, std::byte* into, const std::byte* from, uint64_t bytes) {
    const Call& called = *static_cast<const Call*>(given);
    called.function(called.context, into, from, bytes / called.element_bytes);
  };
  return done(of(group)->reduce(job::Reduction(element_bytes, each, &call), bytes_at(buffer),
                                count * element_bytes, no_rank));
}
CAUGHT

int skerry_reduce_scatter(skerry_group* group, int type, int reduction, const void* in, void* out,
                          uint64_t count) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, in, count));
  CHECK(check_typed(type, reduction, out, count));
  return done(of(group)->reduce_scatter(static_cast<ElementType>(type),
                                        static_cast<Operation>(reduction), bytes_at(in),
                                        bytes_at(out), count));
}
CAUGHT

int skerry_scan(skerry_group* group, int type, int reduction, void* buffer, uint64_t count) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, buffer, count));
  return done(of(group)->scan(static_cast<ElementType>(type), static_cast<Operation>(reduction),
                              bytes_at(buffer), count, true));
}
CAUGHT

int skerry_exscan(skerry_group* group, int type, int reduction, void* buffer, uint64_t count) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, buffer, count));
  return done(of(group)->scan(static_cast<ElementType>(type), static_cast<Operation>(reduction),
                              bytes_at(buffer), count, false));
}
CAUGHT

int skerry_alltoall(skerry_group* group, const void* in, uint64_t bytes, void* out) try {
  CHECK(check_live(group));
  if ((in == nullptr || out == nullptr) && bytes > 0) return null_argument("in or out");
  const job::Group::Parts parts{bytes, nullptr, nullptr};
  return done(of(group)->exchange(parts, bytes_at(in), parts, bytes_at(out)));
}
CAUGHT

int skerry_alltoallv(skerry_group* group, const void* in, const uint64_t* in_bytes,
                     const uint64_t* in_offsets, void* out, const uint64_t* out_bytes,
                     const uint64_t* out_offsets) try {
  CHECK(check_live(group));
  if (in_bytes == nullptr || in_offsets == nullptr || out_bytes == nullptr ||
      out_offsets == nullptr)
    return null_argument("in_bytes, in_offsets, out_bytes or out_offsets");
  return done(of(group)->exchange({0, in_bytes, in_offsets}, bytes_at(in),
                                  {0, out_bytes, out_offsets}, bytes_at(out)));
}
CAUGHT

int skerry_barrier_nb(skerry_group* group, skerry_handle* handle) try {
  CHECK(check_live(group));
  return begin(group, handle, [](job::Group& twin) { return twin.barrier(); });
}
CAUGHT

int skerry_broadcast_nb(skerry_group* group, void* buffer, uint64_t bytes, int root_rank,
                        skerry_handle* handle) try {
  CHECK(check_live(group));
  if (buffer == nullptr && bytes > 0) return null_argument("buffer");
  CHECK(check_root(group, root_rank));
  return begin(group, handle,
               [=](job::Group& twin) { return twin.broadcast(buffer, bytes, root_rank); });
}
CAUGHT

int skerry_allreduce_nb(skerry_group* group, int type, int reduction, void* buffer, uint64_t count,
                        skerry_handle* handle) try {
  CHECK(check_live(group));
  CHECK(check_typed(type, reduction, buffer, count));
  return begin(group, handle, [=](job::Group& twin) {
    return twin.reduce(static_cast<ElementType>(type), static_cast<Operation>(reduction), buffer,
                       count, no_rank);
  });
}
CAUGHT

int skerry_mutexes_create(skerry_group* group, uint32_t count, skerry_mutexes** mutexes) try {
  CHECK(check_live(group));
  if (mutexes == nullptr) return null_argument("mutexes");
  job::Mutexes* made = nullptr;
  const Status status = job::Mutexes::create(*of(group), count, &made);
  if (!status.ok()) return fail(status);
  *mutexes = to(made);
  return SKERRY_OK;
}
CAUGHT

int skerry_mutexes_free(skerry_mutexes* mutexes) try {
  CHECK(check_mutexes(mutexes));
  job::Mutexes* const freed = of(mutexes);
  job::Segment* const segment = &freed->segment();
  job::Job& job = segment->job();
  const Status status = freed->free();
  if (segment->is_freed()) {
    job::Group* const group = &segment->group();
    job.objects().discard(freed);
    job.objects().discard(segment);
    job.objects().discard_if_unused(group);
  }
  return done(status);
}
CAUGHT

int skerry_mutex_lock(skerry_mutexes* mutexes, int rank, uint32_t index) {
  job::Mutexes* const here = mutexes == nullptr ? nullptr : of(mutexes);
  if (here != nullptr && here->lock_here(rank, index)) [[likely]]
    return SKERRY_OK;
  return lock_anywhere(mutexes, rank, index);
}

int skerry_mutex_unlock(skerry_mutexes* mutexes, int rank, uint32_t index) {
  job::Mutexes* const here = mutexes == nullptr ? nullptr : of(mutexes);
  if (here != nullptr && here->unlock_here(rank, index)) [[likely]]
    return SKERRY_OK;
  return unlock_anywhere(mutexes, rank, index);
}

}  // extern "C"
