// The SKERRY_* variables: what is taken, and what a mistake is told.
#include "core/config.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skerry {
namespace {

// Empty: the variables are right.
std::string mistake(const std::vector<const char*>& variables, Config* config) {
  std::vector<const char*> environment = variables;
  environment.push_back(nullptr);
  const Status status = read_config(environment.data(), config);
  return status.ok() ? "" : std::string(status.message());
}

TEST(Config, ABudgetHasUnits) {
  const std::pair<const char*, uint64_t> budgets[] = {{"0", 0},
                                                      {"163840", 160 << 10},
                                                      {"160K", 160 << 10},
                                                      {"64M", 64 << 20},
                                                      {"2G", uint64_t{2} << 30}};
  for (const auto& [text, bytes] : budgets) {
    Config config;
    const std::string variable = std::string("SKERRY_SERVER_BUDGET=") + text;
    EXPECT_EQ(mistake({variable.c_str()}, &config), "");
    EXPECT_EQ(config.server_budget_bytes, bytes) << text;
  }
}

TEST(Config, AMistakeIsNamedWithItsRemedy) {
  const std::pair<const char*, const char*> mistakes[] = {
      // Bug guarded against: 64 bytes were taken for a budget.
      {"SKERRY_SERVER_BUDGET=64",
       "64 bytes, and a node's data servers need 160K at least: did you mean "
       "64M?"},
      {"SKERRY_SERVER_BUDGET=1K", "need 160K at least (0: no budget)"},
      {"SKERRY_SERVER_BUDGET=64X", "K, M or G"},
      {"SKERRY_CLUSTER_SIZE=abc", "SKERRY_CLUSTER_SIZE=abc: give a number of nodes from 1, sqrt"},
      {"SKERRY_CLUSTERSIZE=2", "did you mean SKERRY_CLUSTER_SIZE?"},
      // Bug guarded against: SKERRY_COUNTERS was named, as its letters are closer.
      {"SKERRY_CLUSTER=2", "did you mean SKERRY_CLUSTER_SIZE?"},
      {"SKERRY_BUDGET=64M", "did you mean SKERRY_SERVER_BUDGET?"},
      {"SKERRY_MAX_CONNECTIONS=2", "did you mean SKERRY_MAX_CONN?"},
      {"SKERRY_SERVER=2", "did you mean SKERRY_SERVERS?"},
      {"SKERRY_SHARE=yes", "SKERRY_SHARE=yes: give 0 or 1"},
      {"SKERRY_SERVER_BUDGET=64MB", "such as 64M"},
      {"SKERRY_ELEPHANT=2", "`skerry info --variables` lists"},
      {"SKERRY_NODE_MAX_CONN=2", "set SKERRY_SHARE=1"},
  };
  for (const auto& [variable, expected] : mistakes) {
    Config config;
    const std::string message = mistake({variable}, &config);
    EXPECT_NE(message.find(expected), std::string::npos) << variable << ": " << message;
  }
  Config config;
  EXPECT_EQ(mistake({"SKERRY_USER_CLUSTERSIZE=2", "OTHER=3"}, &config), "");
}

std::string told(const std::vector<const char*>& variables, Agreement agreement) {
  Config config;
  EXPECT_EQ(mistake(variables, &config), "");
  return settings_text(config, agreement);
}

TEST(Config, SettingsThatMeanTheSameAreEqual) {
  EXPECT_EQ(told({}, Agreement::job), "");
  EXPECT_EQ(told({"SKERRY_FABRIC=tcp", "SKERRY_SHARE=0", "SKERRY_CHECK=0"}, Agreement::job), "");
  EXPECT_EQ(told({"SKERRY_SERVER_BUDGET=65536K"}, Agreement::job),
            told({"SKERRY_SERVER_BUDGET=64M"}, Agreement::job));
  EXPECT_EQ(told({"SKERRY_SLOTS=064"}, Agreement::node), "SKERRY_SLOTS=64\n");
  EXPECT_EQ(told({"SKERRY_CONNECT_TIMEOUT=5"}, Agreement::job), "");
}

TEST(Config, ADifferenceIsNamedWithBothValues) {
  const std::string one = told({"SKERRY_FABRIC=ofi:tcp", "SKERRY_LOCK=migrating"}, Agreement::job);
  const Difference found = difference(one, "SKERRY_FABRIC=ofi:tcp\n", Agreement::job);
  EXPECT_EQ(found.name, "SKERRY_LOCK");
  EXPECT_EQ(found.one, "migrating");
  EXPECT_EQ(found.other, "auto");
  EXPECT_EQ(difference(one, one, Agreement::job).name, "");
  EXPECT_EQ(difference("SKERRY_SLOTS=64\n", "", Agreement::job).name, "");
  EXPECT_EQ(difference("SKERRY_SLOTS=64\n", "", Agreement::node).other, "256");
}

// A variable that is read back as its fallback says it was not set.
TEST(Config, EveryVariableThatMustAgreeCanBeReadBack) {
  const Config config;
  for (const Variable& variable : variables()) {
    if (variable.agreement == Agreement::rank) continue;
    ASSERT_NE(variable.access.get, nullptr) << variable.name;
    EXPECT_EQ(variable.access.get(config), variable.fallback) << variable.name;
  }
}

}  // namespace
}  // namespace skerry
