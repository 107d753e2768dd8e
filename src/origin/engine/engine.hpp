// The engine of a process: everything that leaves the node starts here and completes here. It owns
// the parts, a class in a file of its own each, and puts them together. What a part does not know
// it learns through the engine (Work, Links::User). What servers answer comes back through
// upcalls.cpp.
//
// Threads. One mutex guards all state (context.hpp); public calls take it, from any thread. Upcalls
// of the fabric come in dispatch, with it held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "origin/context.hpp"
#include "origin/description.hpp"
#include "origin/engine/losses.hpp"
#include "origin/link/links.hpp"
#include "origin/link/operations.hpp"
#include "origin/link/resume.hpp"
#include "origin/link/rma_log.hpp"
#include "origin/link/slots.hpp"
#include "origin/progress/progress.hpp"
#include "origin/send/batches.hpp"
#include "origin/send/rma.hpp"
#include "origin/send/sender.hpp"
#include "origin/send/transfers.hpp"

namespace skerry::origin {

class Engine final : fabric::Sink, Work, Links::User {
 public:
  Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric);
  ~Engine() override;

  const bool has_atomics;  // of the adapter, on memory of other nodes and of this one
  // They need no processor of the target, and are faster than its data server.
  const bool atomics_pay;
  // A lock by the adapter takes three atomics; a data server that must wake up, 10 us and more.
  static constexpr int64_t longest_paying_atomic_ns = 4'000;
  // `handle`: of mode handle, otherwise null; 0 on return: nothing is outstanding. With a guard:
  // blocks until it is answered, that is remote done. Errors: contended (by the guard).
  Status issue(const Access& access, Handle* handle = nullptr);
  // The fast path of small contiguous puts (`what` null; non-blocking) and accumulates: true if it
  // joined the batch that is being collected for this very target.
  bool join_batch(const Target& target, const Accumulate* what, uint64_t offset, const void* from,
                  uint64_t bytes, Mode mode) {
    const Lock lock(context_.mutex);
    if (!batches_.any_open()) return false;
    if (mode == Mode::blocking) {
      const int64_t now_ns = monotonic_ns();
      if (!batches_.in_stream(now_ns)) return false;
      batches_.note_blocking(now_ns);
    }
    if (!batches_.join(target, what, offset, from, bytes)) return false;
    count(batches_.open_node(), bytes);
    return true;
  }
  Status read_modify_write(const Target& target, uint64_t offset, wire::Rmw op, uint64_t operand,
                           uint64_t expected, uint64_t* old);
  // By the adapter, past the target's data server. `offset` is a multiple of 8. Blocks until the
  // effect is visible there, or its connection broke: Atomic::is_unknown. Only with has_atomics.
  Status atomic(const Target& target, uint64_t offset, RmaLog::Atomic* atomic);
  // Blocks until granted. `holder` distinguishes threads of this rank. *asks stays as it is, or
  // becomes 0: no holder before this one has died.
  Status lock(const Target& target, uint64_t index, uint64_t holder, uint64_t* asks = nullptr);
  Status unlock(const Target& target, uint64_t index, uint64_t holder);
  // A message to the manager of the target's lock, in the segment of locks that the target names.
  // Blocks until the data server has done what follows from it.
  Status lock_note(const Target& target, const wire::NoteWord& note, uint64_t value,
                   wire::NoteAnswer* answer);

  Status wait(Handle* handle);
  Status test(Handle* handle, bool* done);
  // A handle that the program has not waited for, whether its operation is done or not.
  bool is_outstanding(Handle handle);
  Status wait_implicit();
  // Until all operations with a handle are done. Their handles stay the program's.
  Status wait_named();
  // What this rank has asked its server of that node. `tells` false: what was refused or lost is
  // left for the next fence to tell.
  Status fence_node(NodeId node, bool tells = true);
  // `quietly`: until all that this rank sent was applied, or never will be. So it waits for
  // notifications, too, which a fence leaves out. It leaves what failed to the next fence.
  Status fence_all(bool quietly = false);
  // A completion slot for a wait within the node (a mutex); given back when free again. May block
  // while replies to others are outstanding.
  Status borrow_slot(uint32_t* slot);
  void return_slot(uint32_t slot);
  // Before sleeping on something else than the fabric: nothing issued so far may depend on this
  // thread coming back. Returns ok at the deadline (monotonic; no_deadline: none), too: the rest
  // goes out as soon as it can.
  Status push_out(int64_t deadline_ns = no_deadline);
  // Is there a connection and no helper thread? Then somebody must look now and then while all
  // threads sleep elsewhere: a server may want the connection for another rank.
  bool needs_looks();
  void look();  // without sleeping
  // The helper thread looks at the control segment: it must have ended before that is unmapped. For
  // good.
  void stop_helper() { progress_.stop_helper(); }
  // All connections closed in order. Nothing may be issued afterwards.
  Status close_all();

  // For lock, called without the mutex. Set while no thread waits.
  void while_waiting(WaitingWork work) { work_ = work; }

  EngineCounters counters();
  // Those that are counted as things happen, while the engine lives. For readers that can take
  // neither the mutex nor a consistent copy.
  const EngineCounters& live_counters() const { return context_.counters; }
  fabric::ConnectionsMemory memory();
  fabric::Fabric::Traffic traffic();
  // From now on at most so many connections (0: no limit). Those beyond leave as their slots are
  // needed. Errors: config (no such victim policy).
  // From now on as for programs of which several threads call at a time.
  void serve_many_threads() {
    const Lock guard(context_.mutex);
    context_.config.one_thread_at_a_time = false;
  }
  Status limit_connections(uint32_t max_connections);

 private:
  Link& link_to(Rank target);
  bool joins_batch(const Link& link, const Access& access) const;
  void count(NodeId node, uint64_t bytes) {
    ++context_.counters.remote_operations;
    context_.counters.remote_bytes += bytes;
    if (context_.config.traffic == nullptr) return;
    ++context_.config.traffic[node].operations;
    context_.config.traffic[node].bytes += bytes;
  }
  Status fence(placement::ServerRef server, bool tells = true, bool of_all = false);
  Status key_of(Lock& lock, Link& link, const Target& target, uint64_t most_bytes, Rma::Key* key);
  Status send_all(Lock& lock, Link& link, const Access& access, Handle* handle);
  Status start(Lock& lock, Link& link, const Access& access, bool is_rma, Handle* handle);
  Status push(Lock& lock, const Until& until);
  fabric::ConnectionsMemory account() const;

  // ---- what the parts ask for, in upcalls.cpp --------------------------------------------------
  Need need(Chore also) override;
  void flush() override { sender_.flush(); }
  bool advance(bool ending) override;
  void opened(Link& link, bool must_resume) override;
  void broken(Link& link) override;
  void writable(Link& link) override;
  void drained(Link& link) override;

  // ---- the fabric's upcalls, in upcalls.cpp ----------------------------------------------------
  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  void on_held(fabric::EndpointId endpoint) override { links_.on_held(endpoint); }
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes reply) override {
    links_.on_connected(endpoint, reply);
  }
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override { links_.on_writable(endpoint); }
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId endpoint, uint64_t cookie, bool ok) override;
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override {
    links_.on_closed(endpoint, reason, detail);
  }
  // A message. `placed`: its payload is where it belongs already.
  void come_in(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed);
  // Errors: it is none of our protocol.
  Status take(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed);
  Status take_reply(const wire::ReplyHeader& answer, fabric::Bytes payload, bool placed);
  void take_failure(Link& link, const wire::ReplyHeader& answer, fabric::Bytes text);

  EngineContext context_;
  WaitingWork work_;
  Slots slots_;
  Operations operations_;
  RmaLog rma_log_;
  Batches batches_;
  Progress progress_;
  Links links_;
  Resume resume_;
  Sender sender_;
  Transfers transfers_;
  Rma rma_;

 public:
  Losses losses;  // of nodes that died
};

}  // namespace skerry::origin
