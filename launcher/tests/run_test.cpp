// `skerry run` as a user meets it: environment, output, input, statuses, failures, signals, nothing
// left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "core/pure/status.hpp"
#include "launcher/tests/running_program.hpp"

namespace skerry::launcher {
namespace {

using Words = std::vector<std::string>;

Words run(const std::string& ranks, const Words& rest) {
  Words words = {program("skerry"), "run", "-n", ranks};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}
Words shell(const std::string& ranks, const std::string& script) {
  return run(ranks, {"sh", "-c", script});
}
Words probe(const std::string& ranks, const std::string& steps) {
  Words words = {program("bootstrap_probe")};
  std::istringstream parts(steps);
  for (std::string step; parts >> step;) words.push_back(step);
  return run(ranks, words);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Exactly one line from the launcher, and it says this.
void expect_one_message(const std::string& err, const std::vector<std::string>& parts) {
  EXPECT_EQ(count_of(err, "skerry: "), 1u) << err;
  for (const auto& part : parts)
    EXPECT_NE(err.find(part), std::string::npos) << "\"" << part << "\" in: " << err;
}

TEST(Run, EveryRankFindsWhoItIs) {
  Words words = shell("5", "echo $SKERRY_RANK/$SKERRY_SIZE/$SKERRY_NODE/$EXTRA");
  words.insert(words.begin() + 4, {"--nodes", "2", "--env", "EXTRA=x y"});
  const auto ended = run_program(words);
  EXPECT_EQ(ended.status, 0) << ended.err;
  auto lines = lines_of(ended.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Words{"0/5/0/x y", "1/5/0/x y", "2/5/0/x y", "3/5/1/x y", "4/5/1/x y"}));
}

TEST(Run, LinesOfRanksAreNotMixedAndCarryThePrefix) {
  Words words = shell("4",
                      "i=0; while [ $i -lt 300 ]; do printf '%s-%0100d' $SKERRY_RANK $i; printf "
                      "'%0200d\\n' $i; i=$((i+1)); done");
  words.insert(words.begin() + 4, "-l");
  const auto ended = run_program(words);
  EXPECT_EQ(ended.status, 0);
  const auto lines = lines_of(ended.out);
  EXPECT_EQ(lines.size(), 1200u);
  std::vector<int> next(4, 0);
  for (const auto& line : lines) {
    ASSERT_EQ(line.size(), 4u + 2u + 300u) << line;
    const int rank = line[1] - '0';
    ASSERT_EQ(line.substr(0, 6), concat("[", rank, "] ", rank, "-"));
    ASSERT_EQ(std::stoi(line.substr(6, 100)), next[static_cast<size_t>(rank)]++);
  }
}

TEST(Run, BytesOfOneRankPassUnchanged) {
  const auto ended = run_program(run("1", {"sh", "-c", "head -c 3000000 /dev/zero; printf end"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out.size(), 3000003u);
  EXPECT_EQ(ended.out.substr(3000000), "end");
}

TEST(Run, InputGoesToRankZeroAndAPromptAppearsBeforeItsLineEnds) {
  RunningProgram job(shell("3",
                           "if [ $SKERRY_RANK = 0 ]; then printf 'name? '; read a; echo got $a; "
                           "else read a || echo none; fi"));
  ASSERT_TRUE(job.wait_for("name? "));
  job.write("skerry\n");
  EXPECT_EQ(job.finish(), 0);
  EXPECT_NE(job.out().find("got skerry\n"), std::string::npos);
  EXPECT_EQ(count_of(job.out(), "none\n"), 2u);
}

TEST(Run, StatusIsTheFailedRanksAndOneMessageNamesIt) {
  const auto failed = run_program(
      shell("3", "if [ $SKERRY_RANK = 1 ]; then exit 7; fi; exec sleep 1000"));
  EXPECT_EQ(failed.status, 7);
  expect_one_message(failed.err,
                     {"rank 1 on host ", "(pid ", "exited with status 7", "ending the job"});
  const auto killed = run_program(
      shell("3", "if [ $SKERRY_RANK = 2 ]; then kill -SEGV $$; fi; exec sleep 1000"));
  EXPECT_EQ(killed.status, 128 + SIGSEGV);
  expect_one_message(killed.err, {"rank 2 on host ", "was killed by signal 11 (SIGSEGV"});
  EXPECT_EQ(run_program(shell("3", "exit 0")).status, 0);
}

TEST(Run, RanksThatIgnoreTermAreKilledAfterTheGrace) {
  const auto ended = run_program(shell(
      "2", "trap '' TERM; if [ $SKERRY_RANK = 1 ]; then exit 3; fi; while :; do sleep 1000; done"));
  EXPECT_EQ(ended.status, 3);
  expect_one_message(ended.err, {"rank 1"});
}

TEST(Run, ARankKilledFromOutsideBeforeItStartsSkerryEndsTheJob) {
  RunningProgram job(shell("2", "echo pid$SKERRY_RANK $$ ; exec sleep 1000"));
  ASSERT_TRUE(job.wait_for("pid0 "));
  ASSERT_TRUE(job.wait_for("pid1 "));
  (void)kill(job.number_after("pid1 "), SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  expect_one_message(job.err(), {concat("(pid ", job.number_after("pid1 "),
                                        ") was killed by signal 9 (SIGKILL)")});
  EXPECT_TRUE(wait_gone(job.number_after("pid0 ")));
}

TEST(Run, TheDeathThatMadeOthersFailIsTheOneThatIsNamed) {
  // Rank 0 fails as soon as it finds rank 1 dead, which may well be before the launcher does.
  RunningProgram job(shell("2",
                           "if [ $SKERRY_RANK = 0 ]; then read p; while kill -0 $p 2>/dev/null && "
                           "! grep -q '^State:.Z' /proc/$p/status; do :; done; exit 9; fi;"
                           "echo pid1 $$; exec sleep 1000"));
  ASSERT_TRUE(job.wait_for("pid1 "));
  job.write(concat(job.number_after("pid1 "), "\n"));
  (void)kill(job.number_after("pid1 "), SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  expect_one_message(job.err(), {"rank 1"});
}

TEST(Run, AStoppedRankIsNotDead) {
  RunningProgram job(shell("2",
                           "if [ $SKERRY_RANK = 0 ]; then read a; echo still here; read a; else "
                           "echo pid1 $$; exec sleep 1000; fi"));
  ASSERT_TRUE(job.wait_for("pid1 "));
  const pid_t rank1 = job.number_after("pid1 ");
  (void)kill(rank1, SIGSTOP);
  ASSERT_TRUE(wait_state(rank1, 'T'));
  job.write("one\n");
  EXPECT_TRUE(job.wait_for("still here"));
  // Ending the job wakes it, so that it can end.
  job.signal(SIGTERM);
  EXPECT_NE(job.finish(), 0);
  EXPECT_TRUE(wait_gone(rank1));
}

TEST(Run, DescendantsThatRanksLeaveBehindAreEnded) {
  const auto ended = run_program(
      shell("2", "setsid sleep 1000 & echo child$SKERRY_RANK $!; (sleep 1000 &) ; exit 0"));
  EXPECT_EQ(ended.status, 0) << ended.err;
  for (const std::string word : {"child0 ", "child1 "}) {
    const size_t at = ended.out.find(word);
    ASSERT_NE(at, std::string::npos);
    EXPECT_TRUE(wait_gone(std::atoi(ended.out.c_str() + at + word.size())));
  }
}

TEST(Run, AKilledLauncherLeavesNoProcess) {
  RunningProgram job(shell("2",
                           "sleep 1000 & echo pid$SKERRY_RANK $$ child$SKERRY_RANK $!; trap '' "
                           "TERM HUP INT; while :; do wait; done"));
  for (const std::string word : {"child0 ", "child1 "}) ASSERT_TRUE(job.wait_for(word));
  ASSERT_TRUE(job.wait_for("\n"));
  job.signal(SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  for (const std::string word : {"pid0 ", "pid1 ", "child0 ", "child1 "})
    EXPECT_TRUE(wait_gone(job.number_after(word))) << word;
}

TEST(Run, AKilledAgentEndsTheJobAndLeavesNoProcess) {
  RunningProgram job(shell(
      "2",
      "sleep 1000 & echo pid$SKERRY_RANK $$ parent$SKERRY_RANK $PPID child$SKERRY_RANK $!; wait"));
  for (const std::string word : {"child0 ", "child1 "}) ASSERT_TRUE(job.wait_for(word));
  (void)kill(job.number_after("parent0 "), SIGKILL);
  EXPECT_EQ(job.finish(), 1);
  expect_one_message(job.err(), {"lost the agent on host"});
  for (const std::string word : {"pid0 ", "pid1 ", "child0 ", "child1 "})
    EXPECT_TRUE(wait_gone(job.number_after(word))) << word;
}

TEST(Run, TheFirstInterruptIsTheRanksToHandleAndTheSecondKills) {
  RunningProgram handled(shell(
      "2", "trap 'echo caught; exit 0' INT; echo ready$SKERRY_RANK; while :; do sleep 0.05; done"));
  ASSERT_TRUE(handled.wait_for("ready0") && handled.wait_for("ready1"));
  handled.signal(SIGINT);
  handled.signal(SIGINT);  // as timeout(1) does: to the process and to its group
  EXPECT_EQ(handled.finish(), 0) << handled.err();
  EXPECT_EQ(count_of(handled.out(), "caught"), 2u);

  RunningProgram stubborn(shell("2",
                                "trap 'echo caught' INT; trap '' TERM; echo ready$SKERRY_RANK; "
                                "while :; do sleep 0.05; done"));
  ASSERT_TRUE(stubborn.wait_for("ready0") && stubborn.wait_for("ready1"));
  stubborn.signal(SIGINT);
  ASSERT_TRUE(stubborn.wait_for("caught"));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // not the echo of the first
  stubborn.signal(SIGINT);
  EXPECT_EQ(stubborn.finish(), 128 + SIGINT);

  RunningProgram plain(run("2", {"sleep", "1000"}));
  ASSERT_TRUE(wait_state(plain.pid(), 'S'));
  plain.signal(SIGTERM);
  EXPECT_EQ(plain.finish(), 128 + SIGTERM);
  EXPECT_EQ(plain.err(), "");  // a user that interrupts knows why
}

TEST(Run, UserSignalsReachTheRanks) {
  RunningProgram job(shell(
      "2", "trap 'echo usr1; exit 0' USR1; echo ready$SKERRY_RANK; while :; do sleep 0.05; done"));
  ASSERT_TRUE(job.wait_for("ready0") && job.wait_for("ready1"));
  job.signal(SIGUSR1);
  EXPECT_EQ(job.finish(), 0);
  EXPECT_EQ(count_of(job.out(), "usr1"), 2u);
}

TEST(Run, StoppingAndContinuingTheLauncherStopsAndContinuesTheJob) {
  RunningProgram::Options options;
  options.own_group = true;
  RunningProgram job(shell("1", "echo pid $$; exec cat"), options);
  ASSERT_TRUE(job.wait_for("pid ") && job.wait_for("\n"));
  const pid_t rank = job.number_after("pid ");
  job.signal(SIGTSTP);
  int status = 0;
  ASSERT_EQ(waitpid(job.pid(), &status, WUNTRACED), job.pid());
  EXPECT_TRUE(WIFSTOPPED(status));
  ASSERT_TRUE(wait_state(rank, 'T'));
  job.signal(SIGCONT);
  job.write("again\n");
  EXPECT_TRUE(job.wait_for("again"));
  EXPECT_EQ(job.finish(), 0);
}

TEST(Run, AReaderThatGoesEndsTheJobQuietly) {
  RunningProgram::Options options;
  options.close_output = true;
  RunningProgram job(run("2", {"yes"}), options);
  EXPECT_EQ(job.finish(), 128 + SIGPIPE);
  EXPECT_EQ(job.err(), "");
}

TEST(Run, TimeoutEndsTheJob) {
  Words words = run("2", {"sleep", "1000"});
  words.insert(words.begin() + 4, {"--timeout", "1"});
  const auto ended = run_program(words);
  EXPECT_EQ(ended.status, 124);
  expect_one_message(ended.err, {"--timeout 1"});
}

TEST(Run, AMissingProgramIsOneMessageAndStatus127) {
  const auto missing = run_program(run("4", {"no-such-program"}));
  EXPECT_EQ(missing.status, 127);
  expect_one_message(missing.err, {"\"no-such-program\"", "No such file"});
  EXPECT_EQ(run_program({program("skerry"), "run", "--node", "2", "x"}).status, 2);
  EXPECT_EQ(run_program({program("skerry"), "rum"}).status, 2);
}

TEST(Run, JoinExchangeAndLeaveTwiceWithAKeyForEachTime) {
  const auto ended = run_program(probe("4", "join exchange finish join exchange finish"));
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  std::set<std::string> keys;
  for (const auto& line : lines_of(ended.out)) {
    if (line.find("key") != std::string::npos) keys.insert(line);
  }
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_EQ(count_of(ended.out, "exchanged"), 8u);
}

TEST(Run, TwoJobsAtOnceDoNotMeet) {
  RunningProgram first(probe("2", "join fence exchange finish")),
      second(probe("3", "join fence exchange finish"));
  EXPECT_EQ(first.finish(), 0) << first.out();
  EXPECT_EQ(second.finish(), 0) << second.out();
  const auto key = [](const std::string& out) { return out.substr(out.find("key "), 12); };
  EXPECT_NE(key(first.out()), key(second.out()));
}

TEST(Run, LeavingWithStatusZeroWithoutFinishEndsTheJob) {
  const auto ended = run_program(probe("3", "join only 1 exit 0 all fence fence finish"));
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"rank 1", "without leaving the job"});
}

TEST(Run, NeverJoiningAJobThatOthersWaitInEndsIt) {
  const auto ended = run_program(probe("3", "only 1 exit 0 all join exchange finish"));
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"rank 1", "without joining the job that rank"});
}

TEST(Run, AbortEndsTheJobWithItsStatusAndReason) {
  const auto ended = run_program(probe("3", "join only 2 abort 5 all fence finish"));
  EXPECT_EQ(ended.status, 5);
  expect_one_message(ended.err, {"rank 2", "ended the job: as told"});
}

TEST(Run, ADeathUnderAWrapperIsNoticedThoughTheWrapperLivesOn) {
  const auto ended = run_program(
      shell("2", program("bootstrap_probe") + " join only 1 kill 9 all fence; exec sleep 1000"));
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"rank 1", "lost the process"});
}

TEST(Run, RanksThatAskAreToldOfADeathInsteadOfEnded) {
  RunningProgram job(probe("3", "pid join report finish"));
  for (const std::string word : {"pid0 ", "pid1 ", "pid2 ", "asked 0", "asked 1", "asked 2"})
    ASSERT_TRUE(job.wait_for(word));
  (void)kill(job.number_after("pid2 "), SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  EXPECT_EQ(count_of(job.out(), "told of 2: was killed by signal 9 (SIGKILL)"), 2u) << job.out();
  expect_one_message(job.err(), {"rank 2", "the job goes on"});
}

// Bug guarded against: a rank's line that another one's had ended went on without its number.
TEST(Run, TheRestOfABrokenLineHasItsNumber) {
  const std::string now = concat("/tmp/skerry-now-", getpid());
  ASSERT_EQ(mkfifo(now.c_str(), 0600), 0);
  const UniqueFd tells(open(now.c_str(), O_RDWR | O_CLOEXEC));  // which waits for nobody
  Words words = shell("2", concat("if [ $SKERRY_RANK = 0 ]; then printf one; read x; echo two; ",
                                  "else read x < ", now, "; echo between; fi"));
  words.insert(words.begin() + 2, "-l");
  RunningProgram job(words);
  ASSERT_TRUE(job.wait_for("[0] one"));
  ASSERT_EQ(write(tells.get(), "\n", 1), 1);
  ASSERT_TRUE(job.wait_for("[1] between"));
  (void)unlink(now.c_str());
  job.write("\n");
  EXPECT_EQ(job.finish(), 0) << job.err();
  EXPECT_EQ(job.out(), "[0] one\n[1] between\n[0] two\n");
}

TEST(Run, TheSecretIsInNobodysArgumentsOrEnvironment) {
  const auto ended = run_program(shell("1", "env; cat /proc/$PPID/cmdline | tr '\\0' ' '"));
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out.find("KEY"), std::string::npos) << ended.out;
}

// ---- several hosts, played by an agent command that runs everything here ----------------------

struct Hosts {
  Hosts() {
    char name[] = "/tmp/skerry-agent-XXXXXX";
    const int fd = mkstemp(name);
    path = name;
    const std::string script = "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
    EXPECT_EQ(write(fd, script.data(), script.size()), static_cast<ssize_t>(script.size()));
    close(fd);
    EXPECT_EQ(chmod(name, 0755), 0);
  }
  ~Hosts() { (void)unlink(path.c_str()); }
  Words run(const Words& rest) const {
    Words words = {program("skerry"), "run", "--hosts",     "h1:2,h2:2",
                   "--agent",         path,  "--interface", "lo"};
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }
  std::string path;
};

TEST(Hosts, RanksExchangeAcrossHosts) {
  const Hosts hosts;
  Words words = hosts.run({program("bootstrap_probe"), "join", "exchange", "finish"});
  const auto ended = run_program(words);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(count_of(ended.out, "exchanged"), 4u);
  std::set<std::string> keys;
  for (const auto& line : lines_of(ended.out)) {
    if (line.find("key") != std::string::npos) keys.insert(line);
  }
  EXPECT_EQ(keys.size(), 1u);
}

TEST(Hosts, EachIsANodeAndInputTravelsToRankZero) {
  const Hosts hosts;
  RunningProgram job(
      hosts.run({"sh", "-c", "echo node $SKERRY_NODE; if [ $SKERRY_RANK = 0 ]; then wc -c; fi"}));
  const std::string megabyte(1 << 20, 'x');
  for (size_t sent = 0; sent < megabyte.size(); sent += 65536)
    job.write(megabyte.substr(sent, 65536));
  EXPECT_EQ(job.finish(), 0) << job.err();
  EXPECT_EQ(count_of(job.out(), "node 0\n"), 2u);
  EXPECT_EQ(count_of(job.out(), "node 1\n"), 2u);
  EXPECT_NE(job.out().find("1048576"), std::string::npos) << job.out();
}

TEST(Hosts, ADeathOnOneHostEndsTheJobOnAll) {
  const Hosts hosts;
  RunningProgram job(hosts.run({"sh", "-c", "echo pid$SKERRY_RANK $$; exec sleep 1000"}));
  for (const std::string word : {"pid0 ", "pid1 ", "pid2 ", "pid3 "})
    ASSERT_TRUE(job.wait_for(word));
  (void)kill(job.number_after("pid3 "), SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  expect_one_message(job.err(), {"rank 3 on host h2 (pid "});
  for (const std::string word : {"pid0 ", "pid1 ", "pid2 "})
    EXPECT_TRUE(wait_gone(job.number_after(word)));
}

TEST(Hosts, AKilledLauncherLeavesNoProcessAnywhere) {
  const Hosts hosts;
  RunningProgram job(
      hosts.run({"sh", "-c", "sleep 1000 & echo pid$SKERRY_RANK $$ child$SKERRY_RANK $!; wait"}));
  for (const std::string word : {"child0 ", "child1 ", "child2 ", "child3 "})
    ASSERT_TRUE(job.wait_for(word));
  job.signal(SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  for (const std::string rank : {"0 ", "1 ", "2 ", "3 "}) {
    EXPECT_TRUE(wait_gone(job.number_after("pid" + rank)));
    EXPECT_TRUE(wait_gone(job.number_after("child" + rank)));
  }
}

TEST(Hosts, ALostAgentEndsTheJob) {
  const Hosts hosts;
  RunningProgram job(
      hosts.run({"sh", "-c", "echo pid$SKERRY_RANK $$ parent$SKERRY_RANK $PPID; exec sleep 1000"}));
  for (const std::string word : {"parent0 ", "parent3 "}) ASSERT_TRUE(job.wait_for(word));
  (void)kill(job.number_after("parent3 "), SIGKILL);
  EXPECT_EQ(job.finish(), 1);
  expect_one_message(job.err(), {"lost the agent on host h2"});
  for (const std::string word : {"pid0 ", "pid3 "}) EXPECT_TRUE(wait_gone(job.number_after(word)));
}

TEST(Hosts, AnAgentThatCannotStartIsNamed) {
  const auto ended = run_program({program("skerry"), "run", "--hosts", "h1,h2", "--agent", "false",
                                  "--interface", "lo", "true"});
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"could not start an agent on host h", "exited with status 1"});
}

TEST(Hosts, ASilentAgentIsGivenUp) {
  const auto ended = run_program({program("skerry"), "run", "--hosts", "h1", "--agent",
                                  "sleep 1000 ; :", "--interface", "lo", "--start-timeout", "1",
                                  "true"});
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"no agent from host h1 within 1 s"});
}

TEST(Hosts, AnUnknownInterfaceIsNamed) {
  const auto ended = run_program(
      {program("skerry"), "run", "--hosts", "h1", "--interface", "nosuch0", "true"});
  EXPECT_EQ(ended.status, 1);
  expect_one_message(ended.err, {"nosuch0", "this machine has"});
}

TEST(Limits, AHundredThousandRanksAreRefusedAtOnce) {
  const auto ended = run_program({program("skerry"), "run", "-n", "100000", "true"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err.rfind("skerry run: 100000 ranks on this host ", 0), 0u) << ended.err;
}

// Bug guarded against: every rank said it, after all had started.
TEST(Variables, AWrongOneIsSaidOnceBeforeAnythingStarts) {
  Words words = shell("8", "echo started");
  words.insert(words.begin() + 4, {"--env", "SKERRY_CLUSTER_SIZE=abc"});
  const auto ended = run_program(words);
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err,
            "skerry run: SKERRY_CLUSTER_SIZE=abc: give a number of nodes from 1, sqrt or auto\n");
}

TEST(Info, PlansAJobWithoutStartingIt) {
  const auto ended = run_program({program("skerry"), "info", "--nodes", "500", "--per-node", "64",
                                  "--budget", "32M", "--json", "/dev/null"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  // The numbers of docs/tuning.md, and 31,936 connections without clusters.
  for (const char* const part :
       {"32000 ranks on 500 nodes", "\n  nodes in a cluster, at most ", " 28  ", " 31936\n"})
    EXPECT_NE(ended.out.find(part), std::string::npos) << part << " in: " << ended.out;
  const auto small = run_program(
      {program("skerry"), "info", "--nodes", "500", "--per-node", "64", "--budget", "4M"});
  EXPECT_NE(small.out.find("SKERRY_SERVER_BUDGET=4M is less"), std::string::npos) << small.out;
  const auto wrong = run_program({program("skerry"), "info", "--nodes", "9", "--budget", "64"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("did you mean 64M?"), std::string::npos) << wrong.err;
  const auto help = run_program({program("skerry"), "info", "--nodes", "--help"});
  EXPECT_EQ(help.status, 0) << help.err;
  EXPECT_EQ(help.out.rfind("usage: skerry info --nodes N", 0), 0u) << help.out;
  const auto no_nodes = run_program({program("skerry"), "info", "--per-node", "64"});
  EXPECT_EQ(no_nodes.status, 2);
  EXPECT_NE(no_nodes.err.find("--per-node needs --nodes N"), std::string::npos) << no_nodes.err;
}

// Bug guarded against: a plan of 999 connections under SKERRY_MAX_CONN=10, without a word of it.
TEST(Info, SaysWhichCapsThePlanLeavesOut) {
  const Words plan = {program("skerry"), "info", "--nodes", "1000", "--talks", "2000"};
  const auto without = run_program(plan);
  EXPECT_EQ(without.out.find("not in this plan"), std::string::npos) << without.out;
  EXPECT_NE(without.out.find("a rank talks to all nodes"), std::string::npos) << without.out;
  Words capped = {"env", "SKERRY_MAX_CONN=10"};
  capped.insert(capped.end(), plan.begin(), plan.end());
  const auto ended = run_program(capped);
  EXPECT_NE(ended.out.find("not in this plan: SKERRY_MAX_CONN=10, which"), std::string::npos)
      << ended.out;
}

TEST(Info, ListsTheVariables) {
  const auto ended = run_program({program("skerry"), "info", "--variables"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_NE(ended.out.find("  SKERRY_CLUSTER_SIZE=auto "), std::string::npos) << ended.out;
}

TEST(Info, NamesWhatAJobNeedsToKnow) {
  // It opens each of libfabric's providers, of which some keep what they allocated.
  const auto ended =
      run_program({"env", "ASAN_OPTIONS=detect_leaks=0", program("skerry"), "info"});
  EXPECT_EQ(ended.status, 0);
  for (const std::string section :
       {"host\n", "cores\n", "memory\n", "cgroup\n", "huge pages\n", "network\n", "fabrics\n"}) {
    EXPECT_NE(ended.out.find(section), std::string::npos) << section;
  }
}

}  // namespace
}  // namespace skerry::launcher
