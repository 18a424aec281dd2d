#include "bindings.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"

namespace ingot::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

template <Binary op>
void bind_comparison(nb::class_<Tensor>& type, const char* name) {
  type.def(name, op, nb::is_operator(), ReleaseGil());
  type.def(
      name, [](const Tensor& a, nb::int_ b) { return op(a, scalar_like(a, b)); }, nb::is_operator());
  type.def(
      name,
      [](const Tensor& a, nb::float_ b) {
        const Tensor values = is_floating_point(a.dtype()) ? a : to(a, DType::f64);  // 3 > 2.5
        return op(values, scalar_like(values, b));
      },
      nb::is_operator());
}

Tensor in_place(Tensor& x, const Tensor& other, double alpha) {
  add_(x, other, alpha);
  return x;
}

bool whole(const Tensor& x) { return !is_floating_point(x.dtype()); }

// `a op b`, `a op number` and `number op a`. Floating tensors take numbers without making a tensor of them.
template <Binary op, class F>
void bind_pair(nb::class_<Tensor>& type, const char* name, const char* reversed, F scaled,
               F reversed_scaled) {
  type.def(name, op, nb::is_operator(), ReleaseGil());
  const auto number = [](const Tensor& a, nb::handle b) { return scalar_like(a, b); };
  for (const bool from_left : {true, false}) {
    const auto f = from_left ? scaled : reversed_scaled;
    const char* as = from_left ? name : reversed;
    type.def(
        as,
        [f, from_left, number](const Tensor& a, nb::int_ b) {
          if (!whole(a)) return f(a, nb::cast<double>(b));
          const Tensor other = number(a, b);
          return from_left ? op(a, other) : op(other, a);
        },
        nb::is_operator());
    type.def(
        as,
        [f, number](const Tensor& a, nb::float_ b) {
          if (whole(a)) number(a, b);  // says what to do
          return f(a, static_cast<double>(b));
        },
        nb::is_operator());
  }
}

using Scaled = Tensor (*)(const Tensor&, double);

}  // namespace

void bind_tensor_operators(nb::class_<Tensor>& type) {
  bind_pair<add, Scaled>(
      type, "__add__", "__radd__", [](const Tensor& x, double v) { return scale(x, 1, v); },
      [](const Tensor& x, double v) { return scale(x, 1, v); });
  bind_pair<sub, Scaled>(
      type, "__sub__", "__rsub__", [](const Tensor& x, double v) { return scale(x, 1, -v); },
      [](const Tensor& x, double v) { return scale(x, -1, v); });
  bind_pair<mul, Scaled>(
      type, "__mul__", "__rmul__", [](const Tensor& x, double v) { return scale(x, v); },
      [](const Tensor& x, double v) { return scale(x, v); });
  bind_pair<div, Scaled>(
      type, "__truediv__", "__rtruediv__", [](const Tensor& x, double v) { return scale(x, 1 / v); },
      [](const Tensor& x, double v) { return scale(reciprocal(x), v); });
  type.def("__matmul__", matmul, nb::is_operator(), ReleaseGil());
  type.def("__neg__", neg, ReleaseGil());
  type.def("__abs__", static_cast<Tensor (*)(const Tensor&)>(abs), ReleaseGil());
  type.def("__pow__", static_cast<Tensor (*)(const Tensor&, double)>(pow), nb::is_operator(), ReleaseGil());
  bind_comparison<equal>(type, "__eq__");
  bind_comparison<not_equal>(type, "__ne__");
  bind_comparison<less>(type, "__lt__");
  bind_comparison<less_equal>(type, "__le__");
  bind_comparison<greater>(type, "__gt__");
  bind_comparison<greater_equal>(type, "__ge__");
  type.def(
      "__iadd__", [](Tensor& x, const Tensor& y) { return in_place(x, y, 1); }, nb::is_operator());
  type.def(
      "__isub__", [](Tensor& x, const Tensor& y) { return in_place(x, y, -1); }, nb::is_operator());
  type.def(
      "add_", [](Tensor& x, const Tensor& y, double alpha) { return in_place(x, y, alpha); }, "other"_a,
      "alpha"_a = 1.0, "Adds ``alpha * other`` in place; not recorded.");
  type.def(
      "mul_", [](Tensor& x, const Tensor& y) { return mul_(x, y), x; }, "other"_a);
  type.def(
      "mul_", [](Tensor& x, double y) { return mul_(x, y), x; }, "other"_a);
}

}  // namespace ingot::python
