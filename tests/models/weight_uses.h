#pragma once

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::test {

// How often each weight is applied while f runs.
inline std::map<const LinearWeight*, int> uses_of(FunctionRef<void()> f) {
  std::map<const LinearWeight*, int> uses;
  const WeightObserver observer([&](const WeightUse& use) {
    if (use.linear != nullptr) ++uses[use.linear];
  });
  f();
  return uses;
}

// The embeddings are looked up, and make the logits where they are tied. AltUp's router is asked before a
// layer and behind it.
inline int uses_in_a_pass(const LanguageModel& model, const std::string& name, const LinearWeight& weight) {
  if (name.ends_with(".altup.modality_router.weight")) return 2;
  return &weight == &model.head() && &weight == &model.embed_tokens.weight ? 2 : 1;
}

inline void expect_uses(LanguageModel& model, const std::map<const LinearWeight*, int>& uses,
                        const std::string& pass) {
  const auto weights = named_weights(model);
  for (const auto& [name, weight] : weights) {
    ASSERT_TRUE(uses.contains(weight)) << name << ", " << pass;
    EXPECT_EQ(uses.at(weight), uses_in_a_pass(model, name, *weight)) << name << ", " << pass;
  }
  EXPECT_EQ(uses.size(), weights.size()) << pass;
}

// Of a whole sequence; of a prompt and the token behind it, with a cache.
inline void expect_uses_of_inference(LanguageModel& model, const DecoderInput& input,
                                     const std::string& format) {
  const NoGrad no_grad;
  expect_uses(model, uses_of([&] { model.logits(model.hidden(input)); }), format + " whole");
  KvCache cache(model.config, input.tokens.dim(1), DType::f32);
  const auto continue_by = [&](std::int64_t at, std::int64_t count) {
    const std::vector<CacheSegment> segments{{&cache, count}};
    model.logits(model.hidden(contiguous(narrow(narrow(input.tokens, 0, 0, 1), 1, at, count)), segments));
  };
  expect_uses(model, uses_of([&] { continue_by(0, 3); }), format + " prefill");
  expect_uses(model, uses_of([&] { continue_by(3, 1); }), format + " decode");
}

}  // namespace ingot::test
