// Fetching updates at the server: once each, with the same answer, whatever interrupts them.
#include <bit>
#include <numeric>

#include "server/test/world.hpp"

namespace skerry::server::test {
namespace {

using ServerUpdate = WithOrigin;

using Numbers = std::vector<int64_t>;

std::string_view bytes_of(const Numbers& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}
Numbers numbers_of(const Heard& heard) {
  Numbers numbers(heard.text.size() / sizeof(int64_t));
  std::memcpy(numbers.data(), heard.text.data(), heard.text.size());
  return numbers;
}

wire::Request fetch(Origin& a, uint64_t number, uint64_t offset, Operation operation,
                    uint64_t bytes) {
  wire::Request r = a.request(wire::Kind::fetch_update, number);
  r.header.type = static_cast<uint8_t>(ElementType::int64);
  r.header.operation = static_cast<uint8_t>(operation);
  r.header.offset = offset;
  r.header.reply_slot = 1;
  r.header.reply_tag = static_cast<uint32_t>(number);
  r.extent_bytes = bytes;
  return r;
}

TEST_F(ServerUpdate, TheAnswerIsWhatWasThere) {
  a.put(1, 16, 5);
  a.send(fetch(a, 2, 8, Operation::max, 24), bytes_of({3, 4, -1}));
  a.send(fetch(a, 3, 8, Operation::no_op, 24));
  a.run([&] { return a.answer_to(3) != nullptr; });
  EXPECT_EQ(numbers_of(*a.answer_to(2)), (Numbers{0, 5, 0}));
  EXPECT_EQ(numbers_of(*a.answer_to(3)), (Numbers{3, 5, 0}));
  EXPECT_EQ(a.answer_to(3)->reply.applied, 3u);
}

TEST_F(ServerUpdate, ADuplicateIsAnsweredFromWhatWasKept) {
  const Numbers ones(1000, 1);
  const wire::Request first = fetch(a, 1, 0, Operation::sum, 8000);
  a.send(first, bytes_of(ones));
  a.send(fetch(a, 2, 0, Operation::no_op, 16));
  a.settle();
  a.open();  // its connection broke before the answers came
  EXPECT_EQ(a.applied, 2u);
  a.put(3, 0, 70);
  a.heard.clear();
  a.send(first, bytes_of(ones));
  a.send(fetch(a, 2, 0, Operation::no_op, 16));
  a.run([&] { return a.answer_to(2) != nullptr; });
  // Expect: what was there at the first time, and every sum once.
  EXPECT_EQ(numbers_of(*a.answer_to(1)), Numbers(1000, 0));
  EXPECT_EQ(numbers_of(*a.answer_to(2)), Numbers(2, 1));
  EXPECT_EQ(world.word(0), 70);
  EXPECT_EQ(world.word(7992), 1);
}

TEST_F(ServerUpdate, WhatIsKeptGoesWhenItIsConfirmed) {
  a.send(fetch(a, 1, 0, Operation::sum, 32'000), bytes_of(Numbers(4000, 1)));
  a.settle();
  const uint64_t kept_bytes = world.server().memory().known_bytes;
  EXPECT_GE(kept_bytes, 32'000u);
  a.results_received = 1;
  a.put(2, 0, 1);
  a.settle();
  EXPECT_LE(world.server().memory().known_bytes, kept_bytes - 32'000);
}

// Three pages, of which another process holds the second. The connection breaks while the request
// waits; on the next one it goes on where it was.
TEST_F(ServerUpdate, ABusyStripeInterruptsItAndNothingIsLost) {
  constexpr size_t count = 3 * 512;
  Numbers first(count), again(count, 10);
  std::iota(first.begin(), first.end(), 1);
  wire::Request r = a.request(wire::Kind::put, 1);
  a.send(r, bytes_of(first));
  a.settle();
  memory::Stripe& second = world.control().stripes()[memory::stripe_index(7, 4096)];
  ASSERT_TRUE(second.word.try_lock(1));
  const wire::Request update = fetch(a, 2, 0, Operation::sum, count * 8);
  a.send(update, bytes_of(again));
  a.settle();
  EXPECT_EQ(world.word(0), 11);  // the first page is done
  EXPECT_EQ(world.word(4096), 513);
  a.break_off();
  a.settle();
  a.open();
  EXPECT_EQ(a.applied, 1u);
  a.send(update, bytes_of(again));
  a.settle();
  EXPECT_EQ(a.answer_to(2), nullptr);
  (void)second.word.release();
  a.run([&] { return a.answer_to(2) != nullptr; });
  // Expect: the elements before the change of all pages, and each changed once.
  EXPECT_EQ(numbers_of(*a.answer_to(2)), first);
  EXPECT_EQ(world.word(0), 11);
  EXPECT_EQ(world.word(count * 8 - 8), static_cast<int64_t>(count) + 10);
}

// A batch of accumulates: a request with a table of pieces, each applied in its turn.
template <class Word>
void accumulate(Origin& a, uint64_t number, ElementType type, Operation operation,
                const std::vector<Piece>& pieces, const std::vector<Word>& operands) {
  wire::Request r = a.request(wire::Kind::accumulate, number);
  r.header.type = static_cast<uint8_t>(type);
  r.header.operation = static_cast<uint8_t>(operation);
  r.header.flags |= wire::flag_vector;
  r.header.piece_count = static_cast<uint16_t>(pieces.size());
  std::string payload(reinterpret_cast<const char*>(pieces.data()), pieces.size() * sizeof(Piece));
  payload.append(reinterpret_cast<const char*>(operands.data()), operands.size() * sizeof(Word));
  a.send(r, payload);
}

TEST_F(ServerUpdate, PiecesOfABatchAreAppliedEachAndInOrder) {
  // The same word three times, a piece that overlaps it, and one that is empty.
  const std::vector<Piece> pieces{{8, 8}, {8, 8}, {0, 16}, {24, 0}, {8, 8}};
  accumulate<int64_t>(a, 1, ElementType::int64, Operation::sum, pieces, {1, 2, 3, 4, 5});
  a.settle();
  EXPECT_EQ(world.word(0), 3);
  EXPECT_EQ(world.word(8), 1 + 2 + 4 + 5);
  accumulate<int64_t>(a, 2, ElementType::int64, Operation::replace, pieces, {1, 2, 3, 4, 5});
  accumulate<int64_t>(a, 3, ElementType::int64, Operation::min, pieces, {9, 4, 1, 9, 7});
  a.settle();
  EXPECT_EQ(world.word(0), 1);
  EXPECT_EQ(world.word(8), 4);
}

TEST_F(ServerUpdate, PiecesOfABatchMayHaveElementsOfAnySize) {
  accumulate<uint8_t>(a, 1, ElementType::uint8, Operation::sum, {{3, 1}, {4, 2}, {3, 1}},
                      {1, 2, 3, 250});
  // Complex numbers lie at multiples of their part; this one in two pages.
  accumulate<double>(a, 2, ElementType::complex_double, Operation::sum, {{4088, 16}, {4096, 16}},
                     {1, 2, 3, 4});
  a.settle();
  EXPECT_EQ(world.word(0), int64_t{251} << 24 | int64_t{2} << 32 | int64_t{3} << 40);
  EXPECT_EQ(std::bit_cast<double>(world.word(4088)), 1);
  EXPECT_EQ(std::bit_cast<double>(world.word(4096)), 2 + 3);
  EXPECT_EQ(std::bit_cast<double>(world.word(4104)), 4);
}

// Pieces in two pages by turns. Another process holds the second page's stripe; the connection
// breaks while the batch waits in the middle, and it comes again.
TEST_F(ServerUpdate, ABatchThatIsInterruptedIsAppliedOnce) {
  std::vector<Piece> pieces;
  std::vector<int64_t> operands;
  for (uint64_t i = 0; i < 100; ++i) {
    pieces.push_back({i < 10 ? 8 : i % 2 * 4096, 8});
    operands.push_back(static_cast<int64_t>(i));
  }
  memory::Stripe& second = world.control().stripes()[memory::stripe_index(7, 4096)];
  ASSERT_TRUE(second.word.try_lock(1));
  accumulate(a, 1, ElementType::int64, Operation::sum, pieces, operands);
  a.settle();
  EXPECT_EQ(world.word(8), 45);
  EXPECT_EQ(world.word(4096), 0);
  a.break_off();
  a.settle();
  a.open();
  EXPECT_EQ(a.applied, 0u);
  accumulate(a, 1, ElementType::int64, Operation::sum, pieces, operands);
  a.settle();
  EXPECT_EQ(world.word(8), 45);
  (void)second.word.release();
  a.put(2, 64, 1);
  a.run([&] { return world.word(64) == 1; });
  int64_t even = 0, odd = 0;
  for (int64_t i = 10; i < 100; ++i) (i % 2 == 0 ? even : odd) += i;
  EXPECT_EQ(world.word(8), 45);
  EXPECT_EQ(world.word(0), even);
  EXPECT_EQ(world.word(4096), odd);
}

// Nothing of a batch is applied if a piece of it is no whole, aligned element, or lies outside.
TEST_F(ServerUpdate, ABatchWithAWrongPieceIsRefused) {
  uint64_t number = 0;
  for (const Piece& wrong : {Piece{12, 8}, Piece{16, 4}, Piece{slice_bytes - 4, 8}})
    accumulate<int64_t>(a, ++number, ElementType::int64, Operation::sum, {{0, 8}, wrong}, {1, 1});
  accumulate<int64_t>(a, ++number, ElementType::int64, Operation::sum, {{0, 8}}, {1, 1});
  a.put(++number, 64, 1);
  a.run([&] { return world.word(64) == 1; });
  a.settle();
  int refused = 0;
  for (const Heard& heard : a.heard) refused += heard.is(wire::AnswerKind::failure) ? 1 : 0;
  EXPECT_EQ(refused, 4);
  EXPECT_EQ(world.word(0), 0);
}

TEST_F(ServerUpdate, TargetsInPiecesAndStridedOnesAreAnsweredAsOneStream) {
  wire::Request r = fetch(a, 1, 0, Operation::replace, 24);
  r.header.flags |= wire::flag_vector;
  r.header.piece_count = 2;
  const Piece pieces[] = {{80, 16}, {8, 8}};
  std::string payload(reinterpret_cast<const char*>(pieces), sizeof pieces);
  payload += bytes_of({1, 2, 3});
  a.send(r, payload);
  r = fetch(a, 2, 8, Operation::sum, 16);
  r.header.flags |= wire::flag_strided;
  r.shape = {8, 0, 1, 0};
  r.level[0] = {2, 80};
  a.send(r, bytes_of({100, 100}));
  a.run([&] { return a.answer_to(2) != nullptr; });
  EXPECT_EQ(numbers_of(*a.answer_to(1)), (Numbers{0, 0, 0}));
  EXPECT_EQ(numbers_of(*a.answer_to(2)), (Numbers{3, 2}));
  EXPECT_EQ(world.word(8), 103);
  EXPECT_EQ(world.word(80), 1);
  EXPECT_EQ(world.word(88), 102);
}

TEST_F(ServerUpdate, RefusalsNameWhatIsWrongAndTheSessionGoesOn) {
  uint64_t number = 0;
  const auto refused = [&](wire::Request r, std::string_view payload) {
    r.header.number = ++number;
    a.send(r, payload);
    a.run([&] { return a.answer_to(number) != nullptr; });
    EXPECT_EQ(a.answer_to(number)->reply.code, static_cast<int8_t>(Code::invalid));
    return a.answer_to(number)->text;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  wire::Request r = fetch(a, 1, 0, static_cast<Operation>(12), 8);
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "operation 12"));
  r = fetch(a, 1, 0, Operation::bit_or, 8);
  r.header.type = static_cast<uint8_t>(ElementType::float64);
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "double elements have no bitwise or"));
  r.header.type = 13;
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "element type 13"));
  r = fetch(a, 1, 0, Operation::sum, 16);
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "a fetching update of 16 bytes carries 8"));
  r = fetch(a, 1, 0, Operation::no_op, 8);
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "carries 8"));
  r = fetch(a, 1, 0, Operation::no_op, 65'544);
  EXPECT_TRUE(has(refused(r, {}), "at most 65536"));
  r = fetch(a, 1, 4, Operation::sum, 8);
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "whole, aligned elements of int64"));
  r = a.request(wire::Kind::accumulate, 1);
  r.header.type = static_cast<uint8_t>(ElementType::int64);
  r.header.operation = static_cast<uint8_t>(Operation::product);
  r.header.flags = wire::flag_scaled;
  r.header.reply_slot = 1;
  EXPECT_TRUE(has(refused(r, bytes_of({1})), "a product has no scale"));
  a.send(fetch(a, ++number, 0, Operation::sum, 8), bytes_of({1}));
  a.run([&] { return a.answer_to(number) != nullptr; });
  EXPECT_EQ(numbers_of(*a.answer_to(number)), Numbers{0});
  EXPECT_EQ(world.word(0), 1);
}

}  // namespace
}  // namespace skerry::server::test
