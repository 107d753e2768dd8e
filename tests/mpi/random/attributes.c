/* Attributes of windows: the program's own, whose callbacks run once each, and MPI's. */
#include "random.h"

static int keyval = MPI_KEYVAL_INVALID, deleted, expected;
static intptr_t last_value, last_deleted;

static int forget(MPI_Win win, int key, void* value, void* state) {
  (void)win, (void)key, (void)state;
  ++deleted;
  last_deleted = (intptr_t)value;
  return MPI_SUCCESS;
}

static const char* check_own(const Window* window) {
  void* found = NULL;
  int is_there = 0;
  MPI_Win_get_attr(window->win, keyval, &found, &is_there);
  if (is_there != (window->value != 0)) return "an attribute is there that was not set, or is not";
  return is_there && (intptr_t)found != window->value ? "an attribute has another value" : NULL;
}

static const char* check_of_mpi(const Window* window, int bytes) {
  void *base = NULL, *size = NULL, *unit = NULL;
  int is_there[3] = {0};
  MPI_Win_get_attr(window->win, MPI_WIN_BASE, &base, &is_there[0]);
  MPI_Win_get_attr(window->win, MPI_WIN_SIZE, &size, &is_there[1]);
  MPI_Win_get_attr(window->win, MPI_WIN_DISP_UNIT, &unit, &is_there[2]);
  if (!is_there[0] || !is_there[1] || !is_there[2]) return "MPI's attributes are not there";
  if (window->kind == dynamic) return NULL;
  const MPI_Aint all = (MPI_Aint)window->elements[window->me] * bytes;
  if (*(MPI_Aint*)size != all) return "MPI_WIN_SIZE is wrong";
  if (*(int*)unit != window->unit[window->me]) return "MPI_WIN_DISP_UNIT is wrong";
  return all > 0 && base != window->base ? "MPI_WIN_BASE is wrong" : NULL;
}

const char* set_attribute(Window* window, Stream* from, int bytes) {
  if (keyval == MPI_KEYVAL_INVALID)
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget, &keyval, NULL);
  const int times = (int)draw(from, 3); /* a second value takes the first one's place */
  for (int k = 0; k < times; ++k) {
    if (window->value != 0) ++expected;
    window->value = ++last_value;
    MPI_Win_set_attr(window->win, keyval, (void*)window->value);
  }
  const char* const wrong = check_own(window);
  if (wrong != NULL) return wrong;
  if (deleted != expected) return "a callback did not run when its value was replaced";
  return check_of_mpi(window, bytes);
}

const char* before_free(Window* window) {
  const char* const wrong = check_own(window);
  if (window->value == 0) return wrong;
  ++expected;
  last_deleted = 0;
  if (window->value % 3 != 0) return wrong; /* MPI_Win_free deletes it */
  MPI_Win_delete_attr(window->win, keyval);
  return last_deleted != window->value ? "a callback got another value" : wrong;
}

const char* after_free(void) {
  return deleted != expected ? "callbacks of attributes ran too often, or not" : NULL;
}
