#include "sim/storm/origin.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::sim {

using connection::Action;
using connection::Event;
using connection::State;

StormOrigin::StormOrigin(uint32_t index, const StormConfig& config, const connection::JobKey& key,
                         Queue& queue, Random& random, Network& network, Checker& checker)
    : index_(index),
      config_(config),
      key_(key),
      queue_(queue),
      random_(random),
      network_(network),
      checker_(checker) {
  const session::Credits credits{config.credit_requests, config.credit_bytes};
  for (uint32_t s = 0; s < config.servers; ++s) {
    links_.push_back(std::make_unique<Link>(credits));
    links_.back()->server = s;
  }
  if (config.cap > 0) policy_ = connection::VictimPolicy::make(config.policy, config.cap + 1);
  threads_.resize(config.threads);
  for (uint32_t t = 0; t < config.threads; ++t) {
    threads_[t].index = t;
    threads_[t].left = config.operations;
  }
}

// ---- connections ------------------------------------------------------------------------------

StormOrigin::Link* StormOrigin::link_of(ConnectionId connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

uint32_t StormOrigin::counted() const {
  return static_cast<uint32_t>(std::count_if(links_.begin(), links_.end(), [](const auto& l) {
    return l->machine.state() == State::opening || l->machine.state() == State::open;
  }));
}

uint32_t StormOrigin::leaving() const {
  return static_cast<uint32_t>(std::count_if(links_.begin(), links_.end(), [](const auto& l) {
    return l->machine.state() == State::draining || l->machine.state() == State::closing;
  }));
}

// Opens an idle link if the cap has room, or makes room: the victim drains and closes while the new
// connection opens.
bool StormOrigin::try_open(Link& link) {
  if (link.retry_at > queue_.now()) {
    wake(link.retry_at);
    return false;
  }
  if (policy_ && config_.mutation != Mutation::ignore_cap) {
    const bool place_to_leave = counted() + leaving() <=
                                config_.cap;  // one more than the cap may exist, if one of them is
                                              // on its way out
    if (!place_to_leave) return false;
    if (counted() >= config_.cap) {
      const auto victim = policy_->choose([&](connection::Partner s) {
        const Link& l = *links_[s];
        // What was opened to resume and had nothing to send again is nobody's: pinned for its first
        // request, it would keep its place for ever.
        return l.machine.state() != State::open ||
               (l.fresh && (l.wanted > 0 || l.unacknowledged()));
      });
      if (!victim) return false;
      ++evictions_;
      policy_->closed(*victim, true);
      drive(*links_[*victim], Event::evict, links_[*victim]->machine.generation());
    }
    policy_->opened(link.server);
  }
  drive(link, Event::want, link.machine.generation());
  return true;
}

void StormOrigin::drive(Link& link, Event event, uint32_t generation) {
  const bool unacknowledged = link.unacknowledged() &&
                              !(config_.mutation == Mutation::bye_undrained &&
                                event == Event::evict);
  const Action action = link.machine.on(event, generation, unacknowledged);
  const auto disconnect = [&] {
    if (link.connection == no_connection) return;
    by_connection_.erase(link.connection);
    network_.close(link.connection, Side::origin);
    link.connection = no_connection;
    link.ready = false;
  };
  const auto connect = [&] {
    link.hello.rank = index_;
    link.hello.generation = link.machine.generation();
    link.hello.nonce = random_.next();
    const auto hello = connection::make_hello(key_, peer(link), index_, link.hello.generation,
                                              link.hello.nonce);
    link.connection = network_.connect(index_, link.server, {hello.begin(), hello.end()});
    by_connection_[link.connection] = &link;
    link.fresh = true;
    link.ready = false;
  };
  switch (action) {
    case Action::none:
    case Action::send_queued: return;
    case Action::start_drain: return;
    case Action::connect: return connect();
    case Action::close_endpoint:
      disconnect();
      link.log.trim();
      return;
    case Action::send_bye: {
      const wire::CloseHeader bye{wire::version, static_cast<uint8_t>(wire::Kind::bye), 0, 1,
                                  link.session.issued()};
      Bytes bytes(sizeof bye);
      std::memcpy(bytes.data(), &bye, sizeof bye);
      return network_.send(link.connection, Side::origin, {std::move(bytes), {}});
    }
    case Action::broken: link.must_resume = true; return;
    case Action::refused:
      link.retry_at = queue_.now() +
                      random_.between(1, 4 * (config_.latency_ns + config_.jitter_ns));
      return;
  }
}

void StormOrigin::maybe_drained(Link& link) {
  if (link.machine.state() == State::draining && !link.unacknowledged())
    drive(link, Event::drained, link.machine.generation());
}

void StormOrigin::on_connected(ConnectionId connection, std::span<const std::byte> answer) {
  Link* link = link_of(connection);
  if (link == nullptr) return;
  uint64_t applied = 0;
  if (!connection::check_answer(key_, peer(*link), link->hello, answer, &applied).ok())
    return checker_.fail("origin ", index_, " got a wrong answer to its hello");
  drive(*link, Event::connected, link->machine.generation());
  if (Status status = link->session.resume(applied); !status.ok())
    return checker_.fail("origin ", index_, ": ", status.message());
  link->log.acknowledge(link->session.applied());
  resume(*link);
  pump();
}

void StormOrigin::on_closed(ConnectionId connection) {
  Link* link = link_of(connection);
  if (link == nullptr) return;
  by_connection_.erase(connection);
  link->connection = no_connection;
  link->ready = false;
  // A grant may have been under way on it, also when we had said bye and the answer was lost: only
  // the server knows.
  if (link->parked_locks > 0) link->must_resume = true;
  if (policy_) policy_->closed(link->server, false);
  drive(*link, Event::closed, link->machine.generation());
  pump();
}

// The server's answer told what it has applied. Everything after that is sent again, in order,
// before anything new.
void StormOrigin::resume(Link& link) {
  link.ready = true;
  link.must_resume = false;
  if (config_.mutation == Mutation::replay_nothing) return;
  if (link.log.empty()) return;
  ++resumes_;
  for (uint64_t number = link.log.first_number(); number <= link.log.last_number(); ++number)
    if (link.log.is_wanted(number)) send(link, number);
}

void StormOrigin::on_message(ConnectionId connection, const Frame& frame) {
  Link* link = link_of(connection);
  if (link == nullptr) return;
  wire::Kind kind;
  if (!wire::peek(frame.header, &kind).ok())
    return checker_.fail("origin ", index_, " got a message of no kind");
  if (kind == wire::Kind::please_close) {
    if (link->machine.state() == State::open) {
      if (policy_) policy_->closed(link->server, false);
      drive(*link, Event::please_close, link->machine.generation());
    }
  } else if (kind == wire::Kind::farewell) {  // the end of the connection follows
  } else if (kind == wire::Kind::bye_answer) {
    wire::CloseHeader answer;
    if (!wire::decode(frame.header, &answer).ok() || answer.last_number != link->session.issued())
      checker_.fail("origin ", index_, " said bye at ", link->session.issued(), ", server ",
                    link->server, " answered ", answer.last_number);
    drive(*link, Event::bye_answer, link->machine.generation());
  } else {
    wire::ReplyHeader header;
    if (!wire::decode(frame.header, &header).ok())
      return checker_.fail("origin ", index_, " got an answer that does not decode");
    if (Status status = link->session.acknowledge(header.applied); !status.ok())
      return checker_.fail("origin ", index_, ": ", status.message());
    link->log.acknowledge(link->session.applied());
    if (header.applied > 0 && link->session.drained()) link->fresh = false;
    if (header.slot != 0) complete(header, frame.payload, link);
    maybe_drained(*link);
  }
  pump();
}

void StormOrigin::on_slot(const Frame& frame) {
  wire::ReplyHeader header;
  if (!wire::decode(frame.header, &header).ok())
    return checker_.fail("origin ", index_, " got a grant that does not decode");
  complete(header, frame.payload, nullptr);
  pump();
}

// A reply that comes twice (a replay crossed it) finds its slot in another use, or free.
void StormOrigin::complete(const wire::ReplyHeader& header, const Bytes& payload, Link* over) {
  if (header.slot == 0 || header.slot > slots_.size())
    return checker_.fail("origin ", index_, " has no slot ", header.slot);
  Slot& slot = slots_[header.slot - 1];
  if (!slot.op || slot.tag != header.tag) return;
  const std::shared_ptr<Op> op = std::move(slot.op);
  slot.op = nullptr;
  Link& link = *slot.link;
  ++slot.tag;
  if (over != nullptr && over != &link)
    checker_.fail("origin ", index_, ": server ", over->server, " answered a request to server ",
                  link.server);
  if (op->kind == OpKind::get) {
    op->result.resize(op->values.size());
    if (payload.size() != op->result.size() * 8)
      checker_.fail("a get of ", op->result.size(), " words brought ", payload.size(), " bytes");
    else std::memcpy(op->result.data(), payload.data(), payload.size());
  } else if (op->kind != OpKind::lock) {
    op->result = {header.result};
  }
  op->done = true;
  link.fresh = false;
  --(op->kind == OpKind::lock ? link.parked_locks : link.waiting_replies);
  // Replies come in the order of their requests on any one connection, so the newest confirms all
  // before it. A grant comes when its turn has come: counted as well, it would confirm the result
  // of an earlier request whose reply was lost and is yet to be sent again.
  if (op->kind != OpKind::lock || config_.mutation == Mutation::confirm_grants)
    link.session.result_received(op->number);
  link.log.answered(op->number);
  checker_.completed(*op);
}

// ---- requests ---------------------------------------------------------------------------------

void StormOrigin::want(Thread& thread, Link* link) {
  if (thread.wants == link) return;
  if (thread.wants != nullptr) --thread.wants->wanted;
  if (link != nullptr) ++link->wanted;
  thread.wants = link;
}

void StormOrigin::send(Link& link, uint64_t number) {
  const session::ReplayLog::Request r = link.log.request(number);
  network_.send(link.connection, Side::origin,
                {{r.header.begin(), r.header.end()}, {r.payload.begin(), r.payload.end()}});
}

// False: the link is not open yet or out of credits; the thread tries again when something has
// changed.
bool StormOrigin::issue(Thread& thread, const std::shared_ptr<Op>& op) {
  Link& link = *links_[op->server];
  const bool writes = op->kind == OpKind::put || op->kind == OpKind::accumulate;
  const uint64_t payload_bytes = writes ? op->values.size() * 8 : 0;
  if (link.machine.state() != State::open || !link.ready ||
      !link.session.may_issue(payload_bytes)) {
    want(thread, &link);
    return false;
  }
  want(thread, nullptr);
  if (policy_) policy_->used(link.server);

  wire::Request request;
  wire::RequestHeader& h = request.header;
  h.version = wire::version;
  h.origin_rank = index_;
  h.incarnation = 1;
  h.target_rank = op->server;
  h.target_node = op->server;
  h.acknowledged = link.session.applied();
  h.results_received = link.session.results_received();
  h.offset = uint64_t{op->word} * 8;
  h.segment_generation = 1;
  bool with_reply = true;
  switch (op->kind) {
    case OpKind::put:
      h.kind = static_cast<uint8_t>(wire::Kind::put);
      with_reply = false;
      break;
    case OpKind::accumulate:
      h.kind = static_cast<uint8_t>(wire::Kind::accumulate);
      h.type = 1;  // int64
      with_reply = false;
      break;
    case OpKind::get:
      h.kind = static_cast<uint8_t>(wire::Kind::get);
      request.extent_bytes = op->values.size() * 8;
      break;
    case OpKind::fetch_add:
    case OpKind::swap:
    case OpKind::compare_swap:
      h.kind = static_cast<uint8_t>(wire::Kind::read_modify_write);
      h.type = static_cast<uint8_t>(op->kind == OpKind::fetch_add ? wire::Rmw::fetch_add_64
                                    : op->kind == OpKind::swap    ? wire::Rmw::swap_64
                                                                  : wire::Rmw::compare_swap_64);
      request.operands = {op->values[0], op->kind == OpKind::compare_swap ? op->values[1] : 0};
      break;
    case OpKind::lock:
    case OpKind::unlock:
      h.kind = static_cast<uint8_t>(op->kind == OpKind::lock ? wire::Kind::lock
                                                             : wire::Kind::unlock);
      h.offset = op->word;
      request.operands = {op->holder, 0};
      with_reply = op->kind == OpKind::lock;
      break;
  }
  if (with_reply) {
    size_t s = 0;
    while (s < slots_.size() && slots_[s].op) ++s;
    if (s == slots_.size()) slots_.push_back({});
    slots_[s].op = op;
    slots_[s].link = &link;
    h.reply_node = index_;
    h.reply_slot = static_cast<uint32_t>(s + 1);
    h.reply_tag = slots_[s].tag;
    ++(op->kind == OpKind::lock ? link.parked_locks : link.waiting_replies);
  }
  h.number = op->number = link.session.issue(payload_bytes);
  std::byte* const room = link.log.reserve(payload_bytes + wire::max_request_bytes);
  if (payload_bytes > 0) std::memcpy(room, op->values.data(), payload_bytes);
  const uint32_t header_bytes = wire::encode(
      request,
      std::span<std::byte, wire::max_request_bytes>(room + payload_bytes, wire::max_request_bytes));
  link.log.commit(h.number, payload_bytes, header_bytes, with_reply);
  most_log_bytes_ = std::max(most_log_bytes_, link.log.memory_bytes());
  checker_.issued(op);
  send(link, h.number);
  return true;
}

// ---- the program ------------------------------------------------------------------------------

// The next few steps of a thread: mostly one operation, sometimes a lock cycle around a read and a
// write of one word.
void StormOrigin::draw(Thread& thread) {
  if (thread.left == 0) return;
  --thread.left;
  const auto make = [&](OpKind kind, uint32_t server, uint32_t word, size_t words) {
    auto op = std::make_shared<Op>();
    op->kind = kind;
    op->origin = index_;
    op->server = server;
    op->word = word;
    op->values.resize(words);
    for (uint64_t& v : op->values) v = random_.next();
    return op;
  };
  const auto step = [&](std::shared_ptr<Op> op, bool blocking) {
    Step s;
    s.op = std::move(op);
    s.blocking = blocking;
    thread.steps.push_back(std::move(s));
  };
  const uint32_t server = random_.below(config_.servers);
  const uint32_t dice = random_.below(20);
  if (dice == 0) {
    Step s;
    s.kind = Step::Kind::fence;
    s.server = server;
    thread.steps.push_back(std::move(s));
  } else if (dice == 1) {
    Step s;
    s.kind = Step::Kind::compute;
    s.for_ns = random_.between(0, 20 * config_.latency_ns);
    thread.steps.push_back(std::move(s));
  } else if (dice <= 3) {
    // Word 0 counts lock cycles of mutex 0 and nothing else writes it: at the end it must be their
    // number.
    const uint64_t holder = uint64_t{index_} << 16 | thread.index;
    auto lock = make(OpKind::lock, server, 0, 0), unlock = make(OpKind::unlock, server, 0, 0);
    lock->holder = unlock->holder = holder;
    auto get = make(OpKind::get, server, 0, 1), put = make(OpKind::put, server, 0, 1);
    step(lock, true);
    step(get, true);
    step(put, false);
    thread.steps.back().from_last_get = true;
    step(unlock, false);
  } else {
    const OpKind kind = std::array{OpKind::put,         OpKind::put,        OpKind::get,
                                   OpKind::get,         OpKind::accumulate, OpKind::accumulate,
                                   OpKind::fetch_add,   OpKind::fetch_add,  OpKind::swap,
                                   OpKind::compare_swap}[random_.below(10)];
    const bool one = kind == OpKind::fetch_add || kind == OpKind::swap ||
                     kind == OpKind::compare_swap;
    const uint32_t word = 1 + random_.below(config_.words - 1);
    const uint32_t words = one ? (kind == OpKind::compare_swap ? 2 : 1)
                               : 1 + random_.below(std::min(4u, config_.words - word));
    auto op = make(kind, server, word, words);
    if (kind == OpKind::compare_swap && random_.chance(0.5))
      op->values[1] = 0;  // sometimes it succeeds
    step(op, random_.chance(0.3));
  }
}

bool StormOrigin::advance(Thread& thread) {
  if (thread.computes_until > queue_.now()) {
    wake(thread.computes_until);
    return false;
  }
  if (thread.waits_for) {
    if (!thread.waits_for->done) return false;
    if (thread.waits_for->kind == OpKind::get) thread.last_get = thread.waits_for;
    thread.waits_for = nullptr;
  }
  std::erase_if(thread.under_way, [](const auto& op) { return op->done; });
  if (thread.steps.empty()) {
    draw(thread);
    if (thread.steps.empty()) {
      want(thread, nullptr);
      return false;
    }
  }
  Step& step = thread.steps.front();
  switch (step.kind) {
    case Step::Kind::compute:
      thread.computes_until = queue_.now() + step.for_ns;
      wake(thread.computes_until);
      break;
    case Step::Kind::fence: {
      Link& link = *links_[step.server];
      if (!thread.fence_number) thread.fence_number = link.session.issued();
      if (link.session.applied() < *thread.fence_number &&
          config_.mutation != Mutation::early_fence)
        return false;
      checker_.fenced(index_, step.server, *thread.fence_number);
      thread.fence_number.reset();
      break;
    }
    case Step::Kind::issue: {
      const bool replies = step.op->kind != OpKind::put && step.op->kind != OpKind::accumulate &&
                           step.op->kind != OpKind::unlock;
      if (replies && thread.under_way.size() >= config_.window) return false;
      if (step.from_last_get) step.op->values[0] = thread.last_get->result[0] + 1;
      if (!issue(thread, step.op)) return false;
      if (!replies) {
        step.op->done = true;  // source done: the log has a copy
      } else if (step.blocking) {
        thread.waits_for = step.op;
      } else {
        thread.under_way.push_back(step.op);
      }
      break;
    }
  }
  thread.steps.pop_front();
  return true;
}

void StormOrigin::wake(Time at) {
  if (wake_at_ > queue_.now() && wake_at_ <= at) return;
  wake_at_ = at;
  queue_.schedule(at, [this] { pump(); });
}

void StormOrigin::pump() {
  if (pumping_ || checker_.failed()) return;
  pumping_ = true;
  // A thread that is woken runs sooner or later: others may have asked for connections before it
  // does.
  bool threads_later = random_.chance(0.3);
  for (bool moved = true; moved;) {
    moved = false;
    const bool skip_threads = std::exchange(threads_later, false);
    if (skip_threads) moved = true;
    const uint32_t first = random_.below(config_.threads);
    for (uint32_t t = 0; t < config_.threads && !skip_threads; ++t)
      while (advance(threads_[(first + t) % config_.threads])) moved = true;
    // Links that broke come first: others may be waiting for what they hold.
    for (const bool broken : {true, false})
      for (const auto& link : links_)
        if (link->machine.state() == State::idle &&
            (broken ? link->must_resume : link->wanted > 0) && try_open(*link))
          moved = true;
  }
  if (finished()) {
    closing_all_ = true;
    for (const auto& link : links_)
      if (link->machine.state() == State::open && link->ready) {
        if (policy_) policy_->closed(link->server, true);
        drive(*link, Event::evict, link->machine.generation());
      }
  }
  pumping_ = false;
}

bool StormOrigin::finished() const {
  return std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) {
    return t.left == 0 && t.steps.empty() && !t.waits_for && t.under_way.empty();
  });
}

bool StormOrigin::closed() const {
  return finished() && std::all_of(links_.begin(), links_.end(), [](const auto& l) {
           return l->machine.state() == State::idle && l->session.drained() && l->log.empty();
         });
}

std::string StormOrigin::describe() const {
  std::string text = concat("origin ", index_, ":");
  for (const auto& l : links_)
    text += concat(" [", l->server, " ", connection::to_string(l->machine.state()),
                   l->ready ? " ready" : "", l->fresh ? " fresh" : "", " wanted ", l->wanted,
                   " applied ", l->session.applied(), "/", l->session.issued(), " replies ",
                   l->waiting_replies, " locks ", l->parked_locks,
                   l->must_resume ? " must resume" : "", "]");
  for (const Thread& t : threads_) {
    text += concat(" thread ", t.index, " left ", t.left, " steps ", t.steps.size(), " under way ",
                   t.under_way.size());
    if (t.waits_for)
      text += concat(" waits for ", to_string(t.waits_for->kind), " ", t.waits_for->number, " at ",
                     t.waits_for->server);
  }
  return text;
}

void StormOrigin::check() {
  const uint32_t open = counted();
  if (config_.cap > 0 && open > config_.cap)
    checker_.fail("origin ", index_, " has ", open, " connections opening or open, its cap is ",
                  config_.cap);
  if (config_.cap > 0 && open + leaving() > config_.cap + 1)
    checker_.fail("origin ", index_, " has ", open + leaving(),
                  " connections with those that leave, its cap is ", config_.cap);
  for (const auto& l : links_) {
    const uint64_t under_way = l->session.issued() - l->session.applied();
    if (under_way > config_.credit_requests)
      checker_.fail("origin ", index_, " has ", under_way, " requests under way to server ",
                    l->server, ", its credit is ", config_.credit_requests);
  }
}

}  // namespace skerry::sim
