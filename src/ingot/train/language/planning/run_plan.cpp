#include "ingot/train/language/planning/run_plan.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/units.h"
#include "ingot/train/language/expert_sharing.h"

namespace ingot {
namespace {

constexpr std::int64_t kLargestBatch = 64;
constexpr double kContextBytes = 1e9;  // of a GPU: the driver's, libraries' workspaces
constexpr Recompute kPlannedRecompute[] = {Recompute::none, Recompute::selective, Recompute::full};

double memory_of_a_rank(const PlannedCluster& on) {
  return on.device.host ? on.device.memory / on.ranks_per_node() : on.device.memory - kContextBytes;
}

PlannedRun planned_run(const RunPlanRequest& request, const ModelWork& work, const PlannedChoice& choice) {
  const PlannedCluster& on = request.cluster;
  PlannedRun run{.choice = choice,
                 .time = plan_step_time(request.config, work, choice, on),
                 .memory = plan_memory_of_choice(request.config, request.model, choice, on)};
  run.fits = static_cast<double>(run.memory.needed()) <= memory_of_a_rank(on);
  const auto tokens = static_cast<double>(choice.batch * choice.accumulation * request.config.sequence_len);
  run.tokens_per_second = tokens * on.ranks / run.time.seconds();
  const double share = on.device.host ? on.ranks_per_node() : 1;
  run.mfu = run.time.model_flops / run.time.seconds() / (on.device.peak(request.config.dtype) / share);
  return run;
}

void check_cluster(const RunPlanRequest& request) {
  const PlannedCluster& on = request.cluster;
  INGOT_CHECK(on.nodes >= 1 && on.ranks >= 1 && on.ranks % on.nodes == 0,
              InvalidConfig("--gpus", fmt::format("{} GPUs do not divide by {} nodes; every node has as many",
                                                  on.ranks, on.nodes)));
  INGOT_CHECK(on.nodes == 1 || on.network > 0,
              InvalidConfig("--link", "is needed with several nodes: what a node sends, as 400Gb/s"));
  if (request.config.shares_experts()) check_expert_ranks(request.config, request.model, on.ranks);
  const std::int64_t least = request.config.sequence_len * on.ranks * request.batch.value_or(1);
  INGOT_CHECK(
      request.tokens_per_step >= least,
      InvalidConfig("--tokens", fmt::format("is {}; {} ranks with a sequence of {} each, and a batch "
                                            "of {}, take {} in a step at least",
                                            request.tokens_per_step, on.ranks, request.config.sequence_len,
                                            request.batch.value_or(1), least)));
}

std::vector<std::int64_t> batches_of(const RunPlanRequest& request) {
  if (request.batch) return {*request.batch};
  const std::int64_t sequences =
      request.tokens_per_step / (request.config.sequence_len * request.cluster.ranks);
  std::vector<std::int64_t> list;
  for (std::int64_t batch = 1; batch <= std::min(sequences, kLargestBatch); batch *= 2) list.push_back(batch);
  return list;
}

std::string memory_text(const MemoryPlan& plan) { return human_bytes(plan.needed()); }

std::string why_best(const PlannedRun& best, const std::vector<PlannedRun>& runs) {
  const std::string bound = best.time.bound();
  std::string text = fmt::format("bound by {}", bound);
  const auto without = std::ranges::find_if(runs, [&](const PlannedRun& run) {
    return run.choice.recompute < best.choice.recompute && run.choice.zero_stage <= best.choice.zero_stage;
  });
  if (without != runs.end() && !without->fits) text += "; less recomputation or sharing out does not fit";
  return text;
}

const PlannedRun& with_least_memory(const std::vector<PlannedRun>& runs) {
  return *std::ranges::min_element(runs, {}, [](const PlannedRun& run) { return run.memory.needed(); });
}

// Less-than in the order of plan_runs().
bool is_better(const PlannedRun& a, const PlannedRun& b) {
  const auto key = [](const PlannedRun& run) {
    return std::tuple(!run.fits, -run.tokens_per_second, run.memory.needed());
  };
  return key(a) < key(b);
}

ReportChart scaling_chart(const std::vector<PlannedScale>& scaling, bool efficiency) {
  ReportChart chart{.title = efficiency ? "Efficiency" : "Tokens/s",
                    .x_label = "GPUs",
                    .y_label = efficiency ? "tokens/s of a GPU, of those of the least number" : "tokens/s",
                    .log_x = true,
                    .log_y = !efficiency,
                    .whole_x = true};
  ReportSeries planned{.name = "planned"}, linear{.name = "without communication", .dashed = true};
  for (const PlannedScale& point : scaling) {
    planned.x.push_back(point.ranks);
    linear.x.push_back(point.ranks);
    planned.y.push_back(efficiency ? point.efficiency : point.run.tokens_per_second);
    const PlannedScale& first = scaling.front();
    linear.y.push_back(efficiency ? 1 : first.run.tokens_per_second * point.ranks / first.ranks);
  }
  chart.series = {planned, linear};
  return chart;
}

ReportTable scaling_table(const std::vector<PlannedScale>& scaling) {
  ReportTable table{.title = "By number of GPUs",
                    .columns = {"GPUs", "tokens/s", "efficiency", "MFU", "bound by", "best"},
                    .rows = {}};
  table.rows.reserve(scaling.size());
  for (const PlannedScale& point : scaling) {
    table.rows.push_back({std::to_string(point.ranks), human_count(point.run.tokens_per_second),
                          fmt::format("{:.0f} %", 100 * point.efficiency),
                          fmt::format("{:.0f} %", 100 * point.run.mfu), point.run.time.bound(),
                          point.run.choice.text()});
  }
  return table;
}

}  // namespace

namespace {

// Several processes keep theirs on the device.
Offload gradients_of(const RunPlanRequest& request) {
  return request.cluster.ranks == 1 ? request.config.optimizer.gradients : Offload::none;
}

std::vector<PlannedRun> runs_of(const RunPlanRequest& request, const ModelWork& work) {
  check_cluster(request);
  std::vector<PlannedRun> runs;
  const int first = request.config.shares_experts() ? 1 : 0, last = request.cluster.ranks == 1 ? 0 : 3;
  for (const std::int64_t batch : batches_of(request)) {
    const std::int64_t accumulation = std::max<std::int64_t>(
        1, request.tokens_per_step / (request.config.sequence_len * request.cluster.ranks * batch));
    for (int stage = first; stage <= last; ++stage) {
      for (const Recompute recompute : kPlannedRecompute) {
        for (const Offload offload : {Offload::none, Offload::cpu}) {
          if (offload == Offload::cpu && request.cluster.device.host) continue;
          const PlannedChoice choice{.zero_stage = stage,
                                     .recompute = recompute,
                                     .offload = offload,
                                     .gradients = gradients_of(request),
                                     .weights = request.config.offload_weights,
                                     .activations = recompute == Recompute::full
                                                        ? request.config.offload_activations
                                                        : Offload::none,
                                     .batch = batch,
                                     .accumulation = accumulation};
          runs.push_back(planned_run(request, work, choice));
        }
      }
    }
  }
  std::ranges::stable_sort(runs, is_better);
  return runs;
}

ModelWork work_of(const RunPlanRequest& request) {
  return model_work(request.config, request.model, request.cluster.device);
}

}  // namespace

std::vector<PlannedRun> plan_runs(const RunPlanRequest& request) {
  return runs_of(request, work_of(request));
}

PlannedRun configured_run(const RunPlanRequest& request) {
  check_cluster(request);
  const TrainConfig& c = request.config;
  return planned_run(request, work_of(request),
                     {.zero_stage = request.cluster.ranks > 1 ? static_cast<int>(c.zero_stage) : 0,
                      .recompute = c.recompute,
                      .offload = c.optimizer.offload,
                      .gradients = gradients_of(request),
                      .weights = c.offload_weights,
                      .activations = c.offload_activations,
                      .batch = c.per_device_train_batch_size,
                      .accumulation = c.gradient_accumulation_steps});
}

std::vector<PlannedKind> plan_kinds(const RunPlanRequest& request) {
  std::vector<PlannedKind> kinds;
  kinds.reserve(known_gpus().size());
  for (const PlannedDevice& gpu : known_gpus()) {
    RunPlanRequest on = request;
    on.cluster.device = gpu;
    const std::vector<PlannedRun> runs = plan_runs(on);
    kinds.push_back({gpu, runs.front().fits ? runs.front() : with_least_memory(runs)});
  }
  return kinds;
}

ReportTable kinds_table(const std::vector<PlannedKind>& kinds) {
  ReportTable table{.title = "By kind of GPU",
                    .columns = {"GPU", "memory", "needed", "tokens/s", "MFU", "best"},
                    .rows = {}};
  table.rows.reserve(kinds.size());
  for (const PlannedKind& kind : kinds) {
    const PlannedRun& run = kind.run;
    table.rows.push_back(
        {kind.device.name, human_bytes(static_cast<std::uint64_t>(kind.device.memory)),
         memory_text(run.memory), run.fits ? human_count(run.tokens_per_second) : "-",
         run.fits ? fmt::format("{:.0f} %", 100 * run.mfu) : "-",
         run.fits ? run.choice.text() : fmt::format("does not fit; least with {}", run.choice.text())});
  }
  return table;
}

const PlannedRun& best_run(const std::vector<PlannedRun>& runs, const PlannedCluster& on) {
  const PlannedRun& best = runs.front();
  if (best.fits) return best;
  const PlannedRun& least = with_least_memory(runs);
  const auto available = static_cast<std::size_t>(std::max(0.0, memory_of_a_rank(on)));
  throw OutOfMemory(
      fmt::format("nothing fits in the {} that a rank has on {}; the least is {} with {}: take a device "
                  "with more memory, more GPUs, or LoRA",
                  human_bytes(available), on.device.name, memory_text(least.memory), least.choice.text()),
      least.memory.needed(), 0, available);
}

std::vector<PlannedScale> plan_scaling(const RunPlanRequest& request, int most) {
  std::vector<PlannedScale> scaling;
  const ModelWork work = work_of(request);
  const int in_node = request.cluster.ranks_per_node();
  const std::int64_t tokens = request.tokens_per_step / request.cluster.ranks;
  for (int ranks = 1; ranks <= most; ranks *= 2) {
    if (request.config.shares_experts() && ranks % request.config.expert_parallel_size != 0) continue;
    RunPlanRequest at = request;
    at.cluster.ranks = ranks;
    at.cluster.nodes = ranks <= in_node ? 1 : ranks / in_node;
    if (at.cluster.nodes * in_node != ranks && ranks > in_node) continue;
    if (at.cluster.nodes > 1 && at.cluster.network == 0) break;
    at.tokens_per_step = tokens * ranks;
    const std::vector<PlannedRun> runs = runs_of(at, work);
    if (!runs.front().fits) continue;
    PlannedScale point{.ranks = ranks, .run = runs.front()};
    if (!scaling.empty()) {
      const PlannedScale& first = scaling.front();
      point.efficiency = point.run.tokens_per_second / ranks / (first.run.tokens_per_second / first.ranks);
    }
    scaling.push_back(point);
  }
  return scaling;
}

ReportTable plan_table(const std::vector<PlannedRun>& runs) {
  ReportTable table{.title = "Combinations",
                    .columns = {"combination", "tokens/s", "MFU", "memory per rank", "bound by", ""},
                    .rows = {},
                    .best = {0}};
  std::vector<std::tuple<int, Recompute, Offload>> seen;
  for (const PlannedRun& run : runs) {  // the first micro-batch of each is its best
    const std::tuple kind(run.choice.zero_stage, run.choice.recompute, run.choice.offload);
    if (std::ranges::find(seen, kind) != seen.end()) continue;
    seen.push_back(kind);
    const std::string note = run.fits ? "" : "does not fit";
    table.rows.push_back({run.choice.text(), human_count(run.tokens_per_second),
                          fmt::format("{:.0f} %", 100 * run.mfu), memory_text(run.memory), run.time.bound(),
                          note});
  }
  return table;
}

Report plan_page(const RunPlanRequest& request, const std::vector<PlannedRun>& runs,
                 const std::vector<PlannedScale>& scaling) {
  const PlannedCluster& on = request.cluster;
  const PlannedRun& best = best_run(runs, on);
  Report page;
  page.title = fmt::format("{} on {} × {}", request.model.model_type, on.ranks, on.device.name);
  page.subtitle = best.choice.text() + ": " + why_best(best, runs);
  page.figures = {{"tokens/s", human_count(best.tokens_per_second), best.choice.text()},
                  {"MFU", fmt::format("{:.0f} %", 100 * best.mfu), best.time.bound()},
                  {"memory per rank", memory_text(best.memory),
                   human_bytes(static_cast<std::uint64_t>(memory_of_a_rank(on))) + " there"},
                  {"step", human_duration(best.time.seconds()),
                   human_count(static_cast<double>(request.tokens_per_step)) + " tokens"}};
  if (scaling.size() > 1) {
    page.charts = {scaling_chart(scaling, false), scaling_chart(scaling, true)};
    page.tables.push_back(scaling_table(scaling));
  }
  page.tables.push_back(plan_table(runs));
  return page;
}

}  // namespace ingot
