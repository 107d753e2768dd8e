// The broker makes a node's segments and hands them out. One per node, in the leader's process. It
// runs on the thread of the node's first data server, which watches one descriptor for it; find and
// releases are for the threads of all. It never blocks: a request is one datagram, answered at
// once. Members keep their connections; where descriptors are short, it closes idle ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/thread.hpp"
#include "memory/node_memory.hpp"
#include "memory/segment.hpp"

namespace skerry::memory {

class Broker {
 public:
  struct Options {
    std::string job_tag;                // random, per job: two jobs on one host do not meet
    NodeId node = 0;                    // several (virtual) nodes of one job may share a host
    std::array<std::byte, 16> token{};  // from the job key
    uint32_t max_pending = 64;  // connections without a request yet; beyond that the oldest is
                                // closed
    uint64_t give_back_bytes = 64 << 20;  // of pages, for a request: no other is served meanwhile
  };
  static BrokerAddress address_of(const Options& options) {
    return {concat("skerry/", options.job_tag, "/", options.node), options.token};
  }
  // Starts to listen; may be called before the server's thread exists. Errors: network (the name is
  // taken, or no descriptors left).
  static Status create(const Options& options, std::unique_ptr<Broker>* broker);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  ~Broker();  // unmaps what is left. After the server's thread has ended.

  const BrokerAddress& address() const { return address_; }

  // ---- server thread ----
  int fd() const { return epoll_fd_; }  // readable: call on_readable_owner
  void on_readable_owner();
  // Called with each segment, by its first life, just before it is unmapped. From here on find does
  // not find it, and what find said before must not be used when this returns. Also called when its
  // pages were given back between two lives: what was made of them must go. Set before the server's
  // thread runs.
  void on_release(std::function<void(SegmentId)> callback) { on_release_ = std::move(callback); }
  uint64_t segments_owner() const { return segments_.size(); }
  // Each of them, whatever life it is in.
  void for_each_owner(const std::function<void(const LocalSegment&)>& what) const;

  // ---- any thread ----
  // The node's part of a segment, mapped in this process; none if its memory was never allocated
  // here, or is gone. Another life of it may be there (LocalSegment::is_here). Valid until
  // on_release for it returns.
  LocalSegment find(SegmentId id) const;
  // How many segments find has ceased to find: while this stays the same, what it found stays
  // valid.
  uint64_t releases() const { return releases_.load(std::memory_order_acquire); }

  // ---- server thread ----
  uint64_t unauthenticated_refused_owner() const { return unauthenticated_refused_; }

 private:
  struct Segment {
    std::byte* base = nullptr;
    uint64_t total_bytes = 0;
    int fd = -1;            // -1: every member has attached
    uint32_t members = 0;   // expected
    uint32_t joined = 0;    // ever attached
    uint32_t attached = 0;  // now; 0 releases
  };
  struct Request;
  struct Reply;

  Broker() = default;
  void accept_all();
  void take_spare();
  void pause_listener();
  void resume_listener();
  void serve(int connection);
  void drop(int connection);
  Status attach(const Request& request, Segment** segment);
  Status detach(const Request& request);
  bool give_back_kept();
  void release(Segment* segment);

  BrokerAddress address_;
  std::function<void(SegmentId)> on_release_;  // null: no listener
  int listen_fd_ = -1;
  int epoll_fd_ = -1;
  int spare_fd_ = -1;  // given up when descriptors run out, to serve one request; -1: given up
  int timer_fd_ = -1;  // readable when the paused listener is to be looked at again
  uint32_t max_pending_ = 0;
  uint64_t give_back_bytes_ = 0;
  uint64_t unauthenticated_refused_ = 0;
  std::list<int> pending_;             // connections without a request yet, oldest first
  std::list<int> members_;             // connections that had one; the last one served comes last
  mutable Mutex segments_mutex_;       // for the others that find: what the owner changes
  std::atomic<uint64_t> releases_{0};  // grows after a segment left the table, before on_release
  std::unordered_map<uint64_t, Segment> segments_;  // by SegmentId::packed of the first life
};

}  // namespace skerry::memory
