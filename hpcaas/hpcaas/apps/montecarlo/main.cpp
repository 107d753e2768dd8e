// hpcaas_montecarlo [--paths N] [--steps N] [--shifts N] [--seed N] [--dump-sobol POINTS
// DIMENSIONS] Prices on all ranks and threads and prints one JSON line from rank 0.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef HPCAAS_MPI
#include <mpi.h>
#endif

#include "pricer.hpp"

namespace {

using namespace montecarlo;

struct Arguments {
  std::int64_t paths = 1 << 18;
  int steps = 250;
  int shifts = 16;
  std::uint64_t seed = 20231112;
  std::int64_t dump_points = 0;
  int dump_dimensions = 0;
};

[[noreturn]] void usage(const char* what, const char* value) {
  std::fprintf(stderr,
               "hpcaas_montecarlo: %s: '%s'; use --paths N (at least shifts), --steps 2..%d, "
               "--shifts 2..64, --seed N\n",
               what, value, max_dimensions);
  std::exit(2);
}

std::int64_t number(const char* text) {
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || value < 0) usage("not a whole number", text);
  return value;
}

void check(const Arguments& arguments) {
  if (arguments.steps < 2 || arguments.steps > max_dimensions)
    usage("steps out of range", std::to_string(arguments.steps).c_str());
  if (arguments.shifts < 2 || arguments.shifts > 64)
    usage("shifts out of range", std::to_string(arguments.shifts).c_str());
  if (arguments.paths < arguments.shifts)
    usage("fewer paths than shifts", std::to_string(arguments.paths).c_str());
  if (arguments.paths / arguments.shifts > (std::int64_t{1} << 32))
    usage("more than 2^32 paths a shift", std::to_string(arguments.paths).c_str());
  if (arguments.dump_dimensions < 0 || arguments.dump_dimensions > max_dimensions)
    usage("dimensions out of range", std::to_string(arguments.dump_dimensions).c_str());
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  int i = 1;
  const auto value = [&]() -> std::int64_t {
    if (i + 1 >= argc) usage("a value is missing after", argv[i]);
    return number(argv[++i]);
  };
  for (; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--paths") arguments.paths = value();
    else if (name == "--steps") arguments.steps = static_cast<int>(value());
    else if (name == "--shifts") arguments.shifts = static_cast<int>(value());
    else if (name == "--seed") arguments.seed = static_cast<std::uint64_t>(value());
    else if (name == "--dump-sobol") {
      arguments.dump_points = value();
      arguments.dump_dimensions = static_cast<int>(value());
    } else usage("unknown option", name.c_str());
  }
  check(arguments);
  return arguments;
}

void dump_sobol(std::int64_t points, int dimensions) {
  const SobolDirections directions(dimensions);
  // Through the blocks, as the pricing does, not through the reference function: that is what the
  // comparison is for.
  for (std::int64_t block = 0; block * lanes < points; block += 3) {
    SobolBlocks walker(directions, static_cast<std::uint64_t>(block));
    for (std::int64_t b = block; b < block + 3 && b * lanes < points; ++b) {
      for (int lane = 0; lane < lanes && b * lanes + lane < points; ++lane) {
        for (int d = 0; d < dimensions; ++d)
          std::printf("%u%c", walker.base(d) ^ walker.low(d)[lane],
                      d + 1 == dimensions ? '\n' : ' ');
      }
      walker.advance();
    }
  }
}

int thread_count() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

struct World {
  int rank = 0;
  int size = 1;
  std::string library = "none";
};

struct Estimate {
  double mean = 0.0;
  double standard_error = 0.0;
};

Estimate estimate(const std::vector<double>& per_shift) {
  const auto n = static_cast<double>(per_shift.size());
  Estimate result;
  for (double value : per_shift) result.mean += value / n;
  double squares = 0.0;
  for (double value : per_shift) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (n - 1.0) / n);
  return result;
}

int run(const Arguments& arguments, const World& world) {
  const Pricer pricer(Option{}, arguments.steps, arguments.seed);
  // The last path of a shift may be cut so that the total is exact in chunks; the price is the mean
  // over equal shifts.
  const std::int64_t per_shift = arguments.paths / arguments.shifts;
  const std::int64_t chunks_per_shift = (per_shift + chunk_paths - 1) / chunk_paths;
  const std::int64_t chunks = chunks_per_shift * arguments.shifts;
  const std::int64_t begin = chunks * world.rank / world.size;
  const std::int64_t end = chunks * (world.rank + 1) / world.size;
  std::vector<double> sums(static_cast<std::size_t>(2 * chunks), 0.0);
#ifdef HPCAAS_MPI
  MPI_Barrier(MPI_COMM_WORLD);
#endif
  const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t c = begin; c < end; ++c) {
    const std::int64_t first = (c % chunks_per_shift) * chunk_paths;
    const std::int64_t count = per_shift - first < chunk_paths ? per_shift - first : chunk_paths;
    const Sums part = pricer.chunk(static_cast<int>(c / chunks_per_shift), first, count);
    sums[static_cast<std::size_t>(2 * c)] = part.european;
    sums[static_cast<std::size_t>(2 * c + 1)] = part.asian;
  }
#ifdef HPCAAS_MPI
  // Every chunk is non-zero on exactly one rank, so this sum is a gather and rounds nothing.
  std::vector<double> all(sums.size(), 0.0);
  MPI_Reduce(sums.data(), all.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, 0,
             MPI_COMM_WORLD);
  sums.swap(all);
#endif
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                             .count();
  if (world.rank != 0) return 0;

  std::vector<double> european(static_cast<std::size_t>(arguments.shifts), 0.0);
  std::vector<double> asian(static_cast<std::size_t>(arguments.shifts), 0.0);
  for (std::int64_t c = 0; c < chunks; ++c) {
    const auto shift = static_cast<std::size_t>(c / chunks_per_shift);
    european[shift] += sums[static_cast<std::size_t>(2 * c)] * pricer.discount() /
                       static_cast<double>(per_shift);
    asian[shift] += sums[static_cast<std::size_t>(2 * c + 1)] * pricer.discount() /
                    static_cast<double>(per_shift);
  }
  const Estimate e = estimate(european);
  const Estimate a = estimate(asian);
  const auto paths = static_cast<double>(per_shift * arguments.shifts);
  std::printf(
      "{\"program\": \"hpcaas_montecarlo\", \"paths\": %.0f, \"steps\": %d, \"shifts\": %d, "
      "\"price\": %.17g, \"error\": %.6g, "
      "\"black_scholes\": %.17g, \"asian\": %.17g, \"asian_error\": %.6g, \"asian_exact\": %.17g, "
      "\"seconds\": %.6f, "
      "\"paths_per_s\": %.1f, \"ranks\": %d, \"threads\": %d, \"mpi\": \"%s\"}\n",
      paths, arguments.steps, arguments.shifts, e.mean, e.standard_error,
      pricer.black_scholes_put(), a.mean, a.standard_error, pricer.geometric_asian_put(), seconds,
      paths / seconds, world.size, thread_count(), world.library.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  World world;
#ifdef HPCAAS_MPI
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  // One line, and nothing that would end a JSON string.
  for (int i = 0; i < length && version[i] != '\n' && world.library.size() < 120; ++i) {
    if (i == 0) world.library.clear();
    const char c = version[i];
    world.library += (c == '"' || c == '\\' || c < ' ') ? ' ' : c;
  }
#endif
  int status = 0;
  if (arguments.dump_points > 0) dump_sobol(arguments.dump_points, arguments.dump_dimensions);
  else status = run(arguments, world);
#ifdef HPCAAS_MPI
  MPI_Finalize();
#endif
  return status;
}
