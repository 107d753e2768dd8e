// Applies requests of origins to the memory and the locks of the server's node, and answers them.
// Everything the wire says is checked here: segment, range, alignment, shape. Server's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "lock/host/requests.hpp"
#include "memory/apply.hpp"
#include "memory/stripes.hpp"
#include "server/answers.hpp"
#include "server/node.hpp"
#include "wire/message.hpp"

namespace skerry::server {

// One request while it is applied, and whether what it names exists. A value: valid within one
// upcall of the fabric.
struct Incoming {
  Client& client;
  const wire::Request& request;
  fabric::Bytes payload;
  bool again = false;  // it was applied before: its answer is wanted once more, not its effect
  memory::Region region = {};  // the slice it names, once that is looked up

  session::TargetSession& session() const { return *client.session; }
  bool has(uint8_t flag) const { return request.has(flag); }
  // Strided accesses go to mapped memory only; origins cut those of given memory into pieces.
  // Batches of puts and accumulates go to both.
  Status check_mapped() const;
  Status check_range(uint64_t offset, uint64_t bytes) const;
  Shape shape() const;
  // `bytes` of the shape's stream, from skip_bytes on, in the slice. *at: where the shape begins.
  Status check_shape(uint64_t bytes, std::string_view what, Shape* shape, std::byte** at) const;
  // The table of pieces at the payload's start fits into it.
  Status check_table(uint64_t* table_bytes) const;
  // A grant goes to the rank that the holder names, so no rank may ask in the name of another.
  Status check_holder(lock::Holder holder) const;
};

class Applier {
 public:
  // What became of a request that was not refused.
  enum class Outcome : uint8_t {
    done,      // applied; nobody is told yet
    answered,  // applied and told, or told when its lock is granted
    park,      // something is held for a moment: the same request must come again
  };

  Applier(const NodeView& view, fabric::Fabric& fabric, Directory& directory,
          lock::LockRequests& locks, Answers& answers);
  // The view was filled.
  void open();

  // The session's next request. A status that is not ok refuses it.
  Status apply(Incoming& in, Outcome* outcome);
  // A request arrives again that was applied already: its connection broke before the origin had
  // the answer. Repeats the answer, not the effect.
  void answer_again(Incoming& in);
  // A long put: where its payload goes; and when it is there.
  Status place(Incoming& in, uint64_t bytes, std::byte** to);
  Status placed(Incoming& in, Outcome* outcome);
  // The segment goes: what the fabric was told of it is taken back.
  void forget(SegmentId segment);
  uint64_t memory_bytes() const;

 private:
  struct Registration {
    fabric::RemoteKey key;
    uint64_t handle = 0;  // 0: not registered
  };
  // The elements of an accumulate or a fetching update, and where they go.
  struct Change {
    memory::Update what;
    uint64_t bytes = 0;        // of the elements
    fabric::Bytes operands;    // as many; of a no-op anything
    std::byte* old = nullptr;  // where the elements before it go; null: nowhere
  };

  Status find(Incoming& in);
  std::byte* landing(const Incoming& in, uint64_t bytes) const;
  Status access(Incoming& in, Outcome* outcome);
  Outcome answer(const Incoming& in, fabric::Bytes payload, uint64_t result = 0);
  Status put(const Incoming& in, Outcome* outcome);
  Status notify(const Incoming& in, Outcome* outcome);
  Status get(const Incoming& in, Outcome* outcome);
  Status read_plain(const Incoming& in, uint64_t bytes, fabric::Bytes* answer);
  Status read_pieces(const Incoming& in, fabric::Bytes* data);
  Status read_modify_write(const Incoming& in, Outcome* outcome);
  Status key(const Incoming& in, Outcome* outcome);
  Status accumulate(const Incoming& in, Outcome* outcome);
  Status fetch_update(const Incoming& in, Outcome* outcome);
  Status check_change(const Incoming& in, const Change& change) const;
  memory::Applied change_from(const Incoming& in, const Change& change, uint64_t done) const;
  Status apply_change(const Incoming& in, const Change& change, Outcome* outcome) const;
  Status lock_or_unlock(const Incoming& in, Outcome* outcome);
  Status locked(Incoming& in, Outcome* outcome);
  Status take_death(const Incoming& in, Outcome* outcome);
  Status note(Incoming& in, Outcome* outcome);

  const NodeView& view_;
  fabric::Fabric& fabric_;
  Directory& directory_;  // a look-up is valid within one request
  lock::LockRequests& locks_;
  Answers& answers_;
  std::optional<memory::Stripes> stripes_;
  struct Registrations {
    uint32_t life = 0;  // of the segment's memory
    std::unordered_map<Rank, Registration> of;
  };
  // By the packed id of a segment's first life; fabrics with RMA only.
  std::unordered_map<uint64_t, Registrations> registrations_;
  std::vector<Piece> pieces_;         // of the vector request being applied
  std::vector<std::byte> scratch_;    // packs the reply to a non-contiguous get
  std::vector<fabric::Bytes> parts_;  // of the strided get being answered from where its bytes lie
};

}  // namespace skerry::server
