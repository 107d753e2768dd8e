// A loop of sk::Steps in a job whose ranks die. Cells are divided evenly; each step adds one to
// all, and to the total what all had. At the end every cell has the number of steps.
//
// steps SPARES DEATHS: in each step one rank draws whether it dies, by its own process number. With
// fewer spares than deaths the cells are divided anew among those that live. Fails if a cell or the
// total is wrong.
//
// steps SPARES DEATHS HOSTS: one rank dies in step 10. In step 20 a host is added to the file that
// the launcher reads (--elastic). In the end the group has as many members as before.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <skerry/steps.hpp>
#include <thread>

namespace {

constexpr std::uint64_t cells = 840, steps = 60;  // divisible by 2 to 8

// Adds a host once, and waits until its ranks are there.
void await_host(const sk::Group& group, bool is_first, const char* hosts) {
  static bool is_written = false;
  if (is_first && !is_written) std::ofstream(hosts, std::ios::app) << "h3:2\n";
  is_written = true;
  for (int i = 0; i < 600 && group.spares() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

int main(int count, char** words) try {
  const int spares = count > 1 ? std::atoi(words[1]) : 0;
  const int deaths = count > 2 ? std::atoi(words[2]) : spares;
  const char* const hosts = count > 3 ? words[3] : nullptr;
  sk::Job job(sk::ThreadLevel::multiple, sk::OnFailure::continues);
  job.hear();
  std::mt19937 random(static_cast<unsigned>(getpid()));
  std::vector<double> mine(cells / static_cast<std::uint64_t>(job.size()));
  double total = 0;
  const bool is_on_one_node = job.size() == job.node_size(0);  // its leader may not die
  sk::Steps loop(job, steps, 4, is_on_one_node ? 0 : 1);
  const auto protect = [&] {
    loop.protect_nothing();
    loop.protect(std::span(mine)).protect(std::span(&total, 1));
  };
  protect();
  const auto divide = [&](const sk::Protected& state) {
    const auto members = static_cast<std::uint64_t>(state.group().size());
    const auto places = static_cast<std::uint64_t>(state.places());
    const std::uint64_t each = cells / members, before = cells / places;
    const std::uint64_t first = each * static_cast<std::uint64_t>(state.group().index(job.rank()));
    mine.assign(each, 0);
    for (std::uint64_t i = 0; i < each; ++i) {
      const std::uint64_t cell = first + i;
      state.read(static_cast<int>(cell / before), cell % before * sizeof(double),
                 std::as_writable_bytes(std::span(&mine[i], 1)));
    }
    state.read(0, before * sizeof(double), std::as_writable_bytes(std::span(&total, 1)));
    protect();
  };
  loop.run(
      [&](std::uint64_t step, const sk::Group& group) {
        const int dead = static_cast<int>(job.failed().size());
        const auto turn = static_cast<int>(step) % group.size();
        const bool may_die = dead < deaths && group.index(job.rank()) == turn &&
                             !(is_on_one_node && job.rank() == 0);
        if (may_die && (hosts != nullptr ? step == 10 : random() % 6 == 0))
          (void)kill(getpid(), SIGKILL);
        if (hosts != nullptr && step >= 20 && group.size() < job.size())
          await_host(group, group.index(job.rank()) == 0, hosts);
        double sum = 0;
        for (double& cell : mine) sum += cell += 1;
        sum = group.allreduce(sum);
        if (sum != static_cast<double>(cells * (step + 1))) {
          std::printf("wrong: the sum of step %d is %g\n", static_cast<int>(step), sum);
          std::exit(3);
        }
        total += sum;
      },
      divide);
  for (const double cell : mine)
    if (cell != steps) return std::printf("wrong: a cell is %g\n", cell), 3;
  if (total != static_cast<double>(cells * steps * (steps + 1) / 2))
    return std::printf("wrong: the total is %g\n", total), 3;
  // The next loop is over those that live, former spares among them.
  double rounds = 0;
  sk::Steps next(loop.state().group(), 3, 1, 0);
  next.protect(std::span(&rounds, 1));
  next.run([&](std::uint64_t, const sk::Group& group) {
    rounds += group.allreduce(1.0) / group.size();
  });
  if (rounds != 3) return std::printf("wrong: the next loop made %g rounds\n", rounds), 3;
  std::printf("rank %d ends in a group of %d, recovered %d times\n", job.rank(),
              loop.state().group().size(), loop.recovered());
  job.finalize();
  return 0;
} catch (const sk::Error& error) {
  std::printf("wrong: %s\n", error.what());
  return 3;
}
