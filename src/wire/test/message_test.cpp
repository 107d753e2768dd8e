#include "wire/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace skerry::wire {
namespace {

Request any_request(std::mt19937_64& random) {
  static constexpr Kind kinds[] = {
      Kind::put,  Kind::get,    Kind::accumulate,   Kind::read_modify_write,
      Kind::lock, Kind::unlock, Kind::fetch_update, Kind::lock_note};
  Request r;
  r.header.version = version;
  const Kind kind = kinds[random() % std::size(kinds)];
  r.header.kind = static_cast<uint8_t>(kind);
  r.header.number = random() | 1;
  r.header.offset = random();
  if (kind == Kind::put || kind == Kind::accumulate)
    r.header.flags |= static_cast<uint8_t>(random() % 2 ? flag_notify : 0);
  if (kind == Kind::accumulate)
    r.header.flags |= static_cast<uint8_t>(random() % 2 ? flag_scaled : 0);
  const bool updates = kind == Kind::accumulate || kind == Kind::fetch_update;
  if (updates) r.header.operation = static_cast<uint8_t>(random());
  if (kind == Kind::put || kind == Kind::get || updates) {
    switch (random() % 3) {
      case 0: break;
      case 1:
        r.header.flags |= flag_strided;
        r.shape.levels = static_cast<uint32_t>(random() % (max_levels + 1));
        r.shape.block_bytes = random();
        for (uint32_t k = 0; k < r.shape.levels; ++k)
          r.level[k] = {random(), static_cast<int64_t>(random())};
        break;
      case 2:
        r.header.flags |= flag_vector;
        r.header.piece_count = static_cast<uint16_t>(random() | 1);
        break;
    }
  }
  if (kind == Kind::get || kind == Kind::fetch_update) r.extent_bytes = random();
  if (r.has(flag_notify)) r.notify = {random(), random()};
  if (kind == Kind::read_modify_write || kind == Kind::lock || kind == Kind::unlock ||
      kind == Kind::lock_note)
    r.operands = {random(), random()};
  return r;
}

TEST(Wire, EveryRequestDecodesToWhatWasEncoded) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const Request sent = any_request(random);
    std::array<std::byte, max_request_bytes> buffer;
    const uint32_t length = encode(sent, buffer);
    Request got;
    const Status s = decode(Bytes(buffer.data(), length), &got);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(got.header.offset, sent.header.offset);
    EXPECT_EQ(got.header.flags, sent.header.flags);
    EXPECT_EQ(got.header.operation, sent.header.operation);
    EXPECT_EQ(got.extent_bytes, sent.extent_bytes);
    EXPECT_EQ(std::memcmp(&got.notify, &sent.notify, sizeof sent.notify), 0);
    EXPECT_EQ(std::memcmp(&got.operands, &sent.operands, sizeof sent.operands), 0);
    EXPECT_EQ(got.shape.levels, sent.shape.levels);
    EXPECT_EQ(std::memcmp(got.level, sent.level, sizeof sent.level), 0);
  }
}

TEST(Wire, EveryTruncationIsRefused) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; ++i) {
    std::array<std::byte, max_request_bytes> buffer;
    const uint32_t length = encode(any_request(random), buffer);
    for (uint32_t cut = 0; cut < length; ++cut) {
      const std::vector<std::byte> exact(
          buffer.begin(), buffer.begin() + cut);  // so that ASan sees any read beyond
      Request got;
      EXPECT_FALSE(decode(Bytes(exact), &got).ok());
    }
  }
}

// Fuzz: bytes flipped and bytes from nowhere give a status, never a crash or a read beyond the
// span.
TEST(Wire, GarbageGivesAStatus) {
  std::mt19937_64 random(3);
  uint64_t accepted = 0;
  for (int i = 0; i < 300000; ++i) {
    std::array<std::byte, max_request_bytes> buffer;
    uint32_t length = encode(any_request(random), buffer);
    if (i % 2 == 0) {
      for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
        buffer[random() % length] = std::byte(random());
    } else {
      length = static_cast<uint32_t>(random() % max_request_bytes);
      for (uint32_t k = 0; k < length; ++k) buffer[k] = std::byte(random());
      if (length > 0 && i % 4 == 1) buffer[0] = std::byte{version};
    }
    const std::vector<std::byte> exact(buffer.begin(), buffer.begin() + length);
    Request request;
    ReplyHeader reply;
    CloseHeader close;
    GrantHeader grant;
    AnswerKind answer;
    CloseKind closing;
    accepted += decode(Bytes(exact), &request).ok();
    (void)decode(Bytes(exact), &reply);
    (void)decode(Bytes(exact), &close);
    (void)decode(Bytes(exact), &grant);
    (void)peek(Bytes(exact), &answer);
    (void)peek(Bytes(exact), &closing);
  }
  EXPECT_GT(accepted,
            0u);  // flips in free fields stay valid: the test does reach the accepting paths
}

TEST(Wire, RefusalsNameTheField) {
  Request r;
  r.header.version = version;
  r.header.kind = static_cast<uint8_t>(Kind::put);
  r.header.number = 1;
  std::array<std::byte, max_request_bytes> buffer;
  uint32_t length = encode(r, buffer);
  buffer[0] = std::byte{9};
  EXPECT_NE(decode(Bytes(buffer.data(), length), &r).message().find("wire version 9"),
            std::string::npos);
  r = {};
  r.header.version = version;
  r.header.kind = static_cast<uint8_t>(Kind::get);
  r.header.flags = flag_scaled;
  r.header.number = 1;
  length = encode(r, buffer);
  EXPECT_NE(decode(Bytes(buffer.data(), length), &r).message().find("do not go with get"),
            std::string::npos);
  r = {};
  r.header.version = version;
  r.header.kind = static_cast<uint8_t>(Kind::put);
  r.header.operation = 3;
  r.header.number = 1;
  length = encode(r, buffer);
  EXPECT_NE(decode(Bytes(buffer.data(), length), &r).message().find("operation 3"),
            std::string::npos);
  r.header.kind = static_cast<uint8_t>(Kind::fetch_update);
  r.header.flags = flag_scaled;
  length = encode(r, buffer);
  EXPECT_NE(decode(Bytes(buffer.data(), length), &r).message().find("do not go with fetching"),
            std::string::npos);
}

TEST(Headers, SayInWordsWhatTheyAre) {
  RequestHeader request{};
  request.kind = static_cast<uint8_t>(Kind::get);
  request.number = 12;
  request.origin_rank = 3;
  request.incarnation = 2;
  request.target_rank = 5;
  request.target_node = 1;
  request.segment_owner = 4;
  request.segment_generation = 7;
  request.offset = 4096;
  request.reply_slot = 9;
  EXPECT_EQ(to_string(request),
            "get 12 of rank 3 (session 2) to rank 5, node 1, server 0, segment 4.7 at 4096, "
            "answer to slot 9");
  ReplyHeader reply{};
  reply.kind = static_cast<uint8_t>(AnswerKind::failure);
  reply.number = 12;
  reply.incarnation = 2;
  reply.applied = 14;
  reply.code = -3;
  EXPECT_EQ(to_string(reply), "refusal of request 12 (session 2), applied 14, code -3");
  reply = {};
  reply.kind = static_cast<uint8_t>(AnswerKind::acknowledge);
  reply.applied = 14;
  EXPECT_EQ(to_string(reply), "acknowledgement (session 0), applied 14");
}

}  // namespace
}  // namespace skerry::wire
