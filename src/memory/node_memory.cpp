#include "memory/node_memory.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "memory/broker_wire.hpp"
#include "memory/control.hpp"
#include "memory/mapping.hpp"

namespace skerry::memory {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int* out() { return &fd_; }

 private:
  int fd_;  // -1: none
};

class BrokerClient final : public NodeMemory {
 public:
  BrokerClient(const BrokerAddress& broker, bool huge_pages)
      : broker_(broker), huge_pages_(huge_pages) {}
  ~BrokerClient() override {
    for (auto& [id, mapped] : mapped_) {
      if (mapped.own_mapping) unmap(mapped.base, mapped.bytes);
    }
  }

  Status attach(const AttachRequest& request, int64_t timeout_ns, std::byte** base) override;
  Status detach(SegmentId id) override;
  void watch_abort(const std::atomic<uint32_t>* abort) override {
    abort_.store(abort, std::memory_order_release);
  }

 private:
  struct Mapped {
    std::byte* base = nullptr;  // null: being attached
    uint64_t bytes = 0;
    uint64_t own_offset = 0;
    uint64_t own_bytes = 0;
    bool own_mapping = false;  // false: it is the broker's, in this very process
  };

  const std::atomic<uint32_t>* abort_flag() const { return abort_.load(std::memory_order_acquire); }
  bool is_aborted() const {
    return abort_flag() != nullptr && abort_flag()->load(std::memory_order_acquire) != 0;
  }
  Status ask(const broker_wire::Request& request, int64_t deadline_ns, broker_wire::Reply* reply,
             Descriptor* fd);
  Status wait_for(int fd, short events, int64_t deadline_ns);
  broker_wire::Request request_for(broker_wire::Op op, SegmentId id) const;

  const BrokerAddress broker_;
  const bool huge_pages_;
  std::atomic<const std::atomic<uint32_t>*> abort_{nullptr};
  std::mutex mutex_;                             // guards mapped_; never held while asking
  std::unordered_map<uint64_t, Mapped> mapped_;  // by SegmentId::packed
};

broker_wire::Request BrokerClient::request_for(broker_wire::Op op, SegmentId id) const {
  broker_wire::Request request{};
  request.magic_number = broker_wire::magic;
  request.token = broker_.token;
  request.op = static_cast<uint32_t>(op);
  request.id = id.packed();
  return request;
}

Status BrokerClient::wait_for(int fd, short events, int64_t deadline_ns) {
  for (;;) {
    if (is_aborted())
      return error(Code::peer_dead, "the job is ending: gave up waiting for this node's leader");
    int64_t slice_ns = wait_slice_ns;
    if (deadline_ns != no_deadline) {
      const int64_t left_ns = deadline_ns - monotonic_ns();
      if (left_ns <= 0)
        return error(Code::timeout,
                     "this node's leader did not answer a request for shared memory in time");
      slice_ns = left_ns < slice_ns ? left_ns : slice_ns;
    }
    pollfd watched{fd, events, 0};
    if (poll(&watched, 1, static_cast<int>((slice_ns + 999'999) / 1'000'000)) > 0) return {};
  }
}

Status BrokerClient::ask(const broker_wire::Request& request, int64_t deadline_ns,
                         broker_wire::Reply* reply, Descriptor* fd) {
  const Status gone = error(Code::peer_dead,
                            "the leader of this node, which hands out shared memory (@",
                            broker_.name, "), is gone");
  // Blocking, though with waits in slices before each step: a connect that finds the leader's queue
  // full must not return EAGAIN.
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connection.get() < 0)
    return error(Code::network, "no descriptor for shared memory: ", std::strerror(errno),
                 "; see ulimit -n");
  const timeval slice{0, 200'000};
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &slice,
             sizeof slice);  // connect waits at most this long at a time
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (broker_.name.size() + 1 > sizeof address.sun_path)
    return error(Code::invalid, "broker name too long: ", broker_.name);
  std::memcpy(address.sun_path + 1, broker_.name.data(), broker_.name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                             broker_.name.size());
  while (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno != EAGAIN && errno != EINTR) return gone;
    if (is_aborted())
      return error(Code::peer_dead, "the job is ending: gave up waiting for this node's leader");
    if (deadline_ns != no_deadline && monotonic_ns() >= deadline_ns) {
      return error(Code::timeout,
                   "this node's leader did not accept a request for shared memory in time");
    }
  }
  if (send(connection.get(), &request, sizeof request, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof request))
    return gone;

  iovec part{reply, sizeof *reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  ssize_t received = -1;
  do {
    SKERRY_TRY(wait_for(connection.get(), POLLIN, deadline_ns));
    message = msghdr{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    received = recvmsg(connection.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && (errno == EAGAIN || errno == EINTR));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
      std::memcpy(fd->out(), CMSG_DATA(header), sizeof(int));
  }
  if (received != static_cast<ssize_t>(sizeof *reply) || reply->magic_number != broker_wire::magic)
    return gone;
  reply->text[sizeof reply->text - 1] = 0;
  if (reply->status != 0) return Status(static_cast<Code>(reply->status), reply->text);
  return {};
}

Status BrokerClient::attach(const AttachRequest& what, int64_t timeout_ns, std::byte** base) {
  SKERRY_ASSERT(what.own_offset % page_bytes == 0 && what.own_bytes % page_bytes == 0 &&
                    what.own_offset + what.own_bytes <= what.total_bytes,
                "a member's part is whole pages of the segment");
  {
    const std::lock_guard lock(mutex_);
    if (!mapped_.emplace(what.id.packed(), Mapped{}).second) {
      return error(Code::invalid, "segment ", what.id.owner, ".", what.id.generation,
                   " is attached already");
    }
  }
  Mapped mapped;
  mapped.bytes = what.total_bytes;
  mapped.own_offset = what.own_offset;
  mapped.own_bytes = what.own_bytes;
  broker_wire::Request request = request_for(broker_wire::Op::attach, what.id);
  request.members = what.members;
  request.total_bytes = what.total_bytes;
  request.address = what.address;
  broker_wire::Reply reply{};
  Descriptor fd(-1);
  Status status = ask(request, deadline_after(timeout_ns), &reply, &fd);
  const bool attached = status.ok();
  if (attached && fd.get() < 0)
    status = error(Code::network, "no descriptor came with the shared memory; see ulimit -n");
  if (status.ok() && reply.base != 0) {
    mapped.base = reinterpret_cast<std::byte*>(reply.base);
  } else if (status.ok()) {
    status = map_memfd(fd.get(), mapped.bytes, what.address, &mapped.base);
    mapped.own_mapping = status.ok();
  }
  if (status.ok() && what.reserves)
    status = reserve(fd.get(), mapped.base, mapped.own_offset, mapped.own_bytes, huge_pages_,
                     abort_flag());
  if (!status.ok()) {
    if (mapped.base != nullptr)
      discard(mapped.base, mapped.own_offset,
              mapped.own_bytes);  // what was reserved before it failed
    if (mapped.own_mapping) unmap(mapped.base, mapped.bytes);
    if (attached) {  // so that the memory does not stay for the sake of a member that is not there;
                     // a failure of this changes nothing
      Descriptor none(-1);
      (void)ask(request_for(broker_wire::Op::detach, what.id), deadline_after(timeout_ns), &reply,
                &none)
          .ok();
    }
    const std::lock_guard lock(mutex_);
    mapped_.erase(what.id.packed());
    return status;
  }
  const std::lock_guard lock(mutex_);
  mapped_[what.id.packed()] = mapped;
  *base = mapped.base;
  return {};
}

Status BrokerClient::detach(SegmentId id) {
  Mapped mapped;
  {
    const std::lock_guard lock(mutex_);
    const auto found = mapped_.find(id.packed());
    if (found == mapped_.end() || found->second.base == nullptr) {
      return error(Code::freed, "segment ", id.owner, ".", id.generation, " is not attached");
    }
    mapped = found->second;
    mapped_.erase(found);
  }
  // Each member frees its own pages here, in parallel. Otherwise the last unmap would free them all
  // in the data server, which has requests to serve.
  discard(mapped.base, mapped.own_offset, mapped.own_bytes);
  if (mapped.own_mapping) unmap(mapped.base, mapped.bytes);
  broker_wire::Reply reply{};
  Descriptor none(-1);
  return ask(request_for(broker_wire::Op::detach, id), no_deadline, &reply, &none);
}

}  // namespace

std::unique_ptr<NodeMemory> make_node_memory(const BrokerAddress& broker, bool huge_pages) {
  return std::make_unique<BrokerClient>(broker, huge_pages);
}

}  // namespace skerry::memory
