// LoRA adapters in llama.cpp's GGUF files. The PEFT directories are tools/goldens/lora_models.py's.
#include "ingot/models/adapter/gguf_adapter.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::golden_path;
using testing::max_error;

// A golden model and what adapters of it are read for.
struct Base {
  explicit Base(const std::string& name)
      : model(load_language_model(golden_path(name))),
        map(LanguageModel::weight_map(model->config)),
        parts({*model, map}),
        tokens(open_weights(golden_path(name) + "/expected.safetensors")->load_tensor("tokens")) {}

  AdapterBase target() const { return {.parts = parts, .map = map, .config = model->config}; }
  Tensor logits() const {
    const NoGrad no_grad;
    return model->logits(model->hidden({.tokens = tokens}));
  }

  std::unique_ptr<LanguageModel> model;
  WeightMap map;
  AdaptedParts parts;
  Tensor tokens;
};

Base base_of(const std::string& adapter) {
  const auto name =
      open_weights(golden_path("lora/" + adapter) + "/expected.safetensors")->load_tensor("base");
  const auto bytes = name.to_vector<std::uint8_t>();
  return Base(std::string(bytes.begin(), bytes.end()));
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

class GgufAdapter : public ::testing::TestWithParam<std::string> {
 protected:
  std::string written(const Base& base) const {
    const AdapterFile file = read_peft_file(base.map, golden_path("lora/" + GetParam()));
    write_gguf_adapter(directory_.at("a.gguf"), base.target(), file);
    return directory_.at("a.gguf");
  }
  test::TemporaryDirectory directory_;
};

TEST_P(GgufAdapter, APeftDirectoryWrittenAsGgufGivesTheLogitsOfPeft) {
  const Base base = base_of(GetParam());
  read_adapter(*base.model, written(base));
  const Tensor expected =
      open_weights(golden_path("lora/" + GetParam()) + "/expected.safetensors")->load_tensor("logits");
  EXPECT_LE(max_error(base.logits(), expected), 2e-5);
}

TEST_P(GgufAdapter, ReadingAndWritingKeepsEveryModulesMatrices) {
  const Base base = base_of(GetParam());
  const AdapterFile before = read_peft_file(base.map, golden_path("lora/" + GetParam()));
  const AdapterFile after = read_gguf_adapter(base.target(), written(base));
  ASSERT_EQ(before.modules.size(), after.modules.size());
  for (const auto& [module, tensors] : before.modules) {
    const ModuleTensors& again = after.modules.at(module);
    EXPECT_EQ(max_error(again.a, tensors.a), 0.0) << module;
    // Of modules with another scale the factor is in b.
    const float scale = before.config.scale_of(module, tensors.a.dim(0)),
                now = after.config.scale_of(module, tensors.a.dim(0));
    ASSERT_EQ(again.b.shape(), tensors.b.shape()) << module;
    const std::vector<float> was = tensors.b.to_vector<float>(), is = again.b.to_vector<float>();
    for (std::size_t i = 0; i < was.size(); ++i)
      ASSERT_NEAR(is[i] * now, was[i] * scale, 1e-6 * std::abs(was[i] * scale)) << module << " " << i;
  }
}

// Rotated rows in another order (llama), fused and transposed modules (gpt2), fused ones in order (phi3), and
// rsLoRA or patterns of ranks and alphas (qwen3).
INSTANTIATE_TEST_SUITE_P(Families, GgufAdapter,
                         ::testing::Values("llama", "gpt2_fused", "phi3_fused", "qwen3_patterns"),
                         [](const auto& info) { return info.param; });

// Modules of each expert (mixtral), stacks of all in transformers 5's layout (qwen3_moe), transposed with
// gates and values in turn (gpt_oss) and fused (granitemoe).
class GgufExpertAdapter : public GgufAdapter {
 protected:
  // Of the base with an adapter of these tensors, which has the source's fields.
  Tensor adapted_logits(const GgufSource& source, const std::vector<GgufTensor>& tensors) const {
    write_gguf(directory_.at("b.gguf"), source.fields(), tensors);
    const Base adapted = base_of(GetParam());
    read_adapter(*adapted.model, directory_.at("b.gguf"));
    return adapted.logits();
  }
};

TEST_P(GgufExpertAdapter, APeftDirectoryWrittenAsGgufGivesTheLogitsOfPeft) {
  const Tensor expected =
      open_weights(golden_path("lora/" + GetParam()) + "/expected.safetensors")->load_tensor("logits");
  const Base base = base_of(GetParam());
  read_adapter(*base.model, written(base));
  EXPECT_LE(max_error(base.logits(), expected), 2e-5);
  // And as a PEFT directory of that file.
  const Base again = base_of(GetParam());
  write_peft_file(directory_.path(), read_gguf_adapter(again.target(), directory_.at("a.gguf")));
  read_adapter(*again.model, directory_.path());
  EXPECT_LE(max_error(again.logits(), expected), 2e-5);
}

TEST_P(GgufExpertAdapter, StacksHaveAnAxisOfExperts) {
  const Base base = base_of(GetParam());
  const auto source = open_gguf(written(base));
  std::size_t stacks = 0;
  for (const TensorInfo& info : source->tensors()) {
    if (info.name.find("_exps.weight.lora_") == std::string::npos) continue;
    ++stacks;
    ASSERT_EQ(info.shape.size(), 3U) << info.name;
    EXPECT_EQ(info.shape[0], base.model->config.num_experts) << info.name;
  }
  EXPECT_GT(stacks, 0U);
  EXPECT_EQ(stacks % 2, 0U);
}

TEST_P(GgufExpertAdapter, AStackOfAnotherModelIsNamedWithBothShapes) {
  const Base base = base_of(GetParam());
  const auto source = open_gguf(written(base));
  std::vector<GgufTensor> tensors;
  std::string name;
  for (const TensorInfo& info : source->tensors()) {
    Tensor tensor = source->load_tensor(info.name);
    if (name.empty() && info.name.ends_with("_exps.weight.lora_a")) {
      name = info.name.substr(0, info.name.size() - std::string(".lora_a").size());
      tensor = narrow(tensor, 0, 1, tensor.dim(0) - 1);
    }
    tensors.push_back(GgufTensor::of(StoredTensor::of(info.name, contiguous(tensor))));
  }
  write_gguf(directory_.at("b.gguf"), source->fields(), tensors);
  expect_parts(refusal([&] { read_gguf_adapter(base.target(), directory_.at("b.gguf")); }),
               {name, "another base model", "[" + std::to_string(base.model->config.num_experts - 1) + ", "});
}

TEST_P(GgufExpertAdapter, WithoutTheStackOfUpItIsTheOneWhoseStackOfUpIsZero) {
  const Base base = base_of(GetParam());
  const auto source = open_gguf(written(base));
  std::vector<GgufTensor> without, zero;
  for (const TensorInfo& info : source->tensors()) {
    const Tensor tensor = source->load_tensor(info.name);
    const bool up = info.name.find("ffn_up_exps") != std::string::npos;
    if (!up) without.push_back(GgufTensor::of(StoredTensor::of(info.name, tensor)));
    const bool cleared = up && info.name.ends_with(".lora_b");
    zero.push_back(
        GgufTensor::of(StoredTensor::of(info.name, cleared ? Tensor::zeros(tensor.shape()) : tensor)));
  }
  if (without.size() == zero.size() || without.empty()) GTEST_SKIP() << "an adapter of down_proj alone";
  EXPECT_LE(max_error(adapted_logits(*source, without), adapted_logits(*source, zero)), 1e-6);
}

// llama.cpp divides alpha by the rank of each matrix: twice the rank needs twice b for the same product.
TEST_P(GgufExpertAdapter, StacksOfGateAndUpMayHaveOtherRanks) {
  const Base base = base_of(GetParam());
  const auto source = open_gguf(written(base));
  ASSERT_GT(source->fields().number("adapter.lora.alpha").value_or(0), 0);
  std::vector<GgufTensor> as_written, wider;
  std::size_t ups = 0;
  for (const TensorInfo& info : source->tensors()) {
    const Tensor tensor = to(source->load_tensor(info.name), DType::f32);
    as_written.push_back(GgufTensor::of(StoredTensor::of(info.name, tensor)));
    const bool up = info.name.find("ffn_up_exps") != std::string::npos, a = info.name.ends_with(".lora_a");
    const std::vector<Tensor> parts{a ? tensor : tensor * 2.0, Tensor::zeros(tensor.shape())};
    wider.push_back(GgufTensor::of(StoredTensor::of(info.name, up ? concat(parts, a ? 1 : 2) : tensor)));
    ups += up ? 1 : 0;
  }
  if (ups == 0) GTEST_SKIP() << "an adapter of down_proj alone";
  EXPECT_LE(max_error(adapted_logits(*source, wider), adapted_logits(*source, as_written)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufExpertAdapter,
                         ::testing::Values("mixtral_down", "qwen3_moe_experts", "gpt_oss_experts",
                                           "granitemoe_experts"),
                         [](const auto& info) { return info.param; });

TEST(GgufAdapterFile, RowsThatLlamaRotatesLieInPairs) {
  const Base base("llama_bias_untied");
  AdapterFile file{.path = "x", .config = {}, .modules = {}};
  const std::string module = "model.layers.0.self_attn.q_proj";
  const std::int64_t rows = base.model->config.num_attention_heads * base.model->config.head_dim;
  std::vector<float> numbers(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<float>(i);
  file.modules[module].a = Tensor::zeros({1, base.model->config.hidden_size});
  file.modules[module].b = Tensor::from(numbers, {rows, 1});
  const test::TemporaryDirectory directory;
  write_gguf_adapter(directory.at("a.gguf"), base.target(), file);
  const auto written = open_gguf(directory.at("a.gguf"))->load_tensor("blk.0.attn_q.weight.lora_b");
  const std::vector<float> found = written.to_vector<float>();
  const std::int64_t half = base.model->config.head_dim / 2;
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[1], static_cast<float>(half));
  EXPECT_EQ(found[2], 1);
}

// GGUF files have two tensors for such a module, and llama.cpp's scale is alpha / r of each.
TEST(GgufAdapterFile, AModuleThatIsTwoTensorsKeepsItsScale) {
  const std::pair<const char*, const char*> cases[] = {{"granitemoeshared", ".shared_mlp.input_linear"},
                                                       {"granitehybrid", ".shared_mlp.input_linear"},
                                                       {"qwen3_next_gguf_moe", ".linear_attn.in_proj_qkvz"}};
  for (const auto& [name, ending] : cases) {
    const Base plain(name), peft(name), gguf(name);
    AdapterFile file{.path = "x", .config = {.r = 2, .lora_alpha = 6}, .modules = {}};
    for (const AdaptedWeight& at : plain.parts.weights) {
      if (!at.module.ends_with(ending)) continue;
      const Shape part = at.whole_shape();
      const std::int64_t groups = std::max<std::int64_t>(at.groups, 1);
      ModuleTensors& tensors = file.modules[at.module];
      const std::int64_t rows = std::max(tensors.b.defined() ? tensors.b.dim(0) : 0,
                                         at.rows == 0 ? part[0] : (at.first + at.rows) * groups);
      tensors.a = Tensor::empty({2, part[1]});
      tensors.b = Tensor::empty({rows, 2});
    }
    ASSERT_FALSE(file.modules.empty()) << name;
    std::uint64_t stream = 0;
    for (auto& [module, tensors] : file.modules) {
      file.config.target_modules.push_back(module);
      normal_(tensors.a, 0, 0.3F, {.seed = 7, .stream = ++stream});
      normal_(tensors.b, 0, 0.3F, {.seed = 7, .stream = ++stream});
    }
    const test::TemporaryDirectory directory;
    write_peft_file(directory.path(), file);
    write_gguf_adapter(directory.at("a.gguf"), plain.target(), file);
    read_adapter(*peft.model, directory.path());
    read_adapter(*gguf.model, directory.at("a.gguf"));
    EXPECT_GT(max_error(peft.logits(), plain.logits()), 1e-3) << name;
    EXPECT_LE(max_error(gguf.logits(), peft.logits()), 2e-5) << name;
  }
}

// A GGUF file with the pairs that `change` leaves or makes of one.
class DamagedGgufAdapter : public ::testing::Test {
 protected:
  using Tensors = std::map<std::string, Tensor>;
  using Fields = std::map<std::string, std::string>;

  std::string message_of(const std::function<void(Fields&, Tensors&)>& change) {
    const std::int64_t width = base_.model->config.hidden_size;
    Fields fields{{"general.architecture", "llama"}, {"general.type", "adapter"}, {"adapter.type", "lora"}};
    Tensors tensors{{"blk.0.attn_output.weight.lora_a", Tensor::zeros({2, width})},
                    {"blk.0.attn_output.weight.lora_b", Tensor::zeros({width, 2})}};
    change(fields, tensors);
    GgufMetadata metadata;
    for (const auto& [key, value] : fields) metadata.append(key, GgufValue::of_string(value));
    std::vector<GgufTensor> stored;
    for (const auto& [name, tensor] : tensors)
      stored.push_back(GgufTensor::of(StoredTensor::of(name, tensor)));
    write_gguf(directory_.at("bad.gguf"), metadata, stored);
    return refusal([&] { read_adapter(*base_.model, directory_.at("bad.gguf")); });
  }

  Base base_{"llama_bias_untied"};
  test::TemporaryDirectory directory_;
};

TEST_F(DamagedGgufAdapter, IsReadWithoutAnAlphaAtAScaleOfOne) {
  EXPECT_EQ(message_of([](Fields&, Tensors&) {}), "nothing was thrown");
  for (const auto& at : base_.parts.weights)
    if (const LowRankAdapter* adapter = at.weight->find_adapter("default")) EXPECT_EQ(adapter->scale, 1.0F);
}

TEST_F(DamagedGgufAdapter, IsNamedWithWhatIsWrongInIt) {
  const std::string name = "blk.0.attn_output.weight";
  expect_parts(message_of([](Fields& f, Tensors&) { f["general.type"] = "model"; }),
               {"bad.gguf", "general.type", "'model'", "'adapter'"});
  expect_parts(message_of([](Fields& f, Tensors&) { f["general.architecture"] = "qwen3"; }),
               {"general.architecture", "'qwen3'", "'llama'", "another base model"});
  expect_parts(message_of([](Fields& f, Tensors&) { f["adapter.type"] = "control"; }),
               {"adapter.type", "'control'"});
  expect_parts(message_of([&](Fields&, Tensors& t) { t.erase(name + ".lora_b"); }),
               {name + ".lora_b", "is missing"});
  expect_parts(message_of([&](Fields&, Tensors& t) {
                 t[name + ".lora_a"] = Tensor::zeros({2, 3});
               }),
               {name, "[2, 3]", "another base model"});
  expect_parts(message_of([&](Fields&, Tensors& t) {
                 t[name + ".lora_b"] = Tensor::zeros({5, 2});
               }),
               {name, "[5, 2]", "another base model"});
  expect_parts(message_of([](Fields&, Tensors& t) { t["blk.0.attn_norm.weight"] = Tensor::zeros({4}); }),
               {"blk.0.attn_norm.weight", ".lora_a"});
  expect_parts(message_of([&](Fields&, Tensors& t) {
                 t["blk.9.attn_q.weight.lora_a"] = t[name + ".lora_a"];
                 t["blk.9.attn_q.weight.lora_b"] = t[name + ".lora_b"];
               }),
               {"blk.9.attn_q.weight", "does not have"});
  expect_parts(message_of([](Fields&, Tensors& t) { t.clear(); }), {"lora_a", "no tensors"});
}

TEST(GgufAdapterFile, WhatLlamaCppHasNoPlaceForIsRefusedByName) {
  const Base base = base_of("llama_dora");
  const AdapterFile file = read_peft_file(base.map, golden_path("lora/llama_dora"));
  const test::TemporaryDirectory directory;
  expect_parts(refusal([&] { write_gguf_adapter(directory.at("a.gguf"), base.target(), file); }),
               {"DoRA", "ingot merge"});
}

}  // namespace
}  // namespace ingot
