#include "ingot/kernels/cuda/libraries/cudnn.h"

#include <exception>
#include <map>
#include <mutex>
#include <unordered_map>

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/shared_library.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/sync.h"
#include "ingot/kernels/matmul_precision.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where the frontend looks for cuDNN's functions
}

namespace ingot::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

std::string find_cudnn() {
  // Environment: INGOT_CUDNN=0 | cuDNN is not used
  if (!env_flag("CUDNN").value_or(true)) return "INGOT_CUDNN=0";
  // The frontend asks for the CUDA runtime by these names, and finds it where it is open already.
  const std::array<std::string, 3> runtimes{"libcudart.so.13", "/usr/local/cuda/lib64/libcudart.so.13",
                                            "libcudart.so.12"};
  const std::array<std::string, 2> names{"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
  if (const SharedLibrary runtime(runtimes); !runtime.problem().empty()) return runtime.problem();
  SharedLibrary library(names);
  fe::cudnn_dlhandle = library.native();
  return library.problem();
}

std::string open_cudnn() {
  std::string problem = find_cudnn();
  if (!problem.empty())
    log(LogLevel::info, "ingot::cuda",
        fmt::format("attention and convolutions run on Ingot's own kernels, not on cuDNN: {}", problem));
  return problem;
}

fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    default:
      return fe::DataType_t::FLOAT;
  }
}

/// Tensor number of an operand; 0 is none.
std::int64_t uid_of(std::size_t operand) { return static_cast<std::int64_t>(operand + 1); }

template <class Tensor>
void set_layout(Tensor& tensor, const DnnOperand& operand, std::size_t number) {
  tensor.set_uid(uid_of(number))
      .set_dim({operand.sizes.begin(), operand.sizes.end()})
      .set_stride({operand.strides.begin(), operand.strides.end()})
      .set_data_type(type_of(operand.dtype));
}

// What marks engines that would give other bits in another run, or round more than the operands' dtype says.
std::vector<fe::NumericalNote_t> unwanted(const DnnOperation& operation) {
  std::vector<fe::NumericalNote_t> notes{fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                         fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (is_deterministic()) notes.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  const bool exact = operation.operands().front().dtype == DType::f32;
  if (exact && matmul_precision() == MatmulPrecision::highest)
    notes.push_back(fe::NumericalNote_t::TENSOR_CORE);  // TF32
  return notes;
}

}  // namespace

bool is_deterministic() {
  // Environment: INGOT_DETERMINISTIC=0 | on a GPU, sums of attention's gradients may be added in any order,
  // which is faster
  static const bool value = env_flag("DETERMINISTIC").value_or(true);
  return value;
}

const std::string& cudnn_problem() {
  static const std::string problem = open_cudnn();
  return problem;
}

DnnTensor DnnOperation::input(DnnGraph& graph, std::size_t number) const {
  fe::graph::Tensor_attributes tensor;
  set_layout(tensor, operands_[number], number);
  return graph.tensor(tensor);
}

void DnnOperation::output(const DnnTensor& result, std::size_t number) const {
  set_layout(result->set_output(true), operands_[number], number);
}

struct DnnDevice::Plans {
  struct Plan {
    DnnGraph graph;
    std::string problem;
    std::int64_t workspace = 0;  // bytes
  };
  using Key = std::pair<std::string, std::vector<std::int64_t>>;

  cudnnHandle_t handle = nullptr;  // kept to the end: the driver may be gone before static objects are
  std::string not_started;         // why there is no handle
  std::shared_ptr<fe::DeviceProperties> description;
  bool only_tensor_cores = false;
  int index = 0, architecture = 0;
  std::size_t memory = 0;  // of the device
  std::mutex mutex;
  std::map<Key, Plan> plans;

  /// With the lock held, and with the device chosen where there is one.
  Plan& plan(const DnnOperation& operation) {
    const auto [entry, missing] = plans.try_emplace(key_of(operation));
    Plan& plan = entry->second;
    if (!missing) return plan;
    plan.problem = not_started;
    if (!plan.problem.empty()) return plan;
    plan.problem = attempt(operation, plan);
    if (handle != nullptr && !plan.problem.empty())
      log(LogLevel::info, "ingot::cuda", fmt::format("no plan for {}: {}", text_of(operation), plan.problem));
    return plan;
  }

 private:
  std::string attempt(const DnnOperation& operation, Plan& plan) const {
    try {
      return find(operation, plan);
    } catch (const std::exception& error) {  // the frontend throws where a library lacks a function
      return error.what();
    }
  }

  // "attention_backward of bf16 [2, 32, 4096, 128]": its first operand.
  static std::string text_of(const DnnOperation& operation) {
    const DnnOperand& first = operation.operands().front();
    return fmt::format("{} of {} [{}]", operation.name(), ingot::name(first.dtype),
                       fmt::join(first.sizes, ", "));
  }

  static Key key_of(const DnnOperation& operation) {
    Key key{operation.name(), operation.settings()};
    key.second.push_back(static_cast<std::int64_t>(matmul_precision()));
    for (const DnnOperand& operand : operation.operands()) {
      key.second.push_back(operand.data == nullptr ? -1 : static_cast<std::int64_t>(operand.dtype));
      key.second.insert(key.second.end(), operand.sizes.begin(), operand.sizes.end());
      key.second.insert(key.second.end(), operand.strides.begin(), operand.strides.end());
    }
    return key;
  }

  // Of the device's memory, at most. What goes beyond it takes far more than our own kernels: attention's
  // gradients in a fixed order keep a number of 16 bits for every pair of a query and a key of all heads.
  static constexpr std::size_t kWorkspaceShare = 32;

  // cuDNN's steps from a graph to what runs; the first that fails says why.
  std::string find(const DnnOperation& operation, Plan& plan) const {
    DnnGraph& graph = plan.graph;
    graph.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    graph.set_sm_version(architecture);  // but not their number: it asks for engines that leave some free
    if (description != nullptr) graph.set_device_properties(description);
    operation.describe(graph);
    fe::error_t result = graph.validate();
    if (result.is_good())
      result = handle != nullptr ? graph.build_operation_graph(handle) : graph.build_operation_graph();
    if (result.is_good())
      result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (result.is_good()) {
      graph.deselect_numeric_notes(unwanted(operation));
      if (only_tensor_cores) graph.select_numeric_notes({fe::NumericalNote_t::TENSOR_CORE});
      graph.deselect_workspace_greater_than(static_cast<std::int64_t>(memory / kWorkspaceShare));
      result = graph.check_support();
    }
    if (result.is_good() && handle != nullptr) result = graph.build_plans();
    if (result.is_good() && handle != nullptr) result = graph.get_workspace_size(plan.workspace);
    return result.is_good() ? "" : "cuDNN: " + result.get_message();
  }
};

DnnDevice::DnnDevice(int index) : plans_(std::make_unique<Plans>()) {
  driver::use(index);
  const driver::DeviceProperties properties = driver::properties(index);
  plans_->architecture = 10 * properties.major + properties.minor;
  plans_->index = index;
  plans_->memory = properties.memory;
  const cudnnStatus_t status = fe::detail::create_handle(&plans_->handle);
  if (status == CUDNN_STATUS_SUCCESS) return;
  plans_->not_started = fmt::format("cuDNN did not start: {}", fe::detail::get_error_string(status));
  log(LogLevel::warn, "ingot::cuda",
      plans_->not_started + "; attention and convolutions run on Ingot's own kernels");
}

DnnDevice::DnnDevice(const DnnDescription& description) : plans_(std::make_unique<Plans>()) {
  plans_->architecture = description.architecture;
  plans_->memory = description.memory;
  plans_->only_tensor_cores = description.only_tensor_cores;
  plans_->description = std::make_shared<fe::DeviceProperties>();
  const std::string& json = description.json;
  fe::error_t result = plans_->description->deserialize({json.begin(), json.end()});
  INGOT_CHECK(result.is_good(), KernelError("cudnn", result.get_message()));
}

DnnDevice::~DnnDevice() = default;

const std::string& DnnDevice::problem(const DnnOperation& operation) {
  if (plans_->handle != nullptr) driver::use(plans_->index);
  const std::lock_guard lock(plans_->mutex);
  return plans_->plan(operation).problem;
}

void DnnDevice::run(const DnnOperation& operation, Stream stream) {
  INGOT_ASSERT(plans_->handle != nullptr);
  driver::use(stream.device.index);
  std::unordered_map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < operation.operands().size(); ++i)
    if (void* data = operation.operands()[i].data; data != nullptr) memory[uid_of(i)] = data;
  const std::lock_guard lock(plans_->mutex);
  Plans::Plan& plan = plans_->plan(operation);
  // The allocator gives the memory on only within this stream, whose work comes after the operation.
  const StreamGuard guard(stream);
  const Tensor workspace = Tensor::empty({plan.workspace}, DType::u8, stream.device);
  const cudnnStatus_t put = fe::detail::set_stream(plans_->handle, static_cast<cudaStream_t>(stream.native));
  INGOT_CHECK(put == CUDNN_STATUS_SUCCESS,
              KernelError(operation.name(), std::string("cuDNN: ") + fe::detail::get_error_string(put)));
  fe::error_t result = plan.graph.execute(plans_->handle, memory, workspace.view().data);
  INGOT_CHECK(result.is_good(), KernelError(operation.name(), "cuDNN: " + result.get_message()));
  wait_after_launch(operation.name(), stream);
}

DnnDevice& dnn_device(Device device) {
  static std::mutex mutex;
  // Kept to the end: cuDNN's own libraries, loaded after this object was made, are taken down before it is.
  static auto& made = *new std::map<int, std::unique_ptr<DnnDevice>>;
  const std::lock_guard lock(mutex);
  auto& found = made[device.index];
  if (found == nullptr) found = std::make_unique<DnnDevice>(device.index);
  return *found;
}

void register_cudnn() {
  register_cudnn_attention();
  register_cudnn_conv();
}

}  // namespace ingot::kernels::cuda
