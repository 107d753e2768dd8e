#include "launcher/plan.hpp"

namespace skerry::launcher {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

namespace {

void write_strings(FrameWriter* writer, const std::vector<std::string>& strings) {
  writer->u32(static_cast<uint32_t>(strings.size()));
  for (const auto& text : strings) writer->string(text);
}

void read_strings(FrameReader* reader, std::vector<std::string>* strings) {
  const uint32_t count = reader->u32();
  for (uint32_t i = 0; i < count && reader->ok(); ++i) strings->emplace_back(reader->string());
}

}  // namespace

std::vector<std::byte> encode(const Plan& plan) {
  FrameWriter writer(FrameType::plan);
  writer.u32(plan.size)
      .u32(plan.nodes)
      .u8(static_cast<uint8_t>(plan.input))
      .u8(static_cast<uint8_t>(plan.bind));
  writer.string(plan.directory);
  write_strings(&writer, plan.command);
  write_strings(&writer, plan.environment);
  writer.u32(static_cast<uint32_t>(plan.ranks.size()));
  for (const auto& planned : plan.ranks) writer.u32(planned.rank).u32(planned.node);
  return writer.finish();
}

Status decode(const Frame& frame, Plan* plan) {
  *plan = {};
  FrameReader reader(frame);
  plan->size = reader.u32();
  plan->nodes = reader.u32();
  const uint8_t input = reader.u8(), bind = reader.u8();
  plan->directory = reader.string();
  read_strings(&reader, &plan->command);
  read_strings(&reader, &plan->environment);
  const uint32_t ranks = reader.u32();
  for (uint32_t i = 0; i < ranks && reader.ok(); ++i) {
    const uint32_t rank = reader.u32(), node = reader.u32();
    plan->ranks.push_back({rank, node});
    if (rank >= plan->size || node >= plan->nodes)
      return error(Code::network, "the launcher's plan names rank ", rank);
  }
  if (!reader.done() || input > static_cast<uint8_t>(Input::piped) ||
      bind > static_cast<uint8_t>(Bind::core) || plan->command.empty()) {
    return error(Code::network, "the launcher's plan makes no sense");
  }
  plan->input = static_cast<Input>(input);
  plan->bind = static_cast<Bind>(bind);
  return {};
}

}  // namespace skerry::launcher
