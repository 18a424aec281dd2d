#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ingot/base/report.h"
#include "ingot/train/language/planning/step_time.h"

namespace ingot {

struct RunPlanRequest {
  TrainConfig config;
  LanguageConfig model;
  PlannedCluster cluster;
  std::int64_t tokens_per_step = 0;   ///< over all ranks
  std::optional<std::int64_t> batch;  ///< sequences of a micro-batch; not given: powers of two
};

/// One combination.
struct PlannedRun {
  PlannedChoice choice;
  StepTime time;
  MemoryPlan memory;
  bool fits = false;
  double tokens_per_second = 0;  ///< of all ranks
  double mfu = 0;                ///< model FLOPs over the data sheet's peak of config.dtype
};

/// Combinations of ZeRO, recomputation, offload and micro-batch: those that fit and the trainer has first,
/// then those that fit, then the others; the fastest first, and of equals the one with less memory.
/// InvalidConfig where ranks do not divide by nodes, or a rank has less than a sequence of a step.
std::vector<PlannedRun> plan_runs(const RunPlanRequest& request);

/// Of the combination that request.config asks for, whether it fits or not.
PlannedRun configured_run(const RunPlanRequest& request);

/// The first of plan_runs(), which the trainer can run. Throws OutOfMemory with the least memory of a device
/// that would do, and what it takes then.
const PlannedRun& best_run(const std::vector<PlannedRun>& runs, const PlannedCluster& on);

/// A point of the curve over numbers of GPUs: the best of each, with as many tokens of a step on each rank.
struct PlannedScale {
  int ranks = 1;
  PlannedRun run;
  double efficiency = 1;  ///< tokens/s of a rank, over those of the least number of ranks that fits
};

/// 1, 2, 4, ... `most` ranks, without those where nothing fits. A node has as many ranks as
/// request.cluster's.
std::vector<PlannedScale> plan_scaling(const RunPlanRequest& request, int most = 1024);

/// The page of a plan: what is best and why, the other combinations, the curves.
Report plan_page(const RunPlanRequest& request, const std::vector<PlannedRun>& runs,
                 const std::vector<PlannedScale>& scaling);

/// The best of each ZeRO × recomputation × offload, as a table.
ReportTable plan_table(const std::vector<PlannedRun>& runs);

/// The best on each kind of GPU that is known.
struct PlannedKind {
  PlannedDevice device;
  PlannedRun run;  ///< where nothing fits, the one with the least memory
};
/// request.cluster.device does not matter.
std::vector<PlannedKind> plan_kinds(const RunPlanRequest& request);
ReportTable kinds_table(const std::vector<PlannedKind>& kinds);

}  // namespace ingot
