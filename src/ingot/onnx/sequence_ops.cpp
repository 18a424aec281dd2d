#include <array>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Sequences, and values that may be missing: an optional is its value, or nothing.

namespace ingot::onnx {
namespace {

Value sequence_of(Values items) {
  Value sequence;
  sequence.items = std::make_shared<const Values>(std::move(items));
  return sequence;
}

/// Input i as a position among `count` elements, from the end where it is negative.
std::size_t position_in(const OpCall& call, std::size_t i, std::size_t count) {
  const std::int64_t given = call.integer_in(i), size = static_cast<std::int64_t>(count);
  INGOT_CHECK(given >= -size && given < size,
              DimensionMismatch(fmt::format("{}: position {} of {}", call.where(), given, count)));
  return static_cast<std::size_t>(given < 0 ? given + size : given);
}

Values sequence_empty(const OpCall& /*call*/) { return {sequence_of({})}; }

Values sequence_construct(const OpCall& call) {
  Values items;
  for (std::size_t i = 0; i < call.input_count(); ++i) items.push_back(call.value_in(i));
  return {sequence_of(std::move(items))};
}

Values sequence_insert(const OpCall& call) {
  Values items = call.items_in(0);
  std::size_t at = items.size();
  if (call.has(2)) {
    const std::int64_t given = call.integer_in(2), size = static_cast<std::int64_t>(items.size());
    INGOT_CHECK(given >= -size && given <= size,
                DimensionMismatch(fmt::format("{}: position {} of {}", call.where(), given, size)));
    at = static_cast<std::size_t>(given < 0 ? given + size : given);
  }
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), call.value_in(1));
  return {sequence_of(std::move(items))};
}

Values sequence_erase(const OpCall& call) {
  Values items = call.items_in(0);
  INGOT_CHECK(!items.empty(), DimensionMismatch(call.where() + ": the sequence is empty"));
  const std::size_t at = call.has(1) ? position_in(call, 1, items.size()) : items.size() - 1;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return {sequence_of(std::move(items))};
}

Values sequence_at(const OpCall& call) {
  const Values& items = call.items_in(0);
  return {items[position_in(call, 1, items.size())]};
}

Values sequence_length(const OpCall& call) {
  return {Tensor::from(std::vector<std::int64_t>{static_cast<std::int64_t>(call.items_in(0).size())}, {})};
}

/// Lengths along an axis of `size`: as the second input says, one each where it is left out.
std::vector<std::int64_t> part_sizes(const OpCall& call, std::int64_t size) {
  if (call.has(1) && call.in(1).rank() > 0) return call.integers_in(1);
  const std::int64_t each = call.has(1) ? call.integer_in(1) : 1;
  INGOT_CHECK(each > 0, FormatError(call.where(), -1, "split", fmt::format("is {}", each)));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(size / each), each);
  if (size % each != 0) sizes.push_back(size % each);
  return sizes;
}

Values split_to_sequence(const OpCall& call) {
  const Tensor& x = call.in(0, 1);
  const int axis = call.axis("axis", 0, x.rank());
  const bool keep = call.has(1) || call.integer("keepdims", 1) != 0;
  Values items;
  for (const Tensor& part : split(x, part_sizes(call, x.dim(axis)), axis))
    items.emplace_back(keep ? contiguous(part) : squeeze(part, axis), call.value_in(0).type);
  return {sequence_of(std::move(items))};
}

Values concat_from_sequence(const OpCall& call) {
  const Values& items = call.items_in(0);
  INGOT_CHECK(!items.empty(), DimensionMismatch(call.where() + ": the sequence is empty"));
  std::vector<Tensor> tensors;
  tensors.reserve(items.size());
  for (const Value& item : items) {
    INGOT_CHECK(item.tensor.defined() && item.type == items[0].type,
                FormatError(call.where(), -1, "input", "holds values of different kinds"));
    tensors.push_back(item.tensor);
  }
  const bool fresh = call.integer("new_axis", 0) != 0;
  const int axis = call.axis("axis", 0, tensors[0].rank() + (fresh ? 1 : 0));
  return {{fresh ? stack(tensors, axis) : concat(tensors, axis), items[0].type}};
}

/// A graph of the node's own for each item; inputs that are tensors are the same for all.
Values sequence_map(const OpCall& call) {
  const Graph& body = call.graph("body");
  const std::size_t count = call.items_in(0).size();
  std::vector<Values> results(body.outputs().size());
  for (std::size_t n = 0; n < count; ++n) {
    call.take_iteration();
    Values inputs;
    for (std::size_t i = 0; i < call.input_count(); ++i) {
      const Value& value = call.value_in(i);
      INGOT_CHECK(!value.is_sequence() || value.items->size() == count,
                  DimensionMismatch(call.where() + ": sequences of different lengths"));
      inputs.push_back(value.is_sequence() ? (*value.items)[n] : value);
    }
    const Values made = call.run(body, inputs);
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(made[i]);
  }
  Values sequences;
  for (Values& items : results) sequences.push_back(sequence_of(std::move(items)));
  return sequences;
}

Values optional_of(const OpCall& call) { return {call.has(0) ? call.value_in(0) : Value()}; }
Values optional_element(const OpCall& call) { return {call.value_in(0)}; }
Values has_element(const OpCall& call) {
  return {to(Tensor::scalar(call.has(0) ? 1.0F : 0.0F), DType::boolean)};
}

constexpr std::array kSequenceOps = {OpRow{"ConcatFromSequence", concat_from_sequence, 0, kOwnTypes},
                                     OpRow{"Optional", optional_of, kOnlyShapes, kOwnTypes},
                                     OpRow{"OptionalGetElement", optional_element, kOnlyShapes, kOwnTypes},
                                     OpRow{"OptionalHasElement", has_element, kOnlyShapes, kOwnTypes},
                                     OpRow{"SequenceAt", sequence_at, 0, kOwnTypes},
                                     OpRow{"SequenceConstruct", sequence_construct, 0, kOwnTypes},
                                     OpRow{"SequenceEmpty", sequence_empty, 0, kOwnTypes},
                                     OpRow{"SequenceErase", sequence_erase, 0, kOwnTypes},
                                     OpRow{"SequenceInsert", sequence_insert, 0, kOwnTypes},
                                     OpRow{"SequenceLength", sequence_length, kOnlyShapes, kOwnTypes},
                                     OpRow{"SequenceMap", sequence_map, 0, kOwnTypes},
                                     OpRow{"SplitToSequence", split_to_sequence, 0, kOwnTypes}};

}  // namespace

std::span<const OpRow> sequence_ops() { return kSequenceOps; }

}  // namespace ingot::onnx
