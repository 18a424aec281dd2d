#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/infer/session.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/ops/random.h"

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

// An adapter of the scripted model that has it say something else.
void write_adapter(const std::string& model_path, const std::string& directory, std::uint64_t seed) {
  const auto model = infer::load_model(infer::SessionOptions{.model = model_path});
  const WeightMap map = LanguageModel::weight_map(model->config);
  const LoraConfig config{.r = 4, .target_modules = {"v_proj", "o_proj"}};
  InitSource source(seed);
  add_lora({*model, map}, config, source);
  std::map<std::string, Tensor> values;
  for (auto& [name, tensor] : parameter_map(*model)) {
    if (name.find("lora_B") == std::string::npos) continue;
    const Tensor drawn = Tensor::empty_like(tensor);
    normal_(drawn, 0, 2, {.seed = seed, .stream = values.size()});
    values[name] = drawn;
  }
  std::filesystem::create_directories(directory);
  write_peft_adapter(directory, {*model, map}, config, "default", values);
}

class ServedAdapters : public ::testing::Test {
 protected:
  ServedAdapters() : server_(options(folder_.path())) {
    write_adapter(server_.model_path(), folder_.path() + "/legal", 3);
  }
  static ServerOptions options(const std::string& directory) {
    ServerOptions options;
    options.adapter_directory = directory;
    options.model.session.load_adapters = !directory.empty();
    options.model.session.max_adapters = 2;
    return options;
  }
  static ClientResponse post(const RunningServer& server, const std::string& path, const Json& body) {
    return server.client().post(path, body.dump());
  }
  ClientResponse load(const std::string& name, const std::string& path) const {
    return post(server_, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", path}});
  }
  ClientResponse complete(const std::string& model) const {
    return post(server_, "/v1/completions",
                {{"model", model}, {"prompt", "hello there"}, {"max_tokens", 8}, {"temperature", 0}});
  }
  std::string text(const std::string& model) const {
    return parsed(complete(model))["choices"][0]["text"].get<std::string>();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const Json list = parsed(server_.client().get("/v1/models"));
    for (const Json& model : list["data"]) names.push_back(model["id"].get<std::string>());
    return names;
  }

  const ingot::test::TemporaryDirectory folder_;
  const RunningServer server_;
};

TEST_F(ServedAdapters, OneThatIsLoadedIsAModelUntilItIsUnloaded) {
  const std::string base = text("scripted");
  EXPECT_EQ(complete("legal").status, 404);
  const ClientResponse loaded = load("legal", "legal");
  ASSERT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(names(), (std::vector<std::string>{"scripted", "gpt-test", "legal"}));
  EXPECT_EQ(parsed(server_.client().get("/v1/models/legal"))["parent"], "scripted");
  const std::string legal = text("legal");
  EXPECT_NE(legal, base);
  EXPECT_EQ(text("scripted"), base);
  EXPECT_EQ(text("legal"), legal);
  EXPECT_EQ(load("legal", "legal").status, 400);
  EXPECT_EQ(load("scripted", "legal").status, 400);
  EXPECT_EQ(post(server_, "/v1/unload_lora_adapter", {{"lora_name", "legal"}}).status, 200);
  EXPECT_EQ(post(server_, "/v1/unload_lora_adapter", {{"lora_name", "legal"}}).status, 404);
  EXPECT_EQ(complete("legal").status, 404);
  EXPECT_EQ(text("scripted"), base);
}

TEST_F(ServedAdapters, WhatCannotBeLoadedIsSaidAndLeavesOthersAlone) {
  EXPECT_EQ(load("a", "missing").status, 404);
  EXPECT_EQ(load("a", "../" + folder_.path()).status, 403);
  EXPECT_EQ(load("a", server_.model_path()).status, 403);
  std::filesystem::create_directory_symlink(server_.model_path(), folder_.path() + "/link");
  EXPECT_EQ(load("a", "link").status, 403);
  std::filesystem::create_directory(folder_.path() + "/empty");
  EXPECT_EQ(load("a", "empty").status, 400);
  const std::string config = folder_.path() + "/legal/adapter_config.json";
  write_file_atomically(folder_.path() + "/empty/adapter_config.json", read_file(config));
  write_file_atomically(folder_.path() + "/empty/adapter_model.safetensors", "not tensors");
  EXPECT_EQ(load("a", "empty").status, 400);
  EXPECT_EQ(names(), (std::vector<std::string>{"scripted", "gpt-test"}));
  EXPECT_EQ(load("a", "legal").status, 200);
  EXPECT_EQ(load("b", "legal").status, 200);
  const ClientResponse third = load("c", "legal");
  EXPECT_EQ(third.status, 400);
  EXPECT_NE(third.body.find("one more than the 2"), std::string::npos) << third.body;
  EXPECT_EQ(text("a"), text("b"));
}

// A server that unloads its model as soon as nobody uses it.
class AdaptersOfAnUnloadedModel : public ServedAdapters {
 protected:
  static ServerOptions brief(ServerOptions options) {
    options.pool.unload_after = std::chrono::milliseconds(1);
    return options;
  }
  void wait_until_unloaded() const {
    const auto is_loaded = [this] { return brief_.server().models().list().front().context > 0; };
    for (int i = 0; i < 20'000 && is_loaded(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_FALSE(is_loaded());
  }
  int ask(const std::string& model) const {
    return post(brief_, "/v1/completions", {{"model", model}, {"prompt", "hello"}, {"max_tokens", 2}}).status;
  }

  const RunningServer brief_{brief(options(folder_.path()))};
};

TEST_F(AdaptersOfAnUnloadedModel, ComeBackWithItUnlessTheirFilesAreGone) {
  std::filesystem::copy(folder_.path() + "/legal", folder_.path() + "/other");
  for (const char* name : {"legal", "other"})
    EXPECT_EQ(post(brief_, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", name}}).status, 200);
  wait_until_unloaded();
  EXPECT_EQ(ask("legal"), 200);
  wait_until_unloaded();
  std::filesystem::remove_all(folder_.path() + "/legal");
  EXPECT_EQ(ask("scripted"), 200);
  EXPECT_EQ(ask("legal"), 404);
  EXPECT_EQ(ask("other"), 200);
  wait_until_unloaded();
  EXPECT_EQ(post(brief_, "/v1/unload_lora_adapter", {{"lora_name", "other"}}).status, 200);
  EXPECT_EQ(ask("scripted"), 200);
  EXPECT_EQ(ask("other"), 404);
}

TEST(AdapterDirectory, WithoutItRequestsLoadAndUnloadNothing) {
  const RunningServer server;
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    const Json body{{"lora_name", "a"}, {"lora_path", "b"}};
    EXPECT_EQ(server.client().post(path, body.dump()).status, 403);
  }
}

}  // namespace
}  // namespace ingot::serve
