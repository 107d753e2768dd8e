// Drives the lock machines (src/lock) over a fabric: Unit::cpu is std::atomic_ref, Unit::network is
// an adapter's atomics, puts and gets. A party is a requester or the manager; each has a fabric of
// its own that is connected to the lock's node, and reaches words there by the machine's unit
// alone.
//
// Messages between parties are queues of this process: what is tested is the words.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fabric/test/side.hpp"
#include "locks/parties.hpp"
#include "locks/protocols.hpp"

namespace skerry::fabric::test {

namespace machine = lock::machine;
using lock::machines_of;
using lock::ProtocolKind;

// What all parties of a lock share. Nothing stops a broken run but `problem` and the bounds.
struct SharedLock {
  SharedLock(ProtocolKind which, machine::Domain domain, const std::vector<uint8_t>& nodes_of)
      : kind(which), words(machines_of(which).words), node_of(nodes_of) {
    config.requesters = static_cast<uint32_t>(nodes_of.size());
    config.domain = domain;
    config.hand_overs = 2;
    for (uint8_t w = 0; w < words.size(); ++w)
      home.push_back(machines_of(which).initial_value(w, config));
    home.push_back(0);  // there is a word to register, whatever the protocol
    uint8_t last = 0;
    for (const uint8_t node : nodes_of) last = std::max(last, node);
    nodes.assign(last + 1u, home);
    links.assign(config.requesters, {});
    boxes.resize(config.requesters + 1u);
  }
  void report(const std::string& what) {
    const std::lock_guard guard(mutex);
    if (problem.empty()) problem = what;
    broken.store(true);
  }

  const ProtocolKind kind;
  machine::Config config;
  const std::span<const machine::Word> words;
  const std::vector<uint8_t> node_of;  // by requester; 0 is the lock's node
  std::vector<uint64_t> home;          // by atomics alone
  std::vector<std::vector<uint64_t>> nodes;
  std::vector<machine::Link> links;               // the manager's
  RemoteKey key;                                  // of home
  std::mutex mutex;                               // boxes, problem
  std::vector<std::deque<machine::Event>> boxes;  // by requester; the last is the manager's
  std::string problem;                            // empty: none
  std::atomic<bool> broken{false};
  std::atomic<uint32_t> inside{0};  // requesters that hold the lock
  std::atomic<uint32_t> grants{0};
  std::atomic<uint32_t> unfinished{0};  // requesters that have acquisitions to do
};

class Party {
 public:
  // `me` is config.requesters for the manager.
  Party(SharedLock& lock, machine::Requester me, uint32_t acquisitions, std::unique_ptr<Side> side,
        EndpointId to_home)
      : lock_(lock),
        me_(me),
        left_(acquisitions),
        side_(std::move(side)),
        to_home_(to_home),
        client_(machines_of(lock.kind), {me, !is_manager() && node() == 0}),
        manager_(machines_of(lock.kind)) {
    if (is_manager()) stage_ = Stage::acting;  // it waits
    else if (left_ != 0) ++lock.unfinished;
  }

  // One step. False: it waits for a message, or is done.
  bool step() {
    if (stage_ == Stage::under_way) return look_for_result();
    machine::Event event;
    if (rests() && take_letter(&event)) return advance(event);
    switch (stage_) {
      case Stage::idle:
        if (left_ == 0) return false;
        event.kind = machine::Event::Kind::lock;
        unlocking_ = false;
        return advance(event);
      case Stage::holding:
        if (stays_ != 0) return --stays_, true;
        lock_.inside.fetch_sub(1);
        unlocking_ = true;
        event.kind = machine::Event::Kind::unlock;
        return advance(event);
      case Stage::acting: return perform();
      case Stage::under_way: break;
    }
    return true;
  }

 private:
  enum class Stage : uint8_t { idle, acting, under_way, holding };
  using Kind = machine::Action::Kind;

  bool is_manager() const { return me_ == lock_.config.requesters; }
  uint8_t node() const { return is_manager() ? uint8_t{0} : lock_.node_of[me_]; }
  std::string name() const {
    return is_manager() ? "the manager" : concat("requester ", me_, " of node ", node());
  }
  bool rests() const {
    if (stage_ != Stage::acting) return stage_ != Stage::under_way;
    return action_.kind == Kind::wait || (is_manager() && action_.kind == Kind::pause);
  }
  bool take_letter(machine::Event* event) {
    const std::lock_guard guard(lock_.mutex);
    std::deque<machine::Event>& box = lock_.boxes[me_];
    if (box.empty()) return false;
    *event = box.front();
    box.pop_front();
    return true;
  }
  void post(machine::Requester to) {
    machine::Event event;
    event.kind = machine::Event::Kind::told;
    event.note = action_.note;
    event.mode = action_.mode;
    event.value = action_.value;
    event.from = me_;
    event.local = !is_manager() && node() == 0;
    const std::lock_guard guard(lock_.mutex);
    lock_.boxes[to].push_back(event);
  }

  bool advance(const machine::Event& event) {
    if (is_manager()) {
      action_ = manager_.step(event, lock_.config, lock_.links);
      return true;
    }
    const Stage before = stage_;
    const machine::Action action = client_.step(event, lock_.config);
    switch (action.kind) {
      case Kind::granted:
        if (before == Stage::holding) return true;
        stage_ = Stage::holding;
        stays_ = 3;
        ++lock_.grants;
        if (lock_.inside.fetch_add(1) != 0)
          lock_.report(name() + " was granted what another requester holds");
        return true;
      case Kind::released:
        stage_ = Stage::idle;
        if (--left_ == 0) --lock_.unfinished;
        return true;
      case Kind::refused: lock_.report(name() + " was refused"); return true;
      case Kind::wait:
        if (before == Stage::idle) return true;  // a message changes nothing of that
        break;
      case Kind::load:
      case Kind::store:
      case Kind::compare_and_swap:
      case Kind::fetch_and_add:
      case Kind::swap:
      case Kind::ask:
      case Kind::tell:
      case Kind::pause: break;
    }
    stage_ = Stage::acting;
    action_ = action;
    return true;
  }

  bool perform() {
    machine::Event event;
    switch (action_.kind) {
      case Kind::load:
      case Kind::store:
      case Kind::compare_and_swap:
      case Kind::fetch_and_add:
      case Kind::swap:
        if (action_.unit == machine::Unit::network) return issue();
        event.value = by_processor();
        return on_result(event);
      case Kind::ask: post(lock_.config.requesters); return advance(event);
      case Kind::tell: post(action_.to); return advance(event);
      case Kind::pause: event.kind = machine::Event::Kind::elapsed; return advance(event);
      case Kind::wait: return false;
      case Kind::granted:
      case Kind::released:
      case Kind::refused: lock_.report(name() + " was given what cannot be performed"); return true;
    }
    return true;
  }

  uint64_t by_processor() {
    if (action_.place == machine::Place::home && node() != 0)
      lock_.report(name() + " reaches the lock's node by its processor");
    std::atomic_ref<uint64_t> word(action_.place == machine::Place::home
                                       ? lock_.home[action_.word]
                                       : lock_.nodes[node()][action_.word]);
    uint64_t before = action_.expected;
    switch (action_.kind) {
      case Kind::load: return word.load();
      case Kind::store: word.store(action_.value); return action_.value;
      case Kind::compare_and_swap:
        word.compare_exchange_strong(before, action_.value);
        return before;
      case Kind::fetch_and_add: return word.fetch_add(action_.value);
      default: return word.exchange(action_.value);
    }
  }

  // By the fabric. True also if it has no room: the next step tries again.
  bool issue() {
    const uint64_t offset = action_.word * sizeof(uint64_t);
    const RemoteKey key = lock_.key;
    Fabric& fabric = *side_->fabric;
    SendResult result = SendResult::closed;
    switch (action_.kind) {
      case Kind::load: result = fabric.get(to_home_, &moved_, key, offset, 8, 1); break;
      case Kind::store:
        moved_ = action_.value;
        result = fabric.put(to_home_, &moved_, key, offset, 8, 1);
        break;
      case Kind::compare_and_swap:
        result = compare_and_swap(fabric, to_home_, key, offset, action_.expected, action_.value,
                                  &moved_, 1);
        break;
      case Kind::fetch_and_add:
        result = fetch_and_add(fabric, to_home_, key, offset, action_.value, &moved_, 1);
        break;
      default: break;  // no adapter here exchanges: Config::network_swap is off
    }
    if (result == SendResult::closed || action_.place != machine::Place::home)
      lock_.report(name() + ": the fabric did not take an action");
    if (result == SendResult::accepted) stage_ = Stage::under_way;
    else side_->step();
    return true;
  }

  bool look_for_result() {
    side_->step();
    if (!side_->rma_failed.empty() || !side_->closed.empty())
      lock_.report(name() + ": the fabric failed");
    if (side_->rma_done.empty()) return true;
    machine::Event event;
    event.value = moved_;
    side_->rma_done.clear();
    stage_ = Stage::acting;
    return on_result(event);
  }

  // The machine asserts it in debug builds; a run that is meant to fail must not end there.
  bool on_result(const machine::Event& event) {
    if (lock_.kind == ProtocolKind::one_sided && unlocking_ && event.value != action_.expected) {
      lock_.report(name() + " gave back a lock that holds another number");
      return true;
    }
    return advance(event);
  }

  SharedLock& lock_;
  const machine::Requester me_;
  uint32_t left_;  // acquisitions
  const std::unique_ptr<Side> side_;
  const EndpointId to_home_;
  machine::Client client_;
  machine::Manager manager_;
  machine::Action action_ = machine::wait();
  Stage stage_ = Stage::idle;
  bool unlocking_ = false;
  int stays_ = 0;       // steps until it unlocks
  uint64_t moved_ = 0;  // of a put, get or atomic under way
};

// A lock with its parties, all connected to the lock's node.
class LockRun {
 public:
  using MakeSide = std::function<std::unique_ptr<Side>()>;
  // `home` listens at `address`. nodes_of: the node of each requester.
  LockRun(ProtocolKind kind, machine::Domain domain, const std::vector<uint8_t>& nodes_of,
          uint32_t acquisitions, Side& home, Bytes address, const MakeSide& make)
      : lock(kind, domain, nodes_of), home_(home) {
    EXPECT_TRUE(home.fabric
                    ->register_memory(lock.home.data(), lock.home.size() * sizeof(uint64_t),
                                      &lock.key, &registration_)
                    .ok());
    for (machine::Requester r = 0; r <= lock.config.requesters; ++r) {
      std::unique_ptr<Side> side = make();
      EndpointId endpoint = no_endpoint;
      EXPECT_TRUE(side->fabric->connect(address, {}, &endpoint).ok());
      EXPECT_TRUE(run_until({side.get(), &home}, [&] { return !side->connected.empty(); }));
      parties_.push_back(std::make_unique<Party>(lock, r, acquisitions, std::move(side), endpoint));
    }
  }
  ~LockRun() {
    parties_.clear();
    home_.fabric->deregister_memory(registration_);
  }

  // All in this thread, in an order drawn from the seed. Ends at the first problem; one is that
  // after `steps` steps not everybody was served.
  void wander(uint64_t seed, uint64_t steps) {
    std::mt19937_64 random(seed);
    while (lock.unfinished != 0 && !lock.broken) {
      if (steps-- == 0) return lock.report("not everybody was served");
      parties_[random() % parties_.size()]->step();
      home_.step();
    }
  }

  // A thread each. They sleep after some steps: after a yield, one would wait for a thread that
  // computes beside the test to use up its time. The deadline is a net for a lost wake-up, not a
  // timing assertion.
  void race() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    constexpr auto pause = std::chrono::microseconds(1);
    std::vector<std::thread> threads;
    for (const std::unique_ptr<Party>& party : parties_)
      threads.emplace_back([&, one = party.get()] {
        while (lock.unfinished != 0 && !lock.broken) {
          for (int steps = 0; steps < 8; ++steps) one->step();
          std::this_thread::sleep_for(pause);
          if (std::chrono::steady_clock::now() > deadline) lock.report("not everybody was served");
        }
      });
    while (lock.unfinished != 0 && !lock.broken) {
      home_.step();
      std::this_thread::sleep_for(pause);
    }
    for (std::thread& thread : threads) thread.join();
  }

  SharedLock lock;

 private:
  Side& home_;
  std::vector<std::unique_ptr<Party>> parties_;
  uint64_t registration_ = 0;
};

}  // namespace skerry::fabric::test
