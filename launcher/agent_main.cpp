#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "launcher/agent.hpp"
#include "launcher/describe.hpp"
#include "launcher/reception.hpp"

namespace skerry::launcher {
namespace {

using job::Frame;
using job::FrameReader;
using job::FrameType;

constexpr size_t max_invitation_payload = 64 * 1024;

struct Invitation {
  uint32_t agent = 0;
  Key key{};
  uint16_t port = 0;
  std::vector<std::string> addresses;
};

Status read_invitation(Invitation* invitation) {
  job::FrameBuffer buffer(max_invitation_payload);
  std::optional<Frame> frame;
  while (!frame) {
    std::byte chunk[4096];
    const ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return error(
          Code::config,
          "no invitation on standard input; `skerry agent` is started by `skerry run --hosts`");
    buffer.append(std::span(chunk, static_cast<size_t>(got)));
    SKERRY_TRY(buffer.next(&frame));
  }
  FrameReader reader(*frame);
  invitation->agent = reader.u32();
  const auto key = reader.bytes(invitation->key.size());
  invitation->port = static_cast<uint16_t>(reader.u32());
  const uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && reader.ok(); ++i)
    invitation->addresses.emplace_back(reader.string());
  if (frame->type != FrameType::invitation || !reader.done())
    return error(Code::config, "the invitation makes no sense");
  std::memcpy(invitation->key.data(), key.data(), key.size());
  return {};
}

}  // namespace

int agent_main() {
  Invitation invitation;
  UniqueFd socket;
  Status status = read_invitation(&invitation);
  if (status.ok()) {
    status = report_to_launcher(invitation.addresses, invitation.port, invitation.agent,
                                invitation.key, &socket);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "skerry: agent on host %s: %s\n", own_host_name().c_str(),
                 status.message().c_str());
    return 1;
  }
  return run_agent(std::move(socket), UniqueFd(STDIN_FILENO), invitation.key);
}

}  // namespace skerry::launcher
