// x[...] and x[...] = value, as NumPy's basic indexing has them, and index arrays along the first axis.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "bindings.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/host_memory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot::python {
namespace {

bool takes_an_axis(nb::handle item) { return !item.is_none() && item.ptr() != Py_Ellipsis; }

[[noreturn]] void refuse(nb::handle item) {
  throw nb::index_error(
      ("a tensor takes integers, slices, None, ... and, alone, a list or tensor of integers; not " +
       nb::cast<std::string>(nb::repr(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(item.ptr()))))) +
       ". For a mask use ingot.where()")
          .c_str());
}

// Backwards it is a copy, as strides go forward.
Tensor slice_axis(const Tensor& x, int axis, nb::handle item, bool writes) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(item.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
  if (step < 0 && writes) throw nb::index_error("a slice that is written to has to have a positive step");
  const Py_ssize_t length = PySlice_AdjustIndices(x.dim(axis), &start, &stop, step);
  if (length <= 0) return narrow(x, axis, 0, 0);
  if (step > 0) return slice(x, axis, start, stop, step);
  std::vector<std::int64_t> places(static_cast<std::size_t>(length));
  for (Py_ssize_t i = 0; i < length; ++i) places[static_cast<std::size_t>(i)] = start + i * step;
  return index_select(x, axis, to(Tensor::from(places, {length}), x.device()));
}

Tensor view_at(const Tensor& x, const std::vector<nb::object>& items, bool writes) {
  std::size_t given = 0;
  for (const nb::object& item : items) given += takes_an_axis(item) ? 1 : 0;
  if (given > static_cast<std::size_t>(x.rank())) {
    throw nb::index_error(
        ("too many indices: " + std::to_string(given) + " for " + std::to_string(x.rank()) + " axes")
            .c_str());
  }
  Tensor result = x;
  int axis = 0;
  for (const nb::object& item : items) {
    if (item.is_none()) {
      result = unsqueeze(result, axis++);
    } else if (item.ptr() == Py_Ellipsis) {
      axis += x.rank() - static_cast<int>(given);
    } else if (PySlice_Check(item.ptr())) {
      result = slice_axis(result, axis++, item, writes);
    } else if (nb::isinstance<nb::int_>(item) && !nb::isinstance<nb::bool_>(item)) {
      const std::int64_t size = result.dim(axis);
      std::int64_t index = 0;
      const bool fits = nb::try_cast(item, index);
      if (!fits || index < -size || index >= size) {
        const std::string given = fits ? std::to_string(index) : "of more than 64 bits";
        throw nb::index_error(("index " + given + " is out of range for axis " + std::to_string(axis) +
                               " of size " + std::to_string(size))
                                  .c_str());
      }
      result = select(result, axis, index < 0 ? index + size : index);
    } else {
      refuse(item);
    }
  }
  return result;
}

std::vector<nb::object> items_of(nb::handle index) {
  std::vector<nb::object> items;
  if (nb::isinstance<nb::tuple>(index)) {
    for (const nb::handle item : nb::borrow<nb::tuple>(index)) items.push_back(nb::borrow(item));
  } else {
    items.push_back(nb::borrow(index));
  }
  return items;
}

// Negative rows count from the end, as NumPy's do. Those of a GPU are not read to find them.
Tensor from_front(const Tensor& rows, std::int64_t size) {
  if (!has_host_memory(rows.device())) return rows;
  const Tensor wide = contiguous(to(rows, DType::i64));
  const std::span given(wide.data<std::int64_t>(), static_cast<std::size_t>(wide.numel()));
  if (std::ranges::none_of(given, [](std::int64_t row) { return row < 0; })) return rows;
  std::vector<std::int64_t> places(given.begin(), given.end());
  for (std::int64_t& row : places)
    if (row < 0) row += size;
  return Tensor::from(places, wide.shape());
}

Tensor get_item(const Tensor& x, nb::handle index) {
  if (nb::isinstance<Tensor>(index)) {
    const auto& given = nb::cast<const Tensor&>(index);
    if (!is_integer(given.dtype()) || x.rank() == 0) refuse(index);
    const Tensor rows = from_front(given, x.dim(0));
    if (rows.rank() == 1) return index_select(x, 0, rows);
    const Tensor flat = index_select(x, 0, reshape(rows, {-1}));
    std::vector<std::int64_t> shape = rows.shape().to_vector();
    const std::span<const std::int64_t> rest = x.dims().subspan(1);
    shape.insert(shape.end(), rest.begin(), rest.end());
    return reshape(flat, Shape(shape));
  }
  if (nb::isinstance<nb::list>(index)) {
    if (x.rank() == 0) refuse(index);
    const auto given = nb::cast<std::vector<std::int64_t>>(index);
    const Tensor rows = Tensor::from(given, {static_cast<std::int64_t>(given.size())});
    return index_select(x, 0, to(from_front(rows, x.dim(0)), x.device()));
  }
  return view_at(x, items_of(index), false);
}

void set_item(const Tensor& x, nb::handle index, nb::handle value) {
  if (x.requires_grad() && grad_enabled()) {
    throw nb::type_error(
        "writing into a tensor that requires a gradient: do it under ingot.no_grad(), or on a .detach()");
  }
  const Tensor target = view_at(x.detach(), items_of(index), true);
  if (nb::isinstance<Tensor>(value)) {
    const auto& source = nb::cast<const Tensor&>(value);
    copy_(target,
          source.shape() == target.shape() ? source : contiguous(broadcast_to(source, target.shape())));
  } else {
    fill_(target, nb::cast<double>(value));
  }
}

}  // namespace

void bind_tensor_index(nb::class_<Tensor>& type) {
  type.def("__getitem__", get_item, "index"_a.none());
  type.def("__setitem__", set_item, "index"_a.none(), "value"_a);
}

}  // namespace ingot::python
