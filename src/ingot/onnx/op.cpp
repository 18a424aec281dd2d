#include "ingot/onnx/op.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/node_error.h"
#include "ingot/onnx/register_op.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

std::map<std::string_view, OpRow>& table() {
  static auto all = [] {
    std::map<std::string_view, OpRow> rows;
    for (const auto& family : {math_ops(),
                               logic_ops(),
                               reduce_ops(),
                               shape_ops(),
                               index_ops(),
                               create_ops(),
                               layer_ops(),
                               pool_ops(),
                               resize_ops(),
                               loss_ops(),
                               quantize_ops(),
                               recurrent_ops(),
                               einsum_ops(),
                               control_ops(),
                               vision_ops(),
                               signal_ops(),
                               attention_ops(),
                               linear_attention_ops(),
                               bit_ops(),
                               sequence_ops(),
                               text_ops(),
                               random_ops(),
                               roi_ops(),
                               tabular_ops(),
                               training_ops(),
                               fused_ops(),
                               fused_attention_ops(),
                               fused_quantized_ops()}) {
      for (const OpRow& row : family) INGOT_ASSERT(rows.emplace(row.name, row).second);
    }
    return rows;
  }();
  return all;
}

}  // namespace

void register_op(const OpRow& row) {
  INGOT_CHECK(table().emplace(row.name, row).second,
              InvalidConfig("ONNX operator", fmt::format("'{}' is there already", row.name)));
}

const OpRow* find_op(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

const OpRow* find_op(const Node& node) {
  if (node.fused != nullptr) return node.fused;
  if (node.function != nullptr) return &function_call();
  return node.domain.empty() ? find_op(node.op) : find_op(node.full_name());
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : table()) names.push_back(name);
  return names;
}

std::string OpCall::where() const { return label_of(node_); }

std::string OpCall::input_label(std::size_t i) const {
  const bool named = i < node_.inputs.size() && !node_.inputs[i].empty();
  return named ? fmt::format("{} ('{}')", i, node_.inputs[i]) : std::to_string(i);
}

void OpCall::refuse(std::string_view what) const {
  throw NotImplemented(fmt::format("{}: {}", where(), what));
}

const Value& OpCall::value_in(std::size_t i) const {
  INGOT_CHECK(has(i), FormatError(where(), -1, "input", input_label(i) + " is missing"));
  return inputs_[i];
}

const Tensor& OpCall::in(std::size_t i) const {
  const Value& value = value_in(i);
  INGOT_CHECK(!value.is_sequence(),
              FormatError(where(), -1, "input", input_label(i) + " is a sequence, expected a tensor"));
  return value.tensor;
}

const Values& OpCall::items_in(std::size_t i) const {
  const Value& value = value_in(i);
  INGOT_CHECK(value.is_sequence(),
              FormatError(where(), -1, "input", input_label(i) + " is a tensor, expected a sequence"));
  return *value.items;
}

const Tensor& OpCall::in(std::size_t i, int least, int most) const {
  const Tensor& x = in(i);
  INGOT_CHECK(x.rank() >= least && x.rank() <= most,
              DimensionMismatch(fmt::format("{}: input {} has shape {}, expected {}{} axes", where(),
                                            input_label(i), to_string(x.shape()), least,
                                            most == least      ? ""
                                            : most == kMaxRank ? " or more"
                                                               : fmt::format(" to {}", most))));
  return x;
}

std::int64_t OpCall::integer_in(std::size_t i) const {
  check_single(i);
  return integers_in(i).front();
}
double OpCall::number_in(std::size_t i) const {
  check_single(i);
  return as_doubles(in(i)).front();
}
void OpCall::check_single(std::size_t i) const {
  INGOT_CHECK(in(i).numel() == 1,
              DimensionMismatch(fmt::format("{}: input {} has shape {}, expected one number", where(),
                                            input_label(i), to_string(in(i).shape()))));
}

std::vector<std::int64_t> OpCall::integers_in(std::size_t i) const {
  const Tensor& x = in(i);
  INGOT_CHECK(is_integer(x.dtype()), FormatError(where(), -1, "input",
                                                 fmt::format("{} holds {}, expected whole numbers",
                                                             input_label(i), name(x.dtype()))));
  return contiguous(to(x, DType::i64)).to_vector<std::int64_t>();
}

const Attribute& OpCall::attribute(std::string_view name) const {
  const auto found = node_.attributes.find(name);
  INGOT_CHECK(found != node_.attributes.end(), FormatError(where(), -1, std::string(name), "is missing"));
  return found->second;
}
std::int64_t OpCall::integer(std::string_view name, std::int64_t fallback) const {
  return has_attribute(name) ? attribute(name).integer : fallback;
}
float OpCall::number(std::string_view name, float fallback) const {
  return has_attribute(name) ? attribute(name).number : fallback;
}
std::string OpCall::text(std::string_view name, const std::string& fallback) const {
  return has_attribute(name) ? attribute(name).text : fallback;
}
StoredType OpCall::stored_type(std::string_view name, std::int64_t fallback) const {
  const std::int64_t type = integer(name, fallback);
  if (type < 0 || type > INT32_MAX) refuse(fmt::format("{} {}", name, type));
  const std::optional<StoredType> found = onnx::stored_type(type);
  if (!found) refuse(fmt::format("{} {}", name, onnx_type_name(static_cast<int>(type))));
  return *found;
}
DType OpCall::dtype(std::string_view name, std::int64_t fallback) const {
  const StoredType found = stored_type(name, fallback);
  if (found.element != ElementType::plain) refuse(fmt::format("{} {}", name, name_of(found)));
  return found.dtype;
}
RngKey OpCall::random_key() const {
  constexpr std::uint64_t kStream = 0x6f6e6e78;
  if (has_attribute("seed")) return {std::bit_cast<std::uint32_t>(number("seed", 0)), kStream};
  return {state_.draws++, kStream + 1};
}
std::vector<std::int64_t> OpCall::integers(std::string_view name, std::vector<std::int64_t> fallback) const {
  return has_attribute(name) ? attribute(name).integers : fallback;
}
const Graph& OpCall::graph(std::string_view name) const {
  const Attribute& found = attribute(name);
  INGOT_CHECK(found.graph != nullptr, FormatError(where(), -1, std::string(name), "is not a graph"));
  return *found.graph;
}
Values OpCall::run(const Graph& graph, std::span<const Value> inputs) const {
  INGOT_CHECK(
      inputs.size() == graph.inputs().size(),
      FormatError(where(), -1, "graph",
                  fmt::format("takes {} inputs, but {} are given", graph.inputs().size(), inputs.size())));
  Values results = graph.run_inside(inputs, scope_, state_);
  for (Value& result : results) {
    if (result.tensor.defined()) result.tensor = to(result.tensor, kCpu);
  }
  return results;
}
Values OpCall::run_function() const {
  const Graph& function = *node_.function;
  Values inputs(inputs_.begin(), inputs_.end());
  inputs.resize(function.inputs().size());
  return function.run_inside(
      inputs, [](const std::string&) { return Value(); }, state_);
}
Values OpCall::as(std::string_view op, std::span<const Value> inputs) const {
  const OpRow* row = find_op(op);
  INGOT_ASSERT(row != nullptr);
  return row->run(OpCall(node_, inputs, opset_, scope_, state_));
}
std::vector<std::int64_t> OpCall::axes(std::size_t i, int since) const {
  if (opset_ < since) return integers("axes");
  return has(i) ? integers_in(i) : std::vector<std::int64_t>{};
}
void OpCall::take_iteration() const {
  INGOT_CHECK(--state_.iterations >= 0,
              Error(fmt::format("{}: the graph's loops take more iterations than a run may. Is there an end? "
                                "(--max-iterations allows more)",
                                where())));
}
int OpCall::axis(std::string_view name, std::int64_t fallback, int rank) const {
  return axis_of(integer(name, fallback), rank);
}
int OpCall::axis_of(std::int64_t given, int rank) const {
  INGOT_CHECK(given >= -rank && given < rank,
              DimensionMismatch(fmt::format("{}: there is no axis {} among {}", where(), given, rank)));
  return static_cast<int>(given < 0 ? given + rank : given);
}
std::vector<int> OpCall::axes_of(const std::vector<std::int64_t>& given, int rank) const {
  std::vector<int> axes;
  axes.reserve(given.size());
  for (const std::int64_t axis : given) axes.push_back(axis_of(axis, rank));
  return axes;
}

}  // namespace ingot::onnx
