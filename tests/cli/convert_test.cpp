#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::TemporaryDirectory;
using testing::Outcome;
using testing::run_ingot;

const std::string kModels = test::source_dir() + "/tests/models/goldens/";

std::vector<float> logits(const std::string& model, const std::string& output) {
  const Outcome outcome = run_ingot({"logits", model, "--tokens", "1,2,3,4", "-o", output});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return read_npy(output).to_vector<float>();
}

TEST(Convert, AModelGivesTheSameLogitsInEveryFormat) {
  TemporaryDirectory directory;
  const std::string original = kModels + "qwen3", gguf = directory.at("m.gguf"), back = directory.at("back");
  ASSERT_EQ(run_ingot({"convert", original, gguf}).exit_code, 0);
  ASSERT_EQ(run_ingot({"convert", gguf, back, "--shard-size", "20KB"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(back + "/model.safetensors.index.json"));
  const std::vector<float> expected = logits(original, directory.at("a.npy"));
  EXPECT_EQ(logits(gguf, directory.at("b.npy")), expected);
  EXPECT_EQ(logits(back, directory.at("c.npy")), expected);
}

TEST(Convert, AKerasHubPresetBecomesADirectoryWithItsTokenizer) {
  TemporaryDirectory directory;
  const std::string preset = directory.at("preset"), model = directory.at("model");
  const auto everything = std::filesystem::copy_options::recursive;
  std::filesystem::copy(kModels + "keras_hub_gpt2", preset, everything);
  std::filesystem::copy(test::source_dir() + "/tests/text/goldens/keras_hub/gpt2", preset,
                        everything | std::filesystem::copy_options::overwrite_existing);
  ASSERT_EQ(run_ingot({"convert", preset, model}).exit_code, 0);
  const auto ids = [](const std::string& path) {
    const Outcome outcome = run_ingot({"tokenize", path, "--text", "two spaces"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.output;
  };
  EXPECT_EQ(ids(model), ids(preset));
  EXPECT_FALSE(ids(model).empty());
  EXPECT_EQ(logits(model, directory.at("a.npy")), logits(preset, directory.at("b.npy")));
}

// Ctrl-C's sibling, sent once the first tensors are written.
TEST(Convert, SigtermLeavesNoPartialFile) {
  TemporaryDirectory directory;
  const std::string source = directory.at("m.safetensors");
  std::vector<StoredTensor> tensors;
  for (int i = 0; i < 48; ++i)
    tensors.push_back(StoredTensor::of(fmt::format("t{}", i), Tensor::zeros({1 << 20}, DType::f32)));
  write_safetensors(source, tensors);
  for (const char* name : {"out.safetensors", "out"}) {
    bool sent = false;
    const Outcome outcome =
        testing::run_ingot_on_terminal({"convert", source, directory.at(name), "--dtype", "f16"},
                                       [&](const std::string& output, pid_t child, int) {
                                         if (child == 0 || sent || output.find("converting") == output.npos)
                                           return;
                                         sent = ::kill(child, SIGTERM) == 0;
                                       });
    EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << name << outcome.output;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      EXPECT_EQ(entry.path(), source) << name;
  }
}

// Each a model of 12 layers of 1024 x 1024 matrices: long enough to be interrupted.
TEST(Quantize, ASignalLeavesNoPartialFileAndIsTheExitCode) {
  TemporaryDirectory directory;
  const std::string source = directory.at("model");
  std::filesystem::create_directory(source);
  write_file_atomically(source + "/config.json",
                        R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 1024,
"num_hidden_layers": 12, "num_attention_heads": 8, "vocab_size": 64, "tie_word_embeddings": true})");
  std::vector<StoredTensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    tensors.push_back(StoredTensor::of("model." + name + ".weight", Tensor::zeros(shape, DType::bf16)));
  };
  add("embed_tokens", {64, 1024});
  add("norm", {1024});
  for (int i = 0; i < 12; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      add(layer + name, {1024, 1024});
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name, {1024});
  }
  write_safetensors(source + "/model.safetensors", tensors);
  for (const auto& [name, format] : {std::pair{"out.gguf", "q4_k"}, {"out", "nf4"}}) {
    for (const int signal : {SIGINT, SIGTERM}) {
      bool sent = false;
      const Outcome outcome =
          testing::run_ingot_on_terminal({"quantize", source, directory.at(name), "--format", format},
                                         [&](const std::string& output, pid_t child, int) {
                                           if (child == 0 || sent || output.find("quantizing") == output.npos)
                                             return;
                                           sent = ::kill(child, signal) == 0;
                                         });
      EXPECT_EQ(outcome.exit_code, 128 + signal) << name << outcome.output;
      for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
        EXPECT_EQ(entry.path(), source) << name;
    }
  }
}

// Its progress counts these, too.
TEST(Convert, BytesAreThoseThatAreWrittenThoughTheSourceIsQuantized) {
  TemporaryDirectory directory;
  const std::string gguf = directory.at("q8.gguf"), file = directory.at("m.safetensors");
  ASSERT_EQ(run_ingot({"convert", kModels + "qwen3", gguf, "--dtype", "q8_0"}).exit_code, 0);
  const Outcome outcome = run_ingot({"convert", gguf, file, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : open_weights(file)->tensors()) bytes += info.bytes;
  EXPECT_NE(outcome.output.find(fmt::format("\"bytes\":{}}}", bytes)), std::string::npos) << outcome.output;
}

TEST(Convert, ADtypeIsForTheWeightsOfAFile) {
  TemporaryDirectory directory;
  const std::string file = test::source_dir() + "/tests/weights/goldens/checkpoint.pt";
  const Outcome outcome =
      run_ingot({"convert", file, directory.at("a.safetensors"), "--dtype", "bf16", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find(R"("format":"safetensors")"), std::string::npos);
  const auto source = open_weights(directory.at("a.safetensors"));
  EXPECT_EQ(source->get_metadata("0.weight").dtype, DType::bf16);
  EXPECT_EQ(source->get_metadata("1.num_batches_tracked").dtype, DType::i64);
}

TEST(Convert, WhatCannotBeIsSaidAndLeavesNothing) {
  TemporaryDirectory directory;
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"convert", kModels + "qwen3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.errors;
  };
  EXPECT_NE(refused({directory.at("a.npz"), "--dtype", "q8_0"}).find("only GGUF files hold"),
            std::string::npos);
  EXPECT_NE(refused({directory.at("a.gguf"), "--dtype", "q4k"}).find("did you mean 'q4_k'"),
            std::string::npos);
  EXPECT_NE(refused({directory.at("a.npz"), "--to", "gguf"}).find("cannot be called"), std::string::npos);
  for (const char* ending : {"bin", "PT", "h5"})
    EXPECT_NE(refused({directory.at(std::string("x.") + ending)})
                  .find(".gguf, .npz, .onnx, .pt, .safetensors or nothing"),
              std::string::npos);
  EXPECT_NE(refused({kModels + "qwen3"}).find("is the source itself"), std::string::npos);
  EXPECT_NE(refused({directory.at("b"), "--shard-size", "big"}).find("is not a size"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace ingot
