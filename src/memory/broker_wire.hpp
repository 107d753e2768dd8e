// Messages between members and broker of a node: datagrams on a SOCK_SEQPACKET socket, a reply for
// each request, one request at a time.
// Both ends are the same build on the same machine, so the native layout suffices. Internal to
// the room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace skerry::memory::broker_wire {

constexpr uint64_t magic = 0x346b'6f72'6279'6b73;  // "skybrok4": changes with any change below

enum class Op : uint32_t { attach = 1, detach = 2, give_back = 3 };

struct Request {
  uint64_t magic_number;
  std::array<std::byte, 16> token;
  uint32_t op;
  uint32_t members;
  uint64_t id;  // SegmentId::packed
  uint64_t total_bytes;
  uint64_t address;  // attach: where to map it; 0: anywhere
};
static_assert(sizeof(Request) == 56);

struct Reply {
  uint64_t magic_number;
  int32_t status;  // Code
  uint32_t more;   // give_back: 1 if this was a part; ask again
  uint64_t base;   // attach by a member of the broker's own process: the broker's mapping.
                   // Otherwise 0, and the descriptor comes along
  char text[232];  // of a failure; zero-terminated
};
static_assert(sizeof(Reply) == 256);

}  // namespace skerry::memory::broker_wire
