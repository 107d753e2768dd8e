// Frames over a socket: in order, and payloads that many links send are kept once.
#include "launcher/link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace skerry::launcher {
namespace {

using job::Frame;
using job::FrameType;
using job::FrameWriter;

// Both ends of a connection; what arrives at one end is noted.
struct Pair {
  explicit Pair(EventLoop& loop) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    const auto end = [](const std::string&) {};
    from = std::make_unique<Link>(loop, UniqueFd(fds[0]), 64, [](const Frame&) {}, end);
    const auto note = [this, &loop](const Frame& frame) {
      types.push_back(frame.type);
      ranks.push_back(frame.rank);
      bytes += frame.payload.size();
      if (!frame.payload.empty()) last = frame.payload.back();
      if (frame.type == FrameType::stop) loop.stop(0);
    };
    to = std::make_unique<Link>(loop, UniqueFd(fds[1]), job::max_link_payload, note, end);
  }
  std::unique_ptr<Link> from, to;
  std::vector<FrameType> types;
  std::vector<uint32_t> ranks;
  size_t bytes = 0;
  std::byte last{};
};

TEST(Link, APayloadThatManyLinksSendIsKeptOnce) {
  EventLoop loop;
  loop.after(std::chrono::seconds(60), [&] { loop.stop(1); });
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<std::byte> list(4 << 20, std::byte{7});
  list.back() = std::byte{9};
  const Link::Payload payload = std::make_shared<std::vector<std::byte>>(list);
  constexpr uint32_t links = 8;
  for (uint32_t i = 0; i < links; ++i) {
    pairs.push_back(std::make_unique<Pair>(loop));
    Link& link = *pairs.back()->from;
    link.send(FrameWriter(FrameType::value, i).u8(1).finish());
    link.send(FrameType::values, i, payload);
    link.send(FrameType::values, i, payload);
    link.send(FrameType::values, i, std::make_shared<std::vector<std::byte>>());
    EXPECT_FALSE(link.all_sent());  // nobody has read: each waits with its own place in the payload
  }
  EXPECT_EQ(payload.use_count(), 1 + 2 * links);
  for (uint32_t i = 0; i < links; ++i) {
    Pair& pair = *pairs[i];
    pair.from->send(FrameWriter(FrameType::stop, i).finish());
    while (pair.types.empty() || pair.types.back() != FrameType::stop) ASSERT_EQ(loop.run(), 0);
    EXPECT_TRUE(pair.from->all_sent());
    EXPECT_EQ(pair.types, (std::vector{FrameType::value, FrameType::values, FrameType::values,
                                       FrameType::values, FrameType::stop}));
    EXPECT_EQ(pair.ranks, std::vector<uint32_t>(5, i));
    EXPECT_EQ(pair.bytes, 1 + 2 * list.size());
    EXPECT_EQ(pair.last, std::byte{9});
  }
  EXPECT_EQ(payload.use_count(), 1);
}

}  // namespace
}  // namespace skerry::launcher
