// Life of a window.
#include "window/window.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace skerry::window {

// What a member says of itself before the window is made.
struct Window::Told {
  uint64_t bytes, unit;
  uint32_t code;     // of the failure that it has already; 0: none
  uint8_t protocol;  // Machines::id; the fair queue: most_protocols
  uint8_t migration, check, moves;
  uint8_t is_unsure;  // it did not reach the memory of all; some may not have allowed it yet
  uint8_t has_adapter;  // whose atomics pay (Engine::atomics_pay)
  uint8_t reserved;     // 0
  uint64_t ready;     // Memory::make_ready
};

// Fails alike on all members if one has failed already, or wants something else. Whatever a member
// wrote before, the others see on return.
Status Window::compare(job::Group& group, const Told& mine, const Status& status,
                       std::vector<Told>* told) {
  told->resize(static_cast<size_t>(group.size()));
  SKERRY_TRY(group.allgather(&mine, sizeof mine, told->data()));
  const auto failed = std::ranges::find_if(*told, [](const Told& one) { return one.code != 0; });
  SKERRY_TRY(group.explain(static_cast<int32_t>(failed - told->begin()), status));
  for (const Told& one : *told) {
    if (one.protocol != mine.protocol || one.migration != mine.migration)
      return error(Code::config, "SKERRY_LOCK is not the same on all members of the window");
    if (one.check != mine.check)
      return error(Code::config, "SKERRY_CHECK is not the same on all members of the window");
  }
  return {};
}

// Collective. By the first exchange all have allowed what the system needs to be asked for. So
// where one did not reach the others' memory before it, all look once more.
Status Window::agree(Told mine, const Status& status, std::vector<Told>* told) {
  SKERRY_TRY(compare(group(), mine, status, told));
  if (std::ranges::none_of(*told, [](const Told& one) { return one.is_unsure != 0; })) return {};
  const Status reached = memory_.check_reach();
  mine.code = static_cast<uint32_t>(reached.code());
  return compare(group(), mine, reached, told);
}

// SKERRY_LOCK=auto. All members decide alike: accesses to memory of others go by the adapter, too,
// where the window allocated it, and inside a node the queue is faster.
void Window::settle(const std::vector<Told>& told, lock::Choice* choice) {
  const bool by_adapter = memory_.flavor() == Flavor::allocated && !group().is_on_one_node() &&
                          std::ranges::all_of(told, &Told::has_adapter);
  if (std::exchange(choice->is_open, false) && by_adapter)
    choice->machines = &lock::machine::migrating();
}

// Collective.
Status Window::open(const lock::Choice& choice, const std::vector<Told>& told, bool has_desk) {
  std::vector<uint64_t> sizes, units;
  bool any_moves = false, all_are_ready = true;
  for (const Told& one : told) {
    any_moves = any_moves || one.moves != 0;
    all_are_ready = all_are_ready && one.ready == told[0].ready;
    sizes.push_back(one.bytes);
    units.push_back(one.unit);
  }
  memory_.take_note(std::move(sizes), std::move(units), any_moves, all_are_ready);
  bool is_known = false;
  SKERRY_TRY(memory_.open(&is_known));
  if (!has_desk) SKERRY_TRY(Desks::of(group()).make(&desk_));
  SKERRY_TRY(locks_.open(group(), desk_, choice));
  epochs_.open(desk_);
  return is_known || !has_desk || choice.machines != nullptr ? Status() : group().barrier();
}

Window::Window(job::Job& job, job::Group* group, Flavor flavor, void* base, uint64_t bytes)
    : context_(job, group),
      memory_(context_, flavor, base, bytes, job.options().config.check == Check::Level::off),
      locks_(context_),
      epochs_(context_, memory_, locks_),
      accesses_(context_, memory_, epochs_) {}

Status Window::make(job::Group& group, Flavor flavor, void* base, uint64_t bytes, uint64_t unit,
                    std::unique_ptr<Window>* window) {
  const job::JobOptions& options = group.job().options();
  if (options.goes_on)
    return error(Code::unsupported,
                 "windows are not there yet in a job that goes on without its dead: use segments");
  lock::Choice choice;
  Status status = lock::choose(options.config.lock, &choice);
  const Check::Level check = options.config.check;
  if (status.ok() && unit == 0)
    status = error(Code::invalid, "unit is 0: give the bytes of one displacement, >= 1");
  if (status.ok() && flavor == Flavor::created && base == nullptr && bytes > 0)
    status = error(Code::invalid, "base is null, and bytes ", bytes, ": give the memory");
  if (status.ok() && flavor != Flavor::allocated) status = memory::allow_given();
  std::unique_ptr<Window> made(new Window(group.job(), &group, flavor, base, bytes));
  Memory& memory = made->memory_;
  // What the group keeps is made ready before the members compare, so that one collective is all.
  const bool has_desk = Desks::of(group).take(&made->desk_);
  const uint64_t ready = status.ok() ? memory.make_ready() : 0;
  const bool is_unsure = status.ok() && flavor != Flavor::allocated && !memory.check_reach().ok();
  const Told mine{bytes,
                  unit,
                  static_cast<uint32_t>(status.code()),
                  choice.machines == nullptr ? lock::machine::most_protocols : choice.machines->id,
                  static_cast<uint8_t>(choice.migration),
                  static_cast<uint8_t>(check),
                  flavor == Flavor::created && options.config.move_given,
                  is_unsure,
                  group.job().engine().atomics_pay,
                  0,
                  ready};
  std::vector<Told> told;
  Status opened = made->agree(mine, status, &told);
  if (opened.ok()) {
    made->settle(told, &choice);
    opened = made->open(choice, told, has_desk);
  }
  if (!opened.ok()) {
    made->give_up(true);  // all members failed alike, and give back the same
    return opened;
  }
  if (check != Check::Level::off) {
    const SegmentId id = memory.id();
    made->context_.check = std::make_unique<Check>(
        check, group.job().rank(),
        "window (" + std::to_string(id.owner) + ", " + std::to_string(id.generation) + ")",
        group.job().engine());
  }
  *window = std::move(made);
  return {};
}

std::unique_ptr<Window> Window::stand_in(job::Job& job) {
  return std::unique_ptr<Window>(new Window(job, nullptr, Flavor::allocated, nullptr, 0));
}

// Nobody accesses it any more, and all members know that.
void Window::give_up(bool keeps) {
  memory_.give_up(keeps);
  if (desk_.signals != nullptr) Desks::of(group()).give_back(std::exchange(desk_, {}));
  locks_.close();
}

// Collective.
Status Window::close() {
  Status synced;
  bool any_holds = true;
  if (!group().is_freed()) synced = memory_.end_use(&any_holds);
  else if (group().size() == 1) synced = job().engine().fence_all();
  else synced = error(Code::freed, "the window's group was freed: free its windows first");
  const Status moved = memory_.move_out();
  // Whatever else was reported belongs to earlier requests: the others free it, so this member
  // does.
  const Code code = synced.code();
  if (code == Code::peer_dead || code == Code::network || code == Code::freed) return synced;
  give_up(!any_holds);
  return synced.ok() ? moved : synced;
}

Status Window::free() {
  SKERRY_TRY(epochs_.check_may_free());
  Status status = context_.done_there(no_rank, context_.wait_issued());
  status.also(close());
  epochs_.forget_targets();
  SKERRY_INVARIANT(context_.group != nullptr, "a window is freed once");
  context_.group = nullptr;
  return status;
}

}  // namespace skerry::window
