// Locks of the laboratory's protocols in memory: what the product's own protocol does not show.
#include <gtest/gtest.h>

#include "lock/machine.hpp"
#include "lock/test/slice.hpp"
#include "locks/protocols.hpp"

namespace skerry::lock::machine {
namespace {

const Machines& known(ProtocolKind kind) {
  make_known(machines_of(kind));
  return machines_of(kind);
}

TEST(LabLocks, HaveNumbersOfTheirOwn) {
  for (uint8_t i = 0; i < protocol_kinds; ++i) {
    const Machines& machines = known(static_cast<ProtocolKind>(i));
    EXPECT_EQ(protocol_of(machines.id), &machines);
  }
  EXPECT_EQ(protocol_of(most_protocols - 1), nullptr);
  EXPECT_EQ(protocol_of(200), nullptr);
}

TEST(Home, TakesOnlyNotesForAManager) {
  Slice two_sided(known(ProtocolKind::two_sided), 4), queue(known(ProtocolKind::queue), 4);
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
  Slice slice(known(ProtocolKind::two_sided), readers + 2);
  const Home home = slice.home();
  Tell tells[4];
  Rest rest = run_manager(home, said(Note::request, readers), tells);
  ASSERT_EQ(rest.told, 1u);  // the writer
  for (Requester r = 0; r < readers; ++r) {
    rest = run_manager(home, said(Note::request, r, Mode::shared), tells);
    EXPECT_EQ(rest.told, 0u);
    EXPECT_EQ(rest.state, Rest::State::waits);
  }
  std::vector<int> granted(readers, 0);
  rest = run_manager(home, said(Note::release, readers), tells);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.state, Rest::State::not_yet);
  const auto count = [&] {
    for (size_t i = 0; i < rest.told; ++i) {
      EXPECT_EQ(tells[i].note, Note::granted);
      ++granted[tells[i].to];
    }
  };
  count();
  rest = run_manager(home, said(Note::request, readers + 1), tells);
  EXPECT_FALSE(rest.taken);  // no room: the sender comes again
  count();
  for (int runs = 0; rest.state == Rest::State::not_yet && runs < 10; ++runs) {
    rest = run_manager(home, said(Note::none, 0), tells);
    count();
  }
  EXPECT_EQ(rest.state, Rest::State::waits);
  EXPECT_EQ(granted, std::vector<int>(readers, 1));
  rest = run_manager(home, said(Note::request, readers + 1), tells);
  EXPECT_TRUE(rest.taken);
  EXPECT_EQ(rest.told, 0u);
  for (Requester r = 0; r < readers; ++r)
    rest = run_manager(home, said(Note::release, r, Mode::shared), tells);
  ASSERT_EQ(rest.told, 1u);
  EXPECT_EQ(tells[0].to, readers + 1);
}

}  // namespace
}  // namespace skerry::lock::machine
