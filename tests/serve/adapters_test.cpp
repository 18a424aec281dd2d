#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

TEST_F(ServedAdapters, LlamaServersFieldSwitchesOneOn) {
  const std::string base = text("scripted");
  ASSERT_EQ(load("legal", "legal").status, 200);
  const std::string legal = text("legal");
  const auto ask = [&](const Json& lora, const std::string& model = "scripted") {
    return post(
        server_, "/v1/completions",
        {{"model", model}, {"prompt", "hello there"}, {"max_tokens", 8}, {"temperature", 0}, {"lora", lora}});
  };
  const auto answer = [&](const Json& lora) {
    return parsed(ask(lora))["choices"][0]["text"].get<std::string>();
  };
  const Json list = parsed(server_.client().get("/lora-adapters"));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["name"], "legal");
  EXPECT_EQ(list[0]["scale"], 0.0);
  const Json id = list[0]["id"];
  const Json on = Json::array({{{"id", id}, {"scale", 1}}}), off = Json::array({{{"id", id}, {"scale", 0}}});
  EXPECT_EQ(answer(on), legal);
  EXPECT_EQ(answer(off), base);
  EXPECT_EQ(answer(Json::array()), base);
  EXPECT_EQ(ask(Json::array({{{"id", id}, {"scale", 0.5}}})).status, 400);
  EXPECT_EQ(ask(Json::array({{{"id", 77}, {"scale", 1}}})).status, 400);
  EXPECT_EQ(ask({{"id", id}}).status, 400);
  EXPECT_EQ(ask(on, "legal").status, 400) << "the model is an adapter already";
  // For all who ask for the model by its name.
  EXPECT_EQ(post(server_, "/lora-adapters", on).status, 200);
  EXPECT_EQ(parsed(server_.client().get("/lora-adapters"))[0]["scale"], 1.0);
  EXPECT_EQ(text("scripted"), legal);
  EXPECT_EQ(answer(off), base);
  EXPECT_EQ(post(server_, "/v1/unload_lora_adapter", {{"lora_name", "legal"}}).status, 200);
  EXPECT_EQ(text("scripted"), base) << "of an adapter that went nothing is left";
}

TEST_F(AdaptersOfAnUnloadedModel, KeepTheirIdsAndWhichOfThemIsOn) {
  std::filesystem::copy(folder_.path() + "/legal", folder_.path() + "/other");
  const auto load = [&](const char* name) {
    return post(brief_, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", name}}).status;
  };
  const auto list = [&] {
    const int status = ask("scripted");  // which loads the model again
    EXPECT_EQ(status, 200);
    return parsed(brief_.client().get("/lora-adapters"));
  };
  ASSERT_EQ(load("legal"), 200);
  ASSERT_EQ(load("other"), 200);
  const Json before = list();
  const Json id = before[1]["id"];
  EXPECT_EQ(before[1]["name"], "other");
  EXPECT_EQ(post(brief_, "/v1/unload_lora_adapter", {{"lora_name", "legal"}}).status, 200);
  ASSERT_EQ(post(brief_, "/lora-adapters", Json::array({{{"id", id}, {"scale", 1}}})).status, 200);
  wait_until_unloaded();
  const Json after = list();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0]["id"], id);
  EXPECT_EQ(after[0]["scale"], 1.0);
  wait_until_unloaded();
  ASSERT_EQ(load("legal"), 200);
  EXPECT_GT(list()[1]["id"], id) << "an id is never another adapter's";
}

TEST_F(ServedAdapters, EveryRouteThatWritesTextTakesThem) {
  ASSERT_EQ(load("legal", "legal").status, 200);
  const Json id = parsed(server_.client().get("/lora-adapters"))[0]["id"];
  const Json messages = Json::array({{{"role", "user"}, {"content", "hello there"}}});
  const auto made = [](const ClientResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    const Json body = parsed(response);
    if (body.contains("choices")) return body["choices"][0]["message"]["content"].dump();
    if (body.contains("output")) return body["output"][0]["content"][0]["text"].dump();
    if (body.contains("content")) return body["content"][0]["text"].dump();
    return body.contains("message") ? body["message"]["content"].dump() : body["response"].dump();
  };
  const Json plain{{"temperature", 0},
                   {"max_tokens", 8},
                   {"max_output_tokens", 8},
                   {"messages", messages},
                   {"input", "hello there"}};
  const Json ollama{{"messages", messages},
                    {"prompt", "hello there"},
                    {"stream", false},
                    {"options", {{"temperature", 0}, {"num_predict", 8}}}};
  for (const auto& [path, body] : {std::pair<const char*, const Json&>{"/v1/chat/completions", plain},
                                   {"/v1/responses", plain},
                                   {"/v1/messages", plain},
                                   {"/api/chat", ollama},
                                   {"/api/generate", ollama}}) {
    Json request = body;
    const auto ask = [&, path = path] { return made(post(server_, path, request)); };
    request["model"] = "scripted";
    const std::string base = ask();
    request["lora"] = Json::array({{{"id", id}, {"scale", 1}}});
    const std::string legal = ask();
    EXPECT_NE(legal, base) << path;
    request["lora"] = Json::array();
    EXPECT_EQ(ask(), base) << path;
    request.erase("lora");
    request["model"] = "legal";
    EXPECT_EQ(ask(), legal) << path;
    request["model"] = "scripted";
    ASSERT_EQ(post(server_, "/lora-adapters", Json::array({{{"id", id}, {"scale", 1}}})).status, 200);
    EXPECT_EQ(ask(), legal) << path;
    ASSERT_EQ(post(server_, "/lora-adapters", Json::array()).status, 200);
  }
}

// A server with memory for one adapter.
class AdaptersBeyondMemory : public ServedAdapters {
 protected:
  static ServerOptions small(ServerOptions options) {
    options.model.session.adapters_memory = 1;
    return options;
  }
  ClientResponse load(const char* name) const {
    return post(small_, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", name}});
  }
  ClientResponse ask(const std::string& model, std::int64_t tokens = 8) const {
    return post(small_, "/v1/completions",
                {{"model", model}, {"prompt", "hello there"}, {"max_tokens", tokens}, {"temperature", 0}});
  }
  std::string written(const std::string& model) const {
    const ClientResponse response = ask(model);
    EXPECT_EQ(response.status, 200) << response.body;
    return parsed(response)["choices"][0]["text"].get<std::string>();
  }
  std::vector<std::string> loaded() {
    std::vector<std::string> names;
    const ModelLease model = small_.server().models().lease("scripted");
    for (const AdapterHandle& adapter : model->session().adapters()->list())
      names.push_back(adapter->source.name);
    return names;
  }

  // Of which there is room for one. A request holds its adapter a little longer than its answer takes; the
  // next pass of the model finds that it does no more.
  std::vector<std::string> loaded_alone() {
    for (int i = 0; i < 1000 && loaded().size() > 1; ++i) EXPECT_EQ(ask("scripted").status, 200);
    return loaded();
  }

  RunningServer small_{small(options(folder_.path()))};
};

TEST_F(AdaptersBeyondMemory, TheLeastRecentlyUsedIsReadAgainWhenItIsAskedFor) {
  write_adapter(server_.model_path(), folder_.path() + "/medical", 4);
  ASSERT_EQ(load("legal").status, 200);
  const std::string legal = written("legal");
  ASSERT_EQ(load("medical").status, 200);
  EXPECT_EQ(loaded_alone(), std::vector<std::string>{"medical"});
  const std::string medical = written("medical");
  EXPECT_NE(medical, legal);
  const Json before = parsed(small_.client().get("/lora-adapters"));
  EXPECT_EQ(before.size(), 2U) << "its name is known still";
  EXPECT_EQ(load("legal").status, 400) << "and its name is taken";
  EXPECT_EQ(written("legal"), legal);
  EXPECT_EQ(loaded_alone(), std::vector<std::string>{"legal"});
  EXPECT_EQ(written("medical"), medical);
  EXPECT_EQ(loaded_alone(), std::vector<std::string>{"medical"});
  EXPECT_EQ(parsed(small_.client().get("/lora-adapters")), before);
  std::filesystem::remove_all(folder_.path() + "/legal");
  EXPECT_EQ(ask("legal").status, 404);
  EXPECT_EQ(written("medical"), medical);
}

TEST_F(AdaptersBeyondMemory, OneThatIsInUseStays) {
  write_adapter(server_.model_path(), folder_.path() + "/medical", 4);
  ASSERT_EQ(load("legal").status, 200);
  {
    const ModelLease model = small_.server().models().lease("scripted");
    const AdapterHandle held = small_.server().models().hold_adapter(*model, "legal");
    ASSERT_NE(held, nullptr);
    ASSERT_EQ(load("medical").status, 200);
    EXPECT_EQ(loaded(), (std::vector<std::string>{"legal", "medical"}));
  }
  written("medical");
  EXPECT_EQ(loaded_alone(), std::vector<std::string>{"medical"});
}

TEST_F(ServedAdapters, MetricsCountThemByName) {
  const auto metrics = [&] { return server_.client().get("/metrics").body; };
  ASSERT_EQ(load("legal", "legal").status, 200);
  EXPECT_EQ(complete("legal").status, 200);
  EXPECT_EQ(complete("scripted").status, 200);
  const std::string text = metrics();
  for (const char* part :
       {"vllm:lora_requests_info{model_name=\"scripted\",max_lora=\"2\",running_lora_adapters="
        "\"\",waiting_lora_adapters=\"\"} ",
        "ingot:adapter_requests_total{model_name=\"scripted\",adapter=\"legal\"} 1\n",
        "ingot:adapter_generation_tokens_total{model_name=\"scripted\",adapter=\"legal\"} ",
        "ingot:adapter_requests_running{model_name=\"scripted\",adapter=\"legal\"} 0\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("ingot:adapter_memory_bytes{model_name=\"scripted\",adapter=\"legal\"} 0\n"),
            std::string::npos);
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
