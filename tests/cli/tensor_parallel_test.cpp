#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
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
  // A server of two ranks, of which each may have more in its environment, while `work` asks it.
  void serve(const std::function<void(serve::HttpClient&)>& work, const std::string& of_first = "",
             const std::string& of_second = "", const std::string& kv_memory = "16MiB") {
    const std::string command =
        INGOT_BINARY " serve " + path("a") + " --port 0 --tensor-parallel-size 2 --kv-memory " + kv_memory;
    for (const char* name : {"pid", "errors"}) std::filesystem::remove(path(name));
    const std::string first =
        fmt::format("-n 1 env {} sh -c 'echo $$ >{}; exec {}'", of_first, path("pid"), command);
    std::thread server([&] { exit_code_ = launch(first + " : -n 1 env " + of_second + " " + command); });
    std::string address;
    for (int i = 0; i < 400 && address.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      if (!std::filesystem::exists(path("errors"))) continue;
      const std::string told = errors();
      const std::size_t at = told.find("http://"), end = told.find(" (OpenAI");
      if (at != std::string::npos && end != std::string::npos) address = told.substr(at, end - at);
    }
    if (!address.empty()) {
      client_address_ = address;
      serve::HttpClient client(address, std::chrono::seconds(20));
      work(client);
    } else {
      stop_server();
    }
    server.join();
    EXPECT_NE(address, "") << errors();
  }
  void stop_server() const {
    if (std::filesystem::exists(path("pid"))) ::kill(std::stoi(read_file(path("pid"))), SIGTERM);
  }
  static auto ask(serve::HttpClient& client, const std::string& text) {
    return client.post("/v1/chat/completions",
                       R"({"temperature":0,"messages":[{"role":"user","content":")" + text + R"("}]})");
  }
  std::string out() const { return read_file(path("out")); }
  std::string errors() const { return read_file(path("errors")); }

  int exit_code_ = -1;
  std::string client_address_;

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
  serve([&](serve::HttpClient& client) {
    for (int i = 0; i < 2; ++i) EXPECT_NE(ask(client, "hi").body.find("one twz"), std::string::npos);
    stop_server();
  });
  EXPECT_EQ(exit_code_, 0) << errors();
}

TEST_F(TensorParallelCommand, ARequestThatIsRefusedLeavesTheRanksAtWork) {
  serve([&](serve::HttpClient& client) {
    EXPECT_EQ(client.post("/v1/chat/completions", "{").status, 400);
    EXPECT_EQ(ask(client, std::string(400, 'x')).status, 400);  // more than the model's context
    EXPECT_EQ(client.post("/v1/completions", R"({"prompt":[3,99999],"max_tokens":2})").status, 400);
    EXPECT_NE(ask(client, "hi").body.find("one twz"), std::string::npos);
    stop_server();
  });
  EXPECT_EQ(exit_code_, 0) << errors();
}

TEST_F(TensorParallelCommand, RequestsThatTheKvCacheDoesNotHoldTogetherAreAllAnswered) {
  // A token of two ranks takes 256 bytes on each, so there is room for 256 tokens: two of these have more.
  serve(
      [&](serve::HttpClient& client) {
        std::string other;
        std::thread beside([&] {
          serve::HttpClient second(client_address_, std::chrono::seconds(20));
          other = ask(second, std::string(180, 'x')).body;
        });
        EXPECT_NE(ask(client, std::string(170, 'y')).body.find("one twz"), std::string::npos);
        beside.join();
        EXPECT_NE(other.find("one twz"), std::string::npos) << other;
        EXPECT_NE(ask(client, "hi").body.find("one twz"), std::string::npos);
        stop_server();
      },
      "", "", "64KiB");
  EXPECT_EQ(exit_code_, 0) << errors();
}

TEST_F(TensorParallelCommand, ARequestThatTheKvMemoryCannotHoldFailsAloneAndTheRanksGoOn) {
  // Room for 256 tokens, of the 512 that the model can take.
  std::string config = read_file(path("a/config.json"));
  const std::string context = "\"max_position_embeddings\": ";
  const std::size_t at = config.find(context + "256");
  ASSERT_NE(at, std::string::npos) << config;
  write_file_atomically(path("a/config.json"), config.replace(at + context.size(), 3, "512"));
  serve(
      [&](serve::HttpClient& client) {
        for (int i = 0; i < 2; ++i) {
          const auto refused = ask(client, std::string(300, 'x'));
          EXPECT_EQ(refused.status, 400);
          EXPECT_NE(refused.body.find("the context is 256 (the model's own is 512)"), std::string::npos)
              << refused.body;
          EXPECT_NE(ask(client, "hi").body.find("one twz"), std::string::npos);
        }
        stop_server();
      },
      "", "", "64KiB");
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

// Of two ranks, one with a fault.
class FailingRank : public TensorParallelCommand, public ::testing::WithParamInterface<int> {
 protected:
  int generate_with(const std::string& fault, const std::string& environment = "") const {
    const std::string command = generate("a", "--tp 2 --ignore-eos -n 200");
    const auto of = [&](int rank) {
      return "-n 1 env " + environment + (rank == GetParam() ? " INGOT_FAULT=" + fault : "") + " " + command;
    };
    return launch(of(0) + " : " + of(1));
  }
  std::string named() const { return fmt::format("rank {}", GetParam()); }
};

TEST_P(FailingRank, ThatIsKilledInAPassEndsTheOther) {
  EXPECT_NE(generate_with("crash:tensor_parallel.sum:9"), 0);
  EXPECT_NE(errors().find(named()), std::string::npos) << errors();
  EXPECT_NE(errors().find("signal 9"), std::string::npos) << errors();
}

TEST_P(FailingRank, ThatHasAnErrorInAPassEndsAllWithHostOperationAndNumber) {
  EXPECT_NE(generate_with("error:tensor_parallel.sum:9"), 0);
  const std::string text = errors();
  const std::size_t at = text.find(named() + " on ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string line = text.substr(at, text.find('\n', at) - at);
  EXPECT_NE(line.find("failed in pass "), std::string::npos) << text;
  EXPECT_NE(line.find(" (number "), std::string::npos) << text;
  EXPECT_NE(line.find("tensor_parallel.sum fails"), std::string::npos) << text;
  for (std::size_t i = text.find(" failed in pass "); i != std::string::npos;
       i = text.find(" failed in pass ", i + 1)) {
    const std::size_t named_at = text.rfind("rank ", i);
    EXPECT_EQ(text.substr(named_at, named().size()), named()) << text;
  }
}

TEST_P(FailingRank, ThatStopsInAPassIsNamedByTheOtherWithHostOperationAndNumber) {
  EXPECT_NE(generate_with("stop:tensor_parallel.sum:9", "INGOT_RANK_TIMEOUT=1"), 0);
  EXPECT_NE(errors().find(fmt::format("rank {} waited 1", 1 - GetParam())), std::string::npos) << errors();
  EXPECT_NE(errors().find("(number "), std::string::npos) << errors();
  EXPECT_NE(errors().find(fmt::format(": {} on ", named())), std::string::npos) << errors();
  EXPECT_NE(errors().find("or raise INGOT_RANK_TIMEOUT"), std::string::npos) << errors();
}

TEST_P(FailingRank, OfAServerIsToldToWhoAskedAndEndsAll) {
  const std::string fault = "INGOT_FAULT=error:tensor_parallel.sum:5";
  serve(
      [&](serve::HttpClient& client) {
        const std::string body = ask(client, "hi").body;
        EXPECT_NE(body.find("tensor_parallel.sum fails"), std::string::npos) << body;
      },
      GetParam() == 0 ? fault : "", GetParam() == 1 ? fault : "");
  EXPECT_NE(exit_code_, 0);
  EXPECT_NE(errors().find(named() + " on "), std::string::npos) << errors();
  EXPECT_NE(errors().find("failed in pass "), std::string::npos) << errors();
}

INSTANTIATE_TEST_SUITE_P(Ranks, FailingRank, ::testing::Values(0, 1));

TEST_F(TensorParallelCommand, BenchDecodeRunsOnRanks) {
  ASSERT_EQ(launch("-n 2 " INGOT_BINARY " bench decode " + path("a") + " --tp 2 -n 8 --runs 1 --json"), 0)
      << errors();
  EXPECT_NE(out().find("\"tensor_parallel_size\": 2"), std::string::npos) << out();
}

}  // namespace
}  // namespace ingot::testing
