#include "ingot/benchmark/matmul.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/read_bandwidth.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/quant/linear.h"

namespace ingot::benchmark {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal());
  return x;
}

/// A weight as a model would hold it in this format.
struct Weight {
  Tensor dense;
  quant::PackedPtr packed;
  double bytes() const { return static_cast<double>(packed != nullptr ? packed->nbytes() : dense.nbytes()); }
  Tensor multiply(const Tensor& x) const {
    return packed != nullptr ? quant::linear(x, *packed) : linear(x, dense, {});
  }
};

Weight make_weight(const Tensor& values, const std::string& format) {
  if (format == "f32") return {values, nullptr};
  if (format == "bf16") return {to(values, DType::bf16), nullptr};
  if (format == "f16") return {to(values, DType::f16), nullptr};
  return {{}, quant::quantize_and_pack(values, format)};
}

struct Row {
  std::string format;
  double seconds = 0, bytes = 0;
};

// As many weights as fill 256 MB and more, one after the other, so that no cache holds them, as in a model.
Row measure(const Tensor& values, const Tensor& x, const std::string& format, std::int64_t runs) {
  const Weight first = make_weight(values, format);
  const auto copies = static_cast<std::size_t>(std::clamp(256e6 / first.bytes(), 1.0, 64.0));
  std::vector<Weight> weights{first};
  while (weights.size() < copies) {
    Weight copy = first;
    if (first.packed != nullptr) {
      auto packed = std::make_shared<quant::PackedMatrix>(*first.packed);
      packed->data = clone(packed->data);
      copy.packed = std::move(packed);
    } else {
      copy.dense = clone(first.dense);
    }
    weights.push_back(std::move(copy));
  }
  std::vector<double> times;
  for (std::int64_t run = -1; run < runs; ++run) {  // the first touches memory
    const double start = seconds();
    for (const Weight& weight : weights) static_cast<void>(weight.multiply(x));
    if (run >= 0) times.push_back((seconds() - start) / static_cast<double>(weights.size()));
  }
  return {format, median(times), first.bytes()};
}

}  // namespace

Report time_matmul(const MatmulOptions& o) {
  const NoGrad no_grad;
  const Tensor values = random({o.out, o.in}, 1), x = random({o.batch, o.in}, 2);
  std::vector<std::string> formats = o.formats;
  if (formats.empty()) formats = {"bf16", "q8_0", "q4_0", "q4_k", "q6_k", "int4-g128", "nf4", "fp8"};
  std::erase(formats, o.against);
  const Row against = measure(values, x, o.against, o.runs);
  std::vector<Row> rows{against};
  for (const std::string& format : formats) rows.push_back(measure(values, x, format, o.runs));
  ReadBandwidth memory(256e6);
  memory.sample();
  const double bandwidth = memory.bytes_per_second();
  const double operations = 2.0 * static_cast<double>(o.out * o.in * o.batch);
  Report report;
  report.text = fmt::format(
      "{} x {} weight, {} row(s) of activations, {} threads, median of {}; memory gives {:.1f} GB/s\n\n"
      "{:<15} {:>10} {:>9} {:>8} {:>9} {:>7}\n",
      o.out, o.in, o.batch, num_threads(), o.runs, bandwidth * 1e-9, "format", "time", "GFLOP/s", "GB/s",
      "of memory", "speed");
  nlohmann::ordered_json json{{"out", o.out},
                              {"in", o.in},
                              {"batch", o.batch},
                              {"threads", num_threads()},
                              {"bandwidth", bandwidth},
                              {"against", o.against},
                              {"formats", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    const double rate = row.bytes / row.seconds, ratio = against.seconds / row.seconds;
    json["formats"].push_back({{"format", row.format},
                               {"seconds", row.seconds},
                               {"gflops", operations / row.seconds * 1e-9},
                               {"weight_bytes", row.bytes},
                               {"share_of_bandwidth", rate / bandwidth},
                               {"ratio", ratio}});
    report.text += fmt::format("{:<15} {:>7.1f} us {:>9.1f} {:>8.1f} {:>7.0f} % {:>6.2f}x\n", row.format,
                               row.seconds * 1e6, operations / row.seconds * 1e-9, rate * 1e-9,
                               100 * rate / bandwidth, ratio);
  }
  report.json = dump_json(json, 2);
  return report;
}

}  // namespace ingot::benchmark
