#include "sim/storm/checker.hpp"

#include <algorithm>

namespace skerry::sim {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::put: return "put";
    case OpKind::get: return "get";
    case OpKind::accumulate: return "accumulate";
    case OpKind::fetch_add: return "fetch-add";
    case OpKind::swap: return "swap";
    case OpKind::compare_swap: return "compare-swap";
    case OpKind::lock: return "lock";
    case OpKind::unlock: return "unlock";
  }
  return "unknown";
}

Checker::Checker(uint32_t origins, uint32_t servers, uint32_t words)
    : servers_(servers),
      sessions_(origins * servers),
      memory_(servers, std::vector<uint64_t>(words)) {}

std::string Checker::name(const Op& op) const {
  return concat(to_string(op.kind), " number ", op.number, " of origin ", op.origin, " at server ",
                op.server, " word ", op.word);
}

void Checker::issued(const std::shared_ptr<Op>& op) {
  Session& s = session(op->origin, op->server);
  if (op->number != s.issued + 1) fail(name(*op), " follows number ", s.issued);
  s.issued = op->number;
  s.ops[op->number] = op;
}

Op* Checker::apply(uint32_t origin, uint32_t server, uint64_t number) {
  Session& s = session(origin, server);
  if (number != s.applied + 1) {
    fail("server ", server, " applies request ", number, " of origin ", origin, " after ",
         s.applied, number <= s.applied ? ": twice" : ": one is missing");
    return nullptr;
  }
  const auto found = s.ops.find(number);
  if (found == s.ops.end()) {
    fail("server ", server, " applies request ", number, " of origin ", origin,
         ", which was never issued");
    return nullptr;
  }
  s.applied = number;
  ++applied_count_;
  Op& op = *found->second;
  op.applied = true;
  std::vector<uint64_t>& words = memory_[server];
  switch (op.kind) {
    case OpKind::put: std::copy(op.values.begin(), op.values.end(), words.begin() + op.word); break;
    case OpKind::accumulate:
      for (size_t i = 0; i < op.values.size(); ++i) words[op.word + i] += op.values[i];
      break;
    case OpKind::get: break;
    case OpKind::fetch_add:
      op.seen.push_back({words[op.word]});
      words[op.word] += op.values[0];
      break;
    case OpKind::swap:
      op.seen.push_back({words[op.word]});
      words[op.word] = op.values[0];
      break;
    case OpKind::compare_swap:
      op.seen.push_back({words[op.word]});
      if (words[op.word] == op.values[1]) words[op.word] = op.values[0];
      break;
    case OpKind::lock:
    case OpKind::unlock: break;
  }
  return &op;
}

Op* Checker::again(uint32_t origin, uint32_t server, uint64_t number) {
  Session& s = session(origin, server);
  const auto found = s.ops.find(number);
  return found == s.ops.end() ? nullptr : found->second.get();
}

void Checker::executed(Op& op, const std::vector<uint64_t>& memory,
                       std::optional<uint64_t> answer) {
  if (op.kind == OpKind::lock || op.kind == OpKind::unlock) return;
  const std::vector<uint64_t>& words = memory_[op.server];
  const size_t count = op.kind == OpKind::put || op.kind == OpKind::get ||
                               op.kind == OpKind::accumulate
                           ? op.values.size()
                           : 1;
  for (size_t i = 0; i < count; ++i)
    if (memory[op.word + i] != words[op.word + i])
      fail("after ", name(op), " word ", op.word + i, " is ", memory[op.word + i],
           ", the reference says ", words[op.word + i]);
  if (op.kind == OpKind::get)
    op.seen.push_back(
        {words.begin() + op.word, words.begin() + op.word + static_cast<std::ptrdiff_t>(count)});
  if (answer && (op.seen.empty() || *answer != op.seen.front()[0]))
    fail(name(op), " answers ", *answer, ", not the value before it was applied");
}

void Checker::completed(const Op& op) {
  if (!op.applied) fail(name(op), " completed at the origin and was never applied");
  const bool reads = op.kind == OpKind::get || op.kind == OpKind::fetch_add ||
                     op.kind == OpKind::swap || op.kind == OpKind::compare_swap;
  if (reads && std::find(op.seen.begin(), op.seen.end(), op.result) == op.seen.end())
    fail(name(op), " returned ", op.result.empty() ? 0 : op.result[0],
         ", which the reference never held there while it was executed");
  session(op.origin, op.server).ops.erase(op.number);
}

void Checker::fenced(uint32_t origin, uint32_t server, uint64_t number) {
  if (session(origin, server).applied < number)
    fail("a fence of origin ", origin, " to server ", server, " returned when ",
         session(origin, server).applied, " of ", number, " requests were applied");
}

void Checker::granted(uint32_t server, uint32_t mutex, uint64_t holder) {
  const auto [at, fresh] = holders_.try_emplace({server, mutex}, holder);
  if (!fresh)
    fail("mutex ", mutex, " of server ", server, " was granted to ", holder, " while ", at->second,
         " holds it");
}

void Checker::released(uint32_t server, uint32_t mutex, uint64_t holder) {
  const auto at = holders_.find({server, mutex});
  if (at == holders_.end() || at->second != holder)
    fail("mutex ", mutex, " of server ", server, " was released by ", holder,
         ", which does not hold it");
  else holders_.erase(at);
}

void Checker::finish(uint32_t server, const std::vector<uint64_t>& memory) {
  for (size_t i = 0; i < memory.size(); ++i)
    if (memory[i] != memory_[server][i])
      fail("at the end word ", i, " of server ", server, " is ", memory[i], ", the reference says ",
           memory_[server][i]);
  for (uint32_t origin = 0; origin < sessions_.size() / servers_; ++origin) {
    const Session& s = session(origin, server);
    if (s.applied != s.issued)
      fail("at the end server ", server, " has applied ", s.applied, " of ", s.issued,
           " requests of origin ", origin);
  }
  if (!holders_.empty()) fail("at the end a mutex is held by ", holders_.begin()->second);
}

}  // namespace skerry::sim
