#include "launcher/lookout.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "launcher/child.hpp"
#include "launcher/helper_program.hpp"
#include "launcher/lookout_name.hpp"

namespace skerry::launcher {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

namespace {

constexpr size_t most_visitors = 8, most_reports = 4;
constexpr size_t most_text = job::max_link_payload / 2;
constexpr auto patience = std::chrono::seconds(10);

}  // namespace

Lookout::~Lookout() {
  if (listener_) loop_.forget(listener_.get());
  for (const Report& report : reports_)
    if (report.output) loop_.forget(report.output.get());
}

void Lookout::open() {
  sockaddr_un address;
  const socklen_t length = lookout_address(getpid(), &address);
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made || bind(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(made.get(), 8) != 0)
    return;
  listener_ = std::move(made);
  loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_one(); });
}

void Lookout::accept_one() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      (peer.uid != geteuid() && peer.uid != 0))
    return;
  std::erase_if(visitors_, [](const Visitor& each) { return each.link->ended(); });
  if (visitors_.size() >= most_visitors) return;
  Visitor& visitor = visitors_.emplace_back();
  const uint32_t request = visitor.request = ++last_request_;
  visitor.link = std::make_unique<Link>(
      loop_, std::move(socket), job::max_control_payload,
      [this, request](const Frame& frame) { on_wish(request, frame); },
      [](const std::string&) {});
  (void)loop_.after(patience, [this, request] { dismiss(request); });
  launcher_.send(FrameWriter(FrameType::look_wanted).u32(request).finish());
}

// `skerry drain`: all else that a reader may send is nothing to us.
void Lookout::on_wish(uint32_t request, const Frame& frame) {
  FrameReader reader(frame);
  (void)reader.u32();
  const std::string host(reader.string());
  if (frame.type == FrameType::drain && reader.done())
    launcher_.send(FrameWriter(FrameType::drain).u32(request).string(host).finish());
}

void Lookout::dismiss(uint32_t request) {
  std::erase_if(visitors_, [&](const Visitor& each) { return each.request == request; });
}

void Lookout::on_looked(const Frame& frame) {
  const uint32_t request = FrameReader(frame).u32();
  const auto visitor = std::ranges::find(visitors_, request, &Visitor::request);
  if (visitor == visitors_.end() || visitor->link->ended()) return;
  visitor->link->send(FrameWriter(frame.type, frame.rank).bytes(frame.payload).finish());
}

void Lookout::on_look(const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t asker = reader.u32(), request = reader.u32();
  const std::string program = helper_program("skerry-look");
  int pipe[2];
  if (!reader.ok() || program.empty() || reports_.size() >= most_reports ||
      pipe2(pipe, O_CLOEXEC) != 0)
    return answer(asker, request, {});
  UniqueFd ours(pipe[0]), theirs(pipe[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ChildOptions child;
  child.command = {program, "report", std::to_string(getpid())};
  child.stdin_fd = child.stderr_fd = null.get();
  child.stdout_fd = theirs.get();
  Report made;
  bool not_found = false;
  if (!start_child(child, &made.pid, &not_found).ok()) return answer(asker, request, {});
  (void)fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  made.asker = asker;
  made.request = request;
  made.output = std::move(ours);
  const auto at = reports_.insert(reports_.end(), std::move(made));
  at->deadline = loop_.after(patience, [this, at] {
    (void)kill(-at->pid, SIGKILL);
    at->deadline = 0;
    at->text.clear();
    finish_report(at);
  });
  loop_.watch(at->output.get(), EPOLLIN, [this, at](uint32_t) { read_report(at); });
}

void Lookout::read_report(std::list<Report>::iterator report) {
  std::byte chunk[64 * 1024];
  const ssize_t got = read(report->output.get(), chunk, sizeof chunk);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0 || report->text.size() + static_cast<size_t>(got) > most_text)
    return finish_report(report);
  report->text.insert(report->text.end(), chunk, chunk + got);
}

// The child is reaped with the others.
void Lookout::finish_report(std::list<Report>::iterator report) {
  loop_.cancel(report->deadline);
  loop_.forget(report->output.get());
  answer(report->asker, report->request, report->text);
  reports_.erase(report);
}

void Lookout::answer(uint32_t asker, uint32_t request, const std::vector<std::byte>& text) {
  launcher_.send(FrameWriter(FrameType::report).u32(asker).u32(request).bytes(text).finish());
}

}  // namespace skerry::launcher
