#include "ingot/models/language/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

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
#include "ingot/models/language/config.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/model_directory.h"
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

// Of every golden: the file is the same model, or it is refused with a word of what GGUF has no place for.
TEST(GgufExports, EveryConfigurationGivesTheSameLogitsOrIsRefused) {
  const NoGrad no_grad;
  int written = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path(""))) {
    const std::string directory = entry.path().string(), config = directory + "/config.json";
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
    const auto logits = [&](const std::string& path) {
      const auto model = load_language_model(path);
      return model->logits(model->hidden({.tokens = tokens}));
    };
    EXPECT_LE(testing::max_error(logits(place.at("model.gguf")), logits(directory)), 1e-5) << directory;
    ++written;
  }
  EXPECT_GE(written, 42);
}

}  // namespace
}  // namespace ingot
