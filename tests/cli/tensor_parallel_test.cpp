#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/serve/http_client.h"

namespace ingot::testing {
namespace {

constexpr std::int32_t kTurn = 3, kEnd = 4;

// A model that several processes under mpirun have together.
class TensorParallelCommand : public ::testing::Test {
 protected:
  TensorParallelCommand() {
    for (const char* name : {"a", "b"}) {
      std::filesystem::create_directories(path(name));
      test::write_scripted_model(path(name), test::script(kTurn, *name == 'a' ? "one twz" : "six", kEnd));
    }
  }
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  int run(const std::string& command, const std::string& input = "") const {
    write_file_atomically(path("input"), input);
    return std::system(
        fmt::format("{} <{} >{} 2>{}", command, path("input"), path("out"), path("errors")).c_str());
  }
  int launch(const std::string& ranks, const std::string& input = "") const {
    return run(mpirun() + ranks, input);
  }
  static std::string mpirun() {
    return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 timeout -k 5 60 "
           "mpirun "
           "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 ";
  }
  std::string generate(const std::string& model, const std::string& more) const {
    return INGOT_BINARY " generate " + path(model) + " -p 'on' -t 0 " + more;
  }
  std::string out() const { return read_file(path("out")); }
  std::string errors() const { return read_file(path("errors")); }

  int exit_code_ = -1;

 private:
  const test::TemporaryDirectory folder_;
};

TEST_F(TensorParallelCommand, RanksWriteTheTextOfOneProcessOnce) {
  ASSERT_EQ(run(generate("a", "-n 12")), 0) << errors();
  const std::string alone = out();
  ASSERT_NE(alone.find("one twz"), std::string::npos) << alone;
  for (const int ranks : {2, 4}) {
    ASSERT_EQ(launch(fmt::format("-n {} {}", ranks, generate("a", fmt::format("-n 12 --tp {}", ranks)))), 0)
        << errors();
    EXPECT_EQ(out(), alone) << ranks << " ranks";
  }
}

TEST_F(TensorParallelCommand, AChatIsTheFirstRanks) {
  const std::string chat = INGOT_BINARY " chat " + path("a") + " -t 0 --no-history --tp 2";
  ASSERT_EQ(launch("-n 2 " + chat, "hi\nonce more\n"), 0) << errors();
  EXPECT_EQ(out(), "one twz\none twz\n");
}

TEST_F(TensorParallelCommand, AServerAnswersAndEndsTheOtherRanksWithItself) {
  const std::string command =
      INGOT_BINARY " serve " + path("a") + " --port 0 --tensor-parallel-size 2 --kv-memory 16MiB";
  const std::string first = fmt::format("-n 1 sh -c 'echo $$ >{}; exec {}'", path("pid"), command);
  std::thread server([&] { exit_code_ = launch(first + " : -n 1 " + command); });
  std::string address;
  for (int i = 0; i < 400 && address.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    if (!std::filesystem::exists(path("errors"))) continue;
    const std::string told = errors();
    const std::size_t at = told.find("http://"), end = told.find(" (OpenAI");
    if (at != std::string::npos && end != std::string::npos) address = told.substr(at, end - at);
  }
  if (!address.empty()) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"temperature":0})";
    serve::HttpClient client(address, std::chrono::seconds(20));
    for (int i = 0; i < 2; ++i)
      EXPECT_NE(client.post("/v1/chat/completions", body).body.find("one twz"), std::string::npos);
  }
  if (std::filesystem::exists(path("pid"))) ::kill(std::stoi(read_file(path("pid"))), SIGTERM);
  server.join();
  EXPECT_NE(address, "") << errors();
  EXPECT_EQ(exit_code_, 0) << errors();
}

TEST_F(TensorParallelCommand, AServerOfSeveralModelsIsRefused) {
  write_file_atomically(path("serve.yaml"), "tensor_parallel_size: 2\nmodels: [{path: " + path("a") +
                                                "}, {path: " + path("b") + "}]\n");
  EXPECT_NE(launch("-n 2 " INGOT_BINARY " serve --port 0 --config " + path("serve.yaml")), 0);
  EXPECT_NE(errors().find("tensor_parallel_size: takes one model"), std::string::npos) << errors();
}

TEST_F(TensorParallelCommand, AnotherNumberOfProcessesIsRefusedWithTheCommand) {
  EXPECT_NE(run(generate("a", "-n 12 --tp 2")), 0);
  EXPECT_NE(errors().find("mpirun -n 2 ingot"), std::string::npos) << errors();
  EXPECT_NE(launch("-n 2 " + generate("a", "-n 12")), 0);
  EXPECT_NE(errors().find("tensor_parallel_size: is 1, and 2 processes were started"), std::string::npos)
      << errors();
  EXPECT_EQ(out(), "");
}

TEST_F(TensorParallelCommand, RanksThatDisagreeAreRefusedBeforeTheFirstToken) {
  EXPECT_NE(launch("-n 1 " + generate("a", "--tp 2") + " : -n 1 " + generate("b", "--tp 2")), 0);
  EXPECT_NE(errors().find("model: is "), std::string::npos) << errors();
  EXPECT_NE(errors().find("on rank 1"), std::string::npos) << errors();
  EXPECT_EQ(out(), "");
  EXPECT_NE(launch("-n 1 " + generate("a", "--tp 2") + " : -n 1 " + generate("a", "--tp 2 --format q8_0")),
            0);
  EXPECT_NE(errors().find("format: is as stored on rank 0 and q8_0 on rank 1"), std::string::npos)
      << errors();
}

TEST_F(TensorParallelCommand, ARankThatIsKilledEndsTheOthersWithAMessage) {
  EXPECT_NE(launch("-n 1 " + generate("a", "--tp 2 --ignore-eos -n 200") +
                   " : -n 1 env INGOT_FAULT=crash:tensor_parallel.order:9 " +
                   generate("a", "--tp 2 --ignore-eos -n 200")),
            0);
  EXPECT_NE(errors().find("rank 1"), std::string::npos) << errors();
  EXPECT_NE(errors().find("signal 9"), std::string::npos) << errors();
}

TEST_F(TensorParallelCommand, BenchDecodeRunsOnRanks) {
  ASSERT_EQ(launch("-n 2 " INGOT_BINARY " bench decode " + path("a") + " --tp 2 -n 8 --runs 1 --json"), 0)
      << errors();
  EXPECT_NE(out().find("\"tensor_parallel_size\": 2"), std::string::npos) << out();
}

}  // namespace
}  // namespace ingot::testing
