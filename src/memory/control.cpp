#include "memory/control.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::memory {

ControlLayout control_layout(const ControlSizes& sizes) {
  ControlLayout layout{};
  layout.members = sizes.members;
  layout.slots_per_member = sizes.slots_per_member;
  layout.slots = sizes.members * sizes.slots_per_member;
  layout.waiters = sizes.waiters != 0 ? sizes.waiters : 64;
  uint64_t offset = round_up(sizeof(ControlHeader), page_bytes);
  const auto place = [&offset](uint64_t bytes) {
    const uint64_t start = offset;
    offset = round_up(offset + bytes, page_bytes);
    return start;
  };
  layout.members_offset = place(uint64_t{layout.members} * sizeof(Member));
  layout.stripes_offset = place(uint64_t{stripe_count} * sizeof(Stripe));
  layout.slots_offset = place(uint64_t{layout.slots} * sizeof(CompletionSlot));
  layout.waiters_offset = place((uint64_t{layout.waiters} + 1) *
                                waiter_record_bytes);  // + 1: the pool's own head
  layout.reader_lines_offset = place((uint64_t{layout.members} + 1) *
                                     reader_line_bytes);  // + 1: the last name given
  layout.node_table_offset = place(sizes.node_table_bytes);
  layout.total_bytes = offset;
  return layout;
}

void Control::initialise(bool goes_on) const {
  ControlHeader& mine = header();
  mine.version = control_version;
  mine.layout = layout_;
  mine.goes_on = goes_on ? 1 : 0;
  mine.abort_rank = no_rank;
  mine.ready.store(control_magic, std::memory_order_release);
}

bool Control::matches() const {
  const ControlHeader& theirs = header();
  return theirs.ready.load(std::memory_order_acquire) == control_magic &&
         theirs.version == control_version &&
         std::memcmp(&theirs.layout, &layout_, sizeof layout_) == 0;
}

bool Control::set_abort(Rank rank, int32_t status, std::string_view text) const {
  ControlHeader& shared = header();
  uint32_t nobody = 0;
  if (!shared.abort_claim.compare_exchange_strong(nobody, 1, std::memory_order_relaxed))
    return false;
  shared.abort_rank = rank;
  shared.abort_status = status;
  const size_t length = std::min(text.size(), sizeof shared.abort_text - 1);
  std::memcpy(shared.abort_text, text.data(), length);
  shared.abort_text[length] = 0;
  shared.abort.store(1, std::memory_order_release);
  return true;
}

OwnerWatch Control::watch() const {
  OwnerWatch watch;
  watch.abort = abort_flag();
  watch.is_dead = [](const void* context, uint32_t owner) {
    const Control& control = *static_cast<const Control*>(context);
    return owner < control.layout().members && control.is_dead(owner);
  };
  watch.context = this;
  return watch;
}

OwnerWatch Control::stripe_watch() const {
  OwnerWatch stripes = watch();
  stripes.takes_over = goes_on();
  return stripes;
}

}  // namespace skerry::memory
