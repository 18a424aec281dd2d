#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// Metrics of one kind of training beside the loss, in the order they are shown: "entropy", "kl". A step and
/// an evaluation may share names, and are then drawn in one chart.
using NamedValues = std::vector<std::pair<std::string, double>>;

/// Metrics of which some layers have one each.
using LayerValues = std::vector<std::pair<std::string, std::vector<double>>>;

struct StepRecord {
  std::int64_t step = 0;  ///< optimizer steps done
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double flops = 0;    ///< FLOP/s
  double seconds = 0;  ///< of this step
  NamedValues values = {};
  std::vector<float> layer_norms = {};  ///< of the gradients, by RunInfo::layers
  LayerValues by_layer = {};            ///< of RunInfo::value_layers
};

struct EvalRecord {
  std::int64_t step = 0;
  double loss = 0;    ///< on validation data
  bool ema = false;   ///< of the averaged weights
  bool best = false;  ///< the least so far
  NamedValues values = {};
};

struct SampleRecord {
  std::int64_t step = 0;
  std::string prompt, text;
};

/// The most memory that the processes of a run have taken until a step, each since it began: of the one that
/// took most.
struct MemoryRecord {
  struct Most {
    double bytes = 0;
    int rank = 0;
  };
  std::int64_t step = 0;
  int ranks = 1;
  Most tensors;   ///< on the device
  Most resident;  ///< in the host's memory, of the whole process
};

/// What a run did about its loss (train/loss_watch.h).
struct EventRecord {
  std::int64_t step = 0;
  std::string kind = {};  ///< "loss_spike", "gradient_spike", "plateau", "loss_too_high"
  std::string text = {};  ///< why, and what is done
};

/// What a run measured.
class RunHistory {
 public:
  void add(const StepRecord& record) { steps_.push_back(record); }
  void add(const EvalRecord& record) { evaluations_.push_back(record); }
  void add(const SampleRecord& record) { samples_.push_back(record); }
  void add(const MemoryRecord& record) { memory_.push_back(record); }
  void add(const EventRecord& record) { events_.push_back(record); }

  const std::vector<StepRecord>& steps() const { return steps_; }
  const std::vector<EvalRecord>& evaluations() const { return evaluations_; }
  const std::vector<SampleRecord>& samples() const { return samples_; }
  const std::vector<MemoryRecord>& memory() const { return memory_; }
  const std::vector<EventRecord>& events() const { return events_; }

  /// A run's speed (tokens_per_second, flops): the median over its logged steps, which a slow first one does
  /// not move; 0 where there are none.
  double median(double StepRecord::*metric) const;

 private:
  std::vector<StepRecord> steps_;
  std::vector<EvalRecord> evaluations_;
  std::vector<SampleRecord> samples_;
  std::vector<MemoryRecord> memory_;
  std::vector<EventRecord> events_;
};

/// What the metrics.jsonl of an output directory tells of the steps up to `last_step`: later ones will be
/// taken again. Empty where there is no such file.
RunHistory read_history(const std::string& output_dir, std::int64_t last_step);

}  // namespace ingot
