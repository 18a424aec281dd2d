#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Nodes with graphs inside, and those that call a function.

namespace ingot::onnx {
namespace {

bool is_true(const OpCall& call, const Tensor& condition) {
  INGOT_CHECK(condition.defined() && condition.numel() == 1,
              DimensionMismatch(call.where() + ": the condition has shape " + to_string(condition.shape())));
  return as_integers(condition)[0] != 0;
}

Values branch(const OpCall& call) {
  return call.run(call.graph(is_true(call, call.in(0)) ? "then_branch" : "else_branch"), {});
}

/// What a body gave in each iteration, along a new axis.
Value collected(const OpCall& call, const Values& turns, const ValueInfo& declared, int axis = 0) {
  if (!turns.empty()) {
    std::vector<Tensor> tensors;
    tensors.reserve(turns.size());
    for (const Value& turn : turns) {
      INGOT_CHECK(turn.tensor.defined(),
                  FormatError(call.where(), -1, "body", "collects what is not a tensor"));
      tensors.push_back(turn.tensor);
    }
    return {stack(tensors, axis), turns[0].type};
  }
  std::vector<std::int64_t> dims = declared.shape;
  for (const std::int64_t size : dims) {
    if (size < 0) call.refuse("no turn at all, and an output whose shape is not declared");
  }
  if (!declared.is_tensor || !declared.type) call.refuse("an output of type " + declared.stored_as);
  dims.insert(dims.begin() + axis, 0);
  return {Tensor::empty(to_shape(dims), declared.type->dtype), declared.type->element};
}

bool is_closed(const ValueInfo& declared) {
  const bool of_any_rank = declared.shape.empty() && !declared.axes.empty();
  return declared.is_tensor && declared.type && !of_any_rank &&
         std::ranges::all_of(declared.shape, [](std::int64_t size) { return size >= 0; });
}

/// What a loop collects in no iteration, where the body declares no type and shape: those of an iteration
/// that does not count.
Value nothing_of(const OpCall& call, const Values& values, const Tensor& condition, std::size_t output) {
  Values inputs{Tensor::from(std::vector<std::int64_t>{0}, {}), condition};
  inputs.insert(inputs.end(), values.begin(),
                values.begin() + static_cast<std::ptrdiff_t>(call.input_count() - 2));
  const Value made = call.run(call.graph("body"), inputs)[output];
  INGOT_CHECK(made.tensor.defined(), FormatError(call.where(), -1, "body", "collects what is not a tensor"));
  return {Tensor::empty(made.tensor.shape().insert(0, 0), made.tensor.dtype()), made.type};
}

Values loop(const OpCall& call) {
  const Graph& body = call.graph("body");
  const std::size_t carried = call.input_count() < 2 ? 0 : call.input_count() - 2;
  const std::size_t outputs = body.outputs().size();
  INGOT_CHECK(outputs > carried && body.inputs().size() == carried + 2,
              FormatError(call.where(), -1, "body", "has not the inputs and outputs of a loop's"));
  std::int64_t turns = INT64_MAX;
  if (call.has(0)) turns = call.integer_in(0);
  Tensor condition = call.has(1) ? call.in(1) : Tensor::from(std::vector<std::int64_t>{1}, {});
  Values values;
  for (std::size_t i = 0; i < carried; ++i)
    values.push_back(call.has(i + 2) ? call.value_in(i + 2) : Value());
  std::vector<Values> scans(outputs - 1 - carried);
  for (std::int64_t turn = 0; turn < turns && is_true(call, condition); ++turn) {
    call.take_iteration();
    Values inputs{Tensor::from(std::vector<std::int64_t>{turn}, {}), condition};
    inputs.insert(inputs.end(), values.begin(), values.end());
    Values made = call.run(body, inputs);
    condition = made[0].tensor;
    for (std::size_t i = 0; i < carried; ++i) values[i] = made[1 + i];
    for (std::size_t i = 0; i < scans.size(); ++i) scans[i].push_back(made[1 + carried + i]);
  }
  for (std::size_t i = 0; i < scans.size(); ++i) {
    const ValueInfo& declared = body.outputs()[1 + carried + i];
    values.push_back(scans[i].empty() && !is_closed(declared)
                         ? nothing_of(call, values, condition, 1 + carried + i)
                         : collected(call, scans[i], declared));
  }
  return values;
}

/// Element i of a list of whole numbers in an attribute; 0 where there is no list.
std::int64_t at_or_zero(const OpCall& call, std::string_view name, std::size_t i) {
  const std::vector<std::int64_t> list = call.integers(name);
  return i < list.size() ? list[i] : 0;
}

Values scan(const OpCall& call) {
  if (call.opset() < 9) call.refuse("the batches that it had before operator set 9");
  const Graph& body = call.graph("body");
  const auto count = static_cast<std::size_t>(call.integer("num_scan_inputs", 0));
  INGOT_CHECK(
      count >= 1 && count <= call.input_count() && body.outputs().size() >= call.input_count() - count,
      FormatError(call.where(), -1, "num_scan_inputs",
                  fmt::format("is {}", call.integer("num_scan_inputs", 0))));
  const std::size_t carried = call.input_count() - count, scans = body.outputs().size() - carried;
  Values values;
  for (std::size_t i = 0; i < carried; ++i) values.push_back(call.value_in(i));
  std::vector<int> axes;
  for (std::size_t i = 0; i < count; ++i) {
    const int rank = call.in(carried + i).rank();
    axes.push_back(call.axis_of(at_or_zero(call, "scan_input_axes", i), rank));
  }
  const std::int64_t turns = call.in(carried).dim(axes[0]);
  std::vector<Values> made(scans);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    call.take_iteration();
    Values inputs = values;
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& x = call.in(carried + i);
      INGOT_CHECK(x.dim(axes[i]) == turns, DimensionMismatch(call.where() + ": inputs of different lengths"));
      const bool backwards = at_or_zero(call, "scan_input_directions", i) != 0;
      inputs.emplace_back(contiguous(select(x, axes[i], backwards ? turns - 1 - turn : turn)),
                          call.value_in(carried + i).type);
    }
    const Values outputs = call.run(body, inputs);
    for (std::size_t i = 0; i < carried; ++i) values[i] = outputs[i];
    for (std::size_t i = 0; i < scans; ++i) made[i].push_back(outputs[carried + i]);
  }
  for (std::size_t i = 0; i < scans; ++i) {
    if (at_or_zero(call, "scan_output_directions", i) != 0) std::ranges::reverse(made[i]);
    const ValueInfo& declared = body.outputs()[carried + i];
    const int rank = made[i].empty() ? static_cast<int>(declared.shape.size()) : made[i][0].tensor.rank();
    const int axis = call.axis_of(at_or_zero(call, "scan_output_axes", i), rank + 1);
    values.push_back(collected(call, made[i], declared, axis));
  }
  return values;
}

constexpr std::array kControlOps = {OpRow{"If", branch, 0, kOwnTypes}, OpRow{"Loop", loop, 0, kOwnTypes},
                                    OpRow{"Scan", scan, 0, kOwnTypes}};

Values called(const OpCall& call) { return call.run_function(); }

}  // namespace

const OpRow& function_call() {
  static constexpr OpRow kCall{"", called, kOnlyShapes, kOwnTypes};
  return kCall;
}

std::span<const OpRow> control_ops() { return kControlOps; }

}  // namespace ingot::onnx
