#include "locks/study/study.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "core/pure/assert.hpp"
#include "locks/parties.hpp"
#include "sim/event_queue.hpp"
#include "sim/random.hpp"

namespace skerry::sim {
namespace {

using namespace lock::machine;
using lock::ProtocolKind;

constexpr uint32_t manager_number = UINT32_MAX;

// What happens at a time. `who` is a rank or the manager.
enum class What : uint8_t {
  step,     // its machine gets `event`
  deliver,  // a message, or the end of the manager's pause, reaches it
  atomic,   // its atomic reaches the memory
};

struct Happening {
  What what;
  uint32_t who;
  Event event;
};

// Does one thing at a time, in the order of arrival.
struct Serial {
  Time free_at = 0;
  Time take(Time now, Time service) { return free_at = std::max(now, free_at) + service; }
};

// A cache line: where it is decides what an atomic costs.
struct Line {
  uint64_t value = 0;
  Serial owner;
  uint32_t last = manager_number;  // who touched it last
};

struct Rank {
  Client machine;
  Action pending;        // the atomic that is under way
  Time asked = 0;        // when it asked for the lock
  Time waits_since = 0;  // when its machine answered `wait`
  bool is_local;
  bool acts = false;   // between lock and granted, or unlock and released: messages must wait
  bool waits = false;  // acts, and its machine answered `wait`
  bool shared = false;
  bool was_granted = false;
  bool asks = false;             // and was not granted yet
  std::vector<Event> mail = {};  // came while it acted
};

class LockStudy {
 public:
  explicit LockStudy(const LockStudyConfig& config)
      : config_(config),
        costs_(config.costs),
        lock_(config.lock),
        random_(config.seed),
        manager_(machines_of(config.protocol)) {
    lock_.requesters = config.ranks;
    // What a requester would measure: the section, and its end on the way to the one behind.
    lock_.turn_ns = config.hold_ns + 2 * (costs_.latency_ns + costs_.request_ns);
    const auto words = machines_of(config.protocol).words;
    const uint32_t nodes = (config.ranks + config.per_node - 1) / config.per_node;
    home_.resize(words.size());
    for (uint8_t w = 0; w < words.size(); ++w)
      home_[w].value = machines_of(config.protocol).initial_value(w, lock_);
    node_words_.assign(nodes, home_);
    links_.resize(config.ranks);
    set_thinking();
    for (uint32_t r = 0; r < config.ranks; ++r) {
      const bool local = r < config.per_node;
      ranks_.push_back({Client(machines_of(config.protocol), {r, local}), wait(), 0, 0, local});
      think(r);
    }
  }

  LockStudyResult run() {
    const uint64_t wanted = config_.acquisitions != 0
                                ? config_.acquisitions
                                : std::max<uint64_t>(20'000, 2ull * config_.ranks);
    while (!events_.empty() && result_.acquisitions < wanted) {
      if (events_.processed() >= config_.events_most) {
        result_.is_complete = false;
        break;
      }
      const Happening happening = events_.pop();
      switch (happening.what) {
        case What::step: on_step(happening); break;
        case What::deliver: on_deliver(happening.who, happening.event); break;
        case What::atomic: on_atomic(happening.who); break;
      }
    }
    finish();
    return result_;
  }

 private:
  Time now() const { return events_.now(); }
  bool is_nic() const { return lock_.domain == Domain::nic; }
  bool is_local(uint32_t who) const { return who == manager_number || ranks_[who].is_local; }
  uint32_t node_of(uint32_t who) const {
    return who == manager_number ? 0 : who / config_.per_node;
  }
  void at(Time time, What what, uint32_t who, const Event& event = {}) {
    events_.schedule(time, {what, who, event});
  }
  Event elapsed() const {
    Event event;
    event.kind = Event::Kind::elapsed;
    return event;
  }

  // ---- ranks ----

  void set_thinking() {
    const double all = config_.ranks;
    const double locals = std::min(config_.ranks, config_.per_node), remotes = all - locals;
    local_think_ns_ = remote_think_ns_ = static_cast<double>(config_.think_ns);
    if (config_.remote_share < 0 || remotes == 0) return;
    const double share = config_.remote_share;
    const auto scaled = [&](double ranks, double of_them) {
      return of_them > 0 ? static_cast<double>(config_.think_ns) * ranks / (of_them * all) : -1;
    };
    local_think_ns_ = scaled(locals, 1 - share);
    remote_think_ns_ = scaled(remotes, share);
  }

  void think(uint32_t r) {
    const double mean = ranks_[r].is_local ? local_think_ns_ : remote_think_ns_;
    if (mean < 0) return;  // its kind does not ask at all
    Event event;
    event.kind = Event::Kind::lock;
    event.mode = random_.chance(config_.shared_share) ? Mode::shared : Mode::exclusive;
    const double thinking = -mean * std::log(1 - random_.uniform());
    at(now() + static_cast<Time>(thinking), What::step, r, event);
  }

  void on_step(const Happening& happening) {
    if (happening.who == manager_number) step_manager(happening.event);
    else feed(happening.who, happening.event);
  }

  void feed(uint32_t r, const Event& event) {
    Rank& rank = ranks_[r];
    if (event.kind == Event::Kind::lock) {
      rank.asked = now();
      rank.asks = rank.acts = true;
      rank.shared = event.mode == Mode::shared && machines_of(config_.protocol).has_readers;
    }
    if (event.kind == Event::Kind::unlock) {
      rank.acts = true;
      --(rank.shared ? readers_ : writers_);
    }
    rank.waits = false;
    perform(r, rank.machine.step(event, lock_));
  }

  void perform(uint32_t r, const Action& action) {
    Rank& rank = ranks_[r];
    switch (action.kind) {
      case Action::Kind::load:
      case Action::Kind::store:
      case Action::Kind::compare_and_swap:
      case Action::Kind::fetch_and_add:
      case Action::Kind::swap:
        rank.pending = action;
        at(now() + travel_to_memory(r, action), What::atomic, r);
        return;
      case Action::Kind::ask:
      case Action::Kind::tell: return post(r, action, now());
      case Action::Kind::pause:
        at(now() + pause_ns(action, random_.next()), What::step, r, elapsed());
        return;
      case Action::Kind::granted:
        if (rank.acts) on_granted(r);
        return;
      case Action::Kind::released:
        rank.acts = false;
        think(r);
        return read_mail(r);
      case Action::Kind::wait:
        if (!rank.acts) return;  // it rests, as before
        rank.waits = true;
        rank.waits_since = now();
        return read_mail(r);
      case Action::Kind::refused: SKERRY_ASSERT(false, "a study makes no mistakes");
    }
  }

  void on_granted(uint32_t r) {
    Rank& rank = ranks_[r];
    rank.acts = rank.asks = false;
    rank.was_granted = true;
    ++(rank.shared ? readers_ : writers_);
    SKERRY_ASSERT(writers_ + (readers_ > 0 ? 1 : 0) <= 1, "one writer or many readers");
    result_.holders_most = std::max(result_.holders_most, writers_ + readers_);
    ++result_.acquisitions;
    remote_granted_ += !rank.is_local;
    const Time waited = now() - rank.asked;
    waits_ns_ += static_cast<double>(waited);
    note_wait(rank, waited);
    Event event;
    event.kind = Event::Kind::unlock;
    at(now() + config_.hold_ns, What::step, r, event);
    read_mail(r);
  }

  void note_wait(const Rank& rank, Time waited) {
    double& longest = rank.is_local ? result_.longest_local_us : result_.longest_remote_us;
    longest = std::max(longest, static_cast<double>(waited) / 1e3);
  }

  void on_deliver(uint32_t who, const Event& event) {
    if (who == manager_number) {
      inbox_.push_back(event);
      if (!manager_is_busy_) serve_manager();
      return;
    }
    ranks_[who].mail.push_back(event);
    if (!ranks_[who].acts || ranks_[who].waits) read_mail(who);
  }

  void read_mail(uint32_t r) {
    Rank& rank = ranks_[r];
    if (rank.mail.empty()) return;
    const Event event = rank.mail.front();
    rank.mail.erase(rank.mail.begin());
    if (!rank.waits) {  // it rests: no time passes
      feed(r, event);
      return read_mail(r);
    }
    rank.waits = false;
    at(now() + woken(rank.waits_since), What::step, r, event);
  }

  // Spins as long as a wake-up takes, then sleeps.
  Time woken(Time since) const {
    return now() - since > costs_.wake_ns ? costs_.wake_ns : costs_.cpu_transfer_ns;
  }

  // ---- memory ----

  // Until the atomic is at the memory of its word.
  Time travel_to_memory(uint32_t who, const Action& action) const {
    if (action.unit == Unit::cpu) return 0;
    return costs_.request_ns + (is_local(who) ? costs_.latency_ns / 2 : costs_.latency_ns);
  }

  void on_atomic(uint32_t who) {
    const Action& action = who == manager_number ? manager_action_ : ranks_[who].pending;
    Line& line = action.place == Place::home ? home_[action.word]
                                             : node_words_[node_of(who)][action.word];
    Event event;
    event.value = line.value;
    if (action.kind == Action::Kind::fetch_and_add) line.value += action.value;
    else if (action.kind == Action::Kind::swap || action.kind == Action::Kind::store ||
             (action.kind == Action::Kind::compare_and_swap && line.value == action.expected))
      line.value = action.value;
    Time done;
    if (action.unit == Unit::cpu) {
      const bool moves = line.last != who;
      const bool changes = action.kind != Action::Kind::load;
      // Loads of a line that rests in every cache cost nothing more.
      done = line.owner.take(now(),
                             moves && changes ? costs_.cpu_transfer_ns : costs_.cpu_atomic_ns);
      if (changes) line.last = who;
    } else {
      ++network_atomics_;
      done = is_nic() ? adapter_.take(now(), costs_.adapter_ns) : serve(costs_.service_ns);
      done += (is_local(who) ? costs_.latency_ns / 2 : costs_.latency_ns) + costs_.reply_ns;
      line.last = manager_number;
    }
    at(done, What::step, who, event);
  }

  // ---- messages ----

  // The sender goes on when it has handed the message over.
  void post(uint32_t from, const Action& action, Time time) {
    ++messages_;
    const uint32_t to = action.kind == Action::Kind::ask ? manager_number : action.to;
    Event event;
    event.kind = Event::Kind::told;
    event.note = action.note;
    event.mode = action.mode;
    event.value = action.value;
    event.from = from == manager_number ? 0 : from;
    event.local = is_local(from);
    const bool near = node_of(from) == node_of(to);
    const Time sent = time + (near ? costs_.cpu_transfer_ns : costs_.request_ns);
    // Another node's server puts it into the waiter's slot; with RDMA its adapter does.
    const Time placed = near || to == manager_number ? 0
                        : is_nic()                   ? costs_.adapter_ns
                                                     : costs_.service_ns;
    at(sent + (near ? 0 : costs_.latency_ns + placed + costs_.reply_ns), What::deliver, to, event);
    at(sent, What::step, from);
  }

  // ---- the manager ----

  void serve_manager() {
    manager_is_busy_ = !inbox_.empty();
    if (inbox_.empty()) return;
    const Event event = inbox_.front();
    inbox_.pop_front();
    const bool is_message = event.kind == Event::Kind::told;
    at(is_message ? serve(costs_.service_ns) : now(), What::step, manager_number, event);
  }

  // The data server does something: it sleeps when it had nothing to do for a while.
  Time serve(Time service) {
    const bool asleep = server_.free_at + costs_.wake_ns < now();
    return server_.take(now(), service + (asleep ? costs_.wake_ns : 0));
  }

  void step_manager(const Event& event) {
    if (event.kind == Event::Kind::elapsed) timer_is_set_ = false;
    manager_action_ = manager_.step(event, lock_, links_);
    switch (manager_action_.kind) {
      case Action::Kind::load:
      case Action::Kind::store:
      case Action::Kind::compare_and_swap:
      case Action::Kind::fetch_and_add:
      case Action::Kind::swap:
        at(now() + travel_to_memory(manager_number, manager_action_), What::atomic, manager_number);
        return;
      case Action::Kind::tell:
      case Action::Kind::ask:
        server_.take(now(), costs_.request_ns);
        return post(manager_number, manager_action_, now());
      case Action::Kind::pause:
        // Its end comes through the inbox, as a message may be served just then.
        if (!timer_is_set_)
          at(now() + pause_ns(manager_action_, random_.next()), What::deliver, manager_number,
             elapsed());
        timer_is_set_ = true;
        return serve_manager();
      case Action::Kind::wait: return serve_manager();
      case Action::Kind::granted:
      case Action::Kind::released:
      case Action::Kind::refused: SKERRY_ASSERT(false, "no action of a manager");
    }
  }

  void finish() {
    for (const Rank& rank : ranks_) {
      if (!rank.asks) continue;
      result_.never_granted += !rank.was_granted;
      note_wait(rank, now() - rank.asked);
    }
    const double acquisitions = static_cast<double>(std::max<uint64_t>(1, result_.acquisitions));
    result_.events = events_.processed();
    result_.time_s = static_cast<double>(now()) / 1e9;
    result_.per_second = result_.time_s > 0 ? acquisitions / result_.time_s : 0;
    result_.mean_wait_us = waits_ns_ / acquisitions / 1e3;
    result_.longest_wait_us = std::max(result_.longest_local_us, result_.longest_remote_us);
    result_.remote_granted = static_cast<double>(remote_granted_) / acquisitions;
    result_.network_atomics = static_cast<double>(network_atomics_) / acquisitions;
    result_.messages = static_cast<double>(messages_) / acquisitions;
  }

  const LockStudyConfig& config_;
  const Costs& costs_;
  Config lock_;
  Random random_;
  EventQueue<Happening> events_;
  std::vector<Rank> ranks_;
  std::vector<Line> home_;
  std::vector<std::vector<Line>> node_words_;
  std::vector<Link> links_;
  Manager manager_;
  Action manager_action_ = wait();
  std::deque<Event> inbox_;
  bool manager_is_busy_ = false;
  bool timer_is_set_ = false;
  Serial server_, adapter_;
  double local_think_ns_ = 0, remote_think_ns_ = 0;
  uint32_t readers_ = 0, writers_ = 0;
  double waits_ns_ = 0;
  uint64_t remote_granted_ = 0, network_atomics_ = 0, messages_ = 0;
  LockStudyResult result_;
};

}  // namespace

LockStudyResult run_lock_study(const LockStudyConfig& config) { return LockStudy(config).run(); }

}  // namespace skerry::sim
