// Every wrong argument gives its status and a message that names the value; nothing is touched and
// the job goes on.
#include <sys/wait.h>
#include <unistd.h>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

void check_shapes(skerry_segment* s, int rank) {
  int64_t word = 42;
  double number = 42;
  const uint64_t bytes = skerry_segment_bytes(s, rank);
  skerry_strided shape{};
  shape.block_bytes = 8;
  shape.levels = 9;
  EXPECT_ERROR(skerry_put_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "shape.levels is 9");
  shape.levels = -1;
  EXPECT_ERROR(skerry_get_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "shape.levels is -1");
  shape.levels = 1;
  shape.reserved = 1;
  EXPECT_ERROR(skerry_put_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "shape.reserved is 1");
  shape.reserved = 0;
  shape.count[0] = 3;
  shape.target_stride[0] = -8;
  EXPECT_ERROR(skerry_get_strided(s, rank, 8, &word, &shape), SKERRY_ERR_RANGE,
               "strided transfer from offset 8 leaves the 4096 bytes");
  shape.target_stride[0] = INT64_MAX;
  EXPECT_ERROR(skerry_get_strided(s, rank, 8, &word, &shape), SKERRY_ERR_RANGE,
               "leaves the 4096 bytes");
  shape.target_stride[0] = INT64_MIN;
  EXPECT_ERROR(skerry_get_strided(s, rank, 8, &word, &shape), SKERRY_ERR_RANGE,
               "leaves the 4096 bytes");
  shape.target_stride[0] = 2048;
  EXPECT_ERROR(skerry_put_strided(s, rank, 0, &word, &shape), SKERRY_ERR_RANGE,
               "leaves the 4096 bytes");
  shape.count[0] = ~uint64_t{0};
  EXPECT_ERROR(skerry_put_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "count[0] is 18446744073709551615: times the 8 bytes");
  shape.count[0] = uint64_t{1} << 40;
  shape.count[1] = uint64_t{1} << 30;
  shape.levels = 2;
  EXPECT_ERROR(skerry_get_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "count[1] is 1073741824: times the 8796093022208 bytes of the levels below");
  shape.block_bytes = uint64_t{1} << 63;
  shape.count[0] = shape.count[1] = 1;
  EXPECT_ERROR(skerry_get_strided(s, rank, 0, &word, &shape), SKERRY_ERR_INVALID,
               "block_bytes is 9223372036854775808");
  shape.block_bytes = 8;
  shape.levels = 1;
  shape.count[0] = 2;
  // Bug guarded against: 2^64 - 8 was named.
  EXPECT_ERROR(skerry_get_strided(s, rank, static_cast<uint64_t>(-8), &word, &shape),
               SKERRY_ERR_RANGE, "strided transfer from offset -8 leaves");
  shape.target_stride[0] = 12;
  EXPECT_ERROR(skerry_acc_strided(s, rank, 0, SKERRY_DOUBLE, nullptr, &number, &shape),
               SKERRY_ERR_INVALID, "target_stride[0] is 12");
  shape.target_stride[0] = 16;
  shape.block_bytes = 12;
  EXPECT_ERROR(skerry_acc_strided(s, rank, 0, SKERRY_DOUBLE, nullptr, &number, &shape),
               SKERRY_ERR_INVALID, "12 bytes are not whole elements");
  skerry_piece pieces[2] = {{&word, 0, 8}, {&word, bytes - 1, 8}};
  EXPECT_ERROR(skerry_put_vector(s, rank, pieces, 2), SKERRY_ERR_RANGE, "4095");
  pieces[1] = {nullptr, 0, 8};
  EXPECT_ERROR(skerry_get_vector(s, rank, pieces, 2), SKERRY_ERR_INVALID,
               "origin of piece 1 is null");
  pieces[1] = {&number, 4, 8};
  EXPECT_ERROR(skerry_acc_vector(s, rank, SKERRY_DOUBLE, nullptr, pieces, 2), SKERRY_ERR_INVALID,
               "offset 4");
  EXPECT(word == 42 && number == 42);
}

void check_on(skerry_segment* s, int rank) {
  int64_t word = 42, result = 42;
  double number = 42;
  skerry_handle handle = 0;
  const uint64_t bytes = skerry_segment_bytes(s, rank);
  // Range.
  EXPECT_ERROR(skerry_put(s, rank, bytes - 7, &word, 8), SKERRY_ERR_RANGE,
               "lie outside the 4096 bytes");
  EXPECT_ERROR(skerry_get(s, rank, bytes, &word, 1), SKERRY_ERR_RANGE, "rank ");
  EXPECT_ERROR(skerry_get(s, rank, ~uint64_t{0}, &word, 8), SKERRY_ERR_RANGE, "bytes [-1, -1 + 8)");
  EXPECT_ERROR(skerry_put(s, rank, 8, &word, ~uint64_t{0}), SKERRY_ERR_RANGE,
               "18446744073709551615");
  EXPECT_ERROR(skerry_acc(s, rank, bytes - 8, SKERRY_DOUBLE, nullptr, &number, 2), SKERRY_ERR_RANGE,
               "4088");
  EXPECT_ERROR(skerry_acc(s, rank, 0, SKERRY_DOUBLE, nullptr, &number, ~uint64_t{0} / 4),
               SKERRY_ERR_INVALID, "at most 2^58");
  EXPECT_ERROR(skerry_fetch_add_i64(s, rank, bytes, 1, &result), SKERRY_ERR_RANGE, "4096");
  EXPECT_ERROR(skerry_put_notify(s, rank, 0, &word, 8, bytes, 1), SKERRY_ERR_RANGE, "4096");
  EXPECT_ERROR(skerry_put_notify(s, rank, bytes, &word, 8, 0, 1), SKERRY_ERR_RANGE, "4096");
  EXPECT_ERROR(skerry_put_nb(s, rank, bytes, &word, 8, &handle), SKERRY_ERR_RANGE, "4096");
  EXPECT_ERROR(skerry_get_nb(s, rank, bytes, &word, 8, SKERRY_IMPLICIT), SKERRY_ERR_RANGE, "4096");
  // Alignment and type.
  EXPECT_ERROR(skerry_fetch_add_i64(s, rank, 4, 1, &result), SKERRY_ERR_INVALID,
               "offset 4 is not a multiple of 8");
  EXPECT_ERROR(skerry_swap_i32(s, rank, 2, 1, nullptr), SKERRY_ERR_INVALID,
               "offset 2 is not a multiple of 4");
  EXPECT_ERROR(skerry_compare_swap_i64(s, rank, 12, 1, 1, &result), SKERRY_ERR_INVALID,
               "multiple of 8");
  EXPECT_ERROR(skerry_acc(s, rank, 4, SKERRY_DOUBLE, nullptr, &number, 1), SKERRY_ERR_INVALID,
               "offset 4 is not a multiple of 8");
  EXPECT_ERROR(skerry_acc(s, rank, 0, 13, nullptr, &number, 1), SKERRY_ERR_INVALID, "type 13");
  EXPECT_ERROR(skerry_acc(s, rank, 0, -1, nullptr, &number, 1), SKERRY_ERR_INVALID, "type -1");
  EXPECT_ERROR(skerry_put_notify(s, rank, 0, &word, 8, 12, 1), SKERRY_ERR_INVALID,
               "counter_offset 12");
  // Null.
  EXPECT_ERROR(skerry_put(s, rank, 0, nullptr, 8), SKERRY_ERR_INVALID, "origin is null");
  EXPECT_ERROR(skerry_get(s, rank, 0, nullptr, 8), SKERRY_ERR_INVALID, "origin is null");
  EXPECT_ERROR(skerry_acc(s, rank, 0, SKERRY_DOUBLE, nullptr, nullptr, 1), SKERRY_ERR_INVALID,
               "origin is null");
  EXPECT_ERROR(skerry_put_strided(s, rank, 0, &word, nullptr), SKERRY_ERR_INVALID, "shape is null");
  EXPECT_ERROR(skerry_put_vector(s, rank, nullptr, 1), SKERRY_ERR_INVALID, "pieces is null");
  check_shapes(s, rank);
  // Outputs untouched.
  EXPECT(result == 42 && word == 42 && number == 42 && handle == 0);
}

void check_options() {
  skerry_job* second = nullptr;
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.size = 3;
  EXPECT_ERROR(skerry_init(&options, &second), SKERRY_ERR_INVALID, "options.size is 3");
  options.size = sizeof options;
  options.thread_level = 3;
  EXPECT_ERROR(skerry_init(&options, &second), SKERRY_ERR_INVALID, "options.thread_level is 3");
  options.thread_level = SKERRY_THREAD_SINGLE;
  options.on_failure = 3;
  EXPECT_ERROR(skerry_init(&options, &second), SKERRY_ERR_INVALID, "options.on_failure is 3");
  // A program built with a newer skerry.h that uses a field unknown here.
  struct {
    skerry_options known = SKERRY_OPTIONS_INIT;
    int64_t newer = 7;
  } grown;
  grown.known.size = sizeof grown;
  EXPECT_ERROR(skerry_init(&grown.known, &second), SKERRY_ERR_UNSUPPORTED, "does not know");
  EXPECT_ERROR(skerry_init(nullptr, nullptr), SKERRY_ERR_INVALID, "job is null");
}

void check_collectives(Context& c) {
  // Collectives: what is wrong on every member fails on every member, without communication.
  double x = 1;
  EXPECT_ERROR(skerry_broadcast(c.world(), &x, 8, c.size), SKERRY_ERR_INVALID, "root ");
  EXPECT_ERROR(skerry_broadcast(c.world(), nullptr, 8, 0), SKERRY_ERR_INVALID, "buffer is null");
  EXPECT_ERROR(skerry_reduce(c.world(), SKERRY_DOUBLE, SKERRY_SUM, &x, 1, -1), SKERRY_ERR_INVALID,
               "root -1");
  EXPECT_ERROR(skerry_allreduce(c.world(), 13, SKERRY_SUM, &x, 1), SKERRY_ERR_INVALID, "type 13");
  EXPECT_ERROR(skerry_allreduce(c.world(), SKERRY_DOUBLE, 10, &x, 1), SKERRY_ERR_INVALID,
               "reduction 10");
  EXPECT_ERROR(skerry_allreduce(c.world(), SKERRY_DOUBLE, SKERRY_BAND, &x, 1), SKERRY_ERR_INVALID,
               "double elements have no bitwise and");
  EXPECT_ERROR(skerry_allreduce(c.world(), SKERRY_DOUBLE, SKERRY_SUM, nullptr, 1),
               SKERRY_ERR_INVALID, "buffer is null");
  EXPECT_ERROR(skerry_allgather(c.world(), nullptr, 8, &x), SKERRY_ERR_INVALID, "null");
  EXPECT_ERROR(skerry_barrier(nullptr), SKERRY_ERR_INVALID, "group is null");
  EXPECT_ERROR(skerry_group_free(c.world()), SKERRY_ERR_INVALID, "cannot be freed");
}

// A put that its target's data server refuses is told by the next fence, whatever its length: long
// ones were sent again until their server was given up.
void check_freed(Context& c) {
  const int other = c.size - 1;
  if (c.put_freed == nullptr || c.rank != 0 || c.node_of(other) == c.node_of(0)) return;
  const std::vector<std::byte> bytes(std::size_t{20} << 20);
  for (const std::size_t length : {std::size_t{8}, std::size_t{100'000}, bytes.size()}) {
    // A fabric that needs a key to the memory is refused that, at once.
    const int put = c.put_freed(c.job, other, bytes.data(), length);
    const int fenced = skerry_fence(c.job, other);
    EXPECT((put == SKERRY_ERR_FREED && fenced == SKERRY_OK) ||
           (put == SKERRY_OK && fenced == SKERRY_ERR_FREED));
    OK(skerry_fence_all(c.job));  // told once
  }
}

// Ranks, nodes and jobs that do not exist.
void check_arguments(Context& c, skerry_segment* s) {
  int64_t word = 0;
  EXPECT_ERROR(skerry_put(s, c.size, 0, &word, 8), SKERRY_ERR_INVALID,
               "does not exist: this job has ranks 0 to");
  EXPECT_ERROR(skerry_put(s, -1, 0, &word, 8), SKERRY_ERR_INVALID, "rank -1 does not exist");
  EXPECT_ERROR(skerry_put(nullptr, 0, 0, &word, 8), SKERRY_ERR_INVALID, "segment is null");
  EXPECT_ERROR(skerry_fence(c.job, c.size), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_fence_node(c.job, c.nodes), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_fence_node(c.job, -1), SKERRY_ERR_INVALID, "node -1");
  EXPECT_ERROR(skerry_node_of(c.job, -1), SKERRY_ERR_INVALID, "rank -1");
  EXPECT_ERROR(skerry_node_of(c.job, c.size), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_node_size(c.job, c.nodes), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_node_rank(c.job, 0, 1000), SKERRY_ERR_INVALID, "has no rank number 1000");
  EXPECT_ERROR(skerry_same_node(c.job, c.size), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_fence_all(nullptr), SKERRY_ERR_INVALID, "job is null");
  EXPECT_ERROR(skerry_wait_implicit(nullptr), SKERRY_ERR_INVALID, "job is null");
  // More than this used to abort the process.
  EXPECT_ERROR(skerry_connections_limit(c.job, ~uint32_t{0}), SKERRY_ERR_INVALID,
               "max_connections is 4294967295");
}

}  // namespace

static void check_handles(Context& c, skerry_segment* s) {
  EXPECT_ERROR(skerry_wait(c.job, nullptr), SKERRY_ERR_INVALID, "handle is null");
  skerry_handle handle = 0;
  int done = 0;
  OK(skerry_wait(c.job, &handle));
  OK(skerry_test(c.job, &handle, &done));
  EXPECT(done == 1);
  handle = 0x1234567890ull;
  EXPECT_ERROR(skerry_wait(c.job, &handle), SKERRY_ERR_INVALID, "is not outstanding");
  EXPECT_ERROR(skerry_test(c.job, &handle, &done), SKERRY_ERR_INVALID, "is not outstanding");
  // Twice: the second wait is told.
  std::vector<std::byte> buffer(4096);
  OK(skerry_get_nb(s, c.size - 1, 0, buffer.data(), buffer.size(), &handle));
  skerry_handle copy = handle;
  OK(skerry_wait(c.job, &handle));
  if (copy != 0) EXPECT_ERROR(skerry_wait(c.job, &copy), SKERRY_ERR_INVALID, "waited for already");
}

// The bug: a member that had given another `every` worked while others saved. Their collectives
// met, and memory of the program was overwritten.
static void check_unlike_loops(Context& c, skerry_protected* kept) {
  if (c.size == 1) return;
  uint64_t step = 42;
  skerry_group* group = nullptr;
  const uint64_t mine = c.rank == 0 ? 3 : 2;
  EXPECT_ERROR(skerry_protected_next(kept, 9, mine, SKERRY_OK, &step, &group), SKERRY_ERR_INVALID,
               "the members run different loops: this rank one of 9 steps");
  EXPECT_ERROR(skerry_protected_next(kept, mine, 1, SKERRY_OK, &step, &group), SKERRY_ERR_INVALID,
               "the members run different loops");
  EXPECT_ERROR(skerry_protected_save(kept, static_cast<int64_t>(mine)), SKERRY_ERR_INVALID,
               "the members save different steps");
}

// The bug: with its group freed, protected memory could not be, and kept its copies.
static void check_freed_group(Context& c) {
  skerry_group* group = nullptr;
  OK(skerry_group_split(c.world(), 0, c.rank, &group));
  skerry_protected* kept = nullptr;
  int64_t word = c.rank;
  OK(skerry_protected_create(group, c.nodes > 1 ? 1 : 0, &kept));
  OK(skerry_protected_add(kept, &word, sizeof word));
  OK(skerry_protected_save(kept, 0));
  OK(skerry_group_free(group));
  EXPECT_ERROR(skerry_protected_save(kept, 1), SKERRY_ERR_FREED, "the group was freed");
  OK(skerry_protected_free(kept));
  EXPECT_ERROR(skerry_protected_free(kept), SKERRY_ERR_FREED, "the protected memory was freed");
}

// Protected memory, in a job without deaths.
static void check_protected(Context& c) {
  skerry_protected* kept = nullptr;
  EXPECT_ERROR(skerry_protected_create(c.world(), -1, &kept), SKERRY_ERR_INVALID, "distance -1");
  EXPECT_ERROR(skerry_protected_add(nullptr, nullptr, 0), SKERRY_ERR_INVALID, "kept is null");
  OK(skerry_protected_create(c.world(), 1, &kept));
  int64_t mine[2] = {c.rank, 7}, word = 42;
  uint64_t step = 42;
  skerry_group* group = nullptr;
  EXPECT_ERROR(skerry_protected_add(kept, nullptr, 8), SKERRY_ERR_INVALID, "memory is null");
  EXPECT_ERROR(skerry_protected_next(kept, 9, 0, SKERRY_OK, &step, &group), SKERRY_ERR_INVALID,
               "every is 0");
  EXPECT_ERROR(skerry_protected_next(kept, 9, 1, 7, &step, &group), SKERRY_ERR_INVALID, "status 7");
  EXPECT_IS(skerry_protected_next(kept, 9, 1, SKERRY_ERR_RANGE, &step, &group), SKERRY_ERR_RANGE);
  EXPECT_ERROR(skerry_protected_save(kept, -1), SKERRY_ERR_INVALID, "step -1");
  EXPECT_ERROR(skerry_protected_read(kept, 0, 0, &word, 8), SKERRY_ERR_INVALID,
               "8 bytes at offset 0 of position 0: the state has 0 positions");
  EXPECT_ERROR(skerry_protected_recover(kept, 0), SKERRY_ERR_UNSUPPORTED, "on_failure");
  OK(skerry_protected_add(kept, mine, c.rank == 0 ? 8 : 16));
  if (c.size > 1)
    EXPECT_ERROR(skerry_protected_save(kept, 0), SKERRY_ERR_INVALID,
                 (c.rank == 0 ? "this rank 8, rank 1 16" : "this rank 16, rank 0 8"));
  OK(skerry_protected_forget(kept));
  OK(skerry_protected_add(kept, mine, 16));
  EXPECT_IS(skerry_protected_step(kept), -1);
  check_unlike_loops(c, kept);
  if (c.nodes == 1) {
    EXPECT_ERROR(skerry_protected_save(kept, 3), SKERRY_ERR_INVALID, "the group is on one node");
    OK(skerry_protected_free(kept));
    OK(skerry_protected_create(c.world(), 0, &kept));
    OK(skerry_protected_add(kept, mine, 16));
  }
  OK(skerry_protected_save(kept, 3));
  mine[0] = -1;
  OK(skerry_protected_read(kept, c.size - 1, 0, &word, 8));
  EXPECT_IS(word, int64_t{c.size - 1});
  EXPECT_ERROR(skerry_protected_read(kept, c.size, 0, &word, 8), SKERRY_ERR_INVALID, "position");
  EXPECT_ERROR(skerry_protected_read(kept, 0, 8, &word, ~uint64_t{0}), SKERRY_ERR_INVALID,
               "of 16 bytes");
  EXPECT(skerry_protected_step(kept) == 3 && skerry_protected_bytes(kept) == 16 &&
         skerry_protected_places(kept) == c.size && skerry_protected_recoveries(kept) == 0 &&
         skerry_protected_group(kept) == c.world() && group == nullptr && step == 42);
  // The loop, twice.
  for (int round = 0; round < 2; ++round) {
    for (uint64_t steps = 0; steps <= 9; ++steps) {
      OK(skerry_protected_next(kept, 9, 2, SKERRY_OK, &step, &group));
      EXPECT(step == steps && group == c.world());
      EXPECT_IS(skerry_protected_step(kept), int64_t(step == 9 ? 9 : step / 2 * 2));
    }
  }
  OK(skerry_protected_next(kept, 9, 2, SKERRY_OK, &step, &group));
  EXPECT_ERROR(skerry_protected_next(kept, 9, 3, SKERRY_OK, &step, &group), SKERRY_ERR_INVALID,
               "in a loop of 9 and 2");
  OK(skerry_protected_next(kept, 9, 2, SKERRY_OK, &step, &group));
  EXPECT_ERROR(skerry_protected_next(kept, 8, 2, SKERRY_OK, &step, &group), SKERRY_ERR_INVALID,
               "steps 8 and every 2");
  OK(skerry_barrier(c.world()));
  OK(skerry_protected_free(kept));
  EXPECT_ERROR(skerry_protected_free(kept), SKERRY_ERR_FREED, "the protected memory was freed");
  check_freed_group(c);
}

void run_errors(Context& c) {
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 4096, &s));
  for (int rank = 0; rank < c.size; ++rank) check_on(s, rank);
  check_arguments(c, s);
  check_handles(c, s);
  check_protected(c);
  // A sync that reports an earlier refusal used to leave before the barrier, and the others waited
  // for it for ever: so did a free.
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_mutexes_create(c.world(), 1, &mutexes));
  const bool other_node = c.rank == 0 && c.node_of(c.size - 1) != c.node_of(0);
  for (const bool frees : {false, true}) {
    if (other_node)
      OK(skerry_mutex_unlock(mutexes, c.size - 1,
                             0));  // not held: only the other node's server knows
    const int status = frees ? skerry_mutexes_free(mutexes) : skerry_sync(c.world());
    EXPECT_IS(status, other_node ? SKERRY_ERR_INVALID : SKERRY_OK);
    if (other_node) EXPECT(std::strstr(skerry_last_error(), "which it does not hold") != nullptr);
  }
  check_freed(c);
  check_collectives(c);
  EXPECT_ERROR(skerry_segment_alloc(c.world(), 8, nullptr), SKERRY_ERR_INVALID, "null");
  skerry_segment* huge = nullptr;
  EXPECT_ERROR(skerry_segment_alloc(c.world(), uint64_t{1} << 63, &huge), SKERRY_ERR_NO_MEMORY,
               "asks for 9223372036854775808 bytes");
  EXPECT_ERROR(skerry_segment_free(nullptr), SKERRY_ERR_INVALID, "segment is null");
  EXPECT_ERROR(skerry_notify_wait(s, 4096, 1, 0, nullptr), SKERRY_ERR_RANGE, "4096");
  EXPECT_ERROR(skerry_notify_wait(s, 4, 1, 0, nullptr), SKERRY_ERR_INVALID, "counter_offset 4");
  EXPECT(std::strcmp(skerry_status_name(SKERRY_ERR_RANGE), "SKERRY_ERR_RANGE") == 0);
  EXPECT(std::strcmp(skerry_status_name(SKERRY_OK), "SKERRY_OK") == 0);
  EXPECT(skerry_status_name(-1000) != nullptr);
  EXPECT_IS(skerry_type_bytes(SKERRY_COMPLEX_DOUBLE), 16u);
  EXPECT_IS(skerry_type_bytes(SKERRY_UINT16), 2u);
  EXPECT_IS(skerry_type_bytes(13), 0u);
  if (!c.as_threads) {
    check_options();
    // A forked child is told that it cannot, and its parent goes on.
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      int64_t value = 0;
      const bool told = skerry_put(s, c.size - 1, 0, &value, 8) == SKERRY_ERR_FORKED &&
                        std::strstr(skerry_last_error(), "forked child") != nullptr &&
                        skerry_get(s, 0, 0, &value, 8) == SKERRY_ERR_FORKED &&
                        skerry_fence_all(c.job) == SKERRY_ERR_FORKED &&
                        skerry_barrier(c.world()) == SKERRY_ERR_FORKED &&
                        skerry_wait_implicit(c.job) == SKERRY_ERR_FORKED &&
                        skerry_finalize(c.job) == SKERRY_ERR_FORKED;
      std::_Exit(told ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  // All of that left everything as it was.
  OK(skerry_sync(c.world()));
  const auto* const mine = static_cast<const unsigned char*>(skerry_segment_local(s));
  for (int i = 0; i < 4096; ++i) EXPECT(mine[i] == 0);
  OK(skerry_barrier(c.world()));
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
