#include "ingot/kernels/index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/float_block.h"
#include "ingot/kernels/cpu/strided.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/element_size.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kIndexGrain = 32768;  // elements: some 5 µs of memory traffic
constexpr std::int64_t kCacheLine = 16;      // floats: column ranges of threads begin on lines of their own

void run_embedding(const EmbeddingArgs& args, Stream) {
  const std::int64_t d = args.weight.dim(1);
  const auto row_bytes = static_cast<std::size_t>(d) * byte_size(args.weight.dtype);
  dispatch_index(args.ids.dtype, "embedding", [&]<class I>() {
    parallel_for(args.ids.numel(), kIndexGrain / (d + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto id = static_cast<std::size_t>(args.ids.as<I>()[i]);
        std::memcpy(args.y.as<char>() + static_cast<std::size_t>(i) * row_bytes,
                    args.weight.as<char>() + id * row_bytes, row_bytes);
      }
    });
  });
}

void clear(const View& view) {
  const auto size = static_cast<std::int64_t>(byte_size(view.dtype));
  parallel_for(view.numel(), 2 * kIndexGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(view.as<char>() + begin * size, 0, static_cast<std::size_t>((end - begin) * size));
  });
}

// Threads own columns, so that one row is never written by two, and every row is summed in dy's order.
// Columns share the work evenly where rows would not: few tokens make up most of a batch.
void run_embedding_backward(const EmbeddingBackwardArgs& args, Stream) {
  const std::int64_t d = args.dweight.dim(1), n = args.ids.numel();
  auto* dweight = args.dweight.as<float>();
  if (!args.accumulate) clear(args.dweight);
  const std::int64_t groups = (d + kCacheLine - 1) / kCacheLine;
  dispatch_index(args.ids.dtype, "embedding_backward", [&]<class I>() {
    parallel_for(groups, kIndexGrain / (n * kCacheLine + 1), [&](std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first * kCacheLine, end = std::min(last * kCacheLine, d);
      for (std::int64_t i = 0; i < n; ++i) {
        float* row = dweight + static_cast<std::int64_t>(args.ids.as<I>()[i]) * d;
        const float* dy = args.dy.as<float>() + i * d;
        for (std::int64_t k = begin; k < end; ++k) row[k] += dy[k];
      }
    });
  });
}

// dweight[row] += the sum of dy over `slots`, in f32, rounded once.
void add_rows(const EmbeddingBackwardArgs& args, std::int64_t row, std::span<const std::int64_t> slots) {
  const std::int64_t d = args.dweight.dim(1);
  for (std::int64_t column = 0; column < d; column += FloatBlock::kMax) {
    const std::int64_t n = std::min(FloatBlock::kMax, d - column);
    FloatBlock sum(args.dweight, row * d + column, n);
    for (const std::int64_t slot : slots) {
      FloatBlock dy(args.dy, slot * d + column, n);
      for (std::int64_t k = 0; k < n; ++k) sum.data()[k] += dy.data()[k];
    }
    sum.store(sum.data());
  }
}

// For half precision, whose own sums would lose the small gradients of a frequent token: the slots of one id
// are brought together, so that its row is summed in f32, in dy's order, and rounded once. Threads own rows.
void run_embedding_backward_by_row(const EmbeddingBackwardArgs& args, Stream) {
  if (!args.accumulate) clear(args.dweight);
  dispatch_index(args.ids.dtype, "embedding_backward", [&]<class I>() {
    const std::span<const I> ids(args.ids.as<I>(), static_cast<std::size_t>(args.ids.numel()));
    std::vector<std::int64_t> slots(ids.size());
    std::iota(slots.begin(), slots.end(), 0);
    const auto id_at = [&](std::int64_t slot) { return ids[static_cast<std::size_t>(slot)]; };
    std::ranges::stable_sort(slots, {}, id_at);
    std::vector<std::size_t> starts;  // of the runs of one id
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (i == 0 || id_at(slots[i]) != id_at(slots[i - 1])) starts.push_back(i);
    }
    const auto rows = static_cast<std::int64_t>(starts.size());
    starts.push_back(slots.size());
    parallel_for(rows, kIndexGrain / (args.dweight.dim(1) + 1), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
        add_rows(args, static_cast<std::int64_t>(id_at(slots[starts[r]])),
                 std::span(slots).subspan(starts[r], starts[r + 1] - starts[r]));
      }
    });
  });
}

// The first position outside [begin, end) of contiguous indices, or -1. Whole blocks are judged first,
// without branches: mostly all is well.
template <class I>
std::int64_t outside_in(const I* indices, std::int64_t begin, std::int64_t end, std::int64_t bound) {
  constexpr std::int64_t kBlock = 512;
  const auto limit = static_cast<std::uint64_t>(bound);
  const auto is_outside = [&](std::int64_t i) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(indices[i])) >= limit;
  };
  for (std::int64_t start = begin; start < end; start += kBlock) {
    const std::int64_t stop = std::min(start + kBlock, end);
    bool any = false;
    for (std::int64_t i = start; i < stop; ++i) any |= is_outside(i);
    for (std::int64_t i = start; any && i < stop; ++i) {
      if (is_outside(i)) return i;
    }
  }
  return -1;
}

void run_find_outside(const FindOutsideArgs& args, Stream) {
  constexpr std::int64_t kMaxParts = 64;
  const std::int64_t n = args.indices.numel();
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / kIndexGrain, 1, std::min<std::int64_t>(num_threads(), kMaxParts));
  std::array<std::int64_t, kMaxParts> found;
  dispatch_index(args.indices.dtype, "find_outside", [&]<class I>() {
    parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        found[static_cast<std::size_t>(part)] =
            outside_in(args.indices.as<I>(), n * part / parts, n * (part + 1) / parts, args.bound);
      }
    });
  });
  const auto* end = found.data() + parts;
  const auto* slot = std::find_if(std::as_const(found).data(), end, [](std::int64_t at) { return at >= 0; });
  args.position.as<std::int64_t>()[0] = slot == end ? -1 : *slot;
}

// Gather and scatter_add see their tensors as lines along `axis`, one for each index of the other axes.
// Neighbouring lines are worked on together, element after element, where their elements are neighbours in
// memory; else line after line.
struct Lines {
  View view;                // the first element of every line
  std::int64_t step = 0;    // elements from one of a line to the next
  std::int64_t length = 0;  // elements of a line
};

Lines lines_of(View view, int axis, const View& index) {
  Lines lines{view, view.stride(axis), view.dim(axis)};
  lines.view.shape = index.shape;  // where that is empty, there is nothing to do
  lines.view.shape[static_cast<std::size_t>(axis)] = 1;
  return lines;
}

// A stretch of neighbouring lines of three operands: how many, where they begin, elements between neighbours.
struct Stretch {
  std::int64_t count;
  std::array<std::int64_t, 3> at, gap;
};

constexpr std::int64_t kStretch = 1024;  // lines together: what they read and write stays in L1

// Calls body(stretch) for stretches of up to `together` lines that cover all of them, on several threads.
template <class Body>
void for_each_stretch(const std::array<Lines, 3>& lines, std::int64_t length, std::int64_t together,
                      Body&& body) {
  parallel_runs<3>({lines[0].view, lines[1].view, lines[2].view}, kIndexGrain / (length + 1) + 1,
                   [&](const auto& at, std::int64_t n, const auto& gap) {
                     for (std::int64_t i = 0; i < n; i += together) {
                       Stretch stretch{std::min(together, n - i), at, gap};
                       for (std::size_t k = 0; k < 3; ++k) stretch.at[k] += i * gap[k];
                       body(stretch);
                     }
                   });
}

// Sums are f32, whatever they are of.
template <bool kAdd, class To, class From>
void put(To& to, const From& from) {
  if constexpr (kAdd) {
    to = static_cast<To>(static_cast<float>(to) + static_cast<float>(from));
  } else {
    to = from;
  }
}

// One element of each line of a stretch: from one row of x to one of y.
template <bool kAdd, class From, class To>
void copy_row(const From* x, std::int64_t x_gap, To* y, std::int64_t y_gap, std::int64_t n) {
  if (x_gap == 1 && y_gap == 1) {
    if constexpr (kAdd) {
      for (std::int64_t k = 0; k < n; ++k) put<true>(y[k], x[k]);
    } else {
      std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(To));
    }
    return;
  }
  for (std::int64_t k = 0; k < n; ++k) put<kAdd>(y[k * y_gap], x[k * x_gap]);
}

// The elements [first, last) of the lines of y.
template <bool kAdd, class T, class I>
void gather_stretch(const GatherArgs& args, const std::array<Lines, 3>& lines, const Stretch& s,
                    std::int64_t first, std::int64_t last) {
  const auto& [x_lines, index_lines, y_lines] = lines;
  const T* x = args.x.as<T>() + s.at[0];
  const I* index = args.index.as<I>() + s.at[1];
  T* y = args.y.as<T>() + s.at[2];
  if (y_lines.step == 1 && s.gap[2] != 1) {  // the axis is the innermost: along it
    for (std::int64_t k = 0; k < s.count; ++k) {
      const T* from = x + k * s.gap[0];
      const I* ids = index + k * s.gap[1];
      for (std::int64_t i = first; i < last; ++i) {
        put<kAdd>(y[k * s.gap[2] + i],
                  from[static_cast<std::int64_t>(ids[i * index_lines.step]) * x_lines.step]);
      }
    }
    return;
  }
  for (std::int64_t i = first; i < last; ++i) {
    const I* ids = index + i * index_lines.step;
    T* to = y + i * y_lines.step;
    if (s.gap[1] == 0) {  // whole rows are chosen
      copy_row<kAdd>(x + static_cast<std::int64_t>(*ids) * x_lines.step, s.gap[0], to, s.gap[2], s.count);
      continue;
    }
    for (std::int64_t k = 0; k < s.count; ++k) {
      const auto id = static_cast<std::int64_t>(ids[k * s.gap[1]]);
      put<kAdd>(to[k * s.gap[2]], x[id * x_lines.step + k * s.gap[0]]);
    }
  }
}

// Whether there are too few lines for all threads, but enough in each.
bool few_lines(const std::array<Lines, 3>& lines) {
  return lines[1].view.numel() < num_threads() && lines[1].length > kIndexGrain;
}

template <class Body>
void for_all_lines(const std::array<Lines, 3>& lines, Body&& body) {
  for_each_run<3>({lines[0].view, lines[1].view, lines[2].view},
                  [&](const auto& at, std::int64_t n, const auto& gap) {
                    body(Stretch{n, at, gap});
                  });
}

bool accepts_gather(const GatherArgs& args) { return !args.accumulate || is_simd_float(args.x.dtype); }

void run_gather(const GatherArgs& args, Stream) {
  const std::array<Lines, 3> lines{lines_of(args.x, args.axis, args.index),
                                   lines_of(args.index, args.axis, args.index),
                                   lines_of(args.y, args.axis, args.index)};
  const std::int64_t length = lines[1].length;
  dispatch_index(args.index.dtype, "gather", [&]<class I>() {
    const auto part = [&](const Stretch& stretch, std::int64_t first, std::int64_t last) {
      if (args.accumulate) {
        dispatch_simd_float(
            args.x.dtype, [&]<class T>() { gather_stretch<true, T, I>(args, lines, stretch, first, last); });
      } else {
        dispatch_size(byte_size(args.x.dtype),
                      [&]<class T>() { gather_stretch<false, T, I>(args, lines, stretch, first, last); });
      }
    };
    if (few_lines(lines)) {
      parallel_for(length, kIndexGrain, [&](std::int64_t first, std::int64_t last) {
        for_all_lines(lines, [&](const Stretch& stretch) { part(stretch, first, last); });
      });
    } else {
      for_each_stretch(lines, length, kStretch, [&](const Stretch& stretch) { part(stretch, 0, length); });
    }
  });
}

// Where the elements [first, last) of a stretch of the lines of y are summed: in y where that is f32, else in
// an f32 copy, from which `finish` rounds them once.
class LineSums {
 public:
  LineSums(const View& y, const Lines& lines, const Stretch& stretch, std::int64_t first, std::int64_t last)
      : y_(y),
        at_(stretch.at[2] + first * lines.step),
        step_(lines.step),
        gap_(stretch.gap[2]),
        length_(last - first),
        count_(stretch.count) {
    if (y.dtype == DType::f32) {
      data = y.as<float>() + at_, step = step_, gap = gap_;
      return;
    }
    data = thread_scratch(0, static_cast<std::size_t>(length_ * count_));
    along_ = step_ == 1 && gap_ != 1;
    step = along_ ? 1 : count_, gap = along_ ? length_ : 1;
    for_each_row([&](void* memory, std::int64_t stride, std::int64_t n, float* sums) {
      load_floats(memory, y_.dtype, stride, n, sums);
    });
  }
  void finish() {
    if (y_.dtype == DType::f32) return;
    for_each_row([&](void* memory, std::int64_t stride, std::int64_t n, float* sums) {
      store_floats(sums, n, memory, y_.dtype, stride);
    });
  }

  float* data = nullptr;
  std::int64_t step = 0, gap = 0;  // from one element of a line to the next, from one line to the next

 private:
  // A row goes along a line, or across the lines, wherever neighbours lie.
  template <class F>
  void for_each_row(F&& f) {
    const std::int64_t rows = along_ ? count_ : length_, n = along_ ? length_ : count_;
    const std::int64_t row_step = along_ ? gap_ : step_, stride = along_ ? step_ : gap_;
    for (std::int64_t r = 0; r < rows; ++r) {
      f(y_.as<std::uint16_t>() + at_ + r * row_step, stride, n, data + r * n);
    }
  }

  const View& y_;
  std::int64_t at_, step_, gap_, length_, count_;
  bool along_ = false;
};

// Adds the elements of x whose index is in [first, last), in order.
template <class T, class I>
void scatter_stretch(const ScatterAddArgs& args, const std::array<Lines, 3>& lines, const Stretch& s,
                     std::int64_t first, std::int64_t last) {
  const Lines &x_lines = lines[0], &index_lines = lines[1];
  const T* x = args.x.as<T>() + s.at[0];
  const I* index = args.index.as<I>() + s.at[1];
  LineSums sums(args.y, lines[2], s, first, last);
  const auto add = [&](std::int64_t i, std::int64_t k) {
    const auto id = static_cast<std::int64_t>(index[i * index_lines.step + k * s.gap[1]]);
    if (id < first || id >= last) return;
    put<true>(sums.data[(id - first) * sums.step + k * sums.gap], x[i * x_lines.step + k * s.gap[0]]);
  };
  if (x_lines.step == 1 && s.gap[0] != 1) {  // the axis is the innermost: along it
    for (std::int64_t k = 0; k < s.count; ++k) {
      for (std::int64_t i = 0; i < index_lines.length; ++i) add(i, k);
    }
    return sums.finish();
  }
  for (std::int64_t i = 0; i < index_lines.length; ++i) {
    if (s.gap[1] == 0) {  // whole rows are added
      const auto id = static_cast<std::int64_t>(index[i * index_lines.step]);
      if (id < first || id >= last) continue;
      copy_row<true>(x + i * x_lines.step, s.gap[0], sums.data + (id - first) * sums.step, sums.gap, s.count);
      continue;
    }
    for (std::int64_t k = 0; k < s.count; ++k) add(i, k);
  }
  sums.finish();
}

// Lines worked on together so that their sums, kept apart for half precision, stay in a cache.
std::int64_t lines_together(const ScatterAddArgs& args, std::int64_t targets) {
  constexpr std::int64_t kSums = 65'536;  // 256 KiB
  if (args.y.dtype == DType::f32) return kStretch;
  return std::clamp(kSums / (targets + 1), kCacheLine, kStretch);
}

// Threads own lines, or, where there are few, parts of the destination: either way every sum is made by one
// thread, in x's order.
template <class T, class I>
void scatter_lines(const ScatterAddArgs& args, const std::array<Lines, 3>& lines) {
  const std::int64_t length = lines[1].length, targets = lines[2].length;
  if (few_lines(lines)) {
    parallel_for(targets, 1, [&](std::int64_t first, std::int64_t last) {
      for_all_lines(
          lines, [&](const Stretch& stretch) { scatter_stretch<T, I>(args, lines, stretch, first, last); });
    });
  } else {
    for_each_stretch(lines, length, lines_together(args, targets), [&](const Stretch& stretch) {
      scatter_stretch<T, I>(args, lines, stretch, 0, targets);
    });
  }
}

void run_scatter_add(const ScatterAddArgs& args, Stream) {
  const std::array<Lines, 3> lines{lines_of(args.x, args.axis, args.index),
                                   lines_of(args.index, args.axis, args.index),
                                   lines_of(args.y, args.axis, args.index)};
  dispatch_index(args.index.dtype, "scatter_add", [&]<class I>() {
    dispatch_simd_float(args.x.dtype, [&]<class T>() { scatter_lines<T, I>(args, lines); });
  });
}

}  // namespace

void register_index_simd() {
  find_outside.add(DeviceType::cpu, {"blocks", ImplKind::simd,
                                     [](const FindOutsideArgs& args) { return args.indices.is_contiguous(); },
                                     run_find_outside});
  gather.add(DeviceType::cpu, {"stretches", ImplKind::simd, accepts_gather, run_gather});
  scatter_add.add(DeviceType::cpu,
                  {"stretches", ImplKind::simd,
                   [](const ScatterAddArgs& args) { return is_simd_float(args.x.dtype); }, run_scatter_add});
  embedding.add(DeviceType::cpu, {"rows", ImplKind::simd, nullptr, run_embedding});
  embedding_backward.add(DeviceType::cpu,
                         {"columns", ImplKind::simd,
                          [](const EmbeddingBackwardArgs& args) { return args.dweight.dtype == DType::f32; },
                          run_embedding_backward});
  embedding_backward.add(DeviceType::cpu, {"rows", ImplKind::simd,
                                           [](const EmbeddingBackwardArgs& args) {
                                             return is_half_precision(args.dweight.dtype);
                                           },
                                           run_embedding_backward_by_row});
}

}  // namespace ingot::kernels::cpu
