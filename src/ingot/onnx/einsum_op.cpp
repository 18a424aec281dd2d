#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/whole.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Einsum: operands are contracted two by two, each time as one batched matmul.

namespace ingot::onnx {
namespace {

/// A tensor whose axes have labels: letters, or -1 for the last axis of "...", -2 for the one before, ...
struct Operand {
  Tensor x;
  std::vector<int> labels;

  bool has(int label) const { return std::ranges::find(labels, label) != labels.end(); }
  int axis(int label) const { return static_cast<int>(std::ranges::find(labels, label) - labels.begin()); }
};

[[noreturn]] void fail(const OpCall& call, std::string_view problem) {
  throw FormatError(call.where(), -1, "equation", fmt::format("'{}' {}", call.text("equation", ""), problem));
}

/// `dots` is how many axes the term's "..." stands for.
std::vector<int> labels_of(const OpCall& call, std::string_view term, std::int64_t dots) {
  std::vector<int> labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (term.substr(i, 3) == "...") {
      for (std::int64_t axis = dots; axis > 0; --axis) labels.push_back(static_cast<int>(-axis));
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      fail(call, fmt::format("holds '{}'", c));
    }
  }
  return labels;
}

/// A label that an operand has twice takes its diagonal.
Operand without_repeats(const OpCall& call, Operand from) {
  Operand to;
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < from.labels.size(); ++i) {
    const std::int64_t size = from.x.dim(static_cast<int>(i));
    if (!to.has(from.labels[i])) {
      to.labels.push_back(from.labels[i]);
      dims.push_back(size);
    } else if (dims[static_cast<std::size_t>(to.axis(from.labels[i]))] != size) {
      fail(call, fmt::format("takes the diagonal of {}", to_string(from.x.shape())));
    }
  }
  if (to.labels.size() == from.labels.size()) return from;
  const std::vector<std::int64_t> strides = strides_of(from.x.shape());
  to.x = copy_from(from.x, to_shape(dims), [&](std::span<const std::int64_t> position) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < strides.size(); ++i)
      at += position[static_cast<std::size_t>(to.axis(from.labels[i]))] * strides[i];
    return at;
  });
  return to;
}

/// The axes in the order of `labels`, all of which it has.
Tensor ordered(const Operand& from, const std::vector<int>& labels) {
  std::vector<int> order;
  order.reserve(labels.size());
  for (const int label : labels) order.push_back(from.axis(label));
  return contiguous(permute(from.x, order));
}

/// Sums over the labels that nobody needs.
Operand reduced(Operand from, const std::set<int>& needed) {
  Axes gone;
  std::vector<int> kept;
  for (std::size_t i = 0; i < from.labels.size(); ++i) {
    if (needed.contains(from.labels[i])) {
      kept.push_back(from.labels[i]);
    } else {
      gone.push_back(static_cast<int>(i));
    }
  }
  if (gone.empty()) return from;
  if (is_floating_point(from.x.dtype())) return {sum(from.x, gone), std::move(kept)};
  return {
      reduce_whole(from.x, gone, false, [](std::span<const std::int64_t> line) { return sum_whole(line); }),
      std::move(kept)};
}

/// The contraction of two operands, summed over what only they have and nobody needs.
Operand joined(Operand a, Operand b, const std::set<int>& needed) {
  std::set<int> for_a = needed, for_b = needed;
  for_a.insert(b.labels.begin(), b.labels.end());
  for_b.insert(a.labels.begin(), a.labels.end());
  a = reduced(std::move(a), for_a);
  b = reduced(std::move(b), for_b);
  std::vector<int> batch, summed, rows, cols;
  for (const int label : a.labels)
    (b.has(label) ? (needed.contains(label) ? batch : summed) : rows).push_back(label);
  for (const int label : b.labels) {
    if (!a.has(label)) cols.push_back(label);
  }
  const auto appended = [](std::vector<int> x, const std::vector<int>& y, const std::vector<int>& z) {
    x.insert(x.end(), y.begin(), y.end());
    x.insert(x.end(), z.begin(), z.end());
    return x;
  };
  std::vector<std::int64_t> dims;
  std::int64_t inner = 1;
  for (const int label : summed) inner *= a.x.dim(a.axis(label));
  const auto sizes = [&dims](const Operand& from, const std::vector<int>& labels) {
    std::int64_t product = 1;
    for (const int label : labels) {
      dims.push_back(from.x.dim(from.axis(label)));
      product *= dims.back();
    }
    return product;
  };
  const std::int64_t batches = sizes(a, batch), m = sizes(a, rows), n = sizes(b, cols);
  const Tensor left = reshape(ordered(a, appended(batch, rows, summed)), {batches, m, inner}),
               right = reshape(ordered(b, appended(batch, summed, cols)), {batches, inner, n});
  const Tensor product = is_floating_point(left.dtype()) ? matmul(left, right) : matmul_whole(left, right);
  return {reshape(product, to_shape(dims)), appended(batch, rows, cols)};
}

struct Equation {
  std::vector<Operand> operands;
  std::vector<int> output;
};

std::int64_t letters(std::string_view term) {
  return std::ranges::count_if(term, [](char c) { return c != ' ' && c != '.'; });
}

Equation parsed(const OpCall& call) {
  const std::string text = call.attribute("equation").text;
  const std::size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  std::int64_t most_dots = 0;
  std::map<int, int> uses;
  for (std::size_t i = 0;; ++i) {
    const std::size_t comma = left.find(',');
    const std::string_view term = left.substr(0, comma);
    const Tensor& x = call.in(i);
    const bool dots = term.find("...") != term.npos;
    const std::int64_t rest = x.rank() - letters(term);
    if (rest < 0 || (rest > 0 && !dots)) fail(call, fmt::format("has another rank than input {}", i));
    most_dots = std::max(most_dots, rest);
    const std::vector<int> labels = labels_of(call, term, rest);
    if (labels.size() != static_cast<std::size_t>(x.rank()))
      fail(call, fmt::format("has another rank than input {}", i));
    equation.operands.push_back(
        without_repeats(call, {is_floating_point(x.dtype()) ? x : to(x, DType::i64), labels}));
    for (const int label : labels) ++uses[label];
    if (comma == left.npos) break;
    left.remove_prefix(comma + 1);
  }
  if (equation.operands.size() != call.input_count())
    fail(call, fmt::format("is for {} inputs, not {}", equation.operands.size(), call.input_count()));
  if (arrow != text.npos) {
    equation.output = labels_of(call, std::string_view(text).substr(arrow + 2), most_dots);
  } else {  // what "..." stands for, then the letters that occur once
    equation.output = labels_of(call, "...", most_dots);
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) equation.output.push_back(label);
    }
  }
  for (const int label : equation.output) {
    if (!uses.contains(label)) fail(call, "makes an axis that no input has");
  }
  return equation;
}

/// Axes of one element that stand for more in another operand are repeated.
void broadcast(const OpCall& call, std::vector<Operand>& operands) {
  std::map<int, std::int64_t> sizes;
  for (const Operand& operand : operands) {
    for (const int label : operand.labels) {
      const std::int64_t size = operand.x.dim(operand.axis(label));
      std::int64_t& known = sizes.try_emplace(label, 1).first->second;
      if (size != 1 && known != 1 && size != known) fail(call, "has an axis of two sizes");
      if (size != 1) known = size;
    }
  }
  for (Operand& operand : operands) {
    std::vector<std::int64_t> dims;
    for (const int label : operand.labels) dims.push_back(sizes[label]);
    operand.x = broadcast_to(operand.x, to_shape(dims));
  }
}

Values einsum(const OpCall& call) {
  Equation equation = parsed(call);
  broadcast(call, equation.operands);
  const auto needed_after = [&](std::size_t next) {
    std::set<int> needed(equation.output.begin(), equation.output.end());
    for (; next < equation.operands.size(); ++next)
      needed.insert(equation.operands[next].labels.begin(), equation.operands[next].labels.end());
    return needed;
  };
  Operand result = equation.operands.front();
  for (std::size_t i = 1; i < equation.operands.size(); ++i)
    result = joined(std::move(result), equation.operands[i], needed_after(i + 1));
  result = reduced(std::move(result), needed_after(equation.operands.size()));
  return {to(ordered(result, equation.output), call.in(0).dtype())};
}

constexpr std::array kEinsumOps = {OpRow{"Einsum", einsum, kEveryInput}};

}  // namespace

std::span<const OpRow> einsum_ops() { return kEinsumOps; }

}  // namespace ingot::onnx
