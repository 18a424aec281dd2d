#include "ingot/onnx/node_error.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/onnx/element.h"

namespace ingot::onnx {
namespace {

/// An error as it is, with another message.
template <class E>
class Reworded final : public E {
 public:
  Reworded(const E& error, std::string message) : E(error), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

template <class... Errors>
[[noreturn]] void rethrow_as_one_of(const Error& error, const std::string& message) {
  const auto rethrow = [&]<class E>(const E* found) {
    if (found != nullptr) throw Reworded<E>(*found, message);
  };
  (rethrow(dynamic_cast<const Errors*>(&error)), ...);
  throw Error(message);
}

/// "'x' f32 [2, 3], 'w' f32 [4]"
std::string told_inputs(const Node& node, std::span<const Value> inputs) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min({inputs.size(), node.inputs.size(), kMost}); ++i) {
    const Value& value = inputs[i];
    if (!value.defined()) continue;
    const std::string what =
        value.is_sequence() ? fmt::format("a sequence of {}", value.items->size())
                            : fmt::format("{} {}", name_of(type_of(value)), to_string(value.tensor.shape()));
    parts.push_back(fmt::format("'{}' {}", node.inputs[i], what));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string label_of(const Node& node) {
  if (!node.name.empty()) return fmt::format("{} '{}'", node.op, node.name);
  const bool known = !node.outputs.empty() && !node.outputs[0].empty();
  return known ? fmt::format("{} (output '{}')", node.op, node.outputs[0]) : node.op;
}

void rethrow_for_node(const Error& error, const Node& node, std::span<const Value> told) {
  const std::string label = label_of(node);
  std::string message = error.what();
  if (message.find(label) == message.npos) message.insert(0, label + ": ");
  if (const std::string inputs = told_inputs(node, told); !inputs.empty())
    message += fmt::format(" (inputs: {})", inputs);
  rethrow_as_one_of<InvalidConfig, ShapeMismatch, DimensionMismatch, DeviceNotAvailable, DeviceMismatch,
                    OutOfMemory, KernelError, NotImplemented, IoError, FormatError, NonFinite>(error,
                                                                                               message);
}

void throw_out_of_memory(const Node& node) {
  throw Reworded<OutOfMemory>(OutOfMemory(label_of(node), 0, 0, 0),
                              label_of(node) + ": out of memory: needs more than there is");
}

}  // namespace ingot::onnx
