// Convolutions of images in blocks of channels through oneDNN, whose own layouts these are. A primitive is
// made once for each set of sizes and kept.
#include "ingot/kernels/blocked_conv.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include <dnnl.hpp>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

using BlockedDesc = dnnl::memory::desc;
using BlockedTag = dnnl::memory::format_tag;

/// All that a primitive depends on.
struct BlockedProblem {
  bool plain = false;  ///< x: [N, C, H, W]
  std::int64_t block = 8;
  std::array<std::int64_t, 4> x{}, y{}, weight{};  ///< N, C, H, W and O, C, KH, KW
  ConvGeometry geometry;
  bool bias = false, residual = false, relu = false;
  int threads = 1;

  auto key() const {
    return std::tuple(plain, block, x, y, weight, geometry.stride, geometry.padding, geometry.dilation, bias,
                      residual, relu, threads);
  }
  bool operator<(const BlockedProblem& other) const { return key() < other.key(); }
};

struct BlockedPlan {
  dnnl::primitive primitive;
  BlockedDesc x, weight, y, bias;
  std::int64_t scratch_bytes = 0;
};

BlockedProblem blocked_problem_of(const BlockedConvArgs& args) {
  const bool plain = args.x.rank == 4;
  const View &x = args.x, &w = args.weight, &y = args.y;
  const std::int64_t b = y.dim(4), channels = plain ? x.dim(1) : x.dim(1) * b;
  return {.plain = plain,
          .block = b,
          .x = {x.dim(0), channels, x.dim(2), x.dim(3)},
          .y = {y.dim(0), y.dim(1) * b, y.dim(2), y.dim(3)},
          .weight = {y.dim(1) * b, channels, w.dim(plain ? 1 : 2), w.dim(plain ? 2 : 3)},
          .geometry = args.geometry,
          .bias = static_cast<bool>(args.bias),
          .residual = static_cast<bool>(args.residual),
          .relu = args.relu,
          .threads = num_threads()};
}

BlockedTag blocked_weight_tag(const BlockedProblem& p) {
  if (p.plain) return p.block == 16 ? BlockedTag::Ohwi16o : BlockedTag::Ohwi8o;
  return p.block == 16 ? BlockedTag::OIhw16i16o : BlockedTag::OIhw8i8o;
}

dnnl::primitive_attr blocked_attributes(const BlockedProblem& p) {
  dnnl::primitive_attr attributes = user_scratch();
  dnnl::post_ops after;
  if (p.residual) after.append_sum(1.0F);
  if (p.relu) after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  attributes.set_post_ops(after);
  return attributes;
}

/// The layouts, without a primitive.
BlockedPlan blocked_layouts(const BlockedProblem& p) {
  const auto desc = [](const std::array<std::int64_t, 4>& s, BlockedTag tag) {
    return BlockedDesc({s[0], s[1], s[2], s[3]}, dnnl::memory::data_type::f32, tag);
  };
  const BlockedTag image = p.block == 16 ? BlockedTag::nChw16c : BlockedTag::nChw8c;
  BlockedPlan plan;
  plan.x = desc(p.x, p.plain ? BlockedTag::nchw : image);
  plan.y = desc(p.y, image);
  plan.weight = desc(p.weight, blocked_weight_tag(p));
  if (p.bias) plan.bias = {{p.y[1]}, dnnl::memory::data_type::f32, BlockedTag::a};
  return plan;
}

/// Null where oneDNN has none that is fast.
std::shared_ptr<const BlockedPlan> make_blocked_plan(const BlockedProblem& p) {
  const ConvGeometry& g = p.geometry;
  // The padding at the end is what the sizes leave.
  const auto end = [&](std::size_t i) {
    return (p.y[2 + i] - 1) * g.stride[i] + (p.weight[2 + i] - 1) * g.dilation[i] + 1 - p.x[2 + i] -
           g.padding[i];
  };
  try {
    auto plan = std::make_shared<BlockedPlan>(blocked_layouts(p));
    const dnnl::convolution_forward::desc operation(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, plan->x, plan->weight,
        plan->bias, plan->y, {g.stride[0], g.stride[1]}, {g.dilation[0] - 1, g.dilation[1] - 1},
        {g.padding[0], g.padding[1]}, {end(0), end(1)});
    const dnnl::convolution_forward::primitive_desc found(operation, blocked_attributes(p), onednn_engine());
    if (std::string_view(found.impl_info_str()).find("jit") == std::string_view::npos) return nullptr;
    plan->primitive = dnnl::convolution_forward(found);
    plan->scratch_bytes = static_cast<std::int64_t>(found.scratchpad_desc().get_size());
    return plan;
  } catch (const dnnl::error&) {
    return nullptr;  // nothing for this geometry and processor
  }
}

std::shared_ptr<const BlockedPlan> blocked_plan_of(const BlockedProblem& problem) {
  constexpr std::size_t kMost = 1024;  // sizes that vary without end must not fill the memory
  static std::mutex mutex;
  static auto* plans = new std::map<BlockedProblem, std::shared_ptr<const BlockedPlan>>();
  const std::lock_guard lock(mutex);
  if (const auto found = plans->find(problem); found != plans->end()) return found->second;
  if (plans->size() >= kMost) plans->clear();
  return (*plans)[problem] = make_blocked_plan(problem);
}

bool is_not_empty(const BlockedConvArgs& args) {
  return args.x.numel() > 0 && args.y.numel() > 0 && args.weight.numel() > 0;
}
bool accepts_blocked(const BlockedConvArgs& args) {
  return is_not_empty(args) && blocked_plan_of(blocked_problem_of(args)) != nullptr;
}

// The primitive adds to what y holds.
void put_residual(const View& residual, const View& y) {
  if (residual.data == y.data) return;
  constexpr std::int64_t kGrain = 65536;
  parallel_for(y.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::copy_n(residual.as<float>() + begin, end - begin, y.as<float>() + begin);
  });
}

void run_blocked(const BlockedConvArgs& args, Stream) {
  const auto plan = blocked_plan_of(blocked_problem_of(args));
  if (args.residual) put_residual(args.residual, args.y);
  const dnnl::engine& engine = onednn_engine();
  dnnl::stream stream(engine);
  const auto scratch_floats = static_cast<std::size_t>(plan->scratch_bytes) / sizeof(float) + 1;
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, {plan->x, engine, args.x.data}},
      {DNNL_ARG_WEIGHTS, {plan->weight, engine, args.weight.data}},
      {DNNL_ARG_DST, {plan->y, engine, args.y.data}},
      {DNNL_ARG_SCRATCHPAD, scratch_memory(thread_scratch(4, scratch_floats), plan->scratch_bytes)}};
  if (args.bias) arguments[DNNL_ARG_BIAS] = {plan->bias, engine, args.bias.data};
  plan->primitive.execute(stream, arguments);
  stream.wait();
}

/// A copy [A, B, H, W] of a blocked tensor, in this thread's scratch memory.
struct PlainCopy {
  dnnl::memory inside, plain;
  View view;

  PlainCopy(const View& given, const BlockedDesc& layout, const std::array<std::int64_t, 4>& s,
            std::size_t slot)
      : inside(layout, onednn_engine(), given.data) {
    const BlockedDesc desc({s[0], s[1], s[2], s[3]}, dnnl::memory::data_type::f32, BlockedTag::abcd);
    float* data = thread_scratch(slot, desc.get_size() / sizeof(float));
    plain = dnnl::memory(desc, onednn_engine(), data);
    view = contiguous_view(data, {s[0], s[1], s[2], s[3]}, DType::f32, given.device);
  }
};

void rearrange(dnnl::memory& from, dnnl::memory& to, bool add = false) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  dnnl::stream stream(onednn_engine());
  dnnl::reorder(dnnl::reorder::primitive_desc(from, to, attributes)).execute(stream, from, to);
  stream.wait();
}

// Where oneDNN has no primitive for blocks.
void run_rearranged(const BlockedConvArgs& args, Stream stream) {
  const BlockedProblem p = blocked_problem_of(args);
  const BlockedPlan layouts = blocked_layouts(p);
  PlainCopy x(args.x, layouts.x, p.x, 5), weight(args.weight, layouts.weight, p.weight, 6),
      y(args.y, layouts.y, p.y, 7);
  rearrange(x.inside, x.plain);
  rearrange(weight.inside, weight.plain);
  launch(conv, stream,
         {.x = x.view,
          .weight = weight.view,
          .bias = args.bias,
          .y = y.view,
          .scratch = {},
          .geometry = args.geometry});
  if (args.residual) put_residual(args.residual, args.y);
  rearrange(y.plain, y.inside, static_cast<bool>(args.residual));
  if (!args.relu) return;
  auto* values = args.y.as<float>();
  for (std::int64_t i = 0; i < args.y.numel(); ++i) values[i] = std::max(values[i], 0.0F);
}

}  // namespace

void register_blocked_conv_library() {
  blocked_conv.add(DeviceType::cpu, {"onednn", ImplKind::library, accepts_blocked, run_blocked});
  blocked_conv.add(DeviceType::cpu, {"onednn_rearranged", ImplKind::library, is_not_empty, run_rearranged});
}

}  // namespace ingot::kernels::cpu
