// What fabric.hpp promises, for every fabric. Where a capability is missing, the part of the
// promise that needs it is left out.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

// As many bytes as wished, or as one message may have.
std::vector<std::byte> payload_of(const Side& side, uint64_t bytes, uint32_t seed) {
  return pattern(std::min(bytes, side.fabric->capabilities().max_payload_bytes), seed);
}

TEST_P(Conformance, ConnectCarriesHelloAndReply) {
  begin();
  target->reply = "reply of at most forty-six bytes, this has all";
  ASSERT_EQ(target->reply.size(), max_hello_bytes);
  join();
  EXPECT_EQ(target->hellos.at(0), "hello");
  EXPECT_EQ(client->replies.at(0), target->reply);
  EXPECT_EQ(client->connected.at(0), near);
  EXPECT_NE(near, no_endpoint);
  EXPECT_FALSE(target->peer_names.at(0).empty());
}

TEST_P(Conformance, EmptyHelloAndReply) {
  begin();
  target->reply.clear();
  ASSERT_TRUE(client->fabric->connect(address, {}, &near).ok());
  ASSERT_TRUE(until([&] { return !client->connected.empty(); }));
  EXPECT_EQ(target->hellos.at(0), "");
  EXPECT_EQ(client->replies.at(0), "");
}

// The account of memory: an endpoint costs something at either end while it is open, less once what
// it carried is gone, and nothing when it is closed.
TEST_P(Conformance, EndpointsAreAccountedFor) {
  begin();
  const auto bytes_of = [](const Side& one) { return one.fabric->memory().endpoint_bytes; };
  std::vector<EndpointId> nears(8), fars(8);
  join(*client, *target, &nears[0],
       &fars[0]);  // what is made with the first and stays is not counted below
  client->fabric->close(nears[0]);
  target->fabric->close(fars[0]);
  const uint64_t near_before = bytes_of(*client), far_before = bytes_of(*target);
  EXPECT_GT(client->fabric->memory().fixed_bytes, 0u);
  for (size_t i = 0; i < nears.size(); ++i) join(*client, *target, &nears[i], &fars[i]);
  const uint64_t near_open = bytes_of(*client), far_open = bytes_of(*target);
  EXPECT_GE(near_open, near_before + 8 * 64);
  EXPECT_GE(far_open, far_before + 8 * 64);
  // Held back until flush: the bytes are ours meanwhile.
  const auto held = payload_of(*client, 1000, 1);
  ASSERT_EQ(send(*client, nears[0], "header", held, true), SendResult::accepted);
  EXPECT_GE(bytes_of(*client), near_open + held.size());
  ASSERT_EQ(client->fabric->flush(nears[0]), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->message_count == 1; }));
  ASSERT_TRUE(until([&] { return bytes_of(*client) <= near_open + 512; }));  // less the payload
  std::printf("%s: %llu bytes an idle endpoint that connected, %llu one that was accepted\n",
              std::string(client->fabric->name()).c_str(),
              static_cast<unsigned long long>((near_open - near_before) / 8),
              static_cast<unsigned long long>((far_open - far_before) / 8));
  for (size_t i = 0; i < nears.size(); ++i) {
    client->fabric->close(nears[i]);
    target->fabric->close(fars[i]);
  }
  // The tables of containers may stay as large as they grew.
  ASSERT_TRUE(until([&] {
    return bytes_of(*client) <= near_before + 512 && bytes_of(*target) <= far_before + 512;
  }));
}

TEST_P(Conformance, RejectIsRefused) {
  begin();
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return !target->requests.empty(); }));
  target->fabric->reject(target->requests[0], CloseReason::refused);
  ASSERT_TRUE(until([&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->reasons[0], CloseReason::refused) << client->details[0];
  EXPECT_TRUE(client->connected.empty());
  // A rejected request is gone: a late accept finds nobody.
  EndpointId none;
  EXPECT_EQ(target->fabric->accept(target->requests[0], {}, &none).code(), Code::peer_dead);
  target->fabric->reject(target->requests[0], CloseReason::refused);
}

// Guards against: a peer learned that it was refused, and not why. Also if messages are on their
// way.
TEST_P(Conformance, ARefusalSaysWhy) {
  begin();
  target->accept_requests = false;
  for (const CloseReason why : {CloseReason::unproven, CloseReason::replayed,
                                CloseReason::crowded_out, CloseReason::refused}) {
    const size_t before = client->closed.size();
    ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
    if (client->fabric->capabilities().early_messages) {
      EXPECT_EQ(send(*client, near, "early", payload_of(*client, 4000, 1)), SendResult::accepted);
    }
    ASSERT_TRUE(until([&] { return target->requests.size() > before; }));
    target->fabric->reject(target->requests[before], why);
    ASSERT_TRUE(until([&] { return client->closed.size() > before; }));
    EXPECT_EQ(client->reasons[before], why)
        << to_string(client->reasons[before]) << ", " << client->details[before];
  }
}

TEST_P(Conformance, AcceptMayComeLater) {
  begin();
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return !target->requests.empty(); }));
  const bool early = client->fabric->capabilities().early_messages;
  EXPECT_EQ(send(*client, near, "early"), early ? SendResult::accepted : SendResult::would_block);
  ASSERT_TRUE(target->fabric->accept(target->requests[0], as_bytes("yes"), &far).ok());
  EXPECT_EQ(send(*target, far, "first"), SendResult::accepted);
  ASSERT_TRUE(until([&] {
    return client->message_count == 1 &&
           (early ? target->message_count == 1 : client->writable == 1);
  }));
  EXPECT_EQ(client->replies.at(0), "yes");
}

// Guards against: a peer that waits for its turn took the server for unreachable.
TEST_P(Conformance, AHeldRequestIsTold) {
  Options options;
  options.connect_timeout_ns = 1'000'000'000;
  client = side(options);
  target = server(options);
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return target->requests.size() == 1; }));
  target->fabric->hold(target->requests[0]);
  ASSERT_TRUE(until([&] { return client->held.size() == 1; }));
  EXPECT_EQ(client->held[0], near);
  // A fabric that can tell only by refusing has done so: the peer comes again.
  if (until([&] {
        return !client->closed.empty() ||
               target->fabric->accept(target->requests[0], as_bytes("at last"), &far).ok();
      }) &&
      !client->closed.empty()) {
    ASSERT_TRUE(client->fabric->connect(address, as_bytes("again"), &near).ok());
    ASSERT_TRUE(until([&] { return target->requests.size() == 2; }));
    ASSERT_TRUE(target->fabric->accept(target->requests[1], as_bytes("at last"), &far).ok());
  }
  ASSERT_TRUE(until([&] { return !client->connected.empty(); }));
  EXPECT_EQ(client->replies.back(), "at last");
  EXPECT_EQ(target->fabric->traffic().unauthenticated.all(), 0u);
  ASSERT_EQ(send(*client, near, "message"), SendResult::accepted);
  EXPECT_TRUE(until([&] { return target->message_count == 1; }));
}

// Late: it is told to come back after it was held.
TEST_P(Conformance, AHeldRequestThatIsRejectedWasToldBefore) {
  begin();
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return target->requests.size() == 1; }));
  target->fabric->hold(target->requests[0]);
  target->fabric->reject(target->requests[0], CloseReason::crowded_out);
  ASSERT_TRUE(until([&] { return client->closed.size() == 1; }));
  EXPECT_EQ(client->held.size(), 1u);
}

TEST_P(Conformance, NobodyListens) {
  Options options;
  options.connect_timeout_ns = 1'000'000'000;  // that is how datagrams find out
  client = side(options);
  { const auto gone = server(); }
  if (!client->fabric->connect(address, as_bytes("hello"), &near).ok())
    return;  // told at once: fine
  ASSERT_TRUE(run_until({client.get()}, [&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->closed[0], near);
  EXPECT_TRUE(client->reasons[0] == CloseReason::unreachable ||
              client->reasons[0] == CloseReason::refused)
      << to_string(client->reasons[0]);
  EXPECT_FALSE(client->details[0].empty());
}

TEST_P(Conformance, BadAddressIsAnError) {
  client = side();
  EXPECT_EQ(client->fabric->connect(as_bytes("nonsense"), {}, &near).code(), Code::invalid);
  EXPECT_EQ(client->fabric->connect({}, {}, &near).code(), Code::invalid);
}

TEST_P(Conformance, MessagesArriveInOrderWithTheirBytes) {
  begin_joined();
  uint32_t seed = 7;
  const std::vector<std::byte> source = payload_of(*client, inline_payload_bytes, 1);
  const int count = 3000;
  std::vector<size_t> headers, payloads;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    headers.push_back(1 + seed % client->fabric->capabilities().header_bytes);
    payloads.push_back(i % 50 == 49 ? source.size() - seed % 3 : (seed >> 8) % 300);
  }
  for (int i = 0; i < count;) {
    const SendResult result = client->fabric->send(
        near, Bytes(source).first(headers[i]),
        Bytes(source).subspan(static_cast<size_t>(i), std::min(payloads[i], source.size() - i)),
        i % 3 != 0, 0);
    ASSERT_NE(result, SendResult::closed);
    if (result == SendResult::accepted) {
      ++i;
    } else {
      ASSERT_TRUE(until_writable());
    }
  }
  EXPECT_EQ(client->fabric->flush(near), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->messages.size() == count; }));
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(target->messages[i].header.size(), headers[i]) << i;
    const size_t bytes = std::min(payloads[i], source.size() - i);
    ASSERT_EQ(target->messages[i].payload.size(), bytes) << i;
    ASSERT_TRUE(std::equal(target->messages[i].payload.begin(), target->messages[i].payload.end(),
                           source.begin() + i))
        << i;
  }
  ASSERT_TRUE(until([&] { return client->fabric->unsent_bytes(near) == 0; }));
}

TEST_P(Conformance, LongPayloadsArePlacedBetweenShortOnes) {
  begin_joined();
  const std::vector<std::byte> payload = payload_of(*client, 3'000'001, 2);
  const bool direct = payload.size() > inline_payload_bytes;
  int taken = 0;
  for (int i = 0; i < 6; ++i) {
    for (std::string_view header : {"short", "long"}) {
      const Bytes bytes = header == "long" ? Bytes(payload) : as_bytes("abc");
      while (send(*client, near, header, bytes, false, 100 + i) == SendResult::would_block) {
        ASSERT_TRUE(until_writable());
      }
      ++taken;
    }
  }
  ASSERT_TRUE(
      until([&] { return target->message_count == 12 && (!direct || client->sent.size() == 6); }));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(target->messages[i].header, i % 2 == 0 ? "short" : "long");
    if (i % 2 == 1) {
      EXPECT_TRUE(target->messages[i].payload == payload) << i;
    }
  }
  if (direct) {
    EXPECT_EQ(client->sent, (std::vector<uint64_t>{100, 101, 102, 103, 104, 105}));
  }
  EXPECT_EQ(target->placed, direct ? 6 : 0);
}

TEST_P(Conformance, GatheredPayloadsArePlacedAsOne) {
  begin();
  if (!client->fabric->capabilities().direct_placement) return;
  join();
  const std::vector<std::byte> source = payload_of(*client, 2'000'000, 5);
  std::vector<Bytes> parts;
  std::vector<std::byte> joined;
  for (uint64_t at = 0, i = 0; at + 20'000 < source.size(); at += 21'001, ++i) {
    parts.push_back(Bytes(source).subspan(at, i % 3 == 0 ? 0 : 20'000 - i));  // empty ones, too
    joined.insert(joined.end(), parts.back().begin(), parts.back().end());
  }
  for (int i = 0; i < 5; ++i) {
    while (client->fabric->send_gathered(near, as_bytes("parts"), parts, 7 + i) ==
           SendResult::would_block) {
      ASSERT_TRUE(until_writable());
    }
    while (send(*client, near, "between", as_bytes("abc")) == SendResult::would_block) {
      ASSERT_TRUE(until_writable());
    }
  }
  ASSERT_TRUE(until([&] { return target->message_count == 10 && client->sent.size() == 5; }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(target->messages[i].header, i % 2 == 0 ? "parts" : "between");
    if (i % 2 == 0) {
      EXPECT_TRUE(target->messages[i].payload == joined) << i;
    }
  }
  EXPECT_EQ(client->sent, (std::vector<uint64_t>{7, 8, 9, 10, 11}));
}

TEST_P(Conformance, RefusedDirectPlacementCloses) {
  begin();
  if (client->fabric->capabilities().max_payload_bytes <= inline_payload_bytes) return;
  target->refuse_direct = true;
  join();
  const std::vector<std::byte> payload = pattern(inline_payload_bytes + 1, 3);
  send(*client, near, "long", payload, false, 1);
  ASSERT_TRUE(until([&] { return !target->closed.empty() && !client->closed.empty(); }));
  EXPECT_EQ(target->reasons[0], CloseReason::protocol_error);
}

TEST_P(Conformance, ParkedMessageComesAgainAndNothingOvertakesIt) {
  begin_joined();
  const std::vector<std::byte> payload = payload_of(*client, 200'000, 4);
  target->parks_left = 1;
  for (int i = 0; i < 5; ++i) send(*client, near, concat("m", i), as_bytes("x"), true);
  send(*client, near, "m5", payload, false, 9);
  // A fabric with little room takes the last one when the others have been read.
  bool all_sent = send(*client, near, "m6") == SendResult::accepted;
  ASSERT_TRUE(until([&] { return target->parked == 1; }));
  for (int i = 0; i < 20; ++i) {
    client->step();
    target->step();
  }
  EXPECT_EQ(target->message_count, 0u);
  // From now on every message is parked once, the one placed directly as well.
  target->park_alternately = true;
  ASSERT_TRUE(until([&] {
    target->fabric->unpark(far);
    if (!all_sent) all_sent = send(*client, near, "m6") == SendResult::accepted;
    return target->message_count == 7;
  }));
  EXPECT_EQ(target->parked, 1 + 7);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(target->messages[i].header, concat("m", i));
  EXPECT_TRUE(target->messages[5].payload == payload);
}

TEST_P(Conformance, ParkedEndpointDoesNotHoldUpOthers) {
  begin();
  EndpointId near1, far1, near2, far2;
  join(*client, *target, &near1, &far1);
  join(*client, *target, &near2, &far2);
  target->hook = [&](EndpointId endpoint, Bytes, Bytes) { return endpoint != far1; };
  for (int i = 0; i < 100; ++i) {
    send(*client, near1, "one");
    send(*client, near2, "two");
  }
  ASSERT_TRUE(until([&] { return target->message_count == 100; }));
  target->hook = nullptr;
  target->fabric->unpark(far1);
  ASSERT_TRUE(until([&] { return target->message_count == 200; }));
  EXPECT_EQ(target->messages[99].header, "two");
  EXPECT_EQ(target->messages[100].header, "one");
}

TEST_P(Conformance, ParkedThenClosedByPeerStillDelivers) {
  begin_joined();
  target->parks_left = 1;
  send(*client, near, "last words");
  ASSERT_TRUE(until([&] { return target->parked == 1; }));
  client->fabric->close(near);
  for (int i = 0; i < 10; ++i) target->step();
  target->fabric->unpark(far);
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->message_count, 1u);
}

TEST_P(Conformance, WouldBlockThenWritable) {
  begin_joined();
  const std::vector<std::byte> payload = payload_of(*client, 32 * 1024, 5);
  uint64_t accepted = 0;
  // Nobody receives: sooner or later it must be enough, and what was answered would_block must not
  // be taken.
  while (send(*client, near, "x", payload) == SendResult::accepted) {
    ++accepted;
    ASSERT_LT(accepted, 100'000u);
  }
  ASSERT_TRUE(until([&] { return client->writable == 1; }));
  EXPECT_EQ(send(*client, near, "y", payload), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->message_count == accepted + 1; }));
  EXPECT_EQ(client->writable, 1);
  EXPECT_EQ(target->messages.back().header, "y");
}

TEST_P(Conformance, BothFloodEachOther) {
  // Neither side may wait for the other with its own input unread.
  begin_joined();
  const std::vector<std::byte> payload = payload_of(*client, 20'000, 6);
  const uint64_t count = 500;
  uint64_t forth = 0, back = 0;
  ASSERT_TRUE(until([&] {
    while (forth < count && send(*client, near, "f", payload) == SendResult::accepted) ++forth;
    while (back < count && send(*target, far, "b", payload) == SendResult::accepted) ++back;
    return client->message_count == count && target->message_count == count;
  }));
}

TEST_P(Conformance, CloseIsSeenByThePeer) {
  begin_joined();
  client->fabric->close(near);
  EXPECT_EQ(client->fabric->traffic().endpoints_open, 0u);
  ASSERT_TRUE(until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->closed[0], far);
  EXPECT_EQ(target->reasons[0], CloseReason::by_peer) << target->details[0];
  EXPECT_TRUE(client->closed.empty());
  EXPECT_EQ(target->fabric->traffic().endpoints_open, 0u);
}

TEST_P(Conformance, FlushedMessagesArriveBeforeTheClose) {
  begin_joined();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(send(*client, near, "x", {}, true), SendResult::accepted);
  client->fabric->flush(near);
  ASSERT_TRUE(run_until({client.get()}, [&] { return client->fabric->unsent_bytes(near) == 0; }));
  client->fabric->close(near);
  ASSERT_TRUE(until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->message_count, 100u);
}

TEST_P(Conformance, CloseWithQueuedDataReleasesEverything) {
  begin_joined();
  const std::vector<std::byte> payload = payload_of(*client, 60'000, 7);
  while (send(*client, near, "x", payload) == SendResult::accepted) {
  }
  client->fabric->close(near);
  ASSERT_TRUE(until([&] { return !target->closed.empty(); }));
  EXPECT_TRUE(client->sent.empty());
  EXPECT_EQ(client->writable, 0);
  EndpointId again, far_again;  // and the fabric goes on
  join(*client, *target, &again, &far_again);
  EXPECT_EQ(send(*client, again, "hi"), SendResult::accepted);
  const uint64_t before = target->message_count;
  ASSERT_TRUE(until([&] { return target->message_count > before; }));
}

TEST_P(Conformance, CrossingCloses) {
  begin_joined();
  client->fabric->close(near);
  target->fabric->close(far);
  for (int i = 0; i < 20; ++i) {
    client->step();
    target->step();
  }
  EXPECT_TRUE(client->closed.empty());
  EXPECT_TRUE(target->closed.empty());
}

TEST_P(Conformance, LateIdsFindNothing) {
  begin_joined();
  client->fabric->close(near);
  EndpointId again, far_again;
  join(*client, *target, &again, &far_again);  // probably in the same slot
  EXPECT_NE(near, again);
  EXPECT_EQ(send(*client, near, "x"), SendResult::closed);
  EXPECT_EQ(client->fabric->flush(near), SendResult::closed);
  EXPECT_EQ(client->fabric->unsent_bytes(near), 0u);
  client->fabric->close(near);
  client->fabric->unpark(near);
  client->step(0, near);
  EXPECT_EQ(send(*client, again, "x"), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->message_count == 1; }));
  EXPECT_EQ(send(*client, no_endpoint, "x"), SendResult::closed);
  EXPECT_EQ(send(*client, ~uint64_t{0}, "x"), SendResult::closed);
}

TEST_P(Conformance, CloseInsideAnUpcall) {
  begin_joined();
  int delivered = 0;
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    ++delivered;
    target->fabric->close(endpoint);
    EXPECT_EQ(text_of(header), "bye");  // the spans live until we return
    EXPECT_EQ(payload.size(), 3u);
    return true;
  };
  send(*client, near, "bye", as_bytes("now"), true);
  send(*client, near, "bye", as_bytes("now"), true);
  send(*client, near, "bye", as_bytes("now"), false);
  ASSERT_TRUE(until([&] { return !client->closed.empty(); }));
  EXPECT_EQ(delivered, 1);
  EXPECT_TRUE(target->closed.empty());
}

TEST_P(Conformance, AnswerInsideAnUpcall) {
  begin_joined();
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    return target->fabric->send(endpoint, header, payload, false, 0) == SendResult::accepted;
  };
  for (uint64_t i = 1; i <= 200; ++i) {
    ASSERT_EQ(send(*client, near, "ping", as_bytes("12345678")), SendResult::accepted);
    ASSERT_TRUE(until([&] { return client->message_count == i; }));
  }
}

TEST_P(Conformance, WakeEndsAPollFromAnotherThread) {
  target = server();
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::thread sleeper([&] {
    while (!stop.load()) {
      target->step(-1);  // no limit: only wake can end it
      ++rounds;
    }
  });
  for (int i = 1; i <= 50; ++i) {
    const int before = rounds.load();
    target->fabric->wake();
    while (rounds.load() == before) std::this_thread::yield();
  }
  stop.store(true);
  target->fabric->wake();
  sleeper.join();
}

TEST_P(Conformance, PollReturnsAfterItsTimeout) {
  target = server();
  target->step();
  EXPECT_EQ(target->step(2'000'000), 0);
  EXPECT_EQ(target->step(200'000), 0);
}

TEST_P(Conformance, WatchedDescriptors) {
  target = server();
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_TRUE(target->fabric->watch(fd).ok());
  uint64_t value = 1;
  ASSERT_EQ(write(fd, &value, sizeof value), 8);
  ASSERT_TRUE(target_until(
      [&] { return target->watched.size() >= 2; }));  // level triggered: again until read
  EXPECT_EQ(target->watched[0], fd);
  target->watched_hook = [&](int readable) { ASSERT_EQ(read(readable, &value, sizeof value), 8); };
  target->step(1'000'000'000);
  const size_t count = target->watched.size();
  target->step(1'000'000);
  EXPECT_EQ(target->watched.size(), count);
  target->fabric->unwatch(fd);
  ASSERT_EQ(write(fd, &value, sizeof value), 8);
  target->step(1'000'000);
  EXPECT_EQ(target->watched.size(), count);
  target->fabric->unwatch(fd);
  ::close(fd);
}

TEST_P(Conformance, ManyEndpoints) {
  target = server();
  std::vector<std::unique_ptr<Side>> clients;
  std::vector<EndpointId> nears;
  for (int i = 0; i < 4; ++i) clients.push_back(side());
  for (int i = 0; i < 100; ++i) {
    EndpointId id;
    ASSERT_TRUE(clients[i % 4]->fabric->connect(address, as_bytes(concat("h", i)), &id).ok());
    nears.push_back(id);
  }
  ASSERT_TRUE(run_until(
      {clients[0].get(), clients[1].get(), clients[2].get(), clients[3].get(), target.get()}, [&] {
        size_t open = 0;
        for (auto& one : clients) open += one->connected.size();
        return open == 100 && target->accepted.size() == 100;
      }));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(send(*clients[i % 4], nears[i], std::to_string(i), as_bytes(std::to_string(round))),
                SendResult::accepted);
  }
  ASSERT_TRUE(run_until(
      {clients[0].get(), clients[1].get(), clients[2].get(), clients[3].get(), target.get()},
      [&] { return target->message_count == 500; }));
  std::map<EndpointId, int> next;
  for (const Message& message : target->messages)
    EXPECT_EQ(text_of(message.payload), std::to_string(next[message.endpoint]++));
  EXPECT_EQ(next.size(), 100u);
  EXPECT_EQ(target->fabric->traffic().endpoints_open, 100u);
  for (int i = 0; i < 100; i += 2) clients[i % 4]->fabric->close(nears[i]);
  ASSERT_TRUE(target_until([&] { return target->closed.size() == 50; }));
}

TEST_P(Conformance, SeveralServersConnectToEachOther) {
  auto a = server();
  const std::vector<std::byte> address_a = address;
  auto b = server();
  const std::vector<std::byte> address_b = address;
  EndpointId a_to_b, b_to_a;  // crossing connects: two connections
  ASSERT_TRUE(a->fabric->connect(address_b, as_bytes("a"), &a_to_b).ok());
  ASSERT_TRUE(b->fabric->connect(address_a, as_bytes("b"), &b_to_a).ok());
  ASSERT_TRUE(run_until({a.get(), b.get()}, [&] {
    return a->connected.size() == 1 && b->connected.size() == 1 && a->accepted.size() == 1 &&
           b->accepted.size() == 1;
  }));
  send(*a, a_to_b, "1");
  send(*b, b_to_a, "2");
  ASSERT_TRUE(run_until({a.get(), b.get()},
                        [&] { return a->message_count == 1 && b->message_count == 1; }));
  EXPECT_EQ(b->messages[0].endpoint, b->accepted[0]);
}

// A client and a sleeping server, a thread each: what ThreadSanitizer shall see. The client waits
// with poll(only).
TEST_P(Conformance, SleepingServerAnswersPollOnly) {
  begin();
  std::atomic<bool> stop{false};
  target->keep_messages = false;
  std::vector<std::pair<EndpointId, std::vector<std::byte>>> unsent;
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    const SendResult result = target->fabric->send(endpoint, header, payload, false, 0);
    EXPECT_EQ(result, SendResult::accepted);
    return true;
  };
  std::thread serving([&] {
    while (!stop.load()) target->step(-1);
  });
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  while (client->connected.empty() && client->closed.empty()) client->step(100'000'000);
  ASSERT_TRUE(client->closed.empty());
  const std::vector<std::byte> payload = payload_of(*client, inline_payload_bytes, 8);
  uint64_t expected = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t bytes = i % 10 == 9 ? payload.size() - static_cast<uint64_t>(i)
                                       : static_cast<uint64_t>(i % 64);
    ASSERT_EQ(client->fabric->send(near, as_bytes("ping"), Bytes(payload).first(bytes), false, 0),
              SendResult::accepted);
    ++expected;
    while (client->message_count < expected) {
      client->step(100'000'000, near);
      ASSERT_TRUE(client->closed.empty());
    }
    EXPECT_EQ(client->messages.back().payload.size(), bytes);
  }
  stop.store(true);
  target->fabric->wake();
  serving.join();
}

TEST_P(Conformance, PollOnlySeesTheEnd) {
  begin_joined();
  std::thread closer([&] {
    target->fabric->close(far);
    target->step();
  });
  while (client->closed.empty()) client->step(10'000'000, near);
  closer.join();
  EXPECT_EQ(client->closed[0], near);
}

// What comes on `only` may depend on what another endpoint lost: polls of one are not blind for
// ever, be it silent or busy.
TEST_P(Conformance, PollsOfOneEndpointNoticeTheOthersInTheEnd) {
  begin_joined();
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes) {
    (void)target->fabric->send(endpoint, header, {}, false, 0);
    return true;
  };
  for (const bool is_busy : {false, true}) {
    EndpointId near_other, far_other;
    join(*client, *target, &near_other, &far_other);
    client->closed.clear();
    target->fabric->close(far_other);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (client->closed.empty() && std::chrono::steady_clock::now() < deadline) {
      if (is_busy) {
        ASSERT_NE(send(*client, near, "ping", {}), SendResult::closed);
      }
      target->step();
      client->step(10'000'000, near);
    }
    ASSERT_EQ(client->closed, std::vector{near_other});
  }
}

// Issue calls by one thread while another sleeps in poll: both owners at work on one fabric.
TEST_P(Conformance, IssueBesidePoll) {
  begin();
  target->keep_messages = false;
  client->keep_messages = false;
  std::atomic<bool> stop{false};
  std::thread serving([&] {
    while (!stop.load()) target->step(-1);
  });
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  while (client->connected.empty()) client->step(100'000'000);
  std::mutex issue;
  std::atomic<bool> done{false};
  std::thread progress([&] {
    while (!done.load()) {
      client->fabric->poll(-1, no_endpoint);
      std::lock_guard lock(issue);
      client->fabric->dispatch(*client);
    }
  });
  const std::vector<std::byte> payload = payload_of(*client, 150'000, 9);
  for (int i = 0; i < 200;) {
    std::unique_lock lock(issue);
    const SendResult result = i % 20 == 0 ? send(*client, near, "long", payload, false, 1)
                                          : send(*client, near, "s", as_bytes("abcd"), i % 2 == 0);
    ASSERT_NE(result, SendResult::closed);
    lock.unlock();
    if (result == SendResult::accepted) ++i;
    else std::this_thread::yield();
  }
  {
    std::lock_guard lock(issue);
    client->fabric->flush(near);
  }
  for (;;) {
    std::unique_lock lock(issue);
    if (payload.size() <= inline_payload_bytes ? client->fabric->unsent_bytes(near) == 0
                                               : client->sent.size() == 10)
      break;
    lock.unlock();
    std::this_thread::yield();
  }
  done.store(true);
  client->fabric->wake();
  progress.join();
  client->fabric->close(near);
  stop.store(true);
  target->fabric->wake();
  serving.join();
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->message_count, 200u);
}

TEST_P(Conformance, RmaPutAndGet) {
  begin();
  const Capabilities& can = client->fabric->capabilities();
  std::vector<std::byte> remote(300'000), local = pattern(300'000, 10), back(300'000);
  if (!can.rma) {
    EXPECT_EQ(
        target->fabric->register_memory(remote.data(), remote.size(), &key, &registration).code(),
        Code::unsupported);
    return;
  }
  expose(remote.data(), remote.size());
  join();
  uint64_t cookie = 0;
  auto transfer = [&](bool put, uint64_t local_offset, uint64_t offset, uint64_t bytes) {
    ++cookie;
    auto begin = [&] {
      return put ? client->fabric->put(near, local.data() + local_offset, key, offset, bytes,
                                       cookie)
                 : client->fabric->get(near, back.data() + local_offset, key, offset, bytes,
                                       cookie);
    };
    while (begin() == SendResult::would_block) {
      ASSERT_TRUE(until_writable());
    }
  };
  for (uint64_t bytes : {uint64_t{1}, uint64_t{8}, uint64_t{4096}, uint64_t{100'000}})
    transfer(true, bytes, 2 * bytes, bytes);
  ASSERT_TRUE(until([&] { return client->rma_done.size() == 4; }));  // the next overlaps them
  transfer(true, 0, 0, 300'000);
  ASSERT_TRUE(until([&] { return client->rma_done.size() == 5; }));
  EXPECT_TRUE(remote == local);  // remote done means visible there
  for (uint64_t i = 0; i < 300; ++i) transfer(false, i * 1000, i * 1000, 1000);
  ASSERT_TRUE(until([&] { return client->rma_done.size() == 305; }));
  EXPECT_TRUE(back == local);
  std::sort(client->rma_done.begin(), client->rma_done.end());
  for (uint64_t i = 0; i < 305; ++i) EXPECT_EQ(client->rma_done[i], i + 1);
  EXPECT_TRUE(client->rma_failed.empty());
  target->fabric->deregister_memory(registration);
}

// Guards against: a put that went in pieces was overtaken by the message behind it.
TEST_P(Conformance, AMessageFollowsAPutWhereTheFabricSaysSo) {
  begin();
  const Capabilities& can = client->fabric->capabilities();
  if (!can.rma || !can.am_after_rma_ordered) return;
  std::vector<std::byte> remote(1'500'000), local;
  expose(remote.data(), remote.size());
  join();
  target->hook = [&](EndpointId, Bytes, Bytes) {
    EXPECT_TRUE(remote == local);
    return true;
  };
  for (uint32_t round = 1; round <= 10; ++round) {
    local = pattern(remote.size(), round);
    ASSERT_EQ(client->fabric->put(near, local.data(), key, 0, local.size(), round),
              SendResult::accepted);
    ASSERT_EQ(send(*client, near, "behind"), SendResult::accepted);
    ASSERT_TRUE(until([&] {
      return target->message_count == round && client->rma_done.size() == round;
    }));
  }
  target->fabric->deregister_memory(registration);
}

TEST_P(Conformance, RmaEndsWithItsEndpoint) {
  begin();
  if (!client->fabric->capabilities().rma) return;
  std::vector<std::byte> remote(1000), local(1000);
  expose(remote.data(), remote.size());
  join();
  target->fabric->close(far);
  uint64_t begun = 0;
  for (uint64_t i = 0; i < 10; ++i)
    begun += client->fabric->put(near, local.data(), key, 0, 1000, i) == SendResult::accepted;
  // Each begun one is told, before the end of its endpoint or never after it.
  ASSERT_TRUE(until([&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->rma_done.size() + client->rma_failed.size(), begun);
  EXPECT_EQ(client->fabric->get(near, local.data(), key, 0, 8, 1), SendResult::closed);
  target->fabric->deregister_memory(registration);
}

// Values, the processors' byte order, visibility when done, atomicity between two origins; a word
// that is not there fails, or ends the endpoint.
TEST_P(Conformance, AtomicsOnAWord) {
  begin(with_atomics());
  if (!client->fabric->capabilities().atomics) return;
  auto other = side(with_atomics());
  EndpointId near_other, far_other;
  join();
  join(*other, *target, &near_other, &far_other);
  const std::initializer_list<Side*> all = {client.get(), other.get(), target.get()};
  alignas(8) uint64_t words[3] = {0x0102030405060708, 5, 0};
  const auto word = [&](size_t i) { return std::atomic_ref<uint64_t>(words[i]).load(); };
  expose(words, sizeof words);
  uint64_t found = 0;
  const auto done = [&](Side& one, SendResult begun) {
    EXPECT_EQ(begun, SendResult::accepted);
    EXPECT_TRUE(run_until(all, [&] { return !one.rma_done.empty(); }));
    one.rma_done.clear();
    return found;
  };
  const auto add = [&](uint64_t value) {
    return done(*client, fetch_and_add(*client->fabric, near, key, 0, value, &found, 1));
  };
  const auto swap = [&](uint64_t expected) {
    return done(*other,
                compare_and_swap(*other->fabric, near_other, key, 8, expected, 9, &found, 1));
  };
  EXPECT_EQ(add(0x1000000000000001), 0x0102030405060708u);
  EXPECT_EQ(word(0), 0x1102030405060709u);
  EXPECT_EQ(add(~uint64_t{0}), 0x1102030405060709u);
  EXPECT_EQ(word(0), 0x1102030405060708u);  // wraps
  EXPECT_EQ(swap(6), 5u);
  EXPECT_EQ(word(1), 5u);
  EXPECT_EQ(swap(5), 5u);
  EXPECT_EQ(word(1), 9u);
  if (client->fabric->capabilities().atomic_swap) {
    const AtomicCall swap_call{AtomicCall::Kind::swap, key, 8, 3, 0, &found, 1};
    EXPECT_EQ(done(*client, client->fabric->start_atomic(near, swap_call)), 9u);
    EXPECT_EQ(word(1), 3u);
  }
  const size_t count = 500;
  size_t begun[2] = {0, 0};
  std::vector<uint64_t> seen(2 * count);
  ASSERT_TRUE(run_until(all, [&] {
    for (size_t i = 0; i < 2; ++i)
      while (begun[i] < count &&
             fetch_and_add(*(i == 0 ? *client : *other).fabric, i == 0 ? near : near_other, key, 16,
                           1, &seen[i * count + begun[i]], begun[i]) == SendResult::accepted)
        ++begun[i];
    return client->rma_done.size() == count && other->rma_done.size() == count;
  }));
  EXPECT_EQ(word(2), 2 * count);
  std::sort(seen.begin(), seen.end());
  for (uint64_t i = 0; i < 2 * count; ++i) ASSERT_EQ(seen[i], i);  // each value once
  ASSERT_EQ(fetch_and_add(*client->fabric, near, key, sizeof words, 1, &found, 15),
            SendResult::accepted);
  EXPECT_TRUE(run_until(all, [&] { return client->rma_failed.size() == 1; }));
  target->fabric->deregister_memory(registration);
}

// What is outstanding is told before the end, once.
TEST_P(Conformance, AtomicsEndWithTheirEndpoint) {
  begin(with_atomics());
  if (!client->fabric->capabilities().atomics) return;
  join();
  alignas(8) uint64_t word = 0;
  uint64_t found[9];
  expose(&word, sizeof word);
  const auto add = [&](size_t i) {
    return fetch_and_add(*client->fabric, near, key, 0, 1, &found[i], i);
  };
  size_t begun = 0;
  while (begun < 8 && add(begun) == SendResult::accepted) ++begun;
  target->fabric->close(far);
  ASSERT_TRUE(until([&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->rma_done.size() + client->rma_failed.size(), begun);
  EXPECT_EQ(add(8), SendResult::closed);
  target->fabric->deregister_memory(registration);
  EXPECT_LE(word, begun);
}

TEST_P(Conformance, TrafficCounts) {
  begin_joined();
  const uint64_t sent = client->fabric->traffic().bytes_sent,
                 received = target->fabric->traffic().bytes_received;
  send(*client, near, "12345678", pattern(1000, 11));
  ASSERT_TRUE(until([&] { return target->message_count == 1; }));
  EXPECT_GE(client->fabric->traffic().bytes_sent - sent, 1008u);
  EXPECT_GE(target->fabric->traffic().bytes_received - received, 1008u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Conformance, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace skerry::fabric::test
