#include "job/bootstrap/run_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/namespaces.hpp"

namespace skerry::job {

Status RunBootstrap::connect(int fd, std::unique_ptr<Bootstrap>* bootstrap) {
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) {
    return error(Code::config, "SKERRY_CONTROL_FD=", fd, " is not the launcher's socket (",
                 std::strerror(errno),
                 "); a program between `skerry run` and this one closed it: unset "
                 "SKERRY_CONTROL_FD to run as a job of one rank");
  }
  // Programs that this one starts are not ranks: they must not talk to the launcher in its name.
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  std::unique_ptr<RunBootstrap> client(new RunBootstrap(fd));
  SKERRY_TRY(client->hello());
  *bootstrap = std::move(client);
  return {};
}

Status RunBootstrap::hello() {
  SKERRY_TRY(send(FrameWriter(FrameType::hello)
                      .u32(static_cast<uint32_t>(getpid()))
                      .u64(own_namespace(Namespace::pid))
                      .finish()));
  Frame frame;
  SKERRY_TRY(expect(FrameType::welcome, &frame));
  FrameReader reader(frame);
  const uint32_t rank = reader.u32(), size = reader.u32(), node = reader.u32();
  (void)reader.u32();  // number of nodes: each rank learns the others' nodes through the exchange
  const auto key = reader.bytes(key_.size());
  if (!reader.done() || size == 0 || size > INT32_MAX || rank >= size || node >= size) {
    return error(Code::network, "the launcher's welcome does not make sense (rank ", rank, " of ",
                 size, ", node ", node, ")");
  }
  rank_ = static_cast<int>(rank);
  size_ = static_cast<int>(size);
  node_ = static_cast<int>(node);
  std::memcpy(key_.data(), key.data(), key_.size());
  return {};
}

Status RunBootstrap::send(std::vector<std::byte> frame) {
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t got = ::send(fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // someone made the socket non-blocking
      pollfd ready{fd_, POLLOUT, 0};
      (void)poll(&ready, 1, -1);
      continue;
    }
    if (got < 0) return error(Code::network, "the launcher has gone (", std::strerror(errno), ")");
    sent += static_cast<size_t>(got);
  }
  return {};
}

Status RunBootstrap::receive(bool wait) {
  std::byte chunk[16 * 1024];
  while (true) {
    const ssize_t got = recv(fd_, chunk, sizeof chunk, wait ? 0 : MSG_DONTWAIT);
    if (got > 0) {
      buffer_.append(std::span(chunk, static_cast<size_t>(got)));
      return {};
    }
    if (got == 0) return error(Code::network, "the launcher has gone");
    if (errno == EINTR) continue;
    if (errno != EAGAIN)
      return error(Code::network, "the launcher has gone (", std::strerror(errno), ")");
    if (!wait) return {};
    pollfd ready{fd_, POLLIN, 0};
    (void)poll(&ready, 1, -1);
  }
}

Status RunBootstrap::note_death(const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t rank = reader.u32();
  const auto cause = reader.string();
  if (!reader.ok())
    return error(Code::network, "the launcher's report of a dead rank is too short");
  dead_.push_back({static_cast<int>(rank), std::string(cause)});
  return {};
}

Status RunBootstrap::expect(FrameType wanted, Frame* frame) {
  while (true) {
    std::optional<Frame> next;
    SKERRY_TRY(buffer_.next(&next));
    if (!next) {
      SKERRY_TRY(receive(true));
    } else if (next->type == wanted) {
      *frame = *next;
      return {};
    } else if (next->type == FrameType::rank_died) {
      SKERRY_TRY(note_death(*next));
    } else {
      return error(Code::network, "the launcher sent ", to_string(next->type), " instead of ",
                   to_string(wanted));
    }
  }
}

Status RunBootstrap::put(std::string_view key, std::span<const std::byte> value) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  return send(FrameWriter(FrameType::put).string(key).bytes(value).finish());
}

Status RunBootstrap::get(int rank, std::string_view key, std::vector<std::byte>* value) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(
      send(FrameWriter(FrameType::get).u32(static_cast<uint32_t>(rank)).string(key).finish()));
  Frame frame;
  SKERRY_TRY(expect(FrameType::value, &frame));
  FrameReader reader(frame);
  const bool found = reader.u8() != 0;
  if (!found) return nothing_put(rank, key);
  const auto bytes = reader.rest();
  value->assign(bytes.begin(), bytes.end());
  return {};
}

Status RunBootstrap::list_values(std::string_view key, const EachRun& each) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(send(FrameWriter(FrameType::get_all).string(key).finish()));
  Status status;
  for (bool last = false; !last;) {  // to the last frame: the next answer stands behind it
    Frame frame;
    SKERRY_TRY(expect(FrameType::values, &frame));
    FrameReader reader(frame);
    last = reader.u8() != 0;
    while (reader.ok() && !reader.done()) {
      const uint32_t first = reader.u32(), count = reader.u32();
      const auto value = reader.bytes(reader.u32());
      if (first > static_cast<uint32_t>(size_) || count > static_cast<uint32_t>(size_) - first)
        return error(Code::network, "the launcher lists values of ranks that do not exist");
      if (reader.ok() && status.ok())
        status = each(static_cast<int>(first), static_cast<int>(count), value);
    }
    if (!reader.ok()) return error(Code::network, "the launcher's list of values is cut short");
  }
  return status;
}

Status RunBootstrap::get_many(std::span<const int> ranks, std::string_view key,
                              std::vector<std::vector<std::byte>>* values) {
  values->clear();
  // Both lists ascend: the next ones wanted are of these ranks, or these are not wanted.
  const auto take = [&](int first, int count, std::span<const std::byte> value) {
    while (values->size() < ranks.size() && ranks[values->size()] >= first &&
           ranks[values->size()] - first < count)
      values->emplace_back(value.begin(), value.end());
    return Status{};
  };
  SKERRY_TRY(list_values(key, take));
  if (values->size() < ranks.size()) return nothing_put(ranks[values->size()], key);
  return {};
}

Status RunBootstrap::get_runs(std::string_view key, const EachRun& each) {
  int next = 0;
  const auto in_order = [&](int first, int count, std::span<const std::byte> value) {
    if (first != next) return nothing_put(next, key);
    next += count;
    return each(first, count, value);
  };
  SKERRY_TRY(list_values(key, in_order));
  return next == size_ ? Status{} : nothing_put(next, key);
}

Status RunBootstrap::lowest_with(std::string_view key, std::span<const std::byte> value,
                                 int* lowest) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  SKERRY_TRY(send(FrameWriter(FrameType::lowest).string(key).bytes(value).finish()));
  Frame frame;
  SKERRY_TRY(expect(FrameType::lowest_is, &frame));
  FrameReader reader(frame);
  const uint32_t rank = reader.u32();
  if (!reader.done() || rank > static_cast<uint32_t>(rank_))
    return error(Code::network, "the launcher does not know what rank ", rank_, " put as \"", key,
                 "\"");
  *lowest = static_cast<int>(rank);
  return {};
}

Status RunBootstrap::fence() {
  SKERRY_TRY(send(FrameWriter(FrameType::fence).finish()));
  Frame frame;
  return expect(FrameType::fence_done, &frame);
}

Status RunBootstrap::finish() {
  SKERRY_TRY(send(FrameWriter(FrameType::finish).finish()));
  Frame frame;
  return expect(FrameType::finish_done, &frame);
}

void RunBootstrap::abort(int exit_status, std::string_view message) {
  std::fflush(nullptr);
  const auto cut = message.substr(0, 1024);
  const Status sent = send(
      FrameWriter(FrameType::abort).u32(static_cast<uint32_t>(exit_status)).string(cut).finish());
  if (!sent.ok()) {
    std::fprintf(stderr, "skerry: rank %d ended the job: %.*s\n", rank_,
                 static_cast<int>(message.size()), message.data());
  }
  _exit(exit_status);
}

Status RunBootstrap::report_failures() {
  return send(FrameWriter(FrameType::report_failures).finish());
}

Status RunBootstrap::take_events(std::vector<DeadRank>* dead) {
  dead->clear();
  const Status received = receive(false);
  while (true) {
    std::optional<Frame> next;
    SKERRY_TRY(buffer_.next(&next));
    if (!next) break;
    if (next->type != FrameType::rank_died) {
      return error(Code::network, "the launcher sent ", to_string(next->type), " unasked");
    }
    SKERRY_TRY(note_death(*next));
  }
  // News that came before the launcher's end is still news.
  if (dead_.empty()) SKERRY_TRY(received);
  dead->swap(dead_);
  return {};
}

}  // namespace skerry::job
