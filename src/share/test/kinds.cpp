// What fabric.hpp promises, for shared connections: from proxy to proxy, and from a rank through
// its proxy.
#include <sodium.h>

#include <atomic>
#include <thread>

#include "fabric/test/faults.hpp"
#include "fabric/test/loop/loop.hpp"
#include "fabric/test/side.hpp"
#include "share/share.hpp"

namespace skerry::fabric::test {
namespace {

using Maker = std::function<Status(const Options&, std::unique_ptr<Fabric>*)>;

std::unique_ptr<Fabric> hub_on(const Maker& beneath, Options options, uint32_t node,
                               uint32_t max_trunks = 0) {
  std::unique_ptr<Fabric> inner, proxy;
  options.loopback_only = true;
  EXPECT_TRUE(beneath(options, &inner).ok());
  share::Options made;
  made.node = node;
  made.guide.routes = placement::Routes(1000, 1, true);
  made.max_trunks = max_trunks;
  EXPECT_TRUE(share::make_proxy(std::move(inner), made, &proxy).ok());
  return proxy;
}

// A node's proxy with a thread of its own.
class Node {
 public:
  Node(const Maker& beneath, uint32_t node) : side_(hub_on(beneath, {}, node)) {
    EXPECT_TRUE(side_.fabric->listen(&address).ok());
    thread_ = std::thread([this] {
      while (!stop_.load()) side_.step(-1);
    });
  }
  ~Node() {
    stop_.store(true);
    side_.fabric->wake();
    thread_.join();
  }
  std::vector<std::byte> address;

 private:
  Side side_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A rank of that node, or, if it is told to listen, another node's proxy: tests say only then which
// they mean.
class Lazy final : public Fabric {
 public:
  Lazy(Maker beneath, const Options& options, std::shared_ptr<Node> node, uint32_t name)
      : beneath_(std::move(beneath)),
        options_(options),
        node_(std::move(node)),
        name_(name),
        hub_(hub_on(beneath_, options_, name)),
        now_(hub_.get()) {}
  std::string_view name() const override { return now_->name(); }
  const Capabilities& capabilities() const override { return now_->capabilities(); }
  Status listen(std::vector<std::byte>* address) override {
    listening_or_member_ = true;
    return now_->listen(address);
  }
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    if (address.size() < 30)
      return now_->connect(address, hello,
                           endpoint);  // nonsense: a rank takes its addresses from the node map
    if (!listening_or_member_) become_member();
    return now_->connect(address, hello, endpoint);
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    return now_->accept(request, reply, endpoint);
  }
  void reject(RequestId request, CloseReason why) override { now_->reject(request, why); }
  void hold(RequestId request) override { now_->hold(request); }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return now_->send(endpoint, header, payload, more, cookie);
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return now_->send_gathered(endpoint, header, parts, cookie);
  }
  SendResult flush(EndpointId endpoint) override { return now_->flush(endpoint); }
  uint64_t unsent_bytes(EndpointId endpoint) const override { return now_->unsent_bytes(endpoint); }
  void unpark(EndpointId endpoint) override { now_->unpark(endpoint); }
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override {
    return now_->register_memory(base, bytes, key, registration);
  }
  Status watch(int fd) override { return now_->watch(fd); }
  void unwatch(int fd) override { now_->unwatch(fd); }
  void poll(int64_t timeout_ns, EndpointId only) override { now_->poll(timeout_ns, only); }
  void dispatch(Sink& sink) override { now_->dispatch(sink); }
  void close(EndpointId endpoint) override { now_->close(endpoint); }
  void wake() override { now_->wake(); }
  Traffic traffic() const override { return now_->traffic(); }
  Memory memory() const override { return now_->memory(); }

 private:
  void become_member() {
    listening_or_member_ = true;
    std::unique_ptr<Fabric> inner;
    Options options = options_;
    options.loopback_only = true;
    ASSERT_TRUE(beneath_(options, &inner).ok());
    share::Options made;
    made.rank = name_;
    made.guide.routes = placement::Routes(1000, 1, true);
    made.guide.address_of = [node = node_](NodeId) { return Bytes(node->address); };
    ASSERT_TRUE(share::make_proxy_client(std::move(inner), made, &member_).ok());
    now_ = member_.get();
  }
  const Maker beneath_;
  const Options options_;
  const std::shared_ptr<Node> node_;
  const uint32_t name_;
  bool listening_or_member_ = false;
  std::unique_ptr<Fabric> hub_, member_;
  Fabric* now_;
};

}  // namespace

std::vector<Kind> kinds() {
  EXPECT_GE(sodium_init(), 0);
  std::vector<Kind> all;
  auto share = [&](const std::string& name, std::function<Maker()> beneath,
                   uint32_t max_trunks = 0) {
    all.push_back({name + "_hubs", [=] {
                     return [maker = beneath(), max_trunks, count = std::make_shared<uint32_t>(0)](
                                const Options& options, std::unique_ptr<Fabric>* fabric) {
                       *fabric = hub_on(maker, options, ++*count, max_trunks);
                       return Status();
                     };
                   }});
    all.push_back({name + "_through", [=] {
                     const Maker maker = beneath();
                     return [maker, node = std::make_shared<Node>(maker, 0),
                             count = std::make_shared<uint32_t>(0)](
                                const Options& options, std::unique_ptr<Fabric>* fabric) {
                       *fabric = std::make_unique<Lazy>(maker, options, node, ++*count);
                       return Status();
                     };
                   }});
  };
  auto loop = [](LoopCapabilities capabilities) {
    return [capabilities] {
      return Maker([network = make_loop_network(capabilities)](const Options& options,
                                                               std::unique_ptr<Fabric>* fabric) {
        return make_loop_fabric(network, options, fabric);
      });
    };
  };
  share("tcp", [] {
    return Maker([](const Options& options, std::unique_ptr<Fabric>* fabric) {
      return make_tcp_fabric(options, fabric);
    });
  });
  share("loop", loop({}));
  for (uint64_t seed : {1, 2, 3})
    share(concat("loop_worst_", seed), loop(LoopCapabilities::worst(seed)));
  share(
      "tcp_of_one_trunk",
      [] {
        return Maker([](const Options& options, std::unique_ptr<Fabric>* fabric) {
          return make_tcp_fabric(options, fabric);
        });
      },
      1);
  all.pop_back();  // its limit is the proxies'
  return all;
}

}  // namespace skerry::fabric::test
