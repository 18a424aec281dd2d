#include <atomic>
#include <thread>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using namespace std::chrono_literals;
using test::Json;
using test::parsed;
using test::RunningServer;

/// A server of two scripted models more: "two" says "bcd", and "none" is not there.
class SeveralModels : public ::testing::Test {
 protected:
  ServerOptions options(ModelPoolOptions pool = {}) const {
    ServerOptions options{.pool = pool};
    const std::string two = ingot::test::write_scripted_model(
        folder_.path(), ingot::test::script(3 /* <turn> */, "bcd", 4 /* <end> */));
    options.more_models = {{.session = {.model = two}, .names = {"two"}},
                           {.session = {.model = folder_.at("none")}, .names = {"none"}}};
    return options;
  }
  static ClientResponse ask(const RunningServer& server, const std::string& model) {
    const Json body = {
        {"model", model}, {"temperature", 0}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    return server.client().post("/v1/chat/completions", body.dump());
  }
  static std::string said(const RunningServer& server, const std::string& model) {
    const ClientResponse response = ask(server, model);
    return response.status == 200 ? parsed(response)["choices"][0]["message"]["content"].get<std::string>()
                                  : response.body;
  }
  // "scripted two": the loaded ones.
  static std::string loaded(const RunningServer& server) {
    std::string names;
    for (const ModelPool::Listed& model : server.server().models().list())
      if (model.context > 0) names += (names.empty() ? "" : " ") + model.names.front();
    return names;
  }
  template <class Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 10'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }

  const ingot::test::TemporaryDirectory folder_;
};

TEST_F(SeveralModels, AreLoadedWhenTheyAreAskedFor) {
  const RunningServer server(options());
  EXPECT_EQ(loaded(server), "scripted");
  EXPECT_EQ(said(server, "two"), "bcd");
  EXPECT_EQ(loaded(server), "scripted two");
  EXPECT_EQ(said(server, "gpt-test"), "one twz");
  const Json list = parsed(server.client().get("/v1/models"))["data"];
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[2]["id"], "two");
  EXPECT_EQ(list[2]["status"]["value"], "loaded");
  EXPECT_EQ(list[2]["max_model_len"], 256);
  EXPECT_EQ(list[3]["status"]["value"], "unloaded");
  EXPECT_EQ(server.client().get("/v1/models/none").status, 200);
  EXPECT_EQ(server.client().get("/v1/models/other").status, 404);
  const ClientResponse unknown = ask(server, "other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("'two'"), std::string::npos) << unknown.body;
}

TEST_F(SeveralModels, AreLoadedForEachApiAndForManyWhoAskAtOnce) {
  const RunningServer server(options());
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back([&] { right += said(server, "two") == "bcd" ? 1 : 0; });
  const Json prompt = {
      {"model", "two:latest"}, {"prompt", "hi"}, {"stream", false}, {"options", {{"temperature", 0}}}};
  EXPECT_EQ(parsed(server.client().post("/api/generate", prompt.dump()))["response"], "bcd");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 6);
}

TEST_F(SeveralModels, ALoadThatFailsIsToldToThoseConcernedInTheirApisShape) {
  const RunningServer server(options());
  const ClientResponse failed = ask(server, "none");
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(parsed(failed)["error"]["code"], "model_load_failed");
  EXPECT_NE(failed.body.find(folder_.at("none")), std::string::npos) << failed.body;
  const Json message = {
      {"model", "none"}, {"max_tokens", 5}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(parsed(server.client().post("/v1/messages", message.dump()))["type"], "error");
  EXPECT_EQ(said(server, "scripted"), "one twz");
  // What was missing may have come meanwhile.
  std::filesystem::copy(folder_.path(), folder_.at("none"));
  EXPECT_EQ(said(server, "none"), "bcd");
}

TEST_F(SeveralModels, TheLeastRecentlyUsedGoesForAnother) {
  std::size_t bytes = 0;
  {
    const ServerOptions made = options();
    bytes = std::filesystem::file_size(folder_.at("model.safetensors"));
  }
  const RunningServer server(options({.memory = bytes + bytes / 2}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(said(server, "two"), "bcd");
    EXPECT_EQ(loaded(server), "two");
    EXPECT_EQ(said(server, "scripted"), "one twz");
    EXPECT_EQ(loaded(server), "scripted");
  }
}

TEST_F(SeveralModels, OneInUseAnswersWhatItHasBeforeItGoes) {
  const ServerOptions made = options();
  const std::size_t bytes = std::filesystem::file_size(folder_.at("model.safetensors"));
  const RunningServer server(options({.memory = bytes + bytes / 2}));
  const Json endless = {
      {"model", "scripted"}, {"prompt", "a"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}};
  std::string stream;
  std::atomic<bool> begun{false};
  std::thread busy([&] {
    server.client().post("/v1/completions", endless.dump(), {}, [&](std::string_view piece) {
      stream += piece;
      return begun = true;
    });
  });
  EXPECT_TRUE(eventually([&] { return begun.load(); }));
  EXPECT_EQ(said(server, "two"), "bcd");
  busy.join();
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
}

TEST_F(SeveralModels, OneThatIsTooLargeIsRefused) {
  const ServerOptions made = options();
  const std::size_t bytes = std::filesystem::file_size(folder_.at("model.safetensors"));
  ServerOptions large = options({.memory = bytes});
  large.more_models[0].session.engine.kv_memory = 1U << 20;
  const RunningServer narrow(std::move(large));
  const ClientResponse refused = ask(narrow, "two");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(parsed(refused)["error"]["code"], "model_too_large");
}

TEST_F(SeveralModels, AreUnloadedWhenNobodyAsksForThem) {
  const RunningServer server(options({.unload_after = 20ms}));
  EXPECT_EQ(said(server, "two"), "bcd");
  EXPECT_TRUE(eventually([&] { return loaded(server).empty(); }));
  EXPECT_EQ(said(server, "scripted"), "one twz");
}

TEST_F(SeveralModels, TwoOfOneNameAreRefused) {
  ServerOptions twice = options();
  twice.more_models[0].names = {"gpt-test"};
  EXPECT_THROW(RunningServer{std::move(twice)}, InvalidConfig);
}

}  // namespace
}  // namespace ingot::serve
