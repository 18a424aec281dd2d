// Operations as functions of the package, with PyTorch's names where it has them; ingot/_tensor.py makes
// methods of those that are methods there.
#include <algorithm>
#include <map>
#include <optional>
#include <variant>

#include "bindings.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/pad.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"
#include "ingot/ops/weighted_roll.h"

namespace ingot::python {
namespace {

using Unary = Tensor (*)(const Tensor&);

// A function of the package that is a method of tensors too.
struct FunctionAndMethod {
  nb::module_& module;
  nb::class_<Tensor>& type;
  template <class F, class... Extra>
  void def(const char* name, const F& f, const nb::arg& x, const Extra&... extra) {
    module.def(name, f, x, extra...);
    type.def(name, f, extra...);
  }
};

// One size may be -1: what is left.
Tensor reshaped(const Tensor& x, std::vector<std::int64_t> sizes) {
  std::int64_t known = 1;
  std::size_t open = sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != -1) {
      known *= sizes[i];
    } else if (open == sizes.size()) {
      open = i;
    } else {
      throw DimensionMismatch("reshape: only one size may be -1");
    }
  }
  if (open < sizes.size()) sizes[open] = known == 0 ? 0 : x.numel() / known;
  return reshape(x, Shape(sizes));
}

Tensor padded(Tensor x, const std::vector<std::int64_t>& pad, const std::string& mode) {
  const std::map<std::string, PadMode> modes{
      {"constant", PadMode::zeros}, {"circular", PadMode::circular}, {"replicate", PadMode::edge}};
  const auto found = modes.find(mode);
  if (found == modes.end())
    throw InvalidConfig("mode", "'" + mode + "' is none of constant, circular, replicate");
  if (pad.size() % 2 != 0 || pad.size() > 2 * static_cast<std::size_t>(x.rank()))
    throw DimensionMismatch("pad: " + std::to_string(pad.size()) + " sizes for " + std::to_string(x.rank()) +
                            " axes; give (before, after) of the last axes");
  for (std::size_t i = 0; i < pad.size(); i += 2)
    x = ingot::pad(x, -1 - static_cast<int>(i / 2), pad[i], pad[i + 1], found->second);
  return x;
}

// Parts of an axis of `size` elements each, the last one of what is left.
std::vector<Tensor> split_evenly(const Tensor& x, std::int64_t size, int dim) {
  std::vector<std::int64_t> all;
  const std::int64_t total = x.dim(normalize_axis(dim, x.rank(), "split"));
  for (std::int64_t at = 0; at < total; at += size) all.push_back(std::min(size, total - at));
  return split(x, all, dim);
}

std::vector<Tensor> chunked(const Tensor& x, std::int64_t chunks, int dim) {
  if (chunks < 1) throw InvalidConfig("chunks", "has to be at least 1");
  const std::int64_t total = x.dim(normalize_axis(dim, x.rank(), "chunk"));
  return total == 0 ? chunk(x, chunks, dim) : split_evenly(x, (total - 1) / chunks + 1, dim);
}

using OneOrMore = std::variant<std::int64_t, std::vector<std::int64_t>>;

std::vector<std::int64_t> list_of(const OneOrMore& value) {
  if (const auto* one = std::get_if<std::int64_t>(&value)) return {*one};
  return std::get<std::vector<std::int64_t>>(value);
}

Tensor rolled(Tensor x, const OneOrMore& shifts, const std::optional<OneOrMore>& dims) {
  const std::vector<std::int64_t> by = list_of(shifts), along = dims ? list_of(*dims) : by;
  if (by.size() != along.size() || by.empty())
    throw DimensionMismatch("roll: " + std::to_string(by.size()) + " shifts for " +
                            std::to_string(along.size()) + " dims; give one shift for each");
  if (!dims) {
    if (by.size() > 1) throw DimensionMismatch("roll: several shifts need dims, one for each");
    return reshape(roll(reshape(x, {x.numel()}), by[0], 0), x.shape());
  }
  for (std::size_t i = 0; i < by.size(); ++i) x = roll(x, by[i], static_cast<int>(along[i]));
  return x;
}

Axes axes_of(nb::handle dim) {
  if (dim.is_none()) return {};
  if (nb::isinstance<nb::int_>(dim)) return {nb::cast<int>(dim)};
  return nb::cast<std::vector<int>>(dim);
}

void bind_unary(FunctionAndMethod m) {
  struct Named {
    const char* name;
    Unary op;
    const char* doc;
  };
  const Named all[] = {
      {"exp", exp, "eˣ of each element. Any shape, floating dtypes; records a gradient."},
      {"log", log, "Natural logarithm: NaN below 0, -inf at 0. Any shape, floating dtypes."},
      {"sqrt", sqrt, "Square root: NaN below 0. Any shape, floating dtypes."},
      {"rsqrt", rsqrt, "1 / sqrt(x). Any shape, floating dtypes."},
      {"square", square, "x². Any shape, floating dtypes."},
      {"reciprocal", reciprocal, "1 / x. Any shape, floating dtypes."},
      {"sin", sin, "Sine of radians. Any shape, floating dtypes."},
      {"cos", cos, "Cosine of radians. Any shape, floating dtypes."},
      {"sigmoid", sigmoid, "1 / (1 + e⁻ˣ). Any shape, floating dtypes."},
      {"tanh", tanh, "Hyperbolic tangent. Any shape, floating dtypes."},
      {"relu", relu, "max(x, 0). Any shape, floating dtypes."},
      {"silu", silu, "x · sigmoid(x), also called swish. Any shape, floating dtypes."},
      {"mish", mish, "x · tanh(softplus(x)). Any shape, floating dtypes."},
      {"softplus", softplus, "log(1 + eˣ). Any shape, floating dtypes."},
      {"erf", erf, "Error function. Any shape, floating dtypes."},
      {"floor", floor, "The largest whole number not above x. Any shape, floating dtypes; no gradient."},
      {"ceil", ceil, "The smallest whole number not below x. Any shape, floating dtypes; no gradient."},
      {"round", round,
       "The nearest whole number, of two the even one. Any shape, floating dtypes; no gradient."},
      {"sign", sign, "-1, 0 or 1. Any shape, floating dtypes; no gradient."},
      {"abs", abs, "|x|. Any shape, floating dtypes."},
      {"neg", neg, "-x. Any shape."}};
  for (const Named& one : all) {
    m.def(
        one.name, [op = one.op](const Tensor& x) { return op(x); }, "x"_a, ReleaseGil(), one.doc);
  }
  m.def(
      "gelu",
      [](const Tensor& x, const std::string& approximate) {
        if (approximate == "none") return gelu_erf(x);
        if (approximate == "tanh") return gelu_tanh(x);
        throw InvalidConfig("approximate", "'" + approximate + "' is none of none, tanh");
      },
      "x"_a, "approximate"_a = "none", ReleaseGil(),
      "x · Φ(x), with the normal distribution's Φ exactly (``approximate='none'``) or by ``'tanh'``. Any "
      "shape, floating dtypes.");
  m.def("leaky_relu", leaky_relu, "x"_a, "negative_slope"_a = 0.01, ReleaseGil(),
        "x, below 0 times ``negative_slope``. Any shape, floating dtypes.");
  m.def("elu", elu, "x"_a, "alpha"_a = 1.0, ReleaseGil(),
        "x, below 0 ``alpha`` · (eˣ - 1). Any shape, floating dtypes.");
  m.def("pow", static_cast<Tensor (*)(const Tensor&, double)>(pow), "x"_a, "exponent"_a, ReleaseGil(),
        "x to the power of a number. Any shape, floating dtypes.");
  m.def(
      "clamp", [](const Tensor& x, double low, double high) { return clamp(x, low, high); }, "x"_a, "min"_a,
      "max"_a, ReleaseGil(), "x, no less than ``min`` and no more than ``max``. Any shape, floating dtypes.");
}

void bind_binary(FunctionAndMethod m) {
  m.def("maximum", static_cast<Tensor (*)(const Tensor&, const Tensor&)>(maximum), "a"_a, "b"_a, ReleaseGil(),
        "The larger of each pair; shapes broadcast, dtypes are equal. ShapeMismatch where they do not fit.");
  m.def("minimum", static_cast<Tensor (*)(const Tensor&, const Tensor&)>(minimum), "a"_a, "b"_a, ReleaseGil(),
        "The smaller of each pair; shapes broadcast, dtypes are equal. ShapeMismatch where they do not fit.");
  m.module.def("where", static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&)>(where),
               "condition"_a, "a"_a, "b"_a, ReleaseGil(),
               "``a`` where the condition (bool) holds, else ``b``; the shapes of all three broadcast.");
  m.module.def("silu_mul", silu_mul, "gate"_a, "up"_a, ReleaseGil(),
               "silu(gate) · up, of one shape (SwiGLU). Floating dtypes.");
  m.def("matmul", matmul, "a"_a, "b"_a, ReleaseGil(),
        "NumPy's matmul: over the last two axes, the others broadcast.");
  m.module.def(
      "linear",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
        return linear(x, weight, or_undefined(bias));
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), ReleaseGil(),
      "``x @ weight.T + bias``. x: [..., in]; weight: [out, in]; bias: [out].");
}

template <class F>
void bind_reduction(FunctionAndMethod& m, const char* name, const char* doc, F op) {
  m.def(
      name,
      [op](const Tensor& x, nb::handle dim, bool keepdim) {
        const Axes axes = axes_of(dim);
        const ReleasedGil release;
        return op(x, axes, keepdim);
      },
      "x"_a, "dim"_a = nb::none(), "keepdim"_a = false, doc);
}

void bind_reductions(FunctionAndMethod m) {
  bind_reduction(
      m, "sum",
      "Sums over axes (``dim``: one, several, or all), which go, or stay with size 1 (``keepdim``).",
      [](const Tensor& x, const Axes& axes, bool keep) { return sum(x, axes, keep); });
  bind_reduction(
      m, "mean",
      "Means over axes (``dim``: one, several, or all), which go, or stay with size 1 (``keepdim``).",
      [](const Tensor& x, const Axes& axes, bool keep) { return mean(x, axes, keep); });
  bind_reduction(
      m, "amax",
      "The largest over axes (``dim``: one, several, or all), which go, or stay with size 1 (``keepdim``).",
      [](const Tensor& x, const Axes& axes, bool keep) { return max(x, axes, keep); });
  bind_reduction(
      m, "amin",
      "The smallest over axes (``dim``: one, several, or all), which go, or stay with size 1 (``keepdim``).",
      [](const Tensor& x, const Axes& axes, bool keep) { return min(x, axes, keep); });
  m.def(
      "var",
      [](const Tensor& x, nb::handle dim, double correction, bool keepdim) {
        const Axes axes = axes_of(dim);
        const ReleasedGil release;
        return var(x, axes, correction, keepdim);
      },
      "x"_a, "dim"_a = nb::none(), "correction"_a = 1.0, "keepdim"_a = false,
      "Variances over axes: squares of deviations, summed and divided by their number less ``correction``.");
  m.def("logsumexp", logsumexp, "x"_a, "dim"_a = -1, "keepdim"_a = false, ReleaseGil(),
        "log of the sum of eˣ along an axis, without overflow.");
  m.def(
      "argmax",
      [](const Tensor& x, const std::optional<int>& dim, bool keepdim) {
        return dim ? argmax(x, *dim, keepdim) : argmax(reshape(x, {-1}), 0, keepdim);
      },
      "x"_a, "dim"_a = nb::none(), "keepdim"_a = false, ReleaseGil(),
      "The index of the largest along an axis, or of all elements in a row; the first of equals. int64.");
  const auto on_axis = [](Unary op) {
    return [op](const Tensor& x, int dim) {
      const int last = x.rank() - 1;
      const int axis = normalize_axis(dim, x.rank(), "softmax");
      return axis == last ? op(x) : transpose(op(transpose(x, axis, last)), axis, last);
    };
  };
  m.def("softmax", on_axis(softmax), "x"_a, "dim"_a = -1, ReleaseGil(),
        "eˣ divided by its sum along an axis.");
  m.def("log_softmax", on_axis(log_softmax), "x"_a, "dim"_a = -1, ReleaseGil(),
        "Logarithm of softmax along an axis.");
  m.def(
      "topk",
      [](const Tensor& x, std::int64_t k) {
        const TopK best = topk(x, k);
        return std::pair(best.values, best.indices);
      },
      "x"_a, "k"_a, ReleaseGil(), "The k largest of the last axis, largest first: (values, indices).");
}

void bind_views(FunctionAndMethod m) {
  const auto method = [](const Tensor& x, const nb::args& shape) { return reshaped(x, sizes_of(shape)); };
  for (const char* name : {"reshape", "view"})
    m.type.def(name, method,
               "A view of other sizes, one of which may be -1; a copy where strides ask for it.");
  m.module.def("reshape", reshaped, "x"_a, "shape"_a,
               "A view of other sizes, one of which may be -1; a copy where strides ask for it.");
  m.def("flatten", flatten, "x"_a, "start_dim"_a = 0, "end_dim"_a = -1,
        "Axes from the first to the last named as one.");
  m.def("transpose", transpose, "x"_a, "dim0"_a, "dim1"_a, "A view with two axes exchanged.");
  m.module.def("permute", permute, "x"_a, "dims"_a, "A view with the axes in another order.");
  m.type.def(
      "permute",
      [](const Tensor& x, const nb::args& dims) {
        const std::vector<std::int64_t> order = sizes_of(dims);
        return permute(x, std::vector<int>(order.begin(), order.end()));
      },
      "A view with the axes in another order.");
  m.type.def_prop_ro(
      "T",
      [](const Tensor& x) {
        if (x.rank() != 2)
          throw DimensionMismatch(".T needs 2 axes, not " + std::to_string(x.rank()) +
                                  ": use transpose() or permute()");
        return transpose(x, 0, 1);
      },
      "The transpose of a matrix, a view. DimensionMismatch for another number of axes.");
  m.type.def(
      "expand",
      [](const Tensor& x, const nb::args& shape) {
        std::vector<std::int64_t> sizes = sizes_of(shape);
        const std::size_t in_front =
            sizes.size() - std::min(sizes.size(), static_cast<std::size_t>(x.rank()));
        for (std::size_t i = in_front; i < sizes.size(); ++i) {
          if (sizes[i] == -1) sizes[i] = x.dim(static_cast<int>(i - in_front));
        }
        return broadcast_to(x, Shape(sizes));
      },
      "Axes of size 1 repeated; -1 keeps a size.");
  m.def("squeeze", squeeze, "x"_a, "dim"_a, "A view without an axis of size 1.");
  m.def("unsqueeze", unsqueeze, "x"_a, "dim"_a, "A view with an axis of size 1 more.");
  m.def(
      "broadcast_to",
      [](const Tensor& x, const std::vector<std::int64_t>& shape) { return broadcast_to(x, Shape(shape)); },
      "x"_a, "shape"_a, "A view of a shape that x's broadcasts to. ShapeMismatch where it does not.");
  m.def("narrow", narrow, "x"_a, "dim"_a, "start"_a, "length"_a,
        "A view of ``length`` positions of an axis from ``start`` on.");
  m.def(
      "split",
      [](const Tensor& x, nb::handle sizes, int dim) {
        if (!nb::isinstance<nb::int_>(sizes))
          return split(x, nb::cast<std::vector<std::int64_t>>(sizes), dim);
        const auto size = nb::cast<std::int64_t>(sizes);
        if (size < 1) throw InvalidConfig("split_size", "has to be at least 1");
        return split_evenly(x, size, dim);
      },
      "x"_a, "split_size"_a, "dim"_a = 0,
      "Views of parts of an axis: all of one size but for the last, or of the sizes given.");
  m.def("chunk", chunked, "x"_a, "chunks"_a, "dim"_a = 0,
        "Views of at most so many parts of an axis: all of one size but for the last, which may be smaller.");
  m.def("select", select, "x"_a, "dim"_a, "index"_a, "A view of one index of an axis, which goes away.");
  m.def("roll", rolled, "x"_a, "shifts"_a, "dims"_a = nb::none(), ReleaseGil(),
        "x moved on by ``shifts`` positions along ``dims``; what leaves at the end comes back at the front. "
        "Without dims x is rolled as if it were flat.");
  m.module.def(
      "pad", padded, "x"_a, "pad"_a, "mode"_a = "constant", ReleaseGil(),
      "x with more elements around it. pad: (before, after) of the last axis, then of the one before it, "
      "and so on; mode: constant (zeros), circular or replicate.");
  m.module.def(
      "cat", [](const std::vector<Tensor>& tensors, int dim) { return concat(tensors, dim); }, "tensors"_a,
      "dim"_a = 0, ReleaseGil(), "Concatenates tensors along an axis; the other sizes are equal.");
  m.module.def(
      "stack", [](const std::vector<Tensor>& tensors, int dim) { return stack(tensors, dim); }, "tensors"_a,
      "dim"_a = 0, ReleaseGil(), "Tensors of equal shape along a new axis.");
}

void bind_indexing(FunctionAndMethod m) {
  m.module.def(
      "embedding", [](const Tensor& ids, const Tensor& weight) { return embedding(weight, ids); }, "ids"_a,
      "weight"_a, ReleaseGil(), "weight[ids]: ids [...], weight [rows, d] -> [..., d].");
  m.def("gather", gather, "x"_a, "dim"_a, "index"_a, ReleaseGil(),
        "The elements of x that ``index`` (int64) names along an axis, as PyTorch's.");
  m.def("scatter_add", scatter_add, "x"_a, "dim"_a, "index"_a, "source"_a, ReleaseGil(),
        "x with each element of ``source`` added where ``index`` (int64) says along an axis, as PyTorch's.");
  m.def("index_select", index_select, "x"_a, "dim"_a, "index"_a, ReleaseGil(),
        "The positions of an axis that ``index`` (whole numbers, [n]) names, in its order; a copy.");
  m.def(
      "one_hot", [](const Tensor& ids, std::int64_t classes) { return one_hot(ids, classes); }, "ids"_a,
      "num_classes"_a, ReleaseGil(),
      "1 at each id and 0 elsewhere: ids [...] -> float32 [..., num_classes].");
}

}  // namespace

void bind_ops(nb::module_& m, nb::class_<Tensor>& type) {
  const FunctionAndMethod both{m, type};
  bind_unary(both);
  bind_binary(both);
  bind_reductions(both);
  bind_views(both);
  bind_indexing(both);
}

}  // namespace ingot::python
