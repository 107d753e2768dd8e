// What a requester and a manager say to each other in the domain `nic`, step by step.
#include <gtest/gtest.h>

#include <utility>

#include "lock/asking.hpp"
#include "lock/migrating.hpp"
#include "lock/network_swap.hpp"
#include "lock/test/slice.hpp"

namespace skerry::lock::machine {
namespace {

using Next = Asking::Next;

constexpr uint32_t requesters = 5;
constexpr uint64_t is_free = requesters, is_in_cpu_mode = requesters + 1,
                   is_free_shared = requesters + 2;

// A lock, 0 and 2 of its node, and what requesters were told.
class AskingTest : public testing::Test {
 protected:
  static Event event(Note note, Requester from) {
    Event one = said(note, from);
    one.local = from % 2 == 0;
    return one;
  }
  // One message to the manager, with room for one message of its own.
  Next send(Asking& asking) {
    Tell tells[1];
    rest_ = run_manager(home_, asking.message(), tells);
    for (size_t i = 0; i < rest_.told; ++i) told_.push_back(tells[i]);
    return asking.heard(rest_);
  }
  void perform(Asking& asking) {
    EXPECT_EQ(rest_.state, Rest::State::network);
    asking.performed(machine::perform(home_.word(rest_.action.word), rest_.action));
  }
  // Until the manager has it.
  void say(Note note, Requester from) {
    Asking asking(event(note, from));
    for (Next next = Next::send; next != Next::done; next = send(asking)) {
      ASSERT_TRUE(next == Next::send || next == Next::perform);
      if (next == Next::perform) perform(asking);
    }
  }
  std::atomic<uint64_t>& cpu() { return home_.word(migrating_words::cpu); }
  std::atomic<uint64_t>& network() { return home_.word(migrating_words::network); }
  Requester last_granted() const {
    for (size_t i = told_.size(); i > 0; --i)
      if (told_[i - 1].note == Note::granted) return told_[i - 1].to;
    return requesters;
  }

  Slice slice_{migrating(), requesters, Domain::nic};
  const Home home_ = slice_.home();
  Rest rest_;
  std::vector<Tell> told_;
};

// Guards against: a manager that went on for a requester, and then wanted the network's word
// changed, had not taken its request. The requester took the end of that for its own, and waited
// for ever.
TEST_F(AskingTest, ARequestThatTheManagerHadNoRoomForIsMadeAgain) {
  cpu().store(0);
  say(Note::request, 1);
  say(Note::request, 2);
  cpu().store(is_free);
  Asking goes_on(event(Note::none, 1));
  ASSERT_EQ(send(goes_on), Next::perform);
  perform(goes_on);
  ASSERT_EQ(send(goes_on), Next::send) << "there is no room for another message";
  ASSERT_EQ(last_granted(), 1u);

  Asking request(event(Note::request, 3));
  ASSERT_EQ(send(request), Next::perform) << "for requester 2, before the request is looked at";
  EXPECT_FALSE(rest_.taken);
  perform(request);
  ASSERT_EQ(send(request), Next::send);
  EXPECT_EQ(request.message().note, Note::request);
  EXPECT_EQ(send(request), Next::done);

  network().store(is_free);  // 1 gives it back
  say(Note::none, 2);
  ASSERT_EQ(last_granted(), 2u);
  cpu().store(is_free);
  say(Note::none, 3);
  EXPECT_EQ(last_granted(), 3u);
  EXPECT_EQ(network().load(), 3u);
}

// Guards against: a requester that could not perform what the manager wanted left it waiting, and
// with it all others, for ever.
TEST_F(AskingTest, ARequesterThatCannotPerformIsNamedToAllOthers) {
  Asking fails(event(Note::request, 1));
  ASSERT_EQ(send(fails), Next::perform);
  Asking waits(event(Note::request, 3));
  ASSERT_EQ(send(waits), Next::pause);
  fails.not_performed();
  EXPECT_TRUE(is_sound(home_, fails.message()));
  EXPECT_EQ(send(fails), Next::failed);
  EXPECT_EQ(send(waits), Next::failed);
  EXPECT_EQ(rest_.action.value, 1u);
  // Nobody is granted a lock of which nobody knows who has it.
  for (const Note note : {Note::none, Note::request, Note::performed, Note::not_performed}) {
    Asking another(event(note, 2));
    EXPECT_EQ(send(another), Next::failed);
    EXPECT_EQ(rest_.action.value, 1u);
  }
  EXPECT_TRUE(told_.empty());
}

TEST_F(AskingTest, NobodyEndsAManagerThatWantsNothing) {
  Asking strange(event(Note::not_performed, 3));
  EXPECT_EQ(send(strange), Next::done);
  say(Note::request, 1);
  EXPECT_EQ(last_granted(), 1u);
}

Config of_five() {
  Config config;
  config.requesters = requesters;
  return config;
}

Action swap_of(uint64_t expected, uint64_t value) {
  return compare_and_swap(Unit::network, Place::home, migrating_words::network, expected, value);
}

TEST(NetworkSwap, WhatIsFoundAfterABreakTellsWhetherItWasDone) {
  NetworkSwap take(swap_of(is_free, 1), of_five());
  EXPECT_EQ(take.before(1), 1u) << "without a break it is what was found";
  EXPECT_TRUE(take.may_repeat());
  EXPECT_EQ(take.before(1), is_free) << "nobody else writes our number";
  EXPECT_EQ(take.before(3), 3u) << "another one was first";
  EXPECT_EQ(take.before(is_free), is_free);
  NetworkSwap give(swap_of(1, is_free), of_five());
  EXPECT_TRUE(give.may_repeat());
  EXPECT_EQ(give.before(1), 1u) << "this attempt did it";
  EXPECT_EQ(give.before(3), 1u) << "a broken one did, and another has it since";
  NetworkSwap take_shared(swap_of(is_free_shared, 1), of_five());
  EXPECT_TRUE(take_shared.may_repeat());
  EXPECT_EQ(take_shared.before(1), is_free_shared);
  EXPECT_EQ(take_shared.before(is_free), is_free) << "nobody has taken it for us";
  NetworkSwap grant(swap_of(is_in_cpu_mode, 3), of_five());
  EXPECT_TRUE(grant.may_repeat());
  EXPECT_EQ(grant.before(3), is_in_cpu_mode);
}

// To look at the count of sharers takes as long as the lock: the word says whether that is needed.
TEST(Migrating, AFreeNetworkLockTellsWhetherThereMayBeSharers) {
  const Config config = of_five();
  MachineBytes client;
  migrating().make_client(&client, {1, false});
  uint64_t word = is_free;
  const auto step = [&](Event event) {  // until it is granted or released; counts its swaps
    std::pair<Action, int> done{migrating().step_client(&client, event, config), 0};
    while (done.first.kind == Action::Kind::compare_and_swap) {
      const uint64_t before = word;
      if (word == done.first.expected) word = done.first.value;
      ++done.second;
      done.first = migrating().step_client(
          &client, {.kind = Event::Kind::result, .value = before}, config);
    }
    return done;
  };
  const auto lock = [&](bool is_alone, int swaps) {
    const auto [action, count] = step({.kind = Event::Kind::lock});
    EXPECT_EQ(action.kind, Action::Kind::granted);
    EXPECT_EQ(action.value, is_alone ? 1u : 0u);
    EXPECT_EQ(count, swaps);
  };
  const auto unlock = [&](Mode mode) {
    EXPECT_EQ(step({.kind = Event::Kind::unlock, .mode = mode}).first.kind,
              Action::Kind::released);
  };
  lock(true, 1), unlock(Mode::exclusive);
  EXPECT_EQ(word, is_free);
  lock(true, 1), unlock(Mode::shared);
  EXPECT_EQ(word, is_free_shared);
  lock(false, 1), unlock(Mode::exclusive);
  EXPECT_EQ(word, is_free) << "its holder has seen that there are none";
  word = is_free_shared;  // another one was counted in
  lock(false, 2), unlock(Mode::shared);
  word = is_free;
  lock(true, 2), unlock(Mode::exclusive);
}

// Guards against: where each attempt broke the connection there was no end.
TEST(NetworkSwap, IsNotRepeatedForEver) {
  NetworkSwap swap(swap_of(is_free, 1), of_five());
  int attempts = 1;
  while (swap.may_repeat() && attempts < 1000) ++attempts;
  EXPECT_EQ(attempts, NetworkSwap::most_broken);
}

}  // namespace
}  // namespace skerry::lock::machine
