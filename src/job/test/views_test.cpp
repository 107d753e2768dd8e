// What a rank hears of the launcher, which is the test's: it tells of nothing until it is asked.
#include "job/views.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace skerry::job {
namespace {

// Rank 0 of two. The launcher knows that rank 1 has died, and its news of that are on their way:
// they come with the answer to a meeting, in the launcher's order.
class Launcher : public Bootstrap {
 public:
  Launcher() : Bootstrap(0, 2), events_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Launcher() override { close(events_); }
  std::string_view name() const override { return "test"; }
  Status put(std::string_view, std::span<const std::byte>) override { return {}; }
  Status get(int, std::string_view, std::vector<std::byte>*) override { return {}; }
  Status fence() override { return {}; }
  Status finish() override { return {}; }
  [[noreturn]] void abort(int, std::string_view) override { std::abort(); }
  int events_fd() const override { return events_; }

  Status meet_living(std::string_view key, int64_t limit_ms, std::span<const Run> members,
                     std::span<const std::byte>, int) override {
    const std::lock_guard lock(mutex_);
    EXPECT_LT(limit_ms, 0);
    EXPECT_EQ(members.size(), 1u);
    EXPECT_EQ(members.front().first, 0);
    EXPECT_EQ(members.front().count, 1);
    keys.emplace_back(key);
    news_.dead.push_back({1, "was ended by the test"});
    news_.met.push_back({std::string(key), {{0, {}}}, {}});
    const uint64_t one = 1;
    EXPECT_EQ(write(events_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    return {};
  }
  Status take_news(News* news) override {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    (void)!read(events_, &count, sizeof count);
    *news = std::exchange(news_, {});
    return {};
  }

  std::vector<std::string> keys;  // of the meetings, in order

 private:
  const int events_;
  std::mutex mutex_;  // the test's thread asks, that of the views takes
  News news_;
};

TEST(Views, WhoAsksHearsOfADeathOfWhichOthersWereTold) {
  const memory::ControlLayout layout = memory::control_layout({.members = 1});
  constexpr std::align_val_t line{64};
  auto* const base = static_cast<std::byte*>(operator new(layout.total_bytes, line));
  std::fill_n(base, layout.total_bytes, std::byte{0});
  const memory::Control control(base, layout);
  control.initialise(true);
  control.member(0).pid = getpid();
  const NodeId nodes[] = {0, 1};
  const std::vector<std::byte> block = placement::build_node_map(nodes, {{{}}, {{}}});
  placement::NodeMap map;
  ASSERT_TRUE(placement::NodeMap::view(block, &map).ok());
  Launcher launcher;
  {
    std::vector<NodeId> lost;
    Views views;
    const Status started = views.start({.bootstrap = &launcher, .control = control, .map = &map,
                                        .rank = 0, .servers = nullptr,
                                        .lose = [&](NodeId node, const Status&) {
                                          lost.push_back(node);
                                        }});
    ASSERT_TRUE(started.ok()) << started.message();
    EXPECT_EQ(views.deaths(), 0u);
    const Status heard = views.hear();
    EXPECT_TRUE(heard.ok()) << heard.message();
    EXPECT_EQ(views.dead(), std::vector<Rank>{1});
    EXPECT_EQ(views.cause(1), "was ended by the test");
    EXPECT_EQ(lost, std::vector<NodeId>{1});  // written before the answer was passed on
    EXPECT_TRUE(views.hear().ok());           // a death that was told before is none again
    EXPECT_EQ(views.deaths(), 1u);
    ASSERT_EQ(launcher.keys.size(), 2u);
    EXPECT_NE(launcher.keys[0], launcher.keys[1]);  // each question has its own answer
  }
  operator delete(base, line);
}

}  // namespace
}  // namespace skerry::job
