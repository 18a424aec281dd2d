#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "ingot/core/view.h"

namespace ingot::kernels {

/// What a launch works on, as traces and graphs show it.
struct LaunchWork {
  struct Operand {
    const char* name;  ///< that of the member of Args
    const View* view;
  };
  static constexpr std::size_t kMostOperands = 16;

  std::array<Operand, kMostOperands> list{};
  std::size_t count = 0;
  double flops = 0;         ///< 0: not known
  std::size_t tensors = 0;  ///< of a kernel that takes any number of them
  bool adds = false;        ///< its result is added to what is there

  std::span<const Operand> operands() const { return {list.data(), count}; }
  void add(const char* name, const View& view) {
    if (view && count < kMostOperands) list[count++] = {name, &view};
  }
  /// Of all operands, each read or written once: the least that is moved.
  double bytes() const;
};

/// Whether an operand of this name is written: a result, or a gradient.
bool is_result(const char* name);

/// The members of a JSON object: implementation, operands ("f32[8,64]"), bytes, FLOPs.
std::string describe(const char* implementation, const LaunchWork& work);

/// The views of an Args struct by the names that they have in most of them, and flops(args) where the
/// kernel's header says it.
template <class Args>
LaunchWork work_of(const Args& args) {
  LaunchWork work;
  // NOLINTBEGIN(cppcoreguidelines-macro-usage): no other way to a member's name
#define INGOT_OPERAND(member) \
  if constexpr (requires { args.member.strides; }) work.add(#member, args.member);
  INGOT_OPERAND(x)
  INGOT_OPERAND(a)
  INGOT_OPERAND(b)
  INGOT_OPERAND(q)
  INGOT_OPERAND(k)
  INGOT_OPERAND(v)
  INGOT_OPERAND(gate)
  INGOT_OPERAND(up)
  INGOT_OPERAND(weight)
  INGOT_OPERAND(packed)
  INGOT_OPERAND(bias)
  INGOT_OPERAND(ids)
  INGOT_OPERAND(index)
  INGOT_OPERAND(indices)
  INGOT_OPERAND(condition)
  INGOT_OPERAND(saved)
  INGOT_OPERAND(residual)
  INGOT_OPERAND(logits)
  INGOT_OPERAND(targets)
  INGOT_OPERAND(target)
  INGOT_OPERAND(offsets)
  INGOT_OPERAND(also_x)
  INGOT_OPERAND(dy)
  INGOT_OPERAND(dout)
  INGOT_OPERAND(dloss)
  INGOT_OPERAND(y)
  INGOT_OPERAND(c)
  INGOT_OPERAND(out)
  INGOT_OPERAND(sum)
  INGOT_OPERAND(loss)
  INGOT_OPERAND(also_y)
  INGOT_OPERAND(dx)
  INGOT_OPERAND(dq)
  INGOT_OPERAND(dk)
  INGOT_OPERAND(dv)
  INGOT_OPERAND(dgate)
  INGOT_OPERAND(dup)
  INGOT_OPERAND(dweight)
  INGOT_OPERAND(dbias)
  INGOT_OPERAND(dlogits)
#undef INGOT_OPERAND
  // NOLINTEND(cppcoreguidelines-macro-usage)
  if constexpr (requires { flops(args); }) work.flops = flops(args);
  if constexpr (requires { args.beta != 0; }) work.adds = args.beta != 0;
  if constexpr (requires { args.accumulate_weight; }) work.adds = args.accumulate_weight;
  if constexpr (requires { args.tensors.size(); }) work.tensors = args.tensors.size();
  return work;
}

}  // namespace ingot::kernels
