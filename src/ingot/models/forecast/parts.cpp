#include "ingot/models/forecast/parts.h"

#include <cmath>

#include "ingot/ops/attention.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor drop(const Tensor& x, double p, bool training) { return training && p > 0 ? dropout(x, p) : x; }

AttentionResult attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& previous,
                       bool keep_scores, double p, bool training) {
  const bool drops = training && p > 0;
  if (!drops && !keep_scores && !previous.defined()) return {attention(q, k, v, {.causal = false}), {}};
  const auto heads_first = [](const Tensor& x) { return transpose(x, 1, 2); };
  const double scaling = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  Tensor scores = matmul(heads_first(q * scaling), transpose(heads_first(k), 2, 3));
  if (previous.defined()) scores = scores + previous;
  return {transpose(matmul(drop(softmax(scores), p, training), heads_first(v)), 1, 2), scores};
}

}  // namespace ingot
