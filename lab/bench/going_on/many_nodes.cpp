// What the launcher of a large job does when a host is lost and all others shrink their group.
//
//   many_nodes [--nodes LIST] [--per-node N]
//
// The launcher's part is real: its links, its event loop, its meetings, over local sockets. One
// process plays all agents and their ranks, on this machine: there is no network, and no rank
// computes. So the numbers are simulated; the processor's time is the launcher's own.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/pure/status.hpp"
#include "launcher/link.hpp"
#include "launcher/meetings.hpp"

namespace {

using namespace skerry;
using namespace skerry::launcher;
using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

// Who lives; what names the group; that every member is ready. As in Survivors::make.
constexpr int meetings_of_a_shrink = 3;

struct Shape {
  uint32_t nodes, per_node;
  uint32_t lost() const { return nodes / 2; }
  uint32_t first_of(uint32_t node) const { return node * per_node; }
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string key_of(int meeting) { return concat("shrink.0.1.", meeting); }

// ---- the agents and their ranks ----------------------------------------------------------------

class Agents {
 public:
  Agents(Shape shape, std::vector<int> sockets) : shape_(shape) {
    for (const int fd : sockets) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = static_cast<uint32_t>(all_.size());
      all_.emplace_back(fd);
      if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
    }
  }

  // Until each has been told of the last meeting.
  void run() {
    for (uint32_t left = shape_.nodes - 1; left > 0;) {
      epoll_event events[64];
      const int count = epoll_wait(epoll_, events, 64, -1);
      for (int i = 0; i < count; ++i) left -= hear(events[i].data.u32) ? 1 : 0;
    }
  }

 private:
  struct Agent {
    explicit Agent(int socket) : fd(socket), buffer(job::max_link_payload) {}
    int fd;
    job::FrameBuffer buffer;
    uint32_t deaths = 0;
    int meeting = 0;  // its ranks have come to this one
  };

  // True: it has nothing more to do.
  bool hear(uint32_t number) {
    Agent& agent = all_[number];
    std::array<std::byte, 65536> chunk;
    const ssize_t got = recv(agent.fd, chunk.data(), chunk.size(), 0);
    if (got <= 0) std::abort();
    agent.buffer.append(std::span(chunk).first(static_cast<size_t>(got)));
    for (std::optional<Frame> frame; agent.buffer.next(&frame).ok() && frame;) {
      if (frame->type == FrameType::rank_died && ++agent.deaths == shape_.per_node)
        come(number, &agent);
      if (frame->type != FrameType::met) continue;
      FrameReader reader(*frame);
      (void)reader.string();
      if (reader.u8() == 0) continue;
      if (agent.meeting == meetings_of_a_shrink) {
        epoll_ctl(epoll_, EPOLL_CTL_DEL, agent.fd, nullptr);
        close(agent.fd);
        return true;
      }
      come(number, &agent);
    }
    return false;
  }

  // Each rank's word goes on as it comes.
  void come(uint32_t number, Agent* agent) {
    ++agent->meeting;
    const uint32_t first = shape_.first_of(number), lost = shape_.first_of(shape_.lost());
    const uint32_t behind = lost + shape_.per_node;
    for (uint32_t rank = first; rank < first + shape_.per_node; ++rank) {
      FrameWriter frame(FrameType::meet, rank);
      frame.string(key_of(agent->meeting)).u32(job::all_ranks).u32(0);
      if (agent->meeting == 1) frame.u32(1).u32(0).u32(shape_.first_of(shape_.nodes));
      else frame.u32(2).u32(0).u32(lost).u32(behind).u32(shape_.first_of(shape_.nodes) - behind);
      if (agent->meeting > 1)
        frame.u32(0).u32(agent->meeting == 2 && rank == 0 ? 7 : 0).u64(0);  // the lowest names it
      const auto bytes = frame.finish();
      if (send(agent->fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        std::abort();
    }
  }

  Shape shape_;
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Agent> all_;
};

// ---- the launcher ------------------------------------------------------------------------------

class Launcher {
 public:
  Launcher(Shape shape, const std::vector<int>& sockets)
      : shape_(shape), meetings_(shape.nodes * shape.per_node), left_(shape.nodes - 1) {
    for (uint32_t node = 0; node < shape.nodes; ++node)
      links_.push_back(std::make_unique<Link>(
          loop_, UniqueFd(sockets[node]), job::max_control_payload,
          [this](const Frame& frame) { on_meet(frame); },
          [this](const std::string&) {
            if (--left_ == 0) loop_.stop(0);
          }));
  }

  // As Job::go_on_without_host; then until all agents have gone.
  void lose_a_host() {
    begin_ = seconds();
    std::vector<std::byte> frames;
    const uint32_t first = shape_.first_of(shape_.lost());
    for (uint32_t rank = first; rank < first + shape_.per_node; ++rank) {
      const auto frame = FrameWriter(FrameType::rank_died, job::all_ranks)
                             .u32(rank)
                             .string("was on host n5000, which was silent for 1000 ms")
                             .u32(rank - first + 1)
                             .finish();
      frames.insert(frames.end(), frame.begin(), frame.end());
      (void)meetings_.died(rank);
    }
    to_all([&](Link& link) {
      link.send(frames);
      return frames.size();
    });
    told_ = seconds() - begin_;
    loop_.run();
    print();
  }

 private:
  template <class Send>
  void to_all(Send&& send) {
    for (uint32_t node = 0; node < shape_.nodes; ++node)
      if (node != shape_.lost()) bytes_ += send(*links_[node]);
  }

  // As Job::on_meet and tell_met.
  void on_meet(const Frame& frame) {
    FrameReader reader(frame);
    const std::string key(reader.string());
    (void)reader.u32();
    const uint32_t size = reader.u32(), count = reader.u32();
    std::vector<Meetings::Run> members;
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      const uint32_t first = reader.u32();
      members.push_back({first, reader.u32()});
    }
    bool is_first = false;
    for (const auto& outcome :
         meetings_.come(frame.rank, key, members, reader.rest(), &is_first, size)) {
      met_.push_back(seconds() - begin_);
      for (const auto& payload : Meetings::payloads_of(outcome))
        to_all([&](Link& link) {
          link.send(FrameType::met, job::all_ranks, payload);
          return sizeof(job::FrameHeader) + payload->size();
        });
    }
    (void)meetings_.wanted_elsewhere(job::leave_meeting, key, frame.rank, is_first);
  }

  void print() const {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto s = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    std::printf("%7u %8u %10.3f", shape_.nodes, shape_.nodes * shape_.per_node, told_);
    for (const double met : met_) std::printf(" %9.3f", met);
    std::printf(" %9.3f %10.3f %8.1f\n", seconds() - begin_, s(used.ru_utime) + s(used.ru_stime),
                static_cast<double>(bytes_) / 1e6);
  }

  Shape shape_;
  EventLoop loop_;
  std::vector<std::unique_ptr<Link>> links_;
  Meetings meetings_;
  uint32_t left_;
  double begin_ = 0, told_ = 0;
  std::vector<double> met_;
  uint64_t bytes_ = 0;
};

void fail(const char* what) {
  std::fprintf(stderr, "many_nodes: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// One end of as many connections as there are nodes, in their order. Each process has its own ends
// alone: few may open more than 20,000 files.
std::vector<int> connections(Shape shape, int listener, const sockaddr_un& name, bool connects) {
  std::vector<int> ends;
  for (uint32_t node = 0; node < shape.nodes; ++node) {
    int fd = -1;
    if (connects) {
      fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) fail("connect");
    } else {
      fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    }
    if (fd < 0) fail("a descriptor for each node (ulimit -n)");
    ends.push_back(fd);
  }
  return ends;
}

// In a process of its own, whose processor's time is then the launcher's.
void try_one(Shape shape) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  (void)std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "many_nodes.%d", getpid());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      listen(listener, 64) != 0)
    fail("a socket to meet at");
  const pid_t agents = fork();
  if (agents == 0) {
    Agents(shape, connections(shape, listener, name, true)).run();
    _exit(0);
  }
  Launcher(shape, connections(shape, listener, name, false)).lose_a_host();
  (void)waitpid(agents, nullptr, 0);
}

}  // namespace

int main(int count, char** arguments) {
  Shape shape{0, 16};
  std::string nodes = "4,100,1000,10000";
  for (int i = 1; i < count; i += 2) {
    const std::string option = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
    if (option == "--nodes") {
      nodes = value;
    } else if (option == "--per-node" && std::atoi(value.c_str()) > 0) {
      shape.per_node = static_cast<uint32_t>(std::atoi(value.c_str()));
    } else {
      std::fprintf(stderr, "usage: many_nodes [--nodes 4,100,1000,10000] [--per-node 16]\n");
      return 2;
    }
  }
  std::printf("simulated: seconds from the loss, agents and ranks played by one process\n"
              "  nodes    ranks  told all   who lives     named     ready       end"
              "  launcher s  MB sent\n");
  for (size_t at = 0; at < nodes.size();) {
    const size_t end = std::min(nodes.find(',', at), nodes.size());
    shape.nodes = static_cast<uint32_t>(std::atoi(nodes.substr(at, end - at).c_str()));
    if (shape.nodes < 2 || shape.nodes > 1'000'000) {
      std::fprintf(stderr, "many_nodes: --nodes %s: give numbers from 2 to 1000000\n",
                   nodes.c_str());
      return 2;
    }
    std::fflush(stdout);
    const pid_t one = fork();
    if (one == 0) {
      try_one(shape);
      std::exit(0);
    }
    (void)waitpid(one, nullptr, 0);
    at = end + 1;
  }
  return 0;
}
