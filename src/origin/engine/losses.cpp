#include "origin/engine/losses.hpp"

#include <utility>

#include "core/pure/rule.hpp"

namespace skerry::origin {

bool Losses::advance() {
  if (done_ == context_.lost.size() || !progress_.may_close()) return false;
  for (; done_ < context_.lost.size(); ++done_) {
    const Loss& loss = context_.lost[done_];
    for (uint16_t i = 0; i < context_.config.map->servers(loss.node); ++i) {
      Link* const link = links_.find({loss.node, i});
      if (link == nullptr || link->connection.is_lost() || !SKERRY_RULE(lose_nodes)) continue;
      const Connection::Loss how = link->loss_now();
      links_.fail_and_close(*link, loss.why);
      link->connection.loss_ = how;
    }
  }
  return true;
}

// A thread that is in the fabric is woken. It or this one closes, whichever has the mutex first.
void Losses::lose(NodeId node, const Status& why) {
  constexpr int64_t moment_ns = 200'000;
  Lock lock(context_.mutex);
  context_.lost.push_back({node, why});
  const size_t number = context_.lost.size();
  Condition never;
  while (done_ < number && !context_.is_ending()) {
    (void)advance();
    progress_.wake_waiters();
    if (done_ < number) never.wait_for(lock, moment_ns);
  }
}

Status Losses::tell(Link& link) {
  Connection& c = link.connection;
  return std::exchange(c.loss_, Connection::Loss::told) == Connection::Loss::to_tell ? c.failure()
                                                                                     : Status();
}

}  // namespace skerry::origin
