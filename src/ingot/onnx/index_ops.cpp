#include <algorithm>
#include <array>
#include <cstring>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/core/host_memory.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

// Elements chosen by indices, which count from the end where they are negative.

namespace ingot::onnx {
namespace {

/// Indices into an axis of `size`, none negative; DimensionMismatch where one is outside.
std::vector<std::int64_t> checked(const OpCall& call, const Tensor& indices, std::int64_t size) {
  std::vector<std::int64_t> values = as_integers(indices);
  for (std::int64_t& i : values) {
    INGOT_CHECK(i >= -size && i < size, DimensionMismatch(call.where() + ": index " + std::to_string(i) +
                                                          " into " + std::to_string(size)));
    if (i < 0) i += size;
  }
  return values;
}

Values gather_slices(const OpCall& call) {
  const Tensor &x = call.in(0), &indices = call.in(1);
  const int axis = call.axis("axis", 0, x.rank());
  const std::vector<std::int64_t> ids = checked(call, indices, x.dim(axis));
  const auto count = static_cast<std::int64_t>(ids.size());
  const Tensor chosen = index_select_within(x, axis, Tensor::from(ids, {count}, x.device()));
  std::vector<std::int64_t> dims = x.shape().to_vector();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.dims().begin(), indices.dims().end());
  return {reshape(chosen, to_shape(dims))};
}

Values gather_elements(const OpCall& call) {
  Tensor x = call.in(0);
  const Tensor& indices = call.in(1);
  const int axis = call.axis("axis", 0, x.rank());
  INGOT_CHECK(indices.rank() == x.rank(),
              DimensionMismatch(call.where() + ": indices and data differ in rank"));
  const std::vector<std::int64_t> ids = checked(call, indices, x.dim(axis));
  for (int i = 0; i < x.rank(); ++i) {
    INGOT_CHECK(i == axis || indices.dim(i) <= x.dim(i),
                DimensionMismatch(call.where() + ": indices reach beyond the data"));
    if (i != axis) x = narrow(x, i, 0, indices.dim(i));
  }
  return {gather_within(x, axis, Tensor::from(ids, indices.shape(), x.device()))};
}

/// Row-major positions of the slices that rows of `indices` name in the axes of x from `batch` on.
std::vector<std::int64_t> nd_offsets(const OpCall& call, const Tensor& x, const Tensor& indices,
                                     std::int64_t batch, std::int64_t& slice) {
  const std::int64_t depth = indices.dim(-1);
  INGOT_CHECK(depth <= x.rank() - batch, DimensionMismatch(call.where() + ": more indices than axes"));
  const std::vector<std::int64_t> ids = as_integers(indices), strides = strides_of(x.shape());
  slice = 1;
  for (auto i = static_cast<int>(batch + depth); i < x.rank(); ++i) slice *= x.dim(i);
  std::int64_t batches = 1;
  for (int i = 0; i < static_cast<int>(batch); ++i) {
    INGOT_CHECK(indices.dim(i) == x.dim(i), DimensionMismatch(call.where() + ": the batches differ"));
    batches *= x.dim(i);
  }
  const std::int64_t rows = depth == 0 ? indices.shape().drop_last().numel() : indices.numel() / depth;
  const std::int64_t batch_size = batches == 0 ? 0 : x.numel() / batches;
  std::vector<std::int64_t> offsets;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t at = batches == 0 ? 0 : row / (rows / batches) * batch_size;
    for (std::int64_t i = 0; i < depth; ++i) {
      std::int64_t id = ids[static_cast<std::size_t>(row * depth + i)];
      const std::int64_t size = x.dim(static_cast<int>(batch + i));
      INGOT_CHECK(id >= -size && id < size,
                  DimensionMismatch(call.where() + ": an index is outside its axis"));
      at += (id < 0 ? id + size : id) * strides[static_cast<std::size_t>(batch + i)];
    }
    offsets.push_back(at);
  }
  return offsets;
}

Values gather_nd(const OpCall& call) {
  const Tensor &x = call.in(0), &indices = call.in(1, 1);
  std::int64_t slice = 1;
  const std::int64_t batch = call.integer("batch_dims", 0);
  INGOT_CHECK(batch >= 0 && batch < indices.rank(), DimensionMismatch(call.where() + ": batch_dims"));
  const std::vector<std::int64_t> offsets = nd_offsets(call, x, indices, batch, slice);
  std::vector<std::int64_t> dims = indices.shape().drop_last().to_vector();
  for (auto i = static_cast<int>(batch + indices.dim(-1)); i < x.rank(); ++i) dims.push_back(x.dim(i));
  std::int64_t next = 0;
  return {copy_from(x, to_shape(dims), [&](std::span<const std::int64_t>) {
    const std::int64_t at = offsets[static_cast<std::size_t>(next / slice)] + next % slice;
    ++next;
    return at;
  })};
}

/// Puts elements of `updates` at positions of a copy of x, as the attribute `reduction` says: as they are, or
/// combined with what is there, floats in f64.
class Writer {
 public:
  Writer(const OpCall& call, const Tensor& x, const Tensor& updates)
      : mode_(call.text("reduction", "none")), shape_(x.shape()), dtype_(x.dtype()) {
    INGOT_CHECK(updates.dtype() == x.dtype(), KernelError(call.where(), "data and updates differ in dtype"));
    if (mode_ != "none" && mode_ != "add" && mode_ != "mul" && mode_ != "max" && mode_ != "min") {
      call.refuse("reduction " + mode_);
    }
    if (mode_ == "none") {
      copy_ = clone(x);
      source_ = contiguous(updates);
    } else {
      if (is_whole()) {
        whole_ = as_integers(x);
        whole_updates_ = as_integers(updates);
      } else {
        values_ = as_doubles(x);
        updates_ = as_doubles(updates);
      }
    }
  }
  /// `count` of them, one beside the other.
  void put(std::int64_t to, std::int64_t from, std::int64_t count = 1) {
    if (mode_ == "none") {
      const std::size_t size = byte_size(dtype_);
      std::memcpy(static_cast<std::byte*>(copy_.view().data) + static_cast<std::size_t>(to) * size,
                  static_cast<const std::byte*>(source_.view().data) + static_cast<std::size_t>(from) * size,
                  static_cast<std::size_t>(count) * size);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(to + i), other = static_cast<std::size_t>(from + i);
      if (is_whole()) {
        combine(whole_[at], whole_updates_[other]);
      } else {
        combine(values_[at], updates_[other]);
      }
    }
  }
  Tensor result() const {
    if (mode_ == "none") return copy_;
    return is_whole() ? from_integers(whole_, shape_, dtype_) : from_doubles(values_, shape_, dtype_);
  }

 private:
  bool is_whole() const { return !is_floating_point(dtype_); }
  /// Whole numbers wrap.
  template <class T>
  void combine(T& value, T update) const {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, std::uint64_t>;
    if (mode_ == "add") value = static_cast<T>(static_cast<Wide>(value) + static_cast<Wide>(update));
    if (mode_ == "mul") value = static_cast<T>(static_cast<Wide>(value) * static_cast<Wide>(update));
    if (mode_ == "max") value = std::max(value, update);
    if (mode_ == "min") value = std::min(value, update);
  }

  std::string mode_;
  Shape shape_;
  DType dtype_;
  Tensor copy_, source_;
  std::vector<double> values_, updates_;
  std::vector<std::int64_t> whole_, whole_updates_;
};

Values scatter_elements(const OpCall& call) {
  const Tensor &x = call.in(0), &indices = call.in(1), &updates = call.in(2);
  const int axis = call.axis("axis", 0, x.rank());
  INGOT_CHECK(indices.shape() == updates.shape() && indices.rank() == x.rank(),
              ShapeMismatch(call.where(), indices.shape().to_vector(), updates.shape().to_vector()));
  const std::vector<std::int64_t> ids = checked(call, indices, x.dim(axis)), strides = strides_of(x.shape());
  for (int i = 0; i < x.rank(); ++i) {
    INGOT_CHECK(i == axis || indices.dim(i) <= x.dim(i),
                DimensionMismatch(call.where() + ": indices reach beyond the data"));
  }
  const std::vector<std::int64_t> index_strides = strides_of(indices.shape());
  Writer writer(call, x, updates);
  for (std::size_t n = 0; n < ids.size(); ++n) {
    auto rest = static_cast<std::int64_t>(n);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      at += (static_cast<int>(i) == axis ? ids[n] : rest / index_strides[i]) * strides[i];
      rest %= index_strides[i];
    }
    writer.put(at, static_cast<std::int64_t>(n));
  }
  return {writer.result()};
}

/// A copy of x with slices of `updates`, in their order, at the positions `offsets` of the elements: one copy
/// for those that are adjacent in both. Undefined where that would take many copies.
Tensor with_slices(const Tensor& x, const Tensor& updates, const std::vector<std::int64_t>& offsets,
                   std::int64_t slice) {
  constexpr std::size_t kMost = 64;  // launches, some µs each on a device
  struct Run {
    std::int64_t to, from, count;
  };
  std::vector<Run> runs;
  for (std::size_t row = 0; row < offsets.size(); ++row) {
    const auto from = static_cast<std::int64_t>(row) * slice;
    if (!runs.empty() && runs.back().to + runs.back().count == offsets[row]) {
      runs.back().count += slice;
    } else {
      runs.push_back({offsets[row], from, slice});
    }
    if (runs.size() > kMost) return {};
  }
  const Tensor result = clone(x);
  const Tensor to = reshape(result, Shape{x.numel()}), from = reshape(updates, Shape{updates.numel()});
  for (const Run& run : runs) copy_(narrow(to, 0, run.to, run.count), narrow(from, 0, run.from, run.count));
  return result;
}

Values scatter_nd(const OpCall& call) {
  const Tensor &x = call.in(0), &updates = call.in(2);
  std::int64_t slice = 1;
  const std::vector<std::int64_t> offsets = nd_offsets(call, x, call.in(1, 1), 0, slice);
  INGOT_CHECK(static_cast<std::int64_t>(offsets.size()) * slice == updates.numel(),
              DimensionMismatch(call.where() + ": indices and updates do not fit"));
  if (!has_host_memory(x.device()) && x.dtype() == updates.dtype() &&
      call.text("reduction", "none") == "none") {
    if (const Tensor result = with_slices(x, updates, offsets, slice); result.defined()) return {result};
  }
  Writer writer(call, to(x, kCpu), to(updates, kCpu));
  for (std::size_t row = 0; row < offsets.size(); ++row)
    writer.put(offsets[row], static_cast<std::int64_t>(row) * slice, slice);
  return {writer.result()};
}

Values non_zero(const OpCall& call) {
  const Tensor& x = call.in(0);
  const std::vector<double> values = as_doubles(x);
  const std::vector<std::int64_t> strides = strides_of(x.shape());
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) found.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::int64_t> positions;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    for (const std::int64_t at : found)
      positions.push_back(at / strides[axis] % x.dim(static_cast<int>(axis)));
  }
  return {Tensor::from(positions, {x.rank(), static_cast<std::int64_t>(found.size())})};
}

Values compress(const OpCall& call) {
  Tensor x = call.in(0);
  int axis = 0;
  if (call.has_attribute("axis")) {
    axis = call.axis("axis", 0, x.rank());
  } else {
    x = reshape(x, {x.numel()});
  }
  std::vector<std::int64_t> chosen;
  const std::vector<std::int64_t> keep = as_integers(call.in(1));
  for (std::size_t i = 0; i < keep.size() && static_cast<std::int64_t>(i) < x.dim(axis); ++i) {
    if (keep[i] != 0) chosen.push_back(static_cast<std::int64_t>(i));
  }
  return {index_select(x, axis, Tensor::from(chosen, {static_cast<std::int64_t>(chosen.size())}))};
}

Values one_hot_of(const OpCall& call) {
  const Tensor &indices = call.in(0), &values = call.in(2);
  const double given = call.number_in(1);  // of any type, as the operator allows
  INGOT_CHECK(given >= 1 && given <= static_cast<double>(kMaxElements),
              DimensionMismatch(call.where() + ": a depth of " + std::to_string(given)));
  const auto depth = static_cast<std::int64_t>(given);
  const int axis = call.axis("axis", -1, indices.rank() + 1);
  INGOT_CHECK(values.numel() == 2, DimensionMismatch(call.where() + ": takes two values"));
  const std::vector<std::int64_t> ids = as_integers(indices);
  std::vector<std::int64_t> dims = indices.shape().to_vector();
  dims.insert(dims.begin() + axis, depth);
  const std::vector<std::int64_t> strides = strides_of(indices.shape());
  return {copy_from(values, to_shape(dims), [&](std::span<const std::int64_t> position) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < position.size(); ++i) {
      if (static_cast<int>(i) != axis) at += position[i] * strides[i - (static_cast<int>(i) > axis ? 1 : 0)];
    }
    const std::int64_t id = ids[static_cast<std::size_t>(at)];
    return std::int64_t{position[static_cast<std::size_t>(axis)] == (id < 0 ? id + depth : id) ? 1 : 0};
  })};
}

Values reverse_sequence(const OpCall& call) {
  const Tensor& x = call.in(0);
  const int time = call.axis("time_axis", 0, x.rank()), batch = call.axis("batch_axis", 1, x.rank());
  const std::vector<std::int64_t> lengths = call.integers_in(1), strides = strides_of(x.shape());
  INGOT_CHECK(static_cast<std::int64_t>(lengths.size()) == x.dim(batch),
              DimensionMismatch(call.where() + ": lengths"));
  for (const std::int64_t length : lengths) {
    INGOT_CHECK(length >= 0 && length <= x.dim(time),
                DimensionMismatch(call.where() + ": a length beyond the axis"));
  }
  return {copy_from(x, x.shape(), [&](std::span<const std::int64_t> position) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < position.size(); ++i) at += position[i] * strides[i];
    const std::int64_t length = lengths[static_cast<std::size_t>(position[static_cast<std::size_t>(batch)])];
    const std::int64_t t = position[static_cast<std::size_t>(time)];
    return t < length ? at + (length - 1 - 2 * t) * strides[static_cast<std::size_t>(time)] : at;
  })};
}

/// What `Unique` finds among the slices of an axis: the distinct ones in the order of the result.
struct Distinct {
  std::vector<std::int64_t> first, counts, inverse;
};

/// `values`: one slice after another, each of `width` elements.
template <class T>
Distinct distinct_slices(const std::vector<T>& values, std::size_t count, std::size_t width, bool sorted) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto slice = [&](std::size_t i) { return std::span(values).subspan(i * width, width); };
  const auto less = [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(slice(a), slice(b));
  };
  std::ranges::stable_sort(order, less);
  std::vector<std::size_t> firsts;  // of each group, in the order of values
  std::vector<std::size_t> group(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || less(order[i - 1], order[i])) firsts.push_back(order[i]);
    group[order[i]] = firsts.size() - 1;
  }
  std::vector<std::size_t> rank(firsts.size());
  for (std::size_t i = 0; i < rank.size(); ++i) rank[i] = i;
  if (!sorted) std::ranges::sort(rank, {}, [&](std::size_t i) { return firsts[i]; });
  Distinct found;
  std::vector<std::int64_t> position(rank.size());
  for (std::size_t i = 0; i < rank.size(); ++i) {
    position[rank[i]] = static_cast<std::int64_t>(i);
    found.first.push_back(static_cast<std::int64_t>(firsts[rank[i]]));
  }
  found.counts.assign(rank.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    found.inverse.push_back(position[group[i]]);
    ++found.counts[static_cast<std::size_t>(found.inverse.back())];
  }
  return found;
}

/// In the order of their elements: of strings, not of the numbers that stand for them.
Distinct distinct_slices_of(const OpCall& call, const Tensor& slices, std::size_t count, std::size_t width) {
  const bool sorted = call.integer("sorted", 1) != 0;
  if (call.is_of(0, ElementType::text)) {
    std::vector<std::string> texts;
    texts.reserve(count * width);
    for (const std::int64_t number : as_integers(slices)) texts.push_back(call.texts().text_of(number));
    return distinct_slices(texts, count, width, sorted);
  }
  return is_floating_point(slices.dtype()) ? distinct_slices(as_doubles(slices), count, width, sorted)
                                           : distinct_slices(as_integers(slices), count, width, sorted);
}

Values unique(const OpCall& call) {
  Tensor x = call.in(0);
  const bool whole = !call.has_attribute("axis");
  if (whole) x = reshape(contiguous(x), {x.numel()});
  const int axis = whole ? 0 : call.axis("axis", 0, x.rank());
  const Tensor slices = contiguous(transpose(x, 0, axis));
  const auto count = static_cast<std::size_t>(x.dim(axis)),
             width = count == 0 ? 0 : static_cast<std::size_t>(x.numel()) / count;
  const Distinct found = distinct_slices_of(call, slices, count, width);
  const auto list = [](const std::vector<std::int64_t>& values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  };
  return {index_select(x, axis, list(found.first)), list(found.first), list(found.inverse),
          list(found.counts)};
}

constexpr std::array kIndexOps = {OpRow{"Compress", compress, 0, 0},
                                  OpRow{"Gather", gather_slices, 1, 0},
                                  OpRow{"GatherElements", gather_elements, 1, 0},
                                  OpRow{"GatherND", gather_nd, 0, 0},
                                  OpRow{"NonZero", non_zero, 0, kOwnTypes},
                                  OpRow{"OneHot", one_hot_of, 0, 2},
                                  OpRow{"ReverseSequence", reverse_sequence, 0, 0},
                                  OpRow{"Scatter", scatter_elements, 0, 0},
                                  OpRow{"ScatterElements", scatter_elements, 0, 0},
                                  OpRow{"ScatterND", scatter_nd, kEveryInput, 0},
                                  OpRow{"Unique", unique, 0, 0}};

}  // namespace

std::span<const OpRow> index_ops() { return kIndexOps; }

}  // namespace ingot::onnx
