#include "ingot/models/registry.h"

#include <functional>

#include "tests/models/goldens.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/forecast/model.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/portable.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::golden_path;

static_assert(PortableModel<LanguageModel> && PortableModel<BertModel> && PortableModel<ForecastModel>);

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelRegistry, HasEveryFamilyOfDecodersAndNoOther) {
  std::size_t generating = 0;
  for (const ModelInfo& info : model_registry()) generating += info.can(ModelTask::generate) ? 1 : 0;
  EXPECT_EQ(generating, language_families().size());
  for (const LanguageFamily& family : language_families()) {
    const ModelInfo* info = find_model(family.model_type);
    ASSERT_NE(info, nullptr) << family.model_type;
    EXPECT_TRUE(info->can(ModelTask::generate) && info->can(ModelTask::train));
    EXPECT_EQ(find_model(family.architecture), info);
  }
}

TEST(ModelRegistry, HasEveryForecastingNetwork) {
  std::size_t forecasting = 0;
  for (const ModelInfo& info : model_registry()) forecasting += info.can(ModelTask::forecast) ? 1 : 0;
  EXPECT_EQ(forecasting, forecast_models().size());
  for (const std::string& name : forecast_models()) EXPECT_NE(find_model(name), nullptr) << name;
  EXPECT_EQ(find_model("PatchTSTForPrediction")->name, "patchtst");
}

TEST(ModelRegistry, ErrorsTellWhatIsNearAndWhatAModelIsFor) {
  const std::string near =
      message_of([] { LanguageConfig::from_json(R"({"model_type": "gema2"})", "c.json"); });
  EXPECT_TRUE(contains(near, "did you mean 'gemma2'")) << near;
  const std::string encoder =
      message_of([] { LanguageConfig::from_json(R"({"model_type": "bert"})", "c.json"); });
  EXPECT_TRUE(contains(encoder, "can embed, masked_lm and classify, but not generate")) << encoder;
  const std::string decoder =
      message_of([] { EncoderConfig::from_json(R"({"model_type": "gpt2"})", "c.json"); });
  EXPECT_TRUE(contains(decoder, "but not embed; these can: bert")) << decoder;
}

TEST(ModelRegistry, DescribesAndChecksDirectories) {
  EXPECT_TRUE(contains(describe_model(golden_path("qwen3_moe")), "7 experts (3 per token)"));
  EXPECT_TRUE(contains(describe_model(golden_path("bert_legacy")), "bert, 2 layers, width 24"));
  EXPECT_TRUE(contains(describe_model(golden_path("forecast/transformers_default")), "patchtst, reads 30"));
  EXPECT_EQ(describe_model(::testing::TempDir()), "");
  for (const char* name :
       {"gemma3", "bert_masked_lm", "forecast/transformers_default", "forecast/transformers_mixing",
        "forecast/transformers_flat", "forecast/transformers_cls"}) {
    const auto report = check_model(golden_path(name), open_weights(golden_path(name)));
    ASSERT_TRUE(report.has_value());
    EXPECT_TRUE(report->fits()) << name;
  }
  const std::string mixing = golden_path("forecast/transformers_mixing");
  EXPECT_EQ(check_model(mixing, open_weights(mixing))->variants.front(), "channel-mixing");
  const auto wrong = check_model(golden_path("gemma3"), open_weights(golden_path("gemma2")));
  EXPECT_FALSE(wrong->missing.empty());
}

TEST(ModelRegistry, DescribesGgufFilesByTheirMetadata) {
  const std::string file = golden_path("gguf/llama.gguf");
  EXPECT_TRUE(contains(describe_model(file), "llama, 2 layers")) << describe_model(file);
  EXPECT_TRUE(check_model(file, open_weights(file))->fits());
  const std::string tensors = test::source_dir() + "/tests/weights/goldens/aligned.gguf";
  EXPECT_TRUE(contains(describe_model(tensors), "no model that Ingot runs"));
  EXPECT_FALSE(check_model(tensors, open_weights(tensors)).has_value());
}

TEST(ModelRegistry, AConfigOfNoKnownKindIsDescribedAsThat) {
  const test::TemporaryDirectory directory;
  const auto describe = [&](const std::string& config) {
    write_file_atomically(directory.at("config.json"), config);
    return describe_model(directory.path());
  };
  EXPECT_TRUE(contains(describe("{}"), "config.json names no model_type"));
  EXPECT_TRUE(contains(describe(R"({"model_type": "qwen4"})"), "'qwen4' model, which Ingot does not have"));
  EXPECT_TRUE(contains(describe(R"({"model_type": "qwen4"})"), "did you mean 'qwen"));
  EXPECT_THROW(describe("[]"), FormatError);
  EXPECT_THROW(describe(R"({"model_type": 3})"), FormatError);
}

}  // namespace
}  // namespace ingot
