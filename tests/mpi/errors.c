/* Mistakes reach the window's error handler with MPI's class. What MPI leaves undefined is checked
 * only where SKERRY_USER_CHECKS is defined: when the program runs on Skerry's windows. */
#include "mpi_check.h"

static int handled;
static void on_error(MPI_Win* win, int* code, ...) {
  (void)win;
  handled = class_of(*code);
}

/* OpenMPI's header has no large-count forms yet; windows of Skerry's have them nevertheless. */
extern int MPI_Put_c(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                     MPI_Win) __attribute__((weak));
extern int MPI_Get_c(void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                     MPI_Win) __attribute__((weak));
extern int MPI_Accumulate_c(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count,
                            MPI_Datatype, MPI_Op, MPI_Win) __attribute__((weak));
extern int MPI_Get_accumulate_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count,
                                MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op,
                                MPI_Win) __attribute__((weak));

#define EXPECT(class, call)                                                      \
  do {                                                                           \
    handled = -1;                                                                \
    const int code_ = (call);                                                    \
    CHECK(class_of(code_) == class, "class %d, not %d", class_of(code_), class); \
    CHECK(handled == class, "the handler saw %d, not %d", handled, class);       \
  } while (0)

/* What a freed window leaves is no window. */
static void check_freed(void) {
  long *memory = NULL, value = 1;
  MPI_Win win;
  TRY(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  TRY(MPI_Win_free(&win));
  CHECK(win == MPI_WIN_NULL, "the handle stays");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(class_of(MPI_Put(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win)) == MPI_ERR_WIN, "put");
  CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win)) == MPI_ERR_WIN, "lock");
  CHECK(class_of(MPI_Win_fence(0, win)) == MPI_ERR_WIN, "fence");
  CHECK(class_of(MPI_Win_free(&win)) == MPI_ERR_WIN, "free");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Inside and outside of epochs that are open. */
static void check_misplaced(MPI_Win win) {
  long value = 1, values[3] = {1, 2, 3}, old = 0;
  int done = 0;
  MPI_Datatype three;
  MPI_Group world;
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Get(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_RMA_SYNC,
         MPI_Accumulate(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Fetch_and_op(&value, &old, MPI_LONG, right, 0, MPI_SUM, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Rput(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win, &request));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_flush_all(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_flush_local(right, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_test(win, &done));
  MPI_Type_contiguous(3, MPI_LONG, &three);
  MPI_Type_commit(&three);
  TRY(MPI_Win_lock_all(0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_unlock(right, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_start(world, 0, win));
  MPI_Group_free(&world);
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
  EXPECT(MPI_ERR_TYPE, MPI_Fetch_and_op(&value, &old, three, right, 0, MPI_SUM, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(values, 3, MPI_LONG, right, 6, 1, three, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Fetch_and_op(&value, &old, MPI_LONG, right, 8, MPI_SUM, win));
  TRY(MPI_Win_unlock_all(win));
  MPI_Type_free(&three);
}

/* Displacements below 0 are none. */
static void check_negative(MPI_Win win) {
  long value = 1, old = 0;
  MPI_Datatype behind;
  const int one = 1, place = 1;
  MPI_Type_indexed(1, &one, &place, MPI_LONG, &behind);
  MPI_Type_commit(&behind);
  EXPECT(MPI_ERR_DISP, MPI_Put(&value, 1, MPI_LONG, right, -1, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_DISP, MPI_Put(&value, 1, MPI_LONG, right, -1, 1, behind, win));
  EXPECT(MPI_ERR_DISP, MPI_Get(&value, 1, MPI_LONG, right, -1, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_DISP, MPI_Accumulate(&value, 1, MPI_LONG, right, -3, 1, MPI_LONG, MPI_SUM, win));
  EXPECT(MPI_ERR_DISP, MPI_Fetch_and_op(&value, &old, MPI_LONG, right, -1, MPI_SUM, win));
  EXPECT(MPI_ERR_DISP, MPI_Compare_and_swap(&value, &value, &old, MPI_LONG, right, -1, win));
  MPI_Type_free(&behind);
}

/* In bytes more than 64 bits hold: not the first element. */
static void check_far(MPI_Win win) {
  long value = 1, old = 0;
  const MPI_Aint far = (MPI_Aint)1 << 61;
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_LONG, right, far, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Get(&value, 1, MPI_LONG, right, far, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_RMA_RANGE,
         MPI_Accumulate(&value, 1, MPI_LONG, right, far, 1, MPI_LONG, MPI_SUM, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Fetch_and_op(&value, &old, MPI_LONG, right, far, MPI_SUM, win));
}

/* Counts whose bytes 64 bits do not hold: not those of a small transfer. Gaps count as well. */
static void check_long(MPI_Win win) {
  long value = 1, old = 0;
  const MPI_Count long_count = ((MPI_Count)1 << 61) + 1; /* of 8 bytes: 8 modulo 2^64 */
  MPI_Datatype sparse, pair = MPI_LONG_INT;
  MPI_Type_create_resized(MPI_LONG, 0, 64, &sparse);
  MPI_Type_commit(&sparse);
  EXPECT(MPI_ERR_COUNT,
         MPI_Put_c(&value, long_count, MPI_LONG, right, 0, long_count, MPI_LONG, win));
  EXPECT(MPI_ERR_COUNT, MPI_Put_c(&value, long_count, MPI_LONG, right, 0, 8, MPI_BYTE, win));
  EXPECT(MPI_ERR_COUNT, MPI_Get_c(&value, 1, MPI_LONG, right, 0, long_count, MPI_LONG, win));
  EXPECT(MPI_ERR_COUNT,
         MPI_Get_c(&value, 1, MPI_LONG, right, 0, ((MPI_Count)1 << 58) + 1, sparse, win));
  EXPECT(MPI_ERR_COUNT, MPI_Accumulate_c(&value, long_count, MPI_LONG, right, 0, long_count,
                                         MPI_LONG, MPI_SUM, win));
  EXPECT(MPI_ERR_COUNT, MPI_Accumulate_c(&value, 1, pair, right, 0, ((MPI_Count)1 << 60) + 1, pair,
                                         MPI_MAXLOC, win));
  EXPECT(MPI_ERR_COUNT, MPI_Get_accumulate_c(&value, 1, MPI_LONG, &old, long_count, MPI_LONG, right,
                                             0, 1, MPI_LONG, MPI_SUM, win));
  /* They can be counted, and are too many for the memory. */
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put_c(&value, (MPI_Count)1 << 59, MPI_LONG, right, 0,
                                      (MPI_Count)1 << 59, MPI_LONG, win));
  MPI_Type_free(&sparse);
}

static void check_attach(void) {
  MPI_Win win;
  MPI_Errhandler handler;
  TRY(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  MPI_Win_create_errhandler(on_error, &handler);
  TRY(MPI_Win_set_errhandler(win, handler));
  MPI_Errhandler_free(&handler);
  long twice[4];
  TRY(MPI_Win_attach(win, twice, sizeof twice));
  EXPECT(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, twice + 1, 8));
  EXPECT(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, twice + 1));
  TRY(MPI_Win_attach(win, twice + 1, 0)); /* nothing */
  TRY(MPI_Win_detach(win, twice + 1));
  EXPECT(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, twice + 1));
  TRY(MPI_Win_detach(win, twice));
  TRY(MPI_Win_attach(win, twice, 0));
  TRY(MPI_Win_detach(win, twice));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_free(&win));
}

void check_errors(void) {
  if (getenv("SKERRY_USER_CHECKS") == NULL) return;
  long *memory = NULL, value = 1, old = 0;
  double real = 1, before = 0;
  MPI_Win win;
  MPI_Errhandler handler;
  MPI_Group world, self;
  TRY(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  MPI_Win_create_errhandler(on_error, &handler);
  TRY(MPI_Win_set_errhandler(win, handler));
  MPI_Errhandler_free(&handler);
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_unlock(right, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_flush(right, win));
  EXPECT(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win));
  EXPECT(MPI_ERR_LOCKTYPE, MPI_Win_lock(12345, right, 0, win));
  EXPECT(MPI_ERR_ASSERT, MPI_Win_lock(MPI_LOCK_SHARED, right, 1 << 30, win));
  check_misplaced(win);
  check_freed();
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
  EXPECT(MPI_ERR_RMA_SYNC, MPI_Win_start(world, 0, win));
  EXPECT(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_LONG, right, 8, 1, MPI_LONG, win));
  check_negative(win);
  check_far(win);
  check_long(win);
  EXPECT(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_LONG, -77, 0, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_COUNT, MPI_Put(&value, -1, MPI_LONG, right, 0, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_TYPE, MPI_Put(&value, 1, MPI_DATATYPE_NULL, right, 0, 1, MPI_LONG, win));
  EXPECT(MPI_ERR_TRUNCATE, MPI_Put(&value, 1, MPI_LONG, right, 0, 1, MPI_INT, win));
  EXPECT(MPI_ERR_OP, MPI_Accumulate(&real, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, MPI_BAND, win));
  EXPECT(MPI_ERR_OP,
         MPI_Accumulate(&real, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, MPI_OP_NULL, win));
  EXPECT(MPI_ERR_TYPE, MPI_Accumulate(&value, 1, MPI_LONG, right, 0, 1, MPI_DOUBLE, MPI_SUM, win));
  EXPECT(MPI_ERR_TYPE, MPI_Compare_and_swap(&real, &real, &before, MPI_DOUBLE, right, 0, win));
  if (getenv("SKERRY_CHECK") != NULL) { /* two puts to the same bytes */
    TRY(MPI_Put(&value, 1, MPI_LONG, right, 1, 1, MPI_LONG, win));
    EXPECT(MPI_ERR_RMA_CONFLICT, MPI_Put(&old, 1, MPI_LONG, right, 1, 1, MPI_LONG, win));
  }
  TRY(MPI_Win_unlock(right, win));
  MPI_Comm_group(MPI_COMM_SELF, &self);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  const int code = MPI_Put(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
  MPI_Error_string(code, text, &length);
  CHECK(length > 0, "no text");
  MPI_Barrier(MPI_COMM_WORLD);
  /* The window still works. */
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Fetch_and_op(&value, &old, MPI_LONG, right, 0, MPI_REPLACE, win));
  TRY(MPI_Win_unlock(right, win));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Group_free(&world);
  MPI_Group_free(&self);
  TRY(MPI_Win_free(&win));
  check_attach();
}
