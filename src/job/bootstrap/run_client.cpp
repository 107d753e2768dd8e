#include "job/bootstrap/run_client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

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
  Frame frame;
  SKERRY_TRY(ask(FrameWriter(FrameType::hello)
                     .u32(static_cast<uint32_t>(getpid()))
                     .u64(own_namespace(Namespace::pid))
                     .finish(),
                 FrameType::welcome, &frame));
  FrameReader reader(frame);
  const uint32_t rank = reader.u32(), size = reader.u32(), node = reader.u32();
  const uint32_t spares = reader.u32(), late = reader.u32(), per_node = reader.u32();
  const auto key = reader.bytes(key_.size());
  if (!reader.done() || size == 0 || size > INT32_MAX || rank >= size || node >= size ||
      spares >= size || late > spares || per_node == 0 || late % per_node != 0) {
    return error(Code::network, "the launcher's welcome does not make sense (rank ", rank, " of ",
                 size, ", node ", node, ")");
  }
  rank_ = static_cast<int>(rank);
  size_ = static_cast<int>(size);
  node_ = static_cast<int>(node);
  spares_ = static_cast<int>(spares);
  late_ = {static_cast<int>(late), static_cast<int>(per_node)};
  std::memcpy(key_.data(), key.data(), key_.size());
  return {};
}

Status RunBootstrap::note_death(const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t rank = reader.u32();
  const auto cause = reader.string();
  const uint32_t view = reader.u32();
  if (!reader.ok())
    return error(Code::network, "the launcher's report of a dead rank is too short");
  if (rank >= static_cast<uint32_t>(size()))
    return error(Code::network, "the launcher reports the death of rank ", rank, " of ", size());
  dead_.push_back({static_cast<int>(rank), std::string(cause), view});
  return {};
}

Status RunBootstrap::note_late(const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t rank = reader.u32();
  const auto key = reader.string();
  const auto value = reader.rest();
  if (!reader.ok() || rank >= static_cast<uint32_t>(size()) || !is_late(static_cast<int>(rank)))
    return error(Code::network, "the launcher tells what rank ", rank,
                 " has put, which is no late spare");
  puts_.push_back({static_cast<int>(rank), std::string(key), {value.begin(), value.end()}});
  return {};
}

Status RunBootstrap::note(const Frame& frame, bool* is_news) {
  *is_news = true;
  if (frame.type == FrameType::rank_died) return note_death(frame);
  if (frame.type == FrameType::late_put) return note_late(frame);
  if (frame.type == FrameType::spares_wait) spares_wait_ = FrameReader(frame).u32();
  else if (frame.type == FrameType::leave) leave_ = true;
  else *is_news = false;
  return {};
}

Status RunBootstrap::expect(FrameType wanted, Frame* frame) {
  for (std::optional<Frame> next; true;) {
    SKERRY_TRY(socket_.next(true, &next));
    if (next->type == wanted) {
      *frame = *next;
      return {};
    }
    bool is_news = false;
    SKERRY_TRY(note(*next, &is_news));
    if (!is_news)
      return error(Code::network, "the launcher sent ", to_string(next->type), " instead of ",
                   to_string(wanted));
  }
}

Status RunBootstrap::ask(const std::vector<std::byte>& question, FrameType wanted, Frame* answer) {
  SKERRY_TRY(socket_.send(question));
  return expect(wanted, answer);
}

Status RunBootstrap::put(std::string_view key, std::span<const std::byte> value) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  return socket_.send(FrameWriter(FrameType::put).string(key).bytes(value).finish());
}

Status RunBootstrap::get(int rank, std::string_view key, std::vector<std::byte>* value) {
  SKERRY_TRY(check_key(key));
  Frame frame;
  SKERRY_TRY(ask(FrameWriter(FrameType::get).u32(static_cast<uint32_t>(rank)).string(key).finish(),
                 FrameType::value, &frame));
  FrameReader reader(frame);
  const bool found = reader.u8() != 0;
  if (!found) return nothing_put(rank, key);
  const auto bytes = reader.rest();
  value->assign(bytes.begin(), bytes.end());
  return {};
}

Status RunBootstrap::get_runs(std::span<const int> ranks, std::string_view key,
                              const EachRun& each) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(socket_.send(FrameWriter(FrameType::get_all).string(key).finish()));
  // Both lists ascend: the next rank wanted is among those that come, or they are not wanted, or it
  // has put nothing.
  const int wanted = ranks.empty() ? size() - late_.ranks : static_cast<int>(ranks.size());
  const auto rank_of = [&](int k) { return ranks.empty() ? k : ranks[static_cast<size_t>(k)]; };
  int next = 0;
  Status status;
  for (bool last = false; !last;) {  // to the last frame: the next answer stands behind it
    Frame frame;
    SKERRY_TRY(expect(FrameType::values, &frame));
    FrameReader reader(frame);
    last = reader.u8() != 0;
    while (reader.ok() && !reader.done()) {
      const uint32_t first = reader.u32(), count = reader.u32();
      const auto value = reader.bytes(reader.u32());
      const auto ranks_here = static_cast<uint32_t>(size());
      if (first > ranks_here || count > ranks_here - first)
        return error(Code::network, "the launcher lists values of ranks that do not exist");
      const auto begin = static_cast<int>(first), end = static_cast<int>(first + count);
      while (reader.ok() && status.ok() && next < wanted && rank_of(next) >= begin &&
             rank_of(next) < end) {
        const int run = ranks.empty() ? std::min(end, wanted) - next : 1;
        status = each(rank_of(next), run, value);
        next += run;
      }
    }
    if (!reader.ok()) return error(Code::network, "the launcher's list of values is cut short");
  }
  if (status.ok() && next < wanted) return nothing_put(rank_of(next), key);
  return status;
}

Status RunBootstrap::lowest_with(std::string_view key, std::span<const std::byte> value,
                                 int* lowest) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  Frame frame;
  SKERRY_TRY(ask(FrameWriter(FrameType::lowest).string(key).bytes(value).finish(),
                 FrameType::lowest_is, &frame));
  FrameReader reader(frame);
  const uint32_t rank = reader.u32();
  if (!reader.done() || rank > static_cast<uint32_t>(rank_))
    return error(Code::network, "the launcher does not know what rank ", rank_, " put as \"", key,
                 "\"");
  *lowest = static_cast<int>(rank);
  return {};
}

Status RunBootstrap::fence() {
  Frame frame;
  return ask(FrameWriter(FrameType::fence).finish(), FrameType::fence_done, &frame);
}

Status RunBootstrap::finish() {
  Frame frame;
  return ask(FrameWriter(FrameType::finish).finish(), FrameType::finish_done, &frame);
}

void RunBootstrap::abort(int exit_status, std::string_view message) {
  std::fflush(nullptr);
  const auto cut = message.substr(0, 1024);
  const Status sent = socket_.send(
      FrameWriter(FrameType::abort).u32(static_cast<uint32_t>(exit_status)).string(cut).finish());
  if (!sent.ok()) {
    std::fprintf(stderr, "skerry: rank %d ended the job: %.*s\n", rank_,
                 static_cast<int>(message.size()), message.data());
  }
  _exit(exit_status);
}

Status RunBootstrap::report_failures(bool goes_on) {
  return socket_.send(FrameWriter(FrameType::report_failures).u8(goes_on ? 1 : 0).finish());
}

// ---- going on without the dead ----------------------------------------------------------------

Status RunBootstrap::meet_living(std::string_view key, int64_t limit_ms,
                                 std::span<const Run> members, std::span<const std::byte> bytes,
                                 int size) {
  static_assert(most_runs * 2 * sizeof(uint32_t) + most_meeting_bytes + max_key_bytes + 64 <
                max_control_payload);
  SKERRY_TRY(check_key(key));
  if (members.size() > most_runs)
    return error(Code::unsupported, "the members of the group are in ", members.size(),
                 " runs of ranks: at most ", most_runs, " can be told the launcher");
  if (bytes.size() > most_meeting_bytes)
    return error(Code::invalid, bytes.size(), " bytes for a meeting: at most ",
                 most_meeting_bytes);
  FrameWriter frame(FrameType::meet);
  frame.string(key)
      .u32(limit_ms < 0 ? all_ranks
                        : static_cast<uint32_t>(std::min<int64_t>(limit_ms, INT32_MAX)))
      .u32(static_cast<uint32_t>(size))
      .u32(static_cast<uint32_t>(members.size()));
  for (const Run& run : members)
    frame.u32(static_cast<uint32_t>(run.first)).u32(static_cast<uint32_t>(run.count));
  return socket_.send(frame.bytes(bytes).finish());
}

Status RunBootstrap::decide(std::string_view key, uint8_t proposal) {
  SKERRY_TRY(check_key(key));
  return socket_.send(FrameWriter(FrameType::decide).string(key).u8(proposal).finish());
}

Status RunBootstrap::note_met(const Frame& frame, News* news) {
  FrameReader reader(frame);
  met_.key = reader.string();
  const bool last = reader.u8() != 0, failed = reader.u8() != 0;
  while (reader.ok() && !reader.done()) {
    const uint32_t rank = reader.u32();
    if (failed) {
      met_.missing.push_back(static_cast<int>(rank));
      continue;
    }
    const uint32_t count = reader.u32(), ranks_here = static_cast<uint32_t>(size());
    if (rank > ranks_here || count > ranks_here - rank)
      return error(Code::network, "the launcher says that ranks have met which do not exist");
    const auto gave = reader.bytes(reader.u32());
    for (uint32_t i = 0; i < count; ++i)
      met_.came.emplace_back(static_cast<int>(rank + i),
                             std::vector<std::byte>(gave.begin(), gave.end()));
  }
  if (!reader.ok()) return error(Code::network, "the launcher's word of a meeting is cut short");
  if (last) news->met.push_back(std::exchange(met_, {}));
  return {};
}

Status RunBootstrap::take_news(News* news) {
  *news = {};
  Status received;
  for (std::optional<Frame> next; true;) {
    received = socket_.next(false, &next);
    if (!received.ok() || !next) break;
    bool is_news = false;
    SKERRY_TRY(note(*next, &is_news));
    if (is_news) continue;
    switch (next->type) {
      case FrameType::met: SKERRY_TRY(note_met(*next, news)); break;
      case FrameType::decided: {
        FrameReader reader(*next);
        const std::string key(reader.string());
        news->decided.push_back({key, reader.u8()});
        break;
      }
      default: return error(Code::network, "the launcher sent ", to_string(next->type), " unasked");
    }
  }
  news->dead = std::exchange(dead_, {});
  news->late = std::exchange(puts_, {});
  news->spares_wait = std::exchange(spares_wait_, std::nullopt);
  news->leave = std::exchange(leave_, false);
  // News that came before the launcher's end is still news.
  const bool none = news->dead.empty() && news->late.empty() && news->met.empty() &&
                    news->decided.empty() && !news->spares_wait;
  return none && !news->leave ? received : Status();
}

Status RunBootstrap::take_events(std::vector<DeadRank>* dead) {
  dead->clear();
  Status received;
  for (std::optional<Frame> next; true;) {
    received = socket_.next(false, &next);
    if (!received.ok() || !next) break;
    if (next->type != FrameType::rank_died)
      return error(Code::network, "the launcher sent ", to_string(next->type), " unasked");
    SKERRY_TRY(note_death(*next));
  }
  // News that came before the launcher's end is still news.
  if (dead_.empty()) SKERRY_TRY(received);
  dead->swap(dead_);
  return {};
}

}  // namespace skerry::job
