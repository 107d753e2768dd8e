// Locks of machine protocols in memory: the slice, mail, and a manager that is run step by step.
#include "lock/home.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace skerry::lock::machine {
namespace {

class Slice {
 public:
  Slice(ProtocolKind kind, uint32_t requesters)
      : bytes_(Home::bytes(kind, requesters)), memory_(bytes_ / 64 + 1) {
    Config config;
    config.requesters = requesters;
    home().make(kind, config);
  }
  Home home() { return Home(base()); }
  std::byte* base() { return memory_.front().bytes; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  uint64_t bytes_;
  std::vector<Line> memory_;
};

Event said(Note note, Requester from, Mode mode = Mode::exclusive, uint64_t value = 0) {
  Event event;
  event.kind = Event::Kind::told;
  event.note = note;
  event.from = from;
  event.mode = mode;
  event.value = value;
  return event;
}

TEST(LockChoice, NamesEveryProtocol) {
  Choice choice;
  EXPECT_TRUE(choose("fair", &choice).ok());
  EXPECT_TRUE(choice.is_fair_queue);
  for (uint8_t kind = 0; kind < protocol_kinds; ++kind) {
    EXPECT_TRUE(choose(to_string(static_cast<ProtocolKind>(kind)), &choice).ok());
    EXPECT_FALSE(choice.is_fair_queue);
    EXPECT_EQ(choice.kind, static_cast<ProtocolKind>(kind));
  }
  EXPECT_TRUE(choose("migrating:history", &choice).ok());
  EXPECT_EQ(choice.migration, Migration::history);
}

TEST(LockChoice, RefusesOthersAndNamesTheRest) {
  Choice choice;
  for (const char* wrong : {"", "fairest", "migrating:", "migrating:never", "queue:always"}) {
    const Status status = choose(wrong, &choice);
    EXPECT_EQ(status.code(), Code::config) << wrong;
    EXPECT_NE(status.message().find("reader_writer"), std::string::npos) << status.message();
  }
}

TEST(Mail, HoldsAnAnswerAndTheOneBehind) {
  const uint64_t answer = mail_of({3, Note::granted, 9}, 7);
  const uint64_t behind = mail_of({3, Note::linked, 0}, 99'999);
  const Mail both = read_mail(answer + behind);
  EXPECT_TRUE(both.is_followed);
  EXPECT_EQ(both.follower, 99'999u);
  EXPECT_EQ(both.answer, Note::granted);
  EXPECT_EQ(both.value, 9u);
  EXPECT_FALSE(read_mail(answer).is_followed);
  EXPECT_EQ(read_mail(behind).answer, Note::none);
  EXPECT_FALSE(read_mail(0).is_followed);
}

// A peer gone wrong names a slice: it is looked at before anything is done with it.
TEST(Home, RefusesASliceThatIsNotWhole) {
  Slice slice(ProtocolKind::two_sided, 4);
  Home home;
  EXPECT_TRUE(Home::open(slice.base(), slice.bytes(), &home).ok());
  EXPECT_EQ(Home::open(slice.base(), slice.bytes() - 1, &home).code(), Code::invalid);
  EXPECT_EQ(Home::open(nullptr, 0, &home).code(), Code::invalid);
  slice.home().record().requesters = 5;
  EXPECT_EQ(Home::open(slice.base(), slice.bytes(), &home).code(), Code::invalid);
  slice.home().record().requesters = 4;
  slice.home().record().kind = static_cast<ProtocolKind>(200);
  EXPECT_EQ(Home::open(slice.base(), slice.bytes(), &home).code(), Code::invalid);
}

TEST(Home, TakesOnlyNotesForAManager) {
  Slice two_sided(ProtocolKind::two_sided, 4), queue(ProtocolKind::queue, 4);
  EXPECT_TRUE(is_sound(two_sided.home(), said(Note::request, 3)));
  EXPECT_FALSE(is_sound(two_sided.home(), said(Note::request, 4)));
  EXPECT_FALSE(is_sound(two_sided.home(), said(Note::granted, 0)));
  EXPECT_FALSE(is_sound(two_sided.home(), said(Note::renew, 0, Mode::exclusive, 4)));
  EXPECT_FALSE(is_sound(two_sided.home(), said(static_cast<Note>(77), 0)));
  EXPECT_FALSE(is_sound(queue.home(), said(Note::request, 0)));
}

// More readers are granted at once than one run has room for: the rest follows, none twice, and a
// message that comes in between is not lost.
TEST(Home, GoesOnWhereARunHadNoRoom) {
  constexpr uint32_t readers = 10;
  Slice slice(ProtocolKind::two_sided, readers + 2);
  const Home home = slice.home();
  Tell tells[4];
  size_t told = 0;
  Rest rest = run_manager(home, said(Note::request, readers), tells, &told);
  ASSERT_EQ(told, 1u);  // the writer
  for (Requester r = 0; r < readers; ++r) {
    rest = run_manager(home, said(Note::request, r, Mode::shared), tells, &told);
    EXPECT_EQ(told, 0u);
    EXPECT_EQ(rest.state, Rest::State::waits);
  }
  std::vector<int> granted(readers, 0);
  rest = run_manager(home, said(Note::release, readers), tells, &told);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.state, Rest::State::not_yet);
  const auto count = [&] {
    for (size_t i = 0; i < told; ++i) {
      EXPECT_EQ(tells[i].note, Note::granted);
      ++granted[tells[i].to];
    }
  };
  count();
  rest = run_manager(home, said(Note::request, readers + 1), tells, &told);
  EXPECT_FALSE(rest.taken);  // no room: the sender comes again
  count();
  for (int runs = 0; rest.state == Rest::State::not_yet && runs < 10; ++runs) {
    rest = run_manager(home, said(Note::none, 0), tells, &told);
    count();
  }
  EXPECT_EQ(rest.state, Rest::State::waits);
  EXPECT_EQ(granted, std::vector<int>(readers, 1));
  rest = run_manager(home, said(Note::request, readers + 1), tells, &told);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(told, 0u);
  for (Requester r = 0; r < readers; ++r)
    rest = run_manager(home, said(Note::release, r, Mode::shared), tells, &told);
  ASSERT_EQ(told, 1u);
  EXPECT_EQ(tells[0].to, readers + 1);
}

// The migrating's manager waits for a local holder: it pauses, and goes on when somebody says so.
TEST(Home, PausesAndGoesOn) {
  Slice slice(ProtocolKind::migrating, 2);
  const Home home = slice.home();
  home.word(migrating_words::cpu).store(0);  // requester 0, of the lock's node, holds it
  Tell tells[4];
  size_t told = 0;
  Rest rest = run_manager(home, said(Note::request, 1), tells, &told);
  EXPECT_EQ(rest.state, Rest::State::pauses);
  EXPECT_EQ(rest.pause.kind, Action::Kind::pause);
  rest = run_manager(home, said(Note::none, 1), tells, &told);
  EXPECT_EQ(rest.state, Rest::State::pauses);
  EXPECT_EQ(told, 0u);
  home.word(migrating_words::cpu).store(2);  // free
  rest = run_manager(home, said(Note::none, 1), tells, &told);
  EXPECT_EQ(rest.state, Rest::State::waits);
  ASSERT_EQ(told, 1u);
  EXPECT_EQ(tells[0].to, 1u);
  EXPECT_EQ(tells[0].note, Note::granted);
  EXPECT_EQ(home.word(migrating_words::network).load(), 1u);
  rest = run_manager(home, said(Note::none, 1), tells, &told);  // one too many does nothing
  EXPECT_EQ(told, 0u);
}

}  // namespace
}  // namespace skerry::lock::machine
