#include "ingot/train/language/planning/run_plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/temporary_directory.h"
#include "tests/train/language/published_rows.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/train/language/planning/gpu_catalogue.h"

namespace ingot {
namespace {

LanguageConfig published_model(const std::string& name) {
  const auto* const row = std::ranges::find(kPublishedModels, name, &PublishedModel::name);
  LanguageConfig c;
  c.model_type = row->family;
  c.vocab_size = row->vocabulary;
  c.hidden_size = row->hidden;
  c.intermediate_size = row->intermediate;
  c.num_hidden_layers = row->layers;
  c.num_attention_heads = row->heads;
  c.num_key_value_heads = row->kv_heads;
  c.tie_word_embeddings = row->tied;
  c.max_position_embeddings = 1024;
  c.dtype = DType::bf16;
  apply_family(c);
  c.validate();
  return c;
}

RunPlanRequest request_of(const std::string& model, const std::string& gpu, int ranks) {
  RunPlanRequest request{.model = published_model(model)};
  request.config.dtype = DType::bf16;
  request.config.sequence_len = 1024;
  request.cluster = {.device = known_gpu(gpu), .ranks = ranks, .network = 50e9};
  request.tokens_per_step = 524288;
  return request;
}

ModelWork work_of(const RunPlanRequest& request) {
  return model_work(request.config, request.model, request.cluster.device);
}

double planned_tokens_per_second(const PublishedRow& row) {
  RunPlanRequest request = request_of(row.model, row.gpu, row.gpus);
  request.cluster.direct = true;  // both projects send from GPU to GPU
  if (row.fp8) request.config.recipe.kind = RecipeKind::fp8_hybrid;
  constexpr int kBatch = 8;
  const PlannedChoice choice{.zero_stage = 1,
                             .recompute = row.full_recompute ? Recompute::full : Recompute::none,
                             .batch = kBatch,
                             .accumulation = request.tokens_per_step / (1024 * row.gpus * kBatch)};
  const double seconds = plan_step_time(request.config, work_of(request), choice, request.cluster).seconds();
  return static_cast<double>(request.tokens_per_step) / seconds;
}

// Rows that the plan misses would be named here, each with its ratio.
const std::map<std::string, double>& missed_rows() {
  static const std::map<std::string, double> rows{};
  return rows;
}

TEST(RunPlan, IsWithinAFifthOfPublishedRuns) {
  for (const PublishedRow& row : kPublishedRows) {
    const double ratio = planned_tokens_per_second(row) / row.tokens_per_second;
    const std::string name = std::string(row.model) + " " + row.gpu + (row.fp8 ? " fp8" : " bf16");
    std::printf("%-8s %-28s planned/published %.2f\n", row.source, name.c_str(), ratio);
    if (const auto missed = missed_rows().find(name); missed != missed_rows().end()) {
      EXPECT_NEAR(ratio, missed->second, 0.02) << name;
      continue;
    }
    EXPECT_GT(ratio, 0.8) << name;
    EXPECT_LT(ratio, 1.2) << name;
  }
}

TEST(RunPlan, OneRankSendsNothing) {
  const RunPlanRequest request = request_of("gpt2-124m", "h100", 1);
  const StepTime time = plan_step_time(request.config, work_of(request), {.batch = 8}, request.cluster);
  EXPECT_EQ(time.inside + time.outside + time.exposed + time.hidden, 0);
}

TEST(RunPlan, RingsSendWhatTheyHaveTo) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", 64);
  request.cluster.nodes = 8;
  const double bytes = 2.0 * static_cast<double>(request.model.parameter_count());
  const StepTime time =
      plan_step_time(request.config, work_of(request), {.zero_stage = 1, .batch = 8}, request.cluster);
  EXPECT_NEAR(time.inside, 2 * bytes * 7 / 8, bytes * 1e-6);   // reduce-scatter and all-gather
  EXPECT_NEAR(time.outside, 2 * bytes * 7 / 8, bytes * 1e-6);  // between eight nodes, of a node
  const StepTime often = plan_step_time(request.config, work_of(request),
                                        {.zero_stage = 2, .batch = 8, .accumulation = 4}, request.cluster);
  EXPECT_NEAR(often.inside, 5 * bytes * 7 / 8, bytes * 1e-6);  // stage 2 sends after each micro-batch
}

TEST(RunPlan, ATinyModelWaitsForKernelsToStart) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", 1);
  request.model.hidden_size = request.model.intermediate_size = 48;
  request.model.head_dim = 4;
  request.model.vocab_size = 64;
  const StepTime time = plan_step_time(request.config, work_of(request), {.batch = 1}, request.cluster);
  EXPECT_STREQ(time.bound(), "kernel launches");
}

TEST(RunPlan, MemoryIsThatOfTheMemoryPlan) {
  RunPlanRequest request = request_of("qwen2.5-0.5b", "h100", 8);
  const std::vector<PlannedRun> runs = plan_runs(request);
  for (const PlannedRun& run : runs) {
    TrainConfig config = request.config;
    config.zero_stage = run.choice.zero_stage;
    config.recompute = run.choice.recompute;
    config.optimizer.offload = run.choice.offload;
    config.per_device_train_batch_size = run.choice.batch;
    config.gradient_accumulation_steps = run.choice.accumulation;
    const auto memory = static_cast<std::size_t>(request.cluster.device.memory);
    EXPECT_EQ(run.memory.needed(), plan_memory_of_gpu(config, request.model, memory, 8).needed());
  }
}

TEST(RunPlan, TheBestFitsAndIsTheFastestOfThose) {
  const RunPlanRequest request = request_of("qwen2.5-1.5b", "rtx4090", 4);
  const std::vector<PlannedRun> runs = plan_runs(request);
  const PlannedRun& best = best_run(runs, request.cluster);
  EXPECT_TRUE(best.fits);
  for (const PlannedRun& run : runs) {
    EXPECT_GT(run.time.seconds(), 0);
    if (run.fits) EXPECT_LE(run.tokens_per_second, best.tokens_per_second);
  }
  EXPECT_LT(best.mfu, 1);
}

TEST(RunPlan, WhatFitsNowhereTellsTheLeastMemory) {
  const RunPlanRequest request = request_of("qwen2.5-32b", "rtx4090", 4);
  try {
    static_cast<void>(best_run(plan_runs(request), request.cluster));
    FAIL() << "a model of 32B parameters does not fit in 24 GB";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("the least is"), std::string::npos) << error.what();
  }
}

TEST(RunPlan, TheConfigurationAsItIsFitsOrIsMarked) {
  RunPlanRequest request = request_of("qwen2.5-1.5b", "rtx4090", 4);
  request.config.per_device_train_batch_size = 16;
  request.config.gradient_accumulation_steps = 2;
  const PlannedRun large = configured_run(request);
  EXPECT_FALSE(large.fits);
  EXPECT_EQ(large.choice.batch, 16);
  EXPECT_EQ(large.choice.accumulation, 2);
  request.config.zero_stage = 3;
  request.config.recompute = Recompute::full;
  request.config.per_device_train_batch_size = 1;
  const PlannedRun small = configured_run(request);
  EXPECT_TRUE(small.fits);
  EXPECT_EQ(small.choice.zero_stage, 3);
}

TEST(RunPlan, OfEachKindOfGpuTheBestIsToldOrTheLeastMemory) {
  RunPlanRequest request = request_of("qwen2.5-32b", "h200", 4);
  request.batch = 1;
  const std::vector<PlannedKind> kinds = plan_kinds(request);
  ASSERT_EQ(kinds.size(), known_gpus().size());
  const auto of = [&](const std::string& name) {
    return *std::ranges::find(kinds, name, [](const PlannedKind& kind) { return kind.device.name; });
  };
  EXPECT_FALSE(of("rtx4090").run.fits);
  EXPECT_TRUE(of("h200").run.fits);
  const std::vector<PlannedRun> on_h200 = plan_runs(request);
  EXPECT_EQ(of("h200").run.choice.text(), best_run(on_h200, request.cluster).choice.text());
  EXPECT_EQ(kinds_table(kinds).rows.size(), kinds.size());
}

TEST(RunPlan, MoreRanksGiveMoreTokensAndNoMoreEach) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", 8);
  const std::vector<PlannedScale> scaling = plan_scaling(request);
  ASSERT_EQ(scaling.size(), 11U);
  EXPECT_EQ(scaling.back().ranks, 1024);
  for (std::size_t i = 1; i < scaling.size(); ++i)
    EXPECT_GT(scaling[i].run.tokens_per_second, scaling[i - 1].run.tokens_per_second);
  EXPECT_LT(scaling.back().efficiency, 1);
}

// What ZeRO 3 gathers of a base below adapters goes over the host, too.
TEST(RunPlan, BytesOverTheHostAreThoseThatAreGathered) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", 4);
  request.config.adapter.enabled = true;
  request.config.adapter.lora.target_modules = {"all-linear"};
  const ModelWork work = work_of(request);
  const auto host_bytes = [&](int stage) {
    const PlannedChoice choice{.zero_stage = stage, .batch = 1, .accumulation = 1};
    return plan_step_time(request.config, work, choice, request.cluster).host_bytes;
  };
  EXPECT_NEAR(host_bytes(3) - host_bytes(2), 2 * work.layer_bytes - work.weights, 1);
}

TEST(RunPlan, RefusesGpusThatNodesDoNotDivide) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", 9);
  request.cluster.nodes = 2;
  EXPECT_THROW(static_cast<void>(plan_runs(request)), InvalidConfig);
  request.cluster = {.device = known_gpu("h100"), .ranks = 8, .nodes = 2, .network = 0};
  EXPECT_THROW(static_cast<void>(plan_runs(request)), InvalidConfig);
}

RunPlanRequest request_of_experts(int ranks) {
  RunPlanRequest request = request_of("gpt2-124m", "h100", ranks);
  request.model.model_type = "qwen3_moe";
  apply_family(request.model);
  request.model.num_experts = 8;
  request.model.num_experts_per_tok = 2;
  request.model.moe_intermediate_size = 512;
  request.model.validate();
  request.config.expert_parallel_size = ranks;
  return request;
}

TEST(RunPlan, RowsOfTokensTravelToTheirExpertsAndBackAndExpertsStay) {
  RunPlanRequest request = request_of_experts(8);
  request.cluster.nodes = 2;
  request.cluster.direct = true;
  const PlannedChoice choice{.zero_stage = 1, .batch = 8};
  const StepTime time = plan_step_time(request.config, work_of(request), choice, request.cluster);
  const double rows = 4.0 * 8 * 1024 * 12 * 2 * 768 * 2;  // passes, tokens, layers, choices, hidden, bf16
  const auto dense =
      static_cast<double>(request.model.parameter_count() - request.model.expert_parameter_count());
  const double inside = 2 * 2 * dense * 3 / 4, outside = 2 * 2 * dense / 2;  // of the rest: there and back
  EXPECT_NEAR(time.inside, inside + rows * 3 / 8, 1e-3 * inside);
  EXPECT_NEAR(time.outside, outside + 4 * rows * 4 / 8, 1e-3 * outside);
  EXPECT_GE(time.exposed, 4 * rows * 4 / 8 / request.cluster.network);
  PlannedChoice again = choice;
  again.recompute = Recompute::full;
  const StepTime more = plan_step_time(request.config, work_of(request), again, request.cluster);
  EXPECT_NEAR(more.inside - time.inside, rows / 2 * 3 / 8, 1e-3 * rows);
}

TEST(RunPlan, ExpertsAreSharedOutAmongAsManyRanksAsTheKeySays) {
  RunPlanRequest request = request_of_experts(4);
  for (const PlannedRun& run : plan_runs(request)) EXPECT_GE(run.choice.zero_stage, 1);
  const std::vector<PlannedScale> scaling = plan_scaling(request);
  ASSERT_GE(scaling.size(), 2U);  // groups of 4
  EXPECT_EQ(scaling[0].ranks, 4);
  EXPECT_EQ(scaling[1].ranks, 8);
  request.cluster.ranks = 6;
  const std::string message = test::message_of<InvalidConfig>([&] { static_cast<void>(plan_runs(request)); });
  EXPECT_NE(message.find("expert_parallel_size: is 4"), std::string::npos) << message;
}

TEST(GpuCatalogue, FindsNamesAsPeopleWriteThemAndSuggestsTheNearest) {
  EXPECT_EQ(known_gpu("RTX 4090").name, "rtx4090");
  EXPECT_EQ(known_gpu("4090").name, "rtx4090");
  try {
    static_cast<void>(known_gpu("h10"));
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'h100'"), std::string::npos) << error.what();
  }
}

TEST(GpuCatalogue, LinksAreInBitsOrBytes) {
  EXPECT_DOUBLE_EQ(parse_link_rate("400Gb/s", "--link"), 50e9);
  EXPECT_DOUBLE_EQ(parse_link_rate("50 GB/s", "--link"), 50e9);
  for (const char* wrong : {"", "400", "-1Gb/s", "400 Gigs", "Gb/s"})
    EXPECT_THROW(static_cast<void>(parse_link_rate(wrong, "--link")), InvalidConfig) << wrong;
}

TEST(GpuCatalogue, AFileDescribesAnotherDevice) {
  const std::string path = ::testing::TempDir() + "planned_device.yaml";
  std::ofstream(path) << "like: h100\nname: h800\nlink: 200\nmemory: 96GB\n";
  const PlannedDevice device = read_planned_device(path);
  EXPECT_EQ(device.name, "h800");
  EXPECT_EQ(device.link, 200e9);
  EXPECT_EQ(device.memory, 96e9);
  EXPECT_EQ(device.half, known_gpu("h100").half);
  std::ofstream(path) << "half: 100\nbandwith: 3\n";
  EXPECT_THROW(static_cast<void>(read_planned_device(path)), InvalidConfig);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ingot
