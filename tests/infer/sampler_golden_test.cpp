// What is left to draw from, as transformers and llama.cpp have it (tools/goldens/sampler_goldens.py).
#include <cmath>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/sampler.h"

namespace ingot {
namespace {

using Json = nlohmann::json;

const Json& goldens() {
  static const Json json =
      parse_json<Json>(read_file(test::source_dir() + "/tests/infer/goldens/samplers.json"), "samplers.json");
  return json;
}

SamplingOptions options_of(const Json& json) {
  SamplingOptions o{.temperature = 1};
  const auto take = [&](const char* key, auto& value) {
    if (json.contains(key)) json[key].get_to(value);
  };
  take("temperature", o.temperature);
  take("top_k", o.top_k);
  take("top_p", o.top_p);
  take("min_p", o.min_p);
  take("typical_p", o.typical_p);
  take("top_n_sigma", o.top_n_sigma);
  take("xtc_probability", o.xtc_probability);
  take("xtc_threshold", o.xtc_threshold);
  take("min_keep", o.min_keep);
  take("dynatemp_range", o.dynatemp_range);
  take("dynatemp_exponent", o.dynatemp_exponent);
  take("repetition_penalty", o.repetition_penalty);
  take("presence_penalty", o.presence_penalty);
  take("frequency_penalty", o.frequency_penalty);
  take("repeat_last_n", o.repeat_last_n);
  take("dry_multiplier", o.dry.multiplier);
  take("dry_base", o.dry.base);
  take("dry_allowed_length", o.dry.allowed_length);
  take("dry_penalty_last_n", o.dry.last_n);
  take("dry_breakers", o.dry.breakers);
  take("no_repeat_ngram_size", o.no_repeat_ngram_size);
  take("bad_words", o.bad_words);
  take("min_tokens", o.min_tokens);
  take("end_tokens", o.end_tokens);
  return o;
}

void expect_distribution(const std::vector<WeightedToken>& found, const Json& expected,
                         const std::string& name) {
  EXPECT_EQ(found.size(), expected.size()) << name;
  for (const WeightedToken& token : found) {
    const std::string id = std::to_string(token.id);
    ASSERT_TRUE(expected.contains(id)) << name << ": token " << id;
    EXPECT_NEAR(token.weight, expected[id].get<double>(), 1e-6) << name << ": token " << id;
  }
}

TEST(SamplerGolden, EveryOptionLeavesWhatTheOriginalLeaves) {
  for (const Json& golden : goldens()["cases"]) {
    Sampler sampler(options_of(golden["options"]));
    const auto history = golden["history"].get<std::vector<std::int32_t>>();
    expect_distribution(sampler.distribution(golden["logits"].get<std::vector<float>>(), history,
                                             golden["prompt"].get<std::size_t>()),
                        golden["expected"], golden["name"].get<std::string>() + golden["options"].dump());
  }
}

TEST(SamplerGolden, MirostatFollowsLlamaCppStepByStep) {
  for (const Json& run : goldens()["mirostat"]) {
    Mirostat mirostat(run["tau"].get<double>(), run["eta"].get<double>());
    for (const Json& step : run["steps"]) {
      std::vector<WeightedToken> tokens =
          Sampler({.temperature = 1}).distribution(step["logits"].get<std::vector<float>>());
      mirostat.keep(tokens);
      const double total = total_weight(tokens);
      for (WeightedToken& token : tokens) token.weight /= total;
      expect_distribution(tokens, step["left"], "mirostat");
      mirostat.drawn(step["left"][std::to_string(step["drawn"].get<int>())].get<double>());
    }
  }
}

}  // namespace
}  // namespace ingot
