#include "ingot/benchmark/kernels.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/benchmark/kernel_cases.h"
#include "ingot/benchmark/measure.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/train/machine_limit.h"

namespace ingot::benchmark {
namespace {

struct KernelBenchOptions {
  std::string device = "cpu", dtype = "f32";
  std::int64_t megabytes = 256, sequence = 4096, runs = 9;
  std::vector<std::string> kernels;
  bool json = false;
};

/// Seconds that a piece of work takes, of as many in a row as fill some milliseconds: launches of a GPU run
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
    const double start = benchmark::seconds();
    for (std::int64_t i = 0; i < repeats; ++i) run_();
    backend(device_).synchronize(current_stream(device_));
    return (benchmark::seconds() - start) / static_cast<double>(repeats);
  }

  Device device_;
  std::function<void()> run_;
  std::int64_t repeats_ = 1;
  std::vector<double> samples_;
};

struct Result {
  std::string kernel, implementation;
  double seconds, bytes, operations;
  double of_copy;  ///< share of the bandwidth of copies that were taken in turn with it
};

/// What runs the kernel that takes the work longest.
std::string implementation_of(const KernelWork& work) {
  const kernels::LaunchProfile profile;
  work.run();
  const auto entries = profile.entries();
  return entries.empty() ? "" : entries.front().implementation;
}

Result measure(const KernelCase& each, KernelOperands& operands, std::int64_t runs, Timer& copies,
               double copied_bytes) {
  const KernelWork work = each.make(operands);
  std::string implementation = implementation_of(work);
  Timer timer(operands.device(), work.run);
  std::vector<double> shares;
  for (std::int64_t i = 0; i < runs; ++i) {
    const double limit = copied_bytes / copies.sample();
    shares.push_back(work.bytes / timer.sample() / limit);
  }
  return {each.name, std::move(implementation), timer.seconds(), work.bytes, work.operations, median(shares)};
}

nlohmann::ordered_json to_json(const Result& r, double matmul_rate) {
  nlohmann::ordered_json json{
      {"kernel", r.kernel}, {"implementation", r.implementation},      {"seconds", r.seconds},
      {"bytes", r.bytes},   {"bytes_per_second", r.bytes / r.seconds}, {"share_of_copy", r.of_copy}};
  if (r.operations > 0) {
    json["operations"] = r.operations;
    json["operations_per_second"] = r.operations / r.seconds;
    json["share_of_matmul_rate"] = r.operations / r.seconds / matmul_rate;
  }
  return json;
}

std::string row_text(const Result& r, double matmul_rate) {
  std::string text = fmt::format("{:<20} {:<13} {:>8.3f} ms {:>8.1f} MB {:>8.1f} GB/s {:>5.0f} %", r.kernel,
                                 r.implementation, r.seconds * 1e3, r.bytes * 1e-6,
                                 r.bytes / r.seconds * 1e-9, 100 * r.of_copy);
  if (r.operations > 0)
    text += fmt::format(" {:>10.1f} GFLOP/s {:>5.0f} %", r.operations / r.seconds * 1e-9,
                        100 * r.operations / r.seconds / matmul_rate);
  return text + "\n";
}

}  // namespace

std::vector<std::string> kernel_case_names() {
  std::vector<std::string> names;
  for (const KernelCase& each : kernel_cases()) names.push_back(each.name);
  return names;
}

Report time_kernels(const KernelsOptions& o, const std::function<void(const std::string&)>& shown) {
  const Device device = choose_device(o.device);
  KernelOperands operands(device, parse_dtype(o.dtype), o.megabytes * 1'000'000, o.sequence);
  const double matmul_rate = measure_matmul_flops(operands.dtype(), device);
  const KernelWork copied = kernel_cases().front().make(operands);
  Timer copies(device, copied.run);
  const std::string name(backend(device).capabilities().device_name);
  Report report;
  const auto add = [&](const std::string& line) {
    report.text += line;
    if (shown) shown(line);
  };
  add(fmt::format(
      "{}, {}, {} MB in the main operand, {} threads, medians of {}; matmuls reach {:.0f} GFLOP/s\n\n"
      "{:<20} {:<13} {:>11} {:>11} {:>13} {:>7} {:>18} {:>7}\n",
      name, o.dtype, o.megabytes, num_threads(), o.runs, matmul_rate * 1e-9, "kernel", "run by", "time",
      "moved", "rate", "of copy", "operations", "of rate"));
  auto rows = nlohmann::ordered_json::array();
  for (const KernelCase& each : kernel_cases()) {
    const bool named = std::ranges::find(o.kernels, each.name) != o.kernels.end();
    if (!named && (!o.kernels.empty() || (each.slow_on_cpu && has_host_memory(device)))) continue;
    try {
      const Result result = measure(each, operands, o.runs, copies, copied.bytes);
      rows.push_back(to_json(result, matmul_rate));
      add(row_text(result, matmul_rate));
    } catch (const Error& error) {  // the others' results count all the same
      report.failed = true;
      rows.push_back({{"kernel", each.name}, {"problem", error.what()}});
      add(fmt::format("{:<20} {}\n", each.name, error.what()));
    }
  }
  const nlohmann::ordered_json json{{"device", name},
                                    {"dtype", o.dtype},
                                    {"megabytes", o.megabytes},
                                    {"threads", num_threads()},
                                    {"copy_bytes_per_second", copied.bytes / copies.seconds()},
                                    {"products_per_second", matmul_rate},
                                    {"kernels", rows}};
  report.json = dump_json(json, 2);
  return report;
}

}  // namespace ingot::benchmark
