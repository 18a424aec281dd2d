// Checkpoints that GPTQ, AWQ, bitsandbytes, compressed-tensors and FP8 tools made run in their own format.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/load.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::infer {
namespace {

struct Case {
  std::string directory, format;  // of the packed layers; empty: dense
};

const std::vector<Case> kCases{{"gptq", "q4_g32"},        {"gptq_act_order", "q4_g32"},
                               {"gptq_8bit", "q8_0"},     {"gptq_gpt2", "q4_g32"},
                               {"awq", "q4_g32"},         {"bnb_nf4", "nf4"},
                               {"bnb_nf4_nested", "nf4"}, {"fp8_blocks", "fp8"},
                               {"ct_pack", "q4_g32"},     {"ct_fp8", "fp8"},
                               {"ct_int8", "q8_0"},       {"gptq_3bit", "q4_g32"},
                               {"bnb_nf4_bf16", "nf4"},   {"ct_fp8_block", "fp8"},
                               {"ct_nvfp4", "nvfp4"},     {"modelopt_nvfp4", "nvfp4"}};

std::string checkpoint_path(const std::string& name) {
  return test::source_dir() + "/tests/infer/goldens/quantized/" + name;
}

struct Expected {
  Tensor tokens;  // [1, n]
  std::vector<float> logits;
};

Expected expected_of(const std::string& name) {
  const auto file = open_safetensors(map_blob(checkpoint_path(name) + "/expected.safetensors.golden"));
  const Tensor tokens = file->load_tensor("tokens");
  return {Tensor::from(tokens.to_vector<std::int64_t>(), {1, tokens.numel()}),
          file->load_tensor("logits").to_vector<float>()};
}

std::vector<float> logits_of(const LanguageModel& model, const Tensor& tokens) {
  const NoGrad no_grad;
  return model.logits(model.hidden({.tokens = tokens})).to_vector<float>();
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, power = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += std::pow(a[i] - b[i], 2);
    power += std::pow(b[i], 2);
  }
  return std::sqrt(error / power);
}

TEST(QuantizedCheckpoint, LoadsAsTheValuesThatItStandsFor) {
  for (const Case& c : kCases) {
    const Expected expected = expected_of(c.directory);
    const auto model = load_language_model(checkpoint_path(c.directory), {.dtype = DType::f32});
    EXPECT_LT(relative_error(logits_of(*model, expected.tokens), expected.logits), 1e-5) << c.directory;
  }
}

TEST(QuantizedCheckpoint, LayersOfOneFileMayHaveDifferentBits) {
  const Expected expected = expected_of("gptq_mixed");
  const auto model = load_language_model(checkpoint_path("gptq_mixed"), {.dtype = DType::f32});
  EXPECT_LT(relative_error(logits_of(*model, expected.tokens), expected.logits), 1e-5);
}

TEST(QuantizedCheckpoint, RunsInItsOwnFormat) {
  for (const Case& c : kCases) {
    const Expected expected = expected_of(c.directory);
    const auto model = load_model(checkpoint_path(c.directory));
    const DecoderLayer& layer = *model->layers.front();
    const Mlp& mlp = *layer.mlp;
    const Attention& attention = *layer.self_attn;
    for (const Linear* linear : {&attention.qkv_proj.layer("q_proj"), &attention.o_proj, &mlp.down_proj}) {
      ASSERT_TRUE(linear->weight.is_quantized()) << c.directory;
      EXPECT_EQ(linear->weight.packed->format_name(), c.format) << c.directory;
    }
    EXPECT_EQ(mlp.in_proj.layer("up_proj").weight.packed->order.defined(), c.directory == "gptq_act_order");
    // Integer formats round activations to int8 as well.
    const double bound = c.format == "nf4" || c.format == "nvfp4" || c.format == "fp8" ? 1e-3 : 0.03;
    EXPECT_LT(relative_error(logits_of(*model, expected.tokens), expected.logits), bound) << c.directory;
    const Generation text = generate(*model, {.prompt = {5, 17, 42}, .max_tokens = 8});
    EXPECT_EQ(text.tokens.size(), 8U);
  }
}

TEST(QuantizedCheckpoint, Mxfp4ExpertsLoadAsTheirValuesAndRunInTheirOwnTiles) {
  const Expected expected = expected_of("mxfp4");
  const auto dense = load_language_model(checkpoint_path("mxfp4"), {.dtype = DType::f32});
  EXPECT_LT(relative_error(logits_of(*dense, expected.tokens), expected.logits), 1e-5);
  const auto model = load_model(checkpoint_path("mxfp4"));
  const MoeMlp& experts = *model->layers.front()->experts;
  for (const ExpertLinear* linear : std::initializer_list<const ExpertLinear*>{
           experts.gate_proj.get(), &experts.up_proj, &experts.down_proj}) {
    ASSERT_TRUE(linear->is_quantized());
    EXPECT_EQ(linear->packed.front()->format_name(), "mxfp4");
  }
  EXPECT_LT(relative_error(logits_of(*model, expected.tokens), expected.logits), 0.03);
  const Generation text = generate(*model, {.prompt = {5, 17, 42}, .max_tokens = 8});
  EXPECT_EQ(text.tokens.size(), 8U);
}

// A copy of a golden directory whose tensors or config a test may damage.
class Damaged {
 public:
  explicit Damaged(const std::string& name) {
    std::filesystem::copy(checkpoint_path(name), directory_.path());
    const auto file = open_weights(checkpoint_path(name));
    for (const TensorInfo& info : file->tensors())
      tensors_[info.name] = ingot::clone(file->load_tensor(info.name));
  }
  Tensor& operator[](const std::string& name) { return tensors_.at(name); }
  void add(const std::string& name, const Tensor& tensor) { tensors_[name] = tensor; }
  void erase(const std::string& name) { tensors_.erase(name); }
  void set_config(const char* key, const nlohmann::json& value) {
    auto config = parse_json<nlohmann::json>(read_file(directory_.at("config.json")), "the test");
    config["quantization_config"][key] = value;
    write_file_atomically(directory_.at("config.json"), dump_json(config));
  }
  std::string error() {
    std::vector<StoredTensor> stored;
    for (const auto& [name, tensor] : tensors_) stored.push_back(StoredTensor::of(name, tensor));
    write_safetensors(directory_.at("model.safetensors"), stored);
    return test::message_of<Error>([&] { load_model(directory_.path()); });
  }

 private:
  test::TemporaryDirectory directory_;
  std::map<std::string, Tensor> tensors_;
};

void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

const std::string kLayer = "model.layers.0.self_attn.q_proj";

TEST(QuantizedCheckpoint, AGroupIndexOutOfRangeIsNamed) {
  Damaged model("gptq_act_order");
  model[kLayer + ".g_idx"].data<std::int32_t>()[7] = 2;
  expect_parts(model.error(), {"model.layers.0.self_attn.q_proj", "g_idx", "input 7", "group 2"});
  Damaged packed("ct_pack");
  Tensor& scale = packed[kLayer + ".weight_scale"];
  scale.data<f16>()[3] = f16(NAN);
  expect_parts(packed.error(), {"model.layers.0.self_attn.q_proj", "scales", "nan"});
}

TEST(QuantizedCheckpoint, InfiniteScalesAndNanWeightsAreNamed) {
  Damaged gptq("gptq");
  gptq[kLayer + ".scales"].data<f16>()[5] = f16(INFINITY);
  expect_parts(gptq.error(), {"model.layers.0.self_attn.q_proj", "scales", "inf"});
  Damaged nf4("bnb_nf4");
  nf4[kLayer + ".weight.absmax"].data<float>()[2] = NAN;
  expect_parts(nf4.error(), {"model.layers.0.self_attn.q_proj", "scales", "nan"});
  Damaged fp8("ct_fp8");
  std::memset(fp8[kLayer + ".weight"].view().data, 0x7f, 1);
  expect_parts(fp8.error(), {"model.layers.0.self_attn.q_proj", "row 0, column 0", "not a number"});
}

TEST(QuantizedCheckpoint, MissingFieldsAndGroupsThatDoNotDivideAreNamed) {
  Damaged missing("awq");
  missing.erase(kLayer + ".scales");
  expect_parts(missing.error(), {"model.layers.0.self_attn.q_proj.scales", "missing"});
  Damaged groups("gptq");
  groups[kLayer + ".scales"] = Tensor::zeros({3, 64}, DType::f16);
  expect_parts(groups.error(), {"model.layers.0.self_attn.q_proj.scales", "3 groups", "64 inputs"});
}

TEST(QuantizedCheckpoint, Mxfp4ExpertsOfAGgufFileHaveTheSameValuesInTheSameTiles) {
  test::TemporaryDirectory directory;
  const GgufExport exported = export_gguf(open_checkpoint(checkpoint_path("mxfp4")));
  const auto weights = encode_weights(exported.weights, parse_weight_encoding("mxfp4"), true);
  write_gguf(directory.at("model.gguf"), exported.metadata, gguf_tensors(*weights));
  EXPECT_EQ(weights->get_metadata("blk.0.ffn_gate_exps.weight").stored_as, "MXFP4");
  EXPECT_EQ(weights->get_metadata("blk.0.ffn_gate_exps.bias").stored_as, "f32");
  const auto original = load_model(checkpoint_path("mxfp4")), model = load_model(directory.at("model.gguf"));
  const MoeMlp &before = *original->layers[1]->experts, &after = *model->layers[1]->experts;
  const auto linears = [](const MoeMlp& mlp) {
    return std::array<const ExpertLinear*, 3>{mlp.gate_proj.get(), &mlp.up_proj, &mlp.down_proj};
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const ExpertLinear &was = *linears(before)[i], &is = *linears(after)[i];
    ASSERT_TRUE(is.is_quantized());
    for (std::size_t e = 0; e < was.packed.size(); ++e)
      EXPECT_EQ(quant::values(*is.packed[e]).to_vector<float>(),
                quant::values(*was.packed[e]).to_vector<float>());
  }
}

TEST(QuantizedCheckpoint, Mxfp4BlocksWithoutTheirScalesAreNamed) {
  Damaged missing("mxfp4");
  missing.erase("model.layers.1.mlp.experts.down_proj_scales");
  expect_parts(missing.error(), {"model.layers.1.mlp.experts.down_proj_scales", "is missing"});
  Damaged cut("mxfp4");
  Tensor& scales = cut["model.layers.0.mlp.experts.down_proj_scales"];
  scales = clone(narrow(scales, 1, 0, 7));
  expect_parts(cut.error(), {"model.layers.0.mlp.experts.down_proj_blocks", "[experts, out, in / 32]"});
}

TEST(QuantizedCheckpoint, FormatsThatDoNotBelongTogetherAreRefused) {
  Damaged mixed("gptq");  // one layer of another format: the model lacks its weight, and has tensors too many
  mixed.set_config("quant_method", "bitsandbytes");
  expect_parts(mixed.error(),
               {"missing", "model.layers.0.self_attn.q_proj.weight", "not expected", "qweight"});
  Damaged unknown("gptq");
  unknown.set_config("quant_method", "gtpq");
  expect_parts(unknown.error(), {"quant_method 'gtpq'", "gptq", "awq", "compressed-tensors"});
  Damaged bits("gptq");
  bits[kLayer + ".qzeros"] = Tensor::zeros({2, 5}, DType::i32);
  expect_parts(bits.error(), {"q_proj.qzeros", "5 words for 64 outputs", "4 bits would take 8"});
  Damaged format("ct_pack");
  format.set_config("format", "marlin-24");
  expect_parts(format.error(), {"marlin-24", "these are read", "pack-quantized"});
}

TEST(QuantizedCheckpoint, WhatModelOptDoesBesideNvfp4AndFp8IsRefusedByName) {
  Damaged scaled("modelopt_nvfp4");
  scaled.add(kLayer + ".pre_quant_scale", Tensor::zeros({64}));
  expect_parts(scaled.error(), {"q_proj.pre_quant_scale", "AWQ", "NVFP4 and FP8"});
  for (const char* algorithm : {"W4A8_AWQ", "MIXED_PRECISION"}) {
    Damaged other("modelopt_nvfp4");
    other.set_config("quant_algo", algorithm);
    expect_parts(other.error(), {"quant_algo", algorithm, "NVFP4 and FP8"});
  }
}

TEST(QuantizedCheckpoint, ScalesOfAQuantizedCacheOfKeysAndValuesAreNoPartOfTheModel) {
  const LanguageConfig config = load_language_model(checkpoint_path("modelopt_nvfp4"))->config;
  const WeightMap map = LanguageModel::weight_map(config);
  for (const char* name : {"k_proj.k_scale", "v_proj.v_scale", "k_scale", "v_scale"}) {
    const std::string tensor = std::string("model.layers.0.self_attn.") + name;
    EXPECT_TRUE(std::ranges::any_of(map.ignored, [&](const std::string& glob) {
      return glob_match(glob, tensor);
    })) << name;
  }
}

}  // namespace
}  // namespace ingot::infer
