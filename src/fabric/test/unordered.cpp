#include "fabric/test/unordered.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/ofi/ofi_fabric.hpp"

namespace skerry::fabric::test {
namespace {

// In the place of a provider's own functions: what they give is held for a while. Lives for ever:
// libfabric's objects name it.
struct Layer {
  fi_ops_cq queue_ops;
  const fi_ops_cq* real_queue_ops = nullptr;
  fi_ops_fabric fabric_ops;
  const fi_ops_fabric* real_fabric_ops = nullptr;
  fi_ops_rma rma_ops;
  const fi_ops_rma* real_rma_ops = nullptr;
  uint64_t refusals = 0;  // of puts and gets, that still follow
  uint64_t random = 1;
  bool is_ending = false;  // holds nothing any more
  struct Held {
    fi_cq_msg_entry entry;
    uint32_t reads;  // that still pass
  };
  std::vector<Held> held;

  uint64_t draw(uint64_t below) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return (random >> 32) % below;
  }
};

std::mutex layers_mutex;
std::map<const fid*, Layer*> layers;  // by queue and by fabric
auto& every_layer = *new std::vector<std::unique_ptr<Layer>>;

Layer& layer_of(const fid& object) {
  const std::lock_guard guard(layers_mutex);
  return *layers.at(&object);
}

// A count of 0 comes from the provider's own trywait: it asks whether there is something.
ssize_t read_late(fid_cq* queue, void* buffer, size_t count) {
  Layer& layer = layer_of(queue->fid);
  if (count == 0) return layer.real_queue_ops->read(queue, buffer, 0);
  fi_cq_msg_entry found[32];
  const ssize_t n = layer.real_queue_ops->read(queue, found, 32);
  if (n < 0 && n != -FI_EAGAIN) return n;
  const std::lock_guard guard(layers_mutex);
  for (ssize_t i = 0; i < n; ++i) {
    const auto reads = static_cast<uint32_t>(layer.draw(4) == 0 ? layer.draw(12) : 0);
    const auto at = static_cast<ptrdiff_t>(layer.draw(layer.held.size() + 1));
    layer.held.insert(layer.held.begin() + at, {found[i], reads});
  }
  auto* out = static_cast<fi_cq_msg_entry*>(buffer);
  size_t given = 0;
  std::erase_if(layer.held, [&](Layer::Held& one) {
    if (given == count || (one.reads > 0 && !layer.is_ending)) {
      one.reads -= one.reads > 0 ? 1 : 0;
      return false;
    }
    out[given++] = one.entry;
    return true;
  });
  return given > 0 ? static_cast<ssize_t>(given) : -FI_EAGAIN;
}

int never_sleep_on_held(fid_fabric* fabric, fid** objects, int count) {
  Layer& layer = layer_of(fabric->fid);
  {
    const std::lock_guard guard(layers_mutex);
    if (!layer.held.empty()) return -FI_EAGAIN;
  }
  return layer.real_fabric_ops->trywait(fabric, objects, count);
}

// As a provider whose connection beneath is not there yet: again, and again.
bool says_again(Layer& layer) {
  const std::lock_guard guard(layers_mutex);
  if (layer.is_ending) return false;
  if (layer.refusals > 0) return --layer.refusals > 0;
  if (layer.draw(4) == 0) layer.refusals = 1 + layer.draw(6);
  return layer.refusals > 0;
}

ssize_t write_later(fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags) {
  Layer& layer = layer_of(endpoint->fid);
  return says_again(layer) ? -FI_EAGAIN : layer.real_rma_ops->writemsg(endpoint, message, flags);
}

ssize_t get_later(fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags) {
  Layer& layer = layer_of(endpoint->fid);
  return says_again(layer) ? -FI_EAGAIN : layer.real_rma_ops->readmsg(endpoint, message, flags);
}

class Unordered final : public ofi::OfiFabric {
 public:
  using OfiFabric::OfiFabric;
  ~Unordered() override {
    if (layer_ == nullptr) return;
    const std::lock_guard guard(layers_mutex);
    layer_->is_ending = true;
  }

  Status open(const std::string& provider, uint64_t seed) {
    domain_.imitated.message_bytes = 8192;
    domain_.imitated.rma_bytes = 65536;
    domain_.imitated.registers_all = true;
    SKERRY_TRY(start(provider, ofi::Kind::datagram));
    {
      const std::lock_guard guard(layers_mutex);
      layer_ = every_layer.emplace_back(std::make_unique<Layer>()).get();
    }
    layer_->random = seed * 0x9e3779b97f4a7c15u + 1;
    fid_cq& queue = *domain_.completions;
    layer_->real_queue_ops = queue.ops;
    layer_->queue_ops = *queue.ops;
    layer_->queue_ops.read = read_late;
    queue.ops = &layer_->queue_ops;
    fid_fabric& fabric = *domain_.fabric;
    layer_->real_fabric_ops = fabric.ops;
    layer_->fabric_ops = *fabric.ops;
    layer_->fabric_ops.trywait = never_sleep_on_held;
    fabric.ops = &layer_->fabric_ops;
    fid_ep& endpoint = *domain_.receives;
    layer_->real_rma_ops = endpoint.rma;
    layer_->rma_ops = *endpoint.rma;
    layer_->rma_ops.writemsg = write_later;
    layer_->rma_ops.readmsg = get_later;
    endpoint.rma = &layer_->rma_ops;
    const std::lock_guard guard(layers_mutex);
    layers[&queue.fid] = layers[&fabric.fid] = layers[&endpoint.fid] = layer_;
    return {};
  }

 private:
  Layer* layer_ = nullptr;
};

}  // namespace

Status make_unordered_fabric(const Options& options, const std::string& provider, uint64_t seed,
                             std::unique_ptr<Fabric>* fabric) {
  const ofi::Library* library = nullptr;
  SKERRY_TRY(ofi::load(&library));
  auto made = std::make_unique<Unordered>(options, library);
  SKERRY_TRY(made->open(provider, seed));
  *fabric = std::move(made);
  return {};
}

}  // namespace skerry::fabric::test
