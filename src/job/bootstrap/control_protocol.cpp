#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {

const char* to_string(FrameType type) {
  switch (type) {
    case FrameType::hello: return "hello";
    case FrameType::put: return "put";
    case FrameType::get: return "get";
    case FrameType::fence: return "fence";
    case FrameType::finish: return "finish";
    case FrameType::abort: return "abort";
    case FrameType::report_failures: return "report_failures";
    case FrameType::get_all: return "get_all";
    case FrameType::lowest: return "lowest";
    case FrameType::meet: return "meet";
    case FrameType::decide: return "decide";
    case FrameType::welcome: return "welcome";
    case FrameType::value: return "value";
    case FrameType::fence_done: return "fence_done";
    case FrameType::finish_done: return "finish_done";
    case FrameType::rank_died: return "rank_died";
    case FrameType::values: return "values";
    case FrameType::lowest_is: return "lowest_is";
    case FrameType::met: return "met";
    case FrameType::decided: return "decided";
    case FrameType::plan: return "plan";
    case FrameType::signal_rank: return "signal_rank";
    case FrameType::input: return "input";
    case FrameType::output_ack: return "output_ack";
    case FrameType::stop: return "stop";
    case FrameType::look: return "look";
    case FrameType::looked: return "looked";
    case FrameType::lease: return "lease";
    case FrameType::beat_back: return "beat_back";
    case FrameType::started: return "started";
    case FrameType::not_started: return "not_started";
    case FrameType::output: return "output";
    case FrameType::exited: return "exited";
    case FrameType::lost: return "lost";
    case FrameType::input_ack: return "input_ack";
    case FrameType::stopped: return "stopped";
    case FrameType::look_wanted: return "look_wanted";
    case FrameType::report: return "report";
    case FrameType::beat: return "beat";
    case FrameType::leave: return "leave";
    case FrameType::late_put: return "late_put";
    case FrameType::spares_wait: return "spares_wait";
    case FrameType::drain: return "drain";
    case FrameType::drain_told: return "drain_told";
    case FrameType::challenge: return "challenge";
    case FrameType::agent_hello: return "agent_hello";
    case FrameType::agent_welcome: return "agent_welcome";
    case FrameType::invitation: return "invitation";
  }
  return nullptr;
}

std::array<std::byte, sizeof(FrameHeader)> header_of(FrameType type, uint32_t rank,
                                                     size_t payload_bytes) {
  return std::bit_cast<std::array<std::byte, sizeof(FrameHeader)>>(FrameHeader{
      static_cast<uint32_t>(payload_bytes), static_cast<uint16_t>(type), control_version, rank});
}

FrameWriter::FrameWriter(FrameType type, uint32_t rank) : out_(sizeof(FrameHeader)) {
  const auto header = header_of(type, rank, 0);
  std::memcpy(out_.data(), header.data(), sizeof header);
}

FrameWriter& FrameWriter::raw(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), from, from + bytes);
  return *this;
}

FrameWriter& FrameWriter::string(std::string_view text) {
  u32(static_cast<uint32_t>(text.size()));
  return raw(text.data(), text.size());
}

std::vector<std::byte> FrameWriter::finish() {
  const auto payload_bytes = static_cast<uint32_t>(out_.size() - sizeof(FrameHeader));
  std::memcpy(out_.data() + offsetof(FrameHeader, payload_bytes), &payload_bytes,
              sizeof payload_bytes);
  return std::move(out_);
}

std::string_view FrameReader::string() {
  const auto data = bytes(u32());
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

std::span<const std::byte> FrameReader::bytes(size_t count) {
  if (!ok_ || count > rest_.size()) {
    ok_ = false;
    return {};
  }
  const auto data = rest_.first(count);
  rest_ = rest_.subspan(count);
  return data;
}

std::span<const std::byte> FrameReader::rest() { return bytes(ok_ ? rest_.size() : 0); }

void FrameBuffer::append(std::span<const std::byte> data) {
  if (begin_ > 0) {
    data_.erase(data_.begin(), data_.begin() + static_cast<ptrdiff_t>(begin_));
    begin_ = 0;
  }
  data_.insert(data_.end(), data.begin(), data.end());
}

Status FrameBuffer::next(std::optional<Frame>* frame) {
  frame->reset();
  FrameHeader header;
  if (buffered() < sizeof header) return {};
  std::memcpy(&header, data_.data() + begin_, sizeof header);
  if (header.version != control_version) {
    return error(Code::network, "launcher protocol version ", header.version, " where ",
                 control_version,
                 " was expected; use the `skerry` program and the library of one release");
  }
  const auto type = static_cast<FrameType>(header.type);
  if (to_string(type) == nullptr)
    return error(Code::network, "unknown launcher frame type ", header.type);
  if (header.payload_bytes > max_payload_) {
    return error(Code::network, "launcher frame ", to_string(type), " of ", header.payload_bytes,
                 " bytes is longer than ", max_payload_);
  }
  if (buffered() < sizeof header + header.payload_bytes) return {};
  *frame = Frame{type, header.rank,
                 std::span(data_).subspan(begin_ + sizeof header, header.payload_bytes)};
  begin_ += sizeof header + header.payload_bytes;
  return {};
}

Status check_key(std::string_view key) {
  if (key.empty() || key.size() > max_key_bytes) {
    return error(Code::invalid, "bootstrap key \"", key, "\" must have 1 to ", max_key_bytes,
                 " characters");
  }
  for (const char c : key) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
                      c == '_' || c == '-';
    if (!good)
      return error(Code::invalid, "bootstrap key \"", key, "\" may hold only [a-z0-9/._-]");
  }
  return {};
}

Status check_value(std::span<const std::byte> value) {
  if (value.size() <= max_value_bytes) return {};
  return error(Code::invalid, "bootstrap value of ", value.size(), " bytes is longer than ",
               max_value_bytes);
}

}  // namespace skerry::job
