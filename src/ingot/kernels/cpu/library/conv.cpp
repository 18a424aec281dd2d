// Convolutions of every geometry through oneDNN, in the layouts that it is fastest with. A primitive is made
// once for each set of sizes and kept. With matmul_precision() medium, the operands of f32 ones are rounded
// to bf16 where they are rearranged.
#include "ingot/kernels/conv.h"

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include <dnnl.hpp>

#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/matmul_precision.h"

namespace ingot::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

/// A oneDNN element type, or undef where oneDNN has none of ours.
dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  if (dtype == DType::f32) return Type::f32;
  return dtype == DType::bf16 ? Type::bf16 : Type::undef;
}

/// One tensor of a oneDNN primitive: `outside` as the caller has it, `inside` in the layout that the
/// primitive is fastest with. Buffers for rearranged data are this thread's scratch memory, one `slot` per
/// operand.
class Operand {
 public:
  Operand() = default;
  /// `input`: the primitive reads it; otherwise it writes it, and `accumulate` adds to what is outside.
  Operand(const dnnl::memory::desc& outside, const dnnl::memory::desc& inside, std::size_t slot, bool input,
          bool accumulate = false);

  /// The memory to hand to the primitive: `data` itself, or, where the layouts differ, a buffer (into which
  /// an input is rearranged).
  dnnl::memory begin(dnnl::stream& stream, void* data) const;
  /// After the primitive has run: brings an output from its buffer to `data`.
  void end(dnnl::stream& stream, const dnnl::memory& inner, void* data) const;

 private:
  dnnl::memory::desc outside_, inside_;
  dnnl::reorder reorder_;
  std::size_t slot_ = 0;
  bool direct_ = true, input_ = true;
};

Operand::Operand(const dnnl::memory::desc& outside, const dnnl::memory::desc& inside, std::size_t slot,
                 bool input, bool accumulate)
    : outside_(outside),
      inside_(inside),
      slot_(slot),
      direct_(outside == inside && !accumulate),
      input_(input) {
  if (direct_) return;
  const dnnl::engine& engine = onednn_engine();
  dnnl::primitive_attr attributes;
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const auto& from = input ? outside : inside;
  const auto& to = input ? inside : outside;
  reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to, attributes));
}

dnnl::memory Operand::begin(dnnl::stream& stream, void* data) const {
  const dnnl::engine& engine = onednn_engine();
  if (direct_) return {inside_, engine, data};
  const dnnl::memory inner(inside_, engine, thread_scratch(slot_, inside_.get_size() / sizeof(float) + 1));
  if (input_) {
    dnnl::memory outer(outside_, engine, data);
    dnnl::memory to = inner;
    reorder_.execute(stream, outer, to);
  }
  return inner;
}

void Operand::end(dnnl::stream& stream, const dnnl::memory& inner, void* data) const {
  if (direct_ || input_) return;
  dnnl::memory from = inner, to(outside_, onednn_engine(), data);
  reorder_.execute(stream, from, to);
}

enum class Pass : std::uint8_t { forward, backward_data, backward_weight };

/// All that a primitive depends on.
struct Problem {
  Pass pass = Pass::forward;
  DType dtype = DType::f32;
  DType operands = DType::f32;  ///< what they are multiplied as
  std::array<std::int64_t, 4> x{}, y{}, weight{};
  ConvGeometry geometry;
  bool bias = false, accumulate = false, accumulate_bias = false;

  auto key() const {
    return std::tuple(pass, dtype, operands, x, y, weight, geometry.stride, geometry.padding,
                      geometry.dilation, geometry.groups, geometry.channels_last, bias, accumulate,
                      accumulate_bias);
  }
  bool operator<(const Problem& other) const { return key() < other.key(); }
};

std::array<std::int64_t, 4> sizes(const View& view) {
  return {view.dim(0), view.dim(1), view.dim(2), view.dim(3)};
}

/// A primitive with its operands. Slots of scratch memory: 0 x, 1 weight, 2 y, 3 bias, 4 the primitive's own.
struct Plan {
  dnnl::primitive primitive;
  Operand x, weight, y, bias;
  std::int64_t scratch = 0;  // floats
  bool ok = false;
};

/// What the caller has (outside) and what the primitive may choose (any).
struct Descs {
  Desc x, y, weight, bias, any_x, any_y, any_weight;
  Dims stride, dilation, padding;
};

Dims image_dims(const std::array<std::int64_t, 4>& s, bool last) {
  return last ? Dims{s[0], s[3], s[1], s[2]} : Dims{s[0], s[1], s[2], s[3]};
}

Descs describe(const Problem& p) {
  const auto type = onednn_type(p.dtype), operands = onednn_type(p.operands);
  // What the pass writes stays as it is.
  const auto inner = [&](Pass writes) { return p.pass == writes ? type : operands; };
  const ConvGeometry& g = p.geometry;
  const Dims x = image_dims(p.x, g.channels_last), y = image_dims(p.y, g.channels_last);
  const Tag image = g.channels_last ? Tag::nhwc : Tag::nchw;
  const auto& w = p.weight;
  const Dims weight =
      g.groups == 1 ? Dims{w[0], w[1], w[2], w[3]} : Dims{g.groups, w[0] / g.groups, w[1], w[2], w[3]};
  // Channels-last is a layout that oneDNN runs as it is; for the other it is asked what it prefers.
  const Tag inside = g.channels_last ? image : Tag::any;
  return {.x = {x, type, image},
          .y = {y, type, image},
          .weight = {weight, type, g.groups == 1 ? Tag::oihw : Tag::goihw},
          .bias = p.bias ? Desc({w[0]}, type, Tag::a) : Desc(),
          .any_x = {x, inner(Pass::backward_data), inside},
          .any_y = {y, inner(Pass::forward), inside},
          .any_weight = {weight, inner(Pass::backward_weight), Tag::any},
          .stride = {g.stride[0], g.stride[1]},
          .dilation = {g.dilation[0] - 1, g.dilation[1] - 1},
          .padding = {g.padding[0], g.padding[1]}};
}

dnnl::convolution_forward::primitive_desc forward_desc(const Descs& d) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training,
                                             dnnl::algorithm::convolution_direct, d.any_x, d.any_weight,
                                             d.bias, d.any_y, d.stride, d.dilation, d.padding, d.padding);
  return {desc, user_scratch(), onednn_engine()};
}

// What a backward primitive asks for: the forward one with the same operands.
dnnl::convolution_forward::primitive_desc hint_of(Problem p) {
  p.pass = Pass::forward;
  return forward_desc(describe(p));
}

template <class Primitive, class PrimitiveDesc>
void finish(Plan& plan, const PrimitiveDesc& desc) {
  // oneDNN's own reference is not faster than ours.
  if (std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos) return;
  plan.primitive = Primitive(desc);
  plan.scratch = static_cast<std::int64_t>(desc.scratchpad_desc().get_size() / sizeof(float)) + 1;
  plan.ok = true;
}

void plan_forward(const Problem& p, const Descs& d, Plan& plan) {
  const auto desc = forward_desc(d);
  finish<dnnl::convolution_forward>(plan, desc);
  plan.x = {d.x, desc.src_desc(), 0, true};
  plan.weight = {d.weight, desc.weights_desc(), 1, true};
  plan.y = {d.y, desc.dst_desc(), 2, false};
  if (p.bias) plan.bias = {d.bias, d.bias, 3, true};
}

void plan_backward_data(const Problem& p, const Descs& d, Plan& plan) {
  const auto hint = hint_of(p);
  const dnnl::convolution_backward_data::desc operation(dnnl::algorithm::convolution_direct, d.any_x,
                                                        d.any_weight, d.any_y, d.stride, d.dilation,
                                                        d.padding, d.padding);
  const dnnl::convolution_backward_data::primitive_desc desc(operation, user_scratch(), onednn_engine(),
                                                             hint);
  finish<dnnl::convolution_backward_data>(plan, desc);
  plan.x = {d.x, desc.diff_src_desc(), 0, false, p.accumulate};
  plan.weight = {d.weight, desc.weights_desc(), 1, true};
  plan.y = {d.y, desc.diff_dst_desc(), 2, true};
}

void plan_backward_weight(const Problem& p, const Descs& d, Plan& plan) {
  const auto hint = hint_of(p);
  const dnnl::convolution_backward_weights::desc operation(dnnl::algorithm::convolution_direct, d.any_x,
                                                           d.any_weight, d.bias, d.any_y, d.stride,
                                                           d.dilation, d.padding, d.padding);
  const dnnl::convolution_backward_weights::primitive_desc desc(operation, user_scratch(), onednn_engine(),
                                                                hint);
  finish<dnnl::convolution_backward_weights>(plan, desc);
  plan.x = {d.x, desc.src_desc(), 0, true};
  plan.weight = {d.weight, desc.diff_weights_desc(), 1, false, p.accumulate};
  plan.y = {d.y, desc.diff_dst_desc(), 2, true};
  if (p.bias) plan.bias = {d.bias, desc.diff_bias_desc(), 3, false, p.accumulate_bias};
}

Plan make_plan(const Problem& p) {
  Plan plan;
  try {
    const Descs d = describe(p);
    if (p.pass == Pass::forward) plan_forward(p, d, plan);
    if (p.pass == Pass::backward_data) plan_backward_data(p, d, plan);
    if (p.pass == Pass::backward_weight) plan_backward_weight(p, d, plan);
  } catch (const dnnl::error&) {
    plan.ok = false;  // nothing for this dtype, geometry and processor: the reference runs
  }
  return plan;
}

/// The plan of a problem, kept for the next time. Null where oneDNN has none that is fast.
std::shared_ptr<const Plan> plan_of(const Problem& problem) {
  constexpr std::size_t kMost = 1024;  // sizes that vary without end must not fill the memory
  static std::mutex mutex;
  static auto* plans = new std::map<Problem, std::shared_ptr<const Plan>>();
  const std::lock_guard lock(mutex);
  if (const auto found = plans->find(problem); found != plans->end()) return found->second;
  if (plans->size() >= kMost) plans->clear();
  Plan plan = make_plan(problem);
  auto& kept = (*plans)[problem];
  if (plan.ok) kept = std::make_shared<const Plan>(std::move(plan));
  return kept;
}

struct Data {
  void *x, *weight, *y, *bias;
};

void execute(const Plan& plan, Pass pass, const Data& data) {
  dnnl::stream stream(onednn_engine());
  const dnnl::memory x = plan.x.begin(stream, data.x), y = plan.y.begin(stream, data.y);
  const dnnl::memory weight = plan.weight.begin(stream, data.weight);
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SCRATCHPAD, scratch_memory(thread_scratch(4, static_cast<std::size_t>(plan.scratch)),
                                           plan.scratch * std::int64_t{sizeof(float)})},
      {pass == Pass::backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, x},
      {pass == Pass::backward_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weight},
      {pass == Pass::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, y}};
  dnnl::memory bias;
  if (data.bias != nullptr) {
    bias = plan.bias.begin(stream, data.bias);
    arguments[pass == Pass::forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS] = bias;
  }
  plan.primitive.execute(stream, arguments);
  plan.x.end(stream, x, data.x);
  plan.y.end(stream, y, data.y);
  plan.weight.end(stream, weight, data.weight);
  if (data.bias != nullptr) plan.bias.end(stream, bias, data.bias);
  stream.wait();
}

Problem problem_of(const ConvArgs& args) {
  return {.dtype = args.x.dtype,
          .operands = args.x.dtype,
          .x = sizes(args.x),
          .y = sizes(args.y),
          .weight = sizes(args.weight),
          .geometry = args.geometry,
          .bias = static_cast<bool>(args.bias)};
}

Problem problem_of(const ConvBackwardDataArgs& args) {
  return {.pass = Pass::backward_data,
          .dtype = args.dx.dtype,
          .operands = args.dx.dtype,
          .x = sizes(args.dx),
          .y = sizes(args.dy),
          .weight = sizes(args.weight),
          .geometry = args.geometry,
          .accumulate = args.accumulate};
}

Problem problem_of(const ConvBackwardWeightArgs& args) {
  return {.pass = Pass::backward_weight,
          .dtype = args.x.dtype,
          .operands = args.x.dtype,
          .x = sizes(args.x),
          .y = sizes(args.dy),
          .weight = sizes(args.dweight),
          .geometry = args.geometry,
          .bias = static_cast<bool>(args.dbias),
          .accumulate = args.accumulate_dweight,
          .accumulate_bias = args.accumulate_dbias};
}

template <class Args>
Problem rounded_problem_of(const Args& args) {
  Problem problem = problem_of(args);
  problem.operands = DType::bf16;
  return problem;
}

template <class Args>
bool has_weight(const Args& args) {
  if constexpr (requires { args.dweight; }) return static_cast<bool>(args.dweight);
  return true;
}

bool has_plan(const Problem& problem) {
  const auto empty = [](const auto& shape) { return shape[0] * shape[1] * shape[2] * shape[3] == 0; };
  return onednn_type(problem.dtype) != dnnl::memory::data_type::undef && !empty(problem.x) &&
         !empty(problem.y) && plan_of(problem) != nullptr;
}

template <class Args>
bool accepts(const Args& args) {
  return has_weight(args) && has_plan(problem_of(args));
}

// Small ones do not pay for the rearrangement. Weight gradients of narrow images are slower in bf16: 0.8
// times as fast with five columns, 1.2 times with twelve, 1.6 times with 24.
bool is_worth_rounding(const Problem& p) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // multiply-adds
  constexpr std::int64_t kNarrow = 8;
  const auto count = [](const auto& shape) { return shape[0] * shape[1] * shape[2] * shape[3]; };
  const std::int64_t width = p.y[p.geometry.channels_last ? 2 : 3];
  return count(p.y) * count(p.weight) / p.weight[0] >= kSmall &&
         (p.pass != Pass::backward_weight || width >= kNarrow);
}

template <class Args>
bool accepts_rounded(const Args& args) {
  if (matmul_precision() != MatmulPrecision::medium || !has_weight(args) || !use_bf16_dot_products())
    return false;
  const Problem problem = rounded_problem_of(args);
  return problem.dtype == DType::f32 && problem.weight[0] > 0 && is_worth_rounding(problem) &&
         has_plan(problem);
}

void execute(const Problem& problem, const Data& data) { execute(*plan_of(problem), problem.pass, data); }

Data data_of(const ConvArgs& args) { return {args.x.data, args.weight.data, args.y.data, args.bias.data}; }
Data data_of(const ConvBackwardDataArgs& args) {
  return {args.dx.data, args.weight.data, args.dy.data, nullptr};
}
Data data_of(const ConvBackwardWeightArgs& args) {
  return {args.x.data, args.dweight.data, args.dy.data, args.dbias.data};
}

template <class Args>
void run_as_given(const Args& args, Stream) {
  execute(problem_of(args), data_of(args));
}

template <class Args>
void run_rounded(const Args& args, Stream) {
  execute(rounded_problem_of(args), data_of(args));
}

template <class Args>
void add_rounded(Kernel<Args>& kernel) {
  kernel.add(DeviceType::cpu, {"onednn_bf16_rounded", ImplKind::library, accepts_rounded<Args>,
                               run_rounded<Args>, InstructionSet::avx512_bf16});
}

template <class Args>
void add_as_given(Kernel<Args>& kernel) {
  kernel.add(DeviceType::cpu, {"onednn", ImplKind::library, accepts<Args>, run_as_given<Args>});
}

}  // namespace

void register_conv_rounded() {
  add_rounded(conv);
  add_rounded(conv_backward_data);
  add_rounded(conv_backward_weight);
}

void register_conv_library() {
  add_as_given(conv);
  add_as_given(conv_backward_data);
  add_as_given(conv_backward_weight);
}

}  // namespace ingot::kernels::cpu
