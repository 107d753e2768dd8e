#include "memory/node_memory.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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

constexpr int64_t other_patience_ns = 2'000'000'000;  // with the broker of another node

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;  // -1: none
};

Status gone(const BrokerAddress& broker) {
  return error(Code::peer_dead, "the leader of this node, which hands out shared memory (@",
               broker.name, "), is gone");
}

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
  Status reserve(std::byte* base, uint64_t offset, uint64_t bytes) override;
  void give_back(std::byte* base, uint64_t offset, uint64_t bytes) override {
    discard_or_clear(base, offset, bytes);
  }
  Status give_back_kept(std::span<const BrokerAddress> others) override;
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
  class Connection {
   public:
    bool is_open() const { return socket_.get() >= 0; }
    void close() { socket_.reset(); }
    Status open(const BrokerAddress& broker, BrokerClient& client, int64_t deadline_ns);
    bool give(const broker_wire::Request& request);
    Status take(BrokerClient& client, const BrokerAddress& broker, int64_t deadline_ns,
                broker_wire::Reply* reply, Descriptor* fd, bool* closed);

   private:
    Descriptor socket_{-1};
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
  std::mutex connection_mutex_;                  // held while asking
  Connection connection_;                        // to the broker; opened by the first request
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
    const int ready = poll(&watched, 1, static_cast<int>((slice_ns + 999'999) / 1'000'000));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR && errno != EAGAIN)
      return error(Code::network, "cannot wait for this node's leader: poll failed with errno ",
                   errno, "; see ulimit -n");
  }
}

Status BrokerClient::Connection::open(const BrokerAddress& broker, BrokerClient& client,
                                      int64_t deadline_ns) {
  // Blocking, though with waits in slices before each step: a connect that finds the leader's queue
  // full must not return EAGAIN.
  socket_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0)
    return error(Code::network, "no descriptor for shared memory: ", std::strerror(errno),
                 "; see ulimit -n");
  const timeval slice{0, 200'000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &slice,
             sizeof slice);  // connect waits at most this long at a time
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (broker.name.size() + 1 > sizeof address.sun_path)
    return error(Code::invalid, "broker name too long: ", broker.name);
  std::memcpy(address.sun_path + 1, broker.name.data(), broker.name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                             broker.name.size());
  while (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno != EAGAIN && errno != EINTR) return gone(broker);
    if (client.is_aborted())
      return error(Code::peer_dead, "the job is ending: gave up waiting for this node's leader");
    if (deadline_ns != no_deadline && monotonic_ns() >= deadline_ns) {
      return error(Code::timeout,
                   "this node's leader did not accept a request for shared memory in time");
    }
  }
  return {};
}

// False: the broker has closed this connection before it saw the request.
bool BrokerClient::Connection::give(const broker_wire::Request& request) {
  return send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof request);
}

// *closed: as of give; the status says nothing then.
Status BrokerClient::Connection::take(BrokerClient& client, const BrokerAddress& broker,
                                      int64_t deadline_ns, broker_wire::Reply* reply,
                                      Descriptor* fd, bool* closed) {
  iovec part{reply, sizeof *reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  ssize_t received = -1;
  do {
    SKERRY_TRY(client.wait_for(socket_.get(), POLLIN, deadline_ns));
    message = msghdr{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    received = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && (errno == EAGAIN || errno == EINTR));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int came = -1;
    std::memcpy(&came, CMSG_DATA(header), sizeof came);
    fd->reset(came);
  }
  *closed = received == 0 || (received < 0 && errno == ECONNRESET);
  if (received != static_cast<ssize_t>(sizeof *reply) || reply->magic_number != broker_wire::magic)
    return gone(broker);
  return {};
}

// The connection stays for the next request. The broker may have closed an idle one for want of
// descriptors: then a new one carries the request, once.
Status BrokerClient::ask(const broker_wire::Request& request, int64_t deadline_ns,
                         broker_wire::Reply* reply, Descriptor* fd) {
  const std::lock_guard lock(connection_mutex_);
  bool closed = false;
  Status status;
  for (bool is_new = false; !is_new;) {
    is_new = !connection_.is_open();
    if (is_new) status = connection_.open(broker_, *this, deadline_ns);
    if (!status.ok()) break;
    closed = !connection_.give(request);
    status = closed ? gone(broker_)
                    : connection_.take(*this, broker_, deadline_ns, reply, fd, &closed);
    if (!closed || is_new) break;
    connection_.close();
    status = {};
  }
  // A reply that comes later must not be taken for the next request's.
  if (!status.ok()) connection_.close();
  SKERRY_TRY(status);
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
  mapped.own_bytes = what.others_read_on ? 0 : what.own_bytes;
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
  if (status.ok())
    status = memory::reserve(fd.get(), mapped.base, mapped.own_offset,
                             std::min(what.reserved_bytes, what.own_bytes), huge_pages_,
                             abort_flag());
  if (!status.ok()) {
    if (mapped.base != nullptr)
      discard(mapped.base, what.own_offset,
              what.own_bytes);  // what was reserved before it failed
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
  SKERRY_INVARIANT(mapped.base != nullptr, "what is attached lies somewhere: null says not yet");
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

Status BrokerClient::reserve(std::byte* base, uint64_t offset, uint64_t bytes) {
  Status status = memory::reserve(-1, base, offset, bytes, huge_pages_, abort_flag());
  if (!status.ok()) discard(base, offset, bytes);
  return status;
}

Status BrokerClient::give_back_kept(std::span<const BrokerAddress> others) {
  broker_wire::Reply reply{};
  Descriptor none(-1);
  broker_wire::Request request = request_for(broker_wire::Op::give_back, {});
  for (const BrokerAddress& other : others) {
    request.token = other.token;
    Connection connection;
    bool closed = false;
    const int64_t deadline_ns = deadline_after(other_patience_ns);
    for (bool more = connection.open(other, *this, deadline_ns).ok(); more;)
      more = connection.give(request) &&
             connection.take(*this, other, deadline_ns, &reply, &none, &closed).ok() &&
             reply.more != 0;
  }
  request.token = broker_.token;
  do {
    SKERRY_TRY(ask(request, no_deadline, &reply, &none));
  } while (reply.more != 0);
  return {};
}

}  // namespace

std::unique_ptr<NodeMemory> make_node_memory(const BrokerAddress& broker, bool huge_pages) {
  return std::make_unique<BrokerClient>(broker, huge_pages);
}

}  // namespace skerry::memory
