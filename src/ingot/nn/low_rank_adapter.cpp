#include "ingot/nn/low_rank_adapter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;
constexpr double kLeastNorm = 1e-30;  // of rows of zeros

std::int64_t checked_rank(std::int64_t rank) {
  INGOT_CHECK(rank > 0, InvalidConfig("adapter.rank", fmt::format("must be positive, got {}", rank)));
  return rank;
}

// Rows [begin, begin + count) of the matrix without adapters, in memory of their own.
Tensor base_rows(const LinearWeight& weight, std::int64_t begin, std::int64_t count) {
  if (weight.packed == nullptr) return clone(to(narrow(weight.dense.value, 0, begin, count), DType::f32));
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = begin + i;
  return quant::rows(*weight.packed, to(Tensor::from(ids, {count}), weight.device()));
}

Tensor row_norms(const LinearWeight& weight, const Tensor& a, const Tensor& b, double scale) {
  const std::int64_t block = std::max<std::int64_t>(1, kBlockElements / weight.in());
  std::vector<Tensor> norms;
  for (std::int64_t begin = 0; begin < weight.out(); begin += block) {
    const std::int64_t count = std::min(block, weight.out() - begin);
    const Tensor rows = base_rows(weight, begin, count);
    add_(rows, matmul(narrow(b, 0, begin, count), a), scale);
    norms.push_back(sqrt(sum(square(rows), {-1})));
  }
  return norms.size() == 1 ? norms.front() : concat(norms, 0);
}

}  // namespace

LowRankAdapter::LowRankAdapter(const ParamSource& source, std::string name_, const Shape& weight_,
                               std::int64_t rank, float scale_)
    : name(std::move(name_)),
      a(source.scope(name).take("lora_A", weight_.with(weight_.rank() - 2, checked_rank(rank)),
                                init::fan_in_uniform(weight_[weight_.rank() - 1]))),
      b(source.scope(name).take("lora_B", weight_.with(weight_.rank() - 1, rank), init::kZeros)),
      scale(scale_) {}

bool LowRankAdapter::drops() const { return dropout > 0 && (grad_enabled() || recorded_later()); }

LowRankAdapter* find_adapter(const AdapterList& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, [](const auto& adapter) { return adapter->name; });
  return found == list.end() ? nullptr : found->get();
}

LowRankAdapter& add_adapter(AdapterList& list, std::unique_ptr<LowRankAdapter> adapter) {
  INGOT_CHECK(find_adapter(list, adapter->name) == nullptr,
              Error(fmt::format("there is an adapter '{}' already", adapter->name)));
  return *list.emplace_back(std::move(adapter));
}

AdapterRows::Range AdapterRows::of(std::int64_t rows) const {
  if (whole_) return {.begin = 0, .count = rows};
  if (rows == all_.total) return all_.own;
  INGOT_CHECK(rows == wanted_.total,
              Error(fmt::format("a weight with adapters of some rows has an input of {} rows; {} or the {} "
                                "wanted ones were expected",
                                rows, all_.total, wanted_.total)));
  return wanted_.own;
}

bool RowNorms::is_current(const std::vector<Tensor>& parts) const {
  return std::ranges::equal(seen_, parts, [](const Seen& seen, const Tensor& part) {
    return seen.storage.lock() == part.storage() && seen.version == part.storage()->version();
  });
}

Tensor RowNorms::of(const LinearWeight& weight, const LowRankAdapter& adapter) {
  const std::vector<Tensor> parts{weight.packed != nullptr ? weight.packed->data : weight.dense.value,
                                  adapter.a.value, adapter.b.value};
  const std::lock_guard lock(mutex_);
  if (is_current(parts)) return norms_;
  const NoGrad no_grad;
  norms_ = row_norms(weight, to(adapter.a.value.detach(), DType::f32),
                     to(adapter.b.value.detach(), DType::f32), static_cast<double>(adapter.scale));
  seen_.clear();
  for (const Tensor& part : parts) seen_.push_back({part.storage(), part.storage()->version()});
  return norms_;
}

void LowRankAdapter::decompose(const LinearWeight& of, const Tensor& given) {
  INGOT_CHECK(!of.dense.embedding,
              NotImplemented(fmt::format("DoRA of embeddings ('{}'), which scales columns; leave them out of "
                                         "target_modules",
                                         of.dense.name)));
  const Shape expected{of.out()};
  INGOT_CHECK(!given.defined() || given.shape() == expected,
              ShapeMismatch(fmt::format("the magnitude of '{}'", of.dense.name), expected.to_vector(),
                            given.shape().to_vector(), "one number for each row"));
  const std::string base = a.name.substr(0, a.name.size() - std::string_view("lora_A").size());
  // As transformers' trainer decays it with PEFT.
  magnitude.name = base + "lora_magnitude_vector";
  magnitude.decay = true;
  magnitude.value = given.defined() ? given.detach() : clone(norms_.of(of, *this));
  magnitude.set_trainable(a.trainable());
}

Tensor LowRankAdapter::row_gain(const LinearWeight& of) const {
  return to(magnitude.value, DType::f32) / clamp(norms_.of(of, *this), kLeastNorm, 1 / kLeastNorm);
}

}  // namespace ingot
