#include "launcher/link.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace skerry::launcher {

Link::Link(EventLoop& loop, UniqueFd socket, size_t max_payload, OnFrame on_frame, OnEnd on_end)
    : loop_(loop),
      socket_(std::move(socket)),
      incoming_(max_payload),
      on_frame_(std::move(on_frame)),
      on_end_(std::move(on_end)) {
  loop_.watch(socket_.get(), EPOLLIN, [this](uint32_t events) { on_event(events); });
}

Link::~Link() {
  if (socket_) loop_.forget(socket_.get());
}

UniqueFd Link::release() {
  if (socket_) loop_.forget(socket_.get());
  return std::move(socket_);
}

void Link::on_event(uint32_t events) {
  if (events & EPOLLOUT) flush();
  if (!ended() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) on_readable();
}

void Link::on_readable() {
  std::byte chunk[64 * 1024];
  while (!ended()) {
    const ssize_t got = recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return end(std::strerror(errno));
    if (got == 0) return end("closed by the other side");
    incoming_.append(std::span(chunk, static_cast<size_t>(got)));
    hand_out();
  }
}

void Link::hand_out() {
  while (!ended()) {
    std::optional<job::Frame> frame;
    if (const Status status = incoming_.next(&frame); !status.ok()) return end(status.message());
    if (!frame) return;
    on_frame_(*frame);
  }
}

void Link::send(const std::vector<std::byte>& frame) {
  if (ended()) return;
  queue_.insert(queue_.end(), frame.begin(), frame.end());
  flush();
}

void Link::flush() {
  while (sent_ < queue_.size()) {
    const ssize_t got = ::send(socket_.get(), queue_.data() + sent_, queue_.size() - sent_,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) {
      // The other side is gone, but what it said last may still wait to be read: the reader finds
      // the end, not the writer.
      sent_ = queue_.size();
      break;
    }
    sent_ += static_cast<size_t>(got);
  }
  if (all_sent()) {
    queue_.clear();
    sent_ = 0;
  }
  if (const bool wanted = !all_sent(); wanted != watching_output_) {
    watching_output_ = wanted;
    loop_.change(socket_.get(), EPOLLIN | (wanted ? uint32_t{EPOLLOUT} : 0u));
  }
}

void Link::end(const std::string& why) {
  loop_.forget(socket_.get());
  socket_.reset();
  on_end_(why);
}

}  // namespace skerry::launcher
