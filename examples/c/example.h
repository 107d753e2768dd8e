/* What the examples share: checks of statuses, options with --help, and a hash. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <skerry/window.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends this rank, and by that the job, if a call fails. */
#define OK(call)                                                                                 \
  do {                                                                                           \
    if ((call) != SKERRY_OK) {                                                                   \
      fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, skerry_last_error()); \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

/* An option `--name NUMBER`, a whole number from 0 on; `value` is its default at first. */
typedef struct option {
  const char* name;
  long value;
  const char* meaning;
} option;

static inline void print_help(const char* about, const option* options, int count) {
  printf("%s\n", about);
  for (int i = 0; i < count; ++i)
    printf("  --%s NUMBER  %s (%ld)\n", options[i].name, options[i].meaning, options[i].value);
}

/* Ends the program with status 0 after --help, with status 2 if an option is wrong. */
static inline void read_options(int argc, char** argv, const char* about, option* options,
                                int count) {
  for (int i = 1; i < argc; i += 2) {
    if (strcmp(argv[i], "--help") == 0) {
      print_help(about, options, count);
      exit(0);
    }
    int known = 0;
    while (known < count && strncmp(argv[i], "--", 2) == 0 &&
           strcmp(argv[i] + 2, options[known].name) != 0)
      ++known;
    char* end = NULL;
    long value = i + 1 < argc ? strtol(argv[i + 1], &end, 10) : -1;
    if (strncmp(argv[i], "--", 2) != 0 || known == count || value < 0 || *end != '\0') {
      fprintf(stderr, "%s: not an option with a number from 0 on: try --help\n", argv[i]);
      exit(2);
    }
    options[known].value = value;
  }
}

/* Spreads numbers evenly (splitmix64). */
static inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

#endif
