#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/onnx/op.h"

namespace ingot {
class OnnxFile;
}

namespace ingot::onnx {

struct Program;

/// An input or output as the file declares it. A dimension is -1 where it is open; `axes` then may name it.
/// Of a sequence or an optional, type and shape are those of the tensors in it.
struct ValueInfo {
  std::string name;
  std::optional<StoredType> type;  ///< of a tensor's elements; nothing where Ingot cannot hold them
  bool is_tensor = true;           ///< else a sequence or an optional
  bool is_sequence = false;        ///< or an optional one
  std::string stored_as;           ///< "FLOAT", "INT64", ..., or "sequence" and the like
  std::vector<std::int64_t> shape;
  std::vector<std::string> axes;
};

/// A graph of an ONNX file, on our ops. Immutable: several threads
/// may run it at once. On another device than the CPU its floats are there, as far as the operators that make
/// and read them can work there (OpRow); whole numbers, which are shapes, indices and truth, stay on the
/// host.
class Graph {
 public:
  /// Reads and checks a file: every value is made before it is used, and once. FormatError otherwise.
  /// Operators that Ingot lacks are not an error yet: see unsupported().
  static Graph open(const std::string& path, Device device = kCpu);
  static Graph open(std::shared_ptr<const OnnxFile> file, Device device = kCpu);

  const std::string& path() const { return path_; }
  int opset() const { return opset_; }
  std::int64_t ir_version() const { return ir_version_; }
  const std::string& producer() const { return producer_; }
  /// Without those that have an initializer.
  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& outputs() const { return outputs_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::set<std::string> unsupported() const;

  /// Runs the graph. Every input must be given, of the declared dtype and shape where that is closed; the
  /// results are the outputs, in order, on the host, contiguous. Values are freed after their last use.
  /// NotImplemented names what Ingot lacks, before anything runs. All loops together take at most
  /// `max_iterations`; Error names the one that wants more. An output that is not a tensor is NotImplemented;
  /// one of a type that Ingot has no dtype for is in its carrier's.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs,
                          std::int64_t max_iterations = kMaxIterations) const;
  /// The same for values of every kind. `texts`: what their strings' numbers stand for, before and after.
  Values run_values(const std::map<std::string, Value>& inputs, Texts& texts,
                    std::int64_t max_iterations = kMaxIterations) const;
  /// Values for inputs, with the element types that the graph declares. Throws for what is none of its
  /// inputs, or does not fit one.
  std::map<std::string, Value> typed_inputs(std::map<std::string, Value> given) const;
  /// The strings that the graph holds: those of its inputs are numbered after them.
  const Texts& texts() const { return *texts_; }
  static constexpr std::int64_t kMaxIterations = 1'000'000;

  /// Of a graph inside a node: runs it on `inputs`, in order, and on what it reads of the graph around it.
  Values run_inside(std::span<const Value> inputs, Scope around, RunState& state) const;
  /// The values that a graph inside a node reads of the one around it.
  const std::set<std::string>& captured() const { return captured_; }

 private:
  Graph() = default;
  friend class GraphReader;  // which makes them from a file's messages (graph_reader.cpp)
  friend class GraphTrial;   // which tries them on made-up inputs (graph_trial.cpp)
  void plan(bool inside);
  /// What run() executes, made at the first call.
  const Program& program() const;
  void start_program();
  /// An output as a run hands it out: on the host, with every element in memory. Errors name its node.
  Value output_value(const ValueInfo& output, const Value& value) const;
  void position_initializers();
  void check_input(const ValueInfo& input, const Value& given) const;
  Values run_nodes(std::map<std::string, Value> values, Scope around, RunState& state) const;

  std::shared_ptr<const OnnxFile> file_;
  std::string path_, producer_;
  Device device_{};
  int opset_ = 0;
  std::int64_t ir_version_ = 0;
  std::vector<ValueInfo> inputs_, outputs_;
  std::vector<Node> nodes_;
  std::map<std::string, Value> initializers_;
  std::map<std::string, ValueInfo> declared_;  // what the file says of values that nodes make
  std::shared_ptr<Texts> texts_;               // one for a file
  std::set<std::string> captured_;
  std::vector<std::vector<std::string>> last_uses_;  // values that node i is the last to read
  struct LazyProgram;
  std::shared_ptr<LazyProgram> program_;  // of all copies
};

}  // namespace ingot::onnx
