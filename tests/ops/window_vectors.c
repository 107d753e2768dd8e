/* skerry_window_put_vector and its kin, by each rank on its neighbour's memory, in windows of all
 * kinds. Ends with "window_vectors: ok". */
#include <skerry/window.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define CHECK(condition)                                                                         \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      ++failures;                                                                                \
      fprintf(stderr, "window_vectors:%d: %s: %s\n", __LINE__, #condition, skerry_last_error()); \
    }                                                                                            \
  } while (0)
#define OK(call) CHECK((call) == SKERRY_OK)

enum { words = 1280 };

/* `from`: displacement of the memory, an address in a dynamic window. */
static void check(skerry_window* window, int target, uint64_t from, int64_t* memory,
                  skerry_group* group) {
  int64_t mine[8], back[8] = {0};
  skerry_piece to[8], again[8];
  for (int k = 0; k < 8; ++k) {
    mine[k] = 100 + k;
    /* Every other word, backwards; the last piece has no bytes. */
    to[k] = (skerry_piece){&mine[k], from + 8 * (uint64_t)(20 - 2 * k), k < 7 ? 8 : 0};
    again[k] = (skerry_piece){&back[k], to[k].offset, to[k].bytes};
  }
  memset(memory, 0, words * sizeof *memory);
  skerry_sync(group);
  OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, target, 0));
  OK(skerry_window_put_vector(window, target, to, 8));
  OK(skerry_window_flush(window, target));
  OK(skerry_window_update_vector(window, target, SKERRY_INT64, SKERRY_SUM, to, 8));
  OK(skerry_window_flush(window, target));
  OK(skerry_window_get_vector(window, target, again, 8));
  OK(skerry_window_unlock(window, target));
  for (int k = 0; k < 7; ++k) CHECK(back[k] == 2 * (100 + k));
  skerry_sync(group);
  for (int k = 0; k < 7; ++k) CHECK(memory[20 - 2 * k] == 2 * (100 + k));
  CHECK(memory[21] == 0 && memory[19] == 0);
  skerry_sync(group);
  /* One wrong piece: nothing is accessed. */
  CHECK(skerry_window_put_vector(window, target, to, 8) == SKERRY_ERR_INVALID); /* no epoch */
  OK(skerry_window_lock_all(window, 0));
  to[3].offset += 4;
  CHECK(skerry_window_update_vector(window, target, SKERRY_INT64, SKERRY_SUM, to, 8) ==
        SKERRY_ERR_INVALID);
  to[3].offset = UINT64_MAX - 3;
  CHECK(skerry_window_put_vector(window, target, to, 8) == SKERRY_ERR_RANGE);
  CHECK(skerry_window_get_vector(window, target, NULL, 1) == SKERRY_ERR_INVALID);
  OK(skerry_window_unlock_all(window));
  skerry_sync(group);
  for (int k = 0; k < 7; ++k) CHECK(memory[20 - 2 * k] == 2 * (100 + k));
  skerry_sync(group);
}

/* Updates of many pieces that follow each other, with a gap now and then, and of all lengths; some
 * cross a boundary of 4 KiB, one is longer than that. */
static void check_rows(skerry_window* window, int target, uint64_t from, int64_t* memory,
                       skerry_group* group) {
  static int64_t mine[words], expected[words];
  static skerry_piece pieces[words];
  size_t count = 0;
  memset(expected, 0, sizeof expected);
  for (int at = 0, bytes_words = 1; at < words; ++count) {
    const int length = count == 40 ? 600 : 1 + bytes_words++ % 9;
    const int fits = length < words - at ? length : words - at;
    for (int k = at; k < at + fits; ++k) expected[k] = 2 * (mine[k] = 1000 + k);
    pieces[count] = (skerry_piece){&mine[at], from + 8 * (uint64_t)at, 8 * (uint64_t)fits};
    at += fits + (count % 7 == 6);
  }
  memset(memory, 0, words * sizeof *memory);
  skerry_sync(group);
  OK(skerry_window_lock(window, SKERRY_LOCK_SHARED, target, 0));
  for (int turn = 0; turn < 2; ++turn)
    OK(skerry_window_update_vector(window, target, SKERRY_INT64, SKERRY_SUM, pieces, count));
  OK(skerry_window_unlock(window, target));
  skerry_sync(group);
  CHECK(memcmp(memory, expected, sizeof expected) == 0);
  skerry_sync(group);
}

/* Columns of an 8 x 8 matrix of words, to rows here, and back. */
static void check_strided(skerry_window* window, int target, uint64_t from, int64_t* memory,
                          skerry_group* group) {
  int64_t mine[24], back[24] = {0};
  for (int k = 0; k < 24; ++k) mine[k] = 1000 + k;
  skerry_strided shape = {8, 2, 0, {8, 3}, {8, 64}, {64, 8}}; /* 3 columns, from column 2 on */
  memset(memory, 0, words * sizeof *memory);
  skerry_sync(group);
  CHECK(skerry_window_put_strided(window, target, from + 16, mine, &shape) ==
        SKERRY_ERR_INVALID); /* no epoch */
  OK(skerry_window_lock(window, SKERRY_LOCK_SHARED, target, 0));
  OK(skerry_window_put_strided(window, target, from + 16, mine, &shape));
  OK(skerry_window_flush(window, target));
  OK(skerry_window_get_strided(window, target, from + 16, back, &shape));
  OK(skerry_window_unlock(window, target));
  CHECK(memcmp(mine, back, sizeof mine) == 0);
  skerry_sync(group);
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column)
      CHECK(memory[8 * row + column] ==
            (column >= 2 && column < 5 ? 1000 + 8 * (column - 2) + row : 0));
  skerry_sync(group);
  OK(skerry_window_lock_all(window, 0));
  shape.count[0] = 0; /* nothing */
  OK(skerry_window_put_strided(window, target, from, NULL, &shape));
  shape.count[0] = 8;
  CHECK(skerry_window_put_strided(window, target, from, NULL, &shape) == SKERRY_ERR_INVALID);
  CHECK(skerry_window_put_strided(window, target, from, mine, NULL) == SKERRY_ERR_INVALID);
  shape.levels = SKERRY_MAX_LEVELS + 1;
  CHECK(skerry_window_get_strided(window, target, from, back, &shape) == SKERRY_ERR_INVALID);
  shape.levels = 2;
  shape.target_stride[0] = (int64_t)1 << 40; /* leaves the memory */
  const int status = skerry_window_put_strided(window, target, from, mine, &shape);
  const int later = skerry_window_unlock_all(window);
  CHECK(status == SKERRY_ERR_RANGE || later == SKERRY_ERR_RANGE);
  skerry_sync(group);
}

int main(void) {
  skerry_job* job;
  skerry_window* window;
  int64_t* const given = calloc(words, sizeof *given);
  if (skerry_init(NULL, &job) != SKERRY_OK) return fprintf(stderr, "%s\n", skerry_last_error()), 1;
  skerry_group* const group = skerry_world(job);
  const int target = (skerry_rank(job) + 1) % skerry_size(job);
  uint64_t* const all = calloc((size_t)skerry_size(job), sizeof *all);
  OK(skerry_window_allocate(group, words * sizeof *given, 8, &window));
  check(window, target, 0, skerry_window_local(window), group);
  check_strided(window, target, 0, skerry_window_local(window), group);
  check_rows(window, target, 0, skerry_window_local(window), group);
  OK(skerry_window_free(window));
  OK(skerry_window_create(group, given, words * sizeof *given, 4, &window));
  check(window, target, 0, given, group);
  check_strided(window, target, 0, given, group);
  check_rows(window, target, 0, given, group);
  OK(skerry_window_free(window));
  OK(skerry_window_create_dynamic(group, &window));
  OK(skerry_window_attach(window, given, words * sizeof *given));
  const uint64_t address = (uint64_t)(uintptr_t)given;
  OK(skerry_allgather(group, &address, sizeof address, all));
  check(window, target, all[target], given, group);
  check_strided(window, target, all[target], given, group);
  check_rows(window, target, all[target], given, group);
  OK(skerry_window_free(window));
  if (failures == 0 && skerry_rank(job) == 0) printf("window_vectors: ok\n");
  free(all);
  free(given);
  return skerry_finalize(job) == SKERRY_OK && failures == 0 ? 0 : 1;
}
