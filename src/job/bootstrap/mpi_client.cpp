// Ranks of an MPI program that has initialised MPI before Skerry: values travel in an allgather
// over its world.
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/loaded_library.hpp"
#include "job/bootstrap/meeting.hpp"

namespace skerry::job {
namespace {

// Two binary interfaces are in use: OpenMPI's handles are addresses of its objects, MPICH's (also
// Intel's, Cray's, MVAPICH's) are integers.
template <class Handle>
struct MpiCalls {
  Handle world{};
  Handle byte{};
  int (*finalized)(int*) = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*allgatherv)(const void*, int, Handle, void*, const int*, const int*, Handle,
                    Handle) = nullptr;
  int (*abort)(Handle, int) = nullptr;
};
constexpr int mpich_comm_world = 0x44000000;
constexpr int mpich_byte = 0x4c00010d;

template <class Function>
bool find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(find_loaded_symbol("libmpi", name));
  return *function != nullptr;
}

template <class Handle>
class MpiBootstrap final : public Bootstrap {
 public:
  explicit MpiBootstrap(const MpiCalls<Handle>& calls) : mpi_(calls) {
    (void)mpi_.comm_rank(mpi_.world, &rank_);
    (void)mpi_.comm_size(mpi_.world, &size_);
  }
  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    // A frame is as good a container as any.
    const auto frame = FrameWriter(FrameType::put, static_cast<uint32_t>(rank_))
                           .string(key)
                           .bytes(value)
                           .finish();
    fresh_.insert(fresh_.end(), frame.begin(), frame.end());
    return {};
  }

  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    const auto found = values_.find({rank, std::string(key)});
    if (found == values_.end()) return nothing_put(rank, key);
    *value = found->second;
    return {};
  }

  Status fence() override {
    if (is_finalized()) {
      if (!fresh_.empty())
        return error(Code::network, "MPI was finalised while Skerry was starting");
      return meet();
    }
    const bool first = !meeting_.ready() && size_ > 1;
    std::vector<std::byte> invitation;
    if (first) SKERRY_TRY(meeting_.open(rank_, size_, &invitation));
    if (!invitation.empty()) SKERRY_TRY(put(Meeting::invitation_key, invitation));
    SKERRY_TRY(gather());
    if (!first || rank_ == 0) return {};
    SKERRY_TRY(get(Meeting::parent_of(rank_), Meeting::invitation_key, &invitation));
    return meeting_.accept_invitation(invitation);
  }

  void start_is_over() override { values_.clear(); }

  // Over our own connections: the program may have finalised its MPI, and a barrier could meet
  // another rank's MPI_Finalize.
  Status finish() override { return meet(); }

  void abort(int exit_status, std::string_view message) override {
    print_abort(rank_, message);
    if (!is_finalized()) (void)mpi_.abort(mpi_.world, exit_status);
    _exit(exit_status);
  }

 private:
  Status meet() { return meeting_.ready() ? meeting_.meet() : Status(); }

  Status gather() {
    const int mine = static_cast<int>(fresh_.size());
    std::vector<int> counts(static_cast<size_t>(size_)), offsets(static_cast<size_t>(size_));
    if (mpi_.allgather(&mine, sizeof mine, mpi_.byte, counts.data(), sizeof mine, mpi_.byte,
                       mpi_.world) != 0)
      return failed();
    int64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      offsets[i] = static_cast<int>(total);
      total += counts[i];
      if (total > INT_MAX)
        return error(Code::network, "the bootstrap values of ", size_, " ranks exceed 2 GiB");
    }
    std::vector<std::byte> all(static_cast<size_t>(total));
    if (mpi_.allgatherv(fresh_.data(), mine, mpi_.byte, all.data(), counts.data(), offsets.data(),
                        mpi_.byte, mpi_.world) != 0) {
      return failed();
    }
    fresh_.clear();
    FrameBuffer frames(max_control_payload);
    frames.append(all);
    for (std::optional<Frame> frame; true;) {
      SKERRY_TRY(frames.next(&frame));
      if (!frame) return {};
      FrameReader reader(*frame);
      const auto key = reader.string();
      const auto value = reader.rest();
      values_[{static_cast<int>(frame->rank), std::string(key)}].assign(value.begin(), value.end());
    }
  }

  bool is_finalized() const {
    int finalized = 1;
    (void)mpi_.finalized(&finalized);
    return finalized != 0;
  }
  static Status failed() { return error(Code::network, "MPI failed while Skerry was starting"); }

  const MpiCalls<Handle> mpi_;
  int rank_ = 0;
  int size_ = 1;
  Meeting meeting_;
  std::vector<std::byte> fresh_;  // put since the last fence, as frames
  // Some 140 bytes a rank, until the start is over.
  std::map<std::pair<int, std::string>, std::vector<std::byte>> values_;
};

template <class Handle>
Status join(MpiCalls<Handle> calls, std::unique_ptr<Bootstrap>* bootstrap) {
  const bool complete = find("MPI_Finalized", &calls.finalized) &&
                        find("MPI_Comm_rank", &calls.comm_rank) &&
                        find("MPI_Comm_size", &calls.comm_size) &&
                        find("MPI_Allgather", &calls.allgather) &&
                        find("MPI_Allgatherv", &calls.allgatherv) &&
                        find("MPI_Abort", &calls.abort);
  if (!complete)
    return error(
        Code::config,
        "the MPI library of this process lacks functions that Skerry needs to join its job");
  int finalized = 0;
  (void)calls.finalized(&finalized);
  if (finalized == 0) *bootstrap = std::make_unique<MpiBootstrap<Handle>>(calls);
  return {};
}

}  // namespace

bool mpi_was_finalized() {
  int (*finalized)(int*) = nullptr;
  int yes = 0;
  return find("MPI_Finalized", &finalized) && finalized(&yes) == 0 && yes != 0;
}

bool mpi_was_initialized() {
  int (*initialized)(int*) = nullptr;
  int yes = 0;
  return find("MPI_Initialized", &initialized) && initialized(&yes) == 0 && yes != 0;
}

Status join_mpi(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (!mpi_was_initialized()) return {};
  if (void* world = find_loaded_symbol("libmpi", "ompi_mpi_comm_world")) {
    MpiCalls<void*> calls;
    calls.world = world;
    calls.byte = find_loaded_symbol("libmpi", "ompi_mpi_byte");
    if (calls.byte == nullptr) return error(Code::config, "OpenMPI's library lacks ompi_mpi_byte");
    return join(calls, bootstrap);
  }
  MpiCalls<int> calls;
  calls.world = mpich_comm_world;
  calls.byte = mpich_byte;
  return join(calls, bootstrap);
}

}  // namespace skerry::job
