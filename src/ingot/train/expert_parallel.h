#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ingot/dist/background.h"
#include "ingot/dist/communicator.h"
#include "ingot/nn/expert_ranks.h"

namespace ingot {

/// The ranks of a run that share its experts out. What they send goes through the thread that the rest of a
/// step goes through, so that all ranks have one order.
class ExpertParallel final : public ExpertRanks {
 public:
  ExpertParallel(dist::Communicator& communicator, dist::Background& background);

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::vector<std::int64_t> all_gather(std::span<const std::int64_t> counts) const override;
  Tensor all_to_all(const Tensor& x, std::span<const std::int64_t> borders) const override;

 private:
  void run(const std::function<void()>& work) const;

  dist::Communicator& communicator_;
  dist::Background& background_;
};

}  // namespace ingot
