#include "ingot/train/data_parallel.h"

#include <algorithm>

#include "ingot/core/backend.h"
#include "ingot/dist/ordered_sum.h"

namespace ingot {
namespace {

constexpr std::size_t kBucketBytes = 32 << 20;

std::vector<Tensor> leaves_of(std::span<Parameter* const> parameters) {
  std::vector<Tensor> leaves;
  leaves.reserve(parameters.size());
  for (const Parameter* parameter : parameters) leaves.push_back(parameter->value);
  return leaves;
}

void copy(const Tensor& from, const Tensor& to) {
  backend(to.device()).copy(to.view().data, from.view().data, from.nbytes(), current_stream(to.device()));
}

}  // namespace

DataParallel::DataParallel(dist::Communicator& communicator, std::span<Parameter* const> parameters,
                           std::int64_t adds)
    : communicator_(communicator),
      leaves_(leaves_of(parameters)),
      buckets_(leaves_, kBucketBytes),
      written_(leaves_.size()) {
  const MemoryTagScope tag(MemoryTag::gradient);
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    totals_.push_back(adds == 1 ? buckets_[i] : Tensor::empty_like(buckets_[i]));
}

void DataParallel::add(const std::vector<bool>& contributes) {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].grad().defined()) written_[i] = 1;
  buckets_.finish();  // a sum needs numbers where there is no gradient
  if (std::ranges::find(contributes, true) != contributes.end()) {
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      dist::ordered_sum(communicator_, buckets_[i], contributes, totals_[i], begun_);
    begun_ = true;
  }
  for (const Tensor& leaf : leaves_) leaf.set_grad({});
}

void DataParallel::finish() {
  communicator_.all_reduce(written_);
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    if (totals_[i].view().data != buckets_[i].view().data) copy(totals_[i], buckets_[i]);
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (written_[i] > 0) leaves_[i].set_grad(leaves_[i].autograd_meta()->grad.memory);
  std::ranges::fill(written_, 0.0F);
  begun_ = false;
}

void DataParallel::gather(const Tensor& values) {
  std::vector<float> host = values.to_vector<float>();
  communicator_.all_reduce(host);
  const Stream stream = current_stream(values.device());
  backend(values.device()).copy(values.view().data, host.data(), values.nbytes(), stream);
  backend(values.device()).synchronize(stream);
}

}  // namespace ingot
