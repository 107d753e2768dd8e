// Locks with a manager, whose steps the server runs for ranks of other nodes, and their words.
#include "core/owner_lock.hpp"
#include "server/test/world.hpp"

namespace skerry::server::test {
namespace {

using ServerNotes = WithOrigin;

using lock::machine::Home;
using lock::machine::Note;
using lock::machine::Rest;

wire::Request note(Origin& a, uint64_t number, Note said, uint32_t requester, bool shared = false) {
  wire::Request r = a.request(wire::Kind::lock_note, number);
  r.header.segment_owner = homes.owner;
  r.header.segment_generation = homes.generation;
  r.header.reply_slot = 1;
  r.header.reply_tag = static_cast<uint32_t>(number);
  r.operands = {wire::note_word({static_cast<uint8_t>(said), shared, requester}), 0};
  return r;
}

wire::NoteAnswer answer_of(const Heard* heard) {
  wire::NoteAnswer answer{};
  EXPECT_NE(heard, nullptr);
  if (heard == nullptr) return answer;
  EXPECT_EQ(heard->reply.code, 0);
  EXPECT_EQ(heard->text.size(), sizeof answer);
  std::memcpy(&answer, heard->text.data(), std::min(sizeof answer, heard->text.size()));
  return answer;
}

TEST_F(ServerNotes, AManagerGrantsInOrderAndTheAnswerSaysWhomToTell) {
  Origin b(world, 2);
  b.open();
  a.send(note(a, 1, Note::request, 1));
  a.run([&] { return a.answer_to(1) != nullptr; });
  const wire::NoteAnswer granted = answer_of(a.answer_to(1));
  EXPECT_EQ(granted.taken, 1);
  ASSERT_EQ(granted.tells, 1);
  EXPECT_EQ(granted.tell[0].to, 1u);
  EXPECT_EQ(granted.tell[0].note, static_cast<uint32_t>(Note::granted));
  b.send(note(b, 1, Note::request, 2));
  b.run([&] { return b.answer_to(1) != nullptr; });
  EXPECT_EQ(answer_of(b.answer_to(1)).tells, 0) << "the lock is held";
  a.send(note(a, 2, Note::release, 1));
  a.run([&] { return a.answer_to(2) != nullptr; });
  // Expect: the releaser is told to send the next one its grant.
  const wire::NoteAnswer next = answer_of(a.answer_to(2));
  ASSERT_EQ(next.tells, 1);
  EXPECT_EQ(next.tell[0].to, 2u);
}

// Guards against: all others waited for an atomic of the adapter that nobody performed.
TEST_F(ServerNotes, ARankThatCouldNotPerformForAManagerIsNamedToTheOthers) {
  lock::machine::Config config;
  config.requesters = ranks;
  config.domain = lock::machine::Domain::nic;
  world.home().make(lock::machine::migrating(), config);
  Origin b(world, 2);
  b.open();
  a.send(note(a, 1, Note::request, 1));
  a.run([&] { return a.answer_to(1) != nullptr; });
  const wire::NoteAnswer wanted = answer_of(a.answer_to(1));
  ASSERT_EQ(wanted.rest, static_cast<uint8_t>(Rest::State::network));
  a.send(note(a, 2, Note::not_performed, 1));
  a.run([&] { return a.answer_to(2) != nullptr; });
  b.send(note(b, 1, Note::request, 2));
  b.run([&] { return b.answer_to(1) != nullptr; });
  const wire::NoteAnswer failed = answer_of(b.answer_to(1));
  EXPECT_EQ(failed.rest, static_cast<uint8_t>(Rest::State::failed));
  EXPECT_EQ(failed.value, 1u);
}

// Bug guarded against: a put of garbage into a manager's record ended the server that ran it.
TEST_F(ServerNotes, OnlyWordsAndMailOfALockAreWritten) {
  uint64_t number = 0;
  const auto put_at = [&](uint64_t offset) {
    wire::Request r = a.request(wire::Kind::read_modify_write, ++number);
    r.header.segment_owner = homes.owner;
    r.header.segment_generation = homes.generation;
    r.header.type = static_cast<uint8_t>(wire::Rmw::swap_64);
    r.header.offset = offset;
    r.header.reply_slot = 1;
    r.header.reply_tag = static_cast<uint32_t>(number);
    r.operands = {0x0bad'0bad'0bad'0bad, 0};
    a.send(r);
    a.run([&] { return a.answer_to(number) != nullptr; });
    return a.answer_to(number)->reply.code;
  };
  EXPECT_EQ(put_at(Home::word_at(1)), 0);
  EXPECT_EQ(put_at(Home::mail_at(1)), 0);
  for (const uint64_t record_at : {256u, 264u, 300u / 8 * 8, 504u})
    EXPECT_NE(put_at(record_at), 0) << record_at;
  a.send(note(a, ++number, Note::request, 1));
  a.run([&] { return a.answer_to(number) != nullptr; });
  EXPECT_EQ(answer_of(a.answer_to(number)).tells, 1);
}

TEST_F(ServerNotes, ADuplicateIsAnsweredFromWhatWasKept) {
  const wire::Request asked = note(a, 1, Note::request, 1);
  a.send(asked);
  a.settle();
  a.open();  // its connection broke before the answer came
  EXPECT_EQ(a.applied, 1u);
  a.heard.clear();
  a.send(asked);
  a.run([&] { return a.answer_to(1) != nullptr; });
  // Expect: the grant again, and not asked for twice.
  EXPECT_EQ(answer_of(a.answer_to(1)).tells, 1);
  a.send(note(a, 2, Note::release, 1));
  a.run([&] { return a.answer_to(2) != nullptr; });
  EXPECT_EQ(answer_of(a.answer_to(2)).tells, 0);
}

TEST_F(ServerNotes, AGuardThatIsTakenParksTheNoteAndNothingIsLost) {
  OwnerWord& guard = world.home().record().guard;
  ASSERT_TRUE(guard.try_lock(1));
  a.send(note(a, 1, Note::request, 1));
  a.put(2, 8, 5);
  a.settle();
  EXPECT_EQ(a.answer_to(1), nullptr);
  EXPECT_EQ(world.word(8), 0) << "what comes behind waits";
  unlock_word(guard);
  a.run([&] { return a.answer_to(1) != nullptr; });
  EXPECT_EQ(answer_of(a.answer_to(1)).tells, 1);
  a.run([&] { return world.word(8) == 5; });
}

TEST_F(ServerNotes, NotesThatNoRequesterSendsAreRefusedAndTheSessionGoesOn) {
  uint64_t number = 0;
  const auto refused = [&](wire::Request r) {
    r.header.number = ++number;
    a.send(r);
    a.run([&] { return a.answer_to(number) != nullptr; });
    EXPECT_NE(a.answer_to(number)->reply.code, 0);
    return a.answer_to(number)->text;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refused(note(a, 1, Note::request, ranks)), "as requester 4 sends note"));
  EXPECT_TRUE(has(refused(note(a, 1, Note::granted, 1)), "sends note"));
  EXPECT_TRUE(has(refused(note(a, 1, static_cast<Note>(200), 1)), "sends note 200"));
  wire::Request r = note(a, 1, Note::request, 1);
  r.header.segment_generation = segment.generation;
  EXPECT_TRUE(has(refused(r), "holds no lock with a manager"));
  r.header.segment_generation = 99;
  EXPECT_TRUE(has(refused(r), "no such segment"));
  a.send(note(a, ++number, Note::request, 1));
  a.run([&] { return a.answer_to(number) != nullptr; });
  EXPECT_EQ(answer_of(a.answer_to(number)).tells, 1);
}

// Ranks of the lock's node change its words by atomics of the processor: the server must do so,
// too, and not under the stripe of other memory.
TEST_F(ServerNotes, WordsOfALockAreChangedByAtomicsWithoutAStripe) {
  const uint64_t at = Home::word_at(1);
  memory::Stripe& stripe = world.control().stripes()[memory::stripe_index(7, at)];
  ASSERT_TRUE(stripe.word.try_lock(1));
  wire::Request r = a.request(wire::Kind::read_modify_write, 0);
  r.header.segment_owner = homes.owner;
  r.header.segment_generation = homes.generation;
  r.header.offset = at;
  r.header.reply_slot = 1;
  const auto modified = [&](wire::Rmw op, uint64_t operand, uint64_t expected) {
    ++r.header.number;
    r.header.reply_tag = static_cast<uint32_t>(r.header.number);
    r.header.type = static_cast<uint8_t>(op);
    r.operands = {operand, expected};
    a.send(r);
    a.run([&] { return a.answer_to(r.header.number) != nullptr; });
    return a.answer_to(r.header.number)->reply.result;
  };
  EXPECT_EQ(modified(wire::Rmw::fetch_add_64, 5, 0), 0u);
  EXPECT_EQ(modified(wire::Rmw::compare_swap_64, 9, 4), 5u);
  EXPECT_EQ(world.home().word(1).load(), 5u);
  EXPECT_EQ(modified(wire::Rmw::compare_swap_64, 9, 5), 5u);
  EXPECT_EQ(modified(wire::Rmw::swap_64, 7, 0), 9u);
  EXPECT_EQ(world.home().word(1).load(), 7u);
}

}  // namespace
}  // namespace skerry::server::test
