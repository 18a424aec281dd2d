#include "ingot/autograd/provenance.h"

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/reduce.h"

namespace ingot {
namespace {

std::atomic<int> recorders{0}, value_recorders{0};

// Chains end somewhere: a state that each step makes from the last one's would never be let go.
constexpr int kLongestChain = 256;

std::mutex list_mutex;
std::vector<std::shared_ptr<const Origin>> listed;
std::atomic<bool> listing{false};
std::atomic<std::int64_t> last_number{0};

struct Linked : Origin {
  int length = 1;
};

std::shared_ptr<const Origin> without_inputs(const Origin& origin) {
  auto copy = std::make_shared<Origin>(origin);
  copy->inputs.clear();
  return copy;
}

// Which origin belongs to which piece of which memory. A view of other sizes is another piece.
class Origins {
 public:
  static Origins& instance() {
    // Never destroyed: the recorder of anomaly detection ends when the process does.
    static auto* origins = new Origins;
    return *origins;
  }

  void put(const Tensor& tensor, std::shared_ptr<const Linked> origin) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= sweep_at_) sweep();
    entries_[key_of(tensor)] = {tensor.storage(), std::move(origin)};
  }
  std::shared_ptr<const Linked> find(const Tensor& tensor) {
    if (!tensor.defined()) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(key_of(tensor));
    // Memory that somebody else has by now has no origin.
    return entry != entries_.end() && entry->second.storage.lock() == tensor.storage() ? entry->second.origin
                                                                                       : nullptr;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  using Key = std::tuple<const Storage*, const void*, std::vector<std::int64_t>>;
  struct Entry {
    std::weak_ptr<Storage> storage;
    std::shared_ptr<const Linked> origin;
  };
  static Key key_of(const Tensor& tensor) {
    return {tensor.storage().get(), tensor.view().data, tensor.shape().to_vector()};
  }
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.storage.expired(); });
    sweep_at_ = 2 * entries_.size() + 1024;
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::size_t sweep_at_ = 1024;
};

double extreme(const Tensor& x, kernels::ReduceOp op) {
  const Tensor y = Tensor::empty({1}, x.dtype(), x.device());
  View all = y.view();
  all.rank = x.rank();
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(x.rank()); ++axis) {
    all.shape[axis] = x.view().shape[axis];
    all.strides[axis] = 0;
  }
  kernels::launch(kernels::reduce, current_stream(x.device()), {.x = x.view(), .y = all, .op = op});
  return y.item();
}

std::int64_t count_nonfinite(const Tensor& tensor) {
  const Tensor result = Tensor::zeros({1}, DType::i64, tensor.device());
  kernels::launch(kernels::count_nonfinite, current_stream(tensor.device()),
                  {.x = tensor.view(), .count = result.view()});
  return static_cast<std::int64_t>(result.item());
}

std::shared_ptr<Origin> leaf(const Tensor& tensor) {
  auto origin = std::make_shared<Origin>();
  origin->shape = tensor.shape();
  origin->dtype = tensor.dtype();
  origin->values = value_range(tensor);
  return origin;
}

void record_origin(std::string_view op, std::span<const Tensor* const> inputs,
                   std::span<const Tensor> outputs) {
  Linked common;
  common.op = op;
  common.module = current_module();
  common.step = current_step();
  common.inputs.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    const std::shared_ptr<const Linked> origin = Origins::instance().find(*input);
    if (origin != nullptr) common.length = std::max(common.length, origin->length + 1);
    if (origin == nullptr && listing && input->defined()) {
      common.inputs.push_back(leaf(*input));
    } else {
      common.inputs.push_back(origin);
    }
  }
  if (common.length > kLongestChain) {
    for (auto& input : common.inputs)
      if (input != nullptr) input = without_inputs(*input);
    common.length = 2;
  }
  for (const Tensor& output : outputs) {
    if (!output.defined()) continue;
    auto origin = std::make_shared<Linked>(common);
    origin->shape = output.shape();
    origin->dtype = output.dtype();
    if (value_recorders > 0) origin->values = value_range(output);
    origin->number = ++last_number;
    if (listing) {
      const std::lock_guard lock(list_mutex);
      listed.push_back(origin);
    }
    Origins::instance().put(output, std::move(origin));
  }
}

std::string place(std::string_view op, std::string_view module) {
  if (op.empty()) return "a parameter or input";
  return module.empty() ? std::string(op) : fmt::format("{} in {}", op, module);
}

void append(std::string& text, const Origin& origin, int depth, std::size_t indent) {
  text += fmt::format("{:{}}{}{}: {}{}", "", indent, place(origin.op, origin.module),
                      origin.step == Scope::kNoNumber ? "" : fmt::format(", step {}", origin.step),
                      name(origin.dtype), to_string(origin.shape));
  if (origin.values.has_value() && origin.values->elements > 0) text += ", " + describe(*origin.values);
  text += '\n';
  if (depth <= 1) return;
  for (const auto& input : origin.inputs)
    if (input != nullptr) append(text, *input, depth - 1, indent + 2);
}

// Of what anomaly detection found: with values, and leaves for operands that no op made.
std::shared_ptr<const Origin> anomaly_origin(std::string_view op, const Tensor& tensor,
                                             std::span<const Tensor* const> inputs) {
  const auto origin = leaf(tensor);
  origin->op = op;
  origin->module = current_module();
  origin->step = current_step();
  origin->inputs.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    std::shared_ptr<const Origin> made = origin_of(*input);
    if (made == nullptr && input->defined()) made = leaf(*input);
    origin->inputs.push_back(std::move(made));
  }
  return origin;
}

// What the operands of an op were like, and how they came about.
std::string describe_inputs(std::span<const Tensor* const> inputs) {
  constexpr int kOpsUp = 3;
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (!input.defined()) continue;
    text += fmt::format("\n  input {}: {}{}", i, name(input.dtype()), to_string(input.shape()));
    if (const ValueRange range = value_range(input); range.elements > 0) text += ", " + describe(range);
    const std::shared_ptr<const Origin> origin = origin_of(input);
    if (origin == nullptr) continue;
    text += ", from\n";
    append(text, *origin, kOpsUp, 4);
    text.pop_back();
  }
  return text;
}

}  // namespace

ValueRange value_range(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating_point(tensor.dtype()) || tensor.numel() == 0) return {};
  ValueRange range{.not_finite = count_nonfinite(tensor), .elements = tensor.numel()};
  if (range.not_finite == 0) {
    range.least = extreme(tensor, kernels::ReduceOp::min);
    range.largest = extreme(tensor, kernels::ReduceOp::max);
    return range;
  }
  // Rare, and the end of a run: on the host, past what is not finite.
  const Tensor host = Tensor::empty(tensor.shape(), DType::f32, tensor.device());
  kernels::launch(kernels::copy, current_stream(tensor.device()), {.x = tensor.view(), .y = host.view()});
  bool any = false;
  for (const float value : host.to_vector<float>()) {
    if (!std::isfinite(value)) continue;
    range.least = any ? std::min<double>(range.least, value) : value;
    range.largest = any ? std::max<double>(range.largest, value) : value;
    any = true;
  }
  return range;
}

ListOrigins::ListOrigins() { listing = true; }
ListOrigins::~ListOrigins() {
  listing = false;
  take();
}
std::vector<std::shared_ptr<const Origin>> ListOrigins::take() {
  const std::lock_guard lock(list_mutex);
  return std::exchange(listed, {});
}

RecordOrigins::RecordOrigins(bool values) : values_(values) {
  ++recorders;
  if (values_) ++value_recorders;
}
RecordOrigins::~RecordOrigins() {
  if (values_) --value_recorders;
  if (--recorders == 0) Origins::instance().clear();
}

std::shared_ptr<const Origin> origin_of(const Tensor& tensor) { return Origins::instance().find(tensor); }

std::string describe(const ValueRange& range) {
  std::string text = range.not_finite < range.elements
                         ? fmt::format("{:.4g} to {:.4g}", range.least, range.largest)
                         : std::string("no finite value");
  if (range.not_finite > 0) text += fmt::format(", {} of {} not finite", range.not_finite, range.elements);
  return text;
}

std::string describe(const Origin& origin, int depth) {
  std::string text;
  append(text, origin, depth, 0);
  text.pop_back();
  return text;
}

void check_anomaly(std::string_view op, const Tensor& tensor, std::span<const Tensor* const> inputs) {
  if (!tensor.defined() || !is_floating_point(tensor.dtype())) return;
  const std::int64_t count = count_nonfinite(tensor);
  if (count == 0) return;
  throw in_lines(AnomalyFound(
      place(op, current_module()),
      fmt::format("made {} of {} values NaN or infinite{}", count, tensor.numel(), describe_inputs(inputs)),
      anomaly_origin(op, tensor, inputs)));
}

bool ops_watched() { return detect_anomaly_enabled() || recorders.load(std::memory_order_relaxed) > 0; }

void watch_op(std::string_view op, std::span<const Tensor* const> inputs, std::span<const Tensor> outputs) {
  if (recorders > 0) record_origin(op, inputs, outputs);
  if (!detect_anomaly_enabled()) return;
  for (const Tensor& output : outputs) check_anomaly(op, output, inputs);
}

}  // namespace ingot
