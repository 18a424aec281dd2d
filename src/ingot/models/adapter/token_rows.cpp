#include "ingot/models/adapter/token_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/given_matrices.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Tensor ids_of(const std::vector<std::int64_t>& tokens, Device device) {
  return to(Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size())}), device);
}

}  // namespace

bool has_token_rows(const AdaptedWeight& at) {
  return at.ours == "model.embed_tokens" || at.ours == "lm_head";
}

std::unique_ptr<LowRankAdapter> token_row_adapter(const AdaptedWeight& at, const std::string& name,
                                                  const std::vector<std::int64_t>& tokens,
                                                  const Tensor& values) {
  const NoGrad no_grad;
  const LinearWeight& weight = *at.weight;
  const auto count = static_cast<std::int64_t>(tokens.size());
  for (const std::int64_t token : tokens)
    INGOT_CHECK(token < weight.out(),
                InvalidConfig("trainable_token_indices", fmt::format("{} is not a row of '{}', which has {}",
                                                                     token, at.module, weight.out())));
  const Device device = weight.device();
  const Tensor a = values.defined()
                       ? to(to(values, DType::f32), device) - weight.base_rows(ids_of(tokens, device))
                       : Tensor::zeros({count, weight.in()}, DType::f32, device);
  const Tensor b = transpose(one_hot(ids_of(tokens, device), weight.out()), 0, 1);
  GivenMatrices given(clone(a), clone(contiguous(b)));
  auto adapter =
      std::make_unique<LowRankAdapter>(ParamSource(given).scope(at.ours), name, weight.shape(), count, 1.0F);
  adapter->tokens = tokens;
  return adapter;
}

void add_token_rows(const AdaptedWeight& at, const std::string& name,
                    const std::vector<std::int64_t>& tokens) {
  const NoGrad no_grad;
  const std::string of_rows = token_rows_name(name);
  const LowRankAdapter* before = at.weight->find_adapter(of_rows);
  std::vector<std::int64_t> all = before == nullptr ? std::vector<std::int64_t>{} : before->tokens, more;
  for (const std::int64_t token : tokens)
    if (std::ranges::count(all, token) == 0) more.push_back(token);
  if (more.empty()) return;
  all.insert(all.end(), more.begin(), more.end());
  Tensor values;
  if (before != nullptr) {
    const Tensor theirs = values_of_token_rows(at, *before, before->a.value.detach());
    const Tensor own = to(at.weight->base_rows(ids_of(more, at.weight->device())), kCpu);
    values = concat(std::vector<Tensor>{theirs, own}, 0);
  }
  auto adapter = token_row_adapter(at, of_rows, all, values);
  std::erase_if(at.weight->adapters, [&](const auto& one) { return one->name == of_rows; });
  at.weight->add_adapter(std::move(adapter));
}

Tensor values_of_token_rows(const AdaptedWeight& at, const LowRankAdapter& adapter, const Tensor& a) {
  const NoGrad no_grad;
  return to(at.weight->base_rows(ids_of(adapter.tokens, at.weight->device())), kCpu) +
         to(to(a, kCpu), DType::f32) * static_cast<double>(adapter.weight);
}

}  // namespace ingot
