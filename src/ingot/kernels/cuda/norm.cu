#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/row_packs.h"
#include "ingot/kernels/norm.h"

namespace ingot::kernels::cuda {
namespace {

// What is normalised: x, or where there is a residual their sum, rounded and written to `sum`.
template <class T>
struct NormInput {
  const T *x, *residual;
  T* sum;
};

/// A row of it, which the kernel goes through two or three times.
template <class Form, bool residual>
struct NormRow {
  using T = typename Form::T;
  using Index = typename Form::Index;
  RowPacks<Form> packs;

  __device__ __forceinline__ void take(const NormInput<T>& from, std::int64_t begin, Index n, int batch) {
    packs.fetch(from.x + begin, n, batch);
    if constexpr (residual) {
      RowPacks<Form> other;
      other.fetch(from.residual + begin, n, batch);
      packs.fill([&](int p, int v) { return packs.get(p, v) + other.get(p, v); });
      packs.write(from.sum + begin, n, batch);
    }
  }
  __device__ __forceinline__ void take_again(const NormInput<T>& from, std::int64_t begin, Index n,
                                             int batch) {
    packs.fetch_again((residual ? from.sum : from.x) + begin, n, batch);
  }
};

template <class Form, bool residual, class T = typename Form::T>
__global__ __launch_bounds__(Form::ThreadGroup::kThreads,
                             Form::kBlocks) void rms_norm_kernel(const __grid_constant__ NormInput<T> x,
                                                                 const T* weight, T* y, float* rstd,
                                                                 std::int64_t rows, std::int64_t d, float eps,
                                                                 float offset) {
  using ThreadGroup = typename Form::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Form::Index>(row < rows ? d : 0);
    NormRow<Form, residual> in;
    float squares = 0;
    for (int batch = 0; batch < Form::batches(d); ++batch) {
      in.take(x, row * d, n, batch);
      Form::each([&](int p, int v) { squares += in.packs.get(p, v) * in.packs.get(p, v); });
    }
    const float r = 1.0F / sqrtf(exchange.sum(squares) / static_cast<float>(d) + eps);
    if (ThreadGroup::lane() == 0 && n > 0) rstd[row] = r;
    for (int batch = 0; batch < Form::batches(d); ++batch) {
      RowPacks<Form> w;
      w.fetch(weight, n, batch);
      in.take_again(x, row * d, n, batch);
      w.fill([&](int p, int v) { return in.packs.get(p, v) * r * (offset + w.get(p, v)); });
      w.write(y + row * d, n, batch);
    }
  }
}

template <class Form, bool residual, class T = typename Form::T>
__global__ __launch_bounds__(Form::ThreadGroup::kThreads, Form::kBlocks) void layer_norm_kernel(
    const __grid_constant__ NormInput<T> x, const T* weight, const T* bias, T* y, float* mean, float* rstd,
    std::int64_t rows, std::int64_t d, float eps) {
  using ThreadGroup = typename Form::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Form::Index>(row < rows ? d : 0);
    NormRow<Form, residual> in;
    float sum = 0, squares = 0;
    for (int batch = 0; batch < Form::batches(d); ++batch) {
      in.take(x, row * d, n, batch);
      Form::each([&](int p, int v) { sum += in.packs.get(p, v); });
    }
    const float m = exchange.sum(sum) / static_cast<float>(d);
    for (int batch = 0; batch < Form::batches(d); ++batch) {
      in.take_again(x, row * d, n, batch);
      Form::each([&](int p, int v) {
        const float apart = Form::position(batch, p) < n ? in.packs.get(p, v) - m : 0.0F;
        squares += apart * apart;
      });
    }
    const float r = 1.0F / sqrtf(exchange.sum(squares) / static_cast<float>(d) + eps);
    if (ThreadGroup::lane() == 0 && n > 0) {
      mean[row] = m;
      rstd[row] = r;
    }
    for (int batch = 0; batch < Form::batches(d); ++batch) {
      RowPacks<Form> w, b;
      w.fetch(weight, weight == nullptr ? 0 : n, batch, 1.0F);
      b.fetch(bias, bias == nullptr ? 0 : n, batch);
      in.take_again(x, row * d, n, batch);
      w.fill([&](int p, int v) { return (in.packs.get(p, v) - m) * r * w.get(p, v) + b.get(p, v); });
      w.write(y + row * d, n, batch);
    }
  }
}

/// Calls f.template operator()<T, Form, residual>() for the rows of x.
template <class Args, class F>
void dispatch_norm(const char* kernel, const Args& args, bool in_packs, F&& f) {
  if (args.x.rows() == 0) return;
  dispatch_device_float(args.x.dtype, kernel, [&]<class T>() {
    dispatch_row_form<T>(row_width(args.x), in_packs, [&]<class Form>() {
      if (args.residual) return f.template operator()<T, Form, true>();
      f.template operator()<T, Form, false>();
    });
  });
}

void run_rms_norm(const RmsNormArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  const bool in_packs = rows_in_packs(d, {args.x, args.weight, args.y, args.residual, args.sum});
  dispatch_norm("rms_norm", args, in_packs, [&]<class T, class Form, bool residual>() {
    launch({"rms_norm", stream, args.x}, rms_norm_kernel<Form, residual>, row_grid<Form>(stream.device, rows),
           kRowBlock<Form>, 0, NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()},
           args.weight.as<T>(), args.y.as<T>(), args.rstd.as<float>(), rows, d, args.eps, args.weight_offset);
  });
}

void run_layer_norm(const LayerNormArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  const bool in_packs = rows_in_packs(d, {args.x, args.weight, args.bias, args.y, args.residual, args.sum});
  dispatch_norm("layer_norm", args, in_packs, [&]<class T, class Form, bool residual>() {
    launch({"layer_norm", stream, args.x}, layer_norm_kernel<Form, residual>,
           row_grid<Form>(stream.device, rows), kRowBlock<Form>, 0,
           NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()}, args.weight.as<T>(),
           args.bias.as<T>(), args.y.as<T>(), args.mean.as<float>(), args.rstd.as<float>(), rows, d,
           args.eps);
  });
}

}  // namespace

void register_norm() {
  layer_norm.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const LayerNormArgs& args) { return is_device_float(args.x.dtype); }, run_layer_norm});
  rms_norm.add(DeviceType::cuda,
               {"cuda", ImplKind::cuda, [](const RmsNormArgs& args) { return is_device_float(args.x.dtype); },
                run_rms_norm});
}

}  // namespace ingot::kernels::cuda
