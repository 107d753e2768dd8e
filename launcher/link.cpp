#include "launcher/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

void Link::end_after_silence(std::chrono::milliseconds limit) {
  const auto ms = static_cast<unsigned>(limit.count());
  if (socket_) (void)setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
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
  push(frame);
  flush();
}

void Link::send(job::FrameType type, uint32_t rank, Payload payload) {
  if (ended()) return;
  push(job::header_of(type, rank, payload->size()));
  if (!payload->empty()) queue_.push_back({{}, std::move(payload)});
  flush();
}

// Behind what waits already, in one piece with it.
void Link::push(std::span<const std::byte> bytes) {
  if (queue_.empty() || queue_.back().shared) queue_.emplace_back();
  queue_.back().own.insert(queue_.back().own.end(), bytes.begin(), bytes.end());
}

void Link::flush() {
  constexpr size_t most_pieces = 16;
  while (!queue_.empty()) {
    iovec pieces[most_pieces];
    size_t count = 0;
    for (auto piece = queue_.begin(); piece != queue_.end() && count < most_pieces; ++piece) {
      const size_t skip = count == 0 ? sent_ : 0;
      pieces[count++] = {const_cast<std::byte*>(piece->bytes().data()) + skip,
                         piece->bytes().size() - skip};
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t got = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) {
      // The other side is gone, but what it said last may still wait to be read: the reader finds
      // the end, not the writer.
      queue_.clear();
      sent_ = 0;
      break;
    }
    sent(static_cast<size_t>(got));
  }
  if (const bool wanted = !all_sent(); wanted != watching_output_) {
    watching_output_ = wanted;
    loop_.change(socket_.get(), EPOLLIN | (wanted ? uint32_t{EPOLLOUT} : 0u));
  }
}

void Link::sent(size_t bytes) {
  for (sent_ += bytes; !queue_.empty() && sent_ >= queue_.front().bytes().size();
       queue_.pop_front())
    sent_ -= queue_.front().bytes().size();
}

void Link::end(const std::string& why) {
  loop_.forget(socket_.get());
  socket_.reset();
  on_end_(why);
}

}  // namespace skerry::launcher
