#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tests/infer/small_model.h"
#include "tests/models/goldens.h"
#include "tests/models/weight_uses.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thorough.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/load.h"
#include "ingot/infer/perplexity.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// Language models on a CUDA device, emulated or not, against the same on the CPU.
namespace ingot::infer {
namespace {

constexpr Device kDevice{DeviceType::cuda, 0};
// f32 summed in another order, through two layers.
constexpr double kOtherOrder = 1e-4;
// Such sums may also put a number on the other side of the border between two of the 127 steps that its
// matmul quantizes it to: a step of the largest of 128 Gaussian numbers, 2.7 deviations, is 2.7 / 127 / √128
// of a row.
constexpr double kOtherStep = 1.9e-3;
// bf16 has 8 bits: half of 2^-8 for each rounding, of which a layer has a dozen.
constexpr double kBf16 = 2e-2;

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += std::pow(a[i] - b[i], 2);
    power += std::pow(b[i], 2);
  }
  return std::sqrt(error / power);
}

std::vector<std::int32_t> some_ids(std::int64_t count) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i * i % 59));
  return ids;
}

std::vector<float> logits(const LanguageModel& model, std::int64_t tokens) {
  const NoGrad no_grad;
  const Tensor ids = Tensor::from(some_ids(tokens), {1, tokens}, model.device());
  return to(to(model.logits(model.hidden({.tokens = ids})), kCpu), DType::f32).to_vector<float>();
}

class DeviceInference : public ::testing::Test {
 protected:
  std::string write(const std::string& family) {
    return test::write_small_model(directory_.at(family), family, /*norm_spread=*/0.2);
  }
  static std::unique_ptr<LanguageModel> load(const std::string& path, const std::string& format,
                                             Device device) {
    return load_model(path, format, {.where = "off"}, device);
  }
  test::TemporaryDirectory directory_;
};

// Greedy and drawn, alone and together, with prompts that are read in pieces.
std::vector<std::vector<std::int32_t>> texts(const LanguageModel& model, const EngineOptions& options) {
  Engine engine(model, options);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (std::int64_t i = 0; i < 3; ++i) {
    Request request{.prompt = some_ids(3 + 5 * i), .max_tokens = 4 + i};
    request.sampling.temperature = i == 2 ? 0.7F : 0.0F;
    request.speculate = i == 1 ? 3 : 0;
    sequences.push_back(engine.start(std::move(request)));
  }
  engine.run();
  std::vector<std::vector<std::int32_t>> result;
  result.reserve(sequences.size() + 1);
  for (const auto& sequence : sequences) result.push_back(sequence->result().tokens);
  result.push_back(
      engine.generate({.prompt = some_ids(6), .max_tokens = 8, .sampling = {.temperature = 0}}).tokens);
  return result;
}

TEST_F(DeviceInference, WritesTheTextsOfTheCpu) {
  const std::vector<const char*> families{"gemma2", "mixtral", "llama", "gpt2", "gemma3_text", "qwen3"};
  for (const char* family : test::first_or_all(families, 2)) {
    const std::string path = write(family);
    const auto expected = texts(*load(path, "f32", kCpu), {.chunk = 7});
    EXPECT_EQ(texts(*load(path, "f32", kDevice), {.chunk = 7}), expected) << family;
  }
}

// Streams and sparse gates, two sizes of heads, layers that read others' keys.
TEST_F(DeviceInference, WritesTheTextsOfTheCpuWithInputsOfLayers) {
  for (const char* golden : test::first_or_all<const char*>({"gemma3n", "gemma4", "gemma4_moe"}, 1)) {
    const std::string path = test::golden_path(golden);
    const auto on_cpu = load(path, "f32", kCpu), on_device = load(path, "f32", kDevice);
    EXPECT_LE(distance(logits(*on_device, 19), logits(*on_cpu, 19)), kOtherOrder) << golden;
    EXPECT_EQ(texts(*on_device, {.chunk = 7}), texts(*on_cpu, {.chunk = 7})) << golden;
  }
}

std::int64_t launches(const kernels::LaunchProfile& profile) {
  std::int64_t sum = 0;
  for (const auto& entry : profile.entries()) sum += entry.launches;
  return sum;
}

TEST_F(DeviceInference, LaunchesNoKernelByItselfOnceAStepIsCaptured) {
  const auto model = load(write("llama"), "f32", kDevice);
  for (const bool capture : {true, false}) {
    std::vector<std::int64_t> after;  // each token
    const kernels::LaunchProfile profile;
    Engine(*model, {.capture = capture})
        .generate({.prompt = some_ids(5), .max_tokens = 6, .on_token = [&](std::int32_t) {
                     after.push_back(launches(profile));
                     return true;
                   }});
    ASSERT_EQ(after.size(), 6U);
    EXPECT_GT(after[2], after[1]);
    // The first token is the prompt's, the second runs as it is, the third is captured.
    for (std::size_t i = 3; i < after.size(); ++i) EXPECT_EQ(after[i] == after[i - 1], capture) << i;
  }
}

TEST_F(DeviceInference, ACapturedStepAppliesEveryWeightOnceAndIsRepeatedWithoutTheModel) {
  const std::vector<const char*> families{"llama_gqa_llama3", "gemma3", "mixtral_tied", "gpt2",
                                          "gpt_oss_moe"};
  for (const char* family : test::first_or_all(families, 3)) {
    for (const char* format : {"f32", "q8_0"}) {
      const auto model = load(test::golden_path(family), format, kDevice);
      std::map<const LinearWeight*, int> uses;
      std::vector<std::map<const LinearWeight*, int>> of_token;
      const WeightObserver observer([&](const WeightUse& use) {
        if (use.linear != nullptr) ++uses[use.linear];
      });
      Engine(*model, {}).generate({.prompt = some_ids(5), .max_tokens = 5, .on_token = [&](std::int32_t) {
                                     of_token.push_back(std::exchange(uses, {}));
                                     return true;
                                   }});
      ASSERT_EQ(of_token.size(), 5U) << family;
      test::expect_uses(*model, of_token[2], std::string(family) + ", captured in " + format);
      EXPECT_TRUE(of_token[3].empty() && of_token[4].empty()) << family << ' ' << format;
    }
  }
}

TEST_F(DeviceInference, StepsOfSeveralSequencesStayCapturedWhileOthersComeAndGo) {
  const auto model = load(write("llama"), "f32", kDevice);
  Engine engine(*model, {});
  const kernels::LaunchProfile profile;
  // Three at a time, which a filler makes four.
  const auto counts = [&](const std::vector<std::int64_t>& prompts) {
    std::vector<std::int64_t> after;
    for (const std::int64_t prompt : prompts) {
      Request request{.prompt = some_ids(prompt), .max_tokens = 5};
      if (prompt == prompts.back())
        request.on_token = [&](std::int32_t) {
          after.push_back(launches(profile));
          return true;
        };
      engine.start(std::move(request));
    }
    engine.run();
    return after;
  };
  const std::vector<std::int64_t> prompts{2, 3, 4};
  counts(prompts);
  std::vector<std::int64_t> others = prompts;
  for (std::int64_t& prompt : others) ++prompt;
  const std::vector<std::int64_t> after = counts(others);
  ASSERT_EQ(after.size(), 5U);
  for (std::size_t i = 2; i < after.size(); ++i) EXPECT_EQ(after[i], after[i - 1]) << i;
}

TEST_F(DeviceInference, PromptsThatComeWhileOthersAreWrittenChangeNoToken) {
  const std::string path = write("llama");
  const auto written = [&](Device device) {
    const auto model = load(path, "f32", device);
    Engine engine(*model, {.chunk = 4});
    std::vector<std::shared_ptr<Sequence>> sequences;
    for (std::int64_t i = 0; i < 3; ++i) {
      sequences.push_back(
          engine.start({.prompt = some_ids(3 + 2 * i), .max_tokens = 6 - i, .sampling = {.temperature = 0}}));
      engine.step();
      engine.step();
    }
    engine.run();
    std::vector<std::vector<std::int32_t>> tokens;
    for (const auto& sequence : sequences) tokens.push_back(sequence->result().tokens);
    return tokens;
  };
  EXPECT_EQ(written(kDevice), written(kCpu));
}

// Of a token that follows others: what a layer has, told by the difference that one more of them makes.
std::int64_t launches_of_a_layer(const std::string& family, DType dtype) {
  std::int64_t with[2];
  for (std::int64_t layers = 1; layers <= 2; ++layers) {
    LanguageConfig config = test::small_config(family);
    config.num_hidden_layers = layers;
    InitSource init(5, dtype, kDevice);
    const LanguageModel model(config, init);
    KvCache cache(model.config, 8, dtype, kDevice);
    const NoGrad no_grad;
    const Tensor ids = Tensor::from(std::vector<std::int32_t>{3}, {1, 1}, kDevice);
    model.hidden(ids, std::vector<CacheSegment>{{.cache = &cache, .tokens = 1}});
    const kernels::LaunchProfile profile;
    model.hidden(ids, std::vector<CacheSegment>{{.cache = &cache, .tokens = 1}});
    with[layers - 1] = launches(profile);
  }
  return with[1] - with[0];
}

TEST_F(DeviceInference, ALayerTakesFewLaunchesForAToken) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(launches_of_a_layer("llama", dtype), 9);
    EXPECT_EQ(launches_of_a_layer("qwen3", dtype), 9);
    EXPECT_EQ(launches_of_a_layer("gpt2", dtype), 8);
  }
}

TEST_F(DeviceInference, BrokenWeightsAreTheErrorOfTheCpu) {
  const std::string path = write("llama");
  for (const double temperature : {0.0, 0.8}) {
    const auto error = [&](Device device) {
      const auto model = load(path, "f32", device);
      fill_(model->norm.weight.value.detach(), std::numeric_limits<double>::quiet_NaN());
      return test::message_of<NonFinite>([&] {
        generate(*model, {.prompt = some_ids(5), .max_tokens = 3, .sampling = {.temperature = temperature}});
      });
    };
    EXPECT_EQ(error(kDevice), error(kCpu));
  }
}

TEST_F(DeviceInference, FindsACacheAgainThatHasGrown) {
  const std::string path = write("qwen3");
  const auto conversation = [&](Device device) {
    const auto model = load(path, "f32", device);
    Engine engine(*model, {.prefix_cache = true});
    const Request turn{.prompt = some_ids(4), .max_tokens = 5, .sampling = {.temperature = 0}};
    std::shared_ptr<Sequence> sequence = engine.start(turn);
    engine.run();
    std::vector<std::int32_t> all = sequence->result().tokens;
    for (int i = 0; i < 2; ++i) {  // the second time with others beside it
      Request next = turn;
      next.prompt.assign(sequence->tokens().begin(), sequence->tokens().end());
      next.prompt.insert(next.prompt.end(), 9, 7);
      sequence = engine.start(next);
      if (i == 1) engine.start(turn);
      engine.run();
      all.insert(all.end(), sequence->result().tokens.begin(), sequence->result().tokens.end());
    }
    return all;
  };
  EXPECT_EQ(conversation(kDevice), conversation(kCpu));
}

TEST_F(DeviceInference, TakesTheFormatsOfTheCpu) {
  const std::vector<std::string> all{"q8_0", "q4_0",  "q5_1", "int4-g64", "w8a8",
                                     "nf4",  "nvfp4", "fp8",  "ternary"},
      few{"q8_0", "nf4"};
  for (const std::string family : {"llama", "mixtral"}) {
    const std::string path = write(family);
    for (const std::string& format : family == "llama" ? all : few) {
      const auto here = load(path, format, kCpu), there = load(path, format, kDevice);
      EXPECT_EQ(there->device(), kDevice);
      // Few tokens are multiplied as the CPU does (whose attention of more than eight rounds to bf16); of
      // many the matmuls are of bf16.
      EXPECT_LT(distance(logits(*there, 6), logits(*here, 6)), format == "fp8" ? kOtherOrder : kOtherStep)
          << family << " " << format;
      // Where it does, a near-tie between experts may fall otherwise.
      EXPECT_LT(distance(logits(*there, 40), logits(*here, 40)), family == "mixtral" ? 0.2 : 2 * kBf16)
          << family << " " << format;
    }
  }
}

TEST_F(DeviceInference, HalfPrecisionHasOneDtypeForEverything) {
  const std::string path = write("llama");
  const std::vector<float> exact = logits(*load(path, "f32", kCpu), 40);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto model = load(path, std::string(name(dtype)), kDevice);
    for (const auto& [parameter, value] : named_parameters(*model))
      EXPECT_EQ(value->value.dtype(), dtype) << parameter;
    EXPECT_EQ(default_kv_cache(*model), dtype);
    EXPECT_LT(distance(logits(*model, 40), exact), kBf16) << name(dtype);
    // As stored, the file's dtype is found.
    write_language_model(directory_.at("half"), model->config, parameter_map(*model));
    EXPECT_EQ(default_kv_cache(*load(directory_.at("half"), "", kDevice)), dtype);
  }
}

TEST_F(DeviceInference, CachesOfEveryDtypeCostOnlyTheirRounding) {
  const std::string path = write("qwen3");
  const auto here = load(path, "f32", kCpu), there = load(path, "f32", kDevice),
             half = load(path, "bf16", kDevice);
  const PerplexityOptions windows{.window = 20, .stride = 10};
  const double exact = measure_perplexity(*here, some_ids(30), {}, windows).perplexity();
  for (const DType cache : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    const std::vector<std::int64_t> chunks{cache == DType::i8 ? 8 : 512, cache == DType::i8 ? 512 : 8};
    for (const std::int64_t chunk : test::first_or_all(chunks, 1)) {  // few queries at a time, or many
      const EngineOptions options{.kv_cache = cache, .chunk = chunk};
      const double tolerance = cache == DType::f32 ? 1e-5 : cache == DType::f16 ? 1e-3 : 1e-2;
      EXPECT_NEAR(measure_perplexity(*there, some_ids(30), options, windows).perplexity() / exact, 1,
                  tolerance)
          << name(cache) << chunk;
      if (cache == DType::bf16 || cache == DType::i8)
        EXPECT_NEAR(measure_perplexity(*half, some_ids(30), options, windows).perplexity() / exact, 1, kBf16)
            << name(cache) << chunk;
    }
  }
}

}  // namespace
}  // namespace ingot::infer
