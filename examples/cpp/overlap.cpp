// Sums over all ranks that are made while the next ones are computed: the steps of an iteration do
// not wait for each other's allreduce.
//   skerry run -n 4 --nodes 2 build/bin/examples/overlap
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "skerry/skerry.hpp"

namespace {

constexpr int blocks = 8, block_elements = 200'000;

// This rank's part of the block's sum of 1 / k^2, from small to large.
double part_of_sum(int block, int rank, int ranks) {
  double sum = 0;
  const int first = block * block_elements;
  for (int i = block_elements - 1; i >= 0; --i)
    if (i % ranks == rank) sum += 1.0 / (double(first + i + 1) * double(first + i + 1));
  return sum;
}

}  // namespace

int main() {
  sk::Job job;
  std::array<double, blocks> sums{};
  std::vector<sk::Handle> begun;
  for (int block = 0; block < blocks; ++block) {
    double& sum = sums[static_cast<size_t>(block)];
    sum = part_of_sum(block, job.rank(), job.size());
    begun.push_back(job.world().allreduce_nb(std::span<double>(&sum, 1)));  // goes on meanwhile
  }
  double total = 0;
  for (int block = blocks - 1; block >= 0; --block) {
    begun[static_cast<size_t>(block)].wait();
    total += sums[static_cast<size_t>(block)];
  }
  const double rest = 1.0 / (blocks * block_elements);  // what is left out, nearly
  const double error = std::abs(total + rest - std::acos(-1.0) * std::acos(-1.0) / 6);
  if (job.rank() == 0) std::printf("pi^2 / 6 is %.9f\n", total + rest);
  return error < 1e-9 ? 0 : 1;
}
