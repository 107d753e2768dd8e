// An admitted but malicious peer: it completes the handshake with the job's key, then sends random
// requests, whole and damaged. The data server answers, refuses or closes; it never crashes, never
// touches memory outside the slices (under AddressSanitizer), and goes on serving others. Runs as
// ranks that are threads of one process: fuzz [--seed N] [--rounds N].
#include <sodium.h>

#include <atomic>
#include <thread>

#include "capi/handles.hpp"
#include "connection/hello.hpp"
#include "fabric/fabric.hpp"
#include "job/bootstrap/test/thread_bootstrap.hpp"
#include "ops/check.hpp"
#include "wire/message.hpp"

using namespace skerry;
using namespace skerry::test;

namespace {

constexpr uint32_t node = 1;  // whose server is attacked
constexpr uint64_t slice_bytes = 100'000;

// The attacker's side of the fabric: notes what happens, throws answers away.
class Attacker final : private fabric::Sink {
 public:
  Attacker(std::unique_ptr<fabric::Fabric> fabric, connection::JobKey key,
           std::vector<std::byte> address)
      : fabric_(std::move(fabric)), key_(key), address_(std::move(address)) {}

  // Opens a connection as `rank`; false if the server refuses.
  bool open(uint32_t rank, uint32_t generation) {
    const connection::Peer peer{node, 0, wire::version, connection::Role::server};
    const auto hello = connection::make_hello(key_, peer, rank, generation);
    state_ = State::opening;
    if (!fabric_->connect(address_, hello, &endpoint_).ok()) return false;
    turn(State::opening);
    return state_ == State::open;
  }
  bool is_open() const { return state_ == State::open; }
  uint64_t applied() const { return applied_; }
  void send(fabric::Bytes header, fabric::Bytes payload) {
    kept_.emplace_back(payload.begin(), payload.end());  // long payloads are referenced
    const uint64_t before = applied_;
    if (fabric_->send(endpoint_, header, kept_.back(), false, 0) == fabric::SendResult::closed)
      state_ = State::closed;
    for (int i = 0; i < 3 && state_ == State::open && applied_ == before; ++i) {
      fabric_->poll(200'000, fabric::no_endpoint);
      fabric_->dispatch(*this);
    }
  }
  void close() {
    if (state_ == State::open) fabric_->close(endpoint_);
    state_ = State::closed;
    kept_.clear();
  }

 private:
  enum class State { closed, opening, open };
  void turn(State while_in) {
    while (state_ == while_in) {
      fabric_->poll(50'000'000, fabric::no_endpoint);
      fabric_->dispatch(*this);
    }
  }
  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes) override {
    if (endpoint == endpoint_) state_ = State::open;
  }
  fabric::Verdict on_message(fabric::EndpointId, fabric::Bytes header, fabric::Bytes) override {
    wire::ReplyHeader reply;
    if (wire::decode(header, &reply).ok() && reply.applied > applied_) applied_ = reply.applied;
    return fabric::Verdict::taken;
  }
  std::byte* place_directly(fabric::EndpointId, fabric::Bytes, uint64_t bytes) override {
    payload_.resize(bytes);
    return payload_.data();
  }
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header, uint64_t) override {
    return on_message(endpoint, header, {});
  }
  void on_writable(fabric::EndpointId) override {}
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  // Late: `send` said closed, so a new connection is being opened already when the event of the old
  // one arrives. It must not count as the new one's refusal (it once did, on machines slow enough
  // for the server to close between two sends).
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason, std::string_view) override {
    if (endpoint == endpoint_) state_ = State::closed;
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  connection::JobKey key_;
  std::vector<std::byte> address_;
  fabric::EndpointId endpoint_ = fabric::no_endpoint;
  State state_ = State::closed;
  uint64_t applied_ = 0;
  std::vector<std::vector<std::byte>> kept_;
  std::vector<std::byte> payload_;
};

// Numbers that find mistakes: small, near the slice's end, near the ends of the types.
uint64_t number(Random& random) {
  switch (below(random, 6)) {
    case 0: return below(random, 64);
    case 1: return slice_bytes - 8 + below(random, 16);
    case 2: return ~uint64_t{0} - below(random, 64);
    case 3: return (uint64_t{1} << below(random, 64)) - below(random, 2);
    case 4: return below(random, slice_bytes);
    default: return random();
  }
}

wire::Request draw(Random& random, uint32_t rank, uint32_t target, SegmentId segment, uint64_t next,
                   std::vector<std::byte>* payload) {
  wire::Request r;
  wire::RequestHeader& h = r.header;
  h.version = wire::version;
  const uint64_t dice = below(random, 8);
  h.kind = static_cast<uint8_t>(dice < 6 ? 1 + dice
                                         : static_cast<uint64_t>(wire::Kind::fetch_update));
  const bool fetches = h.kind == static_cast<uint8_t>(wire::Kind::fetch_update);
  const bool updates = fetches || h.kind == static_cast<uint8_t>(wire::Kind::accumulate);
  h.origin_rank = rank;
  h.incarnation = 1;
  h.target_rank = chance(random, 90) ? target : static_cast<uint32_t>(number(random));
  h.number = chance(random, 96) ? next : number(random);
  h.target_node = node;
  h.segment_owner = segment.owner;
  h.segment_generation = chance(random, 93) ? segment.generation
                                            : static_cast<uint32_t>(number(random));
  if (fetches || h.kind == static_cast<uint8_t>(wire::Kind::get) ||
      h.kind == static_cast<uint8_t>(wire::Kind::read_modify_write) || chance(random, 5))
    h.reply_slot = static_cast<uint32_t>(1 + below(random, 32));
  h.type = static_cast<uint8_t>(below(random, chance(random, 90) ? (updates ? 13 : 6) : 256));
  if (updates || chance(random, 2))
    h.operation = static_cast<uint8_t>(below(random, chance(random, 90) ? 12 : 256));
  h.offset = number(random);
  if (chance(random, 50)) h.offset &= ~uint64_t{15};
  r.extent_bytes = number(random);
  if (h.kind == static_cast<uint8_t>(wire::Kind::get) && chance(random, 80))
    r.extent_bytes %= slice_bytes;
  payload->resize(below(random, chance(random, 10) ? 120'000 : chance(random, 30) ? 66'000 : 256));
  if (chance(random, 60)) payload->resize(payload->size() & ~size_t{15});
  for (auto& b : *payload) b = static_cast<std::byte>(random());
  if (fetches && chance(random, 30)) payload->clear();  // a no-op has none
  if (fetches)
    r.extent_bytes = chance(random, 70) ? payload->size() : number(random) % (2 * slice_bytes);
  const bool data = h.kind <= static_cast<uint8_t>(wire::Kind::accumulate) || fetches;
  if (data && chance(random, 35)) {
    h.flags |= wire::flag_strided;
    r.shape.levels = static_cast<uint32_t>(below(random, 9));
    r.shape.block_bytes = number(random);
    if (chance(random, 70)) r.shape.block_bytes = 8 * below(random, 64);
    r.shape.skip_bytes = chance(random, 60) ? 0 : number(random);
    for (uint32_t k = 0; k < r.shape.levels; ++k) {
      r.level[k] = {chance(random, 80) ? below(random, 6) : number(random),
                    static_cast<int64_t>(number(random))};
      if (chance(random, 70))
        r.level[k].stride = static_cast<int64_t>(below(random, 2000)) * 8 - 8000;
    }
  } else if (data && chance(random, 35)) {
    h.flags |= wire::flag_vector;
    std::vector<Piece> pieces(1 + below(random, 40));
    for (auto& piece : pieces)
      piece = {number(random), chance(random, 80) ? 8 * below(random, 32) : number(random)};
    h.piece_count = static_cast<uint16_t>(chance(random, 90) ? pieces.size() : number(random));
    const auto table = std::as_bytes(std::span(pieces));
    payload->insert(payload->begin(), table.begin(), table.end());
  }
  if (h.kind == static_cast<uint8_t>(wire::Kind::put) && chance(random, 20)) {
    h.flags |= wire::flag_notify;
    r.notify = {number(random), 1};
  }
  if (h.kind == static_cast<uint8_t>(wire::Kind::accumulate) && chance(random, 50))
    h.flags |= wire::flag_scaled;
  r.operands = {number(random), number(random)};
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1;
  int rounds = 300;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::string(argv[i]) == "--rounds") rounds = std::atoi(argv[i + 1]);
  }
  std::printf("fuzz: seed %llu\n", static_cast<unsigned long long>(seed));
  // Ranks 0 and 1 are node 0, rank 2 is node 1.
  auto bootstraps = job::make_thread_bootstraps(3, 2);
  const connection::JobKey key = *bootstraps[0]->launcher_key();
  std::vector<std::thread> ranks;
  std::atomic<int> requests{0}, closed{0};
  for (auto& bootstrap : bootstraps)
    ranks.emplace_back([&, b = std::move(bootstrap)]() mutable {
      job::JobOptions options;
      options.config.huge_pages = false;
      const auto make_fabric = [](const fabric::Options& o, std::unique_ptr<fabric::Fabric>* f) {
        return fabric::make_tcp_fabric(o, f);
      };
      std::unique_ptr<job::Job> made;
      const Status started = job::Job::start(std::move(b), options, make_fabric, &made);
      if (!started.ok()) fail(__FILE__, __LINE__, started.message());
      job::Job& job = *made;
      skerry_job* const handle = capi::to(made.release());
      const int rank = skerry_rank(handle);
      skerry_segment* s = nullptr;
      skerry_mutexes* m = nullptr;
      OK(skerry_segment_alloc(skerry_world(handle), slice_bytes, &s));
      OK(skerry_mutexes_create(skerry_world(handle), 4, &m));
      OK(skerry_sync(skerry_world(handle)));
      if (rank == 0) {
        // Attacks as rank 1, which sends nothing meanwhile: an origin of its own.
        std::unique_ptr<fabric::Fabric> side;
        if (!fabric::make_tcp_fabric({}, &side).ok()) fail(__FILE__, __LINE__, "no fabric");
        const auto address = job.map().server_address({node, 0});
        Attacker attacker(std::move(side), key, {address.begin(), address.end()});
        Random random(seed);
        uint32_t generation = 1'000'000;
        for (int round = 0; round < rounds; ++round) {
          if (!attacker.is_open() && !attacker.open(1, ++generation))
            fail(__FILE__, __LINE__, "an admitted origin was refused");
          const SegmentId id = chance(random, 90) ? capi::of(s)->id() : capi::of(m)->segment().id();
          for (int i = 0; i < 20 && attacker.is_open(); ++i) {
            std::vector<std::byte> payload;
            wire::Request r = draw(random, 1, 2, id, attacker.applied() + 1, &payload);
            // No rank may write mutexes' own bytes; locks on them stay (nobody else takes them).
            const bool locks = r.kind() == wire::Kind::lock || r.kind() == wire::Kind::unlock;
            if (locks != (id == capi::of(m)->segment().id())) continue;
            std::byte header[512];
            uint32_t length = wire::encode(
                r, std::span<std::byte, wire::max_request_bytes>(header, wire::max_request_bytes));
            if (chance(random, 3))
              header[below(random, length)] ^= static_cast<std::byte>(1 + below(random, 255));
            if (chance(random, 1)) length = static_cast<uint32_t>(1 + below(random, length));
            attacker.send({header, length}, payload);
            ++requests;
          }
          if (!attacker.is_open()) ++closed;
          else if (chance(random, 10)) attacker.close();
        }
        // What a closed connection still had under way may be applied late, over the word below: a
        // new connection puts an end to that.
        attacker.close();
        if (!attacker.open(1, ++generation))
          fail(__FILE__, __LINE__, "an admitted origin was refused");
        attacker.close();
        // The server still serves.
        int64_t word = 77, back = 0;
        OK(skerry_put(s, 2, 0, &word, 8));
        OK(skerry_get(s, 2, 0, &back, 8));
        EXPECT_IS(back, word);
        std::printf("fuzz: %d requests, %d connections closed by the server\n", requests.load(),
                    closed.load());
      }
      // Rank 1 was impersonated: its sessions at that server are spoilt, so the orderly way out is
      // not open. Rank 0 ends the process; the others sleep until then, on nothing in a slice:
      // the attacker may write there.
      if (rank != 0)
        for (std::atomic<bool> never{false};;) never.wait(false);
      std::fflush(stdout);
      std::_Exit(0);
    });
  for (auto& rank : ranks) rank.join();
  return 0;
}
