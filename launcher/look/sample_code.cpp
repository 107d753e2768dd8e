// Samples as bytes, for the way from one machine to another.
#include "job/bootstrap/control_protocol.hpp"
#include "launcher/look/sample.hpp"

namespace skerry::look {
namespace {

using job::FrameReader;
using job::FrameWriter;

constexpr uint32_t version = 1;
constexpr uint32_t most_nodes = 10'000'000;

void write(const memory::LockName& lock, FrameWriter* to) {
  to->u64(lock.segment.packed()).u32(static_cast<uint32_t>(lock.rank)).u32(lock.index);
}
memory::LockName read_lock(FrameReader* from) {
  const uint64_t segment = from->u64();
  const auto rank = static_cast<Rank>(from->u32());
  return {SegmentId::unpacked(segment), rank, from->u32()};
}

void write(const RankSample& rank, FrameWriter* to) {
  to->u32(static_cast<uint32_t>(rank.rank)).u32(static_cast<uint32_t>(rank.node));
  to->u32(static_cast<uint32_t>(rank.pid)).u64(static_cast<uint64_t>(rank.time_ns));
  to->u8(rank.wait.has_value());
  if (rank.wait) {
    to->u64(static_cast<uint64_t>(rank.wait->since_ns)).string(rank.wait->text);
    write(rank.wait->lock, to);
  }
  for (const uint64_t value : rank.values) to->u64(value);
  uint32_t used = 0;
  for (const origin::NodeTraffic& each : rank.to) used += each.operations != 0;
  to->u32(used);
  for (size_t node = 0; node < rank.to.size(); ++node)
    if (rank.to[node].operations != 0)
      to->u32(static_cast<uint32_t>(node)).u64(rank.to[node].operations).u64(rank.to[node].bytes);
}

RankSample read_rank(FrameReader* from, int32_t nodes) {
  RankSample rank;
  rank.rank = static_cast<Rank>(from->u32());
  rank.node = static_cast<int32_t>(from->u32());
  rank.pid = static_cast<pid_t>(from->u32());
  rank.time_ns = static_cast<int64_t>(from->u64());
  if (from->u8() != 0) {
    Wait& wait = rank.wait.emplace();
    wait.since_ns = static_cast<int64_t>(from->u64());
    wait.text = from->string();
    wait.lock = read_lock(from);
  }
  for (uint64_t& value : rank.values) value = from->u64();
  rank.to.resize(static_cast<size_t>(nodes));
  for (uint32_t used = from->u32(); used > 0 && from->ok(); --used) {
    const uint32_t node = from->u32();
    const uint64_t operations = from->u64(), bytes = from->u64();
    if (node < rank.to.size()) rank.to[node] = {operations, bytes};
  }
  return rank;
}

LockSample read_lock_sample(FrameReader* from) {
  LockSample lock;
  lock.lock = read_lock(from);
  lock.holders.is_known = true;
  lock.holders.word = from->u64();
  lock.holders.unnamed = from->u64();
  for (uint32_t count = from->u32(); count > 0 && from->ok(); --count)
    lock.holders.ranks.push_back(static_cast<Rank>(from->u32()));
  return lock;
}

}  // namespace

std::vector<std::byte> encode(const Sample& sample) {
  FrameWriter to(job::FrameType::report);
  to.u32(version).u64(job::panel_layout()).string(sample.job).string(sample.program);
  to.u32(static_cast<uint32_t>(sample.all_ranks)).u32(static_cast<uint32_t>(sample.all_nodes));
  to.u64(static_cast<uint64_t>(sample.age_ns));
  to.u32(static_cast<uint32_t>(sample.ranks.size()));
  for (const RankSample& rank : sample.ranks) write(rank, &to);
  to.u32(static_cast<uint32_t>(sample.nodes.size()));
  for (const NodeSample& node : sample.nodes) {
    to.u32(static_cast<uint32_t>(node.node)).u64(static_cast<uint64_t>(node.time_ns));
    for (const uint64_t value : node.values) to.u64(value);
  }
  to.u32(static_cast<uint32_t>(sample.locks.size()));
  for (const LockSample& each : sample.locks) {
    write(each.lock, &to);
    to.u64(each.holders.word).u64(each.holders.unnamed);
    to.u32(static_cast<uint32_t>(each.holders.ranks.size()));
    for (const Rank rank : each.holders.ranks) to.u32(static_cast<uint32_t>(rank));
  }
  std::vector<std::byte> whole = to.finish();
  whole.erase(whole.begin(), whole.begin() + sizeof(job::FrameHeader));
  return whole;
}

Status decode(std::span<const std::byte> bytes, Sample* sample) {
  FrameReader from({job::FrameType::report, 0, bytes});
  if (from.u32() != version || from.u64() != job::panel_layout())
    return error(Code::invalid, "it runs another version of Skerry");
  sample->job = from.string();
  sample->program = from.string();
  sample->all_ranks = static_cast<int32_t>(from.u32());
  sample->all_nodes = static_cast<int32_t>(from.u32());
  sample->age_ns = static_cast<int64_t>(from.u64());
  const auto nodes = static_cast<uint32_t>(sample->all_nodes);
  if (nodes > most_nodes) return error(Code::invalid, "its report is damaged");
  for (uint32_t count = from.u32(); count > 0 && from.ok(); --count)
    sample->ranks.push_back(read_rank(&from, sample->all_nodes));
  for (uint32_t count = from.u32(); count > 0 && from.ok(); --count) {
    NodeSample& node = sample->nodes.emplace_back();
    node.node = static_cast<int32_t>(from.u32());
    node.time_ns = static_cast<int64_t>(from.u64());
    for (uint64_t& value : node.values) value = from.u64();
  }
  for (uint32_t count = from.u32(); count > 0 && from.ok(); --count)
    sample->locks.push_back(read_lock_sample(&from));
  return from.done() ? Status() : error(Code::invalid, "its report is damaged");
}

}  // namespace skerry::look
