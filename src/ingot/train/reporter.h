#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/train/history.h"
#include "ingot/train/run_metadata.h"
#include "ingot/train/tracking.h"

namespace ingot {

/// Where a metric of a run that goes well lies; an infinite end is open.
struct HealthyRange {
  std::string name;  ///< as in StepRecord::values, EvalRecord::values
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

/// What reporters say about a run beside its metrics.
struct RunInfo {
  std::string name = "run";
  std::string output_dir;  ///< where they write
  std::string subtitle;    ///< the model in a line
  std::string model_type;  ///< "llama"
  std::int64_t parameters = 0;
  std::string loss_unit = "loss";                         ///< "nats per token"
  std::vector<std::pair<std::string, double>> baselines;  ///< losses to beat, by name
  std::vector<HealthyRange> healthy = {};                 ///< drawn beside these metrics
  std::vector<Setting> config;                            ///< as it took effect, for a table
  Tracking tracking;
  RunMetadata metadata;  ///< a task gives seeds, data and processes; the trainer the rest
  Device device{};
  double matmul_flops = 0;                       ///< the machine's measured limit, FLOP/s; 0: unknown
  double peak_flops = 0;                         ///< of the device, by its data sheet; 0: unknown
  std::int64_t first_step = 0, total_steps = 0;  ///< a resumed run begins after first_step
  std::int64_t logging_steps = 1;
  std::vector<std::string> layers = {};        ///< of StepRecord::layer_norms; empty: these are not measured
  std::vector<std::string> value_layers = {};  ///< of StepRecord::by_layer
};

/// Tells someone how a run goes. A reporter is one file of train/reporters/, and a row of the table in
/// train/reporters.cpp.
class Reporter {
 public:
  Reporter() = default;
  virtual ~Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Whether it shows the gradient's norm by layer, which is measured only then.
  virtual bool watches_layers() const { return false; }
  /// Before the first step. `info` lives as long as the run, and may learn more meanwhile.
  virtual void begin(const RunInfo& /*info*/) {}
  /// After every step.
  virtual void progress(const StepRecord& /*record*/) {}
  /// After every logging_steps-th step.
  virtual void step(const StepRecord& /*record*/) {}
  virtual void evaluation(const EvalRecord& /*record*/) {}
  virtual void sample(const SampleRecord& /*record*/) {}
  /// After an evaluation, and at the end.
  virtual void memory(const MemoryRecord& /*record*/) {}
  /// The run does something about its loss; the trainer logs it, too.
  virtual void event(const EventRecord& /*record*/) {}
  /// A checkpoint is whole.
  virtual void saved(const std::string& /*path*/) {}
  /// Hands what was written to the operating system. Called at least each second, and before a checkpoint.
  virtual void flush() {}
  /// After the last step, also of a run that was stopped.
  virtual void finish(const RunHistory& /*history*/) {}
};

using ReporterMaker = std::function<std::shared_ptr<Reporter>()>;
/// Names that `report_to` takes from now on: before it is read. InvalidConfig where it is taken.
void register_reporter(const std::string& name, ReporterMaker make);
/// Names that `report_to` takes.
std::vector<std::string> reporter_names();
/// One of each, in the table's order; "none" is not a reporter. InvalidConfig for a name that is not known.
std::vector<std::shared_ptr<Reporter>> make_reporters(const std::vector<std::string>& names);

}  // namespace ingot
