// A storm in which processes die and the others go on (on_failure "continue"): what its programs
// do, and what must hold. As job/views.hpp says, but for collectives, which no storm has.
//
// A call at a node whose leader lives works, exactly once. A call at a lost node fails with
// peer_dead, and never hangs. A lock whose holder died goes to the next, who is told. Nothing that
// the dead sent arrives after that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/storm/cluster.hpp"

namespace skerry::sim {

// What the programs asked for, and who has died.
class Ledger {
 public:
  Ledger(const StormConfig& config, Checker& checker);

  // It is declared dead: its process has ended or soon will.
  void die(Rank rank);
  bool is_dead(Rank rank) const { return dead_[static_cast<size_t>(rank)]; }
  // Its leader has died, so its memory may not be reached.
  bool is_lost(NodeId node) const {
    return is_dead(static_cast<Rank>(static_cast<uint32_t>(node) * config_.ranks_per_node));
  }
  uint32_t living() const;

  // Of one thread at one rank. Issued: all that it asked for. Done: what it knows to be there.
  struct Account {
    uint64_t mail_issued = 0, mail_done = 0;  // a word that only this thread writes; it grows
    uint64_t sum_issued = 0, sum_done = 0;
    bool takes_ticket = false;  // is inside the call
  };
  Account& account(uint32_t thread, Rank target) { return accounts_[{thread, target}]; }
  // The thread has fenced the node: what it had issued is there.
  void fenced(uint32_t thread, NodeId node);
  void ticket(Rank target, uint64_t old);

  // Locks, which a thread has for itself.
  void asks(uint32_t thread, Rank target, uint32_t mutex);
  // told: that the holder before died.
  void granted(uint32_t thread, Rank target, uint32_t mutex, bool told);
  void releases(uint32_t thread, Rank target, uint32_t mutex);
  // What was counted under it: read by its holder, and then written.
  void counted(Rank target, uint32_t mutex, const Pair& found, bool told);
  void counts(Rank target, uint32_t mutex, uint64_t value) {
    lock(target, mutex).count = value;
    lock(target, mutex).more = 0;
  }

  // All that live have ended.
  void finish(const std::vector<const std::byte*>& memory, const Layout& layout);

 private:
  static constexpr uint32_t nobody = UINT32_MAX;
  struct Lock {
    uint32_t holder = nobody;     // a thread that lives
    std::set<uint32_t> asking;    // threads inside the call
    uint32_t releasing = nobody;  // its release may not have arrived
    bool must_tell = false;       // a holder died
    bool may_tell = false;        // or one that perhaps was
    uint64_t count = 0;           // the last that a holder knows to be there
    uint64_t more = 0;            // holders that died since
  };
  Lock& lock(Rank target, uint32_t mutex) { return locks_[{target, mutex}]; }
  Rank rank_of(uint32_t thread) const { return static_cast<Rank>(thread / config_.threads); }

  const StormConfig& config_;
  Checker& checker_;
  std::vector<bool> dead_;  // of each rank
  std::map<std::pair<uint32_t, Rank>, Account> accounts_;
  std::map<std::pair<Rank, uint32_t>, Lock> locks_;
  std::map<Rank, std::set<uint64_t>> tickets_;
};

// A thread of a rank.
class Survivor {
 public:
  Survivor(uint32_t thread, const StormConfig& config, RankProcess& process, Checker& checker,
           Ledger& ledger);
  // On a fiber of its process. Afterwards all that it did is fenced.
  void run();
  uint64_t operations() const { return operations_; }
  bool ended() const { return ended_; }
  std::string describe() const;

 private:
  void step();
  void put();
  void add();
  void take_ticket();
  void read_back();
  void section();
  void count_inside(Rank target, uint32_t mutex, bool told);
  void fence(NodeId node);
  // False: the node is lost, as it may be. Everything else that fails breaks a rule.
  bool worked(const Status& status);
  Status move(Rank target, uint64_t offset, uint64_t* word, bool is_get, origin::Mode mode);

  const uint32_t thread_;
  const StormConfig& config_;
  RankProcess& process_;
  Checker& checker_;
  Ledger& ledger_;
  const lock::Holder holder_;
  Random random_;
  std::vector<std::unique_ptr<uint64_t>> sent_;  // words that may be under way
  uint64_t operations_ = 0;
  bool ended_ = false;
  const char* at_ = "start";
  NodeId at_node_ = 0;
};

}  // namespace skerry::sim
