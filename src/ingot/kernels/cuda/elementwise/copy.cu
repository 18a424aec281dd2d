#include <cstring>

#include "ingot/core/backend.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/cuda/device/fp8.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/elementwise/transpose.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/sync.h"
#include "ingot/kernels/element_size.h"
#include "ingot/kernels/elementwise.h"

namespace ingot::kernels::cuda {
namespace {

template <class V>
struct Identity {
  template <int vec>
  __device__ void operator()(const V (&in)[1][vec], V (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = in[0][v];
  }
};

// Conversions that are not between floating dtypes are rare: one kernel reads and writes any of them.
struct ConvertArgs {
  const void* x;
  void* y;
  DType from, to;
  bool accumulate;
  Walk<2> walk;
};

template <class F>
__device__ __forceinline__ void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(half_t{});
    case DType::bf16:
      return f(bfloat_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
    default:
      return;
  }
}

// To bool: anything but 0 is true, and sums are "or".
template <class To, class From>
__device__ __forceinline__ void convert_one(To* to, From from, bool accumulate) {
  const Value<From> value = to_value(from);
  if constexpr (std::is_same_v<To, bool>) {
    const bool set = value != Value<From>{0};
    *to = accumulate ? *to || set : set;
  } else {
    const auto converted = static_cast<Value<To>>(value);
    *to = from_value<To>(accumulate ? static_cast<Value<To>>(to_value(*to) + converted) : converted);
  }
}

__global__ void convert_kernel(const __grid_constant__ ConvertArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.walk.total; i += step) {
    std::int64_t at[2];
    args.walk.offsets(i, at);
    with_type(args.from, [&](auto from) {
      const auto value = static_cast<const decltype(from)*>(args.x)[at[0]];
      with_type(args.to, [&](auto to) {
        convert_one(static_cast<decltype(to)*>(args.y) + at[1], value, args.accumulate);
      });
    });
  }
}

void convert(const CopyArgs& args, Stream stream) {
  const StridedIterator<2> runs({args.x, args.y});
  if (runs.total() == 0) return;
  const ConvertArgs converted{args.x.data,  args.y.data,     args.x.dtype,
                              args.y.dtype, args.accumulate, walk_of(runs)};
  launch({"copy", stream, args.x}, convert_kernel, Size3{grid_for(stream.device, runs.total(), 256)},
         Size3{256}, 0, converted);
}

bool is_small_float(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

template <class F>
void dispatch_small_float(DType dtype, F&& f) {
  if (dtype == DType::f8e4m3) return f.template operator()<e4m3_t>();
  f.template operator()<e5m2_t>();
}

// Between 8-bit floats and others.
void convert_small_floats(const CopyArgs& args, Stream stream) {
  const bool from_small = is_small_float(args.x.dtype);
  const auto copied = [&]<class From, class To>() {
    map<From, To>({"copy", stream, args.x}, std::array{args.x}, std::array{args.y}, {args.accumulate},
                  Identity<float>{});
  };
  dispatch_device_float(from_small ? args.y.dtype : args.x.dtype, "copy", [&]<class Float>() {
    dispatch_small_float(from_small ? args.x.dtype : args.y.dtype, [&]<class Small>() {
      from_small ? copied.template operator()<Small, Float>() : copied.template operator()<Float, Small>();
    });
  });
}

bool is_copied(DType dtype) { return dtype != DType::f64 && !is_small_float(dtype); }

bool takes_copy(const CopyArgs& args) {
  const DType x = args.x.dtype, y = args.y.dtype;
  if (x == y && !args.accumulate) return true;
  if (is_small_float(x)) return is_device_float(y);
  return is_small_float(y) ? is_device_float(x) : is_copied(x) && is_copied(y);
}

template <class From, class To>
void copy_elements(const CopyArgs& args, Stream stream) {
  const LaunchSite site{"copy", stream, args.x};
  if (transpose<From, To>(site, args.x, args.y, args.accumulate)) return;
  map<From, To>(site, std::array{args.x}, std::array{args.y}, {args.accumulate}, Identity<Value<From>>{});
}

// What the driver copies faster than our kernel: 4150 GB/s where that made 3800 (256 MB on an H200). A small
// copy is over before that shows.
bool is_for_driver(const CopyArgs& args) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;  // bytes
  return args.x.dtype == args.y.dtype && !args.accumulate && args.x.is_contiguous() &&
         args.y.is_contiguous() &&
         args.y.numel() * static_cast<std::int64_t>(byte_size(args.y.dtype)) >= kLeast;
}

void run_copy(const CopyArgs& args, Stream stream) {
  if (is_for_driver(args)) {
    const std::int64_t bytes = args.y.numel() * static_cast<std::int64_t>(byte_size(args.y.dtype));
    driver::use(stream.device.index);
    driver::copy(args.y.data, args.x.data, static_cast<std::size_t>(bytes), stream.native);
    return wait_after_launch("copy", stream);
  }
  if (args.x.dtype == args.y.dtype && !args.accumulate) {
    return dispatch_size(byte_size(args.x.dtype), [&]<class T>() { copy_elements<T, T>(args, stream); });
  }
  if (is_small_float(args.x.dtype) || is_small_float(args.y.dtype)) return convert_small_floats(args, stream);
  if (!is_device_float(args.x.dtype) || !is_device_float(args.y.dtype)) return convert(args, stream);
  dispatch_device_float(args.x.dtype, "copy", [&]<class From>() {
    dispatch_device_float(args.y.dtype, "copy", [&]<class To>() { copy_elements<From, To>(args, stream); });
  });
}

template <class T>
struct Constant {
  T value;
  template <int vec>
  __device__ void operator()(const T (&)[1][vec], T (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = value;
  }
};

// The bits of `value` as an element of `dtype`.
std::uint64_t element_bits(DType dtype, double value) {
  std::uint64_t bits = 0;
  dispatch_any(dtype, [&]<class T>() {
    T element;
    if constexpr (std::is_same_v<T, bool>) {
      element = value != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      element = static_cast<T>(value);
    } else {
      element = T(static_cast<float>(value));
    }
    std::memcpy(&bits, &element, sizeof(T));
  });
  return bits;
}

void run_fill(const FillArgs& args, Stream stream) {
  const std::uint64_t bits = element_bits(args.y.dtype, args.value);
  dispatch_size(byte_size(args.y.dtype), [&]<class T>() {
    map<T>({"fill", stream, args.y}, std::array{View{}}, std::array{args.y}, {false},
           Constant<T>{static_cast<T>(bits)});
  });
}

struct WhereKernelArgs {
  const std::uint8_t* condition;
  const void *a, *b;
  void* y;
  bool accumulate;
  bool repeated[3];  // one element for a whole vector
  Walk<4> walk;
};

// Both sides are read: a branch over each element would have their loads wait for the condition.
template <class T, int vec>
__global__ void where_kernel(const __grid_constant__ WhereKernelArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.walk.total; i += step) {
    std::int64_t at[4];
    args.walk.offsets(i, at);
    Read<std::uint8_t, vec> condition;
    Read<T, vec> a, b;
    condition.from(args.condition, at[0], args.repeated[0]);
    a.from(static_cast<const T*>(args.a), at[1], args.repeated[1]);
    b.from(static_cast<const T*>(args.b), at[2], args.repeated[2]);
    T* y = static_cast<T*>(args.y) + at[3];
    Vector<T, vec> old = {}, vector;
    if (args.accumulate) old = load_vector<vec>(y);
    const auto conditions = condition.vector(args.repeated[0]);
    const auto as = a.vector(args.repeated[1]), bs = b.vector(args.repeated[2]);
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const Value<T> value = to_value(conditions.values[v] != 0 ? as.values[v] : bs.values[v]);
      vector.values[v] =
          from_value<T>(args.accumulate ? static_cast<Value<T>>(to_value(old.values[v]) + value) : value);
    }
    store_vector(y, vector);
  }
}

template <class T>
void where_of(const WhereArgs& args, Stream stream) {
  const std::array views{args.condition, args.a, args.b, args.y};
  const StridedIterator<4> runs(views);
  if (runs.total() == 0) return;
  WhereKernelArgs kernel_args{.condition = args.condition.as<const std::uint8_t>(),
                              .a = args.a.data,
                              .b = args.b.data,
                              .y = args.y.data,
                              .accumulate = args.accumulate,
                              .repeated = {},
                              .walk = {}};
  const auto run = [&]<int vec>() {
    kernel_args.walk = walk_of(runs, vec);
    launch({"where", stream, args.y}, where_kernel<T, vec>,
           Size3{grid_for(stream.device, kernel_args.walk.total, 256)}, Size3{256}, 0, kernel_args);
  };
  constexpr int kVec = kVector<T>;
  if (runs.inner() % kVec != 0 || !vectors(runs, views, kVec)) return run.template operator()<1>();
  for (std::size_t v = 0; v < 3; ++v) kernel_args.repeated[v] = views[v] && repeats(runs, v);
  run.template operator()<kVec>();
}

void run_where(const WhereArgs& args, Stream stream) {
  const auto go = [&]<class T>() { where_of<T>(args, stream); };
  if (is_device_float(args.y.dtype)) return dispatch_device_float(args.y.dtype, "where", go);
  dispatch_size(byte_size(args.y.dtype), go);
}

struct CountArgs {
  const void* x;
  unsigned long long* count;  // what atomicAdd takes
  Walk<1> walk;               // in vectors
  std::int64_t rest;          // elements behind the last
};

template <class T>
__device__ __forceinline__ unsigned nonfinite(T x) {
  const float value = to_float(x);
  return value - value == 0.0F ? 0 : 1;  // infinities and NaNs leave a NaN
}

template <class T, int vec>
__global__ void count_nonfinite_kernel(const __grid_constant__ CountArgs args) {
  constexpr int kUnroll = 4;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const T* x = static_cast<const T*>(args.x);
  unsigned found = first < args.rest ? nonfinite(x[args.walk.total * vec + first]) : 0;
  for (std::int64_t i = first; i < args.walk.total; i += step * kUnroll) {
    Vector<T, vec> read[kUnroll] = {};
    INGOT_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * step >= args.walk.total) continue;
      std::int64_t at[1];
      args.walk.offsets(i + u * step, at);
      read[u] = load_vector<vec>(x + at[0]);
    }
    INGOT_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) found += nonfinite(read[u].values[v]);
    }
  }
  for (int apart = kWarp / 2; apart > 0; apart /= 2) found += __shfl_xor_sync(kAllLanes, found, apart);
  if (threadIdx.x % kWarp == 0 && found > 0) atomicAdd(args.count, static_cast<unsigned long long>(found));
}

void run_count_nonfinite(const CountNonfiniteArgs& args, Stream stream) {
  backend(stream.device).fill_bytes(args.count.data, 0, sizeof(std::int64_t), stream);
  const StridedIterator<1> runs({args.x});
  if (runs.total() == 0) return;
  dispatch_device_float(args.x.dtype, "count_nonfinite", [&]<class T>() {
    const auto run = [&]<int vec>() {
      CountArgs kernel_args{args.x.data, args.count.as<unsigned long long>(), walk_of(runs, vec), 0};
      kernel_args.rest = runs.total() - kernel_args.walk.total * vec;
      launch({"count_nonfinite", stream, args.x}, count_nonfinite_kernel<T, vec>,
             Size3{grid_for(stream.device, runs.total(), 256 * vec)}, Size3{256}, 0, kernel_args);
    };
    // An axis of stride 0 repeats its element, which vectors() lets pass: here each of them counts.
    if (repeats(runs, 0) || !vectors(runs, std::array{args.x}, kVector<T>))
      return run.template operator()<1>();
    run.template operator()<kVector<T>>();
  });
}

}  // namespace

void register_copy() {
  copy.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_copy, run_copy});
  fill.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_fill});
  where.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const WhereArgs& args) { return !args.accumulate || is_device_float(args.y.dtype); }, run_where});
  count_nonfinite.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const CountNonfiniteArgs& args) { return is_device_float(args.x.dtype); },
       run_count_nonfinite});
}

}  // namespace ingot::kernels::cuda
