// What a thread of a rank does: operations drawn from the seed, and what the checker is told.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <span>
#include <utility>

#include "sim/storm/cluster.hpp"

namespace skerry::sim {

class Program {
 public:
  // `thread`: of the job; `ending`: set once a rank has died, when every call may fail.
  Program(uint32_t thread, const StormConfig& config, RankProcess& process, Checker& checker,
          const bool& ending);
  // On a fiber of its process. Afterwards everything is done and fenced, or the storm has failed.
  void run();
  uint64_t operations() const { return operations_; }
  uint64_t at_once() const { return at_once_; }
  uint64_t contended() const { return contended_; }
  bool ended() const { return ended_; }
  // What it is doing, to diagnose a storm that hangs.
  std::string describe() const;

 private:
  // One transfer between its area in a rank's memory and a buffer of its own.
  struct Transfer {
    Rank target = no_rank;
    std::vector<Piece> there;  // in the area; in stream order
    Shape shape;               // what `there` is, if it is strided
    bool strided = false;
    std::vector<Piece> offsets;  // `there`, in the slice
    std::vector<Piece> here;     // in the buffer
    std::vector<std::byte> buffer;
    uint64_t bytes = 0;
    std::vector<std::byte> expected;  // of a get or a fetching update
    std::vector<int64_t> operands;    // of a fetching update
    bool is_get = false;              // it brings something
    origin::Handle handle = 0;
    bool implicit = false;
  };

  // What lock, access and unlock in one message do to the pair that the lock guards.
  struct Access {
    enum class Kind : uint8_t { add, fetch_add, read_count, put_stamp, read_stamp };
    static constexpr uint32_t kinds = 5;
    Kind kind = Kind::add;
    bool shares = false;
    uint64_t more = 0, stamp = 0;
    Pair found{};
    Pair operands() const {
      return kind == Kind::put_stamp ? Pair{stamp, stamp} : Pair{more, more};
    }
  };

  Rank any_rank() { return static_cast<Rank>(random_.below(config_.ranks())); }
  origin::Mode any_mode();
  bool failed(const Status& status, const char* what);
  std::list<Transfer>::iterator draw_transfer();
  origin::Side there(const Transfer& transfer) const;
  origin::Side here(Transfer& transfer) const;
  std::vector<std::byte> stream_of(const Transfer& transfer) const;
  void completed(std::list<Transfer>::iterator transfer);

  bool run_all();
  // Each false: it failed, the program ends.
  bool step();
  bool transfer(bool is_get);
  bool wait_some();
  bool wait_all();
  bool accumulate();
  bool update();
  bool row();
  bool small_put(Rank target);
  bool send_update(Rank target, uint64_t offset, std::vector<int64_t> values,
                   const origin::Accumulate& what, origin::Mode mode);
  bool fetch_update(Rank target, uint32_t first, Operation operation, std::vector<int64_t> values);
  Status fetch_word(Rank target, uint64_t offset, Operation operation, uint64_t value,
                    uint64_t* old);
  bool shared_word();
  bool compare_swap(Rank target);
  bool notify();
  bool wait_notified();
  bool lock_something();
  std::pair<Rank, uint32_t> draw_lock();
  lock::Holder holder(bool shares, bool joins = false) const {
    return holder_ | (shares ? lock::shared_bit : 0) | (joins ? lock::joins_bit : 0);
  }
  bool take(Rank target, uint32_t mutex, bool shares, Checker::Asked* asked, bool joins = false);
  bool give_back(const Checker::Asked& asked);
  bool section();
  Status get_words(Rank target, uint64_t offset, std::span<uint64_t> words);
  Status put_words(Rank target, uint64_t offset, std::span<uint64_t> words);
  bool pair_section(bool shares);
  bool sweep();
  Access draw_access();
  bool access_at_once();
  Status send_locked(const Checker::Asked& asked, Access* access, bool* contended);
  // The access under its lock, in one message. *contended: others have the lock, and nothing was
  // done.
  Status send_guarded(origin::Access access, uint32_t mutex, bool shares, bool* contended);
  Status apply_locked(const Checker::Asked& asked, Access* access);
  void check_access(const Checker::Asked& asked, const Access& access);
  // ---- windows (program_windows.cpp) ----
  struct Epoch {
    Rank target = no_rank;
    uint32_t mutex = 0;
    bool locks = false;     // otherwise as after a promise that nobody locks in conflict
    bool shares = false;    // the lock
    bool deferred = false;  // the access takes the lock along
  };
  Epoch draw_epoch();
  bool at_once(const Epoch& epoch, const origin::Access& access, bool* had);
  bool wait_issued();
  bool finish(Rank target);
  bool end_epoch(const Checker::Asked& asked);
  bool publish();
  bool observe();
  bool window_epochs();
  bool refused_unlock();
  bool fence(NodeId node);
  bool fence_all();
  bool change_limit();
  bool compute();

  const uint32_t thread_;
  const StormConfig& config_;
  RankProcess& process_;
  Checker& checker_;
  const bool& ending_;
  const lock::Holder holder_;
  Random random_;
  std::list<Transfer> under_way_;
  std::list<std::vector<int64_t>> added_;  // buffers of accumulates that may be under way
  uint64_t tickets_ = 0;
  std::map<Rank, uint64_t> seen_;  // what each rank's word for compare-and-swap last was
  uint64_t operations_ = 0;
  uint64_t at_once_ = 0, contended_ = 0;  // accesses with their lock in one message
  bool ended_ = false;
  const char* at_ = "start";
  Rank at_rank_ = no_rank;
};

}  // namespace skerry::sim
