#include "ingot/kernels/launch_work.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ingot::kernels {
namespace {

constexpr std::array<std::string_view, 15> kResults{"y",      "c",   "out",     "sum",   "loss",
                                                    "also_y", "dx",  "dq",      "dk",    "dv",
                                                    "dgate",  "dup", "dweight", "dbias", "dlogits"};

// Of what memory it takes up: a broadcast axis costs nothing.
double bytes_of(const View& view) {
  double elements = 1;
  for (int axis = 0; axis < view.rank; ++axis)
    if (view.stride(axis) != 0) elements *= static_cast<double>(view.dim(axis));
  return elements * static_cast<double>(byte_size(view.dtype));
}

}  // namespace

double LaunchWork::bytes() const {
  double sum = 0;
  for (const Operand& operand : operands()) sum += bytes_of(*operand.view);
  return sum;
}

bool is_result(const char* name) {
  return std::ranges::find(kResults, std::string_view(name)) != kResults.end();
}

std::string describe(const char* implementation, const LaunchWork& work) {
  std::string text = fmt::format("\"implementation\":\"{}\"", implementation);
  for (const LaunchWork::Operand& operand : work.operands()) {
    const View& view = *operand.view;
    const std::span<const std::int64_t> dims(view.shape.data(), static_cast<std::size_t>(view.rank));
    text += fmt::format(",\"{}\":\"{}[{}]\"", operand.name, name(view.dtype), fmt::join(dims, ","));
  }
  if (work.tensors > 0) text += fmt::format(",\"tensors\":{}", work.tensors);
  if (work.count > 0) text += fmt::format(",\"bytes\":{}", static_cast<std::int64_t>(work.bytes()));
  if (work.flops > 0) text += fmt::format(",\"flops\":{}", static_cast<std::int64_t>(work.flops));
  return text;
}

}  // namespace ingot::kernels
