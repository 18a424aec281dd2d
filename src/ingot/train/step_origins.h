#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/autograd/provenance.h"

namespace ingot {

/// What a run's directory keeps of where the tensors of a step came from: `ingot why` reads it.
struct StepOrigins {
  std::int64_t step = 0;
  /// Whether the last of them made the run's first value that is not finite.
  bool anomaly = false;
  std::vector<std::shared_ptr<const Origin>> ops;  ///< in the order in which they ran

  /// Those that the word names: a module with what is inside it, an op, or a number.
  std::vector<std::shared_ptr<const Origin>> find(std::string_view what) const;
};

/// origins/step-000020.json, or anomaly.json, in a run's output directory.
void write_step_origins(const std::string& output_dir, const StepOrigins& origins);
/// The whole way to what anomaly detection found, as write_step_origins takes it.
StepOrigins origins_of(const AnomalyFound& found, std::int64_t step);
/// Removes what an earlier run left of an anomaly.
void forget_anomaly(const std::string& output_dir);

/// Nothing where the run has none. IoError and FormatError that name the file.
std::optional<StepOrigins> read_anomaly(const std::string& output_dir);
/// InvalidConfig that lists the steps that were recorded where this one was not.
StepOrigins read_step_origins(const std::string& output_dir, std::int64_t step);
/// Ascending.
std::vector<std::int64_t> recorded_steps(const std::string& output_dir);

}  // namespace ingot
