#include "ingot/infer/tensor_parallel.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/infer/small_model.h"
#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/dist/shared_memory.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/load.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"

namespace ingot::infer {
namespace {

using Ids = std::vector<std::int32_t>;

// Ranks that are threads have enough with one each.
class TensorParallelRanks : public ::testing::Test {
 protected:
  TensorParallelRanks() { set_num_threads(1); }
  ~TensorParallelRanks() override { set_num_threads(threads_); }

 private:
  const int threads_ = num_threads();
};
using MakeModel = std::function<std::unique_ptr<LanguageModel>(std::shared_ptr<const RankGroup>)>;

// What ranks make of a model together: the logits of each, or why it was refused.
struct Together {
  std::vector<Tensor> logits;
  std::string refused;
};

Together logits_of_ranks(int ranks, const Tensor& tokens, const MakeModel& make) {
  Together result{.logits = std::vector<Tensor>(static_cast<std::size_t>(ranks)), .refused = {}};
  std::mutex mutex;
  test::ThreadRanks threads(ranks);
  threads.run([&](dist::Communicator& communicator) {
    const NoGrad no_grad;
    try {
      const auto model = make(rank_group(communicator));
      result.logits[static_cast<std::size_t>(communicator.rank())] =
          select(model->logits(model->hidden({.tokens = tokens})), 0, 0);
    } catch (const InvalidConfig& error) {  // on all ranks alike
      const std::lock_guard lock(mutex);
      result.refused = error.what();
    }
  });
  return result;
}

double size_of(const Tensor& x) { return testing::max_error(x, x * 0.0); }

class RandomModels : public TensorParallelRanks, public ::testing::WithParamInterface<std::string> {};

TEST_P(RandomModels, LogitsOfRanksEqualTransformersOrTheFamilyIsRefused) {
  const std::string directory = test::golden_path("random/" + GetParam());
  const auto expected = open_weights(directory + "/expected.safetensors");
  const Tensor tokens = expected->load_tensor("tokens"), logits = expected->load_tensor("logits");
  const MakeModel make = [&](auto ranks) {
    return load_language_model(directory, {.trainable = false, .ranks = std::move(ranks)});
  };
  for (const int ranks : {2, 3, 4}) {
    const Together together = logits_of_ranks(ranks, tokens, make);
    if (!together.refused.empty()) {
      EXPECT_NE(together.refused.find("tensor_parallel_size: "), std::string::npos) << together.refused;
      EXPECT_NE(together.refused.find(fmt::format("{} ranks of a ", ranks)), std::string::npos)
          << together.refused;
      if (together.refused.find("are not available") != std::string::npos) break;
      continue;
    }
    const double bound = 2e-5 * std::max(1.0, size_of(logits));
    EXPECT_LE(testing::max_error(together.logits[0], logits), bound) << ranks << " ranks";
    for (const Tensor& other : together.logits)
      EXPECT_EQ(other.to_vector<float>(), together.logits[0].to_vector<float>()) << ranks << " ranks";
  }
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_path("random")))
    found.push_back(entry.path().filename().string());
  std::ranges::sort(found);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Families, RandomModels, ::testing::ValuesIn(names()),
                         [](const auto& param) { return param.param; });

const PackedCacheOptions kNoCache{.where = "off"};

// A model whose widths blocks of 256 divide on two ranks.
std::string write_wide_model(const std::string& directory, const std::string& family) {
  LanguageConfig c = test::small_config(family);
  c.hidden_size = 256;
  c.intermediate_size = 768;  // three blocks
  c.head_dim = 128;
  c.initializer_range = 0.0625;
  InitSource init(5);
  LanguageModel model(c, init);
  write_language_model(directory, model.config, parameter_map(model));
  return directory;
}

class Formats : public TensorParallelRanks,
                public ::testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(Formats, LogitsOfTwoRanksEqualThoseOfOneToRounding) {
  const auto& [family, format] = GetParam();
  const test::TemporaryDirectory folder;
  const std::string model = write_wide_model(folder.path(), family);
  const Tensor tokens = Tensor::from(Ids{3, 17, 42, 8, 55, 23, 1, 30}, {1, 8});
  const NoGrad no_grad;
  const auto whole = load_model(model, format, kNoCache);
  const Tensor expected = select(whole->logits(whole->hidden({.tokens = tokens})), 0, 0);
  const Together together = logits_of_ranks(2, tokens, [&, &kind = format](auto ranks) {
    return load_model(model, kind, kNoCache, kCpu, std::move(ranks));
  });
  ASSERT_EQ(together.refused, "");
  // Sums in another order; where activations are quantized, another last bit moves some by a step of 1 / 127.
  const bool dense = format == "f32" || format == "nf4";
  EXPECT_LE(testing::max_error(together.logits[0], expected), (dense ? 1e-5 : 1e-2) * size_of(expected));
  EXPECT_EQ(together.logits[0].to_vector<float>(), together.logits[1].to_vector<float>());
}

INSTANTIATE_TEST_SUITE_P(All, Formats,
                         ::testing::Values(std::pair("llama", "f32"), std::pair("llama", "bf16"),
                                           std::pair("llama", "q8_0"), std::pair("llama", "q4_1"),
                                           std::pair("llama", "q4_k"), std::pair("llama", "nf4"),
                                           std::pair("llama", "int4-g64"), std::pair("gemma2", "q8_0"),
                                           std::pair("mixtral", "f32"), std::pair("mixtral", "q8_0"),
                                           std::pair("mixtral", "q4_k")),
                         [](const auto& param) {
                           std::string name = param.param.first + "_" + param.param.second;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Requests of which some begin alike, some draft tokens, and one is cancelled.
std::vector<Ids> greedy(const LanguageModel& model) {
  Engine engine(model, {.chunk = 8, .prefix_cache = true});
  const Ids a{3, 17, 42, 8, 55, 23, 1, 30, 9, 9, 12}, b{5, 5, 6};
  Ids longer = a;
  longer.insert(longer.end(), {7, 21});
  std::vector<Ids> texts;
  const auto run = [&](std::vector<Request> requests) {
    std::vector<std::shared_ptr<Sequence>> sequences;
    for (Request& request : requests) sequences.push_back(engine.start(std::move(request)));
    engine.run();
    for (const auto& sequence : sequences) texts.push_back(sequence->result().tokens);
  };
  const auto ask = [](Ids prompt, std::int64_t speculate = 0) {
    return Request{.prompt = std::move(prompt),
                   .max_tokens = 12,
                   .sampling = {.temperature = 0},
                   .speculate = speculate};
  };
  Request cancelled = ask(b);
  cancelled.on_token = [count = 0](std::int32_t) mutable { return ++count < 3; };
  run({ask(a), ask(b, 3), std::move(cancelled)});
  run({ask(longer), ask(a, 2)});
  return texts;
}

// With norms and biases that differ from where they start, and experts of families that have them.
std::string write_family(const std::string& directory, const std::string& variant) {
  const std::string family = variant.substr(0, variant.find('-'));
  LanguageConfig c = test::small_config(family);
  if (variant.ends_with("-one_key")) c.num_key_value_heads = 1;  // which ranks share
  if (family == "falcon") c.position = PositionKind::alibi;
  if (family == "bloom" || family == "mpt" || family == "deepseek_v2") c.num_key_value_heads = 4;
  if (family == "bloom" || family == "mpt")
    c.intermediate_size = 4 * c.hidden_size;  // as they always have it
  if (family == "qwen2_moe" || family == "gpt_oss" || family == "phimoe" || family == "llama4_text" ||
      family == "deepseek_v2") {
    c.num_experts = 4;
    c.num_experts_per_tok = 2;
    if (family == "qwen2_moe" || family == "deepseek_v2") {
      c.moe_intermediate_size = 96;
      c.shared_expert_intermediate_size = family == "qwen2_moe" ? 64 : 96;
    }
  }
  InitSource init(5);
  LanguageModel model(c, init);
  std::uint64_t stream = 0;
  for (Parameter* parameter : parameters(model)) {
    if (parameter->value.rank() != 1 && !parameter->name.ends_with("_bias")) continue;
    const Tensor apart = Tensor::empty_like(parameter->value);
    normal_(apart, 0, 0.3, {.seed = 6, .stream = stream++});
    parameter->replace(parameter->value.detach() + apart);
  }
  write_language_model(directory, model.config, parameter_map(model));
  return directory;
}

class Families : public TensorParallelRanks, public ::testing::WithParamInterface<std::string> {};

TEST_P(Families, TheFirstRankLeadsTheOthersToTheSameText) {
  const test::TemporaryDirectory folder;
  const std::string directory = write_family(folder.path(), GetParam());
  const std::vector<Ids> expected = greedy(*load_model(directory, "f32", kNoCache));
  const int ranks = GetParam() == "llama" || GetParam() == "mixtral" ? 3 : 2;
  std::vector<Ids> texts;
  test::ThreadRanks threads(ranks);
  threads.run([&](dist::Communicator& base) {
    const auto communicator = dist::over_shared_memory(base);
    const auto model = load_model(directory, "f32", kNoCache, kCpu, rank_group(*communicator));
    if (!communicator->is_first()) return follow(*model, *communicator);
    lead(*model, *communicator);
    texts = greedy(*model);
  });
  EXPECT_EQ(texts, expected);
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         ::testing::Values("llama", "gemma2", "mixtral", "gpt2", "qwen2", "qwen3",
                                           "qwen2_moe", "gpt_oss", "phi", "apertus", "phimoe", "llama4_text",
                                           "olmo2", "olmo2-one_key", "bloom", "mpt", "falcon-one_key",
                                           "deepseek_v2"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

std::string refusal(const std::string& directory, const std::string& format, int ranks) {
  return logits_of_ranks(
             ranks, Tensor::from(Ids{1}, {1, 1}),
             [&](auto group) { return load_model(directory, format, kNoCache, kCpu, std::move(group)); })
      .refused;
}

class Adapted : public TensorParallelRanks, public ::testing::WithParamInterface<std::string> {
 protected:
  void write_adapter(const LoraConfig& config) const {
    const auto model = load_model(base_.path(), "f32", kNoCache);
    const WeightMap map = LanguageModel::weight_map(model->config);
    InitSource source(3);
    add_lora({*model, map}, config, source);
    std::map<std::string, Tensor> values;
    for (auto& [name, tensor] : parameter_map(*model)) {
      if (name.find("lora_B") == std::string::npos) continue;
      values[name] = Tensor::empty_like(tensor);
      normal_(values[name], 0, 0.5, {.seed = 7, .stream = values.size()});
    }
    write_peft_adapter(adapter_.path(), {*model, map}, config, "default", values);
  }
  std::unique_ptr<LanguageModel> adapted(std::shared_ptr<const RankGroup> ranks) const {
    auto model = load_model(base_.path(), "f32", kNoCache, kCpu, std::move(ranks));
    infer_with_adapters(*model, std::vector<AdapterChoice>{{.path = adapter_.path(), .weight = 0.5F}});
    return model;
  }

  const test::TemporaryDirectory base_, adapter_;
};

// Fused modules (phi3's query, key and value) are adapted as one, and cut by head. Experts are modules
// (mixtral) or stacks with rows of gates and values in turn (gpt_oss), and cut by their inner width.
TEST_P(Adapted, LogitsOfRanksEqualThoseOfOneToRounding) {
  write_family(base_.path(), GetParam());
  LoraConfig config{.r = 4, .target_modules = {"all-linear"}};
  if (GetParam() == "llama") config.modules_to_save = {"embed_tokens", "lm_head"};
  write_adapter(config);
  const Tensor tokens = Tensor::from(Ids{3, 17, 42, 8, 55, 23, 1, 30}, {1, 8});
  const NoGrad no_grad;
  const auto logits = [&](const LanguageModel& model) {
    return select(model.logits(model.hidden({.tokens = tokens})), 0, 0);
  };
  const Tensor expected = logits(*adapted(nullptr));
  EXPECT_GT(testing::max_error(logits(*load_model(base_.path(), "f32", kNoCache)), expected),
            0.01 * size_of(expected));
  const Together together = logits_of_ranks(2, tokens, [&](auto ranks) { return adapted(std::move(ranks)); });
  ASSERT_EQ(together.refused, "");
  EXPECT_LE(testing::max_error(together.logits[0], expected), 2e-5 * size_of(expected));
  EXPECT_EQ(together.logits[0].to_vector<float>(), together.logits[1].to_vector<float>());
}

INSTANTIATE_TEST_SUITE_P(All, Adapted,
                         ::testing::Values("llama", "phi3", "gpt2", "olmo2", "deepseek_v2", "mixtral",
                                           "gpt_oss"),
                         [](const auto& param) { return param.param; });

TEST(TensorParallel, MoreRanksThanHeadsAreRefusedWithTheNumbers) {
  const test::TemporaryDirectory folder;
  const std::string directory = test::write_small_model(folder.path(), "llama");
  const std::string told = refusal(directory, "f32", 5);
  EXPECT_NE(told.find("tensor_parallel_size: 5 ranks of a llama model are too many"), std::string::npos)
      << told;
  EXPECT_NE(told.find("4 query heads"), std::string::npos) << told;
}

TEST(TensorParallel, HeadsThatEndInsideABlockAreRefusedWithTheNumbers) {
  const test::TemporaryDirectory folder;
  LanguageConfig c = test::small_config("llama");
  c.hidden_size = c.intermediate_size = 512;
  c.head_dim = 64;  // two query heads to a key/value head are half a block of 256
  InitSource init(5);
  LanguageModel model(c, init);
  write_language_model(folder.path(), model.config, parameter_map(model));
  const std::string told = refusal(folder.path(), "q4_k", 2);
  EXPECT_NE(told.find("num_key_value_heads is 2, which can be split at multiples of 2"), std::string::npos)
      << told;
  EXPECT_EQ(refusal(folder.path(), "q8_0", 2), "");
}

TEST(TensorParallel, LayersThatRanksCannotShareAreRefusedByTheirKey) {
  EXPECT_NE(refusal(test::golden_path("gemma4"), "f32", 2).find("hidden_size_per_layer_input"),
            std::string::npos);
  EXPECT_NE(refusal(test::golden_path("gemma4_moe"), "f32", 2).find("global_head_dim"), std::string::npos);
  EXPECT_NE(refusal(test::golden_path("gemma4_bias"), "f32", 2).find("global_head_dim"), std::string::npos);
}

TEST(TensorParallel, WhatRanksCannotDoIsRefusedByItsKey) {
  const auto key_of = [](const SessionOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const InvalidConfig& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(key_of({.tensor_parallel_size = 0}).find("tensor_parallel_size"), std::string::npos);
  try {
    load_model(SessionOptions{.tensor_parallel_size = 2});
    FAIL() << "one process is not two ranks";
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("mpirun -n 2 ingot"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ingot::infer
