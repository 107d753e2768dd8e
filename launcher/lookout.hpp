// The agent's part in looking at a whole job: a reader on this host (`skerry stacks`, `top`,
// `matrix`) connects to a UNIX socket of the agent, which asks the launcher for what the other
// hosts' agents see. Every agent answers with what skerry-look prints about the ranks of its host.
//
//   reader --connects--> agent --look_wanted--> launcher --look--> the other agents
//   reader <--looked---- agent <----looked----- launcher <-report-- each
//
// By the same way `skerry drain` reaches the launcher:
//   reader --drain--> agent --drain--> launcher, and back: drain_told
//
// The socket's name (abstract) is derived from the agent's process id; the kernel tells each side
// who the other is. Only the same user and root are served.
#pragma once

#include <sys/types.h>

#include <list>
#include <memory>
#include <vector>

#include "launcher/event_loop.hpp"
#include "launcher/link.hpp"

namespace skerry::launcher {

class Lookout {
 public:
  Lookout(EventLoop& loop, Link& launcher) : loop_(loop), launcher_(launcher) {}
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // Readers may come. Where that fails they see the ranks of their host alone.
  void open();
  // Frames of the launcher: another host's reader looks; what others answered ours, or the launcher
  // itself.
  void on_look(const job::Frame& frame);
  void on_looked(const job::Frame& frame);

 private:
  struct Visitor {
    uint32_t request = 0;
    std::unique_ptr<Link> link;  // ended: to be removed
  };
  // skerry-look at work.
  struct Report {
    uint32_t asker = 0, request = 0;
    pid_t pid = -1;
    UniqueFd output;
    std::vector<std::byte> text;
    EventLoop::TimerId deadline = 0;
  };
  void accept_one();
  void on_wish(uint32_t request, const job::Frame& frame);
  void dismiss(uint32_t request);
  void read_report(std::list<Report>::iterator report);
  void finish_report(std::list<Report>::iterator report);
  void answer(uint32_t asker, uint32_t request, const std::vector<std::byte>& text);

  EventLoop& loop_;
  Link& launcher_;
  UniqueFd listener_;
  uint32_t last_request_ = 0;
  std::list<Visitor> visitors_;
  std::list<Report> reports_;
};

}  // namespace skerry::launcher
