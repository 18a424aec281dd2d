#pragma once

#include <optional>
#include <string>
#include <utility>

#include "ingot/base/progress.h"
#include "ingot/cli/interrupt.h"
#include "ingot/export/model_files.h"

namespace ingot::cli {

/// Shows how many bytes of a model have been written. While one lives, a signal that would end the process
/// ends the writing with an error instead, so that no partial file is left.
class WriteMeter {
 public:
  explicit WriteMeter(std::string label) : label_(std::move(label)) {}
  WriteProgress progress();
  /// Before the result is printed.
  void finish() { bar_.reset(); }

 private:
  std::string label_;
  InterruptWatch watch_;
  std::optional<ProgressBar> bar_;
};

}  // namespace ingot::cli
