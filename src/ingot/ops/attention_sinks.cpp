#include "ingot/ops/attention_sinks.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// As lse [B, Hq, S] is read: [Hq, 1].
Tensor by_heads(const Tensor& sinks, const Tensor& lse) {
  return reshape(to(sinks.detach(), lse.dtype()), {sinks.dim(0), 1});
}

}  // namespace

Tensor shrunk_by_sinks(const Tensor& sinks, const Tensor& out, const Tensor& lse) {
  const NoGrad no_grad;
  const Tensor share = sigmoid(lse - to(sinks.detach(), lse.dtype()));
  return to(to(out, lse.dtype()) * unsqueeze(share, share.rank()), out.dtype());
}

void let_sinks_in(const Tensor& sinks, Tensor& out, Tensor& lse) {
  const NoGrad no_grad;
  out = shrunk_by_sinks(sinks, out, transpose(lse, 1, 2));
  const Tensor logits = by_heads(sinks, lse);
  lse = softplus(lse - logits) + logits;
}

Tensor gradient_of_sinks(const Tensor& sinks, const Tensor& out, const Tensor& lse, const Tensor& dout) {
  const NoGrad no_grad;
  const Tensor mixed = sum(to(dout, lse.dtype()) * to(out, lse.dtype()), {3});  // [B, S, Hq]
  const Tensor taken = exp(by_heads(sinks, lse) - lse);
  return to(-sum(taken * transpose(mixed, 1, 2), {0, 2}), sinks.dtype());
}

}  // namespace ingot
