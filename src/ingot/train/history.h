#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ingot {

struct StepRecord {
  std::int64_t step = 0;  ///< optimiser steps done
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double flops = 0;    ///< FLOP/s
  double seconds = 0;  ///< of this step
};

struct EvalRecord {
  std::int64_t step = 0;
  double loss = 0;   ///< nats per token
  bool ema = false;  ///< of the averaged weights
};

struct SampleRecord {
  std::int64_t step = 0;
  std::string prompt, text;
};

/// What a run measured, in memory and, line by line, in a JSONL file that survives the process. A resumed run
/// reads the lines up to its step back, and the lines after it (of steps that will be taken again) are
/// dropped.
class RunHistory {
 public:
  /// Starts (resume_step 0) or continues `path`; an empty path keeps everything in memory only.
  RunHistory(const std::string& path, std::int64_t resume_step);
  ~RunHistory();

  void add(const StepRecord& record);
  void add(const EvalRecord& record);
  void add(const SampleRecord& record);
  /// Hands the lines to the operating system.
  void flush();

  const std::vector<StepRecord>& steps() const { return steps_; }
  const std::vector<EvalRecord>& evaluations() const { return evaluations_; }
  const std::vector<SampleRecord>& samples() const { return samples_; }

 private:
  void read(const std::string& path, std::int64_t resume_step);
  struct Sink;
  std::unique_ptr<Sink> sink_;
  std::vector<StepRecord> steps_;
  std::vector<EvalRecord> evaluations_;
  std::vector<SampleRecord> samples_;
};

}  // namespace ingot
