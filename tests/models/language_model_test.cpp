#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "tests/models/goldens.h"
#include "tests/models/half_precision.h"
#include "tests/models/weight_uses.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/models/config_file.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors.h"

namespace ingot {
namespace {

using test::golden_path;

using test::relative_error;
using testing::max_error;

// What transformers computed (tools/goldens/language_models.py).
struct Golden {
  std::map<std::string, Tensor> expected;
  const Tensor& operator[](const std::string& name) const { return expected.at(name); }
  std::map<std::string, Tensor> gradients() const {
    std::map<std::string, Tensor> found;
    for (const auto& [name, tensor] : expected) {
      if (name.starts_with("grad.")) found[name.substr(5)] = tensor;
    }
    return found;
  }
};

Golden load_golden(const std::string& name, const std::string& file = "expected.safetensors") {
  const auto source = open_safetensors(golden_path(name) + "/" + file);
  Golden golden;
  for (const TensorInfo& info : source->tensors())
    golden.expected[info.name] = source->load_tensor(info.name);
  return golden;
}

class GoldenModel : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LanguageModel> model_ = load_language_model(golden_path(GetParam()));
  Golden golden_ = load_golden(GetParam());
  DecoderInput input_{.tokens = golden_["tokens"]};
};

TEST_P(GoldenModel, LogitsEqualTransformers) {
  const NoGrad no_grad;
  EXPECT_LE(max_error(model_->logits(model_->hidden(input_)), golden_["logits"]), 2e-5);
}

TEST_P(GoldenModel, LossAndEveryGradientEqualTransformers) {
  const Tensor loss = model_->loss(input_, golden_["targets"]);
  EXPECT_NEAR(loss.item(), golden_["loss"].item(), 1e-5);
  backward(loss);
  const std::map<std::string, Tensor> gradients = test::gradients_of(*model_);
  std::size_t compared = 0;
  for (const auto& [name, gradient] : export_tensors(LanguageModel::weight_map(model_->config), gradients)) {
    EXPECT_LE(max_error(gradient, golden_["grad." + name]), 1e-4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, golden_.gradients().size());
}

class TrainedGoldenModel : public GoldenModel {};

TEST_P(TrainedGoldenModel, TenAdamWStepsGiveTheLossesOfPytorch) {
  AdamW optimizer(parameters(*model_),
                  {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  const std::vector<float> expected = golden_["losses"].to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor loss = model_->loss(input_, golden_["targets"]);
    EXPECT_NEAR(loss.item(), expected[i], 2e-4 * expected[i]) << "step " << i;
    backward(loss);
    const std::vector<Parameter*> all = parameters(*model_);
    optimizer.step({.grad_scale = clip_by_global_norm(all, 1.0).factor});
    optimizer.zero_grad();
  }
}

// Tokens to begin with, so that what follows rotates by the same angles: dynamic RoPE changes them with every
// token, LongRoPE where the sequence outgrows the context of training (and so does transformers).
std::int64_t first_piece(const LanguageConfig& config, std::int64_t length) {
  if (config.rope_scaling.type == "dynamic") return length;
  const std::int64_t original = config.rope_scaling.original_max_position_embeddings;
  return config.rope_scaling.type == "longrope" && length > original ? original + 1 : 7;
}

TEST_P(GoldenModel, TokenByTokenWithACacheEqualsTheWholeSequence) {
  const NoGrad no_grad;
  const Tensor whole = model_->logits(model_->hidden(input_));
  const std::int64_t length = input_.tokens.dim(1);
  KvCache first(model_->config, length, DType::f32), second(model_->config, length, DType::f32);
  for (std::int64_t at = 0; at < length;) {
    const std::int64_t count = at == 0 ? first_piece(model_->config, length) : 1;
    const Tensor piece = reshape(contiguous(narrow(input_.tokens, 1, at, count)), {1, 2 * count});
    const std::vector<CacheSegment> segments{{&first, count}, {&second, count}};
    const Tensor logits = reshape(model_->logits(model_->hidden(piece, segments)), {2, count, whole.dim(2)});
    EXPECT_LE(max_error(logits, narrow(whole, 1, at, count)), 2e-5) << "token " << at;
    at += count;
  }
  EXPECT_EQ(first.length(), length);
}

TEST_P(GoldenModel, EveryLinearWeightIsAppliedOnceInEachPass) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
    model_->recompute = recompute;
    test::expect_uses(*model_, test::uses_of([&] { backward(model_->loss(input_, golden_["targets"])); }),
                      "training");
  }
  test::expect_uses_of_inference(*model_, input_, "dense");
}

// Three formats for each family, other ones for the next: all of them together see every format.
TEST_P(GoldenModel, EveryQuantizedWeightIsAppliedOnceInEachPass) {
  const std::vector<std::string> formats = quant::quantized_formats();
  const std::size_t first = std::hash<std::string>{}(GetParam());
  for (const std::size_t apart : {0, 5, 11}) {
    const std::string& format = formats[(first + apart) % formats.size()];
    const auto model = load_language_model(golden_path(GetParam()), {.trainable = false, .format = format});
    test::expect_uses_of_inference(*model, input_, format);
  }
}

// Adapters on every weight change what the model gives as the same updates of its dense matrices do: nothing
// reads a matrix past its weight.
TEST_P(GoldenModel, AdaptersOnEveryWeightActAsIfMergedIntoIt) {
  const auto reference = load_language_model(golden_path(GetParam()));
  const auto weights = named_weights(*model_), theirs = named_weights(*reference);
  InitSource source(7);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& [name, weight] = weights[i];
    LowRankAdapter& adapter = weight->add_adapter(ParamSource(source).scope(name), "default", 2, 0.5F);
    copy_(adapter.b.value.detach(), testing::randn(adapter.b.shape(), i) * 0.05);
    theirs[i].second->dense.replace(weight->effective());
  }
  const Tensor loss = model_->loss(input_, golden_["targets"]);
  const Tensor expected_loss = reference->loss(input_, golden_["targets"]);
  EXPECT_NEAR(loss.item(), expected_loss.item(), 2e-5);
  backward(loss);
  backward(expected_loss);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& [name, weight] = weights[i];
    // dB = scale · dW · Aᵀ and dA = scale · Bᵀ · dW
    const LowRankAdapter& adapter = *weight->adapters.front();
    const Tensor dw = theirs[i].second->dense.grad();
    EXPECT_LE(max_error(adapter.b.grad(), matmul(dw, transpose(adapter.a.value.detach(), 0, 1)) * 0.5), 1e-4)
        << name;
    EXPECT_LE(max_error(adapter.a.grad(), matmul(transpose(adapter.b.value.detach(), 0, 1), dw) * 0.5), 1e-4)
        << name;
  }
  const NoGrad no_grad;
  const Tensor logits = model_->logits(model_->hidden(input_));
  EXPECT_LE(max_error(logits, reference->logits(reference->hidden(input_))), 5e-5);
  EXPECT_GT(max_error(logits, golden_["logits"]), 1e-2);
}

TEST_P(GoldenModel, RowsThatNobodyWantsAreLeftOutAndChangeNoOther) {
  const NoGrad no_grad;
  constexpr std::int64_t kFirst = 7, kNext = 5;  // tokens; no more than attention takes one by one
  const std::int64_t sequences = input_.tokens.dim(0), width = model_->config.hidden_size;
  const auto piece = [&](std::int64_t at, std::int64_t count) {
    return reshape(contiguous(narrow(input_.tokens, 1, at, count)), {1, sequences * count});
  };
  const auto run = [&](std::int64_t first_unwanted, std::int64_t next_unwanted) {
    std::vector<KvCache> caches;
    for (std::int64_t i = 0; i < sequences; ++i)
      caches.emplace_back(model_->config, kFirst + kNext, DType::f32);
    std::vector<CacheSegment> segments;
    for (KvCache& cache : caches) segments.push_back({&cache, kFirst, first_unwanted});
    const Tensor first = model_->hidden(piece(0, kFirst), segments);
    for (CacheSegment& segment : segments) segment.tokens = kNext, segment.unwanted = 0;
    segments.front().unwanted = next_unwanted;
    return std::pair(first, model_->hidden(piece(kFirst, kNext), segments));
  };
  const auto [first, next] = run(0, 0);
  EXPECT_EQ(first.shape(), Shape({1, sequences * kFirst, width}));
  const auto [none, last_two] = run(kFirst, 3);
  EXPECT_EQ(none.shape(), Shape({1, 0, width}));
  const std::int64_t rows = sequences * kNext - 3;
  ASSERT_EQ(last_two.shape(), Shape({1, rows, width}));
  EXPECT_EQ(last_two.to_vector<float>(), contiguous(narrow(next, 1, 3, rows)).to_vector<float>());
  const auto [last, others] = run(kFirst - 1, kNext);
  ASSERT_EQ(last.shape(), Shape({1, sequences, width}));
  for (std::int64_t i = 0; i < sequences; ++i) {
    EXPECT_EQ(contiguous(narrow(last, 1, i, 1)).to_vector<float>(),
              contiguous(narrow(first, 1, (i + 1) * kFirst - 1, 1)).to_vector<float>());
  }
  EXPECT_EQ(others.dim(1), (sequences - 1) * kNext);
}

TEST_P(GoldenModel, RecomputationChangesNoBit) {
  std::vector<std::int32_t> documents;  // two in the second row
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < input_.tokens.dim(1); ++i) documents.push_back(row == 1 && i >= 9 ? 9 : 0);
  }
  input_.doc_start = Tensor::from(documents, {2, input_.tokens.dim(1)});
  const auto gradients = [this](LanguageModel& model, Recompute recompute) {
    model.recompute = recompute;
    zero_grad(model);
    const Tensor loss = model.loss(input_, golden_["targets"], {.router_aux_loss = 0.5F});
    backward(loss);
    std::map<std::string, std::vector<float>> bits{{"loss", to(loss, DType::f32).to_vector<float>()}};
    for (const auto& [name, parameter] : named_parameters(model))
      if (parameter->trainable()) bits[name] = to(parameter->grad(), DType::f32).to_vector<float>();
    return bits;
  };
  const auto half = load_language_model(golden_path(GetParam()), {.dtype = DType::bf16});
  for (LanguageModel* model : {model_.get(), half.get()}) {
    const auto expected = gradients(*model, Recompute::none);
    EXPECT_EQ(gradients(*model, Recompute::selective), expected);
    EXPECT_EQ(gradients(*model, Recompute::full), expected);
  }
}

TEST_P(GoldenModel, WhatIsWrittenOpensAgainWithTheSameTensors) {
  // tools/compare/transformers_reimport.py keeps what is written, and opens it with transformers.
  const char* kept = std::getenv("INGOT_KEEP_MODELS");
  const std::string directory =
      (kept != nullptr ? std::string(kept) + "/" : ::testing::TempDir() + "ingot-model-") + GetParam();
  write_language_model(directory, model_->config, parameter_map(*model_));
  const auto original = open_weights(golden_path(GetParam()) + "/model.safetensors");
  const auto written = open_weights(directory);
  for (const TensorInfo& info : written->tensors()) {
    EXPECT_EQ(max_error(written->load_tensor(info.name), original->load_tensor(info.name)), 0) << info.name;
  }
  EXPECT_EQ(written->tensors().size(), original->tensors().size());
  const NoGrad no_grad;
  const auto again = load_language_model(directory);
  EXPECT_LE(max_error(again->logits(again->hidden(input_)), golden_["logits"]), 2e-5);
  if (kept == nullptr) std::filesystem::remove_all(directory);
}

TEST_P(GoldenModel, PackedDocumentsDoNotSeeEachOther) {
  const NoGrad no_grad;
  const std::int64_t length = input_.tokens.dim(1), cut = 9;
  std::vector<std::int64_t> positions;
  std::vector<std::int32_t> starts;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < length; ++i) {
      positions.push_back(i < cut ? i : i - cut);
      starts.push_back(static_cast<std::int32_t>(i < cut ? 0 : cut));
    }
  }
  const Tensor packed = model_->logits(model_->hidden({.tokens = input_.tokens,
                                                       .positions = Tensor::from(positions, {2, length}),
                                                       .doc_start = Tensor::from(starts, {2, length})}));
  const Tensor second = contiguous(narrow(input_.tokens, 1, cut, length - cut));
  const Tensor alone = model_->logits(model_->hidden({.tokens = second}));
  EXPECT_LE(max_error(narrow(packed, 1, cut, length - cut), alone), 2e-5);
}

class ExpertGoldenModel : public GoldenModel {};
class BalancedGoldenModel : public GoldenModel {};

TEST_P(BalancedGoldenModel, LoadBalancingLossAndItsGradientsEqualTransformers) {
  const Golden router = load_golden(GetParam(), "router.safetensors");
  const double aux = router["aux_loss"].item();
  EXPECT_GT(aux, 1);  // the number of choices where all experts are used alike
  const Tensor loss = model_->loss(input_, golden_["targets"], {.router_aux_loss = 0.5F});
  EXPECT_NEAR(loss.item(), golden_["loss"].item() + 0.5 * aux, 1e-5);
  backward(loss);
  std::map<std::string, Tensor> gradients;
  for (const auto& [name, parameter] : named_parameters(*model_)) gradients[name] = parameter->grad();
  double moved = 0;  // by this loss: else the comparison would say nothing
  for (const auto& [name, gradient] : export_tensors(LanguageModel::weight_map(model_->config), gradients)) {
    EXPECT_LE(max_error(gradient, router["grad." + name]), 1e-4) << name;
    moved = std::max(moved, max_error(gradient, golden_["grad." + name]));
  }
  EXPECT_GT(moved, 1e-3);
}

void expect_bf16_near(LanguageModel& half, const Tensor& tokens, const Tensor& targets, const Tensor& logits,
                      const std::map<std::string, Tensor>& gradients) {
  {
    const NoGrad no_grad;
    EXPECT_LE(relative_error(half.logits(half.hidden({.tokens = tokens})), logits), test::kBf16Outputs);
  }
  backward(half.loss({.tokens = tokens}, targets));
  const auto found = export_tensors(LanguageModel::weight_map(half.config), test::gradients_of(half));
  EXPECT_LE(relative_error(found, gradients), test::kBf16Gradients);
}

class DenseGoldenModel : public GoldenModel {};

TEST_P(DenseGoldenModel, Bf16AndItsGradientsAreNearF32OnTheSameWeights) {
  const auto half = load_language_model(golden_path(GetParam()), {.dtype = DType::bf16});
  test::round_to_bf16(*model_);
  backward(model_->loss(input_, golden_["targets"]));
  const auto gradients = export_tensors(LanguageModel::weight_map(half->config), test::gradients_of(*model_));
  Tensor logits;
  {
    const NoGrad no_grad;
    logits = model_->logits(model_->hidden(input_));
  }
  expect_bf16_near(*half, input_.tokens, golden_["targets"], logits, gradients);
}

// On texts whose experts are chosen clearly: where two are nearly equal for a token, rounding takes the
// other.
TEST_P(ExpertGoldenModel, Bf16AndItsGradientsAreNearTransformersInF32OnTheSameWeights) {
  const Golden golden = load_golden(GetParam(), "bf16.safetensors");
  const auto half = load_language_model(golden_path(GetParam()), {.dtype = DType::bf16});
  expect_bf16_near(*half, golden["tokens"], golden["targets"], golden["logits"], golden.gradients());
}

// Every golden of a decoder: tests/models/goldens/<name>.
std::vector<std::string> golden_names() {
  // clang-format off
  return {
      "llama_gqa_llama3", "llama_bias_untied", "llama_dynamic", "llama_yarn", "mistral_window",
      "mistral_tied", "qwen2_tied", "qwen2_window", "qwen3", "qwen3_bias", "phi3_longrope",
      "phi3_partial", "gemma", "gemma_untied", "gemma2", "gemma2_untied", "gemma3", "gemma3_untied",
      "mixtral", "mixtral_tied", "qwen3_moe", "qwen3_moe_tied", "gpt2", "gpt2_untied", "gpt_bigcode", "gpt_bigcode_heads", "smollm3",
      "smollm3_window", "arcee", "arcee_bias", "cwm", "seed_oss", "seed_oss_bias", "ernie4_5",
      "ernie4_5_bias", "helium", "hunyuan", "hunyuan_bias", "ministral", "olmo2", "olmo2_bias", "olmo3",
      "granite", "granite_bias", "glm", "glm_full", "glm4", "cohere", "cohere_bias", "cohere2", "exaone4",
      "exaone4_full", "starcoder2", "starcoder2_plain", "nemotron", "nemotron_bias", "jais2", "olmoe",
      "olmoe_bias", "qwen2_moe", "qwen2_moe_window", "granitemoe", "granitemoeshared", "stablelm",
      "stablelm_parallel", "phi", "gptj", "gpt_neox", "gpt_neox_sequential", "ministral3", "glm4_moe",
      "glm4_moe_groups", "gpt_oss_moe", "gpt_oss_plain_moe",
      "olmo", "olmo_tied", "falcon", "falcon_groups", "falcon_one_norm", "falcon_alibi", "bloom", "bloom_untied", "mpt",
      "mpt_clip", "opt", "opt_post_norm", "opt_plain", "lfm2", "lfm2_bias", "lfm2_moe", "lfm2_plain_moe",
      "granitehybrid", "granitehybrid_plain", "granitehybrid_moe", "bamba", "mamba2", "mamba2_bias", "qwen3_next_moe", "qwen3_5", "qwen3_5_bias",
      "qwen3_5_moe", "falcon_h1", "falcon_h1_plain", "nemotron_h", "nemotron_h_bias", "nemotron_h_moe", "nemotron_h_moe_bias",
      "nemotron_h_latent_moe",
      "deepseek_v2_moe", "deepseek_v2_groups_moe", "deepseek_v3_moe", "deepseek_v3_halves_moe", "dots1_moe", "ernie4_5_moe", "hunyuan_v1_moe", "minimax_m2_moe",
      "apertus", "apertus_bias",
      "glm4_moe_lite", "glm4_moe_lite_sparse",
      "phimoe", "phimoe_window",
      "llama4_moe", "llama4_moe_plain", "llama4_gguf_moe",
      "gemma4", "gemma4_bias", "gemma4_moe", "gemma3n", "gemma3n_bias",
  };
  // clang-format on
}

std::vector<std::string> golden_names_of(bool experts) {
  std::vector<std::string> names = golden_names();
  std::erase_if(names, [experts](const std::string& name) {
    return (name.starts_with("mixtral") || name.find("moe") != std::string::npos) != experts;
  });
  return names;
}

// transformers has that loss for these.
std::vector<std::string> balanced_golden_names() {
  std::vector<std::string> names = golden_names_of(true);
  std::erase_if(names, [](const std::string& name) {
    return !std::filesystem::exists(golden_path(name) + "/router.safetensors");
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, BalancedGoldenModel, ::testing::ValuesIn(balanced_golden_names()),
                         [](const auto& param_info) { return param_info.param; });
INSTANTIATE_TEST_SUITE_P(Families, ExpertGoldenModel, ::testing::ValuesIn(golden_names_of(true)),
                         [](const auto& param_info) { return param_info.param; });
// Gradients jump where ReLU and clamps have their edges, over which rounding moves some numbers.
std::vector<std::string> smooth_golden_names() {
  std::vector<std::string> names = golden_names_of(false);
  std::erase_if(names, [](const std::string& name) { return name == "opt" || name == "olmo"; });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, DenseGoldenModel, ::testing::ValuesIn(smooth_golden_names()),
                         [](const auto& param_info) { return param_info.param; });
// What a family changes shows in its gradients; that steps made of gradients are PyTorch's, a few show for
// all.
INSTANTIATE_TEST_SUITE_P(Families, TrainedGoldenModel,
                         ::testing::Values("llama_gqa_llama3", "llama_bias_untied", "phi3_longrope", "gemma2",
                                           "mixtral", "qwen3_moe_tied", "gpt2", "olmo2", "cohere2"),
                         [](const auto& param_info) { return param_info.param; });
INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, ::testing::ValuesIn(golden_names()),
                         [](const auto& param_info) { return param_info.param; });

LanguageConfig tiny() {
  LanguageConfig c;
  c.vocab_size = 50;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 4;
  return c;
}

TEST(LanguageConfig, ImpossibleShapesNameTheKey) {
  const auto key_of = [](LanguageConfig c) -> std::string {
    try {
      c.validate();
    } catch (const InvalidConfig& error) {
      return error.key;
    }
    return "none";
  };
  LanguageConfig c = tiny();
  EXPECT_EQ(key_of(c), "none");
  c.num_attention_heads = 3;
  EXPECT_EQ(key_of(c), "num_attention_heads");
  c = tiny();
  c.num_key_value_heads = 3;
  EXPECT_EQ(key_of(c), "num_key_value_heads");
  c = tiny();
  c.head_dim = 3;
  EXPECT_EQ(key_of(c), "head_dim");
  c = tiny();
  c.vocab_size = 0;
  EXPECT_EQ(key_of(c), "vocab_size");
  c = tiny();
  c.rope_scaling.type = "spiral";
  EXPECT_EQ(key_of(c), "rope_scaling.rope_type");
}

TEST(LanguageConfig, ParameterCountIsWhatTheModelHas) {
  for (const std::string& name : golden_names()) {
    const auto model = load_language_model(golden_path(name));
    EXPECT_EQ(model->config.parameter_count(), count_parameters(*model)) << name;
  }
}

TEST(LanguageConfig, EveryFamilyFromScratchIsReadAsItWasWritten) {
  for (const std::string& family : known_language_families()) {
    LanguageConfig config = tiny();
    config.model_type = family;
    apply_family(config);
    if (find_language_family(family)->experts) config.num_experts = 4, config.num_experts_per_tok = 2;
    config.validate();
    const std::string json = config.to_json();
    EXPECT_EQ(LanguageConfig::from_json(json, "config.json").to_json(), json);
  }
}

TEST(LanguageConfig, JsonSurvivesARoundTrip) {
  for (const std::string& name : golden_names()) {
    const std::string path = golden_path(name) + "/config.json";
    const LanguageConfig config = LanguageConfig::from_json(read_file(path), path);
    EXPECT_EQ(LanguageConfig::from_json(config.to_json(), "again").to_json(), config.to_json()) << name;
  }
}

TEST(LanguageConfig, AnInfiniteNumberMayBeABareWordAsInPython) {
  const test::TemporaryDirectory directory;
  std::string text = read_file(golden_path("mamba2") + "/config.json");
  const std::size_t at = text.find('{', 1), end = text.find('}', at);
  text.replace(at, end + 1 - at, "Infinity");
  text.insert(1, R"("_name_or_path": "a \"Infinity\" in words",)");
  write_file_atomically(directory.at("config.json"), text);
  const std::string read = read_model_config(directory.at("config.json"));
  EXPECT_EQ(LanguageConfig::from_json(read, "config.json").most_time_step,
            std::numeric_limits<double>::infinity());
  EXPECT_NE(read.find(R"(a \"Infinity\" in words)"), std::string::npos);
}

TEST(LanguageConfig, UnknownFamiliesAreRefusedWithTheKnownOnes) {
  try {
    LanguageConfig::from_json(R"({"model_type": "mamba"})", "config.json");
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("'mamba'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("llama"), std::string::npos);
  }
  EXPECT_THROW(LanguageConfig::from_json("[1, 2", "config.json"), FormatError);
}

// bf16 on disk, f32 in memory, so that nothing can be shared with the file; experts are put together from
// several.
TEST(LanguageModel, LoadingNeedsTheModelAndOneTensor) {
  const test::TemporaryDirectory directory;
  for (const char* family : {"llama", "mixtral", "gpt2"}) {
    LanguageConfig config = tiny();
    config.model_type = family;
    apply_family(config);
    config.vocab_size = 512;
    config.hidden_size = config.intermediate_size = 64;
    config.dtype = DType::bf16;
    if (config.model_type == "mixtral") {
      config.num_experts = 4;
      config.num_experts_per_tok = 2;
    }
    const std::string path = directory.at(family);
    {
      InitSource source(1, DType::bf16);
      LanguageModel model(config, source);
      write_language_model(path, model.config, parameter_map(model));
    }
    MemoryTracker& memory = backend(kCpu).memory();
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    const auto model = load_language_model(path, {.dtype = DType::f32});
    std::size_t all = 0, largest = 0;
    for (const Parameter* parameter : parameters(*model)) {
      all += parameter->value.nbytes();
      largest = std::max(largest, parameter->value.nbytes());
    }
    EXPECT_GE(memory.peak() - before, all) << family;
    EXPECT_LE(memory.peak() - before, all + largest) << family;
  }
}

TEST(LanguageModel, LoadingListsEveryTensorThatDoesNotFit) {
  const std::string directory = ::testing::TempDir() + "ingot-broken-model";
  const auto model = load_language_model(golden_path("qwen3"));
  auto weights = parameter_map(*model);
  weights.erase("model.norm.weight");
  weights["model.layers.0.mlp.up_proj.weight"] = Tensor::zeros({3, 3});
  weights["surplus"] = Tensor::zeros({1});
  write_language_model(directory, model->config, weights);
  try {
    load_language_model(directory);
    FAIL();
  } catch (const Error& error) {
    for (const char* name : {"model.norm.weight", "model.layers.0.mlp.up_proj.weight", "surplus"}) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  std::filesystem::remove_all(directory);
}

// What data::Batch leaves out where every sequence holds one document: padding stands behind it.
TEST(LanguageModel, PaddingNeedsNoDocumentOfItsOwn) {
  LanguageConfig config = tiny();
  config.num_hidden_layers = 2;
  InitSource source(1);
  LanguageModel model(config, source);
  constexpr std::int64_t kNone = -100;
  const Tensor tokens = Tensor::from<std::int64_t>({5, 9, 2, 7, 0, 0, 0, 0}, {1, 8}),
               targets = Tensor::from<std::int64_t>({9, 2, 7, kNone, kNone, kNone, kNone, kNone}, {1, 8}),
               positions = Tensor::from<std::int64_t>({0, 1, 2, 3, 0, 1, 2, 3}, {1, 8});
  const auto run = [&](const Tensor& doc_start) {
    for (const auto& [name, parameter] : named_parameters(model)) parameter->zero_grad();
    const Tensor loss =
        model.loss({.tokens = tokens, .positions = positions, .doc_start = doc_start}, targets);
    backward(loss);
    std::vector<std::vector<float>> result{{static_cast<float>(loss.item())}};
    for (const auto& [name, parameter] : named_parameters(model))
      result.push_back(parameter->grad().to_vector<float>());
    return result;
  };
  EXPECT_EQ(run({}), run(Tensor::from<std::int32_t>({0, 0, 0, 0, 4, 4, 4, 4}, {1, 8})));
}

TEST(LanguageModel, AFullContextIsAnErrorNotACrash) {
  InitSource source(1);
  const LanguageModel model(tiny(), source);
  const NoGrad no_grad;
  KvCache cache(model.config, 2, DType::f32);
  const std::vector<CacheSegment> segments{{&cache, 3}};
  EXPECT_THROW(model.hidden(Tensor::from<std::int64_t>({1, 2, 3}, {1, 3}), segments), DimensionMismatch);
  EXPECT_THROW(model.hidden(Tensor::from<std::int64_t>({1, 2}, {1, 2}), segments), ShapeMismatch);
  const std::vector<CacheSegment> too_few{{&cache, 1, 2}};
  EXPECT_THROW(model.hidden(Tensor::from<std::int64_t>({1}, {1, 1}), too_few), DimensionMismatch);
  EXPECT_THROW(model.hidden({.tokens = Tensor::from<std::int64_t>({1, 2, 3}, {3})}), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
