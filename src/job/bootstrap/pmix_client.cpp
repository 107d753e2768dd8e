// Ranks of a PMIx launcher (OpenMPI's mpirun, prterun, srun --mpi=pmix).
//
// An MPI in the same process uses the same library, and versions differ in what they bear. With
// PMIx up to 4 the process is a client once, counted, and finalised when the process ends. OpenMPI
// 5 (PMIx 5) cannot start in a process where PMIx is initialised already: it skips PMIx_Init and
// then lacks its name. And PMIx 5 does not survive being finalised and initialised again. There a
// helper process speaks PMIx in our name and is gone after finish().
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/frame_socket.hpp"
#include "job/bootstrap/pmix_library.hpp"

namespace skerry::job {
namespace {

constexpr int helper_since_version = 5;

// The library's connection belongs to the process and outlives every job object: see leave_at_exit.
struct Process {
  PmixLibrary library;
  bool loaded = false;
  bool started = false;   // initialised in this process (never with a helper)
  bool finished = false;  // the job was left properly: the process's end is a normal one
  PmixPlace place{};      // once started
};
Process& process() {
  static Process one;
  return one;
}

// A process that leaves its job without finish() is not finalised: the launcher then sees an
// abnormal end and ends the job.
void leave_at_exit() {
  auto& mine = process();
  if (mine.started && mine.finished) mine.library.finalize();
}

// ---- the helper -------------------------------------------------------------------------------
//
// Questions are the frames put, get, fence, finish and abort; every answer is a `value` frame: u8
// success, then the value or the reason. The first answer, a PmixPlace, comes unasked.

constexpr size_t max_payload = max_control_payload + 1024;  // reasons are longer than keys

std::vector<std::byte> answer(const Status& status, std::span<const std::byte> value) {
  FrameWriter writer(FrameType::value);
  writer.u8(status.ok());
  if (status.ok()) return writer.bytes(value).finish();
  const std::string reason = status.message().substr(0, 1024);
  return writer.bytes(std::as_bytes(std::span(reason))).finish();
}

Status carry_out(PmixLibrary& library, const Frame& question, std::vector<std::byte>* value) {
  FrameReader reader(question);
  if (question.type == FrameType::put) {
    const std::string key(reader.string());
    return library.put(key, reader.rest());
  }
  if (question.type == FrameType::get) {
    const auto rank = static_cast<int>(reader.u32());
    return library.get(rank, std::string(reader.string()), value);
  }
  if (question.type == FrameType::fence) return library.fence();
  if (question.type == FrameType::abort) library.abort(static_cast<int>(reader.u32()));
  else library.finalize();
  return {};
}

// The helper's whole life. Ends without a PMIx_Finalize, so that the launcher notices, unless told
// to finish.
[[noreturn]] void serve(PmixLibrary& library, int fd) {
  FrameSocket rank(fd, "the rank", max_payload);
  PmixPlace place{};
  const Status begun = library.init(&place);
  bool goes_on = rank.send(answer(begun, std::as_bytes(std::span(&place, 1)))).ok() && begun.ok();
  for (std::optional<Frame> question; goes_on && rank.next(true, &question).ok();) {
    std::vector<std::byte> value;
    const Status status = carry_out(library, *question, &value);
    goes_on = rank.send(answer(status, value)).ok() && question->type != FrameType::finish;
  }
  _exit(0);
}

// Ends the helper when the rank's process has gone, whatever its main thread waits for.
void end_with(int rank_process) {
  pollfd end{rank_process, POLLIN, 0};
  while (poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

// What a rank knows of its helper, which ends when this goes.
class Helper {
 public:
  explicit Helper(int fd)
      : socket_(fd, "the PMIx helper, and probably the launcher,", max_payload) {}
  ~Helper() { close(socket_.fd()); }
  Helper(const Helper&) = delete;

  // Blocks until it has joined. Errors: network.
  static Status start(PmixLibrary& library, std::unique_ptr<Helper>* helper, PmixPlace* place);
  // `value` null: not wanted. Errors: those of the library; network (the helper has gone).
  Status ask(const std::vector<std::byte>& question, std::vector<std::byte>* value) {
    SKERRY_TRY(socket_.send(question));
    std::optional<Frame> frame;
    SKERRY_TRY(socket_.next(true, &frame));
    FrameReader reader(*frame);
    const bool success = reader.u8() != 0;
    const auto rest = reader.rest();
    if (!success)
      return error(Code::network,
                   std::string_view(reinterpret_cast<const char*>(rest.data()), rest.size()));
    if (value != nullptr) value->assign(rest.begin(), rest.end());
    return {};
  }

 private:
  FrameSocket socket_;
};

Status Helper::start(PmixLibrary& library, std::unique_ptr<Helper>* helper, PmixPlace* place) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return error(Code::network, "no socket for the PMIx helper: ", std::strerror(errno));
  *helper = std::make_unique<Helper>(ends[0]);
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const pid_t first = fork();
  if (first == 0) {
    // Once more, so that the program never finds a child that it does not know.
    if (fork() != 0) _exit(0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);  // signals are meant for the rank
    // Nothing of the rank's may stay open here: others wait for its end.
    const auto [low, high] = std::minmax(ends[1], self);
    (void)syscall(SYS_close_range, 3, low - 1, 0);
    (void)syscall(SYS_close_range, low + 1, high - 1, 0);
    (void)syscall(SYS_close_range, high + 1, ~0u, 0);
    if (self >= 0) std::thread(end_with, self).detach();
    serve(library, ends[1]);
  }
  close(ends[1]);
  if (self >= 0) close(self);
  if (first < 0)
    return error(Code::network, "cannot create the PMIx helper: ", std::strerror(errno));
  while (waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::vector<std::byte> value;
  SKERRY_TRY((*helper)->ask({}, &value));
  if (value.size() != sizeof *place)
    return error(Code::network, "the PMIx helper's first answer makes no sense");
  std::memcpy(place, value.data(), sizeof *place);
  return {};
}

// ---- the rank ---------------------------------------------------------------------------------

class PmixBootstrap final : public ForeignBootstrap {
 public:
  // `helper` null: this process speaks PMIx itself.
  PmixBootstrap(std::unique_ptr<Helper> helper, const PmixPlace& place)
      : ForeignBootstrap(place.rank, place.size), helper_(std::move(helper)) {}
  std::string_view name() const override { return "pmix"; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    const std::string full = full_key(key);
    if (helper_ == nullptr) return process().library.put(full, value);
    return helper_->ask(FrameWriter(FrameType::put).string(full).bytes(value).finish(), nullptr);
  }
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    SKERRY_TRY(check_key(key));
    const std::string full = full_key(key);
    if (helper_ == nullptr) return process().library.get(rank, full, value);
    return helper_->ask(
        FrameWriter(FrameType::get).u32(static_cast<uint32_t>(rank)).string(full).finish(), value);
  }
  Status finish() override {
    SKERRY_TRY(meet());
    process().finished = true;
    if (helper_ == nullptr) return {};
    return helper_->ask(FrameWriter(FrameType::finish).finish(), nullptr);
  }

 private:
  Status exchange_values() override {
    if (helper_ == nullptr) return process().library.fence();
    return helper_->ask(FrameWriter(FrameType::fence).finish(), nullptr);
  }
  void end_job(int exit_status) override {
    if (helper_ == nullptr) return process().library.abort(exit_status);
    (void)helper_->ask(
        FrameWriter(FrameType::abort).u32(static_cast<uint32_t>(exit_status)).finish(), nullptr);
  }
  std::string full_key(std::string_view key) const { return concat("skerry.", join_, ".", key); }

  const unsigned join_ = next_join();
  const std::unique_ptr<Helper> helper_;
};

}  // namespace

Status join_pmix(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (std::getenv("PMIX_RANK") == nullptr) return {};
  auto& mine = process();
  if (!mine.loaded) SKERRY_TRY(mine.library.load());
  mine.loaded = true;
  std::unique_ptr<Helper> helper;
  PmixPlace place = mine.place;
  if (mine.library.major_version() >= helper_since_version) {
    SKERRY_TRY(Helper::start(mine.library, &helper, &place));
  } else if (!mine.started) {
    SKERRY_TRY(mine.library.init(&place));
    mine.place = place;
    mine.started = place.reachable != 0;
    if (mine.started) (void)std::atexit(leave_at_exit);
  }
  if (place.reachable == 0) return {};  // the variables are left over from another's launcher
  mine.finished = false;
  *bootstrap = std::make_unique<PmixBootstrap>(std::move(helper), place);
  return {};
}

}  // namespace skerry::job
