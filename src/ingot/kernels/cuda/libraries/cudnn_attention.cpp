#include <bit>

#include <cudnn_frontend.h>

#include "ingot/kernels/cuda/libraries/cudnn.h"

// Attention through cuDNN where it is trained: with gradients to come, in bf16 or f16, causal (with or
// without a window) or unmasked. A sequence that is decoded has another length at every step, and each would
// wait for a plan; documents, caches that are not full and soft caps are left to our own kernels too.
namespace ingot::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

/// [B, length, heads, width] in cuDNN's order: batch, head, position, element.
DnnOperand heads(const View& view) {
  return {view.data,
          view.dtype,
          {view.dim(0), view.dim(2), view.dim(1), view.dim(3)},
          {view.stride(0), view.stride(2), view.stride(1), view.stride(3)}};
}

/// [B, heads, length]: a number of each query.
DnnOperand of_queries(const View& view) {
  return {view.data,
          view.dtype,
          {view.dim(0), view.dim(1), view.dim(2), 1},
          {view.stride(0), view.stride(1), view.stride(2), 1}};
}

/// What both passes set alike.
struct Scores {
  std::int64_t queries, keys, window;
  bool causal;
  float scale;

  template <class Args>
  explicit Scores(const Args& args)
      : queries(args.q.dim(1)),
        keys(args.k.dim(1)),
        window(args.mask.window),
        causal(args.mask.causal),
        scale(args.scale) {}

  std::vector<std::int64_t> settings() const {
    return {causal ? 1 : 0, window, std::bit_cast<std::int32_t>(scale)};
  }
  /// The last query stands beside the last key; a single one sees all of them, and cuDNN has an error where
  /// such a one is masked and heads are grouped (its release notes, 9.18.1).
  bool masked() const { return causal && (queries > 1 || window > 0); }
  template <class Attributes>
  Attributes attributes() const {
    Attributes made;
    made.set_attn_scale(scale);
    if (!masked()) return made;
    made.set_diagonal_alignment(queries == keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    made.set_diagonal_band_right_bound(0);
    if (window > 0) made.set_diagonal_band_left_bound(static_cast<int>(window));
    return made;
  }
};

class AttentionForward final : public DnnOperation {
 public:
  explicit AttentionForward(const AttentionArgs& args)
      : DnnOperation("attention",
                     {heads(args.q), heads(args.k), heads(args.v), heads(args.out), of_queries(args.lse)},
                     Scores(args).settings()),
        scores_(args) {}

  void describe(DnnGraph& graph) const override {
    auto attributes = scores_.attributes<fe::graph::SDPA_attributes>();
    attributes.set_generate_stats(true);
    const auto [out, lse] =
        graph.sdpa(input(graph, 0), input(graph, 1), input(graph, 2), std::move(attributes));
    output(out, 3);
    output(lse, 4);
  }

 private:
  Scores scores_;
};

class AttentionBackward final : public DnnOperation {
 public:
  explicit AttentionBackward(const AttentionBackwardArgs& args)
      : DnnOperation("attention_backward",
                     {heads(args.q), heads(args.k), heads(args.v), heads(args.out), heads(args.dout),
                      of_queries(args.lse), heads(args.dq), heads(args.dk), heads(args.dv)},
                     Scores(args).settings()),
        scores_(args) {}

  void describe(DnnGraph& graph) const override {
    auto attributes = scores_.attributes<fe::graph::SDPA_backward_attributes>();
    attributes.set_deterministic_algorithm(is_deterministic());
    const auto [dq, dk, dv] =
        graph.sdpa_backward(input(graph, 0), input(graph, 1), input(graph, 2), input(graph, 3),
                            input(graph, 4), input(graph, 5), std::move(attributes));
    output(dq, 6);
    output(dk, 7);
    output(dv, 8);
  }

 private:
  Scores scores_;
};

/// Whether the rows can be read 16 bytes at a time.
bool aligned(const View& view) {
  bool fits = reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.stride(3) == 1;
  for (int i = 0; i < 3; ++i) fits = fits && view.stride(i) % 8 == 0;
  return fits && view.dim(3) % 8 == 0;
}

template <class Args>
bool fits(const Args& args, std::initializer_list<View> tensors) {
  const DType dtype = args.q.dtype;
  if ((dtype != DType::bf16 && dtype != DType::f16) || !args.lse) return false;
  for (const View& view : tensors)
    if (view.data == nullptr || view.dtype != dtype || view.numel() == 0 || !aligned(view)) return false;
  const AttentionMask& mask = args.mask;
  // Its kernels take the greatest score for the greatest q·k, which a negative scale reverses.
  const bool plain = !mask.doc_start && !mask.kv_length && mask.chunk == 0 && args.softcap == 0.0F &&
                     args.scale > 0.0F && (args.q.dim(1) > 1 || mask.window == 0);
  // A query before the first key sees nothing, which is 0 here and not a number there.
  return plain && (mask.causal ? args.q.dim(1) <= args.k.dim(1) : mask.window == 0);
}

/// Whether gradients are numbers wherever the inputs are. cuDNN's kernels for Hopper do not hide what lies
/// behind 64 keys, or 192, 320, ..., where no mask does: zeros, whose weights overflow where a query's log
/// sum is below -88, and dq is NaN (cudnn-frontend's pull request 628, cuDNN 9.20); dk and dv are those of a
/// single query (its issue 1072, 9.26).
bool gives_numbers(const AttentionBackwardArgs& args) {
  const Scores scores(args);
  return scores.masked() || (scores.queries > 1 && scores.keys % 128 != 64);
}

/// Part `i` of `parts` equal ones of the batch.
View part_of(View view, std::int64_t parts, std::int64_t i) {
  if (view.data == nullptr) return view;
  view.shape[0] /= parts;
  const std::int64_t elements = i * view.dim(0) * view.stride(0);
  view.data = view.as<std::byte>() + elements * static_cast<std::int64_t>(byte_size(view.dtype));
  return view;
}
/// Whether every part of `lse` begins where cuDNN wants its tensors to; of the others fits() asks it.
bool parts_aligned(const AttentionBackwardArgs& args, std::int64_t parts) {
  return parts == 1 || reinterpret_cast<std::uintptr_t>(part_of(args.lse, parts, 1).data) % 16 == 0;
}

AttentionBackwardArgs part_of(AttentionBackwardArgs args, std::int64_t parts, std::int64_t i) {
  for (View* view :
       {&args.q, &args.k, &args.v, &args.out, &args.lse, &args.dout, &args.dq, &args.dk, &args.dv})
    *view = part_of(*view, parts, i);
  return args;
}

bool takes_backward(const AttentionBackwardArgs& args) {
  return dnn_operation(args) != nullptr && cudnn_problem().empty() &&
         dnn_batch_parts(dnn_device(args.q.device), args) > 0;
}

void run_backward(const AttentionBackwardArgs& args, Stream stream) {
  DnnDevice& device = dnn_device(stream.device);
  const std::int64_t parts = dnn_batch_parts(device, args);
  for (std::int64_t i = 0; i < parts; ++i) device.run(*dnn_operation(part_of(args, parts, i)), stream);
}

}  // namespace

std::int64_t dnn_batch_parts(DnnDevice& device, const AttentionBackwardArgs& args) {
  constexpr std::int64_t kMost = 8;  // what does not fit then is better left to our own kernels
  for (std::int64_t parts = 1; parts <= kMost && args.q.dim(0) % parts == 0; parts *= 2) {
    const auto operation = dnn_operation(part_of(args, parts, 0));
    if (operation == nullptr) return 0;
    if (parts_aligned(args, parts) && device.problem(*operation).empty()) return parts;
  }
  return 0;
}

std::unique_ptr<DnnOperation> dnn_operation(const AttentionArgs& args) {
  if (!fits(args, {args.q, args.k, args.v, args.out})) return nullptr;
  return std::make_unique<AttentionForward>(args);
}

std::unique_ptr<DnnOperation> dnn_operation(const AttentionBackwardArgs& args) {
  if (args.accumulate_dq || args.accumulate_dk || args.accumulate_dv) return nullptr;
  if (!fits(args, {args.q, args.k, args.v, args.out, args.dout, args.dq, args.dk, args.dv})) return nullptr;
  if (!gives_numbers(args)) return nullptr;
  return std::make_unique<AttentionBackward>(args);
}

void register_cudnn_attention() {
  attention.add(DeviceType::cuda,
                {"cudnn", ImplKind::library,
                 [](const AttentionArgs& args) { return dnn_takes(args, args.q); }, dnn_run<AttentionArgs>});
  attention_backward.add(DeviceType::cuda, {"cudnn", ImplKind::library, takes_backward, run_backward});
}

}  // namespace ingot::kernels::cuda
