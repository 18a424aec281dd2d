#include "ingot/nn/expert_ranks.h"

#include <algorithm>
#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/core/backend.h"
#include "ingot/core/meta_backend.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// Of a dry run, which has no values: as equal as may be.
std::vector<std::int64_t> even_counts(std::int64_t pairs, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
  for (std::int64_t e = 0; e < experts; ++e)
    counts[static_cast<std::size_t>(e)] = (e + 1) * pairs / experts - e * pairs / experts;
  return counts;
}

std::vector<std::int64_t> counts_of(const ExpertRouting& routing) {
  if (routing.offsets.device() == kMeta)
    return even_counts(routing.experts.numel(), routing.offsets.numel() - 1);
  const Tensor host = to(routing.offsets, kCpu);
  const auto* begins = host.data<std::int64_t>();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(host.numel() - 1));
  for (std::size_t e = 0; e < counts.size(); ++e) counts[e] = begins[e + 1] - begins[e];
  return counts;
}

// Copies blocks of rows, one after the other.
class RowCopy {
 public:
  RowCopy(const Tensor& from, const Tensor& to)
      : from_(from), to_(to), width_(from.nbytes() == 0 ? 0 : from.nbytes() / rows_of(from)) {}
  void operator()(std::int64_t from, std::int64_t to, std::int64_t count) const {
    if (count == 0 || width_ == 0) return;
    backend(to_.device())
        .copy(to_.view().as<char>() + static_cast<std::size_t>(to) * width_,
              from_.view().as<const char>() + static_cast<std::size_t>(from) * width_,
              static_cast<std::size_t>(count) * width_, current_stream(to_.device()));
  }

 private:
  static std::size_t rows_of(const Tensor& x) { return static_cast<std::size_t>(x.dim(0)); }
  const Tensor& from_;
  const Tensor& to_;
  std::size_t width_;
};

}  // namespace

struct ExpertExchange::Plan {
  std::shared_ptr<const ExpertRanks> ranks;
  std::int64_t here = 0;             // experts of each rank
  std::vector<std::int64_t> counts;  // [ranks, experts]: rows of a rank for an expert
  Order order = Order::by_expert;
  std::vector<ExpertRouting> own;

  std::int64_t size() const { return ranks->size(); }
  std::int64_t count(std::int64_t rank, std::int64_t expert) const {
    return counts[static_cast<std::size_t>(rank * here * size() + expert)];
  }
  // Rows that one rank has for the experts of another.
  std::int64_t rows(std::int64_t from, std::int64_t owner) const {
    std::int64_t sum = 0;
    for (std::int64_t e = owner * here; e < (owner + 1) * here; ++e) sum += count(from, e);
    return sum;
  }
  std::int64_t received() const {
    std::int64_t sum = 0;
    for (std::int64_t from = 0; from < size(); ++from) sum += rows(from, ranks->rank());
    return sum;
  }
  std::vector<std::int64_t> borders(bool there) const;
  /// Calls visit(rank, rows) for what came of one rank for one expert, in the order in which experts have it.
  template <class F>
  void for_each_block(const F& visit) const;
  ExpertRouting routing(std::int64_t begin, std::int64_t end, Device device) const;
  Tensor to_experts(const Tensor& rows) const;
  Tensor from_experts(const Tensor& rows) const;
};

template <class F>
void ExpertExchange::Plan::for_each_block(const F& visit) const {
  const std::int64_t first = ranks->rank() * here;
  if (order == Order::by_rank) {
    for (std::int64_t rank = 0; rank < size(); ++rank) visit(rank, rows(rank, ranks->rank()));
    return;
  }
  for (std::int64_t e = first; e < first + here; ++e)
    for (std::int64_t rank = 0; rank < size(); ++rank) visit(rank, count(rank, e));
}

// Of the rows of ranks [begin, end).
ExpertRouting ExpertExchange::Plan::routing(std::int64_t begin, std::int64_t end, Device device) const {
  const std::int64_t first = ranks->rank() * here;
  std::vector<std::int64_t> offsets{0}, experts;
  for (std::int64_t e = 0; e < here; ++e) {
    std::int64_t rows = 0;
    for (std::int64_t from = begin; from < end; ++from) rows += count(from, first + e);
    offsets.push_back(offsets.back() + rows);
    experts.insert(experts.end(), static_cast<std::size_t>(rows), e);
  }
  ExpertRouting routing;
  routing.offsets = to(Tensor::from(offsets, {here + 1}), device);
  routing.experts = to(Tensor::from(experts, {std::ssize(experts)}), device);
  return routing;
}

// Every rank sends a rank as many rows as the one that has most for it: what is less is filled up.
std::vector<std::int64_t> ExpertExchange::Plan::borders(bool there) const {
  std::vector<std::int64_t> borders{0};
  for (std::int64_t to = 0; to < size(); ++to) {
    std::int64_t most = 0;
    for (std::int64_t from = 0; from < size(); ++from)
      most = std::max(most, there ? rows(from, to) : rows(to, from));
    borders.push_back(borders.back() + most);
  }
  return borders;
}

Tensor ExpertExchange::Plan::to_experts(const Tensor& given) const {
  const std::vector<std::int64_t> at = borders(true);
  const std::int64_t me = ranks->rank(), width = given.dim(1);
  const Tensor sent = Tensor::zeros({at.back(), width}, given.dtype(), given.device());
  const RowCopy pack(given, sent);
  std::int64_t next = 0;
  for (std::int64_t to = 0; to < size(); ++to) {
    pack(next, at[static_cast<std::size_t>(to)], rows(me, to));
    next += rows(me, to);
  }
  const Tensor came = ranks->all_to_all(sent, at);
  const std::int64_t each = came.dim(0) / size();
  const Tensor sorted = Tensor::empty({received(), width}, given.dtype(), given.device());
  const RowCopy sort(came, sorted);
  std::vector<std::int64_t> read(static_cast<std::size_t>(size()));
  next = 0;
  for_each_block([&](std::int64_t from, std::int64_t rows) {
    std::int64_t& done = read[static_cast<std::size_t>(from)];
    sort(from * each + done, next, rows);
    done += rows;
    next += rows;
  });
  return sorted;
}

Tensor ExpertExchange::Plan::from_experts(const Tensor& sorted) const {
  const std::vector<std::int64_t> at = borders(false);
  const std::int64_t me = ranks->rank(), width = sorted.dim(1);
  const Tensor sent = Tensor::zeros({at.back(), width}, sorted.dtype(), sorted.device());
  const RowCopy pack(sorted, sent);
  std::vector<std::int64_t> written(static_cast<std::size_t>(size()));
  std::int64_t next = 0;
  for_each_block([&](std::int64_t to, std::int64_t rows) {
    std::int64_t& done = written[static_cast<std::size_t>(to)];
    pack(next, at[static_cast<std::size_t>(to)] + done, rows);
    done += rows;
    next += rows;
  });
  const Tensor came = ranks->all_to_all(sent, at);
  const std::int64_t each = came.dim(0) / size();
  std::int64_t pairs = 0;
  for (std::int64_t from = 0; from < size(); ++from) pairs += rows(me, from);
  const Tensor back = Tensor::empty({pairs, width}, sorted.dtype(), sorted.device());
  const RowCopy unpack(came, back);
  next = 0;
  for (std::int64_t from = 0; from < size(); ++from) {
    unpack(from * each, next, rows(me, from));
    next += rows(me, from);
  }
  return back;
}

struct ExpertExchange::Moved final : Node {
  static constexpr const char* kName = "expert_exchange";
  std::shared_ptr<const Plan> plan;
  bool there;
  Moved(std::shared_ptr<const Plan> plan_, bool there_) : plan(std::move(plan_)), there(there_) {}
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override {
    const Tensor dy = contiguous(ctx.grad());
    ctx.pass(0, there ? plan->from_experts(dy) : plan->to_experts(dy));
  }
};

ExpertExchange::ExpertExchange(std::shared_ptr<const ExpertRanks> ranks, const ExpertRouting& routing,
                               Order order) {
  const std::vector<std::int64_t> mine = counts_of(routing);
  auto plan = std::make_shared<Plan>();
  plan->counts = ranks->all_gather(mine);
  plan->here = std::ssize(mine) / ranks->size();
  plan->ranks = std::move(ranks);
  plan->order = order;
  const Device device = routing.offsets.device();
  if (order == Order::by_expert) plan->own.push_back(plan->routing(0, plan->size(), device));
  for (std::int64_t rank = 0; order == Order::by_rank && rank < plan->size(); ++rank)
    plan->own.push_back(plan->routing(rank, rank + 1, device));
  plan_ = std::move(plan);
}

std::span<const ExpertRouting> ExpertExchange::own() const { return plan_->own; }

Tensor ExpertExchange::moved(const std::shared_ptr<const Plan>& plan, const Tensor& rows, bool there) {
  const Tensor x = contiguous(rows);
  const Tensor y = there ? plan->to_experts(x.detach()) : plan->from_experts(x.detach());
  return record<Moved>(y, {&x}, plan, there);
}

Tensor ExpertExchange::to_experts(const Tensor& rows) const { return moved(plan_, rows, true); }
Tensor ExpertExchange::from_experts(const Tensor& rows) const { return moved(plan_, rows, false); }

}  // namespace ingot
