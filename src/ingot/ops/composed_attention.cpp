#include "ingot/ops/composed_attention.h"

#include <numeric>
#include <utility>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// 0, 1, 2, ... as f32.
Tensor counted(std::int64_t count, Device device) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return Tensor::from(numbers, {count}, device);
}

Tensor constant(double value, DType dtype, Device device) {
  return Tensor::zeros({1}, dtype, device) + value;
}

// [B, S, H, D] as a matrix for each head of keys: [B · groups, H / groups · S, D].
Tensor by_heads(const Tensor& x, std::int64_t groups) {
  return reshape(transpose(x, 1, 2), {x.dim(0) * groups, x.dim(2) / groups * x.dim(1), x.dim(3)});
}

// Scores [B, H, S, T] of which some do not count: kernels/attention.h says which.
class MaskedScores {
 public:
  MaskedScores(Tensor scores, const AttentionOptions& options)
      : scores_(std::move(scores)), options_(options), at_(counted(scores_.dim(3), device())) {
    const std::int64_t queries = scores_.dim(2);
    length_ = options.kv_length.defined()
                  ? reshape(to(options.kv_length, DType::f32), {scores_.dim(0), 1, 1, 1})
                  : number(static_cast<double>(scores_.dim(3)));
    position_ =
        reshape(counted(queries, device()), {1, 1, queries, 1}) + (length_ - static_cast<double>(queries));
    if (options.doc_start.defined())
      start_ = reshape(to(options.doc_start, DType::f32), {scores_.dim(0), 1, queries, 1});
  }

  Tensor weights() {
    hide_what_is_out_of_reach();
    if (start_.defined()) hide_other_documents();
    const Tensor none = constant(0, scores_.dtype(), device());
    // By what is hidden: NaN stays NaN.
    const Tensor hidden = less_equal(scores_, constant(kHidden / 2, scores_.dtype(), device()));
    const std::int64_t keys = scores_.dim(3);
    if (!options_.sinks.defined()) return where(hidden, none, softmax(scores_));
    const Tensor sinks = broadcast_to(reshape(to(options_.sinks, scores_.dtype()), {1, scores_.dim(1), 1, 1}),
                                      scores_.shape().with(3, 1));
    return where(hidden, none, narrow(softmax(concat(std::vector<Tensor>{scores_, sinks}, 3)), 3, 0, keys));
  }

  /// Whether there is a key: [B or 1, T, 1, 1], as values are [B, T, H, D].
  Tensor valid() const {
    const Tensor valid = less(at_, length_);  // [B, 1, 1, T], or [T]
    return reshape(valid, {valid.numel() / at_.numel(), at_.numel(), 1, 1});
  }

 private:
  // Not −∞: a query that sees nothing has weights of 0, and so have its gradients.
  static constexpr double kHidden = -1e30;

  Device device() const { return scores_.device(); }
  Tensor number(double value) const { return constant(value, DType::f32, device()); }
  void keep(const Tensor& condition) {
    scores_ = where(condition, scores_, constant(kHidden, scores_.dtype(), device()));
  }

  void hide_what_is_out_of_reach() {
    keep(options_.causal ? less_equal(at_, position_) : less(at_, length_));
    if (options_.window > 0) {
      const Tensor window = number(static_cast<double>(options_.window));
      keep(less(position_ - at_, window));
      if (!options_.causal) keep(less(at_ - position_, window));
    }
    if (options_.chunk == 0) return;
    const auto chunk = static_cast<double>(options_.chunk);
    const Tensor within = start_.defined() ? position_ - start_ : position_;
    const Tensor first = floor((within + 0.5) * (1 / chunk)) * chunk;
    keep(less_equal(start_.defined() ? first + start_ : first, at_));
  }

  void hide_other_documents() {
    if (options_.causal) return keep(less_equal(start_, at_));
    keep(equal(start_, reshape(start_, {start_.dim(0), 1, 1, start_.dim(2)})));
  }

  Tensor scores_;
  const AttentionOptions& options_;
  Tensor at_, length_, position_, start_;  // as f32, which counts exactly as far as texts go
};

}  // namespace

Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options) {
  const std::int64_t batch = q.dim(0), queries = q.dim(1), heads = q.dim(2), groups = k.dim(2);
  const Tensor products = matmul(by_heads(q, groups), transpose(by_heads(k, groups), 1, 2));
  Tensor scores = to(products, accumulator_dtype(q.dtype())) * static_cast<double>(options.scale);
  if (options.softcap > 0) {
    const auto cap = static_cast<double>(options.softcap);
    scores = tanh(scores * (1 / cap)) * cap;
  }
  MaskedScores masked(reshape(scores, {batch, heads, queries, k.dim(1)}), options);
  const Tensor weights = reshape(to(masked.weights(), q.dtype()), products.shape());
  // What a cache holds behind its length is not a number.
  const Tensor values =
      options.kv_length.defined() ? where(masked.valid(), v, constant(0, v.dtype(), v.device())) : v;
  return transpose(reshape(matmul(weights, by_heads(values, groups)), {batch, heads, queries, v.dim(3)}), 1,
                   2);
}

Tensor composed_attention(const Tensor& q, const CachedSequence& s, const AttentionOptions& options) {
  const NoGrad no_grad;
  const AttentionOptions cached{.scale = options.scale,
                                .window = options.window,
                                .chunk = options.chunk,
                                .softcap = options.softcap,
                                .kv_length = s.length};
  return select(composed_attention(unsqueeze(q, 0), to(s.keys, q.dtype()), to(s.values, q.dtype()), cached),
                0, 0);
}

}  // namespace ingot
