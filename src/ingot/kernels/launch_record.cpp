#include "ingot/kernels/launch_record.h"

#include <bit>
#include <cstring>

namespace ingot::kernels {
namespace {

// The next word of a record.
template <class T>
T take(std::span<const std::byte>& record) {
  static_assert(sizeof(T) == sizeof(std::uint64_t));
  T value{};
  std::memcpy(&value, record.data(), sizeof(value));
  record = record.subspan(sizeof(value));
  return value;
}

// Type, rank and, a bit for each, the axes that are broadcast.
std::uint64_t kind_of(const View& view) {
  std::uint64_t broadcast = 0;
  for (int axis = 0; axis < view.rank; ++axis)
    broadcast |= static_cast<std::uint64_t>(view.stride(axis) == 0) << axis;
  return static_cast<std::uint64_t>(view.dtype) << 16 | static_cast<std::uint64_t>(view.rank) << 8 |
         broadcast;
}

View take_view(std::span<const std::byte>& record) {
  const auto kind = take<std::uint64_t>(record);
  View view;
  view.dtype = static_cast<DType>(kind >> 16);
  view.rank = static_cast<std::int32_t>(kind >> 8 & 0xffU);
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis) {
    view.shape[axis] = take<std::int64_t>(record);
    view.strides[axis] = (kind >> axis & 1U) != 0 ? 0 : 1;
  }
  return view;
}

}  // namespace

LaunchRecord::LaunchRecord(const char* implementation, const LaunchWork& work) {
  put(reinterpret_cast<std::uintptr_t>(implementation));
  put(std::bit_cast<std::uint64_t>(work.flops));
  put(work.tensors);
  put(work.count);
  for (const LaunchWork::Operand& operand : work.operands()) {
    put(reinterpret_cast<std::uintptr_t>(operand.name));
    put(kind_of(*operand.view));
    for (int axis = 0; axis < operand.view->rank; ++axis)
      put(static_cast<std::uint64_t>(operand.view->dim(axis)));
  }
}

std::string LaunchRecord::describe(std::span<const std::byte> bytes) {
  const auto* implementation = take<const char*>(bytes);
  LaunchWork work;
  work.flops = take<double>(bytes);
  work.tensors = take<std::uint64_t>(bytes);
  work.count = take<std::uint64_t>(bytes);
  std::array<View, LaunchWork::kMostOperands> views;
  for (std::size_t i = 0; i < work.count; ++i) {
    const auto* name = take<const char*>(bytes);
    views[i] = take_view(bytes);
    work.list[i] = {name, &views[i]};
  }
  return kernels::describe(implementation, work);
}

}  // namespace ingot::kernels
