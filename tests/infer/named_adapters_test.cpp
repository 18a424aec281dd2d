#include <memory>

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
    write_adapter(first_.path(), 3, {});
    write_adapter(second_.path(), 4, {});
  }

  void write_adapter(const std::string& directory, std::uint64_t seed, std::vector<std::string> whole) const {
    const auto model = load_model(SessionOptions{.model = base_.path()});
    const WeightMap map = LanguageModel::weight_map(model->config);
    const LoraConfig config{
        .r = 4, .target_modules = {"v_proj", "o_proj"}, .modules_to_save = std::move(whole)};
    InitSource source(seed);
    add_lora({*model, map}, config, source);
    std::map<std::string, Tensor> values;
    for (auto& [name, tensor] : parameter_map(*model)) {
      if (name.find("lora_B") == std::string::npos) continue;
      const Tensor drawn = Tensor::empty_like(tensor);
      normal_(drawn, 0, 2, {.seed = seed, .stream = values.size()});
      values[name] = drawn;
    }
    write_peft_adapter(directory, {*model, map}, config, "default", values);
  }

  SessionOptions options() const {
    return {.model = base_.path(),
            .engine = {.prefix_cache = true},
            .named_adapters = {{"first", first_.path()}, {"second", second_.path()}}};
  }
  static Request request(Session& session, const std::string& adapter) {
    Request request =
        session.request(session.encode("hello there x"), {.max_tokens = 12, .sampling = {.temperature = 0}});
    request.adapter = adapter;
    return request;
  }
  std::vector<std::int32_t> alone(std::vector<AdapterChoice> adapters) const {
    Session session({.model = base_.path(), .adapters = std::move(adapters)});
    return session.engine().generate(request(session, "")).tokens;
  }

  const test::TemporaryDirectory base_, first_, second_;
};

TEST_F(NamedAdapters, RequestsOfAllOfThemTogetherGetWhatEachGivesAlone) {
  const auto base = alone({}), first = alone({{first_.path()}}), second = alone({{second_.path()}});
  ASSERT_NE(first, base);
  ASSERT_NE(second, first);
  Session session(options());
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (const char* name : {"", "first", "second", "first", ""})
    sequences.push_back(session.engine().start(request(session, name)));
  session.engine().run();
  const std::vector expected{base, first, second, first, base};
  for (std::size_t i = 0; i < sequences.size(); ++i)
    EXPECT_EQ(sequences[i]->result().tokens, expected[i]) << i;
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

TEST_F(NamedAdapters, WhatCannotBeChosenIsRefused) {
  Session plain({.model = base_.path()});
  EXPECT_THROW(plain.engine().start(request(plain, "first")), InvalidConfig);
  SessionOptions twice = options();
  twice.named_adapters.push_back(twice.named_adapters.front());
  EXPECT_THROW(Session{twice}, InvalidConfig);
  EXPECT_THROW(NamedAdapter::parse("directory", "--named-adapter"), InvalidConfig);
  const test::TemporaryDirectory whole;
  write_adapter(whole.path(), 5, {"lm_head"});
  EXPECT_THROW(Session({.model = base_.path(), .named_adapters = {{"whole", whole.path()}}}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::infer
