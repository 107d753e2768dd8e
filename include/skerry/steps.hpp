// Loops that go on by themselves after a death, in jobs with OnFailure::continues:
//
//   std::vector<double> mine(1000);
//   sk::Steps loop(job, 100, 5);       // 100 steps; before each fifth all is protected
//   loop.protect(std::span(mine));
//   loop.run([&](std::uint64_t step, const sk::Group& group) { ... });
//
// What each member has protected is kept in the memory of its node and in that of a partner, a
// member on another node. After a death the body runs again from the last protected step, in a
// group of those that live, with spares in the places of the dead (`skerry run --spares`).
// docs/going-on.md describes it. skerry.h has what the calls do.
#pragma once

#include <skerry/skerry.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

namespace sk {
inline namespace v0 {

// What was protected cannot be brought back.
class LostError : public Error {
 public:
  explicit LostError(const std::string& why) : Error(SKERRY_ERR_PEER_DEAD, why) {}
};

// Bytes of each member of a group, which outlive deaths. Not of several threads at once.
class Protected {
 public:
  // As skerry_protected_create. On a spare `group` is its world, and it begins with recover().
  explicit Protected(const Group& group, int distance = 1) {
    skerry_protected* made = nullptr;
    check(skerry_protected_create(group.get(), distance, &made));
    owner_ = {group.job_ref(), made};
  }

  Group group() const { return {owner_.job_ref(), skerry_protected_group(get())}; }
  // Of the last state; -1: there is none.
  std::int64_t step() const { return skerry_protected_step(get()); }
  // How many members the group had that saved it.
  int places() const { return skerry_protected_places(get()); }
  std::uint64_t bytes() const { return skerry_protected_bytes(get()); }  // of each of them

  // Makes `data`, the same number of bytes on every member, the state to go back to: see
  // skerry_protected_save. Collective. Errors: PEER_DEAD, INVALID, NO_MEMORY.
  void save(std::int64_t step, std::span<const std::byte> data) {
    check(skerry_protected_forget(get()));
    check(skerry_protected_add(get(), const_cast<std::byte*>(data.data()), data.size()));
    check(skerry_protected_save(get(), step));
  }
  // After a PEER_DEAD, and on a spare at first: group() is that of those that live, with spares in
  // the places of the dead, and read() has the last state. `timeout_ns` as of Group::refill.
  // Collective over those that live. Errors: LostError, TIMEOUT, NO_MEMORY.
  void recover(std::int64_t timeout_ns = -1) {
    check_found(skerry_protected_recover(get(), timeout_ns));
  }
  // What the member at position `place` of that group had saved. Not collective. Errors: INVALID,
  // PEER_DEAD.
  void read(int place, std::uint64_t offset, std::span<std::byte> to) const {
    check(skerry_protected_read(get(), place, offset, to.data(), to.size()));
  }
  skerry_protected* get() const { return owner_.get(); }  // for calls to skerry.h

 private:
  friend class Steps;
  // A PEER_DEAD here is what the call could not mend.
  static void check_found(int status) {
    if (status == SKERRY_ERR_PEER_DEAD) throw LostError(skerry_last_error());
    check(status);
  }
  detail::Owner<skerry_protected, skerry_protected_free> owner_;
};

// The loop. See above.
class Steps {
 public:
  // Before each `every`-th step, and after the last, what protect() was given is saved. Over the
  // group of all ranks; on a spare, too. Not collective; run() is.
  Steps(const Job& job, std::uint64_t steps, std::uint64_t every = 1, int distance = 1)
      : Steps(job.world(), steps, every, distance) {}
  // The next loop, over those that live: `group` is state().group() of the loop before. Not while
  // spares are left: one that comes now would begin with the first loop.
  Steps(const Group& group, std::uint64_t steps, std::uint64_t every = 1, int distance = 1)
      : steps_(steps), every_(every), state_(group, distance) {}

  // Memory that goes back with the steps. Together as many bytes on every member.
  template <class T>
  Steps& protect(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    check(skerry_protected_add(state_.get(), values.data(), values.size_bytes()));
    return *this;
  }
  // For a `divide` of run(): the memory is elsewhere now.
  void protect_nothing() { check(skerry_protected_forget(state_.get())); }

  const Protected& state() const { return state_; }
  int recovered() const { return skerry_protected_recoveries(state_.get()); }  // how often, so far

  // body(step, group) for each step. A PEER_DEAD in it is not raised. After a death every member
  // has what the member at its position had. If fewer live, divide(state) takes what it needs by
  // state.read(place, ...), for a group of another size; without it that is a LostError.
  template <class Body>
  void run(Body&& body, const std::function<void(const Protected&)>& divide = {}) {
    std::uint64_t step = 0;
    skerry_group* group = nullptr;
    const auto next = [&](int status) {
      return skerry_protected_next(state_.get(), steps_, every_, status, &step, &group);
    };
    (void)next(SKERRY_ERR_INVALID);  // ends a loop that an exception of its body has left
    Dividing dividing{state_, divide, nullptr};
    check(skerry_protected_divide(state_.get(), divide ? &Dividing::call : nullptr, &dividing));
    for (int status = SKERRY_OK;;) {
      const int found = next(status);
      if (dividing.thrown) std::rethrow_exception(dividing.thrown);
      Protected::check_found(found);
      if (step == steps_) return;
      status = outcome_of([&] { body(step, state_.group()); });
    }
  }

 private:
  // SKERRY_OK or PEER_DEAD; other errors pass.
  template <class Work>
  static int outcome_of(Work&& work) {
    try {
      work();
      return SKERRY_OK;
    } catch (const LostError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != SKERRY_ERR_PEER_DEAD) throw;
      return SKERRY_ERR_PEER_DEAD;
    }
  }
  struct Dividing {
    const Protected& state;
    const std::function<void(const Protected&)>& divide;
    std::exception_ptr thrown;  // null: nothing that ends the loop
    static int call(void* context, skerry_protected*) {
      auto& self = *static_cast<Dividing*>(context);
      try {
        return outcome_of([&] { self.divide(self.state); });
      } catch (...) {  // may not pass through C
        self.thrown = std::current_exception();
        return SKERRY_ERR_INTERNAL;
      }
    }
  };

  std::uint64_t steps_, every_;
  Protected state_;
};

}  // namespace v0
}  // namespace sk
