// Frames over a stream socket inside an EventLoop: what is sent queues, what arrives is handed out
// frame by frame.
#pragma once

#include <functional>
#include <vector>

#include "job/bootstrap/control_protocol.hpp"
#include "launcher/event_loop.hpp"

namespace skerry::launcher {

class Link {
 public:
  using OnFrame = std::function<void(const job::Frame&)>;
  // The connection ended; the argument says why ("closed by the other side", "Connection reset by
  // peer", a broken frame). Called once; frames that came before it were handed out. Neither
  // handler may destroy the link.
  using OnEnd = std::function<void(const std::string& why)>;

  Link(EventLoop& loop, UniqueFd socket, size_t max_payload, OnFrame on_frame, OnEnd on_end);
  ~Link();
  Link(const Link&) = delete;

  // Never blocks; after the end it does nothing.
  void send(const std::vector<std::byte>& frame);
  bool ended() const { return !socket_; }
  // Gives the socket back; the link has ended without a word. Nothing may be in flight.
  UniqueFd release();
  // Ends the link without a word.
  void close() { (void)release(); }
  bool all_sent() const { return sent_ == queue_.size(); }
  // Reads what has already arrived (e.g. a last word before an end that was noticed elsewhere).
  void drain() { on_readable(); }

 private:
  void on_event(uint32_t events);
  void on_readable();
  void hand_out();
  void flush();
  void end(const std::string& why);

  EventLoop& loop_;
  UniqueFd socket_;  // none: ended
  job::FrameBuffer incoming_;
  std::vector<std::byte> queue_;  // bytes to send, of which the first sent_ have gone
  size_t sent_ = 0;
  bool watching_output_ = false;
  OnFrame on_frame_;
  OnEnd on_end_;
};

}  // namespace skerry::launcher
