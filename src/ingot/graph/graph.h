#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct DualPoolNetConfig;
struct EncoderConfig;
struct ForecastModelConfig;
struct LanguageConfig;

struct GraphTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;

  std::int64_t elements() const;
  /// "f32[1,128,768]"
  std::string type() const;
};

/// A kernel that an op launched. flops: 0 where they are not known.
struct GraphKernel {
  std::string name, implementation;
  std::vector<GraphTensor> operands;
  double flops = 0, bytes = 0;
};

struct GraphOp {
  std::string name;
  bool backward = false;
  std::vector<GraphKernel> kernels;
  /// Numbers of the ops, in the order in which they ran, whose results this one reads.
  std::vector<std::size_t> inputs;
  std::size_t number = 0;

  double flops() const;
  double bytes() const;
  /// The last kernel's result, as "f32[1,128,768]"; empty where none is known.
  std::string result() const;
};

/// A module: its parameters, the ops that ran in it and not in a module inside, and those modules, in the
/// order of their first op.
struct GraphModule {
  std::string name;  ///< the last part of its full name; the model's own is empty
  std::string full_name;
  std::vector<GraphTensor> parameters;
  std::vector<GraphOp> ops;
  std::vector<GraphModule> modules;

  /// Of it and all modules inside.
  std::int64_t parameter_count() const;
  double flops(bool backward) const;
  double bytes() const;
  /// The number of the first op of it and all modules inside; the largest there is where none has any.
  std::size_t first_op() const;
  bool computes() const { return first_op() != std::numeric_limits<std::size_t>::max(); }
};

/// What a model computes, found by a run in which no kernel of floating-point results runs.
struct ModelGraph {
  std::string title, input;  ///< "llama, 32 layers", "tokens [1, 128]"
  bool backward = false;
  GraphModule model;
  std::size_t activation_bytes = 0;  ///< the most that was held besides parameters and their gradients
};

/// Parameters that share memory and hold anything: enough for their shapes, whatever the model's size.
class ShapeSource final : public ParamProvider {
 public:
  explicit ShapeSource(DType dtype) : dtype_(dtype) {}
  Tensor provide(const ParamRequest& request) override;

 private:
  DType dtype_;
  std::shared_ptr<Storage> memory_;
};

/// Records what `run` launches, with the parameters of `model`.
ModelGraph record_graph(ModuleRef model, const std::function<void()>& run);

struct GraphOptions {
  std::int64_t batch = 1;       ///< sequences, windows or observations
  std::int64_t sequence = 128;  ///< tokens of each
  bool backward = false;        ///< of a language model's loss too, or of the sum of another's results
  void validate() const;
};
ModelGraph graph_of_model(const LanguageConfig& config, const GraphOptions& options);
ModelGraph graph_of_model(const EncoderConfig& config, const GraphOptions& options);
ModelGraph graph_of_model(const ForecastModelConfig& config, const GraphOptions& options);
ModelGraph graph_of_model(const DualPoolNetConfig& config, const GraphOptions& options);
/// Of the model in a directory or a GGUF file, whose weights are not read. Throws IoError, FormatError, and
/// InvalidConfig where that is not a model of a family that Ingot has.
ModelGraph graph_of_model(const std::string& path, const GraphOptions& options);

/// Modules of one list that do the same, as layers do: [first, first + count) differ in their numbers only.
struct GraphRun {
  std::size_t first = 0, count = 1;
};
std::vector<GraphRun> folded(const std::vector<GraphModule>& modules);

/// As JSON: every module, op and kernel, repeats folded ("repeats" says how many).
std::string graph_json(const ModelGraph& graph);
/// For Graphviz: modules as clusters, ops as boxes, repeats once.
std::string graph_dot(const ModelGraph& graph);
/// As one page that needs nothing else.
std::string graph_page(const ModelGraph& graph);

}  // namespace ingot
