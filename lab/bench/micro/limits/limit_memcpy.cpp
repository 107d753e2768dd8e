// The limit of this machine's memory: memcpy of one block size between two buffers, rotating over a
// footprint so that the caches do not hold it.
//   limit_memcpy [--bytes 1048576] [--footprint 67108864] [--cpu N]
#include <sys/mman.h>

#include "../common.hpp"

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  if (arguments.has("--help")) {
    std::puts(
        "limit_memcpy [--bytes 1048576] [--footprint 67108864] [--cpu N]: memcpy bandwidth, GB/s");
    return 0;
  }
  bench::pin(static_cast<int>(arguments.number("--cpu", -1)));
  const auto bytes = static_cast<size_t>(arguments.number("--bytes", 1 << 20));
  const auto footprint = static_cast<size_t>(arguments.number("--footprint", 64 << 20));
  const size_t half = footprint / 2;
  const size_t blocks = half / bytes ? half / bytes : 1;
  const size_t mapped = blocks * bytes;
  void* from = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  void* to = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (from == MAP_FAILED || to == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  std::memset(from, 1, mapped);
  std::memset(to, 2, mapped);
  size_t at = 0;
  const double ns = bench::time_each_ns([&](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      std::memcpy(static_cast<char*>(to) + at * bytes, static_cast<char*>(from) + at * bytes,
                  bytes);
      at = at + 1 == blocks ? 0 : at + 1;
      bench::keep(to);
    }
  });
  bench::report("memcpy", static_cast<double>(bytes) / ns, "GB/s");
}
