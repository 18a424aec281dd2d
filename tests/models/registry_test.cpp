#include "ingot/models/registry.h"

#include <functional>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/portable.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

static_assert(PortableModel<LanguageModel> && PortableModel<BertModel>);

std::string golden_path(const std::string& name) {
  return std::string(INGOT_SOURCE_DIR) + "/tests/models/goldens/" + name;
}

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

TEST(ModelRegistry, ErrorsTellWhatIsNearAndWhatAModelIsFor) {
  const std::string near =
      message_of([] { LanguageConfig::from_json(R"({"model_type": "gema2"})", "c.json"); });
  EXPECT_TRUE(contains(near, "did you mean 'gemma2'")) << near;
  const std::string encoder =
      message_of([] { LanguageConfig::from_json(R"({"model_type": "bert"})", "c.json"); });
  EXPECT_TRUE(contains(encoder, "can embed and masked_lm, but not generate")) << encoder;
  const std::string decoder =
      message_of([] { EncoderConfig::from_json(R"({"model_type": "gpt2"})", "c.json"); });
  EXPECT_TRUE(contains(decoder, "but not embed; these can: bert")) << decoder;
}

TEST(ModelRegistry, DescribesAndChecksDirectories) {
  EXPECT_TRUE(contains(describe_model(golden_path("qwen3_moe")), "7 experts (3 per token)"));
  EXPECT_TRUE(contains(describe_model(golden_path("bert_legacy")), "bert, 2 layers, width 24"));
  EXPECT_EQ(describe_model(::testing::TempDir()), "");
  for (const char* name : {"gemma3", "bert_masked_lm"}) {
    const auto report = check_model(golden_path(name), *open_weights(golden_path(name)));
    ASSERT_TRUE(report.has_value());
    EXPECT_TRUE(report->fits());
  }
  const auto wrong = check_model(golden_path("gemma3"), *open_weights(golden_path("gemma2")));
  EXPECT_FALSE(wrong->missing.empty());
}

}  // namespace
}  // namespace ingot
