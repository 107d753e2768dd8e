#include "sim/storm/program.hpp"

#include <cstring>

namespace skerry::sim {

using origin::Mode;
using origin::Side;

Program::Program(uint32_t thread, const StormConfig& config, RankProcess& process, Checker& checker,
                 const bool& ending)
    : thread_(thread),
      config_(config),
      process_(process),
      checker_(checker),
      ending_(ending),
      holder_(lock::make_holder(process.rank(), 1 + thread % config.threads)),
      random_(Random(config.seed * 1000 + thread).next()) {}

std::string Program::describe() const {
  std::string text = concat("thread ", thread_, " of rank ", process_.rank(), ": operation ",
                            operations_, ", ", at_);
  if (at_rank_ != no_rank) text += concat(" at rank ", at_rank_);
  return text;
}

// A call failed: that ends the program. It may, when a rank has died.
bool Program::failed(const Status& status, const char* what) {
  if (status.ok()) return false;
  if (!ending_) checker_.fail(describe(), ": ", what, " failed: ", status.message());
  return true;
}

void Program::run() {
  if (run_all()) at_ = "ended";
  ended_ = true;
}

bool Program::run_all() {
  for (uint32_t i = 0; i < config_.operations; ++i) {
    ++operations_;
    if (!step()) return false;
    process_.check(checker_);
  }
  at_ = "the end";
  if (!wait_all()) return false;
  if (random_.below(2) == 0 && !fence_all()) return false;
  for (NodeId node = 0; node < static_cast<NodeId>(config_.nodes); ++node)
    if (!fence(node)) return false;
  at_rank_ = no_rank;
  return true;
}

bool Program::step() {
  if (random_.below(100) < config_.lock_percent) return lock_something();
  if (random_.below(100) < config_.refused_percent) return refused_unlock();
  if (config_.window_percent != 0 && random_.below(100) < config_.window_percent)
    return window_epochs();
  if (config_.row_percent != 0 && random_.below(100) < config_.row_percent) return row();
  const uint32_t dice = random_.below(100);
  if (dice < 26) return transfer(false);
  if (dice < 44) return transfer(true);
  if (dice < 56) return config_.updates && random_.below(2) == 0 ? update() : accumulate();
  if (dice < 66) return shared_word();
  if (dice < 72) return notify();
  if (dice < 76) return wait_notified();
  if (dice < 82) return wait_some();
  if (dice < 90) return fence(static_cast<NodeId>(random_.below(config_.nodes)));
  if (dice < 92) return fence_all();
  if (dice < 93) return change_limit();
  return compute();
}

// ---- transfers --------------------------------------------------------------------------------

Mode Program::any_mode() {
  constexpr Mode modes[] = {Mode::blocking, Mode::handle, Mode::implicit};
  return modes[random_.below(3)];
}

std::list<Program::Transfer>::iterator Program::draw_transfer() {
  Transfer& t = under_way_.emplace_back();
  t.target = at_rank_ = any_rank();
  const uint64_t area = config_.area_bytes;
  const uint64_t begin = random_.below(static_cast<uint32_t>(area));
  const uint64_t left = area - begin;
  const uint32_t form = random_.below(4);
  if (form < 2) {
    const auto most = static_cast<uint32_t>(random_.below(3) == 0 ? left
                                                                  : std::min<uint64_t>(left, 64));
    t.there.push_back({begin, 1 + random_.below(most)});
  } else if (form == 2) {
    t.strided = true;
    t.shape.levels = 1;
    t.shape.block_bytes = 1 + random_.below(static_cast<uint32_t>(std::min<uint64_t>(left, 2000)));
    const uint64_t stride = t.shape.block_bytes + random_.below(32);
    t.shape.stride[0] = static_cast<int64_t>(stride);
    const uint64_t most = 1 + (left - t.shape.block_bytes) / stride;
    t.shape.count[0] = 1 + random_.below(static_cast<uint32_t>(std::min<uint64_t>(most, 40)));
    for (uint64_t i = 0; i < t.shape.count[0]; ++i)
      t.there.push_back({begin + i * stride, t.shape.block_bytes});
  } else {
    for (uint64_t at = begin; at < area && t.there.size() < 12;) {
      const uint64_t bytes = 1 + random_.below(static_cast<uint32_t>(
                                     std::min<uint64_t>(area - at, area / 8)));
      t.there.push_back({at, bytes});
      at += bytes + random_.below(16);
    }
  }
  const bool gaps = random_.below(4) == 0;
  uint64_t at = 0;
  for (const Piece& piece : t.there) {
    t.offsets.push_back({checker_.layout().area(thread_) + piece.offset, piece.bytes});
    t.here.push_back({at, piece.bytes});
    at += piece.bytes + (gaps ? 8 : 0);
    t.bytes += piece.bytes;
  }
  t.buffer.resize(at);
  return std::prev(under_way_.end());
}

Side Program::there(const Transfer& t) const {
  Side side;
  side.bytes = t.bytes;
  side.offset = t.offsets.front().offset;
  if (t.strided) {
    side.form = Side::Form::strided;
    side.shape = &t.shape;
  } else if (t.offsets.size() > 1) {
    side.form = Side::Form::pieces;
    side.offset = 0;
    side.pieces = t.offsets;
  }
  return side;
}

Side Program::here(Transfer& t) const {
  Side side;
  side.bytes = t.bytes;
  side.base = t.buffer.data();
  if (t.buffer.size() != t.bytes) {
    side.form = Side::Form::pieces;
    side.pieces = t.here;
  }
  return side;
}

std::vector<std::byte> Program::stream_of(const Transfer& t) const {
  std::vector<std::byte> stream;
  for (const Piece& piece : t.here)
    stream.insert(stream.end(), t.buffer.begin() + static_cast<std::ptrdiff_t>(piece.offset),
                  t.buffer.begin() + static_cast<std::ptrdiff_t>(piece.offset + piece.bytes));
  return stream;
}

// Its buffer is the program's again: checked if it was read into, and overwritten, so that nobody
// reads it late unnoticed.
void Program::completed(std::list<Transfer>::iterator t) {
  if (t->is_get && stream_of(*t) != t->expected)
    checker_.fail(describe(), ": a get of ", t->bytes, " bytes from rank ", t->target,
                  " returned other bytes than this thread put there before it");
  std::memset(t->buffer.data(), 0xee, t->buffer.size());
  under_way_.erase(t);
}

bool Program::transfer(bool is_get) {
  at_ = is_get ? "get" : "put";
  const auto t = draw_transfer();
  const Mode mode = any_mode();
  t->is_get = is_get;
  t->implicit = mode == Mode::implicit;
  origin::Handle* const handle = mode == Mode::handle ? &t->handle : nullptr;
  Status status;
  if (is_get) {
    t->expected = checker_.expected(thread_, t->target, t->there);
    status = process_.get(t->target, there(*t), here(*t), mode, handle);
  } else {
    const auto fill = static_cast<uint8_t>(random_.next());
    for (size_t i = 0; i < t->buffer.size(); ++i)
      t->buffer[i] = static_cast<std::byte>(fill + 7 * i);
    checker_.put(thread_, t->target, t->there, stream_of(*t));
    status = process_.put(t->target, there(*t), here(*t), nullptr, mode, handle);
  }
  if (failed(status, is_get ? "get" : "put")) return false;
  if (mode == Mode::blocking) completed(t);
  return true;
}

bool Program::wait_some() {
  at_ = "wait";
  if (random_.below(3) == 0 || under_way_.empty()) {
    if (failed(process_.engine().wait_implicit(), "wait_implicit")) return false;
    for (auto t = under_way_.begin(); t != under_way_.end();) {
      const auto next = std::next(t);
      if (t->implicit) completed(t);
      t = next;
    }
    added_.clear();
    return true;
  }
  auto t = std::next(under_way_.begin(), random_.below(static_cast<uint32_t>(under_way_.size())));
  if (t->implicit) return true;
  at_rank_ = t->target;
  if (random_.below(2) == 0) {
    bool done = false;
    if (failed(process_.engine().test(&t->handle, &done), "test")) return false;
    if (done) completed(t);
    return true;
  }
  if (failed(process_.engine().wait(&t->handle), "wait")) return false;
  completed(t);
  return true;
}

bool Program::wait_all() {
  for (auto t = under_way_.begin(); t != under_way_.end();) {
    const auto next = std::next(t);
    if (!t->implicit) {
      if (failed(process_.engine().wait(&t->handle), "wait")) return false;
      completed(t);
    }
    t = next;
  }
  if (failed(process_.engine().wait_implicit(), "wait_implicit")) return false;
  while (!under_way_.empty()) completed(under_way_.begin());
  added_.clear();
  return true;
}

// ---- numbers ----------------------------------------------------------------------------------

bool Program::accumulate() {
  at_ = "accumulate";
  const Rank target = at_rank_ = any_rank();
  const bool shared = random_.below(3) == 0;
  const uint32_t first = shared ? 0 : random_.below(config_.sums);
  const uint32_t count = shared ? 1
                                : 1 + random_.below(random_.below(3) == 0
                                                        ? config_.sums - first
                                                        : std::min(config_.sums - first, 8u));
  const int64_t scale = random_.below(2) == 0 ? 1 : 3;
  std::vector<int64_t> values;
  for (uint32_t i = 0; i < count; ++i) {
    values.push_back(static_cast<int64_t>(random_.below(1000)));
    if (shared) checker_.add_shared(target, scale * values.back());
    else checker_.add(thread_, target, first + i, scale * values.back());
  }
  const uint64_t offset = shared ? checker_.layout().shared_sum
                                 : checker_.layout().sum(thread_, first);
  return send_update(target, offset, std::move(values),
                     {ElementType::int64, memory::Scale::of(ElementType::int64, &scale)},
                     random_.below(2) == 0 ? Mode::implicit : Mode::blocking);
}

bool Program::send_update(Rank target, uint64_t offset, std::vector<int64_t> values,
                          const origin::Accumulate& what, Mode mode) {
  Side to, from;
  to.bytes = from.bytes = values.size() * 8;
  to.offset = offset;
  from.base = reinterpret_cast<std::byte*>(added_.emplace_back(std::move(values)).data());
  if (failed(process_.accumulate(target, to, from, what, mode, nullptr), at_)) return false;
  if (mode == Mode::blocking) added_.pop_back();
  return true;
}

// Small accumulates, updates and puts in a row to one rank: those of a kind travel together. Words
// are repeated, and updates of different kinds on one word tell the order.
bool Program::row() {
  const Rank target = any_rank();
  int64_t scale = 1;
  Operation operation = Operation::sum;
  for (uint32_t left = 3 + random_.below(20); left > 0; --left) {
    at_ = "row of accumulates";
    at_rank_ = target;
    if (random_.below(6) == 0 && !small_put(target)) return false;
    if (random_.below(5) == 0) {
      constexpr Operation drawn[] = {Operation::max, Operation::bit_xor, Operation::replace};
      const bool is_sum = !config_.updates || random_.below(2) == 0;
      operation = is_sum ? Operation::sum : drawn[random_.below(std::size(drawn))];
      scale = is_sum && random_.below(2) == 0 ? 3 : 1;
    }
    const uint32_t first = random_.below(config_.sums);
    std::vector<int64_t> values(1 + random_.below(std::min(config_.sums - first, 3u)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int64_t>(random_.below(1000));
      const auto index = first + static_cast<uint32_t>(i);
      if (operation == Operation::sum) checker_.add(thread_, target, index, scale * values[i]);
      else (void)checker_.update(thread_, target, index, operation, values[i]);
    }
    if (!send_update(target, checker_.layout().sum(thread_, first), std::move(values),
                     {ElementType::int64, memory::Scale::of(ElementType::int64, &scale), operation},
                     random_.below(4) == 0 ? Mode::blocking : Mode::implicit))
      return false;
  }
  return true;
}

bool Program::small_put(Rank target) {
  Transfer& t = under_way_.emplace_back();
  t.target = target;
  t.bytes = 1 + random_.below(16);
  t.implicit = true;
  const uint64_t begin = random_.below(config_.area_bytes - static_cast<uint32_t>(t.bytes));
  t.there.push_back({begin, t.bytes});
  t.offsets.push_back({checker_.layout().area(thread_) + begin, t.bytes});
  t.here.push_back({0, t.bytes});
  t.buffer.assign(t.bytes, static_cast<std::byte>(random_.next()));
  checker_.put(thread_, target, t.there, t.buffer);
  return !failed(process_.put(target, there(t), here(t), nullptr, Mode::implicit, nullptr), "put");
}

// Of numbers that nobody else changes.
bool Program::update() {
  at_ = "update";
  const Rank target = at_rank_ = any_rank();
  const uint32_t first = random_.below(config_.sums);
  const uint32_t most = random_.below(3) == 0 ? config_.sums - first
                                              : std::min(config_.sums - first, 8u);
  constexpr Operation drawn[] = {Operation::sum,     Operation::min,     Operation::max,
                                 Operation::bit_xor, Operation::replace, Operation::no_op};
  const Operation operation = drawn[random_.below(std::size(drawn))];
  std::vector<int64_t> values(1 + random_.below(most));
  for (int64_t& value : values) value = static_cast<int64_t>(random_.below(100'000));
  if (operation == Operation::no_op || random_.below(2) == 0)
    return fetch_update(target, first, operation, std::move(values));
  for (uint32_t i = 0; i < values.size(); ++i)
    (void)checker_.update(thread_, target, first + i, operation, values[i]);
  return send_update(target, checker_.layout().sum(thread_, first), std::move(values),
                     {ElementType::int64, memory::Scale::one(), operation},
                     random_.below(2) == 0 ? Mode::implicit : Mode::blocking);
}

bool Program::fetch_update(Rank target, uint32_t first, Operation operation,
                           std::vector<int64_t> values) {
  at_ = "fetching update";
  Transfer& t = under_way_.emplace_back();
  t.target = target;
  t.is_get = true;
  t.operands = std::move(values);
  t.bytes = t.operands.size() * 8;
  t.here.push_back({0, t.bytes});
  t.buffer.resize(t.bytes);
  for (uint32_t i = 0; i < t.operands.size(); ++i) {
    const int64_t before = checker_.update(thread_, target, first + i, operation, t.operands[i]);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&before);
    t.expected.insert(t.expected.end(), bytes, bytes + sizeof before);
  }
  Side to, from, result;
  to.bytes = from.bytes = result.bytes = t.bytes;
  to.offset = checker_.layout().sum(thread_, first);
  from.base = reinterpret_cast<std::byte*>(t.operands.data());
  result.base = t.buffer.data();
  const origin::Accumulate what{ElementType::int64, memory::Scale::one(), operation};
  const Mode mode = any_mode();
  t.implicit = mode == Mode::implicit;
  if (failed(process_.fetch_update(target, to, from, result, what, mode,
                                   mode == Mode::handle ? &t.handle : nullptr),
             "fetching update"))
    return false;
  if (mode == Mode::blocking) completed(std::prev(under_way_.end()));
  return true;
}

Status Program::fetch_word(Rank target, uint64_t offset, Operation operation, uint64_t value,
                           uint64_t* old) {
  Side to, from, result;
  to.bytes = from.bytes = result.bytes = 8;
  to.offset = offset;
  from.base = reinterpret_cast<std::byte*>(&value);
  result.base = reinterpret_cast<std::byte*>(old);
  return process_.fetch_update(target, to, from, result,
                               {ElementType::uint64, memory::Scale::one(), operation},
                               Mode::blocking, nullptr);
}

bool Program::shared_word() {
  const Rank target = at_rank_ = any_rank();
  uint64_t old = 0;
  if (config_.compare_swaps && random_.below(3) == 0) return compare_swap(target);
  const bool as_update = config_.updates && random_.below(2) == 0;
  if (random_.below(2) == 0) {
    at_ = as_update ? "fetching sum" : "fetch-and-add";
    const uint64_t increment = 1 + random_.below(5);
    const uint64_t offset = checker_.layout().tickets;
    if (failed(as_update ? fetch_word(target, offset, Operation::sum, increment, &old)
                         : process_.read_modify_write(target, offset, wire::Rmw::fetch_add_64,
                                                      increment, 0, &old),
               at_))
      return false;
    checker_.ticket(target, old, increment);
    return true;
  }
  at_ = as_update ? "fetching replace" : "swap";
  const uint64_t value = uint64_t{thread_ + 1} << 32 | ++tickets_;
  const uint64_t offset = checker_.layout().swapped;
  if (failed(as_update
                 ? fetch_word(target, offset, Operation::replace, value, &old)
                 : process_.read_modify_write(target, offset, wire::Rmw::swap_64, value, 0, &old),
             at_))
    return false;
  checker_.swapped(target, old, value);
  return true;
}

bool Program::compare_swap(Rank target) {
  at_ = "compare-and-swap";
  uint64_t& seen = seen_[target];
  const uint64_t value = uint64_t{thread_ + 1} << 32 | ++tickets_;
  uint64_t old = 0;
  if (failed(process_.read_modify_write(target, checker_.layout().compared,
                                        wire::Rmw::compare_swap_64, value, seen, &old),
             "compare-and-swap"))
    return false;
  checker_.compared(target, old, seen, value);
  seen = old == seen ? value : old;
  return true;
}

// ---- notifications ----------------------------------------------------------------------------

bool Program::notify() {
  at_ = "put with notification";
  const Rank target = at_rank_ = any_rank();
  const uint64_t number = checker_.notify(thread_, target);
  uint64_t value = number;
  Side to, from;
  to.bytes = from.bytes = 8;
  to.offset = checker_.layout().mailbox(thread_);
  from.base = reinterpret_cast<std::byte*>(&value);
  const origin::Notify notify{checker_.layout().counter(thread_), 1};
  if (failed(process_.put(target, to, from, &notify, Mode::blocking, nullptr), "put")) return false;
  checker_.notify_issued(thread_, target);
  return true;
}

bool Program::wait_notified() {
  const uint32_t from = random_.below(config_.all_threads());
  const uint64_t count = checker_.waitable(from, process_.rank());
  if (count == 0) return true;
  at_ = "wait for a notification";
  if (failed(process_.wait_counter(checker_.layout().counter(from), count), "wait")) return false;
  uint64_t value = 0;
  std::memcpy(&value,
              process_.node().region(process_.rank()).base + checker_.layout().mailbox(from), 8);
  if (value < count)
    checker_.fail(describe(), ": notified ", count, " times by thread ", from,
                  ", and what came before is ", value);
  return true;
}

// ---- the rest ---------------------------------------------------------------------------------

bool Program::fence(NodeId node) {
  at_ = "fence";
  at_rank_ = static_cast<Rank>(static_cast<uint32_t>(node) * config_.ranks_per_node);
  const uint64_t began = checker_.fence_began(process_.rank(), node);
  const Status status = process_.fence(node);
  const bool told = status.code() == Code::invalid;
  if (!told && failed(status, "fence")) {
    checker_.fence_failed(process_.rank(), node);
    return false;
  }
  checker_.fence_ended(process_.rank(), node, began, told);
  for (Rank rank = 0; rank < static_cast<Rank>(config_.ranks()); ++rank)
    if (process_.node().map().node_of(rank) == node) checker_.applied(thread_, rank);
  return true;
}

bool Program::fence_all() {
  at_ = "fence of all";
  for (NodeId node = 0; node < static_cast<NodeId>(config_.nodes); ++node)
    if (config_.refused_percent != 0 && !fence(node)) return false;
  if (config_.refused_percent != 0) return true;  // one answer would not say which request it means
  if (failed(process_.engine().fence_all(), "fence of all")) return false;
  for (Rank rank = 0; rank < static_cast<Rank>(config_.ranks()); ++rank)
    checker_.applied(thread_, rank);
  return true;
}

bool Program::change_limit() {
  if (!config_.limits_change || thread_ % config_.threads != 0 || config_.share == Share::limited)
    return true;
  at_ = "limit_connections";
  return !failed(process_.limit(random_.below(4)), "limit_connections");
}

bool Program::compute() {
  at_ = "compute";
  Scheduler& scheduler = Scheduler::current();
  scheduler.sleep(random_.below(random_.below(8) == 0 ? 4'000'000 : 40'000));
  if (random_.below(3) != 0) return true;
  at_ = "push_out";
  return !failed(process_.engine().push_out(), "push_out");
}

}  // namespace skerry::sim
