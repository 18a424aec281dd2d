#include "ingot/models/language/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/config_file.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/classifier.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {
namespace {

using test::golden_path;

using test::TemporaryDirectory;

void write(const GgufExport& model, const std::string& path, const WeightEncoding& encoding = {}) {
  const auto weights = encode_weights(model.weights, encoding, true);
  std::vector<GgufTensor> tensors = model.extra;
  for (GgufTensor& tensor : gguf_tensors(*weights)) tensors.push_back(std::move(tensor));
  write_gguf(path, model.metadata, tensors);
}

class GgufRoundTrip : public ::testing::TestWithParam<std::string> {};

// What llama.cpp's converter would write -> the checkpoint -> what we write: the same tensors, bit for bit.
TEST_P(GgufRoundTrip, AnExportedModelHoldsTheTensorsOfTheFileItCameFrom) {
  TemporaryDirectory directory;
  const std::string original = golden_path("gguf/" + GetParam() + ".gguf");
  write(export_gguf(open_checkpoint(original)), directory.at("again.gguf"));
  const auto before = open_gguf(original), after = open_gguf(directory.at("again.gguf"));
  ASSERT_EQ(after->tensors().size(), before->tensors().size());
  for (const TensorInfo& info : before->tensors()) {
    ASSERT_TRUE(after->is_available(info.name)) << info.name;
    EXPECT_EQ(after->get_metadata(info.name).shape, info.shape) << info.name;
    const std::vector<float> wanted = before->load_tensor(info.name).to_vector<float>();
    const std::vector<float> found = after->load_tensor(info.name).to_vector<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {  // norms pass through 1 + (x - 1)
      ASSERT_NEAR(found[i], wanted[i], 2e-7F * std::max(1.0F, std::abs(wanted[i]))) << info.name << " " << i;
    }
  }
  const auto config = [](const std::string& path) {
    return LanguageConfig::from_json(open_checkpoint(path).config_json, path).to_json();
  };
  EXPECT_EQ(config(directory.at("again.gguf")), config(original));
}

INSTANTIATE_TEST_SUITE_P(Families, GgufRoundTrip,
                         ::testing::Values("llama", "llama_q8_0", "mixtral", "qwen2", "qwen3", "qwen3_moe",
                                           "gemma2", "gemma3", "phi3", "gpt2"),
                         [](const auto& param) { return param.param; });

TEST(GgufExports, QuantisedBlocksPassThroughUnchanged) {
  TemporaryDirectory directory;
  const std::string original = golden_path("gguf/llama_q8_0.gguf");
  write(export_gguf(open_checkpoint(original)), directory.at("again.gguf"));
  const auto before = open_gguf(original), after = open_gguf(directory.at("again.gguf"));
  for (const TensorInfo& info : before->tensors()) {
    EXPECT_EQ(after->get_metadata(info.name).stored_as, info.stored_as) << info.name;
    EXPECT_TRUE(
        std::ranges::equal(after->stored_bytes(info.name).bytes, before->stored_bytes(info.name).bytes))
        << info.name;
  }
}

TEST(GgufExports, AHuggingFaceDirectoryComesBackBitForBit) {
  for (const char* name : {"llama_bias_untied", "qwen2_tied", "gpt2"}) {
    TemporaryDirectory directory;
    const ModelCheckpoint checkpoint = open_checkpoint(golden_path(name));
    write(export_gguf(checkpoint), directory.at("plain.gguf"));
    const ModelCheckpoint back = open_checkpoint(directory.at("plain.gguf"));
    for (const TensorInfo& info : back.weights->tensors()) {
      EXPECT_EQ(back.weights->load_tensor(info.name).to_vector<float>(),
                checkpoint.weights->load_tensor(info.name).to_vector<float>())
          << info.name;
    }
    EXPECT_GT(back.weights->tensors().size(), 20U);
  }
}

// Files of llama.cpp since 2025 hold the parts of kv_b_proj that make keys, transposed, and values by
// themselves, and count one head of keys as wide as what is cached.
TEST(GgufExports, LatentAttentionInTwoPartsIsTheSameModel) {
  const NoGrad no_grad;
  TemporaryDirectory directory;
  const std::string golden = golden_path("deepseek_v2_moe");
  GgufExport whole = export_gguf(open_checkpoint(golden));
  const LanguageConfig c = LanguageConfig::from_json(read_file(golden + "/config.json"), golden);
  const std::int64_t heads = c.num_attention_heads, plain = c.qk_nope_head_dim;
  const auto number = [](std::int64_t value) { return GgufValue::of_u32(static_cast<std::uint32_t>(value)); };
  whole.metadata.set("deepseek2.attention.head_count_kv", number(1));
  whole.metadata.set("deepseek2.attention.key_length_mla", number(c.head_dim));
  whole.metadata.set("deepseek2.attention.value_length_mla", number(c.v_head_dim));
  whole.metadata.set("deepseek2.attention.key_length", number(c.cached_size(0)));
  whole.metadata.set("deepseek2.attention.value_length", number(c.kv_lora_rank));
  std::vector<GgufTensor> tensors;
  for (const TensorInfo& info : whole.weights->tensors()) {
    Tensor tensor = whole.weights->load_tensor(info.name);
    const std::size_t at = info.name.find("attn_kv_b");
    if (at == std::string::npos) {
      tensors.push_back(GgufTensor::of(StoredTensor::of(info.name, tensor)));
      continue;
    }
    tensor = reshape(tensor, {heads, -1, c.kv_lora_rank});
    const Tensor keys = contiguous(transpose(narrow(tensor, 1, 0, plain), 1, 2));
    const Tensor values = contiguous(narrow(tensor, 1, plain, c.v_head_dim));
    const std::string layer = info.name.substr(0, at);
    tensors.push_back(GgufTensor::of(StoredTensor::of(layer + "attn_k_b.weight", keys)));
    tensors.push_back(GgufTensor::of(StoredTensor::of(layer + "attn_v_b.weight", values)));
  }
  write_gguf(directory.at("parts.gguf"), whole.metadata, tensors);
  const auto logits = [&](const std::string& path) {
    const auto model = load_language_model(path);
    return model->logits(
        model->hidden({.tokens = Tensor::from(std::vector<std::int64_t>{5, 3, 9, 1}, {1, 4})}));
  };
  EXPECT_LE(testing::max_error(logits(directory.at("parts.gguf")), logits(golden)), 1e-5);
}

class GgufRefusal : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// llama.cpp would not open these files, or would run another model.
TEST_P(GgufRefusal, NamesWhatLlamaCppHasNoPlaceFor) {
  const auto [golden, what] = GetParam();
  try {
    export_gguf(open_checkpoint(golden_path(golden)));
    ADD_FAILURE() << "was written";
  } catch (const NotImplemented& refused) {
    EXPECT_NE(std::string(refused.what()).find(what), std::string::npos) << refused.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GgufRefusal,
    ::testing::Values(std::pair{"arcee_bias",
                                "'arcee' models, as GGUF files hold them, have no field for the bias "
                                "model.layers.0.mlp.down_proj.bias (blk.0.ffn_down.bias)"},
                      std::pair{"starcoder2_plain", "a model without blk.0.ffn_up.bias"},
                      std::pair{"cohere_bias", "(blk.0.attn_output.bias)"},
                      std::pair{"nemotron",
                                "head_dim 12: num_attention_heads 3 times it must be hidden_size 24"},
                      std::pair{"olmoe", "num_key_value_heads 2: it must be num_attention_heads 4"},
                      std::pair{"qwen3_5", "linear_value_head_dim 10: it must be linear_key_head_dim 7"},
                      std::pair{"nemotron_h_bias", "ssm_in.bias"},
                      std::pair{"phimoe", "LayerNorm and SparseMixer"},
                      std::pair{"olmo3", "rope_theta of sliding layers"}),
    [](const auto& param) { return std::string(param.param.first); });

TEST(GgufExports, AWindowThatLlamaCppIgnoresIsInTheFile) {
  const GgufExport model = export_gguf(open_checkpoint(golden_path("mistral_window")));
  EXPECT_EQ(model.metadata.integer("llama.attention.sliding_window"), 5);
}

// transformers reads such a head, and so does load_language_model().
TEST(GgufExports, AHeadThatIsNotTheEmbeddingIsWrittenThoughTheConfigurationTiesThem) {
  TemporaryDirectory directory;
  const std::string golden = golden_path("llama_bias_untied");
  std::string config = read_file(golden + "/config.json");
  const std::string untied = "\"tie_word_embeddings\": false";
  ASSERT_NE(config.find(untied), std::string::npos);
  config.replace(config.find(untied), untied.size(), "\"tie_word_embeddings\": true");
  write_file_atomically(directory.at("config.json"), config);
  std::filesystem::copy_file(golden + "/model.safetensors", directory.at("model.safetensors"));
  const GgufExport model = export_gguf(open_checkpoint(directory.path()));
  EXPECT_EQ(model.weights->load_tensor("output.weight").to_vector<float>(),
            open_checkpoint(golden).weights->load_tensor("lm_head.weight").to_vector<float>());
}

// llama.cpp's models of these architectures have no fallback to the embedding.
TEST(GgufExports, ATiedHeadIsWrittenWhereReadersAskForIt) {
  for (const char* name : {"nemotron_bias", "stablelm_parallel"}) {
    const GgufExport model = export_gguf(open_checkpoint(golden_path(name)));
    EXPECT_EQ(model.weights->load_tensor("output.weight").to_vector<float>(),
              model.weights->load_tensor("token_embd.weight").to_vector<float>())
        << name;
  }
  EXPECT_FALSE(
      export_gguf(open_checkpoint(golden_path("qwen2_tied"))).weights->is_available("output.weight"));
}

TEST(GgufExports, LongRopeHasItsTypeAndAttentionFactor) {
  const GgufExport model = export_gguf(open_checkpoint(golden_path("phi3_longrope")));
  EXPECT_EQ(model.metadata.text("phi3.rope.scaling.type"), "longrope");
  EXPECT_NEAR(model.metadata.number("phi3.rope.scaling.attn_factor").value_or(0), std::sqrt(1.5), 1e-6);
}

// Groups of queries that share a key, and a norm for each block: llama.cpp's own order and names.
TEST(GgufExports, FalconsQueriesComeBeforeItsKeys) {
  const NoGrad no_grad;
  const std::string golden = golden_path("falcon_one_norm");
  const GgufExport model = export_gguf(open_checkpoint(golden));
  const LanguageConfig c = LanguageConfig::from_json(read_file(golden + "/config.json"), golden);
  const Tensor fused = reshape(
      open_checkpoint(golden).weights->load_tensor("transformer.h.1.self_attention.query_key_value.weight"),
      {2, 4, c.head_dim, c.hidden_size});
  std::vector<Tensor> parts;
  for (const auto& [first, count] : {std::pair{0, 2}, {2, 1}, {3, 1}})
    parts.push_back(reshape(contiguous(narrow(fused, 1, first, count)), {-1, c.hidden_size}));
  EXPECT_EQ(model.weights->load_tensor("blk.1.attn_qkv.weight").to_vector<float>(),
            concat(parts).to_vector<float>());
  EXPECT_EQ(model.metadata.integer("falcon.attention.head_count_kv"), 2);
}

TEST(GgufExports, AlibiAndClampedQueriesHaveTheirKeys) {
  const GgufExport model = export_gguf(open_checkpoint(golden_path("mpt_clip")));
  EXPECT_NEAR(model.metadata.number("mpt.attention.clamp_kqv").value_or(0), 1.1, 1e-6);
  EXPECT_EQ(model.metadata.number("mpt.attention.max_alibi_bias"), 8);
  EXPECT_EQ(model.metadata.integer("mpt.feed_forward_length"), 96);
}

TEST(GgufExports, LatentAttentionWithoutALatentOfQueriesSaysSo) {
  const GgufExport model = export_gguf(open_checkpoint(golden_path("deepseek_v2_moe")));
  EXPECT_EQ(model.metadata.integer("deepseek2.attention.q_lora_rank"), 0);
}

// llama.cpp takes a layer without heads of keys for a short convolution, and its taps in f32.
TEST(GgufExports, ShortConvolutionsAreLayersWithoutKeys) {
  for (const auto& [name, architecture] : {std::pair{"lfm2", "lfm2"}, {"lfm2_moe", "lfm2moe"}}) {
    const GgufExport model = export_gguf(open_checkpoint(golden_path(name)));
    const auto heads = model.metadata.integers(std::string(architecture) + ".attention.head_count_kv");
    ASSERT_TRUE(heads.has_value());
    EXPECT_EQ(heads->at(0), 0);
    EXPECT_GT(heads->at(1), 0);
    EXPECT_EQ(model.metadata.integer(std::string(architecture) + ".shortconv.l_cache"), 3);
    const TensorInfo& taps = model.weights->get_metadata("blk.0.shortconv.conv.weight");
    EXPECT_EQ(taps.shape, (std::vector<std::int64_t>{24, 3}));
    EXPECT_EQ(taps.dtype, DType::f32);
    EXPECT_TRUE(model.weights->is_available("token_embd_norm.weight"));
  }
}

// As llama.cpp's converter writes them: decays as they are used, columns of numbers for each head, a row of
// the norm for each group; layers without heads of keys scan.
TEST(GgufExports, ScansHaveTheirDecaysInColumns) {
  const auto shape = [](const GgufExport& model, const char* name) {
    EXPECT_EQ(model.weights->get_metadata(name).dtype, DType::f32) << name;
    return model.weights->get_metadata(name).shape;
  };
  using Sizes = std::vector<std::int64_t>;
  const GgufExport plain = export_gguf(open_checkpoint(golden_path("mamba2")));
  EXPECT_EQ(shape(plain, "blk.0.ssm_a"), (Sizes{6, 1}));
  EXPECT_EQ(shape(plain, "blk.0.ssm_d"), (Sizes{6, 1}));
  EXPECT_EQ(shape(plain, "blk.0.ssm_norm.weight"), (Sizes{2, 24}));
  EXPECT_EQ(shape(plain, "blk.0.ssm_conv1d.weight"), (Sizes{88, 4}));
  EXPECT_TRUE(plain.weights->is_available("blk.0.ssm_dt.bias"));
  for (const float decay : plain.weights->load_tensor("blk.0.ssm_a").to_vector<float>()) EXPECT_LT(decay, 0);
  EXPECT_EQ(plain.metadata.integer("mamba2.ssm.inner_size"), 48);
  const GgufExport hybrid = export_gguf(open_checkpoint(golden_path("granitehybrid_plain")));
  EXPECT_EQ(hybrid.metadata.integers("granitehybrid.attention.head_count_kv"), (Sizes{0, 2}));
  EXPECT_EQ(hybrid.metadata.boolean("granitehybrid.rope.scaling.finetuned"), false);
  EXPECT_EQ(hybrid.weights->get_metadata("blk.0.ffn_gate.weight").shape, (Sizes{28, 24}));
}

// llama.cpp has no multipliers of Falcon H1: they are in the weights, also in those of a head that is tied.
TEST(GgufExports, FalconsMultipliersAreInTheWeights) {
  const std::string golden = golden_path("falcon_h1_gguf");
  const GgufExport model = export_gguf(open_checkpoint(golden));
  const auto given = open_checkpoint(golden).weights;
  const auto expect_scaled = [&](const char* gguf, const char* name, double by, std::int64_t first = 0,
                                 std::int64_t rows = 0) {
    const Tensor found = model.weights->load_tensor(gguf), wanted = given->load_tensor(name) * by;
    const std::int64_t count = rows > 0 ? rows : wanted.dim(0);
    EXPECT_LE(testing::max_error(narrow(found, 0, first, count), narrow(wanted, 0, first, count)), 1e-6)
        << gguf;
  };
  expect_scaled("token_embd.weight", "model.embed_tokens.weight", 2.5);
  expect_scaled("output.weight", "model.embed_tokens.weight", 0.4);
  expect_scaled("blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight", 1.3 * 0.7);
  expect_scaled("blk.1.ffn_gate.bias", "model.layers.1.feed_forward.gate_proj.bias", 0.8);
  const char* in = "model.layers.0.mamba.in_proj.weight";  // z, x, B, C and time steps
  for (const auto& [first, rows, by] :
       {std::tuple{0, 24, 0.9}, {24, 24, 1.1}, {48, 16, 0.7}, {64, 16, 1.4}, {80, 4, 0.5}})
    expect_scaled("blk.0.ssm_in.weight", in, 1.2 * by, first, rows);
  EXPECT_TRUE(model.weights->is_available("blk.0.ffn_norm"));  // llama.cpp asks for this very name
}

// Where a key head is that of several value heads, llama.cpp takes the first of each, and then the second.
TEST(GgufExports, ValueHeadsOfQwen35TakeTurns) {
  const std::string golden = golden_path("qwen3_5_gguf");
  const GgufExport model = export_gguf(open_checkpoint(golden));
  const std::vector<float> given =
      open_checkpoint(golden).weights->load_tensor("model.layers.0.linear_attn.dt_bias").to_vector<float>();
  const std::vector<float> found = model.weights->load_tensor("blk.0.ssm_dt.bias").to_vector<float>();
  ASSERT_EQ(given.size(), 6U);
  const std::vector<float> turns{given[0], given[3], given[1], given[4], given[2], given[5]};
  EXPECT_EQ(found, turns);
  EXPECT_EQ(model.metadata.integer("qwen35.full_attention_interval"), 2);
  EXPECT_EQ(model.metadata.integer("qwen35.ssm.group_count"), 2);
  const GgufExport other = export_gguf(open_checkpoint(golden_path("qwen3_next_gguf_moe")));
  EXPECT_NE(other.metadata.find("qwen3next.attention.recurrent_layers"), nullptr);  // attention comes first
  EXPECT_EQ(other.weights->get_metadata("blk.1.attn_qkv.weight").shape, (std::vector<std::int64_t>{80, 24}));
}

// A layer without heads of keys and without a width scans.
TEST(GgufExports, BlocksOfNemotronHaveHeadsOrAWidth) {
  using Sizes = std::vector<std::int64_t>;
  const GgufExport model = export_gguf(open_checkpoint(golden_path("nemotron_h")));
  EXPECT_EQ(model.metadata.integers("nemotron_h.attention.head_count_kv"), (Sizes{0, 0, 1, 0, 0}));
  EXPECT_EQ(model.metadata.integers("nemotron_h.feed_forward_length"), (Sizes{0, 44, 0, 0, 44}));
}

// Which layers slide is a list where they do not follow the family's habit.
TEST(GgufExports, LayersThatSlideAreListed) {
  const NoGrad no_grad;
  for (const char* name : {"cohere2", "random/olmo3"}) {
    const TemporaryDirectory place;
    const std::string golden = golden_path(name);
    const GgufExport model = export_gguf(open_checkpoint(golden));
    const std::string architecture = *model.metadata.text("general.architecture");
    ASSERT_NE(model.metadata.find(architecture + ".attention.sliding_window_pattern"), nullptr) << name;
    write(model, place.at("model.gguf"));
    const LanguageConfig wanted =
        LanguageConfig::from_json(open_checkpoint(golden).config_json, "config.json");
    const LanguageConfig found =
        LanguageConfig::from_json(open_checkpoint(place.at("model.gguf")).config_json, "model.gguf");
    EXPECT_EQ(found.model_type, wanted.model_type);
    EXPECT_EQ(found.layer_types, wanted.layer_types) << name;
  }
}

// A file may also say that every third layer sees all.
TEST(GgufExports, APeriodOfLayersThatSeeAllIsRead) {
  const TemporaryDirectory place;
  GgufExport model = export_gguf(open_checkpoint(golden_path("gguf/gemma3.gguf")));
  model.metadata.set("gemma3.attention.sliding_window_pattern", GgufValue::of_u32(3));
  write(model, place.at("model.gguf"));
  const LanguageConfig found =
      LanguageConfig::from_json(open_checkpoint(place.at("model.gguf")).config_json, "model.gguf");
  for (std::int64_t layer = 0; layer < found.num_hidden_layers; ++layer)
    EXPECT_EQ(found.slides(layer), layer % 3 != 2) << layer;
}

// Of every golden: the file is the same model, or it is refused with a word of what GGUF has no field for.
TEST(GgufExports, EveryConfigurationGivesTheSameLogitsOrIsRefused) {
  const NoGrad no_grad;
  int written = 0;
  std::vector<std::string> directories;
  for (const char* folder : {"", "random"})
    for (const auto& entry : std::filesystem::directory_iterator(golden_path(folder)))
      directories.push_back(entry.path().string());
  for (const std::string& directory : directories) {
    const std::string config = directory + "/config.json";
    if (!std::filesystem::exists(config) || !std::filesystem::exists(directory + "/expected.safetensors"))
      continue;
    std::string type;
    ConfigFile(read_file(config), config).read("model_type", type);
    if (find_language_family(type) == nullptr) continue;
    TemporaryDirectory place;
    try {
      write(export_gguf(open_checkpoint(directory)), place.at("model.gguf"));
    } catch (const NotImplemented& refused) {
      EXPECT_NE(std::string(refused.what()).find("GGUF"), std::string::npos) << refused.what();
      continue;
    }
    const Tensor tokens = open_weights(directory + "/expected.safetensors")->load_tensor("tokens");
    const auto logits = [&](const std::string& path) {  // of text encoders, too, which are tied
      const auto model = load_headless(open_checkpoint(path));
      return model->logits(model->hidden({.tokens = tokens}));
    };
    EXPECT_LE(testing::max_error(logits(place.at("model.gguf")), logits(directory)), 1e-5) << directory;
    ++written;
  }
  EXPECT_GE(written, 46);
}

}  // namespace
}  // namespace ingot
