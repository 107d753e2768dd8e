// Start, end and errors.
#include "runtime.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../nodes_of_part.hpp"
#include "unaligned.hpp"

namespace skerry::armci {

Runtime& runtime() {
  static Runtime* the_only = new Runtime;  // never destroyed: what runs at exit may still look
  return *the_only;
}

bool mpi_is_up() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

namespace {
std::atomic<bool> dying{false};  // the end is under way: what runs at exit keeps still

// A launcher sees the low eight bits.
int failing(int code) { return (code & 0xff) == 0 ? 1 : code; }
}  // namespace

void die(const char* call, const std::string& what, int code) {
  const std::string line = text("ARMCI_", call, ": ", what);
  code = failing(code);
  dying = true;
  if (runtime().job != nullptr) skerry_abort(runtime().job, code, line.c_str());
  std::fflush(nullptr);
  std::fprintf(stderr, "%s\n", line.c_str());
  if (mpi_is_up()) {
    // Hydra forgets what it has not read of a process that aborts, and nothing tells when it has
    // read: the pipe may be empty and the line lost between its own processes.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  std::_Exit(code);
}

int complain(const char* call, const std::string& what) {
  std::fprintf(stderr, "%d: ARMCI_%s: %s\n", runtime().rank, call, what.c_str());
  return -1;
}

skerry_exchange exchange_over(MPI_Comm* comm) {
  skerry_exchange exchange{};
  exchange.size = sizeof exchange;
  MPI_Comm_rank(*comm, &exchange.position);
  MPI_Comm_size(*comm, &exchange.count);
  exchange.context = comm;
  exchange.allgather = [](void* context, const void* in, uint64_t bytes, void* out) -> int {
    if (bytes > INT_MAX) return MPI_ERR_COUNT;
    const int count = static_cast<int>(bytes);
    return MPI_Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE,
                         *static_cast<MPI_Comm*>(context));
  };
  exchange.abort = [](void* context, int exit_status) {
    dying = true;
    if (mpi_is_up()) MPI_Abort(*static_cast<MPI_Comm*>(context), exit_status);
  };
  return exchange;
}

namespace {

// MPI that ARMCI_Init started ends here and not in ARMCI_Finalize, because Global Arrays frees a
// communicator after that.
//
// A program that finalises MPI and ends without ARMCI_Finalize has meant no harm: leave the job in
// order. One that exits in the middle, with MPI alive, ends the job: the others would wait for it,
// and a launcher that sees status 0 may end them without a word.
void at_exit(int status, void*) {
  Runtime& rt = runtime();
  if (getpid() != rt.process) return;  // a forked child: the job is its parent's
  if (dying) return;
  if (rt.job == nullptr) {
    if (rt.owns_mpi && mpi_is_up()) MPI_Finalize();
    return;
  }
  if (!mpi_is_up()) {
    rt.starts = 1;
    PARMCI_Finalize();
    return;
  }
  std::fprintf(
      stderr,
      "ARMCI: process %d exits with status %d but without ARMCI_Finalize: it ends the job\n",
      rt.rank, status);
  std::fflush(nullptr);
  _exit(failing(status));
}

// MPI moves a message only while its sender, too, is in a call of MPI; and a send may be over for
// the program long before. Programs that mix ARMCI with message passing (ScaLAPACK under Global
// Arrays) would wait for ever for one whose sender has gone on to a barrier of ARMCI. Only where
// the program's level of threads lets this thread call MPI: any, or with the lower levels the one
// that waits for ARMCI alone.
void progress_mpi(void* messages) {
  if (!mpi_is_up()) return;
  int level = MPI_THREAD_SINGLE, is_main = 0, there = 0;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE && runtime().multiple) return;
  if (level < MPI_THREAD_SERIALIZED && MPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main == 0)
    return;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *static_cast<MPI_Comm*>(messages), &there,
             MPI_STATUS_IGNORE);
}

// Programs do not look at what ARMCI_Init answers and go on without it: what goes wrong while
// starting ends the job.
int start(const char* call, int required, MPI_Comm comm) {
  Runtime& rt = runtime();
  if (rt.job != nullptr) {
    ++rt.starts;
    return 0;
  }
  int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Finalized(&finalized);
  if (finalized != 0) die(call, "MPI has been finalised already: start ARMCI before MPI_Finalize");
  if (initialized == 0) {
    MPI_Init_thread(nullptr, nullptr, required, &provided);
    rt.owns_mpi = true;
  } else {
    MPI_Query_thread(&provided);
  }
  if (const int failed = MPI_Comm_dup(comm, &rt.world.comm); failed != MPI_SUCCESS)
    die(call, "MPI_Comm_dup failed");
  MPI_Comm_dup(comm, &rt.messages);
  MPI_Comm_rank(rt.messages, &rt.rank);
  MPI_Comm_size(rt.messages, &rt.size);
  if (const char* started = std::getenv("SKERRY_SIZE");
      started != nullptr && rt.size == 1 && std::atoi(started) > 1)
    die(call,
        "skerry run starts no MPI, so this process is alone: start programs that use MPI with "
        "mpirun (or srun)");

  const skerry_exchange exchange = exchange_over(&rt.messages);
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.exchange = &exchange;
  rt.multiple = required == MPI_THREAD_MULTIPLE || provided == MPI_THREAD_MULTIPLE;
  options.thread_level = rt.multiple ? SKERRY_THREAD_MULTIPLE : SKERRY_THREAD_SERIALIZED;
  {
    int all = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    const compat::NodesOfPart nodes(rt.size, all);
    if (skerry_init(&options, &rt.job) != SKERRY_OK) {
      rt.job = nullptr;
      die(call, skerry_last_error());
    }
  }
  rt.starts = 1;
  rt.process = getpid();
  settle(call, skerry_while_waiting(rt.job, progress_mpi, &rt.messages));
  start_groups();
  settle(call, start_notifications());
  settle(call, start_unaligned());
  static const int registered = on_exit(at_exit, nullptr);
  (void)registered;
  return 0;
}

// The level the program asked MPI for decides, unless it says more here.
int level_of_mpi() {
  int level = MPI_THREAD_SINGLE;
  if (mpi_is_up()) MPI_Query_thread(&level);
  return level;
}

}  // namespace

PROFILED(int, Init, (void)) { return start("Init", level_of_mpi(), MPI_COMM_WORLD); }
PROFILED(int, Init_args, (int*, char***)) {
  return start("Init_args", level_of_mpi(), MPI_COMM_WORLD);
}
PROFILED(int, Init_thread, (int required)) {
  return start("Init_thread", required, MPI_COMM_WORLD);
}
PROFILED(int, Init_mpi_comm, (MPI_Comm comm)) {
  return start("Init_mpi_comm", level_of_mpi(), comm);
}
PROFILED(int, Init_thread_comm, (int required, MPI_Comm comm)) {
  return start("Init_thread_comm", required, comm);
}
PROFILED(int, Initialized, (void)) { return runtime().job != nullptr ? 1 : 0; }

PROFILED(int, Finalize, (void)) {
  Runtime& rt = runtime();
  if (rt.job == nullptr || --rt.starts > 0) return 0;
  end_memory();
  end_handles();
  const int status = skerry_finalize(rt.job);
  const std::string why = status == SKERRY_OK ? "" : skerry_last_error();
  rt.job = nullptr;
  end_groups();
  if (mpi_is_up()) MPI_Comm_free(&rt.messages);
  rt.messages = MPI_COMM_NULL;
  return status == SKERRY_OK ? 0 : complain("Finalize", why);
}

PROFILED(void, Cleanup, (void)) {}

extern "C" void PARMCI_Error(const char* message, int code) {
  die("Error", text(message == nullptr ? "" : message, " (", code, ")"), code);
}
extern "C" __attribute__((weak, alias("PARMCI_Error"))) void ARMCI_Error(const char* message,
                                                                         int code);

}  // namespace skerry::armci
