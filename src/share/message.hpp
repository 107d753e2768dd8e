// What the messages of links and trunks begin with. The rest of the header and the payload are
// the channel's own.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/pure/ids.hpp"
#include "fabric/fabric.h"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::no_endpoint;
using fabric::RequestId;
using fabric::SendResult;
using fabric::Verdict;

constexpr uint8_t version = 5;

// Of a long payload. A part that is read in one piece is passed on without a copy, and the next
// server works on it while the next part is read. With 64 KiB, which seldom came in one piece, long
// payloads took 2 to 3 times as long; with 16 KiB 1.5 times.
constexpr uint64_t part_bytes = 32 * 1024;
// Of one message. A trunk that makes way waits 100 ms for what is under way, which a longer one
// might need again and again.
constexpr uint64_t most_payload_bytes = 512 * 1024;

enum class Kind : uint8_t {
  open = 1,      // the end that opened the trunk begins a channel. Header: the hello; payload: the
                 // address of the data server; `servers`: how many it has passed
  accepted = 2,  // header: the answer
  closed = 3,    // last message of a channel, from either side. Header: reason 1, then text for
                 // people
  data = 4,
  taken = 5,  // nothing but what its prefix says
  leave = 6,  // proxy to the channel's beginning: the slot of its trunk is needed: drain and close
  held = 7,   // to the rank that opened the channel: the data server, or the proxy on the way, is
              // there and has no slot yet. It will answer; it may take long
  begin = 8,  // data with a long payload. Header: its bytes in all, in 8 bytes, then the message's
              // own; payload: the first part of it
  part = 9,   // no header; payload: the next part. Nothing of the channel's own comes in between
};
inline bool carries_data(Kind kind) {
  return kind == Kind::data || kind == Kind::begin || kind == Kind::part;
}

struct Prefix {
  uint8_t version;
  uint8_t kind;
  uint16_t servers;  // open: data servers on the way so far, without the one that gets this; 0 in
                     // other kinds
  uint32_t channel;  // of this link or trunk: given out by the end that opened it
  uint64_t taken;  // data, begin, part, taken: cost of what this end of the channel has taken from
                   // the other so far; open, accepted: the channel's window; 0 in other kinds
};
static_assert(sizeof(Prefix) == 16);

// The number of a trunk's next channel. Numbers come again after 2^32 channels, some 5 days of
// 10,000 a second; 8 bytes of them would make each channel that passes a gate dearer. What is taken
// is skipped, and an old message cannot meet a new channel of its number: a trunk keeps the order,
// so what was sent before 2^32 openings arrived before them. 0 is none.
template <class IsTaken>
uint32_t next_channel(uint32_t newest, IsTaken&& is_taken) {
  do ++newest;
  while (newest == 0 || is_taken(newest));
  return newest;
}

inline uint64_t cost_of(uint64_t header_bytes, uint64_t payload_bytes) {
  return 64 + header_bytes + payload_bytes;
}

inline bool decode(Bytes header, Prefix* prefix) {
  if (header.size() < sizeof *prefix) return false;
  std::memcpy(prefix, header.data(), sizeof *prefix);
  return prefix->version == version && prefix->kind >= static_cast<uint8_t>(Kind::open) &&
         prefix->kind <= static_cast<uint8_t>(Kind::part);
}

// A message's header on its way out.
struct Header {
  std::byte bytes[fabric::max_header_bytes];
  uint32_t size = 0;
  Header(const Prefix& prefix, Bytes rest)
      : size(static_cast<uint32_t>(sizeof prefix + rest.size())) {
    std::memcpy(bytes, &prefix, sizeof prefix);
    if (!rest.empty()) std::memcpy(bytes + sizeof prefix, rest.data(), rest.size());
  }
  Bytes get() const { return {bytes, size}; }
};

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A server's address, as its listen returns it: the node in 4 bytes, then that of the fabric
// beneath.
inline std::string address_with_node(NodeId node, Bytes address) {
  return text_of(std::as_bytes(std::span(&node, 1))) + text_of(address);
}
inline bool read_node(std::string_view address, NodeId* node) {
  if (address.size() <= sizeof *node) return false;
  std::memcpy(node, address.data(), sizeof *node);
  return *node >= 0;
}
inline std::string_view without_node(std::string_view address) {
  return address.substr(sizeof(NodeId));
}

inline std::string closed_text(CloseReason reason, std::string_view detail) {
  std::string text(1, static_cast<char>(reason));
  text += detail.substr(0, 200);
  return text;
}

}  // namespace skerry::share
