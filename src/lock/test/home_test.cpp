// Locks of machine protocols in memory: the slice, mail, and a manager that is run step by step.
#include <gtest/gtest.h>

#include "lock/machine.hpp"
#include "lock/migrating.hpp"
#include "lock/test/slice.hpp"

namespace skerry::lock::machine {
namespace {

TEST(LockChoice, IsTheFairQueueOrTheMigratingLock) {
  Choice choice;
  EXPECT_TRUE(choose("migrating", &choice).ok());
  EXPECT_EQ(choice.machines, &migrating());
  EXPECT_EQ(choice.migration, Migration::always);
  EXPECT_TRUE(choose("migrating:history", &choice).ok());
  EXPECT_EQ(choice.migration, Migration::history);
  EXPECT_TRUE(choose("fair", &choice).ok());
  EXPECT_EQ(choice.machines, nullptr);
  EXPECT_FALSE(choice.is_open);
  EXPECT_TRUE(choose("auto", &choice).ok());
  EXPECT_EQ(choice.machines, nullptr);
  EXPECT_TRUE(choice.is_open);
}

TEST(LockChoice, RefusesOthersAndNamesTheRest) {
  Choice choice;
  for (const char* wrong :
       {"", "fairest", "migrating:", "migrating:never", "queue", "fair:always"}) {
    const Status status = choose(wrong, &choice);
    EXPECT_EQ(status.code(), Code::config) << wrong;
    EXPECT_NE(status.message().find("LIBRARY.so:NAME"), std::string::npos) << status.message();
  }
  for (const char* wrong : {"/nowhere.so:queue", "libm.so.6.so:queue", "x.so:"}) {
    const Status status = choose(wrong, &choice);
    EXPECT_EQ(status.code(), Code::config) << wrong;
    EXPECT_NE(status.message().find(wrong), std::string::npos) << status.message();
  }
}

TEST(Mail, HoldsAnAnswerAndTheOneBehind) {
  const uint64_t answer = mail_of({3, Note::granted, 9}, 7);
  const uint64_t behind = mail_of({3, Note::linked, 0}, 99'999);
  uint64_t both = answer + behind;
  Event told;
  ASSERT_TRUE(take_note(&both, &told));
  EXPECT_EQ(told.kind, Event::Kind::told);
  EXPECT_EQ(told.note, Note::linked);
  EXPECT_EQ(told.from, 99'999u);
  EXPECT_EQ(both, answer);
  ASSERT_TRUE(take_note(&both, &told));
  EXPECT_EQ(told.note, Note::granted);
  EXPECT_EQ(told.value, 9u);
  EXPECT_FALSE(take_note(&both, &told));
}

// A peer gone wrong names a slice: it is looked at before anything is done with it.
TEST(Home, RefusesASliceThatIsNotWhole) {
  Slice slice(migrating(), 4);
  Home home;
  EXPECT_TRUE(Home::open(slice.base(), slice.bytes(), &home).ok());
  EXPECT_EQ(Home::open(slice.base(), slice.bytes() - 1, &home).code(), Code::invalid);
  EXPECT_EQ(Home::open(nullptr, 0, &home).code(), Code::invalid);
  slice.home().record().requesters = 5;
  EXPECT_EQ(Home::open(slice.base(), slice.bytes(), &home).code(), Code::invalid);
  slice.home().record().requesters = 4;
  slice.home().record().protocol = 200;
  EXPECT_EQ(Home::open(slice.base(), slice.bytes(), &home).code(), Code::invalid);
}

// The migrating lock's manager waits for a local holder: it pauses, and goes on when somebody says
// so.
TEST(Home, PausesAndGoesOn) {
  Slice slice(migrating(), 2);
  const Home home = slice.home();
  home.word(migrating_words::cpu).store(0);  // requester 0, of the lock's node, holds it
  Tell tells[4];
  Rest rest = run_manager(home, said(Note::request, 1), tells);
  EXPECT_EQ(rest.state, Rest::State::pauses);
  rest = run_manager(home, said(Note::none, 1), tells);
  EXPECT_EQ(rest.state, Rest::State::pauses);
  EXPECT_EQ(rest.told, 0u);
  home.word(migrating_words::cpu).store(2);  // free
  rest = run_manager(home, said(Note::none, 1), tells);
  EXPECT_EQ(rest.state, Rest::State::waits);
  ASSERT_EQ(rest.told, 1u);
  EXPECT_EQ(tells[0].to, 1u);
  EXPECT_EQ(tells[0].note, Note::granted);
  EXPECT_EQ(home.word(migrating_words::network).load(), 1u);
  rest = run_manager(home, said(Note::none, 1), tells);  // one too many does nothing
  EXPECT_EQ(rest.told, 0u);
}

// In the domain `nic` the caller performs what the manager wants of the network. Others come back
// later.
TEST(Home, LeavesTheNetworksWordToTheCaller) {
  Slice slice(migrating(), 3, Domain::nic);
  const Home home = slice.home();
  const uint64_t cpu_mode = 4;
  Tell tells[4];
  Rest rest = run_manager(home, said(Note::request, 1), tells);
  ASSERT_EQ(rest.state, Rest::State::network);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.told, 0u);
  EXPECT_EQ(rest.action.kind, Action::Kind::compare_and_swap);
  EXPECT_EQ(rest.action.word, migrating_words::network);
  EXPECT_EQ(rest.action.expected, cpu_mode);
  EXPECT_EQ(rest.action.value, 1u);
  EXPECT_EQ(home.word(migrating_words::network).load(), cpu_mode);  // not by us
  // Another one, and one that only lets it go on: neither is to perform it.
  rest = run_manager(home, said(Note::request, 2), tells);
  EXPECT_FALSE(rest.taken);
  EXPECT_EQ(rest.state, Rest::State::waits);
  rest = run_manager(home, said(Note::none, 2), tells);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.state, Rest::State::waits);
  home.word(migrating_words::network).store(1);
  const Event performed = said(Note::performed, 1, Mode::exclusive, cpu_mode);
  EXPECT_TRUE(is_sound(home, performed));
  rest = run_manager(home, performed, tells);
  EXPECT_EQ(rest.state, Rest::State::waits);
  ASSERT_EQ(rest.told, 1u);
  EXPECT_EQ(tells[0].to, 1u);
  EXPECT_EQ(tells[0].note, Note::granted);
  rest = run_manager(home, performed, tells);  // one too many does nothing
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.told, 0u);
  // The other one again: the lock is in network mode, so it is told to try there.
  rest = run_manager(home, said(Note::request, 2), tells);
  EXPECT_EQ(rest.state, Rest::State::waits);
  ASSERT_EQ(rest.told, 1u);
  EXPECT_EQ(tells[0].note, Note::again);
  // The processor has no word but its own.
  EXPECT_EQ(home.word(migrating_words::network).load(), 1u);
}

}  // namespace
}  // namespace skerry::lock::machine
