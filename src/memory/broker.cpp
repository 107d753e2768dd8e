#include "memory/broker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/shortage.hpp"
#include "memory/broker_wire.hpp"
#include "memory/control.hpp"
#include "memory/mapping.hpp"

namespace skerry::memory {

struct Broker::Request : broker_wire::Request {};
struct Broker::Reply : broker_wire::Reply {};

namespace {

constexpr long listener_pause_ns = 100'000'000;  // until a descriptor may be free again

bool equal_in_constant_time(const std::array<std::byte, 16>& a,
                            const std::array<std::byte, 16>& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

void watch_readable(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

// One datagram, with `fd` (or none: -1) attached. The socket's buffer is empty, so it fits. A peer
// that has gone is ignored.
void send_reply(int connection, const broker_wire::Reply& reply, int fd) {
  iovec part{const_cast<broker_wire::Reply*>(&reply), sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Status Broker::create(const Options& options, std::unique_ptr<Broker>* broker) {
  std::unique_ptr<Broker> made(new Broker);
  made->address_ = address_of(options);
  made->max_pending_ = options.max_pending;
  made->give_back_bytes_ = options.give_back_bytes;

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = made->address_.name;
  if (name.size() + 1 > sizeof address.sun_path)
    return error(Code::invalid, "the job tag '", options.job_tag, "' is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());

  made->listen_fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  made->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  made->timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  made->spare_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (made->listen_fd_ < 0 || made->epoll_fd_ < 0 || made->timer_fd_ < 0) {
    return error(Code::network, "no descriptors for the memory broker: ", std::strerror(errno),
                 "; see ulimit -n");
  }
  if (bind(made->listen_fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(made->listen_fd_, 1024) != 0) {
    return error(Code::network, "cannot listen on the abstract socket @", name, ": ",
                 std::strerror(errno));
  }
  watch_readable(made->epoll_fd_, made->listen_fd_);
  watch_readable(made->epoll_fd_, made->timer_fd_);
  *broker = std::move(made);
  return {};
}

Broker::~Broker() {
  for (const int connection : pending_) close(connection);
  for (const int connection : members_) close(connection);
  for (auto& [id, segment] : segments_) release(&segment);
  for (const int fd : {listen_fd_, timer_fd_, spare_fd_})
    if (fd >= 0) close(fd);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

void Broker::on_readable_owner() {
  epoll_event events[32];
  const int count = epoll_wait(epoll_fd_, events, 32, 0);
  bool is_time = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == timer_fd_) is_time = true;
    else if (fd != listen_fd_) serve(fd);
  }
  // After the served ones: both may close the oldest pending connection, whose number might be
  // among the events above.
  if (is_time) resume_listener();
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == listen_fd_) accept_all();
  }
}

void Broker::accept_all() {
  for (int round = 0; round < 64;
       ++round) {  // bounded: the server has other duties; the listener stays readable
    const int connection = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection < 0 && is_shortage(errno)) {
      pollfd waiting{listen_fd_, POLLIN, 0};
      if (poll(&waiting, 1, 0) <= 0) return;  // the kernel says so before it looks at the queue
      if (!members_.empty()) {  // the member that asked longest ago connects anew for its next
        drop(members_.front());
        continue;
      }
      if (spare_fd_ < 0) return pause_listener();
      close(std::exchange(spare_fd_, -1));
      continue;
    }
    if (connection < 0) return take_spare();
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        peer.uid != geteuid()) {
      ++unauthenticated_refused_;
      close(connection);
      continue;
    }
    if (pending_.size() >= max_pending_) {
      ++unauthenticated_refused_;
      drop(pending_.front());
    }
    pending_.push_back(connection);
    SKERRY_INVARIANT(pending_.size() <= max_pending_, "the oldest made way");
    watch_readable(epoll_fd_, connection);
    serve(connection);  // usually the request is there already
  }
}

// A listener that nobody can accept from stays readable: the server's thread would never sleep.
void Broker::pause_listener() {
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, listen_fd_, nullptr);
  const itimerspec after{{0, 0}, {0, listener_pause_ns}};
  (void)timerfd_settime(timer_fd_, 0, &after, nullptr);
}

void Broker::resume_listener() {
  uint64_t ticks = 0;
  (void)!read(timer_fd_, &ticks, sizeof ticks);
  if (spare_fd_ < 0 && !pending_.empty()) {  // it has had its time to say something
    ++unauthenticated_refused_;
    drop(pending_.front());
  }
  take_spare();
  watch_readable(epoll_fd_, listen_fd_);
}

void Broker::take_spare() {
  if (spare_fd_ < 0) spare_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void Broker::drop(int connection) {
  pending_.remove(connection);
  members_.remove(connection);
  close(connection);  // leaves the epoll set with it
  take_spare();
}

void Broker::serve(int connection) {
  Request request{};
  const ssize_t received = recv(connection, static_cast<broker_wire::Request*>(&request),
                                sizeof(broker_wire::Request), MSG_DONTWAIT | MSG_TRUNC);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto member = std::ranges::find(members_, connection);
  if (received == 0 && member != members_.end()) return drop(connection);
  if (received != static_cast<ssize_t>(sizeof(broker_wire::Request)) ||
      request.magic_number != broker_wire::magic ||
      !equal_in_constant_time(request.token, address_.token)) {
    ++unauthenticated_refused_;  // also: closed without a word
    drop(connection);
    return;
  }
  broker_wire::Reply reply{};
  reply.magic_number = broker_wire::magic;
  Status status;
  Segment* segment = nullptr;
  if (request.op == static_cast<uint32_t>(broker_wire::Op::attach)) {
    status = attach(request, &segment);
  } else if (request.op == static_cast<uint32_t>(broker_wire::Op::detach)) {
    status = detach(request);
  } else if (request.op == static_cast<uint32_t>(broker_wire::Op::give_back)) {
    reply.more = give_back_kept() ? 1 : 0;
  } else {
    status = error(Code::internal, "the memory broker does not know operation ", request.op);
  }
  reply.status = static_cast<int32_t>(status.code());
  std::strncpy(reply.text, status.message().c_str(), sizeof reply.text - 1);
  int fd = -1;
  if (segment != nullptr) {
    fd = segment->fd;
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
        peer.pid == getpid()) {
      reply.base = reinterpret_cast<uint64_t>(segment->base);
    }
  }
  send_reply(connection, reply, fd);
  if (segment != nullptr && segment->joined == segment->members) {
    close(segment->fd);
    segment->fd = -1;
  }
  if (spare_fd_ < 0) return drop(connection);  // descriptors are short
  if (member != members_.end()) return members_.splice(members_.end(), members_, member);
  members_.splice(members_.end(), pending_, std::ranges::find(pending_, connection));
}

Status Broker::attach(const Request& request, Segment** segment_out) {
  if (request.total_bytes == 0 || request.total_bytes % page_bytes != 0 ||
      request.total_bytes > uint64_t{1} << 62 || request.members == 0) {
    return error(Code::invalid, "a segment of ", request.total_bytes, " bytes for ",
                 request.members, " members makes no sense");
  }
  auto found = segments_.find(request.id);
  if (found == segments_.end()) {
    Segment segment;
    segment.total_bytes = request.total_bytes;
    segment.members = request.members;
    SKERRY_TRY(create_memfd(request.total_bytes, &segment.fd));
    if (Status status = map_memfd(segment.fd, request.total_bytes, request.address, &segment.base);
        !status.ok()) {
      close(segment.fd);
      return status;
    }
    const Lock guard(segments_mutex_);
    found = segments_.emplace(request.id, segment).first;
  }
  Segment& segment = found->second;
  if (segment.total_bytes != request.total_bytes || segment.members != request.members) {
    return error(Code::invalid, "members disagree about a segment: ", segment.total_bytes,
                 " bytes for ", segment.members, " members, then ", request.total_bytes,
                 " bytes for ", request.members);
  }
  if (segment.fd < 0)
    return error(Code::invalid, "all ", segment.members,
                 " members have attached this segment already");
  ++segment.joined;
  ++segment.attached;
  SKERRY_INVARIANT(segment.attached <= segment.joined && segment.joined <= segment.members,
                   "its descriptor goes with the last member that joins");
  *segment_out = &segment;
  return {};
}

Status Broker::detach(const Request& request) {
  const auto found = segments_.find(request.id);
  if (found == segments_.end()) return error(Code::freed, "this segment is freed already");
  Segment& segment = found->second;
  SKERRY_ASSERT(segment.attached > 0, "a segment without members is gone");
  if (--segment.attached == 0) {
    Segment gone = segment;
    {
      const Lock guard(segments_mutex_);
      segments_.erase(found);
    }
    releases_.fetch_add(1, std::memory_order_release);
    if (on_release_) on_release_(SegmentId::unpacked(request.id));
    release(&gone);
  }
  return {};
}

// Memory that nobody uses while somebody needs some. The servers may have registered it with an
// adapter, which would keep it. Returns whether there may be more.
bool Broker::give_back_kept() {
  uint64_t given_bytes = 0;
  for (const auto& [id, segment] : segments_) {
    if (given_bytes >= give_back_bytes_) return true;
    const SegmentId first = SegmentId::unpacked(id);
    if (first.generation == 0) continue;  // a control segment has no slices
    const uint64_t bytes = LocalSegment(segment.base, first).give_back_pages(discard_or_clear);
    if (bytes == 0) continue;
    given_bytes += bytes;
    if (on_release_) on_release_(first);
  }
  return false;
}

void Broker::release(Segment* segment) {
  if (segment->fd >= 0) close(segment->fd);
  unmap(segment->base, segment->total_bytes);
}

void Broker::for_each_owner(const std::function<void(const LocalSegment&)>& what) const {
  for (const auto& [packed, segment] : segments_)
    what(LocalSegment(segment.base, SegmentId::unpacked(packed)));
}

LocalSegment Broker::find(SegmentId id) const {
  const Lock guard(segments_mutex_);
  const auto found = segments_.find(id.first_life().packed());
  return found == segments_.end() ? LocalSegment{} : LocalSegment(found->second.base, id);
}

}  // namespace skerry::memory
