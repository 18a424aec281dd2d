#include <algorithm>
#include <filesystem>

#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::message_of;
using test::TemporaryDirectory;
using testing::max_error;

const std::string kFiles = test::source_dir() + "/tests/models/goldens/gguf/";

class GgufCheckpoint : public ::testing::TestWithParam<std::string> {};

// tools/goldens/gguf_models.py: transformers' logits of the model that was converted.
TEST_P(GgufCheckpoint, RunsWithTheLogitsOfTransformers) {
  const NoGrad no_grad;
  const auto model = load_language_model(kFiles + GetParam() + ".gguf", {.copy = false, .trainable = false});
  const auto golden = open_weights(kFiles + GetParam() + ".safetensors");
  const Tensor logits = model->logits(model->hidden({.tokens = golden->load_tensor("tokens")}));
  EXPECT_LE(max_error(logits, golden->load_tensor("logits")), 5e-5);
  EXPECT_EQ(model->config.eos_token_id, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufCheckpoint,
                         ::testing::Values("llama", "llama_q8_0", "mixtral", "qwen2", "qwen3", "qwen3_moe",
                                           "gemma2", "gemma3", "phi3", "phimoe", "gpt2"),
                         [](const auto& param) { return param.param; });

TEST(GgufCheckpoints, QuantisedBlocksStayAtHandUnderTheCheckpointsNames) {
  const ModelCheckpoint checkpoint = open_checkpoint(kFiles + "llama_q8_0.gguf");
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  const TensorInfo& info = checkpoint.weights->get_metadata(name);
  EXPECT_EQ(info.stored_as, "Q8_0");
  EXPECT_EQ(info.shape, (std::vector<std::int64_t>{32, 32}));
  EXPECT_EQ(checkpoint.weights->stored_bytes(name).bytes.size(), 32 * 34U);
}

TEST(GgufCheckpoints, BothNamesOfARuleLeadToEachOther) {
  for (const char* model_type : {"llama", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text",
                                 "phi3", "phimoe", "gpt2", "jais2", "olmo3"}) {
    const GgufFamily& family = find_language_family(model_type)->gguf;
    for (const GgufNameRule& rule : family.names) {
      GgufNameMatch match{&rule, 12, 3, ".weight"};
      const auto there = match_gguf_name(family, match.gguf());
      ASSERT_TRUE(there) << match.gguf();
      EXPECT_EQ(there->rule, &rule);
      const auto back = match_hugging_face_name(family, match.hugging_face());
      ASSERT_TRUE(back) << match.hugging_face();
      EXPECT_EQ(back->gguf(), match.gguf());
    }
  }
  const GgufFamily& llama = find_gguf_family("llama", false)->gguf;
  EXPECT_FALSE(match_gguf_name(llama, "blk.01.attn_q.weight"));
  EXPECT_FALSE(match_gguf_name(llama, "blk.x.attn_q.weight"));
  EXPECT_FALSE(match_gguf_name(llama, "blk.1.attn_q"));
}

TEST(GgufCheckpoints, WhatCannotRunIsSaid) {
  TemporaryDirectory directory;
  const auto refused = [&](const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
    write_gguf(directory.at("a.gguf"), metadata, tensors);
    return message_of<Error>([&] { open_checkpoint(directory.at("a.gguf")); });
  };
  GgufMetadata metadata;
  EXPECT_NE(refused(metadata, {}).find("general.architecture: is missing"), std::string::npos);
  metadata.set("general.architecture", GgufValue::of_string("lama"));
  EXPECT_NE(refused(metadata, {}).find("did you mean 'llama'"), std::string::npos);
  metadata.set("general.architecture", GgufValue::of_string("llama"));
  EXPECT_NE(refused(metadata, {}).find("token_embd.weight: is missing"), std::string::npos);
  const GgufTensor embedding = GgufTensor::of(StoredTensor::of("token_embd.weight", Tensor::zeros({4, 4})));
  const GgufTensor query = GgufTensor::of(StoredTensor::of("blk.0.attn_q.weight", Tensor::zeros({4, 4})));
  EXPECT_NE(refused(metadata, {embedding, query}).find("llama.embedding_length: is missing"),
            std::string::npos);
  EXPECT_NE(message_of<IoError>([] { open_checkpoint("nowhere"); }).find("or a .gguf file"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot
