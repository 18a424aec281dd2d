#include "ingot/kernels/cuda/device/online_softmax.h"
#include "ingot/kernels/cuda/device/shared_rows.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/targets.h"
#include "ingot/kernels/loss.h"

namespace ingot::kernels::cuda {
namespace {

// `shaped` kernels have what costs work per logit and is seldom asked for: a soft cap, label smoothing.

bool is_shaped(const CrossEntropyOptions& options) {
  return options.softcap > 0.0F || options.label_smoothing != 0.0F;
}

template <bool shaped>
__device__ __forceinline__ float capped(float x, float softcap) {
  if constexpr (!shaped) return x;
  return softcap > 0.0F ? softcap * tanhf(x / softcap) : x;
}

/// The gradients of a row's logits.
template <class Config, bool shaped>
class RowGradient {
 public:
  __device__ __forceinline__ RowGradient(const CrossEntropyOptions& options, std::int64_t n, float lse,
                                         std::int64_t target, float factor)
      : target_(target),
        lse_(lse),
        factor_(factor),
        scale_(1.0F + 2.0F * options.z_loss * lse),
        at_target_(1.0F - options.label_smoothing),
        elsewhere_(options.label_smoothing / static_cast<float>(n)),
        softcap_(options.softcap) {}

  __device__ __forceinline__ void begin(int batch) {
    const std::int64_t from_here = target_ - Config::position(batch, 0);
    hit_ = from_here >= 0 && from_here < Config::kStep ? static_cast<int>(from_here) : -1;
  }
  /// For an element of the batch that was begun.
  __device__ __forceinline__ float at(int p, int v, float logit) const {
    const float value = capped<shaped>(logit, softcap_);
    float d = scale_ * fast_exp(value - lse_);
    if constexpr (shaped) d -= elsewhere_;
    if (p * Config::kVectorStep + v == hit_) d -= at_target_;
    if constexpr (shaped)
      if (softcap_ > 0.0F) d *= 1.0F - value / softcap_ * (value / softcap_);
    return d * factor_;
  }

 private:
  std::int64_t target_;
  float lse_, factor_, scale_, at_target_, elsewhere_, softcap_;
  int hit_;  // where the target is, counted from the first element of this thread
};

template <class T>
struct CrossEntropyKernel {
  const T* logits;
  T* dlogits;  // may be null, or logits
  Targets targets;
  float *loss, *lse;  // lse may be null
  const float* denominator;
  std::int64_t rows, n, row_stride, drow_stride;
  CrossEntropyOptions options;
};

template <class Config, bool shaped>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads, Config::kBlocks) void cross_entropy_kernel(
    const __grid_constant__ CrossEntropyKernel<typename Config::T> args) {
  using ThreadGroup = typename Config::ThreadGroup;
  const float softcap = args.options.softcap, smoothing = args.options.label_smoothing;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < args.rows;
       row += ThreadGroup::row_step()) {
    const bool live = row < args.rows;
    const auto n = static_cast<typename Config::Index>(live ? args.n : 0);
    const typename Config::T* x_row = args.logits + row * args.row_stride;
    const std::int64_t target = live ? args.targets.at(row) : -1;
    const bool ignored = target == args.options.ignore_index, known = target >= 0 && target < n;
    const float at_target = known ? capped<shaped>(to_float(x_row[target]), softcap) : NAN;
    RowVectors<Config> x;
    OnlineSoftmax exps;
    float mean = 0;
    for (int batch = 0; batch < Config::batches(args.n); ++batch) {
      if constexpr (shaped) {
        float values[Config::kVectors][Config::kVec];
        x.fetch(x_row, n, batch);
        Config::each([&](int p, int v) {
          const float value = capped<shaped>(x.get(p, v), softcap);
          mean += value;  // 0 where there is none
          values[p][v] = Config::is_in(n, batch, p, v) ? value : -INFINITY;
        });
        exps.add<Config>([&](int p, int v) { return values[p][v]; });
      } else {
        x.fetch(x_row, n, batch, -INFINITY);
        exps.add<Config>([&](int p, int v) { return x.get(p, v); });
      }
    }
    // Whoever writes a gradient over the logit of the target comes after all have read that.
    if constexpr (ThreadGroup::kWarps == 1) __syncwarp();
    exps = shaped ? exps.over_group(exchange, mean) : exps.over_group(exchange);
    const float lse = exps.top + logf(exps.plain_sum());
    if (ThreadGroup::lane() == 0 && live) {
      const float of_all = shaped ? smoothing * (mean / static_cast<float>(args.n)) : 0.0F;
      const float loss = lse - (1.0F - smoothing) * at_target - of_all + args.options.z_loss * lse * lse;
      args.loss[row] = ignored ? 0.0F : loss;
      if (args.lse != nullptr) args.lse[row] = lse;
    }
    if (args.dlogits == nullptr) continue;
    const float factor = args.denominator == nullptr ? 1.0F : 1.0F / *args.denominator;
    RowGradient<Config, shaped> gradient(args.options, args.n, lse, target, factor);
    for (int batch = 0; batch < Config::batches(args.n); ++batch) {
      x.fetch_again(x_row, n, batch);
      gradient.begin(batch);
      if (ignored) {
        x.fill([](int, int) { return 0.0F; });
      } else {
        x.fill([&](int p, int v) { return gradient.at(p, v, x.get(p, v)); });
      }
      x.write(args.dlogits + row * args.drow_stride, n, batch);
    }
  }
}

// Of long rows, a block each: the next row arrives in shared memory over this one, batch after
// batch, as this one's gradients are written, and its sum of exponentials follows kBehind batches later. So
// memory is busy all the time but for the end of a row. On an H200 that is 3628 GB/s in bf16; 3217 where the
// sum waits for all of a row. What registers hold of rows that do not fit there goes the same way, before the
// rest: the next row's is asked for ahead of the store of its position's gradients. One use of it waits for
// all such loads, so the first comes as late as that of the copies begun behind them, and then one with each
// batch.
template <class Row>
__global__
__launch_bounds__(Row::Config::ThreadGroup::kThreads, Row::kBlocks) void cross_entropy_shared_kernel(
    const __grid_constant__ CrossEntropyKernel<typename Row::T> args) {
  using T = typename Row::T;
  using Config = typename Row::Config;
  constexpr int kBehind = 2, kHeld = Row::kHeld;
  const Row shared(args.n);
  const int batches = shared.batches(), steps = kHeld > 0 && kHeld > batches ? kHeld : batches;
  RowVectors<Config> first[kHeld > 0 ? kHeld : 1];
  ThreadGroupExchange<typename Config::ThreadGroup> exchange;
  OnlineSoftmax exps;
  std::int64_t row = blockIdx.x;
  if (row < args.rows) {
    INGOT_UNROLL
    for (int batch = 0; batch < kHeld; ++batch)
      first[batch].load(args.logits + row * args.row_stride + batch * Config::kStep, 0);
    for (int batch = 0; batch < batches; ++batch) shared.start(args.logits + row * args.row_stride, batch);
    commit_copies();
    INGOT_UNROLL
    for (int batch = 0; batch < kHeld; ++batch) exps.add(first[batch]);
    wait_copies<0>();
    for (int batch = 0; batch < batches; ++batch) exps.add(shared.fetch(batch));
  }
  for (; row < args.rows; row += gridDim.x) {
    const std::int64_t target = args.targets.at(row), next = row + gridDim.x;
    const bool ignored = target == args.options.ignore_index, known = target >= 0 && target < args.n;
    const float at_target = known ? to_float(args.logits[row * args.row_stride + target]) : NAN;
    // Behind the barrier of this all have read the target's logit, whose position may be its gradient's.
    const OnlineSoftmax all = exps.over_group(exchange);
    const float lse = all.top + logf(all.plain_sum());
    if (Config::ThreadGroup::lane() == 0) {
      args.loss[row] = ignored ? 0.0F : lse - at_target + args.options.z_loss * lse * lse;
      if (args.lse != nullptr) args.lse[row] = lse;
    }
    const float factor = args.denominator == nullptr ? 1.0F : 1.0F / *args.denominator;
    const float scale = (1.0F + 2.0F * args.options.z_loss * lse) * factor, by = -lse * kLog2E;
    const auto gradient = [&](float logit) { return scale * fast_exp2(fmaf(logit, kLog2E, by)); };
    T* const to = args.dlogits + row * args.drow_stride;
    const T* const next_row = args.logits + next * args.row_stride;
    exps = {};
    INGOT_UNROLL
    for (int batch = 0; batch < kHeld; ++batch) {
      first[batch].keep();
      RowVectors<Config> x = first[batch];
      if (ignored) {
        x.fill([](int, int) { return 0.0F; });
      } else {
        x.fill([&](int p, int v) { return gradient(x.get(p, v)); });
      }
      if (next < args.rows) first[batch].load(next_row + batch * Config::kStep, 0);
      x.store(to + batch * Config::kStep, 0);
    }
    for (int batch = 0; batch < steps + kBehind; ++batch) {
      if (batch < batches) {
        RowVectors<Config> x = shared.fetch(batch);
        x.fill([&](int p, int v) { return ignored ? 0.0F : gradient(x.get(p, v)); });
        if (next < args.rows) shared.start(next_row, batch);
        shared.write(x, to, batch);
      }
      commit_copies();
      wait_copies<kBehind>();
      if (next < args.rows && batch >= kBehind) exps.add(shared.fetch(batch - kBehind));
      INGOT_UNROLL
      for (int b = 0; b < kHeld; ++b)
        if (next < args.rows && batch == b + kBehind) exps.add(first[b]);
    }
    if (known && !ignored && Row::has(target)) to[target] = from_float<T>(gradient(at_target) - factor);
  }
}

/// Whether aligned rows of `width` end with a part of a vector, as those of vocabularies often do, and are
/// long enough to be worth a config of their own.
template <class T>
bool ends_in_part(std::int64_t width, std::initializer_list<View> views) {
  return width % kVector<T> != 0 && width > 1024 && rows_are_aligned(views);
}
/// Whether registers do not hold a row of `width`.
template <class T>
bool is_long(std::int64_t width) {
  return width > 2048 * kVector<T>;
}
template <class T>
using RaggedConfig = RowConfig<T, 512, 4, kVector<T>, false, false>;

void run_cross_entropy(const CrossEntropyArgs& args, Stream stream) {
  const std::int64_t rows = args.logits.dim(0), n = args.logits.dim(1);
  if (rows == 0) return;
  dispatch_device_float(args.logits.dtype, "cross_entropy", [&]<class T>() {
    const CrossEntropyKernel<T> kernel_args{.logits = args.logits.as<T>(),
                                            .dlogits = args.dlogits.as<T>(),
                                            .targets = Targets(args.targets),
                                            .loss = args.loss.as<float>(),
                                            .lse = args.lse.as<float>(),
                                            .denominator = args.denominator.as<float>(),
                                            .rows = rows,
                                            .n = n,
                                            .row_stride = args.logits.stride(0),
                                            .drow_stride = args.dlogits ? args.dlogits.stride(0) : 0,
                                            .options = args.options};
    const LaunchSite site{"cross_entropy", stream, args.logits};
    const auto run = [&]<class Config>() {
      launch(
          site,
          is_shaped(args.options) ? cross_entropy_kernel<Config, true> : cross_entropy_kernel<Config, false>,
          row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0, kernel_args);
    };
    const auto run_shared = [&]<class Row>() {
      const std::size_t bytes = shared_row_bytes<Row>(stream.device, n);
      if (bytes > 0)
        launch(site, cross_entropy_shared_kernel<Row>, shared_row_grid<Row>(stream.device, rows, bytes),
               kRowBlock<typename Row::Config>, bytes, kernel_args);
      return bytes > 0;
    };
    if (args.dlogits && !is_shaped(args.options) && is_long<T>(n) &&
        rows_are_aligned({args.logits, args.dlogits}) &&
        (run_shared.template operator()<SharedRow<T, 0>>() ||
         run_shared.template operator()<SharedRow<T, 2>>() ||
         run_shared.template operator()<SharedRow<T, 6>>()))
      return;
    if (ends_in_part<T>(n, {args.logits, args.dlogits})) return run.template operator()<RaggedConfig<T>>();
    dispatch_row_config<T>(n, rows_in_vectors(n, {args.logits, args.dlogits}), run);
  });
}

template <class T>
struct CrossEntropyBackwardKernel {
  const T* logits;
  T* dlogits;
  Targets targets;
  const float *lse, *dloss, *denominator;
  std::int64_t rows, n, row_stride, drow_stride;
  bool one_dloss;
  CrossEntropyOptions options;
};

template <class Config, bool shaped, bool accumulate>
__global__
__launch_bounds__(Config::ThreadGroup::kThreads, Config::kBlocks) void cross_entropy_backward_kernel(
    const __grid_constant__ CrossEntropyBackwardKernel<typename Config::T> args) {
  using T = typename Config::T;
  using ThreadGroup = typename Config::ThreadGroup;
  for (std::int64_t row = ThreadGroup::first_row(); row < args.rows; row += ThreadGroup::row_step()) {
    const std::int64_t target = args.targets.at(row);
    const bool ignored = target == args.options.ignore_index;
    if (accumulate && ignored) continue;
    const float scale = args.denominator == nullptr ? 1.0F : 1.0F / *args.denominator;
    const float factor = args.dloss[args.one_dloss ? 0 : row] * scale;
    const T* const x_row = args.logits + row * args.row_stride;
    T* const dx_row = args.dlogits + row * args.drow_stride;
    RowGradient<Config, shaped> gradient(args.options, args.n, args.lse[row], target, factor);
    for (int batch = 0; batch < Config::batches(args.n); ++batch) {
      RowVectors<Config> x, dx;
      x.fetch(x_row, args.n, batch);
      if constexpr (accumulate) dx.fetch(dx_row, args.n, batch);
      gradient.begin(batch);
      if (ignored) {
        dx.fill([](int, int) { return 0.0F; });
      } else {
        dx.fill([&](int p, int v) {
          const float d = gradient.at(p, v, x.get(p, v));
          return accumulate ? dx.get(p, v) + d : d;
        });
      }
      dx.write(dx_row, args.n, batch);
    }
  }
}

void run_cross_entropy_backward(const CrossEntropyBackwardArgs& args, Stream stream) {
  const std::int64_t rows = args.logits.dim(0), n = args.logits.dim(1);
  if (rows == 0) return;
  dispatch_device_float(args.logits.dtype, "cross_entropy_backward", [&]<class T>() {
    const CrossEntropyBackwardKernel<T> kernel_args{.logits = args.logits.as<T>(),
                                                    .dlogits = args.dlogits.as<T>(),
                                                    .targets = Targets(args.targets),
                                                    .lse = args.lse.as<float>(),
                                                    .dloss = args.dloss.as<float>(),
                                                    .denominator = args.denominator.as<float>(),
                                                    .rows = rows,
                                                    .n = n,
                                                    .row_stride = args.logits.stride(0),
                                                    .drow_stride = args.dlogits.stride(0),
                                                    .one_dloss = args.dloss.numel() == 1,
                                                    .options = args.options};
    const auto run = [&]<class Config, bool shaped>() {
      launch({"cross_entropy_backward", stream, args.logits},
             args.accumulate ? cross_entropy_backward_kernel<Config, shaped, true>
                             : cross_entropy_backward_kernel<Config, shaped, false>,
             row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0, kernel_args);
    };
    const auto shaped = [&]<class Config>() {
      if (is_shaped(args.options)) return run.template operator()<Config, true>();
      run.template operator()<Config, false>();
    };
    if (ends_in_part<T>(n, {args.logits, args.dlogits})) return shaped.template operator()<RaggedConfig<T>>();
    dispatch_passing_config<T>(n, rows_in_vectors(n, {args.logits, args.dlogits}), shaped);
  });
}

}  // namespace

void register_cross_entropy() {
  cross_entropy.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const CrossEntropyArgs& args) { return is_device_float(args.logits.dtype); }, run_cross_entropy});
  cross_entropy_backward.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                                [](const CrossEntropyBackwardArgs& args) {
                                                  return is_device_float(args.logits.dtype);
                                                },
                                                run_cross_entropy_backward});
}

}  // namespace ingot::kernels::cuda
