// What the start of a job costs. `cluster_start rank`, under skerry run: a program that starts and
// ends. `cluster_start exchange RANKS PER_NODE`: the launcher's part for so many ranks, one line of
// JSON: every frame of the start is encoded, decoded and answered by the launcher's own code, in
// one process without a network.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "job/bootstrap/control_protocol.hpp"
#include "launcher/exchange.hpp"
#include "skerry/skerry.h"

namespace {

using skerry::job::Frame;
using skerry::job::FrameBuffer;
using skerry::job::FrameReader;
using skerry::job::FrameType;
using skerry::job::FrameWriter;
using skerry::launcher::Exchange;

// As src/job/job.cpp puts them.
constexpr size_t host_card_bytes = 48, address_bytes = 68, invitation_bytes = 32;

class Start {
 public:
  Start(uint32_t ranks, uint32_t per_node) : ranks_(ranks), per_node_(per_node), exchange_(ranks) {}

  void run() {
    for (uint32_t r = 0; r < ranks_; ++r) hello(r);
    for (uint32_t r = 0; r < ranks_; ++r) put(r, "host", host_card_bytes, r / per_node_);
    fence();
    for (uint32_t r = 0; r < ranks_; ++r) {
      get(r, 0, "host");
      lowest(r);
    }
    for (uint32_t r = 0; r < ranks_; r += per_node_) list(r, "host");
    for (uint32_t r = 0; r < ranks_; r += per_node_) put(r, "address", address_bytes, r);
    fence();
    for (uint32_t r = 0; r < ranks_; r += per_node_) list(r, "address");
    for (uint32_t r = 0; r < ranks_; r += per_node_) put(r, "node", invitation_bytes, r);
    fence();
    for (uint32_t r = 0; r < ranks_; ++r)
      if (r % per_node_ != 0) get(r, r - r % per_node_, "node");
    fence();
  }
  void print(double seconds) const {
    std::printf(
        "{\"ranks\": %u, \"per_node\": %u, \"frames_in\": %llu, \"bytes_in\": %llu, "
        "\"frames_out\": %llu, \"bytes_out\": %llu, \"list_bytes\": %llu, \"processor_s\": %.6f}\n",
        ranks_, per_node_, frames_in_, bytes_in_, frames_out_, bytes_out_, list_bytes_, seconds);
  }

 private:
  // A frame on its way to the launcher: encoded, and decoded again.
  void arrives(const std::vector<std::byte>& bytes) {
    ++frames_in_;
    bytes_in_ += bytes.size();
    buffer_.append(bytes);
    std::optional<Frame> frame;
    if (!buffer_.next(&frame).ok() || !frame) std::abort();
  }
  void leaves(const std::vector<std::byte>& bytes) {
    ++frames_out_;
    bytes_out_ += bytes.size();
  }
  static void check(const skerry::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "cluster_start: %s\n", status.message().c_str());
    std::exit(1);
  }
  void hello(uint32_t rank) {
    arrives(FrameWriter(FrameType::hello, rank).u32(rank).finish());
    check(exchange_.hello(rank));
    leaves(FrameWriter(FrameType::welcome, rank)
               .u32(rank)
               .u32(ranks_)
               .u32(rank / per_node_)
               .u32(0)
               .u32(0)
               .u32(1)
               .bytes(std::span(value_).first(32))
               .finish());  // the job key
  }
  std::span<const std::byte> value(size_t bytes, uint32_t differs) {
    std::memcpy(value_, &differs, sizeof differs);
    return std::span(value_).first(bytes);
  }
  void put(uint32_t rank, std::string_view key, size_t bytes, uint32_t differs) {
    const auto what = value(bytes, differs);
    arrives(FrameWriter(FrameType::put, rank).string(key).bytes(what).finish());
    check(exchange_.put(rank, key, what));
  }
  void get(uint32_t rank, uint32_t of, std::string_view key) {
    arrives(FrameWriter(FrameType::get, rank).u32(of).string(key).finish());
    const auto found = exchange_.get(of, key);
    if (!found) std::abort();
    leaves(FrameWriter(FrameType::value, rank).u8(1).bytes(*found).finish());
  }
  void lowest(uint32_t rank) {
    const auto what = value(host_card_bytes, rank / per_node_);
    arrives(FrameWriter(FrameType::lowest, rank).string("host").bytes(what).finish());
    leaves(FrameWriter(FrameType::lowest_is, rank)
               .u32(exchange_.lowest("host", what).value())
               .finish());
  }
  void list(uint32_t rank, std::string_view key) {
    arrives(FrameWriter(FrameType::get_all, rank).string(key).finish());
    list_bytes_ = 0;
    for (const auto& payload : exchange_.get_all(key)) {
      leaves(FrameWriter(FrameType::values, rank).finish());  // its header; the payload is shared
      bytes_out_ += payload->size();
      list_bytes_ += payload->size();
    }
  }
  void fence() {
    for (uint32_t r = 0; r < ranks_; ++r) {
      arrives(FrameWriter(FrameType::fence, r).finish());
      check(exchange_.fence(r));
      if (r + 1 == ranks_ && exchange_.advance() != Exchange::Event::fence_done) std::abort();
    }
    for (uint32_t r = 0; r < ranks_; r += per_node_)  // to the agents
      leaves(FrameWriter(FrameType::fence_done, r).finish());
  }

  const uint32_t ranks_, per_node_;
  Exchange exchange_;
  FrameBuffer buffer_{skerry::job::max_control_payload};
  std::byte value_[64] = {};
  unsigned long long frames_in_ = 0, bytes_in_ = 0, frames_out_ = 0, bytes_out_ = 0,
                     list_bytes_ = 0;
};

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

int start_and_end() {
  skerry_job* job = nullptr;
  const bool good = skerry_init(nullptr, &job) == SKERRY_OK && skerry_finalize(job) == SKERRY_OK;
  if (!good) std::fprintf(stderr, "cluster_start: %s\n", skerry_last_error());
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "rank") return start_and_end();
  if (argc != 4 || std::string_view(argv[1]) != "exchange") {
    std::fprintf(stderr, "usage: cluster_start rank | exchange RANKS PER_NODE\n");
    return 2;
  }
  const auto ranks = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const auto per_node = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
  if (ranks == 0 || per_node == 0 || ranks % per_node != 0) {
    std::fprintf(stderr, "cluster_start: %s ranks, %s a node: give full nodes\n", argv[2], argv[3]);
    return 2;
  }
  Start start(ranks, per_node);
  start.run();
  start.print(processor_s());
}
