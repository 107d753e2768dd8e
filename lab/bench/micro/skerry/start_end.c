/* The shortest Skerry job there is: what its start and end take is measured from outside. */
#include <skerry/skerry.h>
#include <stdio.h>

int main(void) {
  skerry_job* job = NULL;
  if (skerry_init(NULL, &job) != SKERRY_OK || skerry_finalize(job) != SKERRY_OK) {
    fprintf(stderr, "start_end: %s\n", skerry_last_error());
    return 1;
  }
  return 0;
}
