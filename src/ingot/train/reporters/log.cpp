#include "ingot/base/log.h"

#include <fmt/format.h>

#include "ingot/core/backend.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

// A line a step and an evaluation to the log.
class LogReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override { info_ = &info; }
  void step(const StepRecord& r) override {
    log_training_step(r.step, info_->total_steps, r.loss, r.learning_rate);
    const MemoryTracker& memory = backend(info_->device).memory();
    log_values(r.step, r.values);
    log_memory_usage(memory.allocated(), memory.peak(), fmt::format("after step {}", r.step));
  }
  void evaluation(const EvalRecord& r) override {
    log_metrics({{"step", r.step}, {r.ema ? "ema_eval_loss" : "eval_loss", r.loss}});
    log_values(r.step, r.values);
  }

 private:
  static void log_values(std::int64_t step, const NamedValues& values) {
    for (const auto& [name, value] : values) log_metrics({{"step", step}, {name, value}});
  }

  const RunInfo* info_ = nullptr;
};

}  // namespace

std::shared_ptr<Reporter> make_log_reporter() { return std::make_shared<LogReporter>(); }

}  // namespace ingot
