#include "ingot/onnx/graph_trial.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/node_error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {

namespace {

bool holds_true(const Value& value) {
  return value.tensor.defined() && value.tensor.numel() == 1 && as_integers(value.tensor)[0] != 0;
}

}  // namespace

/// One try, with inputs of one kind.
class GraphTrial {
 public:
  using Clock = std::chrono::steady_clock;
  /// What is known of the values of a graph.
  struct Scene {
    std::map<std::string, Value> values;
    std::set<std::string> made_up;  ///< what follows from made-up inputs: another run has others
    std::set<std::string> unknown;  ///< there is no value
  };
  /// How inputs are made up.
  struct Guess {
    std::int64_t size;      ///< of open axes
    std::int64_t whole;     ///< what whole numbers are
    std::int64_t step = 0;  ///< from one of them to the next
    double real = 0;        ///< what floats are
  };
  using Given = std::map<std::string, Value>;

  GraphTrial(const Graph& graph, Guess guess, Clock::time_point end, std::int64_t max_iterations)
      : guess_(guess), end_(end), max_iterations_(max_iterations), iterations_(max_iterations) {
    state_.texts = graph.texts();
  }

  void try_all(const Graph& graph, const Given& given);
  /// Whether a guess stood in the way of a node.
  bool hindered() const { return hindered_; }
  /// Whether a node needs more memory than there is, for these inputs at least.
  bool lacked_memory() const { return lacked_memory_; }
  /// What nodes refused that may be the graph's fault.
  const std::set<std::string>& refused() const { return refused_; }
  TrialResult take_result() && { return std::move(result_); }
  Value made_up(const ValueInfo& declared) const;

 private:
  void try_outputs(const Graph& graph, const Scene& scene);
  void try_nodes(const Graph& graph, Scene& scene, Scope around, bool around_is_made_up);
  void try_node(const Graph& graph, const Node& node, Scene& scene, Scope value, bool is_made_up);
  void try_graphs_inside(const Node& node, std::span<const Value> arguments, Scope value);
  bool try_function(const Node& node, std::span<const Value> arguments, Scene& scene);
  bool is_endless(const Node& node, const Scene& scene, Scope value) const;
  void give_up(const Graph& graph, const Node& node, Scene& scene);
  /// An error of a node. One of what the graph says, as attributes, is a problem where every guess meets it.
  void complain(const std::string& what, bool follows_from_guess, bool of_graph) {
    if (!follows_from_guess) {
      result_.problems.push_back(what);
      return;
    }
    hinder(what);
    if (of_graph) refused_.insert(what);
  }
  void lack_memory(const OutOfMemory& error, bool follows_from_guess) {
    lacked_memory_ = true;
    complain(fmt::format("{}; --max-memory allows more", error.what()), follows_from_guess, false);
  }
  void hinder(const std::string& what) {
    hindered_ = true;
    result_.untried.push_back(what);
  }

  Guess guess_;
  Clock::time_point end_;
  std::int64_t max_iterations_;
  std::int64_t iterations_;  ///< that loops of every run may still take
  RunState state_;
  bool hindered_ = false, lacked_memory_ = false;
  std::set<std::string> refused_;
  TrialResult result_;
};

Value GraphTrial::made_up(const ValueInfo& declared) const {
  if (!declared.type || (declared.shape.empty() && !declared.axes.empty())) return {};  // or of any rank
  std::vector<std::int64_t> dims = declared.shape;
  for (std::int64_t& size : dims) size = size < 0 ? guess_.size : size;
  const StoredType& type = *declared.type;
  const Shape shape = to_shape(dims);
  const bool text = type.element == ElementType::text, whole = is_integer(type.dtype) && !text;
  Tensor x;
  if (whole && guess_.step != 0) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = guess_.whole + guess_.step * static_cast<std::int64_t>(i);
    x = from_integers(values, shape, type.dtype);
  } else {
    const Tensor one = whole || text ? from_integers({text ? 0 : guess_.whole}, {}, type.dtype)
                                     : from_doubles({guess_.real}, {}, type.dtype);
    x = contiguous(broadcast_to(one, shape));
  }
  if (!declared.is_sequence) return {x, type.element};
  Value sequence;
  sequence.items = std::make_shared<const Values>(Values{{x, type.element}});
  return sequence;
}

/// The outputs of a node that did not run: made up where the graph declares them.
void GraphTrial::give_up(const Graph& graph, const Node& node, Scene& scene) {
  for (const std::string& name : node.outputs) {
    if (name.empty()) continue;
    const auto declared = graph.declared_.find(name);
    Value value;
    try {
      if (declared != graph.declared_.end()) value = made_up(declared->second);
    } catch (const Error&) {  // a size that nobody has
      value = {};
    }
    scene.made_up.insert(name);
    if (!value.defined()) scene.unknown.insert(name);
    scene.values[name] = std::move(value);
  }
}

/// Graphs inside a node that a run may enter though this one does not.
void GraphTrial::try_graphs_inside(const Node& node, std::span<const Value> arguments, Scope value) {
  for (const auto& [name, attribute] : node.attributes) {
    const std::shared_ptr<const Graph>& inside = attribute.graph;
    const bool loop = node.op == "Loop";
    if (inside == nullptr || !node.domain.empty() || !(loop || node.op == "If")) continue;
    Values inputs;
    if (loop) {
      inputs = {from_integers({0}, {}, DType::i64), from_integers({1}, {}, DType::boolean)};
      if (arguments.size() > 2) inputs.insert(inputs.end(), arguments.begin() + 2, arguments.end());
    }
    if (inputs.size() != inside->inputs().size()) continue;  // which the operator itself refuses
    Scene scene;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      scene.values[inside->inputs()[i].name] = inputs[i];
      scene.made_up.insert(inside->inputs()[i].name);
    }
    try_nodes(*inside, scene, value, true);
  }
}

/// True where all outputs of the function are known.
bool GraphTrial::try_function(const Node& node, std::span<const Value> arguments, Scene& scene) {
  const Graph& function = *node.function;
  Scene inside;
  for (std::size_t i = 0; i < function.inputs().size(); ++i) {
    const std::string& name = function.inputs()[i].name;
    inside.values[name] = i < arguments.size() ? arguments[i] : Value();
    if (i < node.inputs.size() && scene.made_up.contains(node.inputs[i])) inside.made_up.insert(name);
  }
  try_nodes(
      function, inside, [](const std::string&) { return Value(); }, false);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string &name = node.outputs[i], &made = function.outputs()[i].name;
    if (name.empty()) continue;
    scene.values[name] = inside.values[made];
    if (inside.made_up.contains(made)) scene.made_up.insert(name);
    if (inside.unknown.contains(made)) return false;
  }
  return true;
}

/// Whether a Loop has more iterations than a run may take, whatever its inputs hold: its count is the graph's
/// own, and its condition stays what it is.
bool GraphTrial::is_endless(const Node& node, const Scene& scene, Scope value) const {
  const auto body = node.attributes.find("body");
  if (node.op != "Loop" || !node.domain.empty() || body == node.attributes.end() ||
      body->second.graph == nullptr || body->second.graph->outputs().empty() ||
      body->second.graph->inputs().size() < 2)
    return false;
  const Graph& graph = *body->second.graph;
  const auto first_of = [&](const std::string& name) {
    const Value held = value(name);
    return held.tensor.defined() && held.tensor.numel() == 1 ? as_integers(held.tensor)[0] : 0;
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(2, node.inputs.size()); ++i) {
    const std::string& name = node.inputs[i];
    const std::int64_t least = i == 0 ? max_iterations_ + 1 : 1;  // iterations, the condition
    if (!name.empty() && (scene.made_up.contains(name) || first_of(name) < least)) return false;
  }
  std::string condition = graph.outputs()[0].name;
  for (auto made = graph.nodes().rbegin(); made != graph.nodes().rend(); ++made) {
    if (std::ranges::find(made->outputs, condition) == made->outputs.end()) continue;
    if (made->op != "Identity" || !made->domain.empty() || made->inputs.empty()) {
      const auto held = made->attributes.find("value");
      return made->op == "Constant" && held != made->attributes.end() && holds_true(held->second.value);
    }
    condition = made->inputs[0];
  }
  const auto stored = graph.initializers_.find(condition);
  return condition == graph.inputs()[1].name ||
         (stored != graph.initializers_.end() && holds_true(stored->second));
}

void GraphTrial::try_node(const Graph& graph, const Node& node, Scene& scene, Scope value, bool is_made_up) {
  Values arguments;
  arguments.reserve(node.inputs.size());
  for (const std::string& name : node.inputs) arguments.push_back(value(name));
  if (node.function != nullptr) {
    if (!try_function(node, arguments, scene)) give_up(graph, node, scene);
    return;
  }
  const OpCall call(node, arguments, graph.opset(), value, state_);
  if (is_made_up) try_graphs_inside(node, arguments, value);
  // How often a loop runs whose inputs are made up says nothing of other runs.
  constexpr std::int64_t kEnough = 1000;
  state_.iterations = is_made_up ? std::min(kEnough, iterations_) : iterations_;
  try {
    const Values results = run_node(*find_op(node), call);
    if (!is_made_up) iterations_ = state_.iterations;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (k >= results.size()) call.refuse(fmt::format("output {}", k));
      scene.values[node.outputs[k]] = results[k];
      if (is_made_up) scene.made_up.insert(node.outputs[k]);
    }
    return;
  } catch (const NotImplemented& error) {
    complain(error.what(), is_made_up, true);
  } catch (const FormatError& error) {
    complain(error.what(), is_made_up, true);
  } catch (const OutOfMemory& error) {
    lack_memory(error, is_made_up);
  } catch (const Error& error) {
    complain(error.what(), is_made_up, is_made_up && is_endless(node, scene, value));
  }
  give_up(graph, node, scene);
}

void GraphTrial::try_nodes(const Graph& graph, Scene& scene, Scope around, bool around_is_made_up) {
  const auto value = [&](const std::string& name) {
    if (name.empty()) return Value();
    if (const auto made = scene.values.find(name); made != scene.values.end()) return made->second;
    const auto stored = graph.initializers_.find(name);
    return stored != graph.initializers_.end() ? stored->second : around(name);
  };
  for (std::size_t i = 0; i < graph.nodes_.size(); ++i) {
    const Node& node = graph.nodes_[i];
    bool is_made_up = around_is_made_up, is_known = true;
    for (const std::string& name : reads_of(node)) {
      is_made_up = is_made_up || scene.made_up.contains(name);
      is_known = is_known && !scene.unknown.contains(name);
    }
    if (find_op(node) == nullptr) {  // which unsupported() tells
      give_up(graph, node, scene);
    } else if (!is_known || Clock::now() > end_) {
      const char* reason = is_known ? "there was no time left" : "what it reads is not known";
      result_.untried.push_back(fmt::format("{}: {}", label_of(node), reason));
      give_up(graph, node, scene);
    } else {
      try_node(graph, node, scene, value, is_made_up);
    }
    for (const std::string& name : graph.last_uses_[i]) scene.values.erase(name);
  }
  for (const ValueInfo& output : graph.outputs_) {  // one may be an initializer
    if (!scene.values.contains(output.name)) scene.values[output.name] = value(output.name);
  }
}

void GraphTrial::try_all(const Graph& graph, const Given& given) {
  for (const std::string& name : graph.unsupported()) result_.problems.push_back("operator " + name);
  Scene scene{.values = given};
  for (const ValueInfo& input : graph.inputs_) {
    if (given.contains(input.name)) continue;
    if (input.is_tensor && !input.type)
      result_.problems.push_back(fmt::format("input '{}': element type {}", input.name, input.stored_as));
    scene.made_up.insert(input.name);
    Value value;
    try {
      value = made_up(input);
    } catch (const NotImplemented& error) {
      result_.problems.push_back(fmt::format("input '{}': {}", input.name, error.what()));
    } catch (const Error& error) {
      hinder(fmt::format("input '{}': {}", input.name, error.what()));
    }
    if (!value.defined()) scene.unknown.insert(input.name);
    scene.values[input.name] = std::move(value);
  }
  try_nodes(
      graph, scene, [](const std::string&) { return Value(); }, false);
  try_outputs(graph, scene);
}

/// What is handed out is all there: a view of few elements may be an output of many.
void GraphTrial::try_outputs(const Graph& graph, const Scene& scene) {
  for (const ValueInfo& output : graph.outputs_) {
    const auto found = scene.values.find(output.name);
    if (found == scene.values.end() || !found->second.defined()) continue;
    const bool is_made_up = scene.made_up.contains(output.name);
    try {
      graph.output_value(output, found->second);
    } catch (const OutOfMemory& error) {
      lack_memory(error, is_made_up);
    } catch (const Error& error) {
      complain(error.what(), is_made_up, true);
    }
  }
}

namespace {

/// Runs the graph; what it throws is told as a problem. `more`: whether other nodes may have some, too.
TrialResult result_of_run(const Graph& graph, const std::map<std::string, Value>& inputs,
                          std::int64_t max_iterations, bool& more) {
  TrialResult result;
  result.texts = graph.texts();
  more = false;
  try {
    result.outputs = graph.run_values(inputs, result.texts, max_iterations);
  } catch (const NotImplemented& error) {
    result.problems.emplace_back(error.what());
    more = true;
  } catch (const FormatError& error) {
    result.problems.emplace_back(error.what());
    more = true;
  } catch (const OutOfMemory& error) {
    result.problems.push_back(fmt::format("{}; --max-memory allows more", error.what()));
  } catch (const Error& error) {
    result.problems.emplace_back(error.what());
  } catch (const std::bad_alloc&) {
    result.problems.emplace_back("out of memory; --max-memory allows more");
  }
  return result;
}

/// What a run says that has too little memory for the smallest inputs that the graph declares, "" for one
/// that has enough. The trial, which does not fuse nodes, may need more than the run.
std::string lack_of_memory(const Graph& graph, const std::map<std::string, Value>& given,
                           std::int64_t max_iterations) {
  std::string problem;
  for (const std::int64_t whole : {0, 1}) {
    const GraphTrial trial(graph, {.size = 1, .whole = whole, .real = static_cast<double>(whole)}, {}, 0);
    std::map<std::string, Value> inputs = given;
    Texts texts = graph.texts();
    try {
      for (const ValueInfo& input : graph.inputs()) {
        if (!inputs.contains(input.name)) inputs[input.name] = trial.made_up(input);
      }
      graph.run_values(inputs, texts, max_iterations);
      return {};
    } catch (const OutOfMemory& error) {
      problem = fmt::format("{}; --max-memory allows more", error.what());
    } catch (const Error&) {  // of these inputs, perhaps
      return {};
    }
  }
  return problem;
}

}  // namespace

TrialResult try_graph(const Graph& graph, double seconds, std::int64_t max_iterations,
                      const std::map<std::string, Value>& inputs) {
  // Sequences that are short, images that filters fit into; numbers that may count axes or sizes, be scales,
  // or name axes.
  static constexpr std::array<GraphTrial::Guess, 6> kGuesses{{{.size = 2, .whole = 0},
                                                              {.size = 2, .whole = 1, .real = 1},
                                                              {.size = 64, .whole = 0},
                                                              {.size = 64, .whole = 1, .real = 1},
                                                              {.size = 224, .whole = 0},
                                                              {.size = 2, .whole = 0, .step = 1, .real = 1}}};
  GraphTrial::Given given;
  try {
    given = graph.typed_inputs(inputs);
  } catch (const Error& error) {
    return {.problems = {error.what()}};
  }
  TrialResult run;
  const bool all_given = given.size() == graph.inputs().size();
  if (all_given) {
    bool more = false;
    run = result_of_run(graph, given, max_iterations, more);
    if (!more) return run;
  }
  const NoGrad no_grad;
  const auto end = GraphTrial::Clock::now() + std::chrono::duration_cast<GraphTrial::Clock::duration>(
                                                  std::chrono::duration<double>(seconds));
  TrialResult best;
  std::set<std::string> always;
  bool first = true, lacked_memory = true;
  for (const GraphTrial::Guess& guess : kGuesses) {
    GraphTrial trial(graph, guess, end, max_iterations);
    trial.try_all(graph, given);
    if (first) always = trial.refused();
    std::erase_if(always, [&](const std::string& what) { return !trial.refused().contains(what); });
    lacked_memory = lacked_memory && trial.lacked_memory();
    const bool done = !trial.hindered() || GraphTrial::Clock::now() > end;
    TrialResult result = std::move(trial).take_result();
    if (first || result.untried.size() < best.untried.size()) best = std::move(result);
    first = false;
    if (done) break;
  }
  std::erase_if(best.untried, [&](const std::string& what) { return always.contains(what); });
  best.problems.insert(best.problems.end(), always.begin(), always.end());
  if (best.problems.empty() && all_given) best.problems = run.problems;
  if (best.problems.empty() && lacked_memory) {
    std::string problem = lack_of_memory(graph, given, max_iterations);
    if (!problem.empty()) best.problems.push_back(std::move(problem));
  }
  return best;
}

}  // namespace ingot::onnx
