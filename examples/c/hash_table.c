/* A hash table over all ranks: any rank finds, adds and counts keys in any rank's part.
 *
 * Use one when every rank must find or add records by key and nobody can say who will need which:
 * removing duplicates, counting words or k-mers, remembering results of a search.
 *
 * A slot is claimed by compare-and-swap and counted by an atomic sum, so ranks never wait for one
 * another; the owner of a slot takes no part.
 *
 *   skerry run -n 4 --nodes 2 build/bin/examples/hash_table --draws 1000
 */
#include "example.h"

enum { KEY, COUNT, SLOT_WORDS }; /* words of a slot; key 0: empty */

typedef struct table {
  skerry_window* window; /* one displacement is one word */
  uint64_t slots;        /* of each rank */
  uint64_t ranks;
} table;

/* Where the search for a key begins. The next places are the next slots of the same rank. */
static int owner_of(const table* t, int64_t key) { return (int)(mix((uint64_t)key) % t->ranks); }
static uint64_t first_slot(const table* t, int64_t key) {
  return mix((uint64_t)key) / t->ranks % t->slots;
}

/* The place of a key in its owner's memory; claims an empty slot for a new one. */
static uint64_t claim(const table* t, int owner, int64_t key) {
  const int64_t empty = 0;
  for (uint64_t i = 0; i < t->slots; ++i) {
    uint64_t at = SLOT_WORDS * ((first_slot(t, key) + i) % t->slots);
    int64_t found;
    OK(skerry_window_compare_swap(t->window, owner, at + KEY, SKERRY_INT64, &empty, &key, &found));
    if (found == empty || found == key) return at;
  }
  fprintf(stderr, "rank %d's part is full: give more --slots\n", owner);
  exit(1);
}

static void count(const table* t, int64_t key) {
  static const int64_t one = 1; /* stays until the epoch ends */
  int owner = owner_of(t, key);
  uint64_t at = claim(t, owner, key) + COUNT;
  OK(skerry_window_update(t->window, owner, at, SKERRY_INT64, SKERRY_SUM, &one, 1));
}

/* Also right while others count: each word is read atomically. */
static int64_t look_up(const table* t, int64_t key) {
  int owner = owner_of(t, key);
  for (uint64_t i = 0; i < t->slots; ++i) {
    uint64_t at = SLOT_WORDS * ((first_slot(t, key) + i) % t->slots);
    int64_t slot[SLOT_WORDS];
    OK(skerry_window_fetch_update(t->window, owner, at, SKERRY_INT64, SKERRY_NO_OP, NULL, slot,
                                  SLOT_WORDS));
    OK(skerry_window_flush_local(t->window, owner));
    if (slot[KEY] == key) return slot[COUNT];
    if (slot[KEY] == 0) return 0;
  }
  return 0;
}

/* The i-th key that a rank draws, 1..keys. Few are drawn often, as words are. */
static int64_t draw(int rank, long i, long keys) {
  uint64_t random = mix((uint64_t)rank << 32 | (uint64_t)i);
  return 1 + (int64_t)(random % (1 + (random >> 32) % (uint64_t)keys));
}

/* Compares the table with counts made without it. Each rank checks the keys of its own number. */
static int64_t wrong_counts(const table* t, int rank, long draws, long keys) {
  int64_t wrong = 0;
  int64_t* expected = calloc((size_t)keys + 1, sizeof *expected);
  for (int other = 0; other < (int)t->ranks; ++other)
    for (long i = 0; i < draws; ++i) ++expected[draw(other, i, keys)];
  for (int64_t key = 1 + rank; key <= keys; key += (int64_t)t->ranks)
    wrong += look_up(t, key) != expected[key];
  free(expected);
  return wrong;
}

int main(int argc, char** argv) {
  option options[] = {{"draws", 300, "keys that each rank counts"},
                      {"keys", 200, "different keys"},
                      {"slots", 1000, "slots of each rank's part"}};
  read_options(argc, argv, "hash_table: ranks count random keys in a shared table", options, 3);
  long draws = options[0].value, keys = options[1].value > 0 ? options[1].value : 1;
  skerry_job* job;
  OK(skerry_init(NULL, &job));
  int rank = skerry_rank(job);
  table t = {NULL, (uint64_t)options[2].value, (uint64_t)skerry_size(job)};
  uint64_t bytes = t.slots * SLOT_WORDS * sizeof(int64_t);
  OK(skerry_window_allocate(skerry_world(job), bytes, sizeof(int64_t), &t.window));
  OK(skerry_window_lock_all(t.window, 0));
  for (long i = 0; i < draws; ++i) count(&t, draw(rank, i, keys));
  OK(skerry_window_flush_all(t.window)); /* the own counts are there, after the barrier all are */
  OK(skerry_barrier(skerry_world(job)));
  int64_t wrong = wrong_counts(&t, rank, draws, keys);
  OK(skerry_window_unlock_all(t.window));
  OK(skerry_allreduce(skerry_world(job), SKERRY_INT64, SKERRY_SUM, &wrong, 1));
  if (rank == 0)
    printf("%ld draws of %d ranks: %ld counts, %ld wrong\n", draws, (int)t.ranks, keys,
           (long)wrong);
  OK(skerry_window_free(t.window));
  OK(skerry_finalize(job));
  return wrong == 0 ? 0 : 1;
}
