#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/infer/session.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/ops/random.h"

namespace ingot::infer {
namespace {

// A model, and adapters that have it say something else.
class NamedAdapters : public ::testing::Test {
 protected:
  NamedAdapters() {
    test::write_scripted_model(base_.path(), test::script(test::scripted_id('x'), "one twz", 1));
    write_adapter(first_.path(), 3, {.r = 4, .target_modules = {"v_proj", "o_proj"}});
    write_adapter(second_.path(), 4, {.r = 3, .target_modules = {"all-linear"}});
    write_adapter(third_.path(), 5,
                  {.r = 4, .use_dora = true, .target_modules = {"v_proj", "o_proj", "down_proj"}});
  }

  void write_adapter(const std::string& directory, std::uint64_t seed, const LoraConfig& config) const {
    const auto model = load_model(SessionOptions{.model = base_.path()});
    const WeightMap map = LanguageModel::weight_map(model->config);
    InitSource source(seed);
    add_lora({*model, map}, config, source);
    std::map<std::string, Tensor> values;
    for (auto& [name, tensor] : parameter_map(*model)) {
      if (name.find("lora_B") == std::string::npos && name.find("magnitude") == std::string::npos) continue;
      const Tensor drawn = Tensor::empty_like(tensor);
      normal_(drawn, 0, 2, {.seed = seed, .stream = values.size()});
      values[name] = drawn;
    }
    write_peft_adapter(directory, {*model, map}, config, "default", values);
  }

  SessionOptions options() const {
    return {
        .model = base_.path(),
        .engine = {.prefix_cache = true},
        .named_adapters = {{"first", first_.path()}, {"second", second_.path()}, {"third", third_.path()}}};
  }
  static Request request(Session& session, const std::string& adapter,
                         const std::string& prompt = "hello there x") {
    Request request =
        session.request(session.encode(prompt), {.max_tokens = 12, .sampling = {.temperature = 0}});
    request.adapter = adapter;
    return request;
  }
  // What a text becomes with the adapter put on for good, and nobody beside it.
  std::vector<std::int32_t> alone(const std::string& format, const std::string& prompt,
                                  std::vector<AdapterChoice> adapters) const {
    Session session({.model = base_.path(), .format = format, .adapters = std::move(adapters)});
    return session.engine().generate(request(session, "", prompt)).tokens;
  }

  const test::TemporaryDirectory base_, first_, second_, third_;
};

// Prompts that are read beside texts that are being written, some in pieces, and drafts that are refused.
TEST_F(NamedAdapters, RequestsOfAllOfThemTogetherGetWhatEachGivesAlone) {
  const std::map<std::string, std::vector<AdapterChoice>> adapters{
      {"", {}}, {"first", {{first_.path()}}}, {"second", {{second_.path()}}}, {"third", {{third_.path()}}}};
  const std::vector<std::pair<std::string, std::string>> asked{{"", "hello there x"},
                                                               {"first", "hello there x"},
                                                               {"second", "another text"},
                                                               {"first", "hello hello x"},
                                                               {"third", "hello there x"},
                                                               {"", "one twz one twz one"},
                                                               {"second", "x"},
                                                               {"third", "one twz one twz one"}};
  for (const std::string format : {"", "q8_0"}) {
    for (const std::int64_t speculate : {0, 4}) {
      SessionOptions options = this->options();
      options.format = format;
      options.engine.chunk = 7;
      Session session(options);
      std::vector<std::shared_ptr<Sequence>> sequences;
      for (const auto& [name, prompt] : asked) {
        Request each = request(session, name, prompt);
        each.speculate = speculate;
        sequences.push_back(session.engine().start(each));
        session.engine().step();
      }
      session.engine().run();
      std::set<std::vector<std::int32_t>> different;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto& [name, prompt] = asked[i];
        const auto expected = alone(format, prompt, adapters.at(name));
        EXPECT_EQ(sequences[i]->result().tokens, expected)
            << "request " << i << ", format '" << format << "', speculate " << speculate;
        if (prompt == "hello there x") different.insert(expected);
      }
      EXPECT_EQ(different.size(), 3U) << "the adapters change nothing";
    }
  }
}

TEST_F(NamedAdapters, AStepOfSeveralAppliesTheBaseOnce) {
  Session session(options());
  for (const char* name : {"", "first", "second", "third"}) session.engine().start(request(session, name));
  session.engine().step();  // prompts
  std::map<const LinearWeight*, int> times;
  {
    const WeightObserver observer([&](const WeightUse& use) { ++times[use.linear]; });
    session.engine().step();
  }
  EXPECT_EQ(times.at(&session.model().layers.front()->self_attn->o_proj.weight), 1);
  session.engine().run();
}

TEST_F(NamedAdapters, OneThatIsUnloadedServesWhoHasItAndThenGoes) {
  Session session(options());
  Engine& engine = session.engine();
  AdapterBank& bank = *session.adapters();
  const auto pairs = [&] { return session.model().layers.front()->self_attn->o_proj.weight.adapters.size(); };
  const auto expected = engine.generate(request(session, "first")).tokens;
  EXPECT_EQ(pairs(), 3U);
  auto sequence = engine.start(request(session, "first"));
  engine.step();
  EXPECT_TRUE(bank.unload("first"));
  EXPECT_FALSE(bank.unload("first"));
  EXPECT_THROW(engine.start(request(session, "first")), InvalidConfig);
  // Another one of this name, while the old one is in use.
  bank.load({"first", second_.path()}, "another content");
  auto other = engine.start(request(session, "first"));
  engine.run();
  EXPECT_EQ(sequence->result().tokens, expected);
  EXPECT_EQ(other->result().tokens, engine.generate(request(session, "second")).tokens);
  EXPECT_EQ(other->result().cached_tokens, 0) << "of the one that had its name";
  EXPECT_TRUE(bank.unload("first"));
  engine.settle_adapters();
  EXPECT_EQ(pairs(), 4U) << "both are held by their sequences still";
  sequence.reset();
  other.reset();
  engine.settle_adapters();
  EXPECT_EQ(pairs(), 2U);
}

TEST_F(NamedAdapters, AreUnloadedAndReadAgainByTheirNumbersWhateverNamesakesThereAre) {
  SessionOptions options = this->options();
  options.adapters_memory = 1;  // for one of them
  Session session(options);
  AdapterBank& bank = *session.adapters();
  session.engine().settle_adapters();
  const auto former = bank.evicted("first");
  ASSERT_TRUE(former);
  EXPECT_EQ(bank.find("first"), nullptr);
  EXPECT_THROW(bank.load({"first", first_.path()}, "again"), InvalidConfig) << "its name is taken";
  ASSERT_TRUE(bank.unload("first"));
  EXPECT_FALSE(bank.reload(*former, "again")) << "it was unloaded";
  EXPECT_EQ(bank.find("first"), nullptr);
  bank.load({"first", second_.path()}, "another");
  EXPECT_FALSE(bank.reload(*former, "again"));
  EXPECT_FALSE(bank.unload("first", former->number));
  ASSERT_NE(bank.find("first"), nullptr);
  EXPECT_EQ(bank.find("first")->source.path, second_.path());
  const auto evicted = bank.evicted("second");
  ASSERT_TRUE(evicted);
  EXPECT_TRUE(bank.reload(*evicted, "again"));
  EXPECT_FALSE(bank.reload(*evicted, "again")) << "it is in memory";
  EXPECT_NE(bank.find("second"), nullptr);
}

TEST_F(NamedAdapters, AreLoadedAndUnloadedByAnotherThreadWhileTheModelRuns) {
  Session session(options());
  Engine& engine = session.engine();
  AdapterBank& bank = *session.adapters();
  const auto expected = engine.generate(request(session, "second")).tokens;
  std::atomic<bool> done = false;
  std::thread loader([&] {
    for (int turn = 0; turn < 20; ++turn) {
      const std::string name = turn % 2 == 0 ? "even" : "odd";
      bank.load({name, turn % 3 == 0 ? third_.path() : second_.path()}, std::to_string(turn));
      if (turn > 0) bank.unload(turn % 2 == 0 ? "odd" : "even");
    }
    done = true;
  });
  while (!done) {
    EXPECT_EQ(engine.generate(request(session, "second")).tokens, expected);
    engine.settle_adapters();
  }
  loader.join();
  EXPECT_EQ(bank.list().size(), 4U);
}

TEST_F(NamedAdapters, NoRequestReusesKeysAndValuesOfAnotherAdapter) {
  Session session(options());
  const auto cached = [&](const std::string& name) {
    return session.engine().generate(request(session, name)).cached_tokens;
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached("first"), 0);
  EXPECT_EQ(cached("second"), 0);
  EXPECT_GT(cached("first"), 0);
  EXPECT_GT(cached(""), 0);
}

TEST_F(NamedAdapters, StatsTellWhoseRequestsRunAndWait) {
  SessionOptions options = this->options();
  options.engine.max_running = 2;
  Session session(options);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (const char* name : {"first", "", "second", "second"})
    sequences.push_back(session.engine().start(request(session, name)));
  session.engine().step();
  const EngineStats stats = session.engine().stats();
  ASSERT_EQ(stats.adapters.size(), 3U);
  EXPECT_EQ(stats.adapters[0].name, "first");
  EXPECT_EQ(stats.adapters[0].running, 1);
  EXPECT_EQ(stats.adapters[1].waiting, 2);
  EXPECT_EQ(stats.adapters[2].running + stats.adapters[2].waiting, 0);
  EXPECT_GT(stats.adapters[2].bytes, 0U);
  session.engine().run();
}

TEST_F(NamedAdapters, WhatCannotBeChosenIsRefused) {
  Session plain({.model = base_.path()});
  EXPECT_THROW(plain.engine().start(request(plain, "first")), InvalidConfig);
  SessionOptions twice = options();
  twice.named_adapters.push_back(twice.named_adapters.front());
  EXPECT_THROW(Session{twice}, InvalidConfig);
  EXPECT_THROW(NamedAdapter::parse("directory", "--named-adapter"), InvalidConfig);
  const test::TemporaryDirectory whole;
  write_adapter(whole.path(), 5, {.r = 4, .target_modules = {"v_proj"}, .modules_to_save = {"lm_head"}});
  const auto message = [&](const std::string& path) {
    return test::message_of<InvalidConfig>([&] {
      Session({.model = base_.path(), .named_adapters = {{"some", path}}});
    });
  };
  EXPECT_NE(message(whole.path()).find("replaces 'lm_head'"), std::string::npos) << message(whole.path());
  const test::TemporaryDirectory rows;
  write_adapter(
      rows.path(), 5,
      {.r = 4, .target_modules = {"v_proj"}, .trainable_token_indices = {{"embed_tokens", {3, 5}}}});
  const std::string refused = message(rows.path());
  for (const char* part : {"rows of tokens of 'model.embed_tokens'", "--adapter", "merge"})
    EXPECT_NE(refused.find(part), std::string::npos) << refused;
}

}  // namespace
}  // namespace ingot::infer
