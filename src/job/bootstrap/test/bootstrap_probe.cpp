// A rank for the tests of launchers: does the steps that its arguments name, one after the other.
//   join            join the job and print "rank R of P through NAME"
//   exchange        put two values (one of the largest size), fence, get everybody's, compare;
//                   also the job key; the start is over then
//   finish          leave the job
//   fence           one fence
//   report          ask to be told of dead ranks (prints "asked R" when all have asked); wait for
//                   one and print "told of D: CAUSE"
//   abort S         end the job with status S
//   exit S          end this process at once with status S
//   kill N          end this process by signal N
//   hang            sleep until a signal
//   only R          the following steps up to `all` are for rank R (SKERRY_RANK or, after join,
//                   the job's)
//   not R           the same for every rank but R
//   all             the following steps are for every rank again
//   mpi LIBRARY     load an MPI library as a program would, and initialise it
//   mpi-end         finalise it
//   pid             print "pidR P": this process's id
//   say TEXT        print TEXT
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "job/bootstrap/bootstrap.hpp"

namespace {

using namespace skerry;
using namespace skerry::job;

void must(const Status& status) {
  if (status.ok()) return;
  std::printf("failed: %s\n", status.message().c_str());
  std::fflush(stdout);
  _exit(99);
}

std::vector<std::byte> value_of(int rank, size_t bytes) {
  std::vector<std::byte> value(bytes);
  for (size_t i = 0; i < bytes; ++i)
    value[i] = static_cast<std::byte>(static_cast<size_t>(rank) * 7 + i);
  return value;
}

void exchange(Bootstrap& mine) {
  must(mine.put("probe/small", value_of(mine.rank(), 5)));
  must(mine.put("probe/large", value_of(mine.rank(), 4096)));
  must(mine.fence());
  for (int rank = 0; rank < mine.size(); ++rank) {
    std::vector<std::byte> small, large;
    must(mine.get(rank, "probe/small", &small));
    must(mine.get(rank, "probe/large", &large));
    if (small != value_of(rank, 5) || large != value_of(rank, 4096))
      must(error(Code::internal, "rank ", rank, "'s value differs"));
  }
  JobKey key;
  must(job_key(mine, &key));
  unsigned sum = 0;
  for (const std::byte b : key) sum = sum * 31 + static_cast<unsigned>(b);
  mine.start_is_over();
  std::printf("exchanged, key %08x\n", sum);
}

// An MPI program without being linked against one: the same probe serves every MPI.
void start_mpi(const char* library) {
  void* mpi = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  using Init = int (*)(int*, char***);
  const auto init = mpi != nullptr ? reinterpret_cast<Init>(dlsym(mpi, "MPI_Init")) : nullptr;
  if (init == nullptr || init(nullptr, nullptr) != 0)
    must(error(Code::config, "MPI does not start: ", mpi == nullptr ? dlerror() : library));
  std::puts("mpi started");
}

void end_mpi() {
  using Finalize = int (*)();
  const auto finalize = reinterpret_cast<Finalize>(dlsym(RTLD_DEFAULT, "MPI_Finalize"));
  if (finalize == nullptr || finalize() != 0) must(error(Code::config, "MPI does not end"));
}

}  // namespace

// Also a library, so that an interpreter can take its steps between others of its own; the job is
// kept from call to call.
extern "C" __attribute__((visibility("default"))) int skerry_probe(int count, char** arguments) {
  static std::unique_ptr<Bootstrap> mine;
  bool skip = false;
  const auto rank = [&] {
    const char* text = std::getenv("SKERRY_RANK");
    return mine ? mine->rank() : text != nullptr ? std::atoi(text) : 0;
  };
  for (int i = 0; i < count; ++i) {
    const std::string step = arguments[i];
    const auto argument = [&] { return ++i < count ? arguments[i] : "0"; };
    if (step == "all") {
      skip = false;
    } else if (step == "only") {
      skip = rank() != std::atoi(argument());
    } else if (step == "not") {
      skip = rank() == std::atoi(argument());
    } else if (step == "abort" || step == "exit" || step == "kill" || step == "say" ||
               step == "mpi") {
      const char* what = argument();
      const int number = std::atoi(what);
      if (skip) continue;
      if (step == "say") std::puts(what);
      if (step == "mpi") start_mpi(what);
      std::fflush(stdout);
      if (step == "abort") mine->abort(number, "as told");
      if (step == "exit") _exit(number);
      if (step == "kill") (void)raise(number);
    } else if (skip) {
      continue;
    } else if (step == "join") {
      must(discover(&mine));
      std::printf("rank %d of %d through %s\n", mine->rank(), mine->size(),
                  std::string(mine->name()).c_str());
    } else if (step == "exchange") {
      exchange(*mine);
    } else if (step == "fence") {
      must(mine->fence());
    } else if (step == "finish") {
      must(mine->finish());
      mine.reset();
    } else if (step == "report") {
      must(mine->report_failures());
      must(mine->fence());
      std::printf("asked %d\n", mine->rank());
      std::fflush(stdout);
      std::vector<DeadRank> dead;
      must(mine->take_events(&dead));
      while (dead.empty()) {
        pollfd ready{mine->events_fd(), POLLIN, 0};
        (void)poll(&ready, 1, -1);
        must(mine->take_events(&dead));
      }
      std::printf("told of %d: %s\n", dead[0].rank, dead[0].cause.c_str());
    } else if (step == "mpi-end") {
      end_mpi();
    } else if (step == "pid") {
      std::printf("pid%d %d\n", rank(), static_cast<int>(getpid()));
    } else if (step == "hang") {
      std::fflush(stdout);
      while (true) (void)pause();
    } else {
      std::fprintf(stderr, "bootstrap_probe: unknown step %s\n", step.c_str());
      return 2;
    }
    std::fflush(stdout);
  }
  return 0;
}

int main(int count, char** arguments) { return skerry_probe(count - 1, arguments + 1); }
