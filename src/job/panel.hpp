// What a process outside the job reads of a rank: where its counters lie. The panel lies in the
// rank's own memory, which the kernel shows to the same user alone (/proc/PID/mem), and
// memory::Member::panel says where. So counters stay where they are counted, and cost nothing while
// nobody looks. The reader is launcher/look.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string_view>

#include "core/config.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "memory/spans.hpp"
#include "origin/context.hpp"
#include "server/server.hpp"
#include "share/share.hpp"

namespace skerry::job {

// What this process did, beside what the engine and the server count. Written by any thread of the
// rank; relaxed.
struct LocalCounters {
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> collectives{0};
  std::atomic<uint64_t> segments_made{0};     // of new memory
  std::atomic<uint64_t> segments_revived{0};  // of memory that a group kept

  // A load and a store instead of a locked add: at thread level multiple a count may be lost, never
  // an operation slowed.
  void add(uint64_t moved) {
    operations.store(operations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bytes.store(bytes.load(std::memory_order_relaxed) + moved, std::memory_order_relaxed);
  }
};

// A name that the program gave a rank's slice, for those who look: `text` says what is in it, to
// the reader that the name is meant for. Records stay for the life of the job, and are used again.
struct Label {
  static constexpr uint32_t name_bytes = 64, text_bytes = 448;
  std::atomic<uint64_t> segment{0};  // SegmentId::packed; 0: free. Written last. A reader takes the
                                     // rest only if it is the same before and after
  std::atomic<const Label*> next{nullptr};  // an address in this process; null: the last one
  char name[name_bytes] = {};               // zero-terminated, as is the text
  char text[text_bytes] = {};
};

// The labels of a job. Any threads set them; a reader outside takes no lock.
class Labels {
 public:
  // Names the own slice of a segment, until that is freed. An empty name takes it away. Errors:
  // invalid (too long).
  Status set(SegmentId segment, std::string_view name, std::string_view text);
  const std::atomic<const Label*>* first() const { return &first_; }

 private:
  std::mutex mutex_;
  std::list<Label> labels_;
  std::atomic<const Label*> first_{nullptr};
};

struct Panel {
  static constexpr uint64_t magic_number = 0x6c65'6e61'7079'6b73;  // "skypanel"
  static constexpr uint32_t name_bytes = 32;

  uint64_t magic = magic_number;
  // Equal in the reader: the structs below are laid out alike.
  uint64_t layout = 0;
  std::array<char, name_bytes> job{};  // its name, zero-terminated; equal on all ranks
  std::array<char, 32> metrics_key{};  // who has it may read what `skerry top --metrics` serves;
                                       // hexadecimal, not terminated; equal on all ranks
  int32_t ranks = 0;                   // of the job
  int32_t nodes = 0;
  int32_t node = 0;
  uint32_t servers = 0;    // that this process hosts
  int64_t started_ns = 0;  // monotonic clock of this machine
  // Addresses in this process.
  const LocalCounters* local = nullptr;
  const origin::EngineCounters* engine = nullptr;
  const origin::NodeTraffic* traffic = nullptr;  // `nodes` of them; null: not counted
  std::array<const server::Server::Counters*, Config::most_servers> server{};
  std::array<const share::Counters*, Config::most_servers> share{};  // null: does not forward
  const std::atomic<const Label*>* labels = nullptr;                 // where the first one is
  memory::SpanSwitch* spans = nullptr;  // its until_ns is the one thing that a reader may write
};

// Differs wherever one of the structs does, but for fields that change their places.
constexpr uint64_t panel_layout() {
  uint64_t number = 1;  // raised when fields change their places
  for (const uint64_t bytes :
       {sizeof(Panel), sizeof(Label), sizeof(LocalCounters), sizeof(origin::EngineCounters),
        sizeof(server::Server::Counters), sizeof(share::Counters), sizeof(memory::Member),
        sizeof(memory::SpanSwitch), sizeof(memory::SpanRing)})
    number = number * 1'000'003 + bytes;
  return number;
}

}  // namespace skerry::job
