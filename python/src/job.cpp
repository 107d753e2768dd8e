// The job, groups and collectives.
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>

#include "binding.hpp"

namespace skpy {

namespace {

// Of seconds; negative: none.
std::int64_t limit_ns(double seconds) {
  return seconds < 0 ? -1 : static_cast<std::int64_t>(seconds * 1e9);
}

// The extension module's one state: Python programs have one job. Never destroyed: at exit, `leave`
// decides what becomes of the job.
struct Life {
  enum class Stage { before, joined, ended };
  // Read and written with the interpreter lock held.
  Stage stage = Stage::before;
  std::unique_ptr<sk::Job> job;  // null unless joined
  // Held while joining and leaving, by one thread at a time; never waited for with the interpreter
  // lock held, so that a holder can take that.
  std::mutex changing;
  bool has_refilled = false;  // or has tried: a spare knows of the others
  int pid = 0;  // of the process that joined: a fork does not leave the job
};
Life& life() {
  static auto* const one = new Life();
  return *one;
}

// Answers of init that every call needs again, kept as plain numbers.
struct Identity {
  int rank = 0, size = 1, node = 0, nodes = 1;
} identity;

// The first of a collective in the background that the program dropped: leaving the job tells it.
std::unique_ptr<sk::Error>& dropped_error() {
  static auto& error = *new std::unique_ptr<sk::Error>;
  return error;
}

void finalize_job(sk::Job& job) {
  job.finalize();
  if (dropped_error()) throw sk::Error(*dropped_error());
}

// The process ends, Python has ended before. Whatever calls for a status other than 0 is known
// here, and nowhere in Python: SystemExit of any origin, an uncaught exception, a runner's answer.
// Finalizing waits for the other ranks, so it must not happen after an error: then this process
// just ends, and the runtime ends the job.
void leave(int status, void*) {
  Life& mine = life();
  if (status != 0 || mine.stage != Life::Stage::joined || mine.pid != getpid()) return;
  mine.stage = Life::Stage::ended;
  try {
    finalize_job(*mine.job);
  } catch (const sk::Error& error) {
    std::fprintf(stderr, "skerry: leaving the job at the end of the program failed: %s\n",
                 error.what());
    std::fflush(nullptr);
    _exit(1);
  }
}

void join(Life& mine, sk::ThreadLevel level, sk::OnFailure on_failure) {
  std::unique_ptr<sk::Job> joined;
  {
    nb::gil_scoped_release waits;
    joined = std::make_unique<sk::Job>(level, on_failure);
  }
  identity = {joined->rank(), joined->size(), joined->node(), joined->nodes()};
  mine.job = std::move(joined);
  mine.pid = getpid();
  mine.stage = Life::Stage::joined;
  on_exit(&leave, nullptr);
}

// Runs `change` with the interpreter lock, as the only one that changes the life.
template <class Change>
void change_life(Change&& change) {
  Life& mine = life();
  std::unique_lock<std::mutex> turn(mine.changing, std::defer_lock);
  {
    nb::gil_scoped_release waits;
    turn.lock();
  }
  change(mine);
}

void init(const std::string& threads, const std::string& on_failure) {
  sk::ThreadLevel level = sk::ThreadLevel::multiple;
  if (threads == "single") level = sk::ThreadLevel::single;
  else if (threads == "serialized") level = sk::ThreadLevel::serialized;
  else if (threads != "multiple")
    throw sk::Error(SKERRY_ERR_INVALID, "threads is \"" + threads +
                                            "\": use \"single\", \"serialized\" or \"multiple\"");
  sk::OnFailure on_death = sk::OnFailure::ends_job;
  if (on_failure == "raise") on_death = sk::OnFailure::returns;
  else if (on_failure == "continue") on_death = sk::OnFailure::continues;
  else if (on_failure != "end")
    throw sk::Error(SKERRY_ERR_INVALID, "on_failure is \"" + on_failure +
                                            "\": use \"end\", \"raise\" or \"continue\"");
  change_life([&](Life& mine) {
    if (mine.stage == Life::Stage::ended)
      throw sk::Error(SKERRY_ERR_INVALID,
                      "a process joins one job in its life: init was called after finalize");
    if (mine.stage == Life::Stage::before) join(mine, level, on_death);
  });
}

void finalize() {
  change_life([](Life& mine) {
    if (mine.stage != Life::Stage::joined) return;
    end_arrays();
    mine.stage = Life::Stage::ended;
    const std::unique_ptr<sk::Job> job = std::move(mine.job);
    nb::gil_scoped_release waits;
    finalize_job(*job);
  });
}

int node_of(nb::handle rank) {
  const sk::Job& joined = job();
  return rank.is_none() ? identity.node : joined.node_of(nb::cast<int>(rank));
}

std::vector<int> node_ranks(nb::handle node) {
  const sk::Job& joined = job();
  const int wanted = node.is_none() ? identity.node : nb::cast<int>(node);
  std::vector<int> ranks(static_cast<std::size_t>(joined.node_size(wanted)));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ranks[i] = joined.node_rank(wanted, static_cast<int>(i));
  return ranks;
}

// The counters of the library and of arrays in one dictionary.
template <class Add>
void each_counter(const Add& add) {
  for (const sk::CounterValue& each : job().counters()) add(each);
  for (const sk::CounterValue& each : sk::array_counters(job().world())) add(each);
}

nb::dict counters() {
  nb::dict values;
  each_counter([&](const sk::CounterValue& each) { values[each.name] = each.value; });
  return values;
}

nb::dict counter_info() {
  nb::dict all;
  each_counter([&](const sk::CounterValue& each) {
    all[each.name] = nb::make_tuple(sk::to_string(each.kind), each.unit, each.description);
  });
  return all;
}

nb::dict memory() {
  const skerry_memory m = job().memory();
  nb::dict values;
  const auto set = [&](const char* name, std::uint64_t value) { values[name] = value; };
  set("connections", m.connections);
  set("connection_bytes", m.connection_bytes);
  set("servers_known", m.servers_known);
  set("known_bytes", m.known_bytes);
  set("fixed_bytes", m.fixed_bytes);
  set("server_connections", m.server_connections);
  set("server_connection_bytes", m.server_connection_bytes);
  set("server_ranks_known", m.server_ranks_known);
  set("server_known_bytes", m.server_known_bytes);
  set("server_fixed_bytes", m.server_fixed_bytes);
  set("node_table_bytes", m.node_table_bytes);
  set("waiter_bytes", m.waiter_bytes);
  set("group_bytes", m.group_bytes);
  set("segment_table_bytes", m.segment_table_bytes);
  return values;
}

int reduction_of(const std::string& op) {
  static const char* const names[] = {"sum", "prod", "min",  "max", "land",
                                      "lor", "lxor", "band", "bor", "bxor"};
  for (int i = 0; i < 10; ++i)
    if (op == names[i]) return i;
  throw sk::Error(
      SKERRY_ERR_INVALID,
      "no reduction \"" + op + "\": use sum, prod, min, max, land, lor, lxor, band, bor or bxor");
}

// Truth values are bytes of 0 or 1, and stay so.
int type_to_reduce(const View& view, int reduction) {
  const bool keeps_truth = reduction == SKERRY_MIN || reduction == SKERRY_MAX ||
                           (reduction >= SKERRY_LAND && reduction <= SKERRY_BXOR);
  if (view.type() == sk::Type::boolean && keeps_truth) return SKERRY_UINT8;
  return view.element_type("reduce");
}

// In place on a contiguous buffer; root < 0: every member gets the result.
void reduce_in_place(nb::handle buffer, const std::string& op, int root, nb::handle group) {
  const sk::Group members = group_or_world(group);
  const int reduction = reduction_of(op);
  View view;
  acquire_contiguous(view, buffer, true, "the array to reduce");
  const int type = type_to_reduce(view, reduction);
  nb::gil_scoped_release waits;
  sk::check(
      root < 0 ? skerry_allreduce(members.get(), type, reduction, view.data(), view.elements())
               : skerry_reduce(members.get(), type, reduction, view.data(), view.elements(), root));
}

void scan_in_place(nb::handle buffer, const std::string& op, bool inclusive, nb::handle group) {
  const sk::Group members = group_or_world(group);
  const int reduction = reduction_of(op);
  View view;
  acquire_contiguous(view, buffer, true, "the array to scan");
  const int type = type_to_reduce(view, reduction);
  nb::gil_scoped_release waits;
  sk::check((inclusive ? skerry_scan : skerry_exscan)(members.get(), type, reduction, view.data(),
                                                      view.elements()));
}

void reduce_scatter_into(nb::handle in, nb::handle out, const std::string& op, nb::handle group) {
  const sk::Group members = group_or_world(group);
  const int reduction = reduction_of(op);
  View from, to;
  acquire_contiguous(from, in, false, "the array to reduce");
  acquire_contiguous(to, out, true, "this member's part");
  const int type = type_to_reduce(to, reduction);
  nb::gil_scoped_release waits;
  sk::check(skerry_reduce_scatter(members.get(), type, reduction, from.data(), to.data(),
                                  to.elements()));
}

void alltoall_into(nb::handle in, nb::handle out, nb::handle group) {
  const sk::Group members = group_or_world(group);
  View from, to;
  acquire_contiguous(from, in, false, "the array to distribute");
  acquire_contiguous(to, out, true, "the array to fill");
  nb::gil_scoped_release waits;
  sk::check(skerry_alltoall(members.get(), from.data(),
                            from.bytes() / static_cast<std::size_t>(members.size()), to.data()));
}

void alltoallv_into(nb::handle in, const std::vector<std::uint64_t>& in_bytes, nb::handle out,
                    const std::vector<std::uint64_t>& out_bytes, nb::handle group) {
  const sk::Group members = group_or_world(group);
  View from, to;
  acquire_contiguous(from, in, false, "the array to distribute");
  acquire_contiguous(to, out, true, "the array to fill");
  std::vector<std::uint64_t> in_offsets(in_bytes.size()), out_offsets(out_bytes.size());
  std::exclusive_scan(in_bytes.begin(), in_bytes.end(), in_offsets.begin(), std::uint64_t{0});
  std::exclusive_scan(out_bytes.begin(), out_bytes.end(), out_offsets.begin(), std::uint64_t{0});
  nb::gil_scoped_release waits;
  sk::check(skerry_alltoallv(members.get(), from.data(), in_bytes.data(), in_offsets.data(),
                             to.data(), out_bytes.data(), out_offsets.data()));
}

// A function of the program in a collective call. What it raises first is raised when all members
// are through: a member that left in the middle would keep the others waiting.
struct Combiner {
  nb::callable function;  // (into, from), memory views
  std::uint64_t element_bytes;
  std::exception_ptr raised;

  void call(void* into, const void* from, std::uint64_t count) {
    const nb::gil_scoped_acquire holds;
    if (raised) return;
    const auto bytes = static_cast<Py_ssize_t>(count * element_bytes);
    try {
      function(nb::steal(PyMemoryView_FromMemory(static_cast<char*>(into), bytes, PyBUF_WRITE)),
               nb::steal(PyMemoryView_FromMemory(
                   static_cast<char*>(const_cast<void*>(from)), bytes, PyBUF_READ)));
    } catch (...) {
      raised = std::current_exception();
    }
  }
};

void reduce_by(nb::handle buffer, std::uint64_t element_bytes, nb::callable function,
               nb::handle group) {
  const sk::Group members = group_or_world(group);
  View view;
  acquire_contiguous(view, buffer, true, "the array to reduce");
  Combiner combiner{std::move(function), element_bytes, nullptr};
  const auto each = [](void* context, void* into, const void* from, std::uint64_t count) {
    static_cast<Combiner*>(context)->call(into, from, count);
  };
  {
    nb::gil_scoped_release waits;
    sk::check(skerry_allreduce_by(members.get(), element_bytes, each, &combiner, view.data(),
                                  view.bytes() / element_bytes));
  }
  if (combiner.raised) std::rethrow_exception(combiner.raised);
}

// What the program has dropped of collectives that go on. Never destroyed: Python ends before.
std::vector<std::unique_ptr<Request>>& dropped_collectives() {
  static auto& dropped = *new std::vector<std::unique_ptr<Request>>;
  return dropped;
}

// Those that are done. What they held may run code of the program, which may drop another one.
void forget_dropped() {
  std::vector<std::unique_ptr<Request>> all;
  all.swap(dropped_collectives());
  for (auto& request : all)
    if (!request->is_done()) dropped_collectives().push_back(std::move(request));
}

// Null `buffer`: a barrier. `reduction` empty: a broadcast.
nb::object begin_collective(nb::object buffer, const std::string& op, int root, nb::handle group) {
  forget_dropped();
  const sk::Group members = group_or_world(group);
  auto view = std::make_unique<View>();
  if (!buffer.is_none()) acquire_contiguous(*view, buffer, true, "the array");
  const int reduction = op.empty() ? 0 : reduction_of(op);
  const int type = op.empty() ? 0 : type_to_reduce(*view, reduction);
  skerry_handle begun = 0;
  {
    nb::gil_scoped_release waits;
    if (buffer.is_none()) sk::check(skerry_barrier_nb(members.get(), &begun));
    else if (op.empty())
      sk::check(skerry_broadcast_nb(members.get(), view->data(), view->bytes(), root, &begun));
    else
      sk::check(skerry_allreduce_nb(members.get(), type, reduction, view->data(),
                                    view->elements(), &begun));
  }
  const bool returns_buffer = !buffer.is_none();
  return nb::cast(Request{returns_buffer,
                          nb::none(),
                          std::move(buffer),
                          std::move(view),
                          {},
                          sk::Handle(job().world().job_ref(), begun),
                          true});
}

void broadcast_in_place(nb::handle buffer, int root, nb::handle group) {
  const sk::Group members = group_or_world(group);
  View view;
  acquire_contiguous(view, buffer, true, "the array to broadcast");
  nb::gil_scoped_release waits;
  sk::check(skerry_broadcast(members.get(), view.data(), view.bytes(), root));
}

void allgather_into(nb::handle in, nb::handle out, nb::handle group) {
  const sk::Group members = group_or_world(group);
  View from, to;
  acquire_contiguous(from, in, false, "the array to gather");
  acquire_contiguous(to, out, true, "the gathered array");
  if (to.bytes() != from.bytes() * static_cast<std::size_t>(members.size()))
    throw sk::Error(SKERRY_ERR_INVALID, "the gathered array has " + std::to_string(to.bytes()) +
                                            " bytes: it needs one part per member");
  nb::gil_scoped_release waits;
  sk::check(skerry_allgather(members.get(), from.data(), from.bytes(), to.data()));
}

void bind_group(nb::module_& m) {
  nb::class_<sk::Group>(m, "Group",
        "Ranks that act together. ``len(group)`` members, in a fixed order.")
      .def_prop_ro("ranks",
                   [](const sk::Group& g) {
                     std::vector<int> ranks;
                     for (int i = 0; i < g.size(); ++i) ranks.push_back(g.rank(i));
                     return ranks;
                   },
                   "Ranks of the members, in their order. Not collective. Errors: FreedError.")
      .def("__len__", &sk::Group::size)
      .def("index", &sk::Group::index, nb::arg("rank"),
           "Position of a job rank in the group. Not collective. Errors: InvalidError (no "
           "member).")
      .def("rank", &sk::Group::rank, nb::arg("index"),
           "Job rank of the member at a position. Not collective. Errors: InvalidError (no such "
           "position).")
      .def(
          "split",
          [](const sk::Group& g, int color, int key) -> nb::object {
            sk::Group made;
            {
              nb::gil_scoped_release waits;
              made = g.split(color, key);
            }
            return made ? nb::cast(std::move(made)) : nb::none();
          },
          nb::arg("color"), nb::arg("key") = 0,
          nb::sig("def split(self, color: int, key: int = 0) -> Group | None"),
          "Members with the same color form a group, ordered by (key, rank); a negative color "
          "joins none: None. Collective. Errors: NoMemoryError.")
      .def(
          "shrink",
          [](const sk::Group& g, double timeout) {
            nb::gil_scoped_release waits;
            return g.shrink(limit_ns(timeout));
          },
          nb::arg("timeout") = -1.0,
          nb::sig("def shrink(self, timeout: float = -1.0) -> Group"),
          "The members that live, as a new group, with on_failure=\"continue\". The old one is of "
          "no use afterwards. `timeout` seconds (negative: never) after the first member came an "
          "error names who is missing. Collective over those that live. Errors: TimeoutError, "
          "UnsupportedError, InvalidError.")
      .def(
          "refill",
          [](const sk::Group& g, double timeout) {
            life().has_refilled = true;
            nb::gil_scoped_release waits;
            return g.refill(limit_ns(timeout));
          },
          nb::arg("timeout") = -1.0,
          nb::sig("def refill(self, timeout: float = -1.0) -> Group"),
          "As shrink(), with spares (``skerry run --spares``) in the places of the dead; on a "
          "spare, of its world: it joins the group that has taken it in. Collective over those "
          "that live. Errors: those of shrink().")
      .def("spares", &sk::Group::spares,
           "How many spares a refill() would take in now, in a job of ``skerry run --elastic``: "
           "places are free, and hosts were added since. As far as this rank has heard. Not "
           "collective. Errors: FreedError.")
      .def("free", &sk::Group::free, nb::call_guard<nb::gil_scoped_release>(),
           "Gives back what the group takes. Collective. Errors: InvalidError (the group of all "
           "ranks).");
}

}  // namespace

sk::Job& job() {
  Life& mine = life();
  if (mine.stage != Life::Stage::joined) [[unlikely]] {
    const bool ended = mine.stage == Life::Stage::ended;
    throw sk::Error(ended ? SKERRY_ERR_FREED : SKERRY_ERR_INVALID,
                    ended ? "the job has ended: use Skerry before skerry.finalize()"
                          : "no job yet: call skerry.init() first");
  }
  return *mine.job;
}

bool may_wait(int rank) {
  const sk::Job& joined = job();
  if (rank < 0 || rank >= identity.size) return rank != -1 || identity.nodes > 1;
  return identity.nodes > 1 && !joined.same_node(rank);
}

sk::Group group_or_world(nb::handle group) {
  if (group.is_none()) return job().world();
  sk::Group* given = nullptr;
  if (!nb::try_cast(group, given) || !given)
    throw sk::Error(SKERRY_ERR_INVALID, "group is " + nb::cast<std::string>(nb::repr(group)) +
                                            ": pass a skerry.Group or None for all ranks");
  return *given;
}

namespace {

void bind_life(nb::module_& m) {
  m.def("init", &init, nb::kw_only(), nb::arg("threads") = "multiple",
        nb::arg("on_failure") = "end");
  m.def("finalize", &finalize);
  m.def("initialized", [] { return life().stage == Life::Stage::joined; },
        "Whether this process is in a job: True from init to finalize. Not collective. Errors: "
        "none.");
  m.def(
      "abort", [](const std::string& reason, int status) { job().abort(status, reason); },
      nb::arg("reason") = "", nb::arg("status") = 1,
      nb::sig("def abort(reason: str = \"\", status: int = 1) -> None"),
      "Ends the whole job at once, with one message that names this rank. Does not return. Not "
      "collective. Errors: InvalidError (no job).");
  m.def("rank", [] { return job(), identity.rank; },
        "Own rank, 0 to size() - 1. Not collective. Errors: InvalidError (no job), FreedError "
        "(it ended).");
  m.def("size", [] { return job(), identity.size; },
        "Number of ranks. Not collective. Errors: as rank().");
  m.def("nodes", [] { return job(), identity.nodes; },
        "Number of nodes. Not collective. Errors: as rank().");
  m.def("node", &node_of, nb::arg("rank") = nb::none(),
        nb::sig("def node(rank: int | None = None) -> int"),
        "The node of `rank` (default: own), 0 to nodes() - 1. Not collective. Errors: "
        "InvalidError (no such rank).");
  m.def("node_ranks", &node_ranks, nb::arg("node") = nb::none(),
        nb::sig("def node_ranks(node: int | None = None) -> list[int]"),
        "Ranks on a node (default: own), ascending. Not collective. Errors: InvalidError (no "
        "such node).");
  m.def("same_node", [](int rank) { return job().same_node(rank); }, nb::arg("rank"),
        "Whether `rank` shares memory with this one. Not collective. Errors: InvalidError (no "
        "such rank).");
}

void bind_facts(nb::module_& m) {
  m.def("fabric", [] { return std::string(job().fabric()); },
        "What carries bytes between nodes: \"tcp\", \"ofi:tcp\", ... Not collective. Errors: as "
        "rank().");
  m.def("counters", &counters,
        nb::sig("def counters() -> dict[str, int]"),
        "What this process has done since init, by name: docs/counters.md lists the names. Not "
        "collective: it never waits for other processes. Errors: as rank().");
  m.def("_counter_info", &counter_info,
        nb::sig("def _counter_info() -> dict[str, tuple[str, str, str]]"));
  m.def("memory", &memory,
        nb::sig("def memory() -> dict[str, int]"),
        "Memory that communication takes in this process now, in bytes, without the operating "
        "system's (skerry_memory in skerry.h has the names). Not collective. Errors: as rank().");
  m.def(
      "limit_connections",
      [](std::uint32_t max_connections) { job().limit_connections(max_connections); },
      nb::arg("max_connections"),
      "From now on this process keeps at most so many connections to data servers (0: no limit), "
      "as SKERRY_MAX_CONN sets it at the start. Not collective. Errors: as rank().");
}

void bind_waits(nb::module_& m) {
  m.def("failed", [] { return job().failed(); },
        "Ranks that have died, ascending, with on_failure=\"continue\". Not collective. Errors: "
        "none.");
  m.def("is_spare", [] { return job().is_spare(); },
        "Whether this rank began as a spare (``skerry run --spares``). Not collective. Errors: as "
        "rank().");
  m.def("is_leaving", [] { return job().is_leaving(); },
        "Whether ``skerry drain`` takes this rank's host out of the job. It ends in the next "
        "sk.protect() of all. Not collective. Errors: as rank().");
  m.def("_hear", [] {
    nb::gil_scoped_release waits;
    job().hear();
  });
  m.def("_has_refilled", [] { return life().has_refilled; });
  m.def("world", [] { return job().world(); },
        "The group of all ranks. Not collective. Errors: as rank().");
  m.def(
      "barrier",
      [](nb::handle group) {
        const sk::Group members = group_or_world(group);
        nb::gil_scoped_release waits;
        members.barrier();
      },
      nb::arg("group") = nb::none(),
      nb::sig("def barrier(group: Group | None = None) -> None"),
      "Waits until every member is here. Orders the ranks, not their operations; see sync. "
      "Collective. Errors: InvalidError (no group), PeerDeadError.");
  m.def(
      "sync",
      [](nb::handle group) {
        const sk::Group members = group_or_world(group);
        program_syncs(members.size());
        nb::gil_scoped_release waits;
        members.sync();
      },
      nb::arg("group") = nb::none(),
      nb::sig("def sync(group: Group | None = None) -> None"),
      "A barrier after which all earlier operations on members are visible to all: the end of a "
      "phase of one-sided work. Collective. Errors: InvalidError (no group), PeerDeadError.");
  m.def(
      "_sync",
      [](nb::handle group) {  // of arrays' own exchanges, which change no element
        const sk::Group members = group_or_world(group);
        nb::gil_scoped_release waits;
        members.sync();
      },
      nb::arg("group").none(), nb::sig("def _sync(group: Group | None) -> None"));
  m.def(
      "fence",
      [](nb::handle rank) {
        const sk::Job& joined = job();
        const int target = rank.is_none() ? -1 : nb::cast<int>(rank);
        const Released waits(target);
        if (rank.is_none()) joined.fence();
        else joined.fence(target);
      },
      nb::arg("rank") = nb::none(),
      nb::sig("def fence(rank: int | None = None) -> None"),
      "On return, what this rank issued to `rank` (default: to all ranks) is visible there. Not "
      "collective. Errors: InvalidError (no such rank), PeerDeadError.");
}

void bind_collectives(nb::module_& m) {
  m.def("_reduce", &reduce_in_place, nb::arg("buffer"), nb::arg("op"), nb::arg("root"),
        nb::arg("group").none(),
        nb::sig("def _reduce(buffer: skerry._types.Block, op: str, root: int, group: Group | "
                "None) -> None"));
  m.def("_broadcast", &broadcast_in_place, nb::arg("buffer"), nb::arg("root"),
        nb::arg("group").none(),
        nb::sig("def _broadcast(buffer: skerry._types.Block, root: int, group: Group | None) -> "
                "None"));
  m.def("_scan", &scan_in_place, nb::arg("values"), nb::arg("op"), nb::arg("inclusive"),
        nb::arg("group").none(),
        nb::sig("def _scan(values: skerry._types.Block, op: str, inclusive: bool, group: Group | "
                "None) -> None"));
  m.def("_reduce_scatter", &reduce_scatter_into, nb::arg("values"), nb::arg("out"), nb::arg("op"),
        nb::arg("group").none(),
        nb::sig("def _reduce_scatter(values: skerry._types.Block, out: skerry._types.Block, op: "
                "str, group: Group | None) -> None"));
  m.def("_alltoall", &alltoall_into, nb::arg("values"), nb::arg("out"), nb::arg("group").none(),
        nb::sig("def _alltoall(values: skerry._types.Block, out: skerry._types.Block, group: "
                "Group | None) -> None"));
  m.def("_alltoallv", &alltoallv_into, nb::arg("values"), nb::arg("bytes"), nb::arg("out"),
        nb::arg("out_bytes"), nb::arg("group").none(),
        nb::sig("def _alltoallv(values: skerry._types.Block, bytes: list[int], out: "
                "skerry._types.Block, out_bytes: list[int], group: Group | None) -> None"));
  m.def("_reduce_by", &reduce_by, nb::arg("buffer"), nb::arg("element_bytes"), nb::arg("function"),
        nb::arg("group").none(),
        nb::sig("def _reduce_by(buffer: skerry._types.Block, element_bytes: int, function: "
                "Callable[[memoryview, memoryview], None], group: Group | None) -> None"));
  m.def("_begin", &begin_collective, nb::arg("buffer").none(), nb::arg("op"), nb::arg("root"),
        nb::arg("group").none(),
        nb::sig("def _begin(buffer: skerry._types.Block | None, op: str, root: int, group: Group | "
                "None) -> Request"));
  m.def("_allgather", &allgather_into, nb::arg("values"), nb::arg("out"), nb::arg("group").none(),
        nb::sig("def _allgather(values: skerry._types.Block, out: skerry._types.Block, group: "
                "Group | None) -> None"));
}

}  // namespace

bool Request::is_done() noexcept {
  try {
    return handle.test();
  } catch (const sk::Error& error) {
    if (!dropped_error()) dropped_error() = std::make_unique<sk::Error>(error);
    return true;
  }
}

void Request::keep_until_done() {
  if (!is_done()) dropped_collectives().push_back(std::make_unique<Request>(std::move(*this)));
}

void bind_job(nb::module_& m) {
  bind_life(m);
  bind_facts(m);
  bind_waits(m);
  bind_collectives(m);
  bind_group(m);
}

}  // namespace skpy

NB_MODULE(_core, m) {
  // Arrays may live when the interpreter ends: a thread or an object without a garbage collector
  // holds them. They end with the job. nanobind would list them, and then every type and function.
  nb::set_leak_warnings(false);
  m.attr("__version__") = skerry_version();
  skpy::bind_errors(m);
  skpy::bind_job(m);
  skpy::bind_array(m);
  skpy::bind_mirror(m);
  skpy::bind_memory(m);
  skpy::bind_window(m);
  skpy::bind_blocks(m);
  skpy::bind_merge(m);
  skpy::bind_whole(m);
}
