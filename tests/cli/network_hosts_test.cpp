// `ingot train` on two hosts, which network namespaces stand for, with a link that tc makes slow or a test
// cuts.
#include "tests/support/network_hosts.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

using std::chrono::seconds;

bool comes(seconds limit, const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!what()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

constexpr const char* kSlowLink = "tbf rate 20mbit burst 16kb latency 50ms";

// What these tests need and is not here, or nothing.
std::string what_is_missing() {
  for (const std::string program : {"mpirun", "ip", "tc", "ps", "timeout"})
    if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0)
      return program + " is not installed";
  if (std::system("unshare --uts true 2>/dev/null") != 0)
    return "this process may have no host name of its own";
  const test::TemporaryDirectory folder;
  const test::NetworkHosts hosts(folder);
  if (!hosts.are_there()) return "this process may make no network namespaces";
  return hosts.shape_link(kSlowLink) ? "" : "this kernel has no tbf to slow a link down";
}

class TrainingHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = what_is_missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    hosts_ = std::make_unique<test::NetworkHosts>(folder_);
    ASSERT_TRUE(hosts_->are_there());
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(path("train.yaml"))
        << "from_scratch: true\n"
           "architecture: {hidden_size: 48, num_hidden_layers: 2, num_attention_heads: 2}\n"
           "vocab_size: 280\ndatasets: [{path: "
        << path("text.txt")
        << "}]\nsequence_len: 16\nper_device_train_batch_size: 2\nordered_gradients: true\nthreads: 1\n"
           "max_steps: 4\neval_steps: 0\nsave_steps: 2\nlearning_rate: 0.01\nlr_scheduler_type: "
           "constant\nreport_to: [jsonl]\ndevice: cpu\n";
  }

  std::string path(const std::string& name) const { return folder_.at(name); }
  std::string command(const std::string& output, const std::string& more) const {
    return fmt::format(INGOT_BINARY " train {} --json --set output_dir={} {}", path("train.yaml"),
                       path(output), more);
  }
  // The shell command of a run on both hosts. A rank is missed after a silence that a busy machine has not.
  std::string on_both(const std::string& output, const std::string& more) const {
    return fmt::format(
        "INGOT_RANK_SILENCE=15 INGOT_CACHE_DIR={} {} -x INGOT_RANK_SILENCE -x INGOT_CACHE_DIR {}",
        path("cache"), hosts_->mpirun(), command(output, more));
  }
  // The file of a shell command. What Open MPI leaves goes with the test.
  std::string script(const std::string& shell) const {
    std::ofstream(path("run.sh")) << fmt::format("export TMPDIR={}\n({}) >{} 2>{}\n", folder_.path(), shell,
                                                 path("out"), path("errors"));
    return path("run.sh");
  }
  int run(const std::string& shell) const {
    return std::system(("timeout -k 5 120 sh " + script(shell)).c_str());
  }
  std::string errors() const { return read_file(path("errors")); }
  std::string model(const std::string& output) const {
    return read_file(path(output + "/model/model.safetensors"));
  }

  // The step of the last checkpoint of "run".
  int last_saved() const {
    int last = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("run"))) {
      const std::string name = entry.path().filename();
      if (name.starts_with("checkpoint-"))
        last = std::max(last, std::atoi(name.c_str() + sizeof("checkpoint")));
    }
    return last;
  }

  // A run of both that goes on until something happens, which is in the middle of its steps. Returns the
  // seconds in which it ended after that; a minute at most.
  double seconds_until_end_after(const std::function<void()>& event) const {
    const std::string file = script(on_both("run", "--set max_steps=1000000 --set save_steps=5"));
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      ::execlp("timeout", "timeout", "-k", "5", "240", "sh", file.c_str(), nullptr);
      ::_exit(127);
    }
    EXPECT_TRUE(comes(seconds(60), [&] { return std::filesystem::exists(path("run/checkpoint-000005")); }))
        << errors();
    event();
    const auto begin = std::chrono::steady_clock::now();
    const bool ended = comes(seconds(60), [&] { return ::waitpid(child, nullptr, WNOHANG) != 0; });
    EXPECT_TRUE(ended) << errors();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ::kill(-child, SIGKILL);
    if (!ended) ::waitpid(child, nullptr, 0);
    return took.count();
  }

  const test::TemporaryDirectory folder_;
  std::unique_ptr<test::NetworkHosts> hosts_;
};

TEST_F(TrainingHosts, BehindASlowLinkHaveTheBitsOfOneProcessAtEveryZeroStage) {
  ASSERT_TRUE(hosts_->shape_link(kSlowLink));
  ASSERT_EQ(run(command("one", "--set gradient_accumulation_steps=2")), 0) << errors();
  for (const char* stage : {"0", "1", "2", "3"}) {
    const std::string output = std::string("stage") + stage;
    ASSERT_EQ(run(on_both(output, std::string("--set zero_stage=") + stage)), 0) << errors();
    EXPECT_TRUE(model(output) == model("one")) << stage;
  }
}

TEST_F(TrainingHosts, BehindALinkThatLosesAndDelaysHaveTheBitsOfOneProcess) {
  if (!hosts_->shape_link("netem delay 5ms loss 2%")) GTEST_SKIP() << "this kernel has no netem";
  ASSERT_EQ(run(command("one", "--set gradient_accumulation_steps=2")), 0) << errors();
  ASSERT_EQ(run(on_both("lossy", "--set zero_stage=2")), 0) << errors();
  EXPECT_TRUE(model("lossy") == model("one"));
}

// Open MPI's own daemons, which wait for each other, may live longer than the ranks.
TEST_F(TrainingHosts, APartitionEndsTheRanksOfBothAndNamesTheOneThatIsNotHeard) {
  seconds_until_end_after([&] {
    for (const char* host : {"north", "south"}) ASSERT_EQ(hosts_->ranks(host), 1) << host;
    hosts_->disconnect("south");
    for (const char* host : {"north", "south"})
      EXPECT_TRUE(comes(seconds(60), [&] { return hosts_->ranks(host) == 0; })) << host;
    hosts_->kill("south");
    hosts_->kill("north");
  });
  EXPECT_NE(errors().find("nothing was heard of rank 1 on south"), std::string::npos) << errors();
}

TEST_F(TrainingHosts, AHostThatDiesEndsTheRunWhichGoesOnWithTheSameBits) {
  EXPECT_LT(seconds_until_end_after([&] { hosts_->kill("south"); }), 45);
  // From the checkpoint that was the last whole one.
  const std::string steps = fmt::format("--set max_steps={} --set save_steps=0 --resume", last_saved() + 3);
  std::filesystem::copy(path("run"), path("alone"), std::filesystem::copy_options::recursive);
  ASSERT_EQ(run(on_both("run", steps)), 0) << errors();
  ASSERT_EQ(run(command("alone", steps + " --set gradient_accumulation_steps=2")), 0) << errors();
  EXPECT_TRUE(model("run") == model("alone"));
}

}  // namespace
}  // namespace ingot::testing
