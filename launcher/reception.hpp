// Where agents on other hosts report: one TCP port. Unauthenticated peers are kept out, and cost a
// bounded table entry with a deadline.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "launcher/auth.hpp"
#include "launcher/link.hpp"

namespace skerry::launcher {

class Reception {
 public:
  using OnAgent = std::function<void(uint32_t agent, UniqueFd socket)>;
  Reception(EventLoop& loop, const Key& key, OnAgent on_agent)
      : loop_(loop), key_(key), on_agent_(std::move(on_agent)) {}
  ~Reception();

  // `interface`: a name or an address of this machine; empty: all. Errors: config (no such
  // interface; the message lists what there is), network.
  Status open(const std::string& interface);
  uint16_t port() const { return port_; }
  // Numeric, loopback last.
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  struct Visitor {
    Nonce nonce;
    std::unique_ptr<Link> link;  // ended: to be removed
    EventLoop::TimerId deadline = 0;
  };
  using VisitorId = std::list<Visitor>::iterator;
  void accept_all();
  void watch_listener();
  void on_frame(VisitorId visitor, const job::Frame& frame);
  void dismiss(VisitorId visitor);

  EventLoop& loop_;
  const Key key_;
  OnAgent on_agent_;
  UniqueFd listener_;
  EventLoop::TimerId listener_pause_ = 0;  // 0: the listener is watched
  uint16_t port_ = 0;
  std::vector<std::string> addresses_;
  std::list<Visitor> visitors_;  // connected, not yet recognised; oldest first
};

// Keeps a silent host or a cut cable from hanging the job: the connection ends after some 30 s
// without an answer.
void tune_connection(int socket);

// The agent's side: connects to one of `addresses`, proves itself and checks the launcher. Blocks
// up to some seconds per address. Errors: network.
Status report_to_launcher(const std::vector<std::string>& addresses, uint16_t port, uint32_t agent,
                          const Key& key, UniqueFd* socket);

}  // namespace skerry::launcher
