/* Small accumulates, updates and puts in rows, blocking and not, against a model of memory.
 *
 *   rows [STEPS [SEED]]
 *
 * Every rank has words of its own in every rank's slice. What it does to them takes effect in
 * order, and updates of different kinds on one word tell the order: so its model says what is
 * there. Rows of a kind travel together (docs/design/0014-batched-puts.md). */
#include <skerry/skerry.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { words = 1200, longest = 34, most_ranks = 16, buffer_words = 4096 };

static skerry_job* job;
static skerry_segment* segment;
static int me;
static uint64_t state;
static int64_t model[most_ranks][words];
static int64_t buffers[buffer_words]; /* of what may be under way */
static int used;

static void check(int status, const char* what) {
  if (status == SKERRY_OK) return;
  fprintf(stderr, "rank %d: %s: %s\n", me, what, skerry_last_error());
  exit(3);
}

static uint32_t draw(uint32_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 11) % bound);
}

static uint64_t offset_of(uint32_t word) { return ((uint64_t)me * words + word) * 8; }

static int64_t* take_buffer(uint32_t count) {
  if (used + (int)count > buffer_words) {
    check(skerry_wait_implicit(job), "wait_implicit");
    used = 0;
  }
  int64_t* const taken = buffers + used;
  used += (int)count;
  return taken;
}

static void compare(int target) {
  int64_t found[words];
  check(skerry_get(segment, target, offset_of(0), found, sizeof found), "get");
  for (int i = 0; i < words; ++i)
    if (found[i] != model[target][i]) {
      fprintf(stderr, "rank %d: word %d in rank %d is %" PRId64 ", not %" PRId64 "\n", me, i,
              target, found[i], model[target][i]);
      exit(4);
    }
}

static void change_model(int64_t* word, int operation, int64_t scale, int64_t operand) {
  if (operation == SKERRY_SUM) *word += scale * operand;
  else if (operation == SKERRY_MAX) *word = operand > *word ? operand : *word;
  else if (operation == SKERRY_BXOR) *word ^= operand;
  else *word = operand;
}

static void send_one(int target, uint32_t at, int operation, int64_t scale, const int64_t* from,
                     uint32_t count, int blocks) {
  if (operation == SKERRY_SUM)
    check(blocks ? skerry_acc(segment, target, offset_of(at), SKERRY_INT64, &scale, from, count)
                 : skerry_acc_nb(segment, target, offset_of(at), SKERRY_INT64, &scale, from, count,
                                 SKERRY_IMPLICIT),
          "accumulate");
  else
    check(blocks
              ? skerry_update(segment, target, offset_of(at), SKERRY_INT64, operation, from, count)
              : skerry_update_nb(segment, target, offset_of(at), SKERRY_INT64, operation, from,
                                 count, SKERRY_IMPLICIT),
          "update");
}

static void row(int target, uint32_t length) {
  static const int drawn[] = {SKERRY_SUM, SKERRY_SUM, SKERRY_MAX, SKERRY_BXOR, SKERRY_REPLACE};
  const uint32_t hot = draw(words - longest - 8); /* half of them repeat a few words */
  int operation = SKERRY_SUM;
  int64_t scale = 1;
  for (; length > 0; --length) {
    if (draw(40) == 0) {
      operation = drawn[draw(5)];
      scale = draw(2) == 0 ? 1 : 3;
    }
    const uint32_t at = draw(2) == 0 ? hot + draw(8) : draw(words - longest);
    const uint32_t count = 1 + draw(draw(8) == 0 ? longest - 1 : 3);
    int64_t* const from = take_buffer(count);
    for (uint32_t i = 0; i < count; ++i) from[i] = draw(1000);
    if (draw(12) == 0) {
      check(skerry_put_nb(segment, target, offset_of(at), from, count * 8, SKERRY_IMPLICIT), "put");
      memcpy(&model[target][at], from, count * 8);
      continue;
    }
    for (uint32_t i = 0; i < count; ++i)
      change_model(&model[target][at + i], operation, scale, from[i]);
    const int blocks = draw(3) == 0;
    send_one(target, at, operation, scale, from, count, blocks);
    if (blocks) memset(from, 0x77, count * 8); /* it is the program's again */
  }
}

int main(int count, char** values) {
  const int steps = count > 1 ? atoi(values[1]) : 40;
  const int seed = count > 2 ? atoi(values[2]) : 1;
  check(skerry_init(NULL, &job), "init");
  skerry_group* const world = skerry_world(job);
  const int ranks = skerry_group_size(world);
  me = skerry_rank(job);
  if (ranks > most_ranks) {
    fprintf(stderr, "rows: %d ranks, at most %d\n", ranks, most_ranks);
    return 2;
  }
  state = UINT64_C(88172645463325252) + (uint64_t)(me + 1) * 7919 * (uint64_t)seed;
  check(skerry_segment_alloc(world, (uint64_t)ranks * words * 8, &segment), "alloc");
  check(skerry_sync(world), "sync");
  for (int step = 0; step < steps; ++step) {
    const int target = (int)draw((uint32_t)ranks);
    row(target, 1 + draw(draw(10) == 0 ? 3000 : 30)); /* some fill a batch */
    if (draw(4) != 0) continue;
    if (draw(2) == 0) check(skerry_fence(job, target), "fence");
    compare(target);
  }
  check(skerry_sync(world), "sync");
  for (int target = 0; target < ranks; ++target) compare(target);
  check(skerry_sync(world), "sync");
  check(skerry_finalize(job), "finalize");
  return 0;
}
