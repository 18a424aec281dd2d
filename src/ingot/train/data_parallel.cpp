#include "ingot/train/data_parallel.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/hash.h"
#include "ingot/core/memory.h"
#include "ingot/dist/ordered_sum.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// Buckets that wait while one is sent: each keeps memory, where that passes. The link has always work with
// one.
constexpr std::size_t kMostWaiting = 1;

std::vector<Tensor> leaves_of(std::span<Parameter* const> parameters) {
  std::vector<Tensor> leaves;
  leaves.reserve(parameters.size());
  for (const Parameter* parameter : parameters) leaves.push_back(parameter->value);
  return leaves;
}

bool is_passing(const OptimizerShard* shard) { return shard != nullptr && shard->stage() > 1; }

}  // namespace

DataParallel::DataParallel(dist::Communicator& communicator, std::span<Parameter* const> parameters,
                           const DataParallelOptions& options)
    : communicator_(communicator),
      fast_sums_(options.fast_sums),
      shard_(options.shard),
      leaves_(leaves_of(parameters)),
      buckets_(leaves_,
               options.shard != nullptr ? options.shard->layouts()
                                        : GradBuckets::lay_out(leaves_, options.bucket_bytes),
               is_passing(options.shard) ? GradBuckets::Memory::passing : GradBuckets::Memory::fixed),
      written_(leaves_.size()),
      background_(options.background) {
  if (background_ == nullptr)
    background_ = &own_background_.emplace(is_passing(options.shard) ? kMostWaiting : buckets_.size());
  make_totals(options.adds);
  if (!leaves_.empty() && !backend(leaves_[0].device()).capabilities().host_memory)
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      ready_.push_back(backend(leaves_[0].device()).create_event());
  buckets_.on_ready([this](std::size_t i) { send(i); });
}

DataParallel::~DataParallel() {
  background_->abandon();  // an exception may have come between: it works with what goes now
  for (const Event& event : ready_) backend(event.device).destroy_event(event);
}

void DataParallel::make_totals(std::int64_t adds) {
  const MemoryTagScope tag(MemoryTag::gradient);
  const bool passing = is_passing(shard_);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Tensor& leaf = leaves_[buckets_.layout(i).items.front().leaf];
    if (shard_ == nullptr) {
      totals_.push_back(adds == 1 ? buckets_[i] : Tensor::empty_like(buckets_[i]));
    } else if (adds == 1 && !passing) {
      totals_.push_back(dist::slice_of(buckets_[i], shard_->own_slice(i)));
    } else {
      const auto n = static_cast<std::int64_t>(shard_->own_slice(i).size());
      totals_.push_back(Tensor::empty({n}, leaf.dtype(), leaf.device()));
    }
  }
}

std::vector<dist::Slice> DataParallel::slices(std::size_t bucket) const {
  if (shard_ == nullptr) return dist::equal_slices(buckets_.layout(bucket).elements, communicator_.size());
  const std::span<const dist::Slice> of_shard = shard_->slices(bucket);
  return {of_shard.begin(), of_shard.end()};
}

void DataParallel::begin(const std::vector<bool>& contributes, bool last) {
  contributes_ = contributes;
  adds_ = std::ranges::find(contributes, true) != contributes.end();
  last_ = last;
  buckets_.last_pass();
}

void DataParallel::note_written(std::size_t bucket) {
  for (const GradBuckets::Layout::Item& item : buckets_.layout(bucket).items)
    if (leaves_[item.leaf].grad().defined()) written_[item.leaf] = 1;
}

void DataParallel::send(std::size_t bucket) {
  const bool passing = is_passing(shard_);
  if (passing) note_written(bucket);
  if (!adds_ && !(last_ && begun_)) return;
  const Tensor values = passing ? buckets_.take(bucket) : buckets_[bucket];
  if (!ready_.empty()) backend(values.device()).record(ready_[bucket], current_stream(values.device()));
  background_->run([this, bucket, values] { reduce(bucket, values); });
}

// On the thread beside.
void DataParallel::reduce(std::size_t bucket, const Tensor& values) const {
  const MemoryTagScope tag(MemoryTag::gradient);
  if (!ready_.empty()) backend(values.device()).synchronize(ready_[bucket]);
  const std::vector<dist::Slice> parts = slices(bucket);
  const dist::Slice own = parts[static_cast<std::size_t>(communicator_.rank())];
  const Tensor& total = totals_[bucket];
  const Tensor sum = shard_ != nullptr ? total : dist::slice_of(total, own);
  if (adds_) {
    const auto reduce_scatter = fast_sums_ ? dist::fast_reduce_scatter : dist::ordered_reduce_scatter;
    reduce_scatter(communicator_, values, parts, contributes_, sum, begun_);
  }
  if (last_ && shard_ == nullptr) dist::all_gather(communicator_, total, parts);
}

void DataParallel::end() {
  // Before what has no gradient gets zeros, since a sum needs numbers.
  if (!is_passing(shard_))
    for (std::size_t i = 0; i < buckets_.size(); ++i) note_written(i);
  buckets_.finish();
  background_->wait();
  begun_ = begun_ || adds_;
  for (const Tensor& leaf : leaves_) leaf.set_grad({});
}

void DataParallel::finish() {
  communicator_.all_reduce(written_);
  if (shard_ != nullptr) {
    shard_->set_gradients(totals_, written_);
  } else {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Tensor &total = totals_[i], &memory = buckets_[i];
      if (total.view().data == memory.view().data) continue;
      backend(memory.device())
          .copy(memory.view().data, total.view().data, total.nbytes(), current_stream(memory.device()));
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (written_[i] > 0) leaves_[i].set_grad(leaves_[i].autograd_meta()->grad.memory);
  }
  std::ranges::fill(written_, 0.0F);
  begun_ = false;
}

Tensor DataParallel::learn_shares(std::size_t rows, std::int64_t metrics,
                                  FunctionRef<Tensor(dist::Slice, double)> learn) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<dist::Slice> shares;
  std::vector<bool> contribute;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    shares.push_back({rows * rank / ranks, rows * (rank + 1) / ranks});
    contribute.push_back(shares.back().size() > 0);
  }
  const dist::Slice own = shares[static_cast<std::size_t>(communicator_.rank())];
  begin(contribute, true);
  const Tensor sums = own.size() > 0 ? learn(own, static_cast<double>(own.size()) / static_cast<double>(rows))
                                     : Tensor::zeros({metrics}, DType::f32, leaves_[0].device());
  end();
  finish();
  gather(sums);
  return sums;
}

void DataParallel::gather(const Tensor& values) {
  backend(values.device()).synchronize(current_stream(values.device()));
  dist::all_reduce(communicator_, values);
}

std::string weights_checksum(ModuleRef model) {
  constexpr std::uint64_t kFactor = 1'000'003;
  std::uint64_t sum = 0;
  for (const auto& [name, parameter] : named_parameters(model)) {
    const Tensor host = to(parameter->value.detach(), kCpu);
    sum = sum * kFactor + crc32c({host.view().as<char>(), host.nbytes()});
  }
  return fmt::format("weights {:016x}", sum);
}

}  // namespace ingot
