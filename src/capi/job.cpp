#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "capi/arguments.hpp"
#include "fabric/fabric.hpp"

using namespace skerry;
using namespace skerry::capi;

static_assert(static_cast<int>(Code::invalid) == SKERRY_ERR_INVALID &&
              static_cast<int>(Code::range) == SKERRY_ERR_RANGE &&
              static_cast<int>(Code::freed) == SKERRY_ERR_FREED &&
              static_cast<int>(Code::no_memory) == SKERRY_ERR_NO_MEMORY &&
              static_cast<int>(Code::peer_dead) == SKERRY_ERR_PEER_DEAD &&
              static_cast<int>(Code::timeout) == SKERRY_ERR_TIMEOUT &&
              static_cast<int>(Code::network) == SKERRY_ERR_NETWORK &&
              static_cast<int>(Code::config) == SKERRY_ERR_CONFIG &&
              static_cast<int>(Code::unsupported) == SKERRY_ERR_UNSUPPORTED &&
              static_cast<int>(Code::forked) == SKERRY_ERR_FORKED &&
              static_cast<int>(Code::thread) == SKERRY_ERR_THREAD &&
              static_cast<int>(Code::internal) == SKERRY_ERR_INTERNAL &&
              static_cast<int>(Code::conflict) == SKERRY_ERR_CONFLICT &&
              static_cast<int>(Code::owner_died) == SKERRY_ERR_OWNER_DIED);
static_assert(static_cast<int>(ElementType::complex_double) == SKERRY_COMPLEX_DOUBLE &&
              static_cast<int>(ElementType::float64) == SKERRY_DOUBLE &&
              static_cast<int>(ElementType::int8) == SKERRY_INT8 &&
              static_cast<int>(ElementType::uint64) == SKERRY_UINT64 &&
              static_cast<int>(ElementType::long_double) == SKERRY_LONG_DOUBLE &&
              element_types == SKERRY_LONG_DOUBLE + 1);
static_assert(static_cast<int>(Operation::bit_xor) == SKERRY_BXOR &&
              static_cast<int>(Operation::min) == SKERRY_MIN &&
              static_cast<int>(Operation::replace) == SKERRY_REPLACE &&
              static_cast<int>(Operation::no_op) == SKERRY_NO_OP && operations == SKERRY_NO_OP + 1);
static_assert(static_cast<int>(job::ThreadLevel::multiple) == SKERRY_THREAD_MULTIPLE);

namespace skerry::capi {
namespace {

constexpr uint32_t max_connections_limit = 1 << 24;  // as for SKERRY_MAX_CONN

// Like errno: the one state that must outlive a failed skerry_init. A process that ends destroys
// the main thread's text before it runs exit handlers, and one of them may leave the job: `late`
// serves then, and is never destroyed.
struct LastError {
  std::string text;
  ~LastError();
};
thread_local bool text_is_gone = false;
thread_local char late[512];
thread_local LastError last_error;
LastError::~LastError() { text_is_gone = true; }
thread_local const char* last_literal = nullptr;  // not null: instead, where memory had run out

}  // namespace

int fail(const Status& status) {
  last_literal = nullptr;
  if (text_is_gone) late[status.message().copy(late, sizeof late - 1)] = 0;
  else last_error.text = status.message();
  return static_cast<int>(status.code());
}

namespace {
int unexpected(const std::exception& thrown) noexcept try {
  return fail(error(Code::internal, "unexpected: ", thrown.what()));
} catch (const std::bad_alloc&) {
  last_literal = "unexpected, and this process has no memory left to say what";
  return SKERRY_ERR_INTERNAL;
}
}  // namespace

int caught() noexcept try { throw; } catch (const std::bad_alloc&) {
  last_literal =
      "this process has no memory left: raise its limit (ulimit -v, the cgroup's), or "
      "use less";
  return SKERRY_ERR_NO_MEMORY;
} catch (const std::length_error&) {
  last_literal = "no memory is that large: give a smaller size or count";
  return SKERRY_ERR_NO_MEMORY;
} catch (const std::system_error& thrown) {
  if (thrown.code() == std::errc::resource_unavailable_try_again) {
    last_literal =
        "no thread can be started: raise the limit of processes (ulimit -u, pids.max of "
        "the cgroup), or of memory";
    return SKERRY_ERR_NO_MEMORY;
  }
  return unexpected(thrown);
} catch (const std::exception& thrown) {
  return unexpected(thrown);
} catch (...) {
  last_literal = "an exception of an unknown kind, of a function that the program gave";
  return SKERRY_ERR_INTERNAL;
}

int null_argument(const char* what) { return fail(error(Code::invalid, what, " is null")); }

int forked() {
  return fail(error(Code::forked,
                    "this is a forked child of a rank: the job belongs to its parent; use fork and "
                    "exec to start another program"));
}

Status check_unknown(const void* given, size_t known, size_t size, const char* what) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (size_t i = known; i < size; ++i)
    if (bytes[i] != 0)
      return error(Code::unsupported, what, " has a field at byte ", i,
                   " that this library, of version " SKERRY_VERSION_TEXT
                   ", does not know: use a newer library, or leave the field zero");
  return {};
}

Status read_exchange(const skerry_exchange& given, job::Exchange* exchange) {
  if (given.size < sizeof given)
    return error(Code::invalid, "exchange.size is ", given.size,
                 ": set it to sizeof(skerry_exchange)");
  SKERRY_TRY(check_unknown(&given, sizeof given, given.size, "exchange"));
  if (given.position < 0 || given.position >= given.count)
    return error(Code::invalid, "exchange.position is ", given.position, " of ", given.count);
  if (given.allgather == nullptr) return error(Code::invalid, "exchange.allgather is null");
  exchange->position = given.position;
  exchange->count = given.count;
  const auto allgather = [context = given.context, call = given.allgather](
                             std::span<const std::byte> in, std::byte* out) -> Status {
    const int answer = call(context, in.data(), in.size(), out);
    return answer == 0 ? Status()
                       : error(Code::network, "the exchange's allgather answered ", answer);
  };
  exchange->gather = job::gather_by(allgather, given.count);
  if (given.abort != nullptr)
    exchange->abort = [context = given.context, call = given.abort](int exit_status) {
      call(context, exit_status);
    };
  return {};
}

Status check_type(int type) {
  if (is_element_type(type)) return {};
  return error(Code::invalid, "type ", type, ": give a skerry_type, 0 to ", element_types - 1);
}

}  // namespace skerry::capi

extern "C" {

const char* skerry_status_name(int status) {
  const std::string_view name = to_string(static_cast<Code>(status));
  return name.data();  // all of them are literals
}

const char* skerry_last_error(void) {
  if (last_literal != nullptr) return last_literal;
  return text_is_gone ? late : last_error.text.c_str();
}

const char* skerry_version(void) { return SKERRY_VERSION_TEXT; }

uint64_t skerry_type_bytes(int type) {
  return is_element_type(type) ? element_bytes(static_cast<ElementType>(type)) : 0;
}

int skerry_init(const skerry_options* options, skerry_job** job) try {
  if (job == nullptr) return null_argument("job");
  job::JobOptions chosen;
  if (options != nullptr) {
    if (options->size < offsetof(skerry_options, exchange))
      return fail(error(Code::invalid, "options.size is ", options->size,
                        ": set it to sizeof(skerry_options)"));
    if (options->thread_level < SKERRY_THREAD_SINGLE ||
        options->thread_level > SKERRY_THREAD_MULTIPLE)
      return fail(error(Code::invalid, "options.thread_level is ", options->thread_level,
                        ": give a skerry_thread_level, 0 to 2"));
    if (options->on_failure < SKERRY_FAILURE_ENDS_JOB ||
        options->on_failure > SKERRY_FAILURE_CONTINUES)
      return fail(error(Code::invalid, "options.on_failure is ", options->on_failure,
                        ": give a skerry_on_failure, 0 to 2"));
    if (Status status = check_unknown(options, sizeof *options, options->size, "options");
        !status.ok())
      return fail(status);
    chosen.thread_level = static_cast<job::ThreadLevel>(options->thread_level);
    chosen.failures_return = options->on_failure == SKERRY_FAILURE_RETURNS;
    chosen.goes_on = options->on_failure == SKERRY_FAILURE_CONTINUES;
  }
  if (Status status = read_config(environ, &chosen.config); !status.ok()) return fail(status);
  std::unique_ptr<job::Bootstrap> bootstrap;
  // Older programs know no exchange.
  if (options != nullptr &&
      options->size >= offsetof(skerry_options, exchange) + sizeof options->exchange &&
      options->exchange != nullptr) {
    job::Exchange exchange;
    if (Status status = read_exchange(*options->exchange, &exchange); !status.ok())
      return fail(status);
    bootstrap = std::make_unique<job::ExchangeBootstrap>(std::move(exchange));
  } else if (Status status = job::discover(&bootstrap); !status.ok()) {
    return fail(status);
  }
  std::unique_ptr<job::Job> made;
  const auto make_fabric = [&](const fabric::Options& fabric_options,
                               std::unique_ptr<fabric::Fabric>* fabric) {
    return fabric::make_fabric(chosen.config.fabric, fabric_options, fabric);
  };
  if (Status status = job::Job::start(std::move(bootstrap), chosen, make_fabric, &made);
      !status.ok())
    return fail(status);
  if (made->spares_.is_unneeded()) {  // nobody needed it
    const Status status = made->stop();
    made.reset();
    std::exit(status.ok() ? 0 : 1);
  }
  *job = to(made.release());
  return SKERRY_OK;
}
CAUGHT

int skerry_finalize(skerry_job* job) try {
  CHECK(check_live(job));
  if (of(job)->options().config.report_counters) capi::report_counters(job);
  const Status status = of(job)->stop();
  delete of(job);
  return done(status);
}
CAUGHT

int skerry_while_waiting(skerry_job* job, void (*work)(void* context), void* context) {
  if (job == nullptr) return null_argument("job");
  of(job)->while_waiting({work, context});
  return SKERRY_OK;
}

void skerry_abort(skerry_job* job, int exit_status, const char* reason) {
  if (!of(job)->is_alive()) _exit(exit_status);  // a forked child: the job is its parent's
  try {
    of(job)->abort(exit_status, reason == nullptr ? "" : reason);
  } catch (...) {
    _exit(exit_status);
  }
}

int skerry_failed(skerry_job* job, int* ranks, int most, int* count) try {
  CHECK(check_live(job));
  if (count == nullptr || (ranks == nullptr && most > 0)) return null_argument("ranks or count");
  const std::vector<Rank> dead = of(job)->views_.dead();
  const size_t listed = std::min(dead.size(), static_cast<size_t>(std::max(most, 0)));
  std::copy_n(dead.begin(), listed, ranks);
  *count = static_cast<int>(dead.size());
  return SKERRY_OK;
}
CAUGHT

int skerry_hear(skerry_job* job) try {
  CHECK(check_live(job));
  return done(of(job)->views_.hear());
}
CAUGHT

int skerry_rank(const skerry_job* job) { return of(job)->rank(); }
int skerry_is_spare(const skerry_job* job) { return of(job)->spares_.is_one(); }
int skerry_is_leaving(const skerry_job* job) { return of(job)->views_.leaves(); }
int skerry_size(const skerry_job* job) { return of(job)->size() - of(job)->spares_.count(); }
int skerry_node_count(const skerry_job* job) { return of(job)->map().nodes(); }

int skerry_node_of(const skerry_job* job, int rank) try {
  const NodeId node = of(job)->map().node_of(rank);
  return node == no_node
             ? fail(error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                          of(job)->size() - 1))
             : node;
}
CAUGHT

int skerry_node_size(const skerry_job* job, int node) try {
  const int size = of(job)->map().node_size(node);
  return size == 0
             ? fail(error(Code::invalid, "node ", node, " does not exist: this job has nodes 0 to ",
                          of(job)->map().nodes() - 1))
             : size;
}
CAUGHT

int skerry_node_rank(const skerry_job* job, int node, int i) try {
  const Rank rank = of(job)->map().node_rank(node, i);
  return rank == no_rank ? fail(error(Code::invalid, "node ", node, " has no rank number ", i))
                         : rank;
}
CAUGHT

int skerry_same_node(const skerry_job* job, int rank) try {
  const int node = skerry_node_of(job, rank);
  return node < 0 ? node : node == of(job)->node();
}
CAUGHT
int skerry_thread_level_granted(const skerry_job* job) {
  return static_cast<int>(of(job)->options().thread_level);
}
const char* skerry_fabric_name(const skerry_job* job) { return of(job)->fabric_name().data(); }

int skerry_fence(skerry_job* job, int rank) try {
  CHECK(check_live(job));
  job::Job* j = of(job);
  const NodeId node = j->map().node_of(rank);
  if (node == no_node)
    return fail(error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                      j->size() - 1));
  return skerry_fence_node(job, node);
}
CAUGHT

int skerry_fence_node(skerry_job* job, int node) try {
  CHECK(check_live(job));
  job::Job* j = of(job);
  if (node < 0 || node >= j->map().nodes())
    return fail(error(Code::invalid, "node ", node, " does not exist: this job has nodes 0 to ",
                      j->map().nodes() - 1));
  if (node == j->node()) {  // our stores are in place; order them before what we do next
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return SKERRY_OK;
  }
  return done(j->engine().fence_node(node));
}
CAUGHT

int skerry_fence_all(skerry_job* job) try {
  CHECK(check_live(job));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return done(of(job)->engine().fence_all());
}
CAUGHT

int skerry_wait(skerry_job* job, skerry_handle* handle) try {
  if (job == nullptr || handle == nullptr) return null_argument("job or handle");
  if (!of(job)->is_alive()) return forked();
  if (*handle == 0) return SKERRY_OK;
  if (job::Background::names(*handle)) return done(of(job)->background().wait(handle));
  return done(of(job)->engine().wait(handle));
}
CAUGHT

int skerry_test(skerry_job* job, skerry_handle* handle, int* is_done) try {
  if (job == nullptr || handle == nullptr || is_done == nullptr)
    return null_argument("job, handle or done");
  if (!of(job)->is_alive()) return forked();
  bool finished = false;
  const Status status = job::Background::names(*handle)
                            ? of(job)->background().test(handle, &finished)
                            : of(job)->engine().test(handle, &finished);
  if (!status.ok()) return fail(status);
  *is_done = finished ? 1 : 0;
  return SKERRY_OK;
}
CAUGHT

int skerry_wait_implicit(skerry_job* job) try {
  CHECK(check_live(job));
  return done(of(job)->engine().wait_implicit());
}
CAUGHT

int skerry_buffer_alloc(skerry_job* job, uint64_t bytes, void** memory) try {
  if (job == nullptr || memory == nullptr) return null_argument("job or memory");
  if (!of(job)->is_alive()) return forked();
  void* made = nullptr;
  if (bytes > (uint64_t{1} << 62) || posix_memalign(&made, 4096, bytes == 0 ? 1 : bytes) != 0)
    return fail(error(Code::no_memory, "no ", bytes, " bytes of private memory left"));
  *memory = made;
  return SKERRY_OK;
}
CAUGHT

int skerry_buffer_free(skerry_job*, void* memory) try {
  free(memory);
  return SKERRY_OK;
}
CAUGHT

int skerry_memory_read(const skerry_job* handle, skerry_memory* memory) try {
  if (handle == nullptr || memory == nullptr) return null_argument("job or memory");
  if (memory->size < sizeof(size_t))
    return fail(
        error(Code::invalid, "memory.size is ", memory->size, ": set it to sizeof(skerry_memory)"));
  job::Job* j = const_cast<job::Job*>(of(handle));
  if (!j->is_alive()) return forked();
  const fabric::ConnectionsMemory origin = j->engine().memory();
  fabric::ConnectionsMemory server;
  for (const auto& one : j->servers()) server += one->memory();
  const skerry_memory now{
      memory->size,       origin.connections,         origin.connection_bytes,
      origin.known,       origin.known_bytes,         origin.fixed_bytes,
      server.connections, server.connection_bytes,    server.known,
      server.known_bytes, server.fixed_bytes,         j->map().bytes(),
      j->waiter_bytes(),  j->objects().group_bytes(), j->objects().segment_table_bytes()};
  std::memcpy(memory, &now, std::min(memory->size, sizeof now));
  return SKERRY_OK;
}
CAUGHT

int skerry_connections_limit(skerry_job* handle, uint32_t max_connections) try {
  CHECK(check_live(handle));
  if (max_connections > max_connections_limit)
    return fail(error(Code::invalid, "max_connections is ", max_connections, ": give 0 to ",
                      max_connections_limit));
  if (max_connections != 0) of(handle)->has_cap() = true;
  return done(of(handle)->engine().limit_connections(max_connections));
}
CAUGHT

}  // extern "C"
