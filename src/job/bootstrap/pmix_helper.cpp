#include "job/bootstrap/pmix_helper.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/pmix_library.hpp"

namespace skerry::job {
namespace {

// Questions are the frames put, get, fence, finish and abort; every answer is a `value` frame: u8
// success, then the value or the reason.

constexpr size_t max_payload = max_control_payload + 1024;  // reasons are longer than keys

// Reads whole frames; blocks. False at the end of the conversation.
class Conversation {
 public:
  explicit Conversation(int socket) : socket_(socket), buffer_(max_payload) {}
  bool read(Frame* frame) {
    while (true) {
      std::optional<Frame> next;
      if (!buffer_.next(&next).ok()) return false;
      if (next) {
        *frame = *next;
        return true;
      }
      std::byte chunk[8192];
      const ssize_t got = recv(socket_, chunk, sizeof chunk, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      buffer_.append(std::span(chunk, static_cast<size_t>(got)));
    }
  }
  bool write(const std::vector<std::byte>& frame) const {
    for (size_t sent = 0; sent < frame.size();) {
      const ssize_t got = send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return false;
      sent += static_cast<size_t>(got);
    }
    return true;
  }

 private:
  int socket_;
  FrameBuffer buffer_;
};

std::vector<std::byte> answer(const Status& status, std::span<const std::byte> value) {
  FrameWriter writer(FrameType::value);
  writer.u8(status.ok());
  if (status.ok()) return writer.bytes(value).finish();
  const std::string reason = status.message().substr(0, 1024);
  return writer.bytes(std::as_bytes(std::span(reason))).finish();
}

Status begin(PmixLibrary* library, std::vector<std::byte>* value) {
  bool reachable = false;
  int size = 0;
  SKERRY_TRY(library->init(&reachable));
  if (reachable) SKERRY_TRY(library->job_size(&size));
  const int32_t numbers[3] = {reachable, library->rank(), size};
  const auto bytes = std::as_bytes(std::span(numbers));
  value->assign(bytes.begin(), bytes.end());
  return {};
}

// The helper's whole life. Ends without a PMIx_Finalize, so that the launcher notices, unless told
// to finish.
[[noreturn]] void serve(PmixLibrary* library, int socket) {
  Conversation talk(socket);
  std::vector<std::byte> value;
  Status status = begin(library, &value);
  if (!talk.write(answer(status, value)) || !status.ok()) _exit(0);
  Frame frame;
  while (talk.read(&frame)) {
    FrameReader reader(frame);
    value.clear();
    if (frame.type == FrameType::put) {
      const std::string key(reader.string());
      status = library->put(key, reader.rest());
    } else if (frame.type == FrameType::get) {
      const auto rank = static_cast<int>(reader.u32());
      status = library->get(rank, std::string(reader.string()), &value);
    } else if (frame.type == FrameType::fence) {
      status = library->fence();
    } else if (frame.type == FrameType::abort) {
      library->abort(static_cast<int>(reader.u32()));
    } else {
      library->finalize();
      (void)talk.write(answer({}, {}));
      break;
    }
    if (!talk.write(answer(status, value))) break;
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

}  // namespace

PmixHelper::PmixHelper(PmixHelper&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
PmixHelper& PmixHelper::operator=(PmixHelper&& other) noexcept {
  std::swap(socket_, other.socket_);
  return *this;
}
PmixHelper::~PmixHelper() {
  if (socket_ >= 0) close(socket_);
}

Status PmixHelper::start(PmixLibrary* library, PmixHelper* helper, bool* reachable, int* rank,
                         int* size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return error(Code::network, "no socket for the PMIx helper: ", std::strerror(errno));
  }
  helper->socket_ = ends[0];
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const pid_t first = fork();
  if (first == 0) {
    // Once more, so that the program never finds a child that it does not know.
    if (fork() != 0) _exit(0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);  // signals are meant for the rank
    // Nothing of the rank's may stay open here: others wait for its end.
    const int keep_low = ends[1] < self ? ends[1] : self,
              keep_high = ends[1] < self ? self : ends[1];
    (void)syscall(SYS_close_range, 3, keep_low - 1, 0);
    (void)syscall(SYS_close_range, keep_low + 1, keep_high - 1, 0);
    (void)syscall(SYS_close_range, keep_high + 1, ~0u, 0);
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
  int32_t numbers[3] = {};
  SKERRY_TRY(helper->ask({}, &value));
  if (value.size() != sizeof numbers)
    return error(Code::network, "the PMIx helper's first answer makes no sense");
  std::memcpy(numbers, value.data(), sizeof numbers);
  *reachable = numbers[0] != 0;
  *rank = numbers[1];
  *size = numbers[2];
  return {};
}

Status PmixHelper::ask(std::vector<std::byte> question, std::vector<std::byte>* answer) {
  Conversation talk(socket_);
  Frame frame;
  if (!talk.write(question) || !talk.read(&frame))
    return error(Code::network, "the PMIx helper has gone, and the launcher probably too");
  FrameReader reader(frame);
  const bool success = reader.u8() != 0;
  const auto rest = reader.rest();
  if (!success)
    return error(Code::network,
                 std::string_view(reinterpret_cast<const char*>(rest.data()), rest.size()));
  if (answer != nullptr) answer->assign(rest.begin(), rest.end());
  return {};
}

Status PmixHelper::put(const std::string& key, std::span<const std::byte> value) {
  return ask(FrameWriter(FrameType::put).string(key).bytes(value).finish(), nullptr);
}

Status PmixHelper::get(int rank, const std::string& key, std::vector<std::byte>* value) {
  return ask(FrameWriter(FrameType::get).u32(static_cast<uint32_t>(rank)).string(key).finish(),
             value);
}

Status PmixHelper::fence() { return ask(FrameWriter(FrameType::fence).finish(), nullptr); }

Status PmixHelper::finish() {
  SKERRY_TRY(ask(FrameWriter(FrameType::finish).finish(), nullptr));
  close(std::exchange(socket_, -1));
  return {};
}

void PmixHelper::abort(int exit_status) {
  (void)ask(FrameWriter(FrameType::abort).u32(static_cast<uint32_t>(exit_status)).finish(),
            nullptr);
}

}  // namespace skerry::job
