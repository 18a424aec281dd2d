#include "ingot/models/forecast/parts.h"

#include <array>
#include <cmath>

#include "ingot/ops/attention.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor kernel_matrix(const Parameter& weight) { return reshape(weight.value, {weight.value.dim(0), -1}); }

Tensor drop(const Tensor& x, double p, bool training) { return training && p > 0 ? dropout(x, p) : x; }

Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, ResidualScores* residual, double p,
              bool training) {
  const double scale = 1 / std::sqrt(static_cast<double>(query.dim(3)));
  Tensor q = query, k = key;
  if (residual != nullptr) {
    if (residual->queries.defined()) {
      q = concat(std::array{residual->queries, q}, 3);
      k = concat(std::array{residual->keys, k}, 3);
    }
    *residual = {q, k};
  }
  const bool drops = training && p > 0;
  if (!drops) return attention(q, k, value, {.causal = false, .scale = static_cast<float>(scale)});
  const auto heads_first = [](const Tensor& x) { return transpose(x, 1, 2); };
  const Tensor scores = matmul(heads_first(q * scale), transpose(heads_first(k), 2, 3));
  return transpose(matmul(dropout(softmax(scores), p), heads_first(value)), 1, 2);
}

}  // namespace ingot
