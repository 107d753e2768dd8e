#include "core/memory_limits.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace skerry {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t mib = uint64_t{1} << 20;

// A file tree that looks like /proc and /sys of some machine.
class FakeMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "skerry-limits-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    write("/proc/meminfo",
          "MemTotal:       8388608 kB\nMemFree:        100 kB\nMemAvailable:   4194304 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void v2(const std::string& own) {
    write("/proc/self/cgroup", "0::" + own + "\n");
    write("/proc/self/mountinfo",
          "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  std::string root_;
};

TEST_F(FakeMachine, WithoutCgroupsAvailableMemoryDecides) {
  EXPECT_TRUE(check_memory({.own_bytes = 1 * mib, .node_bytes = 3900 * mib}, nullptr, root_).ok());
  uint64_t left_bytes = 0;
  EXPECT_TRUE(
      check_memory({.own_bytes = 1 * mib, .node_bytes = 1000 * mib}, &left_bytes, root_).ok());
  EXPECT_EQ(left_bytes, (4096 - 128 - 1000) * mib) << "128 MiB of 8 GiB are kept in reserve";
  const Status status = check_memory({.own_bytes = 1 * mib, .node_bytes = 4090 * mib},
                                     nullptr, root_);  // within the reserve of 128 MiB
  ASSERT_EQ(status.code(), Code::no_memory);
  EXPECT_NE(status.message().find("4090.0 MiB"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("MemAvailable"), std::string::npos) << status.message();
}

TEST_F(FakeMachine, EveryEnclosingCgroupOfVersion2Counts) {
  v2("/batch/job");
  write("/sys/fs/cgroup/batch/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/batch/memory.current", "536870912\n");
  write("/sys/fs/cgroup/batch/memory.stat",
        "anon 1\ninactive_file 104857600\nactive_file 4194304\nshmem 200000000\n");
  write("/sys/fs/cgroup/batch/job/memory.max", "max\n");
  write("/sys/fs/cgroup/batch/job/memory.current", "1\n");
  // 1024 - 512 + 100 + 4 = 616 MiB are left, 16 of them kept.
  EXPECT_TRUE(check_memory({.own_bytes = 0, .node_bytes = 599 * mib}, nullptr, root_).ok());
  const Status status = check_memory({.own_bytes = 0, .node_bytes = 601 * mib}, nullptr, root_);
  ASSERT_EQ(status.code(), Code::no_memory);
  EXPECT_NE(status.message().find("cgroup /batch"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("616.0 MiB"), std::string::npos) << status.message();
}

TEST_F(FakeMachine, AnUnsharedLeafIsChargedTheOwnPartOnly) {
  v2("/step/task0");
  write("/sys/fs/cgroup/step/task0/memory.max", "536870912\n");
  write("/sys/fs/cgroup/step/task0/memory.current", "0\n");
  EXPECT_TRUE(check_memory(
                  {.own_bytes = 400 * mib, .node_bytes = 800 * mib, .leaf_is_shared = false},
                  nullptr, root_)
                  .ok());
  EXPECT_FALSE(
      check_memory({.own_bytes = 400 * mib, .node_bytes = 800 * mib, .leaf_is_shared = true},
                   nullptr, root_)
          .ok());
  EXPECT_FALSE(
      check_memory({.own_bytes = 600 * mib, .node_bytes = 800 * mib, .leaf_is_shared = false},
                   nullptr, root_)
          .ok());
}

TEST_F(FakeMachine, Version1AndHybridHierarchies) {
  write("/proc/self/cgroup", "12:pids:/x\n7:cpu,memory:/docker/abc\n0::/x\n");
  write("/proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "36 25 0:31 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:15 - cgroup cgroup "
        "rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "67108864\n");
  write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 1048576\n");
  // 256 - 64 + 1 = 193 MiB left, 16 kept.
  EXPECT_TRUE(check_memory({.own_bytes = 0, .node_bytes = 176 * mib}, nullptr, root_).ok());
  EXPECT_FALSE(check_memory({.own_bytes = 0, .node_bytes = 178 * mib}, nullptr, root_).ok());
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n");  // what v1 says for "none"
  EXPECT_TRUE(check_memory({.own_bytes = 0, .node_bytes = 178 * mib}, nullptr, root_).ok());
}

TEST_F(FakeMachine, HashTellsCgroupsApart) {
  EXPECT_EQ(memory_cgroup_hash(root_), 0u);
  v2("/a");
  const uint64_t a = memory_cgroup_hash(root_);
  v2("/b");
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, memory_cgroup_hash(root_));
}

TEST(MemoryLimits, ThisMachineHasSome) {
  EXPECT_TRUE(check_memory({.own_bytes = 4096, .node_bytes = 4096}).ok());
  EXPECT_EQ(check_memory({.own_bytes = 1, .node_bytes = uint64_t{1} << 60}).code(),
            Code::no_memory);
}

}  // namespace
}  // namespace skerry
