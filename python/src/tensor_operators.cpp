#include "bindings.h"

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"

namespace ingot::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

// Two tensors of one kind meet in the wider dtype, as the Python array API standard has it. Other pairs are
// left to the operation, which refuses them.
template <Binary op>
Tensor promoted(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return op(a, b);
  const std::optional<DType> common = common_dtype(a.dtype(), b.dtype());
  if (!common) return op(a, b);
  return op(to(a, *common), to(b, *common));
}

// Arithmetic has kernels for whole numbers of 32 and 64 bits; shorter ones go through them and wrap as they
// do.
template <Binary op>
Tensor arithmetic(const Tensor& a, const Tensor& b) {
  const std::optional<DType> common = common_dtype(a.dtype(), b.dtype());
  if (!common || !is_integer(*common) || byte_size(*common) >= byte_size(DType::i32))
    return promoted<op>(a, b);
  return to(op(to(a, DType::i32), to(b, DType::i32)), *common);
}
Tensor negative(const Tensor& x) {
  if (!is_integer(x.dtype())) return neg(x);
  const Tensor zero = Tensor::empty({}, x.dtype(), x.device());
  zero_(zero);
  return arithmetic<sub>(zero, x);
}

template <Binary op>
void bind_comparison(nb::class_<Tensor>& type, const char* name) {
  type.def(name, promoted<op>, nb::is_operator(), ReleaseGil());
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
  add_(x,
       other.dtype() == x.dtype() || common_dtype(x.dtype(), other.dtype()) != x.dtype()
           ? other
           : to(other, x.dtype()),
       alpha);
  return x;
}

// Of booleans, as whole numbers.
template <Binary op>
Tensor of_booleans(const Tensor& a, const Tensor& b) {
  for (const Tensor* x : {&a, &b}) {
    if (x->dtype() != DType::boolean) {
      throw KernelError("logical operator", std::string("takes booleans, not ") +
                                                std::string(name(x->dtype())) +
                                                ": compare first, as in (x > 0) & (y > 0)");
    }
  }
  return op(to(a, DType::i32), to(b, DType::i32));
}
Tensor logical_and(const Tensor& a, const Tensor& b) { return to(mul(a, b), DType::boolean); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return to(maximum(a, b), DType::boolean); }
Tensor invert(const Tensor& x) {
  const Tensor zero = Tensor::empty({}, DType::boolean, x.device());
  zero_(zero);
  return of_booleans<equal>(x, zero);
}

bool whole(const Tensor& x) { return !is_floating_point(x.dtype()); }

// `a op b`, `a op number` and `number op a`. Floating tensors take numbers without making a tensor of them.
template <Binary op, class F>
void bind_pair(nb::class_<Tensor>& type, const char* name, const char* reversed, F scaled,
               F reversed_scaled) {
  type.def(name, arithmetic<op>, nb::is_operator(), ReleaseGil());
  const auto number = [](const Tensor& a, nb::handle b) { return scalar_like(a, b); };
  for (const bool from_left : {true, false}) {
    const auto f = from_left ? scaled : reversed_scaled;
    const char* as = from_left ? name : reversed;
    type.def(
        as,
        [f, from_left, number](const Tensor& a, nb::int_ b) {
          if (!whole(a)) return f(a, nb::cast<double>(b));
          const Tensor other = number(a, b);
          return from_left ? arithmetic<op>(a, other) : arithmetic<op>(other, a);
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
  type.def("__neg__", negative, ReleaseGil());
  type.def("__abs__", static_cast<Tensor (*)(const Tensor&)>(abs), ReleaseGil());
  type.def("__pow__", static_cast<Tensor (*)(const Tensor&, double)>(pow), nb::is_operator(), ReleaseGil());
  type.def("__pos__", [](const Tensor& x) { return x; });
  type.def("__and__", of_booleans<logical_and>, nb::is_operator(), ReleaseGil());
  type.def("__or__", of_booleans<logical_or>, nb::is_operator(), ReleaseGil());
  type.def("__xor__", of_booleans<not_equal>, nb::is_operator(), ReleaseGil());
  type.def("__invert__", invert);
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
      "mul_", [](Tensor& x, const Tensor& y) { return mul_(x, y), x; }, "other"_a,
      "Multiplies in place; not recorded.");
  type.def(
      "mul_", [](Tensor& x, double y) { return mul_(x, y), x; }, "other"_a);
}

}  // namespace ingot::python
