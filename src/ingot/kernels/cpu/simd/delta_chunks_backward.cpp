#include <algorithm>

#include "ingot/kernels/cpu/delta_chunk.h"
#include "ingot/kernels/delta_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/delta_chunks_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/delta_chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// A head's steps from the last to the first, a chunk at a time. Of a chunk with the state S before it, the
// gradient G of that behind it, e = `added` and c[t] the sums of decays (delta_chunk-inl.h):
//   de[s] = Σ_{t >= s} answers[t, s] · dy[t] + left[s] · G·keys[s]
//   dr[s] = de[s] + Σ_{t > s} corrections[t, s] · dx[t],  dx = beta · dr,  dbeta = dr · errors
//   A[t, s] = between · (−dx[t] · e[s]) of s < t, B[t, s] = between · (dy[t] · e[s]) of s <= t
//   dqueries[t] = Σ B[t, s] · keys[s] + reach[t] · Sᵀ·dy[t]
//   dkeys[t] = Σ (A + Aᵀ)[t, s] · keys[s] + Σ B[s, t] · queries[s] − reach[t] · Sᵀ·dx[t] + left[t] · Gᵀ·e[t]
//   G before = reach[last] · G + Σ reach[t] · (dy[t] · queries[t]ᵀ − dx[t] · keys[t]ᵀ)
// and d c[t] is what each of them takes by exp(c[t]), less what it takes by exp(−c[t]).
class DeltaBackwardChunks {
 public:
  DeltaBackwardChunks(const DeltaRuleBackwardArgs& args, const ScanHead& head)
      : args_(args),
        at_(head),
        head_(head.b * head.heads + head.h),
        stride_(head.size + kColumns),
        key_stride_(head.width + kColumns),
        arena_(thread_scratch(0, static_cast<std::size_t>(floats()))),
        chunk_(arena_, head.width) {
    for (float** rows : {&errors_, &added_, &dvalues_, &dy_}) *rows = arena_.take(kDeltaChunk * stride_);
    for (float** rows : {&dkeys_, &dqueries_}) *rows = arena_.take(kDeltaChunk * key_stride_);
    for (float** square : {&of_keys_, &of_queries_}) *square = arena_.take(kDeltaChunk * kDeltaStride);
    turned_ = arena_.take(at_.size * kDeltaStride);
    for (float** state : {&state_, &gradient_}) *state = arena_.take(at_.width * stride_);
  }

  void run() {
    const std::int64_t chunks = (at_.steps + kDeltaChunk - 1) / kDeltaChunk;
    // As many chunks' states at once as there is memory for those of steps.
    const std::int64_t together = std::min(chunks, args_.history.dim(3)),
                       parts = (chunks + together - 1) / together;
    std::fill_n(part_state(0), at_.size * at_.width, 0.0F);
    for (std::int64_t part = 0; part + 1 < parts; ++part)
      keep_states(part * together, (part + 1) * together, part_state(part), part_state(part + 1), false);
    std::fill_n(state_gradient(), at_.size * at_.width, 0.0F);
    has_gradient_ = false;
    for (std::int64_t part = parts - 1; part >= 0; --part) {
      const std::int64_t first = part * together, last = std::min(first + together, chunks);
      keep_states(first, last, part_state(part), nullptr, true);
      for (std::int64_t i = last - 1; i >= first; --i) chunk_back(i, chunk_state(i - first));
    }
  }

 private:
  std::int64_t floats() const {
    return DeltaChunk::floats(at_.width) + kDeltaChunk * (4 * stride_ + 2 * key_stride_ + 2 * kDeltaStride) +
           at_.size * kDeltaStride + 2 * at_.width * stride_;
  }
  float* part_state(std::int64_t part) const {
    return args_.states.as<float>() + (head_ * args_.states.dim(2) + part) * at_.size * at_.width;
  }
  float* chunk_state(std::int64_t i) const {
    return args_.history.as<float>() + (head_ * args_.history.dim(3) + i) * at_.size * at_.width;
  }
  float* state_gradient() const { return args_.gradient.as<float>() + at_.state(); }
  DeltaPieces pieces(std::int64_t chunk) const {
    const std::int64_t begin = chunk * kDeltaChunk;
    return {at_, args_.starts, begin, std::min(begin + kDeltaChunk, at_.steps)};
  }
  bool fresh(const DeltaPiece& piece) const { return piece.fresh || piece.begin == 0; }

  // a state [size, width] to state_, [width, size], and back.
  void turn_in(const float* rows, float* to) const {
    load_tile_transposed({rows, DType::f32, at_.size, at_.width, at_.width}, to, stride_);
  }
  void turn_out(float* rows) const {
    load_tile_transposed({state_, DType::f32, at_.width, at_.size, stride_}, rows, at_.width);
  }

  void load_values(const DeltaPiece& piece) {
    load_tile(
        {args_.x.as<float>() + at_.x(piece.begin), DType::f32, piece.steps(), at_.size, at_.heads * at_.size},
        errors_, stride_);
  }

  // The state before each of the chunks [first, last), or only the one behind them.
  void keep_states(std::int64_t first, std::int64_t last, const float* from, float* behind, bool each) {
    turn_in(from, state_);
    for (std::int64_t i = first; i < last; ++i) {
      if (each) turn_out(chunk_state(i - first));
      if (each && i + 1 == last) break;
      const DeltaPieces parts = pieces(i);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const bool zero = fresh(parts[p]);
        chunk_.load(args_, at_, parts[p]);
        load_values(parts[p]);
        find_errors(chunk_, zero ? nullptr : state_, errors_, added_, at_.size, stride_);
        advance_state(chunk_, zero, added_, state_, at_.size, stride_);
      }
    }
    if (behind != nullptr) turn_out(behind);
  }

  void chunk_back(std::int64_t chunk, const float* state_before) {
    const DeltaPieces parts = pieces(chunk);
    for (std::size_t p = parts.size(); p-- > 0;) piece_back(parts[p], p == 0 ? state_before : nullptr);
  }

  void piece_back(const DeltaPiece& piece, const float* before) {
    if (fresh(piece)) before = nullptr;
    chunk_.load(args_, at_, piece);
    load_values(piece);
    if (before != nullptr) turn_in(before, state_);
    find_errors(chunk_, before == nullptr ? nullptr : state_, errors_, added_, at_.size, stride_);
    load_tile({args_.dy.as<float>() + at_.x(piece.begin), DType::f32, piece.steps(), at_.size,
               at_.heads * at_.size},
              dy_, stride_);
    std::fill_n(dsums_, piece.steps(), 0.0);
    begin_values();
    finish_values(piece);
    relate_steps();
    queries_back(before);
    keys_back(before);
    state_back(before);
    store(piece, before == nullptr);
  }

  // de, and what it takes by `left`; `added` keeps its factors.
  void begin_values() {
    const std::int64_t steps = chunk_.steps;
    if (has_gradient_) {
      turn_in(state_gradient(), gradient_);
      multiply({.m = steps,
                .n = at_.size,
                .k = at_.width,
                .a = chunk_.keys,
                .a_row = key_stride_,
                .b = gradient_,
                .ldb = stride_,
                .c = dvalues_,
                .ldc = stride_});
      for (std::int64_t s = 0; s < steps; ++s) {
        float* row = dvalues_ + s * stride_;
        scale_row(row, row, chunk_.left[s], at_.size);
        const auto by_left = static_cast<double>(dot_row(row, added_ + s * stride_, at_.size));
        dsums_[steps - 1] += by_left;
        dsums_[s] -= by_left;
      }
    } else {
      std::fill_n(dvalues_, steps * stride_, 0.0F);
    }
    for (std::int64_t col = 0; col < at_.size; col += kPanel)
      multiply_upper({.m = steps,
                      .n = std::min(kPanel, at_.size - col),
                      .a = chunk_.answers,
                      .a_row = 1,
                      .a_col = kDeltaStride,
                      .b = dy_ + col,
                      .ldb = stride_,
                      .c = dvalues_ + col,
                      .ldc = stride_});
  }

  // From de to dx, the last step first, and dbeta.
  void finish_values(const DeltaPiece& piece) {
    const std::int64_t steps = chunk_.steps, blocks = (steps + kBlockRows - 1) / kBlockRows;
    for (std::int64_t block = blocks - 1; block >= 0; --block) {
      const std::int64_t begin = block * kBlockRows, end = std::min(begin + kBlockRows, steps);
      for (std::int64_t col = 0; col < at_.size && end < steps; col += kPanel)
        small_row_block({.n = std::min(kPanel, at_.size - col),
                         .k = steps - end,
                         .a = chunk_.corrections + end * kDeltaStride,
                         .a_row = 1,
                         .a_col = kDeltaStride,
                         .b = dvalues_ + end * stride_ + col,
                         .ldb = stride_,
                         .c = dvalues_ + col,
                         .ldc = stride_,
                         .accumulate = true},
                        begin, end - begin);
      for (std::int64_t s = end - 1; s >= begin; --s) {
        float* row = dvalues_ + s * stride_;
        for (std::int64_t t = s + 1; t < end; ++t)
          add_scaled(row, dvalues_ + t * stride_, chunk_.corrections[t * kDeltaStride + s], at_.size);
        put(args_.dbeta, args_.accumulate_dbeta, piece.begin + s,
            dot_row(row, errors_ + s * stride_, at_.size));
        scale_row(row, row, chunk_.beta[s], at_.size);
      }
    }
  }

  void put(const View& to, bool accumulate, std::int64_t t, float value) const {
    if (!to) return;
    float& place = to.as<float>()[at_.step(t)];
    place = accumulate ? place + value : value;
  }

  // A + Aᵀ and B.
  void relate_steps() {
    const std::int64_t steps = chunk_.steps;
    load_tile_transposed({added_, DType::f32, steps, at_.size, stride_}, turned_, kDeltaStride);
    SmallGemm g{.m = steps,
                .n = round_up(steps, kColumns),
                .k = at_.size,
                .a = dvalues_,
                .a_row = stride_,
                .b = turned_,
                .ldb = kDeltaStride,
                .c = of_keys_,
                .ldc = kDeltaStride};
    multiply(g);
    g.a = dy_;
    g.c = of_queries_;
    multiply(g);
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::int64_t row = t * kDeltaStride;
      of_keys_[row + t] = 0;
      of_queries_[row + t] *= chunk_.between[row + t];
      for (std::int64_t s = 0; s < t; ++s) {
        float &by_key = of_keys_[row + s], &by_query = of_queries_[row + s];
        // −dx[t]·e[s] meets keys[t]·keys[s], of which corrections has the opposite.
        const float taken = by_key * chunk_.corrections[row + s] + by_query * chunk_.answers[row + s];
        dsums_[t] += static_cast<double>(taken);
        dsums_[s] -= static_cast<double>(taken);
        by_key *= -chunk_.between[row + s];
        by_query *= chunk_.between[row + s];
        of_keys_[s * kDeltaStride + t] = by_key;
      }
    }
  }

  // to = reach · rows·S, and what that takes by `reach`; zeros without a state before.
  void through_state(const float* before, const float* rows, float sign, const float* keys, float* to) {
    if (before == nullptr) {
      std::fill_n(to, chunk_.steps * key_stride_, 0.0F);
      return;
    }
    multiply({.m = chunk_.steps,
              .n = at_.width,
              .k = at_.size,
              .a = rows,
              .a_row = stride_,
              .b = before,
              .ldb = at_.width,
              .c = to,
              .ldc = key_stride_});
    for (std::int64_t t = 0; t < chunk_.steps; ++t) {
      float* row = to + t * key_stride_;
      scale_row(row, row, sign * chunk_.reach[t], at_.width);
      dsums_[t] += static_cast<double>(dot_row(row, keys + t * key_stride_, at_.width));
    }
  }

  void queries_back(const float* before) {
    through_state(before, dy_, 1, chunk_.queries, dqueries_);
    for (std::int64_t col = 0; col < at_.width; col += kPanel)
      multiply_lower({.m = chunk_.steps,
                      .n = std::min(kPanel, at_.width - col),
                      .a = of_queries_,
                      .a_row = kDeltaStride,
                      .b = chunk_.keys + col,
                      .ldb = key_stride_,
                      .c = dqueries_ + col,
                      .ldc = key_stride_},
                     true);
  }

  void keys_back(const float* before) {
    const std::int64_t steps = chunk_.steps;
    through_state(before, dvalues_, -1, chunk_.keys, dkeys_);
    if (has_gradient_) {
      for (std::int64_t t = 0; t < steps; ++t)
        scale_row(added_ + t * stride_, added_ + t * stride_, chunk_.left[t], at_.size);
      multiply({.m = steps,
                .n = at_.width,
                .k = at_.size,
                .a = added_,
                .a_row = stride_,
                .b = state_gradient(),
                .ldb = at_.width,
                .c = dkeys_,
                .ldc = key_stride_,
                .accumulate = true});
    }
    multiply({.m = steps,
              .n = at_.width,
              .k = steps,
              .a = of_keys_,
              .a_row = kDeltaStride,
              .b = chunk_.keys,
              .ldb = key_stride_,
              .c = dkeys_,
              .ldc = key_stride_,
              .accumulate = true});
    for (std::int64_t col = 0; col < at_.width; col += kPanel)
      multiply_upper({.m = steps,
                      .n = std::min(kPanel, at_.width - col),
                      .a = of_queries_,
                      .a_row = 1,
                      .a_col = kDeltaStride,
                      .b = chunk_.queries + col,
                      .ldb = key_stride_,
                      .c = dkeys_ + col,
                      .ldc = key_stride_});
  }

  // The gradient of the state before the piece; none where that is zero.
  void state_back(const float* before) {
    float* g = state_gradient();
    if (before == nullptr) {
      has_gradient_ = false;
      return;
    }
    if (has_gradient_) {
      const float reach = chunk_.last_reach();
      dsums_[chunk_.steps - 1] += static_cast<double>(reach) * state_product(g, before);
      scale_row(g, g, reach, at_.size * at_.width);
    }
    SmallGemm add{.m = at_.size,
                  .n = at_.width,
                  .k = chunk_.steps,
                  .a = dy_,
                  .a_row = 1,
                  .a_col = stride_,
                  .b = chunk_.queries_in,
                  .ldb = key_stride_,
                  .c = g,
                  .ldc = at_.width,
                  .accumulate = has_gradient_};
    multiply(add);
    add.a = dvalues_;
    add.b = chunk_.keys_in;
    add.accumulate = true;
    multiply(add);
    has_gradient_ = true;
  }

  double state_product(const float* g, const float* state) const {
    double sum = 0;
    for (std::int64_t p = 0; p < at_.size; ++p)
      sum += static_cast<double>(dot_row(g + p * at_.width, state + p * at_.width, at_.width));
    return sum;
  }

  void store(const DeltaPiece& piece, bool first_is_fresh) {
    const std::int64_t steps = piece.steps(), value_stride = at_.heads * at_.size,
                       head_stride = at_.heads * at_.width;
    if (args_.dx)
      store_tile(dvalues_, stride_,
                 {args_.dx.as<float>() + at_.x(piece.begin), DType::f32, steps, at_.size, value_stride},
                 args_.accumulate_dx);
    store_tile(dkeys_, key_stride_,
               {args_.dkeys.as<float>() + at_.dkeys(piece.begin), DType::f32, steps, at_.width, head_stride},
               false);
    store_tile(
        dqueries_, key_stride_,
        {args_.dqueries.as<float>() + at_.dkeys(piece.begin), DType::f32, steps, at_.width, head_stride},
        false);
    double sum = 0;  // a decay is in the sums of its step and of all behind it
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      sum += dsums_[t];
      put(args_.ddecay, args_.accumulate_ddecay, piece.begin + t,
          t == 0 && first_is_fresh ? 0.0F : static_cast<float>(sum));
    }
  }

  const DeltaRuleBackwardArgs& args_;
  const ScanHead& at_;
  std::int64_t head_, stride_, key_stride_;
  FloatArena arena_;
  DeltaChunk chunk_;
  float *errors_ = nullptr, *added_ = nullptr;                        // [steps, size]
  float *dvalues_ = nullptr, *dy_ = nullptr;                          // dvalues: de, then dx
  float *dkeys_ = nullptr, *dqueries_ = nullptr;                      // [steps, width]
  float *of_keys_ = nullptr, *of_queries_ = nullptr;                  // A + Aᵀ and B
  float *turned_ = nullptr, *state_ = nullptr, *gradient_ = nullptr;  // transposed: added, S and G
  bool has_gradient_ = false;                                         // else G is zero
  double dsums_[kDeltaChunk] = {};                                    // gradients of the sums of decays
};

void delta_chunks_backward(const DeltaRuleBackwardArgs& args, const ScanHead& head) {
  DeltaBackwardChunks(args, head).run();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(delta_chunks_backward);

void run_delta_chunks_backward(const DeltaRuleBackwardArgs& args, Stream) {
  parallel_scan_heads(args.x, args.keys, 1, [&](const ScanHead& head) {
    HWY_DYNAMIC_DISPATCH(delta_chunks_backward)(args, head);
  });
}

}  // namespace

void register_delta_chunks_backward_simd() {
  delta_rule_backward.add(
      DeviceType::cpu,
      {"chunked", ImplKind::simd, takes_delta_chunks<DeltaRuleBackwardArgs>, run_delta_chunks_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
