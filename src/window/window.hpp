// Windows: memory of the members of a group, accessed by the others between synchronization calls,
// with the meaning that MPI gives them (MPI 4.1, chapter 12). Every call acts by itself: the target
// takes no part in lock, access, flush and unlock.
//
// A window is made of its data, a segment, of one lock for each member (src/lock), and of signals,
// by which post, start, complete and wait tell each other. SKERRY_LOCK chooses between the fair
// queue (job::Mutexes) and the machines (machine_locks.hpp). Locks and signals of several windows
// lie on one desk of the group (desks.hpp). What is kept of a member begins with the first access
// to it.
//
// Its parts, each a class in a file of its own:
//
//   Memory    whose, how much, and where it lies   WindowLocks    take and give back
//   Epochs    who may be accessed now              WindowContext  what is done by now
//   Accesses  put, get, update and their kin       Check          the debug mode
//
// Source: Santhanaraman et al., "Natively Supporting True One-sided Communication in MPI on
// Multi-core Systems with InfiniBand", sections 2 to 4.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "job/group.hpp"
#include "job/job.hpp"
#include "window/access.hpp"
#include "window/context.hpp"
#include "window/epochs.hpp"
#include "window/window_locks.hpp"
#include "window/memory.hpp"
#include "window/desks.hpp"

namespace skerry::window {

class Window {
 public:
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  // Both collective over the group; all members get the same answer. `base`: of a created one.
  static Status make(job::Group& group, Flavor flavor, void* base, uint64_t bytes, uint64_t unit,
                     std::unique_ptr<Window>* window);
  Status free();
  // What stands for every freed window of the job.
  static std::unique_ptr<Window> stand_in(job::Job& job);

  // Of a freed one nothing but job() and this may be asked; its calls fail with `freed`.
  bool is_freed() const { return context_.group == nullptr; }
  static Status freed() { return error(Code::freed, "the window was freed"); }

  // In the debug mode: the program calls from this return address.
  void called_at(const void* site) const {
    if (context_.check != nullptr) [[unlikely]]
      context_.check->enter(site);
  }
  // What the call returns: in the debug mode errors name the window and the place of the call.
  Status located(Status status) const {
    return context_.check == nullptr || status.ok() ? std::move(status)
                                                    : context_.check->located(status);
  }

  job::Job& job() const { return context_.job; }
  job::Group& group() const { return *context_.group; }
  Memory& memory() { return memory_; }
  Epochs& epochs() { return epochs_; }
  Accesses& accesses() { return accesses_; }

 private:
  Window(job::Job& job, job::Group* group, Flavor flavor, void* base, uint64_t bytes);
  struct Told;
  static Status compare(job::Group& group, const Told& mine, const Status& status,
                        std::vector<Told>* told);
  Status agree(Told mine, const Status& status, std::vector<Told>* told);
  void settle(const std::vector<Told>& told, lock::Choice* choice);
  Status open(const lock::Choice& choice, const std::vector<Told>& told, bool has_desk);
  void give_up(bool keeps);
  Status close();

  WindowContext context_;
  Memory memory_;
  Desk desk_;  // no signals: none yet
  WindowLocks locks_;
  Epochs epochs_;
  Accesses accesses_;
};

}  // namespace skerry::window
