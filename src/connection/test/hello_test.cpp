#include "connection/hello.hpp"

#include <gtest/gtest.h>

#include "connection/test/given.hpp"

namespace skerry::connection {
namespace {

constexpr uint64_t generation = 0x1234'5678'9abc;  // 32 bits of them were used up in days

JobKey key_of(int seed) {
  JobKey key;
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = std::byte(static_cast<unsigned char>(i * 7 + static_cast<size_t>(seed)));
  return key;
}

TEST(Admission, AMemberIsAdmittedAndAnswered) {
  Hello hello;
  const auto bytes = make_hello(key_of(1), server, 17, generation);
  ASSERT_TRUE(check_hello(key_of(1), server, bytes, &hello).ok());
  EXPECT_EQ(hello.rank, 17u);
  EXPECT_EQ(hello.generation, generation);
  uint64_t applied = 0;
  auto answer = make_answer(key_of(1), server, hello, 1'000'000'007);
  EXPECT_TRUE(check_answer(key_of(1), server, hello, answer, &applied).ok());
  EXPECT_EQ(applied, 1'000'000'007u);
  bool refusals = true;
  EXPECT_TRUE(check_answer(key_of(1), server, hello, answer, &applied, &refusals).ok());
  EXPECT_FALSE(refusals);
  answer.back() ^= std::byte{1};
  EXPECT_FALSE(check_answer(key_of(1), server, hello, answer, &applied).ok())
      << "nobody may change how far the session came";
}

TEST(Admission, TheAnswerSaysWhetherRefusalsFollow) {
  Hello hello;
  const auto bytes = make_hello(key_of(1), server, 17, generation);
  ASSERT_TRUE(check_hello(key_of(1), server, bytes, &hello).ok());
  uint64_t applied = 0;
  bool refusals = false;
  auto answer = make_answer(key_of(1), server, hello, 5, true);
  EXPECT_TRUE(check_answer(key_of(1), server, hello, answer, &applied, &refusals).ok());
  EXPECT_EQ(applied, 5u);
  EXPECT_TRUE(refusals);
  answer.back() ^= std::byte{0x80};
  EXPECT_FALSE(check_answer(key_of(1), server, hello, answer, &applied, &refusals).ok())
      << "nobody may hide them";
}

TEST(Admission, AnotherJobAnotherServerAnotherVersionAreRefused) {
  Hello hello;
  const auto bytes = make_hello(key_of(1), server, 17, generation);
  EXPECT_FALSE(check_hello(key_of(2), server, bytes, &hello).ok());
  EXPECT_FALSE(check_hello(key_of(1), Peer{4, 0, 1, Role::server}, bytes, &hello).ok());
  EXPECT_FALSE(check_hello(key_of(1), Peer{3, 1, 1, Role::server}, bytes, &hello).ok());
  EXPECT_FALSE(check_hello(key_of(1), Peer{3, 0, 2, Role::server}, bytes, &hello).ok());
}

TEST(Admission, EveryFlippedBitIsRefused) {
  const auto good = make_hello(key_of(1), server, 17, generation);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte(1u << (bit % 8));
    Hello hello;
    EXPECT_FALSE(check_hello(key_of(1), server, bad, &hello).ok()) << "bit " << bit;
  }
}

TEST(Admission, AHelloIsNotItsOwnAnswer) {
  Hello hello;
  const auto bytes = make_hello(key_of(1), server, 17, generation);
  ASSERT_TRUE(check_hello(key_of(1), server, bytes, &hello).ok());
  uint64_t applied = 0;
  EXPECT_FALSE(check_answer(key_of(1), server, hello, std::span(bytes).subspan(4), &applied).ok());
  EXPECT_FALSE(check_answer(key_of(1), server, hello, std::span(bytes).first(28), &applied).ok());
}

TEST(Admission, ShortAndLongHellosAreRefused) {
  const auto good = make_hello(key_of(1), server, 17, generation);
  Hello hello;
  EXPECT_FALSE(check_hello(key_of(1), server, std::span(good).first(31), &hello).ok());
  EXPECT_FALSE(check_hello(key_of(1), server, {}, &hello).ok());
}

}  // namespace
}  // namespace skerry::connection
