#include "ingot/models/weight_map.h"

#include <filesystem>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::golden_path;

using testing::max_error;
using testing::randn;

std::map<std::string, Tensor> tensors_of(const std::string& directory) {
  std::map<std::string, Tensor> tensors;
  const auto source = open_weights(directory);
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = source->load_tensor(info.name);
  return tensors;
}

// A checkpoint in memory, written to be opened again.
class Written {
 public:
  Written(const std::string& name, const std::map<std::string, Tensor>& tensors)
      : directory_(::testing::TempDir() + "ingot-weight-map-" + name) {
    std::filesystem::create_directories(directory_);
    std::vector<StoredTensor> stored;
    for (const auto& [key, tensor] : tensors) stored.push_back(StoredTensor::of(key, tensor));
    write_safetensors_directory(directory_, stored);
    weights_ = open_weights(directory_);
  }
  ~Written() { std::filesystem::remove_all(directory_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  const WeightSource& operator*() const { return *weights_; }

 private:
  std::string directory_;
  std::unique_ptr<WeightSource> weights_;
};

LanguageConfig golden_config(const std::string& name) {
  return load_language_model(golden_path(name))->config;
}

bool contains(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(WeightMap, FusesTransposesAndStacksBothWays) {
  const WeightMap map{
      .rules = {{.ours = "l.*.q", .theirs = "x.*.qkv", .transposed = true, .first = 0, .rows = 4},
                {.ours = "l.*.k", .theirs = "x.*.qkv", .transposed = true, .first = 4, .rows = 2},
                {.ours = "l.*.e", .theirs = "x.*.e.#.w", .stacked = 3}}};
  std::map<std::string, Tensor> ours{{"kept", randn({2}, 9)}};
  for (const std::string layer : {"0", "12"}) {
    ours["l." + layer + ".q"] = randn({4, 5}, 1);
    ours["l." + layer + ".k"] = randn({2, 5}, 2);
    ours["l." + layer + ".e"] = randn({3, 2, 2}, 3);
  }
  const auto theirs = export_tensors(map, ours);
  EXPECT_EQ(theirs.at("x.12.qkv").shape(), Shape({5, 6}));
  EXPECT_EQ(theirs.at("x.0.e.2.w").shape(), Shape({2, 2}));
  EXPECT_EQ(theirs.size(), 1 + 2 * (1 + 3));
  const auto again = import_tensors(map, theirs);
  ASSERT_EQ(again.size(), ours.size());
  for (const auto& [name, tensor] : ours) EXPECT_EQ(max_error(again.at(name), tensor), 0) << name;
}

TEST(WeightMap, ReadsOtherSpellingsAndAMissingPrefix) {
  const WeightMap map{.rules = {},
                      .spellings = {{".gamma", ".weight", false, "gamma"}},
                      .prefix = "model.",
                      .outside = {"head.*"}};
  EXPECT_EQ(map.canonical("norm.gamma"), "model.norm.weight");
  EXPECT_EQ(map.canonical("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(map.canonical("head.weight"), "head.weight");
}

TEST(ArchitectureCheck, NamesTheVariantAndReadsCheckpointsOfTheInnerModel) {
  const LanguageConfig config = golden_config("gpt2");
  std::map<std::string, Tensor> bare;
  for (const auto& [name, tensor] : tensors_of(golden_path("gpt2"))) {
    bare[name.starts_with("transformer.") ? name.substr(12) : name] = tensor;
  }
  const Written file("bare", bare);
  const ArchitectureReport report = LanguageModel::architecture_check(config, *file);
  EXPECT_TRUE(report.fits());
  EXPECT_EQ(report.family, "gpt2");
  for (const char* variant : {"inner model alone", "tied head", "fused query, key and value"}) {
    EXPECT_TRUE(contains(report.variants, variant)) << variant;
  }
  EXPECT_NO_THROW(LanguageModel::from_weights(config, *file));
}

TEST(ArchitectureCheck, ListsEveryProblemOfFusedAndStackedTensorsByTheirNames) {
  auto tensors = tensors_of(golden_path("mixtral"));
  tensors.erase("model.layers.1.block_sparse_moe.experts.3.w2.weight");
  tensors["model.layers.0.block_sparse_moe.experts.1.w1.weight"] = Tensor::zeros({3, 3});
  tensors["model.layers.0.block_sparse_moe.experts.9.w1.weight"] = Tensor::zeros({19, 24});
  const Written file("broken", tensors);
  const ArchitectureReport report = LanguageModel::architecture_check(golden_config("mixtral"), *file);
  ASSERT_EQ(report.missing.size(), 1);
  EXPECT_TRUE(contains(report.missing, "layers.1.block_sparse_moe.experts.3.w2.weight [24, 19]"));
  ASSERT_EQ(report.misshaped.size(), 1);
  EXPECT_TRUE(contains(report.misshaped, "experts.1.w1.weight: the model has [19, 24], the file has [3, 3]"));
  ASSERT_EQ(report.unexpected.size(), 1);
  EXPECT_TRUE(contains(report.unexpected, "experts.9.w1.weight"));

  auto fused = tensors_of(golden_path("phi3_longrope"));
  fused["model.layers.0.self_attn.qkv_proj.weight"] = Tensor::zeros({39, 24});
  const Written phi("phi3", fused);
  const ArchitectureReport narrow = LanguageModel::architecture_check(golden_config("phi3_longrope"), *phi);
  EXPECT_TRUE(contains(narrow.misshaped, "qkv_proj.weight: the model has [40, 24], the file has [39, 24]"));
}

TEST(ArchitectureCheck, ReadsTheTextPartOfAGemmaThatAlsoSees) {
  std::map<std::string, Tensor> tensors{{"vision_tower.patch.weight", Tensor::zeros({4})},
                                        {"multi_modal_projector.weight", Tensor::zeros({4})}};
  for (const auto& [name, tensor] : tensors_of(golden_path("gemma3")))
    tensors["language_model." + name] = tensor;
  const Written file("gemma3", tensors);
  const ArchitectureReport report = LanguageModel::architecture_check(golden_config("gemma3"), *file);
  EXPECT_TRUE(report.fits());
  EXPECT_TRUE(contains(report.variants, "image-and-text"));
}

}  // namespace
}  // namespace ingot
