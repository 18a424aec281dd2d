#include "ingot/benchmark/read_bandwidth.h"

#include <algorithm>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/benchmark/measure.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/ops/reduce.h"

namespace ingot::benchmark {

ReadBandwidth::ReadBandwidth(double bytes, Device device)
    : block_(Tensor::zeros({static_cast<std::int64_t>(std::clamp(bytes, 1.0e6, 1.0e9)) / 512 * 128},
                           DType::f32, device)) {
  has_host_memory(device) ? pass() : static_cast<void>(seconds_on_device());
}

// A sum reads everything and writes nothing. Several of them, since the host takes its time to begin.
double ReadBandwidth::seconds_on_device() const {
  constexpr int kPasses = 10;
  const NoGrad no_grad;
  const Device device = block_.device();
  const double start = seconds();
  for (int i = 0; i < kPasses; ++i) static_cast<void>(sum(block_));
  backend(device).synchronize(current_stream(device));
  return (seconds() - start) / kPasses;
}

// Eight lines at a time, asked for 8 KiB ahead: plain loads reach less.
void ReadBandwidth::pass() {
  using Lanes = float __attribute__((vector_size(64)));
  const std::int64_t groups = block_.numel() / 128;
  const auto* lanes = reinterpret_cast<const Lanes*>(block_.data<float>());
  std::vector<float> sums(static_cast<std::size_t>(num_threads()));
  parallel_for(num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      Lanes sum[8] = {};
      const std::int64_t last = groups * (part + 1) / num_threads();
      for (std::int64_t group = groups * part / num_threads(); group < last; ++group) {
        const Lanes* from = lanes + group * 8;
        for (int k = 0; k < 8; ++k) {
          __builtin_prefetch(from + 128 + k);
          sum[k] += from[k];
        }
      }
      for (const Lanes& s : sum) sums[static_cast<std::size_t>(part)] += s[0];
    }
  });
  // Block and sums are seen outside, so that the loads have to happen.
  asm volatile("" : : "r"(sums.data()) : "memory");
}

void ReadBandwidth::sample() {
  for (int i = 0; i < 3; ++i) {
    if (!has_host_memory(block_.device())) {
      times_.push_back(seconds_on_device());
      continue;
    }
    const double start = seconds();
    pass();
    times_.push_back(seconds() - start);
  }
}

double ReadBandwidth::bytes_per_second() const {
  return static_cast<double>(block_.nbytes()) / median(times_);
}

}  // namespace ingot::benchmark
