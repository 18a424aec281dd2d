#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/delta_chunk.h"
#include "ingot/kernels/delta_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/delta_chunks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/delta_chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Rows [first, last) of a head's state through steps [0, end). A panel of them is a matrix of keys' width by
// kPanel columns: the state, transposed.
class DeltaForward {
 public:
  DeltaForward(const DeltaRuleArgs& args, const ScanHead& head, std::int64_t first, std::int64_t last)
      : args_(args),
        at_(head),
        first_(first),
        last_(last),
        arena_(thread_scratch(0, static_cast<std::size_t>(floats()))),
        chunk_(arena_, head.width),
        errors_(arena_.take(kDeltaChunk * kPanel)),
        added_(arena_.take(kDeltaChunk * kPanel)),
        y_(arena_.take(kDeltaChunk * kPanel)),
        states_(arena_.take(panels() * at_.width * kPanel)) {}

  void run(std::int64_t end) {
    for (std::int64_t i = 0; i < panels(); ++i)
      load_tile_transposed({state_rows(i), DType::f32, columns(i), at_.width, at_.width}, state(i), kPanel);
    for (std::int64_t begin = 0; begin < end; begin += kDeltaChunk) {
      const DeltaPieces pieces(at_, args_.starts, begin, std::min(begin + kDeltaChunk, end));
      for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        chunk_.load(args_, at_, pieces[piece]);
        for (std::int64_t i = 0; i < panels(); ++i) advance(pieces[piece], i);
      }
    }
    for (std::int64_t i = 0; i < panels(); ++i)
      load_tile_transposed({state(i), DType::f32, at_.width, columns(i), kPanel}, state_rows(i), at_.width);
  }

 private:
  std::int64_t panels() const { return (last_ - first_ + kPanel - 1) / kPanel; }
  std::int64_t columns(std::int64_t panel) const { return std::min(kPanel, last_ - first_ - panel * kPanel); }
  std::int64_t floats() const {
    return DeltaChunk::floats(at_.width) + (3 * kDeltaChunk + panels() * at_.width) * kPanel;
  }
  float* state(std::int64_t panel) const { return states_ + panel * at_.width * kPanel; }
  float* state_rows(std::int64_t panel) const {
    return args_.state.as<float>() + at_.state() + (first_ + panel * kPanel) * at_.width;
  }

  void advance(const DeltaPiece& piece, std::int64_t panel) {
    const std::int64_t n = columns(panel), place = at_.x(piece.begin) + first_ + panel * kPanel,
                       stride = at_.heads * at_.size;
    load_tile({args_.x.as<float>() + place, DType::f32, piece.steps(), n, stride}, errors_, kPanel);
    find_errors(chunk_, piece.fresh ? nullptr : state(panel), errors_, added_, n, kPanel);
    if (piece.fresh) {
      std::fill_n(y_, piece.steps() * kPanel, 0.0F);
    } else {
      multiply({.m = piece.steps(),
                .n = n,
                .k = at_.width,
                .a = chunk_.queries_in,
                .a_row = chunk_.key_stride,
                .b = state(panel),
                .ldb = kPanel,
                .c = y_,
                .ldc = kPanel});
    }
    multiply_lower({.m = piece.steps(),
                    .n = n,
                    .a = chunk_.answers,
                    .a_row = kDeltaStride,
                    .b = added_,
                    .ldb = kPanel,
                    .c = y_,
                    .ldc = kPanel},
                   true);
    store_tile(y_, kPanel, {args_.y.as<float>() + place, DType::f32, piece.steps(), n, stride}, false);
    advance_state(chunk_, piece.fresh, added_, state(panel), n, kPanel);
  }

  const DeltaRuleArgs& args_;
  const ScanHead& at_;
  std::int64_t first_, last_;
  FloatArena arena_;
  DeltaChunk chunk_;
  float *errors_, *added_, *y_, *states_;
};

void delta_chunks(const DeltaRuleArgs& args, const ScanHead& head, std::int64_t first, std::int64_t last,
                  std::int64_t end) {
  DeltaForward(args, head, first, last).run(end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(delta_chunks);

// Whole chunks, and what is left of the steps: a few of them one by one, so that steps have the same bits
// whether a call ends there or a multiple of chunks before.
void run_delta_chunks(const DeltaRuleArgs& args, Stream) {
  const std::int64_t heads = args.x.dim(0) * args.x.dim(2), steps = args.x.dim(1), size = args.x.dim(3);
  const std::int64_t rest = steps % kDeltaChunk, end = rest < kFewDeltaSteps ? steps - rest : steps;
  // Parts of a head make the matrices of its keys once more each: only where there are threads to spare.
  const std::int64_t panels = (size + kPanel - 1) / kPanel,
                     spare = (num_threads() + heads - 1) / std::max<std::int64_t>(heads, 1),
                     parts = std::clamp<std::int64_t>(spare, 1, panels),
                     rows = (panels + parts - 1) / parts * kPanel;
  parallel_for(heads * parts, 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t first = std::min(i % parts * rows, size), last = std::min(first + rows, size);
      if (first == last) continue;
      const ScanHead head(args.x, args.keys, i / parts);
      HWY_DYNAMIC_DISPATCH(delta_chunks)(args, head, first, last, end);
      if (end < steps) delta_rule_rows(args, head, first, last, end);
    }
  });
}

}  // namespace

void register_delta_chunks_simd() {
  delta_rule.add(DeviceType::cpu,
                 {"chunked", ImplKind::simd, takes_delta_chunks<DeltaRuleArgs>, run_delta_chunks});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
