#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ingot/core/stream.h"
#include "ingot/core/view.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/conv.h"

namespace cudnn_frontend::graph {
class Graph;
class Tensor_attributes;
}  // namespace cudnn_frontend::graph

// What is asked of cuDNN's graph API, through NVIDIA's header-only frontend, which takes the compiler 15
// seconds: only what describes graphs includes it.
namespace ingot::kernels::cuda {

using DnnGraph = cudnn_frontend::graph::Graph;
using DnnTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;

/// Why cuDNN is not used here: what is missing, or that INGOT_CUDNN=0 says so. Empty where it is. Opens the
/// library when it is first asked.
const std::string& cudnn_problem();

/// Whether sums have a fixed order, so that the same input gives the same bits: unless INGOT_DETERMINISTIC=0.
bool is_deterministic();

/// A tensor as cuDNN's operations take it: four axes, in the order that the operation has them, with any
/// strides.
struct DnnOperand {
  void* data = nullptr;  ///< null: the operation goes without it
  DType dtype = DType::f32;
  std::array<std::int64_t, 4> sizes{}, strides{};
};

/// An operation in cuDNN's words. Plans are kept by its name, what its operands look like, and its settings.
class DnnOperation {
 public:
  DnnOperation(const char* name, std::vector<DnnOperand> operands, std::vector<std::int64_t> settings)
      : name_(name), operands_(std::move(operands)), settings_(std::move(settings)) {}
  virtual ~DnnOperation() = default;

  /// Adds the operation to an empty graph.
  virtual void describe(DnnGraph& graph) const = 0;

  const char* name() const { return name_; }
  const std::vector<DnnOperand>& operands() const { return operands_; }
  const std::vector<std::int64_t>& settings() const { return settings_; }

 protected:
  bool has(std::size_t number) const { return operands_[number].data != nullptr; }
  /// Operand `number` as a tensor that the graph reads.
  DnnTensor input(DnnGraph& graph, std::size_t number) const;
  /// Has a result of the graph written to operand `number`.
  void output(const DnnTensor& result, std::size_t number) const;

 private:
  const char* name_;
  std::vector<DnnOperand> operands_;
  std::vector<std::int64_t> settings_;
};

/// A device that is not there.
struct DnnDescription {
  std::string json;                ///< as cuDNN writes it
  int architecture = 0;            ///< 90 for compute capability 9.0
  std::size_t memory = 0;          ///< bytes
  bool only_tensor_cores = false;  ///< leave engines out that do without them
};

/// Plans for operations on one device, made once for each kind. Any thread.
class DnnDevice {
 public:
  /// A device of this machine.
  explicit DnnDevice(int index);
  /// One that tells which operations there are engines for, without a GPU, and runs none.
  explicit DnnDevice(const DnnDescription& description);
  ~DnnDevice();

  /// Why cuDNN cannot do the operation on this device; empty where it can. Finding out takes tenths of a
  /// second the first time.
  const std::string& problem(const DnnOperation& operation);
  /// Puts an operation without a problem into the stream. Memory in passing comes from the stream's backend.
  void run(const DnnOperation& operation, Stream stream);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

/// The device of this machine, for as long as the process lasts.
DnnDevice& dnn_device(Device device);

/// A contract's call in cuDNN's words; null where those cannot say it, or where our own kernels serve better
/// (the files say when).
std::unique_ptr<DnnOperation> dnn_operation(const AttentionArgs& args);
std::unique_ptr<DnnOperation> dnn_operation(const AttentionBackwardArgs& args);
std::unique_ptr<DnnOperation> dnn_operation(const ConvArgs& args);
std::unique_ptr<DnnOperation> dnn_operation(const ConvBackwardDataArgs& args);
std::unique_ptr<DnnOperation> dnn_operation(const ConvBackwardWeightArgs& args);

/// In how many parts of the batch, one after the other, the device can compute the gradients: those in a
/// fixed order need memory for every pair of a query and a key, which a whole batch may not get. 0: in none.
std::int64_t dnn_batch_parts(DnnDevice& device, const AttentionBackwardArgs& args);

/// Whether the device of `operand` has an engine for the call.
template <class Args>
bool dnn_takes(const Args& args, const View& operand) {
  const auto operation = dnn_operation(args);
  return operation != nullptr && cudnn_problem().empty() &&
         dnn_device(operand.device).problem(*operation).empty();
}
template <class Args>
void dnn_run(const Args& args, Stream stream) {
  dnn_device(stream.device).run(*dnn_operation(args), stream);
}

// Parts of register_cudnn().
void register_cudnn_attention();
void register_cudnn_conv();

}  // namespace ingot::kernels::cuda
