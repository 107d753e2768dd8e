#include "explorer.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <type_traits>
#include <unordered_map>

#include "core/pure/status.hpp"
#include "locks/machine.hpp"
#include "locks/parties.hpp"

namespace skerry::lock::machine {
namespace {

constexpr Requester manager_number = UINT32_MAX;

struct Letter {
  Requester from, to;
  Event event;
};

enum class Stage : uint8_t { idle, acting, holding, done };

struct Party {
  Client machine;
  Action action;  // acting: to be performed
  Stage stage = Stage::idle;
  bool unlocking = false;
  uint8_t left = 0;                           // acquisitions
  uint32_t bypassed = 0;                      // grants to others since it stands in line
  std::optional<SharingClient> sharing = {};  // steps instead of `machine`
};

struct State {
  explicit State(const Machines& machines) : manager(machines) {}
  std::vector<uint64_t> home;
  std::vector<std::vector<uint64_t>> nodes;
  std::vector<Party> parties;
  Manager manager;
  Action manager_action = wait();
  std::vector<Link> links;
  std::vector<Letter> letters;  // under way, oldest first
};

// Two states with the same key behave the same.
class Key {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    const auto* bytes = reinterpret_cast<const char*>(&value);
    text_.append(bytes, sizeof value);
  }
  void add(const MachineBytes& memory) {  // most machines leave its end as it was: 0
    size_t used = memory.bytes.size();
    while (used > 0 && memory.bytes[used - 1] == std::byte{0}) --used;
    add(static_cast<uint8_t>(used));
    text_.append(reinterpret_cast<const char*>(memory.bytes.data()), used);
  }
  void add(const Action& a) {
    add(static_cast<uint8_t>(a.kind)), add(a.word), add(static_cast<uint8_t>(a.note));
    add(static_cast<uint8_t>(a.unit)), add(static_cast<uint8_t>(a.place));
    add(static_cast<uint8_t>(a.mode)), add(a.to), add(a.expected), add(a.value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Explorer {
 public:
  explicit Explorer(const Scenario& scenario) : scenario_(scenario), config_(scenario.config) {
    config_.requesters = static_cast<uint32_t>(scenario.requests.size());
    const std::span<const Word> words = machines_of(scenario.kind).words;
    words_.assign(words.begin(), words.end());
    if (!scenario.counts_sharers) return;
    while (words_.size() < sharers_word) words_.push_back({"unused", Place::home, Label::both});
    words_.push_back({"sharers", Place::home, Label::network});
  }

  State first() const {
    State state(machines_of(scenario_.kind));
    uint8_t nodes = 1;
    for (const Requests& one : scenario_.requests)
      nodes = std::max<uint8_t>(nodes, static_cast<uint8_t>(one.node + 1));
    const size_t own = machines_of(scenario_.kind).words.size();
    for (uint8_t w = 0; w < words_.size(); ++w)
      state.home.push_back(w < own ? machines_of(scenario_.kind).initial_value(w, config_) : 0);
    state.nodes.assign(nodes, state.home);
    for (Requester r = 0; r < config_.requesters; ++r)
      state.parties.push_back({Client(machines_of(scenario_.kind), self(r)), wait(), Stage::idle,
                               false, scenario_.requests[r].count, 0});
    for (Requester r = 0; r < config_.requesters && scenario_.counts_sharers; ++r)
      state.parties[r].sharing.emplace(machines_of(scenario_.kind), self(r));
    state.links.assign(config_.requesters, {});
    return state;
  }

  Self self(Requester r) const { return {r, scenario_.requests[r].node == 0}; }

  std::string key(const State& state) const {
    Key key;
    for (const uint64_t word : state.home) key.add(word);
    for (const auto& node : state.nodes)
      for (const uint64_t word : node) key.add(word);
    for (const Party& party : state.parties) {
      if (party.sharing) key.add(party.sharing->key());
      key.add(party.sharing ? party.sharing->inner().memory() : party.machine.memory());
      key.add(static_cast<uint8_t>(party.stage));
      key.add(party.unlocking), key.add(party.left), key.add(party.bypassed);
      if (party.stage == Stage::acting) key.add(party.action);
    }
    key.add(state.manager.memory());
    key.add(state.manager_action);
    for (const Link& link : state.links) key.add(link);
    std::vector<Letter> letters = state.letters;
    std::stable_sort(letters.begin(), letters.end(), [](const Letter& a, const Letter& b) {
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
    for (const Letter& letter : letters) {
      key.add(letter.from), key.add(letter.to);
      key.add(static_cast<uint8_t>(letter.event.note));
      key.add(static_cast<uint8_t>(letter.event.mode)), key.add(letter.event.value);
    }
    return key.take();
  }

  // A step: of a party by itself (letter -1), or of the taker of a letter.
  struct Step {
    Requester who;
    int letter;
  };
  std::vector<Step> steps(const State& state) const {
    std::vector<Step> found;
    for (Requester r = 0; r < state.parties.size(); ++r) {
      const Party& party = state.parties[r];
      const bool waits = party.stage == Stage::acting && party.action.kind == Action::Kind::wait;
      if (party.stage != Stage::done && !waits) found.push_back({r, -1});
    }
    if (state.manager_action.kind != Action::Kind::wait) found.push_back({manager_number, -1});
    for (size_t l = 0; l < state.letters.size(); ++l)
      if (takes(state, state.letters[l].to) && first_of_its_line(state, l))
        found.push_back({state.letters[l].to, static_cast<int>(l)});
    return found;
  }

  // Performs it. What it did is added to *said; a broken rule goes to *problem.
  void perform(State* state, const Step& step, std::string* said, std::string* problem) {
    Event event;
    if (step.letter >= 0) {
      event = state->letters[static_cast<size_t>(step.letter)].event;
      state->letters.erase(state->letters.begin() + step.letter);
      *said = concat(name(step.who), " is told ", to_string(event.note), " by ", name(event.from));
    }
    if (step.who == manager_number) {
      if (step.letter < 0) event = act(state, manager_number, state->manager_action, said, problem);
      state->manager_action = state->manager.step(event, config_, state->links);
      return;
    }
    Party& party = state->parties[step.who];
    if (step.letter < 0) event = own_step(state, step.who, said, problem);
    const Stage before = party.stage;
    const Action action = party.sharing ? party.sharing->step(event, config_)
                                        : party.machine.step(event, config_);
    take(state, step.who, before, action, problem);
  }

  uint32_t holders(const State& state) const {
    return static_cast<uint32_t>(
        std::count_if(state.parties.begin(), state.parties.end(),
                      [](const Party& party) { return party.stage == Stage::holding; }));
  }
  bool ended(const State& state) const {
    for (const Party& party : state.parties)
      if (party.stage != Stage::done) return false;
    return state.letters.empty() && state.manager_action.kind == Action::Kind::wait;
  }
  uint32_t bypass(const State& state) const {
    uint32_t most = 0;
    for (const Party& party : state.parties) most = std::max(most, party.bypassed);
    return most;
  }
  std::string describe(const State& state) const {
    std::string text = "words:";
    for (const uint64_t word : state.home) text += concat(" ", word);
    for (Requester r = 0; r < state.parties.size(); ++r) {
      const Party& party = state.parties[r];
      text += concat("; ", name(r),
                     party.stage == Stage::acting    ? " acts: "
                     : party.stage == Stage::holding ? " holds"
                     : party.stage == Stage::idle    ? " is idle"
                                                     : " is done");
      if (party.stage == Stage::acting) text += to_string(party.action.kind);
    }
    text += concat("; manager: ", to_string(state.manager_action.kind));
    for (const Letter& letter : state.letters)
      text += concat("; ", to_string(letter.event.note), " to ", name(letter.to), " under way");
    return text;
  }

 private:
  static std::string name(Requester r) {
    return r == manager_number ? "manager" : concat("requester ", r);
  }
  bool takes(const State& state, Requester to) const {
    if (to == manager_number)
      return state.manager_action.kind == Action::Kind::wait ||
             state.manager_action.kind == Action::Kind::pause;
    const Party& party = state.parties[to];
    return party.stage != Stage::acting || party.action.kind == Action::Kind::wait;
  }
  static bool first_of_its_line(const State& state, size_t l) {
    for (size_t k = 0; k < l; ++k)
      if (state.letters[k].from == state.letters[l].from &&
          state.letters[k].to == state.letters[l].to)
        return false;
    return true;
  }

  Event own_step(State* state, Requester r, std::string* said, std::string* problem) {
    Party& party = state->parties[r];
    Event event;
    switch (party.stage) {
      case Stage::idle:
        event.kind = Event::Kind::lock;
        event.mode = scenario_.requests[r].shared ? Mode::shared : Mode::exclusive;
        party.unlocking = false;
        *said = concat(name(r), " locks");
        break;
      case Stage::holding:
        event.kind = Event::Kind::unlock;
        party.unlocking = true;
        *said = concat(name(r), " unlocks");
        break;
      case Stage::acting: event = act(state, r, party.action, said, problem); break;
      case Stage::done: break;
    }
    return event;
  }

  uint64_t* word_of(State* state, Requester who, const Action& action) const {
    if (action.place == Place::home) return &state->home[action.word];
    return &state->nodes[scenario_.requests[who].node][action.word];
  }

  Event act(State* state, Requester who, const Action& action, std::string* said,
            std::string* problem) {
    Event event;
    *said = concat(name(who), ": ", to_string(action.kind));
    switch (action.kind) {
      case Action::Kind::load:
      case Action::Kind::store:
      case Action::Kind::compare_and_swap:
      case Action::Kind::fetch_and_add:
      case Action::Kind::swap: {
        const Word& word = words_[action.word];
        if (word.place != action.place || !may_touch(config_, word.label, action))
          *problem = concat(name(who), ": ", to_string(action.kind), " by the wrong unit on \"",
                            word.name, "\"");
        uint64_t& value = *word_of(state, who, action);
        event.value = value;
        if (action.kind == Action::Kind::fetch_and_add) value += action.value;
        else if (action.kind == Action::Kind::swap || action.kind == Action::Kind::store ||
                 (action.kind == Action::Kind::compare_and_swap && value == action.expected))
          value = action.value;
        *said += concat(" \"", word.name, "\" ", event.value, " -> ", value);
        break;
      }
      case Action::Kind::ask:
      case Action::Kind::tell: {
        Letter letter;
        letter.from = who;
        letter.to = action.kind == Action::Kind::ask ? manager_number : action.to;
        letter.event.kind = Event::Kind::told;
        letter.event.note = action.note;
        letter.event.mode = action.mode;
        letter.event.value = action.value;
        letter.event.from = who;
        letter.event.local = who != manager_number && self(who).local;
        *said += concat(" ", name(letter.to), ": ", to_string(action.note));
        state->letters.push_back(letter);
        break;
      }
      case Action::Kind::pause: event.kind = Event::Kind::elapsed; break;
      case Action::Kind::wait:
      case Action::Kind::granted:
      case Action::Kind::released:
      case Action::Kind::refused: *problem = "an action that cannot be performed"; break;
    }
    return event;
  }

  // What a client answered.
  void take(State* state, Requester r, Stage before, const Action& action, std::string* problem) {
    Party& party = state->parties[r];
    switch (action.kind) {
      case Action::Kind::granted:
        if (before == Stage::holding) return;
        party.stage = Stage::holding;
        party.bypassed = 0;
        on_grant(state, r, problem);
        return;
      case Action::Kind::released:
        if (party.left != endless) --party.left;
        party.stage = party.left == 0 ? Stage::done : Stage::idle;
        party.bypassed = 0;
        return;
      case Action::Kind::refused: *problem = concat(name(r), " is refused"); return;
      case Action::Kind::wait:
        // A message to a client that rests changes nothing of that.
        if (before == Stage::idle || before == Stage::done) return;
        break;
      case Action::Kind::load:
      case Action::Kind::store:
      case Action::Kind::compare_and_swap:
      case Action::Kind::fetch_and_add:
      case Action::Kind::swap:
      case Action::Kind::ask:
      case Action::Kind::tell:
      case Action::Kind::pause: break;
    }
    party.stage = Stage::acting;
    party.action = action;
  }

  void on_grant(State* state, Requester r, std::string* problem) {
    uint32_t all = 0, writers = 0;
    for (Requester o = 0; o < state->parties.size(); ++o) {
      Party& other = state->parties[o];
      if (other.stage == Stage::holding) {
        ++all;
        writers += !scenario_.requests[o].shared ||
                   (!machines_of(scenario_.kind).has_readers && !scenario_.counts_sharers);
      }
      if (o == r || scenario_.bypass_bound == 0 || other.stage != Stage::acting ||
          other.unlocking || !in_line(scenario_.kind, other.machine.memory()))
        continue;
      if (!is_on_its_way(*state, o) && ++other.bypassed > scenario_.bypass_bound)
        *problem = concat(name(o), " was overtaken ", other.bypassed, " times");
    }
    if (writers > 0 && all > 1)
      *problem = concat(name(r), " was granted what another requester holds");
  }

  // A request that is under way is not in line yet, and one whose grant is under way no more. In a
  // cohort's line a requester stands where its node does.
  bool is_on_its_way(const State& state, Requester who) const {
    const auto is_with = [&](Requester other) {
      return other == who || (scenario_.kind == ProtocolKind::cohort && other != manager_number &&
                              scenario_.requests[other].node == scenario_.requests[who].node);
    };
    for (const Letter& letter : state.letters)
      if ((letter.to == manager_number && is_with(letter.from)) ||
          (letter.event.note == Note::granted && is_with(letter.to)))
        return true;
    for (Requester r = 0; r < state.parties.size(); ++r)
      if (is_with(r) && state.parties[r].stage == Stage::acting &&
          state.parties[r].action.kind == Action::Kind::ask)
        return true;
    return false;
  }

  const Scenario& scenario_;
  Config config_;
  std::vector<Word> words_;
};

bool is_endless(const Scenario& scenario) {
  return std::any_of(scenario.requests.begin(), scenario.requests.end(),
                     [](const Requests& r) { return r.count == endless; });
}

// All states, breadth first, so that the trail to a problem is a shortest one.
class Search {
 public:
  explicit Search(const Scenario& scenario) : scenario_(scenario), explorer_(scenario) {}

  Verdict run() {
    open_.emplace_back(0, explorer_.first());
    known_.emplace(explorer_.key(open_.front().second), 0);
    nodes_.push_back({0, {0, -1}});
    while (!open_.empty() && verdict_.problem.empty() && verdict_.complete) {
      const auto [number, state] = std::move(open_.front());
      open_.pop_front();
      visit(number, state);
    }
    verdict_.states = nodes_.size();
    if (verdict_.problem.empty() && verdict_.complete) look_for_dead_ends();
    return std::move(verdict_);
  }

 private:
  struct Node {
    uint32_t from;
    Explorer::Step step;
  };

  void visit(uint32_t number, const State& state) {
    verdict_.holders_most = std::max(verdict_.holders_most, explorer_.holders(state));
    verdict_.bypass_most = std::max(verdict_.bypass_most, explorer_.bypass(state));
    if (explorer_.ended(state) || (is_endless(scenario_) && explorer_.holders(state) > 0))
      good_.push_back(number);
    for (const Explorer::Step& step : explorer_.steps(state)) {
      State next = state;
      std::string said;
      explorer_.perform(&next, step, &said, &verdict_.problem);
      if (!verdict_.problem.empty()) {
        trail(number);
        verdict_.trail.insert(verdict_.trail.end() - 1, said);
        return;
      }
      const auto [at, fresh] = known_.emplace(explorer_.key(next),
                                              static_cast<uint32_t>(nodes_.size()));
      edges_.emplace_back(at->second, number);
      if (!fresh) continue;
      nodes_.push_back({number, step});
      open_.emplace_back(at->second, std::move(next));
      verdict_.complete = nodes_.size() <= scenario_.states_most;
    }
  }

  // Backwards from the good states: what they do not reach lost a wake-up.
  void look_for_dead_ends() {
    std::sort(edges_.begin(), edges_.end());
    std::vector<bool> reaches(nodes_.size());
    for (const uint32_t end : good_) reaches[end] = true;
    for (size_t at = 0; at < good_.size(); ++at) {
      auto edge = std::lower_bound(edges_.begin(), edges_.end(), std::make_pair(good_[at], 0u));
      for (; edge != edges_.end() && edge->first == good_[at]; ++edge)
        if (!reaches[edge->second]) {
          reaches[edge->second] = true;
          good_.push_back(edge->second);
        }
    }
    const auto dead = std::find(reaches.begin(), reaches.end(), false);
    if (dead == reaches.end()) return;
    verdict_.problem = "from here the end cannot be reached";
    trail(static_cast<uint32_t>(dead - reaches.begin()));
  }

  void trail(uint32_t node) {
    std::vector<Explorer::Step> way;
    for (; node != 0; node = nodes_[node].from) way.push_back(nodes_[node].step);
    std::reverse(way.begin(), way.end());
    State state = explorer_.first();
    for (const Explorer::Step& step : way) {
      std::string said, problem;
      explorer_.perform(&state, step, &said, &problem);
      verdict_.trail.push_back(said);
    }
    verdict_.trail.push_back(explorer_.describe(state));
  }

  const Scenario& scenario_;
  Explorer explorer_;
  Verdict verdict_;
  std::unordered_map<std::string, uint32_t> known_;   // key to number
  std::vector<Node> nodes_;                           // by number
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // to, from
  std::vector<uint32_t> good_;                        // ended; with endless requests: with a holder
  std::deque<std::pair<uint32_t, State>> open_;
};

}  // namespace

Verdict explore(const Scenario& scenario) { return Search(scenario).run(); }

Verdict wander(const Scenario& scenario, uint64_t seed, uint64_t steps) {
  Explorer explorer(scenario);
  Verdict verdict;
  State state = explorer.first();
  std::mt19937_64 random(seed);
  std::string said;
  for (; verdict.states < steps; ++verdict.states) {
    const auto possible = explorer.steps(state);
    if (possible.empty()) break;
    explorer.perform(&state, possible[random() % possible.size()], &said, &verdict.problem);
    verdict.holders_most = std::max(verdict.holders_most, explorer.holders(state));
    verdict.bypass_most = std::max(verdict.bypass_most, explorer.bypass(state));
    if (!verdict.problem.empty()) break;
  }
  if (verdict.problem.empty() && !is_endless(scenario) && !explorer.ended(state))
    verdict.problem = verdict.states < steps ? "nobody can go on" : "it does not end";
  if (!verdict.problem.empty()) verdict.trail = {said, explorer.describe(state)};
  return verdict;
}

}  // namespace skerry::lock::machine
