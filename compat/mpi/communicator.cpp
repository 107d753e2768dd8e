#include "communicator.hpp"

#include <skerry/skerry.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include "../nodes_of_part.hpp"
#include "errors.hpp"
#include "progress.hpp"
#include "silent.hpp"

namespace skerry::mpi {
namespace {

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
int64_t now_s() { return now_ns() / 1'000'000'000; }

constexpr int hello_tag = 4711;
constexpr int64_t silence_s = 10;           // then it is said, and looked for the process
constexpr int64_t longest_silence_s = 300;  // of a rank whose process cannot be looked at

// The same size in all versions: one of another version must be able to read it.
struct Hello {
  char what[8];
  uint32_t version;
  uint32_t wanted;  // 0: SKERRY_MPI=0
};
static_assert(sizeof(Hello) == 16);
constexpr Hello hello_of(bool wanted) {
  return {{'s', 'k', 'e', 'r', 'r', 'y', 'm', 'w'}, adapter_version, wanted ? 1u : 0u};
}

// What rank 0 of a communicator decides for all of it.
struct Decision {
  uint64_t job;       // id of the job to use; 0: none
  uint32_t is_new;    // 1: start it
  uint32_t unwanted;  // 1 + a rank where SKERRY_MPI=0; 0: all want
};

std::mutex& jobs_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
std::vector<std::shared_ptr<Job>>& jobs() {
  static auto* const started = new std::vector<std::shared_ptr<Job>>;
  return *started;
}
bool is_closing = false;   // MPI_Finalize has begun: what is MPI's is not freed any more
bool is_deferred = false;  // the jobs end when MPI_Finalize is over

// ---- end ---------------------------------------------------------------------------------------

// In the order of the starts, which is the same wherever jobs share members: they start one after
// the other.
void end_jobs() {
  const std::lock_guard guard(jobs_mutex());
  for (const std::shared_ptr<Job>& job : jobs()) {
    if (job->job == nullptr) continue;
    if (skerry_finalize(job->job) != SKERRY_OK)
      std::fprintf(stderr, "skerry: MPI_Finalize: %s\n", skerry_last_error());
    job->job = nullptr;
    if (is_up()) real().Comm_free(&job->comm);
  }
}

// In MPI_Finalize, before anything of MPI ends. Callbacks of attributes that the program set before
// its first window come behind this one, and may use and free windows: so jobs end later, unless
// MPI_Finalize was not called through the preloaded library.
int on_finalize(MPI_Comm, int, void*, void*) {
  {
    const std::lock_guard guard(jobs_mutex());
    is_closing = true;
  }
  if (!is_deferred) end_jobs();
  return MPI_SUCCESS;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

void end_with_mpi() {
  static const bool done = [] {
    int keyval = MPI_KEYVAL_INVALID;
    real().Comm_create_keyval(copy_nothing, on_finalize, &keyval, nullptr);
    return real().Comm_set_attr(MPI_COMM_SELF, keyval, nullptr) == MPI_SUCCESS;
  }();
  (void)done;
}

// ---- start -------------------------------------------------------------------------------------

skerry_exchange exchange_over(MPI_Comm* comm, int rank, int size) {
  skerry_exchange exchange{};
  exchange.size = sizeof exchange;
  exchange.position = rank;
  exchange.count = size;
  exchange.context = comm;
  exchange.allgather = [](void* context, const void* in, uint64_t bytes, void* out) -> int {
    if (bytes > INT_MAX) return MPI_ERR_COUNT;
    const int count = static_cast<int>(bytes);
    return real().Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE,
                            *static_cast<MPI_Comm*>(context));
  };
  exchange.abort = [](void* context, int exit_status) {
    if (is_up()) real().Abort(*static_cast<MPI_Comm*>(context), exit_status);
  };
  return exchange;
}

// A rank that waits inside Skerry moves MPI's messages on, as one that waits in MPI does, and so
// does one that polls (progress.hpp). Only where the program's level of threads lets this thread
// call MPI.
void progress_mpi(void* context) {
  if (!is_up()) return;
  int level = MPI_THREAD_SINGLE, is_main = 0, there = 0;
  real().Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED && real().Is_thread_main(&is_main) == MPI_SUCCESS &&
      is_main == 0)
    return;
  real().Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *static_cast<MPI_Comm*>(context), &there,
                MPI_STATUS_IGNORE);
}

// Does every rank agree? `why` becomes a reason of some rank that does not.
bool all_agree(const Communicator& over, bool yes, std::string* why) {
  char mine[1024] = {};
  if (!yes) std::snprintf(mine, sizeof mine, "rank %d: %s", over.rank, why->c_str());
  int no = yes ? over.size : over.rank, lowest = over.size;
  real().Allreduce(&no, &lowest, 1, MPI_INT, MPI_MIN, over.comm);
  if (lowest == over.size) return true;
  real().Bcast(mine, sizeof mine, MPI_BYTE, lowest, over.comm);
  *why = mine;
  return false;
}

std::shared_ptr<Job> start_job(const Communicator& over, uint64_t id, std::string* why) {
  auto made = std::make_shared<Job>();
  made->id = id;
  real().Comm_dup(over.comm, &made->comm);
  real().Comm_group(made->comm, &made->group);
  const skerry_exchange exchange = exchange_over(&made->comm, over.rank, over.size);
  skerry_options options = SKERRY_OPTIONS_INIT;
  int provided = MPI_THREAD_SINGLE;
  real().Query_thread(&provided);
  made->is_multiple = provided == MPI_THREAD_MULTIPLE;
  options.exchange = &exchange;
  options.thread_level = provided == MPI_THREAD_MULTIPLE ? SKERRY_THREAD_MULTIPLE
                                                         : SKERRY_THREAD_SERIALIZED;
  bool good = false;
  {
    int all = 0;
    real().Comm_size(MPI_COMM_WORLD, &all);
    const compat::NodesOfPart nodes(over.size, all);
    good = skerry_init(&options, &made->job) == SKERRY_OK;
  }
  if (!good) {
    *why = skerry_last_error();
    made->job = nullptr;
  }
  if (!all_agree(over, good, why)) return nullptr;
  skerry_while_waiting(made->job, progress_mpi, &made->comm);
  good = skerry_mutexes_create(skerry_world(made->job), update_mutexes, &made->mutexes) ==
         SKERRY_OK;
  if (!good) {
    *why = skerry_last_error();
    skerry_finalize(made->job);
    return nullptr;
  }
  end_with_mpi();
  const std::lock_guard guard(jobs_mutex());
  jobs().push_back(made);
  return made;
}

// ---- who is there ------------------------------------------------------------------------------

[[noreturn]] void refuse(const Communicator& over, const std::string& what) {
  std::fprintf(stderr, "skerry: %s\n", what.c_str());
  real().Abort(over.comm, 1);
  std::abort();
}

[[noreturn]] void refuse_without(const Communicator& over, int rank) {
  refuse(over, text("rank ", rank, " of ", over.size,
                    " does not have libskerry_mpi.so preloaded, and rank 0 has: export "
                    "LD_PRELOAD to all processes (mpirun -x LD_PRELOAD), or to none"));
}

// How long rank 0 waits for the others. Time in which this process did not run is not silence.
class Silence {
 public:
  // Does rank `k` lack the library, as far as one can know by now? Sleeps a little after a while.
  bool is_too_long(const Communicator& over, int k) {
    const int64_t now = now_s();
    const bool is_next = now != last_s_;
    if (is_next) ++seconds_;
    last_s_ = now;
    if (seconds_ > 1) {
      const timespec a_little{0, 1'000'000};
      nanosleep(&a_little, nullptr);
    }
    if (!is_next || seconds_ < silence_s) return false;
    switch (look_for(world_rank(over, over.rank), world_rank(over, k))) {
      case Sight::with: return false;
      case Sight::without: return true;
      case Sight::nowhere: break;
    }
    if (told_of_ != k)
      std::fprintf(stderr,
                   "skerry: rank %d of %d has not answered for %lld s: its process is stopped, or "
                   "does not have libskerry_mpi.so preloaded (mpirun -x LD_PRELOAD). Waiting for "
                   "it until %lld s\n",
                   k, over.size, static_cast<long long>(seconds_),
                   static_cast<long long>(longest_silence_s));
    told_of_ = k;
    return seconds_ >= longest_silence_s;
  }

 private:
  static int world_rank(const Communicator& over, int rank) {
    MPI_Group world = MPI_GROUP_NULL;
    int found = -1;
    real().Comm_group(MPI_COMM_WORLD, &world);
    real().Group_translate_ranks(over.group, 1, &rank, world, &found);
    real().Group_free(&world);
    return found;
  }
  int64_t last_s_ = now_s(), seconds_ = 0;  // of the clock's last change; with this process running
  int told_of_ = -1;                        // a rank; below 0: none
};

// Every rank told rank 0 that it runs this library. One that was started without it is by now
// inside its own MPI library, which has made the duplicate with us for a window of its own; from
// here on it would answer to nothing that we send.
void expect_hellos(const Communicator& over, uint32_t* unwanted) {
  std::vector<Hello> told(static_cast<size_t>(over.size));
  std::vector<MPI_Request> requests(static_cast<size_t>(over.size), MPI_REQUEST_NULL);
  for (int k = 1; k < over.size; ++k)
    real().Irecv(&told[k], sizeof(Hello), MPI_BYTE, k, hello_tag, over.comm, &requests[k]);
  Silence silence;
  for (int k = 1; k < over.size; ++k) {
    for (int done = 0; done == 0;) {
      real().Test(&requests[k], &done, MPI_STATUS_IGNORE);
      if (done == 0 && silence.is_too_long(over, k)) refuse_without(over, k);
    }
    const Hello expected = hello_of(true);
    if (std::memcmp(told[k].what, expected.what, sizeof expected.what) != 0 ||
        told[k].version != expected.version)
      refuse(over, text("rank ", k,
                        " has another version of libskerry_mpi.so preloaded than rank "
                        "0: install the same on all hosts"));
    if (told[k].wanted == 0 && *unwanted == 0) *unwanted = static_cast<uint32_t>(k) + 1;
  }
}

// A job that all members of the communicator are in.
std::shared_ptr<Job> job_of(const Communicator& over) {
  std::vector<int> all(static_cast<size_t>(over.size)), there(all.size());
  for (int k = 0; k < over.size; ++k) all[k] = k;
  const std::lock_guard guard(jobs_mutex());
  for (const std::shared_ptr<Job>& job : jobs()) {
    if (job->job == nullptr) continue;
    real().Group_translate_ranks(over.group, over.size, all.data(), job->group, there.data());
    bool inside = true;
    for (int rank : there) inside = inside && rank != MPI_UNDEFINED;
    if (inside) return job;
  }
  return nullptr;
}

uint64_t new_id() {
  static uint32_t serial = 0;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<uint64_t>(now.tv_nsec) << 32 ^ static_cast<uint64_t>(now.tv_sec)) *
             2654435761u +
         ++serial + 1;
}

Decision decide(const Communicator& over) {
  Decision decision{};
  const bool wanted = std::getenv("SKERRY_MPI") == nullptr || is_set("SKERRY_MPI");
  const Hello mine = hello_of(wanted);
  if (!wanted) decision.unwanted = static_cast<uint32_t>(over.rank) + 1;
  if (over.rank != 0) {
    real().Send(&mine, sizeof mine, MPI_BYTE, 0, hello_tag, over.comm);
  } else {
    if (over.size > 1) expect_hellos(over, &decision.unwanted);
    const std::shared_ptr<Job> known = job_of(over);
    decision.job = known != nullptr ? known->id : new_id();
    decision.is_new = known == nullptr;
  }
  if (over.size > 1) real().Bcast(&decision, sizeof decision, MPI_BYTE, 0, over.comm);
  return decision;
}

// ---- communicators -----------------------------------------------------------------------------

void find_members(Communicator& made) {
  std::vector<int> all(static_cast<size_t>(made.size));
  for (int k = 0; k < made.size; ++k) all[k] = k;
  made.ranks = all;
  real().Group_translate_ranks(made.group, made.size, all.data(), made.job->group,
                               made.ranks.data());
  skerry_job* const job = made.job->job;
  const bool same = made.ranks == all;
  if (same && made.size == skerry_size(job) && !made.job->is_multiple) {
    made.members = skerry_world(job);
  } else {
    if (make_group(made, &made.members) != SKERRY_OK) {
      made.why_not = skerry_last_error();
      made.members = nullptr;
      made.job = nullptr;
      return;
    }
  }
  made.is_on_one_node = true;
  for (int rank : made.ranks)
    made.is_on_one_node = made.is_on_one_node && skerry_same_node(job, rank) == 1;
  if (same) made.ranks = {};
}

std::shared_ptr<Communicator> make(MPI_Comm comm) {
  auto made = std::make_shared<Communicator>();
  if (real().Comm_dup(comm, &made->comm) != MPI_SUCCESS) return nullptr;
  real().Comm_set_errhandler(made->comm, MPI_ERRORS_RETURN);
  real().Comm_rank(made->comm, &made->rank);
  real().Comm_size(made->comm, &made->size);
  real().Comm_group(made->comm, &made->group);
  const Decision decision = decide(*made);
  if (decision.unwanted != 0) {
    made->why_not = text("SKERRY_MPI=0 on rank ", decision.unwanted - 1);
    return made;
  }
  made->job = decision.is_new != 0 ? start_job(*made, decision.job, &made->why_not) : nullptr;
  if (decision.is_new == 0) {
    const std::lock_guard guard(jobs_mutex());
    for (const std::shared_ptr<Job>& job : jobs())
      if (job->id == decision.job) made->job = job;
  }
  if (made->job != nullptr) find_members(*made);
  if (made->job == nullptr && made->rank == 0)
    std::fprintf(stderr, "skerry: windows stay with the MPI library: %s\n", made->why_not.c_str());
  return made;
}

using Kept = std::shared_ptr<Communicator>;

int forget(MPI_Comm, int, void* kept, void*) {
  delete static_cast<Kept*>(kept);
  return MPI_SUCCESS;
}

int keyval() {
  static const int made = [] {
    int key = MPI_KEYVAL_INVALID;
    real().Comm_create_keyval(copy_nothing, forget, &key, nullptr);
    return key;
  }();
  return made;
}

}  // namespace

Communicator::~Communicator() {
  {
    const std::lock_guard guard(jobs_mutex());
    if (is_closing) return;
  }
  if (job != nullptr && members != nullptr && members != skerry_world(job->job))
    skerry_group_free(members);
  if (group != MPI_GROUP_NULL) real().Group_free(&group);
  if (comm != MPI_COMM_NULL) real().Comm_free(&comm);
}

std::shared_ptr<Communicator> communicator_of(MPI_Comm comm) {
  int connects_two = 0, flag = 0;
  void* found = nullptr;
  if (comm == MPI_COMM_NULL || !is_up()) return nullptr;
  if (real().Comm_test_inter(comm, &connects_two) != MPI_SUCCESS || connects_two != 0)
    return nullptr;
  if (real().Comm_get_attr(comm, keyval(), &found, &flag) == MPI_SUCCESS && flag != 0)
    return *static_cast<Kept*>(found);
  const std::shared_ptr<Communicator> made = make(comm);
  if (made != nullptr) real().Comm_set_attr(comm, keyval(), new Kept(made));
  return made;
}

int make_group(Communicator& over, skerry_group** group) {
  std::vector<int> ranks(static_cast<size_t>(over.size));
  for (int k = 0; k < over.size; ++k) ranks[static_cast<size_t>(k)] = over.job_rank(k);
  const skerry_exchange exchange = exchange_over(&over.comm, over.rank, over.size);
  return skerry_group_create(over.job->job, ranks.data(), &exchange, group);
}

[[gnu::tls_model("initial-exec")]] thread_local constinit uint32_t calls_until_entry = 1;

void enter_mpi(const Window& window) {
  static thread_local constinit Pace pace;
  const int64_t began_ns = now_ns();
  progress_mpi(&window.over->job->comm);
  calls_until_entry = pace.next(began_ns, now_ns());
}

// For the preloaded library, around MPI_Finalize.
extern "C" __attribute__((visibility("default"))) void skerry_mpi_finalize(int is_over) {
  is_deferred = is_over == 0;
  if (is_over != 0 && is_closing && !is_up()) end_jobs();
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0' || std::strcmp(value, "0") == 0) return false;
  if (std::strcmp(value, "1") != 0 && std::strcmp(variable, "SKERRY_CHECK") != 0)
    std::fprintf(stderr, "skerry: %s=%s is taken for 1: give 0 or 1\n", variable, value);
  return true;
}

}  // namespace skerry::mpi
