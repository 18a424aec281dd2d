#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/ops/grouped_linear.h"

namespace ingot {

/// The ranks that have the experts of mixtures between them (expert parallelism, Lepikhin et al. 2020): each
/// as many as the others, in the order of ranks. All call the same functions in the same order.
class ExpertRanks {
 public:
  virtual ~ExpertRanks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Every rank's counts of rows for all experts, one rank behind the other.
  virtual std::vector<std::int64_t> all_gather(std::span<const std::int64_t> counts) const = 0;
  /// Rows [borders[r], borders[r + 1]) of every rank's x, contiguous [rows, width], go to rank r. Gives those
  /// for this rank, in the order of the ranks that sent them. The borders are the same on all ranks.
  virtual Tensor all_to_all(const Tensor& x, std::span<const std::int64_t> borders) const = 0;
};

/// The rows of one batch on their way to the ranks that have their experts, and back. Gradients go the other
/// way. Waits for the device, as sizes are told first.
class ExpertExchange {
 public:
  /// All ranks' rows for an expert together, or those of one rank behind those of another.
  enum class Order : std::uint8_t { by_expert, by_rank };
  /// `routing`: of this rank's pairs, to all experts.
  ExpertExchange(std::shared_ptr<const ExpertRanks> ranks, const ExpertRouting& routing,
                 Order order = Order::by_expert);

  /// rows: [pairs, width], sorted by expert. Gives all ranks' rows for this rank's experts: by expert, and of
  /// one expert in the order of ranks; or by rank, and of one rank in the order of experts.
  Tensor to_experts(const Tensor& rows) const;
  /// Of such rows, what is this rank's, in the order in which they were given to to_experts().
  Tensor from_experts(const Tensor& rows) const;
  /// Where to_experts() puts the rows of each of this rank's experts: offsets, and the expert of each row. By
  /// expert that is one, by rank one for each rank, counted from the first of its rows.
  std::span<const ExpertRouting> own() const;

 private:
  struct Plan;
  struct Moved;
  static Tensor moved(const std::shared_ptr<const Plan>& plan, const Tensor& rows, bool there);
  std::shared_ptr<const Plan> plan_;
};

}  // namespace ingot
