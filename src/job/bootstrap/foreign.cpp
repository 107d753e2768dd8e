#include "job/bootstrap/foreign.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>

namespace skerry::job {

unsigned next_join() {
  static std::atomic<unsigned> joins{0};
  return joins.fetch_add(1);
}

std::vector<std::string> loaded_libraries(std::string_view process, std::string_view prefix) {
  std::vector<std::string> found;
  std::ifstream maps(concat("/proc/", process, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const std::string path = line.substr(begin);
    if (path.compare(path.rfind('/') + 1, prefix.size(), prefix) == 0 &&
        (found.empty() || found.back() != path))
      found.push_back(path);
  }
  return found;
}

Status ForeignBootstrap::fence() {
  if (start_is_over_) {
    // A rank may come late: it is closing a connection that broke, or stands in a debugger. If it
    // is dead, the launcher ends the job.
    constexpr std::chrono::hours patience(24);
    return launcher_ends_job() ? meet(patience) : meet();
  }
  const bool first = !meeting_.ready() && size() > 1;
  std::vector<std::byte> invitation;
  if (first) SKERRY_TRY(meeting_.open(rank(), size(), &invitation));
  if (!invitation.empty()) SKERRY_TRY(put(Meeting::invitation_key, invitation));
  SKERRY_TRY(exchange_values());
  if (!first || rank() == 0) return {};
  SKERRY_TRY(get(Meeting::parent_of(rank()), Meeting::invitation_key, &invitation));
  return meeting_.accept_invitation(invitation);
}

// Says why, as our own launcher would.
void ForeignBootstrap::abort(int exit_status, std::string_view message) {
  std::fflush(nullptr);
  std::fprintf(stderr, "skerry: rank %d ended the job: %.*s\n", rank(),
               static_cast<int>(message.size()), message.data());
  // A launcher that is told to abort may drop what it has not read yet (hydra does): let it read
  // this first, for a moment.
  int unread = 0;
  for (int i = 0; i < 100 && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0; ++i)
    (void)poll(nullptr, 0, 5);
  end_job(exit_status);
  _exit(exit_status);
}

}  // namespace skerry::job
