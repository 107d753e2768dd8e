// The layer over Skerry.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "layer.hpp"
#include "skerry/skerry.hpp"

namespace layer {

inline std::optional<sk::Job>& job() {
  static std::optional<sk::Job> only;
  return only;
}
inline void start(int*, char***) { job().emplace(); }
inline void finish() { job().reset(); }
inline int rank() { return job()->rank(); }
inline int size() { return job()->size(); }
inline bool is_near(int rank) { return skerry_same_node(job()->get(), rank) == 1; }
inline void barrier() { job()->world().barrier(); }
[[noreturn]] inline void stop(const char* text) {
  std::fprintf(stderr, "rank %d: %s\n", rank(), text);
  skerry_abort(job()->get(), 3, text);
  std::abort();
}
inline std::vector<double> gather(double mine) {
  std::vector<double> all(static_cast<size_t>(size()));
  if (skerry_allgather(job()->world().get(), &mine, sizeof mine, all.data()) != SKERRY_OK)
    stop(skerry_last_error());
  return all;
}
inline double account_bytes() {
  skerry_memory memory{};
  memory.size = sizeof memory;
  if (skerry_memory_read(job()->get(), &memory) != SKERRY_OK) stop(skerry_last_error());
  return static_cast<double>(memory.server_connection_bytes + memory.server_known_bytes +
                             memory.server_fixed_bytes);
}

class Memory {
 public:
  explicit Memory(size_t bytes) : segment_(job()->world(), bytes) { job()->world().sync(); }
  int64_t fetch_add(int rank, size_t offset) {
    return segment_.fetch_add<int64_t>(rank, offset, 1);
  }
  void accumulate(int rank, size_t offset, std::span<const double> from) {
    if (skerry_acc_nb(segment_.get(), rank, offset, SKERRY_DOUBLE, nullptr, from.data(),
                      from.size(), SKERRY_IMPLICIT) != SKERRY_OK)
      stop(skerry_last_error());
  }
  void finish(int rank) { job()->fence(rank); }
  int64_t get(int rank, size_t offset) {
    int64_t value = 0;
    segment_.get(rank, offset, std::span<int64_t>(&value, 1));
    return value;
  }

 private:
  sk::Segment segment_;
};

}  // namespace layer
