// `ingot tune` on several hosts, which PID namespaces stand for, with a study on a PostgreSQL server.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/postgres_server.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

class TuneHosts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<test::PostgresServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (!server_->is_installed()) GTEST_SKIP() << "PostgreSQL is not installed (Debian: postgresql)";
    ASSERT_TRUE(server_->is_there()) << "the server did not start";
    if (std::system("unshare --pid --fork --mount-proc true 2>/dev/null") != 0)
      GTEST_SKIP() << "this process may make no PID namespaces";
  }

  // Each host has a directory of its own with the same study in it.
  std::string path(const std::string& host, const std::string& name) const {
    std::filesystem::create_directories(folder_.path() + "/" + host);
    return folder_.path() + "/" + host + "/" + name;
  }
  // The command that works on it there, whose trials begin with the shell command `first`; killing it ends
  // all processes of the host at once.
  std::string work(const std::string& host, const std::string& name, const std::string& first) const {
    std::ofstream(path(host, name + ".yaml"))
        << "command: 'eval \"$FIRST\"; echo \"{{\\\"value\\\": \"{x}\"}}\"'\n"
           "space: {x: {low: 1, high: 2}}\nsampler: {type: random}\ntrials: 6\nlease_seconds: 1\n";
    return fmt::format("FIRST='{}' exec unshare --pid --fork --mount-proc --kill-child " INGOT_BINARY
                       " tune {} --json --set 'study={}' >{} 2>{}",
                       first, path(host, name + ".yaml"), server_->url(name), path(host, "out"),
                       path(host, "errors"));
  }
  // A trial there leaves a file, and waits for one of the other host.
  std::string meet(const std::string& host, const std::string& other) const {
    return fmt::format("touch {}; for i in $(seq 1000); do [ -e {} ] && break; sleep 0.02; done; [ -e {} ]",
                       path(host, "runs"), path(other, "runs"), path(other, "runs"));
  }
  nlohmann::json result(const std::string& host) const {
    return nlohmann::json::parse(read_file(path(host, "out")), nullptr, false);
  }
  std::string errors(const std::string& host) const { return read_file(path(host, "errors")); }

  static inline std::unique_ptr<test::PostgresServer> server_;
  const test::TemporaryDirectory folder_;
};

TEST_F(TuneHosts, WorkersOfTwoHostsShareTheTrialsOfAStudy) {
  int first = -1;
  const std::string north = work("north", "shared", meet("north", "south") + " || exit 1"),
                    south = work("south", "shared", meet("south", "north") + " || exit 1");
  std::thread other([&] { first = std::system(north.c_str()); });
  const int second = std::system(south.c_str());
  other.join();
  ASSERT_EQ(first, 0) << errors("north");
  ASSERT_EQ(second, 0) << errors("south");
  for (const char* host : {"north", "south"}) {
    EXPECT_EQ(result(host)["trials"], 6) << host;
    EXPECT_EQ(result(host)["complete"], 6) << host;
    EXPECT_EQ(result(host)["best"]["worker"], result("north")["best"]["worker"]) << host;
  }
}

TEST_F(TuneHosts, TheTrialOfAHostThatDiedIsRunOnAnother) {
  const std::string command = work("north", "died", "sleep 60");
  const pid_t north = ::fork();
  if (north == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  // Its first trial has a directory as soon as it runs.
  const std::string trial = path("north", "died-trials");
  for (int i = 0; i < 400 && !std::filesystem::exists(trial + "/trial-0000"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::exists(trial + "/trial-0000")) << errors("north");
  ::kill(north, SIGKILL);
  ::waitpid(north, nullptr, 0);
  ASSERT_EQ(std::system(work("south", "died", ":").c_str()), 0) << errors("south");
  EXPECT_EQ(result("south")["complete"], 6);
  EXPECT_EQ(result("south")["trials"], 6);
}

}  // namespace
}  // namespace ingot::testing
