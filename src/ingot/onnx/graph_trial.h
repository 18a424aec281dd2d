#pragma once

#include <string>
#include <vector>

#include "ingot/onnx/graph.h"

namespace ingot::onnx {

/// What a trial of a graph on made-up inputs tells of a run on others.
struct TrialResult {
  std::vector<std::string> problems;  ///< what any run refuses; each names its node or input
  std::vector<std::string> untried;   ///< nodes that the made-up inputs do not reach, and why not
  Values outputs;                     ///< of the run, where nothing was made up and nothing refused
  Texts texts;                        ///< of the outputs
};

/// Runs a graph, opened on the CPU, on `given` inputs and on made-up ones of the declared types and ranks for
/// all others, to learn of attributes, types and inputs that a run refuses: an operator says so itself. Sizes
/// that are open and what numbers hold is tried in several ways. An error that follows from these choices is
/// no problem, unless all of them meet the same refusal, or need more memory than there is; what lies behind
/// it is untried. After `seconds` the rest is untried. Where every input is given, or there are none, the
/// verdict is that of run_values() with `max_iterations`, which is run for it, however long that takes.
TrialResult try_graph(const Graph& graph, double seconds = 20,
                      std::int64_t max_iterations = Graph::kMaxIterations,
                      const std::map<std::string, Value>& given = {});

}  // namespace ingot::onnx
