#pragma once

#include <functional>
#include <memory>

#include "ingot/train/reporter.h"

namespace ingot::test {

/// A reporter that calls functions.
class HookReporter : public Reporter {
 public:
  std::function<void(const StepRecord&)> on_step;
  std::function<void(const EvalRecord&)> on_evaluation;
  std::function<void(const std::string&)> on_save;

  void progress(const StepRecord& record) override {
    if (on_step) on_step(record);
  }
  void evaluation(const EvalRecord& record) override {
    if (on_evaluation) on_evaluation(record);
  }
  void saved(const std::string& path) override {
    if (on_save) on_save(path);
  }
};

}  // namespace ingot::test
