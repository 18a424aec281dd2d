// LoRA adapters on experts as PEFT defines them (tools/goldens/lora_models.py).
#include <functional>
#include <map>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::golden_path;
using testing::max_error;

using Tensors = std::map<std::string, Tensor>;

Tensors stored_in(const std::string& file) {
  const auto source = open_weights(file);
  Tensors tensors;
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = source->load_tensor(info.name);
  return tensors;
}

struct Adapted {
  explicit Adapted(const std::string& base, const LoadOptions& options = {})
      : model(load_language_model(golden_path(base), options)),
        map(LanguageModel::weight_map(model->config)),
        data(stored_in(golden_path(base) + "/expected.safetensors")) {}

  AdaptedModel all() { return {*model, map}; }
  LoraConfig read(const std::string& directory, const std::string& name = "default", float weight = 1) {
    return read_peft_adapter(all(), directory, name, weight);
  }
  Tensor logits() const {
    const NoGrad no_grad;
    return model->logits(model->hidden({.tokens = data.at("tokens")}));
  }
  Tensor loss() const { return model->loss({.tokens = data.at("tokens")}, data.at("targets")); }
  std::vector<Parameter*> trained() {
    std::vector<Parameter*> all;
    for (Parameter* parameter : parameters(*model))
      if (parameter->trainable()) all.push_back(parameter);
    return all;
  }

  std::unique_ptr<LanguageModel> model;
  WeightMap map;
  Tensors data;
};

std::string base_of(const Tensors& expected) {
  const auto bytes = expected.at("base").to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

class ExpertLora : public ::testing::TestWithParam<std::string> {
 protected:
  std::string directory_ = golden_path("lora/" + GetParam());
  Tensors expected_ = stored_in(directory_ + "/expected.safetensors");
  std::string base_ = base_of(expected_);
  Adapted of_ = Adapted(base_);
};

// PEFT's lora_A [rank · experts, in] and lora_B [out, rank · experts] of stacks, by what is called so there.
void add_in_layout_of_peft(Tensors& gradients, const std::string& name, const Tensor& a, const Tensor& b) {
  Tensor& first = gradients[name + ".lora_A.weight"];
  const Tensor rows = reshape(contiguous(a), {a.dim(0) * a.dim(1), a.dim(2)});
  first = first.defined() ? first + rows : rows;
  gradients[name + ".lora_B.weight"] =
      reshape(contiguous(permute(b, {1, 2, 0})), {b.dim(1), b.dim(2) * b.dim(0)});
}

TEST_P(ExpertLora, LogitsLossAndGradientsEqualPeft) {
  const LoraConfig config = of_.read(directory_);
  train_adapter_only(of_.all(), config);
  EXPECT_LE(max_error(of_.logits(), expected_.at("logits")), 2e-5);
  const Tensor loss = of_.loss();
  EXPECT_NEAR(loss.item(), expected_.at("loss").item(), 1e-5);
  backward(loss);
  // Layers that are fused there share an A, whose gradient is the sum of those of ours.
  Tensors gradients, fused;
  for (const AdaptedExperts& at : adapted_experts(of_.all())) {
    const LowRankAdapter* adapter = find_adapter(at.experts->adapters, "default");
    if (adapter == nullptr) continue;
    const std::string name = "grad.base_model.model." + at.our_container();
    if (at.parameter() == "down_proj") {
      add_in_layout_of_peft(gradients, name, adapter->a.grad(), adapter->b.grad());
      continue;
    }
    Tensor& before = fused[name];
    const bool interleaved = at.rule.every > 1, second = before.defined();
    const Tensor b = adapter->b.grad();
    before = !second ? b
             : interleaved
                 ? reshape(stack(std::vector<Tensor>{before, b}, 2), {b.dim(0), 2 * b.dim(1), b.dim(2)})
                 : concat(std::vector<Tensor>{before, b}, 1);
    add_in_layout_of_peft(gradients, name + ".base_layer", adapter->a.grad(), before);
  }
  std::size_t compared = 0;
  for (const auto& [name, gradient] : expected_) {
    if (!name.starts_with("grad.") || name.find("experts") == std::string::npos) continue;
    std::string ours = name;
    if (const std::size_t at = ours.find("block_sparse_moe"); at != std::string::npos)
      ours.replace(at, 16, "mlp");
    ASSERT_TRUE(gradients.contains(ours)) << name;
    EXPECT_LE(max_error(gradients.at(ours), gradient), 5e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());
  EXPECT_GT(compared, 1U);
  for (const auto& [name, parameter] : named_parameters(*of_.model))
    if (name.find("lora_") == std::string::npos) EXPECT_FALSE(parameter->grad().defined()) << name;
}

TEST_P(ExpertLora, WhatIsWrittenReadsAgainAsTheSameAdapter) {
  const LoraConfig config = of_.read(directory_);
  const test::TemporaryDirectory directory;
  write_peft_adapter(directory.path(), of_.all(), config);
  Adapted again(base_);
  const LoraConfig written = again.read(directory.path());
  EXPECT_LE(max_error(again.logits(), of_.logits()), 1e-5);  // sums have zeros more
  EXPECT_EQ(written.lora_dropout, 0);
}

TEST_P(ExpertLora, MergedExpertsGiveTheSameLogits) {
  of_.read(directory_);
  const Tensor before = of_.logits();
  merge_adapters(*of_.model);
  EXPECT_LE(max_error(of_.logits(), before), 2e-5);
  EXPECT_TRUE(adapters_of(*of_.model).empty());
}

TEST_P(ExpertLora, SwitchesOffStacksAndComesOff) {
  const Tensor plain = of_.logits();
  of_.read(directory_);
  const Tensor once = of_.logits();
  EXPECT_GT(max_error(once, plain), 1e-3);
  of_.read(directory_, "again", -1.0F);
  EXPECT_LE(max_error(of_.logits(), plain), 2e-5);  // what one adds the other takes away
  enable_adapter(*of_.model, "again", false);
  EXPECT_EQ(max_error(of_.logits(), once), 0.0);
  remove_adapter(*of_.model, "again");
  enable_adapter(*of_.model, "default", false);
  EXPECT_EQ(max_error(of_.logits(), plain), 0.0);
}

TEST_P(ExpertLora, QuantizedExpertsTrainAsTheirValuesDo) {
  const LoadOptions quantized{.trainable = false, .format = "int8", .keep_quantized = true};
  Adapted packed(base_, quantized),
      values(base_, {.dtype = DType::f32, .trainable = false, .format = "int8"});
  std::vector<std::map<std::string, Tensor>> gradients;
  for (Adapted* each : {&packed, &values}) {
    train_adapter_only(each->all(), each->read(directory_));
    backward(each->loss());
    auto& of = gradients.emplace_back();
    for (const Parameter* parameter : each->trained()) of[parameter->name] = parameter->grad();
  }
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (const auto& [name, gradient] : gradients[0])
    EXPECT_LE(max_error(gradient, gradients[1].at(name)), 1e-6) << name;
}

INSTANTIATE_TEST_SUITE_P(Peft, ExpertLora,
                         ::testing::Values("qwen3_moe_experts", "mixtral_down", "gpt_oss_experts",
                                           "granitemoe_experts"),
                         [](const auto& of) { return of.param; });

TEST(ExpertLoraSteps, TenAdamWStepsGiveTheLossesOfPeft) {
  const std::string directory = golden_path("lora/mixtral_down");
  const Tensors expected = stored_in(directory + "/expected.safetensors");
  Adapted of("mixtral");
  train_adapter_only(of.all(), of.read(directory));
  const std::vector<Parameter*> trained = of.trained();
  AdamW optimizer(trained,
                  {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  for (const float loss : expected.at("losses").to_vector<float>()) {
    const Tensor ours = of.loss();
    EXPECT_NEAR(ours.item(), loss, 2e-4 * loss);
    backward(ours);
    optimizer.step({.grad_scale = clip_by_global_norm(trained, 1.0).factor});
    optimizer.zero_grad();
  }
}

// The adapters of a fresh configuration, by name.
std::vector<std::string> adapted(const std::string& base, const LoraConfig& config) {
  Adapted of(base);
  InitSource source(1);
  add_lora(of.all(), config, source);
  std::vector<std::string> names;
  for (const auto& [name, experts] : named_experts(*of.model))
    if (!experts->adapters.empty()) names.push_back(name.substr(name.rfind('.') + 1));
  return names;
}

TEST(ExpertLoraTargets, AreModulesOfEachExpertOrParametersOfAll) {
  using Names = std::vector<std::string>;
  const Names all{"gate_proj", "up_proj", "down_proj"};
  EXPECT_EQ(adapted("qwen3_moe", {.target_modules = {"all-linear"}}), all);
  EXPECT_EQ(adapted("qwen3_moe", {.target_modules = {"q_proj", "down_proj"}}), Names{"down_proj"});
  EXPECT_EQ(adapted("qwen3_moe", {.target_modules = {"all-linear"}, .exclude_modules = {"experts"}}),
            Names{});
  EXPECT_EQ(adapted("qwen3_moe", {.target_parameters = {"experts.gate_up_proj"}}),
            (Names{"gate_proj", "up_proj"}));
  EXPECT_EQ(adapted("qwen3_moe", {.target_regex = R"(.*\.experts\.\d+\.up_proj)"}), Names{"up_proj"});
  // Mixtral's checkpoints call them w1, w2 and w3, transformers 5 as others.
  EXPECT_EQ(adapted("mixtral", {.target_modules = {"w2"}, .layers_to_transform = {1}}), Names{"down_proj"});
  EXPECT_EQ(adapted("mixtral", {.target_parameters = {"mlp.experts.down_proj"}}),
            (Names{"down_proj", "down_proj"}));
  EXPECT_EQ(adapted("gpt_oss_moe", {.target_modules = {"q_proj", "down_proj"}}), Names{});
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ExpertLoraTargets, RefusalsNameWhatIsWrong) {
  const auto expect_parts = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  };
  expect_parts(refusal([] { adapted("mixtral", {.target_parameters = {"experts.gate_proj"}}); }),
               {"target_parameters", "experts.gate_proj", "experts.gate_up_proj", "experts.down_proj"});
  expect_parts(refusal([] { adapted("qwen3", {.target_parameters = {"experts.gate_up_proj"}}); }),
               {"target_parameters", "there is none"});
  expect_parts(refusal([] { adapted("mixtral", {.use_dora = true, .target_modules = {"all-linear"}}); }),
               {"use_dora", "experts", "exclude_modules"});
  // One expert is missing in the file, or has another rank.
  Adapted of("mixtral");
  const auto text_of = [&](const std::function<void(Tensors&)>& change) {
    const test::TemporaryDirectory directory;
    Adapted fresh("mixtral");
    InitSource source(1);
    const LoraConfig config{.r = 2, .target_modules = {"w2"}};
    add_lora(fresh.all(), config, source);
    write_peft_adapter(directory.path(), fresh.all(), config);
    const std::string file = directory.at("adapter_model.safetensors");
    Tensors tensors;
    for (const auto& [name, tensor] : stored_in(file)) tensors[name] = clone(tensor);
    change(tensors);
    write_safetensors(file, tensors);
    return refusal([&] { of.read(directory.path(), "changed"); });
  };
  const std::string third = "base_model.model.model.layers.1.block_sparse_moe.experts.2.w2.";
  expect_parts(text_of([&](Tensors& tensors) {
                 tensors.erase(third + "lora_A.weight");
                 tensors.erase(third + "lora_B.weight");
               }),
               {"experts.2.w2", "is missing"});
  expect_parts(text_of([&](Tensors& tensors) { tensors.erase(third + "lora_B.weight"); }),
               {"experts.2.w2", "lora_B"});
  expect_parts(text_of([&](Tensors& tensors) {
                 Tensor& a = tensors.at(third + "lora_A.weight");
                 a = clone(narrow(a, 0, 0, 1));
               }),
               {"experts.2.w2", "expert 0"});
}

}  // namespace
}  // namespace ingot
