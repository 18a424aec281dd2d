// LoRA adapters as PEFT defines them (tools/goldens/lora_models.py).
#include "ingot/models/adapter/lora.h"

#include <functional>
#include <map>
#include <set>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::golden_path;
using testing::max_error;

std::map<std::string, Tensor> stored_in(const std::string& file) {
  const auto source = open_weights(file);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = source->load_tensor(info.name);
  return tensors;
}

class LoraGolden : public ::testing::TestWithParam<std::string> {
 protected:
  LoraGolden() {
    const auto bytes = expected_.at("base").to_vector<std::uint8_t>();
    base_ = std::string(bytes.begin(), bytes.end());
    const std::map<std::string, Tensor> data = stored_in(golden_path(base_) + "/expected.safetensors");
    input_ = {.tokens = data.at("tokens")};
    targets_ = data.at("targets");
    model_ = load();
  }

  std::unique_ptr<LanguageModel> load() const { return load_language_model(golden_path(base_)); }
  AdaptedModel adapted(LanguageModel& model) const { return {model, map_}; }
  LoraConfig read(LanguageModel& model) const { return read_peft_adapter(adapted(model), directory_); }
  Tensor logits(const LanguageModel& model) const {
    const NoGrad no_grad;
    return model.logits(model.hidden(input_));
  }

  std::string directory_ = golden_path("lora/" + GetParam());
  std::map<std::string, Tensor> expected_ = stored_in(directory_ + "/expected.safetensors");
  std::string base_;
  DecoderInput input_;
  Tensor targets_;
  std::unique_ptr<LanguageModel> model_;
  WeightMap map_ = LanguageModel::weight_map(load_language_model(golden_path(base_of()))->config);

 private:
  std::string base_of() const {
    const auto bytes = expected_.at("base").to_vector<std::uint8_t>();
    return {bytes.begin(), bytes.end()};
  }
};

TEST_P(LoraGolden, LogitsLossAndGradientsEqualPeft) {
  const LoraConfig config = read(*model_);
  train_adapter_only(adapted(*model_), config);
  EXPECT_LE(max_error(logits(*model_), expected_.at("logits")), 2e-5);
  const Tensor loss = model_->loss(input_, targets_);
  EXPECT_NEAR(loss.item(), expected_.at("loss").item(), 1e-5);
  backward(loss);
  // A fused module's A is shared by the parts there, and each part's own here: their gradients add up to its.
  std::map<std::string, Tensor> gradients;
  for (const AdaptedWeight& at : adapted_weights(adapted(*model_))) {
    if (const LowRankAdapter* rows = at.weight->find_adapter("default.tokens"))
      gradients["grad.base_model.model." + at.module + ".token_adapter.trainable_tokens_delta"] =
          rows->a.grad();
    const LowRankAdapter* adapter = at.weight->find_adapter("default");
    if (adapter == nullptr) continue;
    Tensor& a = gradients["grad.base_model.model." + at.module + ".lora_A.weight"];
    Tensor& b = gradients["grad.base_model.model." + at.module + ".lora_B.weight"];
    const auto appended = [](const Tensor& before, const Tensor& rows) {
      return before.defined() ? concat(std::vector<Tensor>{before, rows}, 0) : rows;
    };
    a = a.defined() ? a + adapter->a.grad() : adapter->a.grad();
    b = appended(b, adapter->b.grad());
    if (!adapter->magnitude) continue;
    Tensor& m = gradients["grad.base_model.model." + at.module + ".lora_magnitude_vector.weight"];
    m = appended(m, adapter->magnitude.grad());
  }
  std::size_t compared = 0;
  for (const auto& [name, gradient] : expected_) {
    if (!name.starts_with("grad.")) continue;
    ASSERT_TRUE(gradients.contains(name)) << name;
    EXPECT_LE(max_error(gradients.at(name), gradient), 5e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());
  for (const auto& [name, parameter] : named_parameters(*model_)) {
    if (name.find("lora_") == std::string::npos) EXPECT_FALSE(parameter->grad().defined()) << name;
  }
}

TEST_P(LoraGolden, TenAdamWStepsGiveTheLossesOfPeft) {
  if (map_.rule_for("model.layers.0.self_attn.k_proj.weight").rows > 0)
    GTEST_SKIP() << "parts of fused modules train with an A of their own";
  const LoraConfig config = read(*model_);
  train_adapter_only(adapted(*model_), config);
  std::vector<Parameter*> trained;
  for (Parameter* parameter : parameters(*model_))
    if (parameter->trainable()) trained.push_back(parameter);
  AdamW optimizer(trained,
                  {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  for (const float expected : expected_.at("losses").to_vector<float>()) {
    const Tensor loss = model_->loss(input_, targets_);
    EXPECT_NEAR(loss.item(), expected, 2e-4 * expected);
    backward(loss);
    optimizer.step({.grad_scale = clip_by_global_norm(trained, 1.0).factor});
    optimizer.zero_grad();
  }
}

TEST_P(LoraGolden, MergedWeightsAreThoseOfPeftAndGiveTheSameLogits) {
  read(*model_);
  const Tensor before = logits(*model_);
  merge_adapters(*model_);
  EXPECT_LE(max_error(logits(*model_), before), 2e-5);
  const auto merged = export_tensors(map_, parameter_map(*model_));
  for (const auto& [name, weight] : expected_) {
    if (name.starts_with("merged."))
      EXPECT_LE(max_error(merged.at(name.substr(7) + ".weight"), weight), 1e-6) << name;
  }
  for (const auto& [name, weight] : named_weights(*model_)) EXPECT_TRUE(weight->adapters.empty()) << name;
}

TEST_P(LoraGolden, WhatIsWrittenReadsAgainAsTheSameAdapter) {
  const LoraConfig config = read(*model_);
  const test::TemporaryDirectory directory;
  write_peft_adapter(directory.path(), adapted(*model_), config);
  const auto again = load();
  read_peft_adapter(adapted(*again), directory.path());
  EXPECT_LE(max_error(logits(*again), logits(*model_)), 1e-5);  // sums have zeros more
  // Modules that are not fused have PEFT's very tensors.
  const auto ours = stored_in(directory.at("adapter_model.safetensors")),
             theirs = stored_in(directory_ + "/adapter_model.safetensors");
  for (const auto& [name, tensor] : theirs) {
    if (name.find("base_layer") != std::string::npos) continue;
    ASSERT_TRUE(ours.contains(name)) << name;
    if (ours.at(name).shape() == tensor.shape()) EXPECT_EQ(max_error(ours.at(name), tensor), 0.0) << name;
  }
}

TEST_P(LoraGolden, TheConfigurationTargetsTheModulesThatPeftAdapted) {
  const std::string path = directory_ + "/adapter_config.json";
  const LoraConfig config = LoraConfig::from_json(read_file(path), path);
  std::map<std::string, Tensor> theirs = stored_in(directory_ + "/adapter_model.safetensors");
  InitSource source(1);
  const auto modules = add_lora(adapted(*model_), config, source);
  std::set<std::string> found(modules.begin(), modules.end());
  std::set<std::string> expected;
  for (const auto& [name, tensor] : theirs) {
    const std::string end = ".lora_A.weight", prefix = "base_model.model.";
    if (!name.ends_with(end)) continue;
    const std::string module = name.substr(prefix.size(), name.size() - prefix.size() - end.size());
    expected.insert(module);
    EXPECT_EQ(config.rank_of(module), tensor.dim(0)) << module;
  }
  EXPECT_EQ(found, expected);
}

TEST_P(LoraGolden, AdaptersSwitchOffStackAndComeOff) {
  const Tensor plain = logits(*model_);
  read(*model_);
  const Tensor once = logits(*model_);
  read_peft_adapter(adapted(*model_), directory_, "again", -1.0F);
  EXPECT_LE(max_error(logits(*model_), plain), 2e-5);  // what one adds the other takes away
  enable_adapter(*model_, "again", false);
  EXPECT_EQ(max_error(logits(*model_), once), 0.0);
  remove_adapter(*model_, "again");
  enable_adapter(*model_, "default", false);
  EXPECT_EQ(max_error(logits(*model_), plain), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Peft, LoraGolden,
                         ::testing::Values("llama", "qwen3_patterns", "gemma_regex", "gpt2_fused",
                                           "phi3_fused", "llama_dora", "gpt2_dora", "llama_tokens",
                                           "mistral_tokens"),
                         [](const auto& of) { return of.param; });

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Lora, BadConfigurationsNameTheKey) {
  const auto of = [](const std::string& json) {
    return refusal([&] { LoraConfig::from_json(json, "adapter_config.json"); });
  };
  const auto expect_parts = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  };
  expect_parts(of(R"({"r": 0})"), {"r", "between 1"});
  expect_parts(of(R"({"r": "many"})"), {"adapter_config.json", "r", "many"});
  expect_parts(of(R"({"r": 8.5})"), {"adapter_config.json", "r", "8.5"});
  expect_parts(of(R"({"r": 1e308})"), {"r", "1e+308"});
  expect_parts(of(R"({"layers_to_transform": [0, 1.5]})"), {"layers_to_transform", "1.5"});
  expect_parts(of(R"({"rank_pattern": {"q_proj": 2.5}})"), {"rank_pattern", "2.5"});
  expect_parts(of(R"({"peft_type": "IA3"})"), {"peft_type", "IA3"});
  expect_parts(of(R"({"lora_bias": true})"), {"lora_bias"});
  expect_parts(of(R"([1])"), {"adapter_config.json", "object"});
  expect_parts(of(R"({"rank_pattern": {"q_proj": -1}})"), {"rank_pattern.q_proj", "-1"});
}

TEST(Lora, TargetsThatMatchNothingListWhatThereIs) {
  const auto model = load_language_model(golden_path("qwen3"));
  const WeightMap map = LanguageModel::weight_map(model->config);
  InitSource source(1);
  const std::string text = refusal([&] {
    add_lora({*model, map}, {.target_modules = {"query_key_value"}}, source);
  });
  for (const char* part : {"query_key_value", "q_proj", "down_proj", "all-linear"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Lora, AnAdapterOfAnotherBaseIsRefusedByItsModule) {
  const auto model = load_language_model(golden_path("mistral_tied"));
  const WeightMap map = LanguageModel::weight_map(model->config);
  const auto read = [&](const std::string& name) {
    return refusal([&] { read_peft_adapter({*model, map}, golden_path("lora/" + name)); });
  };
  EXPECT_NE(read("gpt2_fused").find("h.0.attn.c_attn"), std::string::npos) << read("gpt2_fused");
  EXPECT_NE(read("llama").find("lora_A"), std::string::npos) << read("llama");
}

TEST(Lora, AnAdapterThatWouldChangeNothingIsRefusedByItsFile) {
  const auto model = load_language_model(golden_path("llama_bias_untied"));
  const WeightMap map = LanguageModel::weight_map(model->config);
  const std::string query = "base_model.model.model.layers.0.self_attn.q_proj.";
  const auto text_of = [&](const std::map<std::string, Tensor>& tensors) {
    const test::TemporaryDirectory directory;
    write_file_atomically(directory.at("adapter_config.json"),
                          read_file(golden_path("lora/llama/adapter_config.json")));
    write_safetensors(directory.at("adapter_model.safetensors"), tensors);
    return refusal([&] { read_peft_adapter({*model, map}, directory.path()); });
  };
  const Tensor weight =
      open_weights(golden_path("llama_bias_untied"))->load_tensor("model.layers.0.self_attn.q_proj.weight");
  const auto expect_parts = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_parts(text_of({}), {"adapter_model.safetensors", "holds no tensors", "lora_A", "lora_B"});
  expect_parts(text_of({{query + "lora_A.weight", Tensor::zeros({0, weight.dim(1)})},
                        {query + "lora_B.weight", Tensor::zeros({weight.dim(0), 0})}}),
               {"adapter_model.safetensors", "q_proj", "rank is 0"});
  expect_parts(text_of({{query + "lora_magnitude_vector", Tensor::zeros({weight.dim(0)})}}),
               {"q_proj", "lora_magnitude_vector without lora_A"});
  expect_parts(text_of({{"model.embed_tokens.lora_embedding_A", Tensor::zeros({4})}}),
               {"lora_embedding_A", "[4]", "a matrix was expected"});
}

class LoraOnQuantized : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LoraOnQuantized, RunsWithItsAdapterAndRefusesTheMerge) {
  const auto& [base, adapter] = GetParam();
  const auto model =
      load_language_model(golden_path(base), {.trainable = false, .format = "w8a8", .keep_quantized = true});
  const auto values =
      load_language_model(golden_path(base), {.dtype = DType::f32, .trainable = false, .format = "w8a8"});
  const WeightMap map = LanguageModel::weight_map(model->config);
  for (LanguageModel* each : {model.get(), values.get()})
    read_peft_adapter({*each, map}, golden_path(std::string("lora/") + adapter));
  const auto data = stored_in(golden_path(base) + "/expected.safetensors");
  // While gradients flow, weights multiply with their values: the two models are one.
  std::vector<Tensor> losses;
  for (LanguageModel* each : {model.get(), values.get()}) {
    train_adapter_only({*each, map}, {});
    losses.push_back(each->loss({.tokens = data.at("tokens")}, data.at("targets")));
    backward(losses.back());
  }
  EXPECT_NEAR(losses[0].item(), losses[1].item(), 1e-6);
  const auto ours = named_parameters(*model), theirs = named_parameters(*values);
  std::map<std::string, Tensor> reference;
  for (const auto& [name, parameter] : theirs) reference[name] = parameter->grad();
  std::size_t compared = 0;
  for (const auto& [name, parameter] : ours) {
    if (!parameter->trainable()) continue;
    EXPECT_LE(max_error(parameter->grad(), reference.at(name)), 1e-6) << name;
    ++compared;
  }
  EXPECT_GT(compared, 20U);
  EXPECT_NE(refusal([&] { merge_adapters(*model); }).find("quantized"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Peft, LoraOnQuantized,
                         ::testing::Values(std::pair("qwen3", "qwen3_patterns"),
                                           std::pair("llama_bias_untied", "llama_dora")),
                         [](const auto& of) { return of.param.second; });

TEST(Lora, AFreshDoraChangesNothingAndEmbeddingsAreRefused) {
  const auto model = load_language_model(golden_path("llama_bias_untied"));
  const WeightMap map = LanguageModel::weight_map(model->config);
  const auto data = stored_in(golden_path("llama_bias_untied") + "/expected.safetensors");
  const auto loss = [&] { return model->loss({.tokens = data.at("tokens")}, data.at("targets")).item(); };
  const double before = loss();
  InitSource source(1);
  LoraConfig config{.use_dora = true, .target_modules = {"all-linear"}};
  add_lora({*model, map}, config, source);
  EXPECT_EQ(loss(), before);
  config.target_modules = {"embed_tokens"};
  const std::string text = refusal([&] { add_lora({*model, map}, config, source, "other"); });
  EXPECT_NE(text.find("embed_tokens"), std::string::npos) << text;
}

// Parts of a module stand head by head there: what is written is the adapter of the checkpoint's matrix.
TEST(Lora, PartsThatStandHeadByHeadAreOneAdapterOfTheirModule) {
  const NoGrad no_grad;
  for (const char* name : {"qwen3_next_moe", "qwen3_5", "gpt_neox"}) {
    const std::string base = golden_path(name);
    const auto model = load_language_model(base);
    const WeightMap map = LanguageModel::weight_map(model->config);
    const DecoderInput input{.tokens = stored_in(base + "/expected.safetensors").at("tokens")};
    InitSource source(1);
    const LoraConfig config{.r = 2, .lora_alpha = 2, .target_modules = {"all-linear"}};
    add_lora({*model, map}, config, source);
    std::uint64_t seed = 1;
    for (const AdaptedWeight& at : adapted_weights({*model, map}))
      if (LowRankAdapter* adapter = at.weight->find_adapter("default"))
        adapter->b.replace(testing::randn(adapter->b.value.shape(), ++seed) * 0.1);
    const Tensor expected = model->logits(model->hidden(input));
    const test::TemporaryDirectory directory;
    write_peft_adapter(directory.path(), {*model, map}, config);
    const auto again = load_language_model(base);
    read_peft_adapter({*again, map}, directory.path());
    EXPECT_LE(max_error(again->logits(again->hidden(input)), expected), 5e-5) << name;
    // W + B·A of the file's matrices, as PEFT merges them.
    std::map<std::string, Tensor> merged = stored_in(base + "/model.safetensors");
    const auto adapter = stored_in(directory.at("adapter_model.safetensors"));
    for (const auto& [key, a] : adapter) {
      const std::size_t end = key.find(".lora_A");
      if (end == std::string::npos) continue;
      const std::string prefix = "base_model.model.";
      Tensor& weight = merged.at(key.substr(prefix.size(), end - prefix.size()) + ".weight");
      const Tensor& b = adapter.at(key.substr(0, end) + ".lora_B.weight");
      weight = weight + matmul(b, a);  // lora_alpha is the rank: a scale of 1
    }
    std::vector<StoredTensor> stored;
    for (const auto& [key, tensor] : merged) stored.push_back(StoredTensor::of(key, tensor));
    const test::TemporaryDirectory whole;
    write_safetensors_directory(whole.path(), stored);
    const auto plain = LanguageModel::from_weights(model->config, *open_weights(whole.path()));
    EXPECT_LE(max_error(plain->logits(plain->hidden(input)), expected), 5e-5) << name;
    EXPECT_GT(max_error(expected, stored_in(base + "/expected.safetensors").at("logits")), 1e-3);
  }
}

TEST(Lora, AMagnitudeVectorWithoutUseDoraOrTheOtherWayRoundNamesTheModule) {
  const auto model = load_language_model(golden_path("llama_bias_untied"));
  const WeightMap map = LanguageModel::weight_map(model->config);
  for (const auto& [tensors, config] : {std::pair("llama_dora", "llama"), std::pair("llama", "llama_dora")}) {
    const test::TemporaryDirectory directory;
    const auto copy = [&](const std::string& from, const char* file) {
      write_file_atomically(directory.at(file), read_file(golden_path("lora/" + from + "/" + file)));
    };
    copy(tensors, "adapter_model.safetensors");
    copy(config, "adapter_config.json");
    const std::string text = refusal([&] { read_peft_adapter({*model, map}, directory.path()); });
    for (const char* part : {"lora_magnitude_vector", "use_dora", "proj"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ingot
