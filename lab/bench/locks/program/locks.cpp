// Locks of one-sided windows, measured the same way over every library.
//
//   locks CASE [--kind allocated|created|pages] [--cpus LIST] [--scale S] [--count N]
//         [--broken]
//
// CASE: idle, inside, computing, neighbours, contended, ring, migration, tasks, readers, or none
// (start and end only). --cpus: cores, used in turn by rank; without it ranks run anywhere. --scale
// shortens every measurement. --count: operations on each rank in `tasks`, whose figure is always
// for 1,000. --broken: `contended` without locks, which must end with an error. Prints a line per
// figure; ends with an error if a result is wrong.
#include <cstdlib>

#include "cases.hpp"

namespace {

struct Case {
  const char* name;
  int fewest_ranks;
  void (*run)(Kind, const bench::Arguments&);
};

constexpr Case cases[] = {
    {"none", 1, [](Kind, const bench::Arguments&) {}},
    {"idle", 2, locks::idle},
    {"inside", 2, locks::inside},
    {"computing", 2, locks::computing},
    {"neighbours", 2, locks::neighbours},
    {"contended", 2, locks::contended},
    {"ring", 2, locks::ring},
    {"migration", 3, locks::migration},
    {"tasks", 2, locks::tasks},
    {"readers", 2, locks::readers},
};

const Case* find(const std::string& name) {
  for (const Case& known : cases)
    if (name == known.name) return &known;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const Case* chosen = find(argc > 1 ? argv[1] : "");
  if (chosen == nullptr) {
    std::fputs(
        "usage: locks CASE [--kind allocated|created|pages] [--cpus LIST] [--scale S]"
        " [--count N] [--broken]; cases are in locks.cpp\n",
        stderr);
    return 2;
  }
  // Launchers pass arguments to other hosts, but not the environment.
  setenv("BENCH_CPUS", arguments.text("--cpus", "").c_str(), 1);
  setenv("BENCH_TIME_SCALE", arguments.text("--scale", "1").c_str(), 1);
  layer::start(&argc, &argv);
  if (layer::size() < chosen->fewest_ranks || layer::size() > 64)
    layer::stop("this case does not run with so few or so many ranks");
  bench::pin_all_threads(bench::core_of_rank(layer::rank()));
  const std::string kind = arguments.text("--kind", "allocated");
  chosen->run(kind == "created" ? Kind::created
              : kind == "pages" ? Kind::pages
                                : Kind::allocated,
              arguments);
  layer::finish();
  return 0;
}
