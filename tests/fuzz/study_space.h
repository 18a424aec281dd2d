#pragma once

#include <string>

#include "ingot/tune/tuner.h"

namespace ingot::test {

/// Of a study that generators write and the fuzzer opens.
inline tune::TunerOptions study_options(const std::string& path) {
  tune::TunerOptions options;
  tune::Parameter rate, layers, kind;
  rate.name = "rate";
  rate.low = 1e-4;
  rate.high = 1;
  rate.log = true;
  layers.name = "layers";
  layers.kind = tune::ParameterKind::integer;
  layers.low = 1;
  layers.high = 8;
  kind.name = "kind";
  kind.kind = tune::ParameterKind::categorical;
  kind.choices = {"a", "b"};
  options.space.parameters = {rate, layers, kind};
  options.trials = 20;
  options.study = path;
  options.objective = "fuzz";
  return options;
}

}  // namespace ingot::test
