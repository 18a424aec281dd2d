#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/cli/bench.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/norm.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/kernels/rope.h"
#include "ingot/kernels/softmax.h"
#include "ingot/ops/random.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

struct KernelBenchOptions {
  std::string device = "cpu", dtype = "f32";
  std::int64_t megabytes = 256, sequence = 4096, runs = 9;
  std::vector<std::string> kernels;
  bool json = false;
};

constexpr std::int64_t kWidth = 4096;  // of the rows that norms and softmax take
constexpr std::int64_t kHeads = 16, kHeadSize = 128, kVocabulary = 32768;

/// A kernel with everything it needs. bytes: what has to move, each operand once. operations: counted where
/// they, and not memory, are the bound.
struct Work {
  double bytes = 0, operations = 0;
  std::function<void()> run;
};

/// Where kernels run, and on what.
class Bench {
 public:
  Bench(Device device, DType dtype, std::int64_t bytes)
      : device_(device), dtype_(dtype), rows_(std::max<std::int64_t>(bytes / (kWidth * size(dtype)), 1)) {}

  Device device() const { return device_; }
  DType dtype() const { return dtype_; }
  Stream stream() const { return current_stream(device_); }
  std::int64_t rows() const { return rows_; }
  std::int64_t elements() const { return rows_ * kWidth; }

  Tensor values(const Shape& shape, DType dtype) {
    Tensor x = Tensor::empty(shape, dtype, device_);
    normal_(x, 0, 1, RngKey{++seed_, 0});
    return x;
  }
  Tensor values(const Shape& shape) { return values(shape, dtype_); }
  Tensor rows_of_values() { return values({rows_, kWidth}); }
  Tensor zeros(const Shape& shape, DType dtype) const { return Tensor::zeros(shape, dtype, device_); }
  Tensor result(const Shape& shape) const { return Tensor::empty(shape, dtype_, device_); }

  static std::int64_t size(DType dtype) { return static_cast<std::int64_t>(byte_size(dtype)); }

 private:
  Device device_;
  DType dtype_;
  std::int64_t rows_;
  std::uint64_t seed_ = 0;
};

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

Work copy_work(const Bench& bench, const Tensor& x, View from, const Tensor& y) {
  return {.bytes = bytes_of({x, y}), .run = [stream = bench.stream(), x, from, y] {
            kernels::launch(kernels::copy, stream, {.x = from, .y = y.view()});
          }};
}

Work copy(Bench& bench) {
  const Tensor x = bench.rows_of_values();
  return copy_work(bench, x, x.view(), bench.result(x.shape()));
}

Work cast(Bench& bench) {
  const Tensor x = bench.rows_of_values();
  const DType other = bench.dtype() == DType::f32 ? DType::bf16 : DType::f32;
  return copy_work(bench, x, x.view(), Tensor::empty(x.shape(), other, bench.device()));
}

Work transpose(Bench& bench) {
  const Tensor x = bench.rows_of_values();
  View turned = x.view();
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  return copy_work(bench, x, turned, bench.result({kWidth, bench.rows()}));
}

Work add(Bench& bench) {
  const Tensor a = bench.rows_of_values(), b = bench.rows_of_values(), y = bench.result(a.shape());
  return {.bytes = bytes_of({a, b, y}), .run = [stream = bench.stream(), a, b, y] {
            kernels::launch(kernels::binary, stream, {.a = a.view(), .b = b.view(), .y = y.view()});
          }};
}

Work gelu(Bench& bench) {
  const Tensor x = bench.rows_of_values(), y = bench.result(x.shape());
  return {.bytes = bytes_of({x, y}), .run = [stream = bench.stream(), x, y] {
            kernels::launch(kernels::unary, stream,
                            {.x = x.view(), .y = y.view(), .op = kernels::UnaryOp::gelu_tanh});
          }};
}

Work silu_mul(Bench& bench) {
  const Tensor gate = bench.rows_of_values(), up = bench.rows_of_values(), y = bench.result(gate.shape());
  return {.bytes = bytes_of({gate, up, y}), .run = [stream = bench.stream(), gate, up, y] {
            kernels::launch(kernels::silu_mul, stream, {.gate = gate.view(), .up = up.view(), .y = y.view()});
          }};
}

Work silu_mul_backward(Bench& bench) {
  const Tensor gate = bench.rows_of_values(), up = bench.rows_of_values(), dy = bench.rows_of_values();
  const Tensor dgate = bench.result(gate.shape()), dup = bench.result(gate.shape());
  return {.bytes = bytes_of({gate, up, dy, dgate, dup}),
          .run = [stream = bench.stream(), gate, up, dy, dgate, dup] {
            kernels::launch(kernels::silu_mul_backward, stream,
                            {.gate = gate.view(),
                             .up = up.view(),
                             .dy = dy.view(),
                             .dgate = dgate.view(),
                             .dup = dup.view()});
          }};
}

Work rms_norm(Bench& bench) {
  const Tensor x = bench.rows_of_values(), weight = bench.values({kWidth}), y = bench.result(x.shape());
  const Tensor rstd = bench.zeros({bench.rows()}, DType::f32);
  return {.bytes = bytes_of({x, y, rstd}), .run = [stream = bench.stream(), x, weight, y, rstd] {
            kernels::launch(
                kernels::rms_norm, stream,
                {.x = x.view(), .weight = weight.view(), .y = y.view(), .rstd = rstd.view(), .eps = 1e-5F});
          }};
}

Work residual_rms_norm(Bench& bench) {
  const Tensor x = bench.rows_of_values(), residual = bench.rows_of_values(), weight = bench.values({kWidth});
  const Tensor y = bench.result(x.shape()), sum = bench.result(x.shape());
  const Tensor rstd = bench.zeros({bench.rows()}, DType::f32);
  return {.bytes = bytes_of({x, residual, y, sum, rstd}),
          .run = [stream = bench.stream(), x, residual, weight, y, sum, rstd] {
            kernels::launch(kernels::rms_norm, stream,
                            {.x = x.view(),
                             .weight = weight.view(),
                             .y = y.view(),
                             .rstd = rstd.view(),
                             .eps = 1e-5F,
                             .residual = residual.view(),
                             .sum = sum.view()});
          }};
}

Work layer_norm(Bench& bench) {
  const Tensor x = bench.rows_of_values(), y = bench.result(x.shape());
  const Tensor weight = bench.values({kWidth}), bias = bench.values({kWidth});
  const Tensor mean = bench.zeros({bench.rows()}, DType::f32), rstd = bench.zeros({bench.rows()}, DType::f32);
  return {.bytes = bytes_of({x, y, mean, rstd}),
          .run = [stream = bench.stream(), x, weight, bias, y, mean, rstd] {
            kernels::launch(kernels::layer_norm, stream,
                            {.x = x.view(),
                             .weight = weight.view(),
                             .bias = bias.view(),
                             .y = y.view(),
                             .mean = mean.view(),
                             .rstd = rstd.view(),
                             .eps = 1e-5F});
          }};
}

Work rope(Bench& bench) {
  const Shape shape{1, bench.rows(), kWidth / kHeadSize, kHeadSize};
  const Tensor x = bench.values(shape), y = bench.result(shape);
  const Tensor cosines = bench.values({bench.rows(), kHeadSize / 2}, DType::f32);
  const Tensor sines = bench.values({bench.rows(), kHeadSize / 2}, DType::f32);
  return {.bytes = bytes_of({x, y, cosines, sines}), .run = [stream = bench.stream(), x, y, cosines, sines] {
            kernels::launch(kernels::rope, stream,
                            {.x = x.view(),
                             .y = y.view(),
                             .cos = cosines.view(),
                             .sin = sines.view(),
                             .rotated_heads = kWidth / kHeadSize});
          }};
}

Work softmax(Bench& bench) {
  const Tensor x = bench.rows_of_values(), y = bench.result(x.shape());
  return {.bytes = bytes_of({x, y}), .run = [stream = bench.stream(), x, y] {
            kernels::launch(kernels::softmax, stream, {.x = x.view(), .y = y.view()});
          }};
}

// Losses and the gradient in one pass, as training takes them.
Work cross_entropy(Bench& bench) {
  const std::int64_t rows = std::max<std::int64_t>(bench.elements() / kVocabulary, 1);
  const Tensor logits = bench.values({rows, kVocabulary}), dlogits = bench.result(logits.shape());
  const Tensor targets = bench.zeros({rows}, DType::i64), loss = bench.zeros({rows}, DType::f32);
  const Tensor lse = bench.zeros({rows}, DType::f32), denominator = bench.zeros({1}, DType::f32);
  kernels::launch(kernels::fill, bench.stream(),
                  {.y = denominator.view(), .value = static_cast<double>(rows)});
  return {.bytes = bytes_of({logits, dlogits}),
          .run = [stream = bench.stream(), logits, dlogits, targets, loss, lse, denominator] {
            kernels::launch(kernels::cross_entropy, stream,
                            {.logits = logits.view(),
                             .targets = targets.view(),
                             .loss = loss.view(),
                             .lse = lse.view(),
                             .dlogits = dlogits.view(),
                             .denominator = denominator.view()});
          }};
}

// Of half types with f32 master weights. Weights, moments and masters are read and written.
Work adamw(Bench& bench) {
  const Shape shape{bench.elements()};
  const bool half = bench.dtype() != DType::f32;
  const Tensor param = bench.values(shape), grad = bench.values(shape);
  const Tensor m = bench.zeros(shape, DType::f32), v = bench.zeros(shape, DType::f32);
  const Tensor master = half ? bench.values(shape, DType::f32) : Tensor();
  const double bytes =
      bytes_of({grad, m, m, v, v, param}) + (half ? bytes_of({master, master}) : bytes_of({param}));
  return {.bytes = bytes, .run = [stream = bench.stream(), param, grad, m, v, master] {
            const kernels::AdamWTensor tensor{.param = param.view(),
                                              .grad = grad.view(),
                                              .m = m.view(),
                                              .v = v.view(),
                                              .master = master.defined() ? master.view() : View{},
                                              .lr = 1e-4,
                                              .weight_decay = 0.01,
                                              .bias_correction1 = 0.5,
                                              .bias_correction2 = 0.5};
            kernels::launch(kernels::adamw, stream, {.tensors = std::span(&tensor, 1)});
          }};
}

struct AttentionOperands {
  AttentionOperands(Bench& bench, std::int64_t sequence)
      : shape{1, sequence, kHeads, kHeadSize},
        q(bench.values(shape)),
        k(bench.values(shape)),
        v(bench.values(shape)),
        out(bench.result(shape)),
        lse(bench.zeros({1, kHeads, sequence}, DType::f32)) {}
  /// Of the products that a causal mask leaves.
  double operations() const {
    return 2.0 * static_cast<double>(kHeads * kHeadSize) * static_cast<double>(shape[1]) *
           static_cast<double>(shape[1] + 1);
  }
  void forward(Stream stream) const {
    kernels::launch(
        kernels::attention, stream,
        {.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse.view(), .scale = kScale});
  }

  static constexpr float kScale = 0.088388348F;  // 128^-1/2
  Shape shape;
  Tensor q, k, v, out, lse;
};

Work attention(Bench& bench, std::int64_t sequence) {
  const AttentionOperands a(bench, sequence);
  return {.bytes = bytes_of({a.q, a.k, a.v, a.out}),
          .operations = a.operations(),
          .run = [stream = bench.stream(), a] { a.forward(stream); }};
}

Work attention_backward(Bench& bench, std::int64_t sequence) {
  const AttentionOperands a(bench, sequence);
  const Tensor dout = bench.values(a.shape), dq = bench.result(a.shape), dk = bench.result(a.shape),
               dv = bench.result(a.shape);
  a.forward(bench.stream());
  return {.bytes = bytes_of({a.q, a.k, a.v, a.out, dout, dq, dk, dv}),
          .operations = 2.5 * a.operations(),
          .run = [stream = bench.stream(), a, dout, dq, dk, dv] {
            kernels::launch(kernels::attention_backward, stream,
                            {.q = a.q.view(),
                             .k = a.k.view(),
                             .v = a.v.view(),
                             .out = a.out.view(),
                             .lse = a.lse.view(),
                             .dout = dout.view(),
                             .dq = dq.view(),
                             .dk = dk.view(),
                             .dv = dv.view(),
                             .scale = AttentionOperands::kScale});
          }};
}

struct Case {
  std::string name;
  std::function<Work(Bench&, const KernelBenchOptions&)> make;
};

const std::vector<Case>& cases() {
  const auto of = [](Work (*make)(Bench&)) {
    return [make](Bench& bench, const KernelBenchOptions&) { return make(bench); };
  };
  const auto over_sequence = [](Work (*make)(Bench&, std::int64_t)) {
    return [make](Bench& bench, const KernelBenchOptions& o) { return make(bench, o.sequence); };
  };
  static const std::vector<Case> list = {
      {"copy", of(copy)},
      {"cast", of(cast)},
      {"transpose", of(transpose)},
      {"add", of(add)},
      {"gelu", of(gelu)},
      {"silu_mul", of(silu_mul)},
      {"silu_mul_backward", of(silu_mul_backward)},
      {"rms_norm", of(rms_norm)},
      {"residual_rms_norm", of(residual_rms_norm)},
      {"layer_norm", of(layer_norm)},
      {"rope", of(rope)},
      {"softmax", of(softmax)},
      {"cross_entropy", of(cross_entropy)},
      {"adamw", of(adamw)},
      {"attention", over_sequence(attention)},
      {"attention_backward", over_sequence(attention_backward)},
  };
  return list;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const Case& each : cases()) names.push_back(each.name);
  return names;
}

/// Seconds that a piece of work takes, of as many in a row as fill some milliseconds: launches of a card run
/// beside the host.
class Timer {
 public:
  Timer(Device device, std::function<void()> run) : device_(device), run_(std::move(run)) {
    constexpr double kEnough = 5e-3;
    once(1);  // code is loaded, pages are touched
    repeats_ = std::clamp(static_cast<std::int64_t>(kEnough / std::max(once(1), 1e-7)), std::int64_t{1},
                          std::int64_t{1000});
  }
  double sample() { return samples_.emplace_back(once(repeats_)); }
  double seconds() const { return median(samples_); }

 private:
  double once(std::int64_t repeats) const {
    const double start = cli::seconds();
    for (std::int64_t i = 0; i < repeats; ++i) run_();
    backend(device_).synchronize(current_stream(device_));
    return (cli::seconds() - start) / static_cast<double>(repeats);
  }

  Device device_;
  std::function<void()> run_;
  std::int64_t repeats_ = 1;
  std::vector<double> samples_;
};

struct Result {
  std::string kernel;
  double seconds, bytes, operations;
  double of_copy;  ///< share of the bandwidth of copies that were taken in turn with it
};

Result measure(const Case& each, Bench& bench, const KernelBenchOptions& o, Timer& copies,
               double copied_bytes) {
  const Work work = each.make(bench, o);
  Timer timer(bench.device(), work.run);
  std::vector<double> shares;
  for (std::int64_t i = 0; i < o.runs; ++i) {
    const double limit = copied_bytes / copies.sample();
    shares.push_back(work.bytes / timer.sample() / limit);
  }
  return {each.name, timer.seconds(), work.bytes, work.operations, median(shares)};
}

nlohmann::ordered_json to_json(const Result& r, double product_rate) {
  nlohmann::ordered_json json{{"kernel", r.kernel},
                              {"seconds", r.seconds},
                              {"bytes", r.bytes},
                              {"bytes_per_second", r.bytes / r.seconds},
                              {"share_of_copy", r.of_copy}};
  if (r.operations > 0) {
    json["operations"] = r.operations;
    json["operations_per_second"] = r.operations / r.seconds;
    json["share_of_products"] = r.operations / r.seconds / product_rate;
  }
  return json;
}

void print_row(const Result& r, double product_rate) {
  fmt::print("{:<19} {:>8.3f} ms {:>8.1f} MB {:>8.1f} GB/s {:>5.0f} %", r.kernel, r.seconds * 1e3,
             r.bytes * 1e-6, r.bytes / r.seconds * 1e-9, 100 * r.of_copy);
  if (r.operations > 0)
    fmt::print(" {:>10.1f} GFLOP/s {:>5.0f} %", r.operations / r.seconds * 1e-9,
               100 * r.operations / r.seconds / product_rate);
  fmt::print("\n");
}

int run(const KernelBenchOptions& o) {
  for (const auto& [option, value] :
       {std::pair{"--megabytes", o.megabytes}, {"--sequence", o.sequence}, {"--runs", o.runs}})
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  const Device device = backend(parse_device(o.device)).device();
  Bench bench(device, parse_dtype(o.dtype), o.megabytes * 1'000'000);
  const double product_rate = measure_matmul_flops(bench.dtype(), device);
  const Work copied = copy(bench);
  Timer copies(device, copied.run);
  const std::string name(backend(device).capabilities().device_name);
  if (!o.json)
    fmt::print(
        "{}, {}, {} MB in the main operand, {} threads, medians of {}; products reach {:.0f} GFLOP/s\n\n"
        "{:<19} {:>11} {:>11} {:>13} {:>7} {:>18} {:>7}\n",
        name, o.dtype, o.megabytes, num_threads(), o.runs, product_rate * 1e-9, "kernel", "time", "moved",
        "rate", "of copy", "operations", "of rate");
  auto rows = nlohmann::ordered_json::array();
  for (const Case& each : cases()) {
    if (!o.kernels.empty() && std::ranges::find(o.kernels, each.name) == o.kernels.end()) continue;
    const Result result = measure(each, bench, o, copies, copied.bytes);
    rows.push_back(to_json(result, product_rate));
    if (!o.json) print_row(result, product_rate);
  }
  const nlohmann::ordered_json json{{"device", name},
                                    {"dtype", o.dtype},
                                    {"megabytes", o.megabytes},
                                    {"threads", num_threads()},
                                    {"copy_bytes_per_second", copied.bytes / copies.seconds()},
                                    {"products_per_second", product_rate},
                                    {"kernels", rows}};
  if (o.json) fmt::print("{}\n", dump_json(json, 2));
  return 0;
}

}  // namespace

void add_bench_kernels(Command& bench) {
  auto o = std::make_shared<KernelBenchOptions>();
  Command verb = bench.verb("kernels", "Time single kernels against what copies and products reach");
  verb.option("--device", o->device, "cpu, cuda or cuda:1");
  verb.option("--dtype", o->dtype, "What the operands are").one_of({"f32", "bf16", "f16"});
  verb.option("--kernel", o->kernels, "Kernels to time, several; none: all").one_of(case_names());
  verb.option("--megabytes", o->megabytes, "Size of a kernel's main operand; more than caches hold");
  verb.option("--sequence", o->sequence, "Tokens that attention spans (16 heads of 128, causal)");
  verb.option("--runs", o->runs, "Runs to take the median of");
  verb.flag("--json", o->json, "Print JSON");
  verb.example("ingot bench kernels --device cuda --dtype bf16", "a card's, whose bound is memory for most");
  verb.example("ingot bench kernels --kernel attention --kernel attention_backward --sequence 1024",
               "some of them");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
