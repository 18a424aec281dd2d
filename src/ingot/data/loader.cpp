#include "ingot/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/base/shuffle.h"
#include "ingot/base/trace.h"
#include "ingot/core/memory.h"

namespace ingot::data {
namespace {

/// Makes batches one after another. It never calls parallel_for: on the loader's thread that would start a
/// second thread pool beside the one that trains.
class BatchMaker {
 public:
  BatchMaker(const PackedSequences& sequences, const LoaderOptions& options)
      : sequences_(sequences), options_(options) {}

  std::optional<Batch> make(DataState& state) const {
    const auto size = static_cast<std::uint64_t>(sequences_.size());
    std::int64_t rows = options_.batch_size;
    if (!options_.repeat) {
      if (state.epoch > 0 || state.position >= size) return std::nullopt;
      rows = std::min(rows, static_cast<std::int64_t>(size - state.position));
    }
    const Scope scope(ScopeKind::data, "make batch");
    const MemoryTagScope tag(MemoryTag::data);
    const std::vector<std::int64_t> indices = take(state, rows);
    const Shape shape{rows, length_of(indices)};
    Batch batch;
    for (Tensor* tensor : {&batch.tokens, &batch.targets, &batch.positions, &batch.doc_start}) {
      *tensor = Tensor::empty(shape, options_.index_dtype);
    }
    dispatch_index(options_.index_dtype, "DataLoader", [&]<class T>() { fill<T>(batch, indices); });
    if (sequences_.one_document_each() || !options_.document_mask) batch.doc_start = {};
    batch.next = state;
    return batch;
  }

 private:
  // The sequences of a batch; the state moves on behind them.
  std::vector<std::int64_t> take(DataState& state, std::int64_t rows) const {
    const auto size = static_cast<std::uint64_t>(sequences_.size());
    std::vector<std::int64_t> indices;
    indices.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      if (state.position == size) {
        state.position = 0;
        ++state.epoch;
      }
      indices.push_back(index_at(state.epoch, state.position++));
    }
    return indices;
  }

  std::int64_t index_at(std::uint64_t epoch, std::uint64_t position) const {
    const auto size = static_cast<std::uint64_t>(sequences_.size());
    const auto in_order = [&](std::uint64_t at) {
      return static_cast<std::int64_t>(options_.shuffle ? Permutation(size, options_.seed, epoch)(at) : at);
    };
    if (!options_.group_by_length) return in_order(position);
    const std::uint64_t begin = position / kGroup * kGroup;
    if (group_.empty() || group_epoch_ != epoch || group_begin_ != begin) {
      group_.clear();
      for (std::uint64_t at = begin; at < std::min(begin + kGroup, size); ++at)
        group_.push_back(in_order(at));
      std::ranges::stable_sort(group_, std::ranges::greater{},
                               [&](std::int64_t index) { return sequences_.length(index); });
      group_epoch_ = epoch;
      group_begin_ = begin;
    }
    return group_[position - begin];
  }

  std::int64_t length_of(const std::vector<std::int64_t>& indices) const {
    if (!options_.trim_padding) return sequences_.sequence_length();
    std::int64_t longest = 1;
    for (const std::int64_t index : indices) longest = std::max(longest, sequences_.length(index));
    return std::min((longest + kLengthStep - 1) / kLengthStep * kLengthStep, sequences_.sequence_length());
  }

  template <class T>
  void fill(Batch& batch, const std::vector<std::int64_t>& indices) const {
    const auto length = static_cast<std::size_t>(batch.tokens.dim(1));
    for (std::size_t r = 0; r < indices.size(); ++r) {
      const auto row = [&](const Tensor& tensor) {
        return std::span<T>(tensor.data<T>() + r * length, length);
      };
      batch.valid_targets += sequences_.fill(
          indices[r],
          SequenceRows<T>{row(batch.tokens), row(batch.targets), row(batch.positions), row(batch.doc_start)});
      if (!options_.document_mask) {
        const std::span<T> positions = row(batch.positions);
        std::iota(positions.begin(), positions.end(), T{0});
      }
    }
  }

  static constexpr std::uint64_t kGroup = 1024;
  static constexpr std::int64_t kLengthStep = 16;  // what kernels like

  const PackedSequences& sequences_;
  const LoaderOptions& options_;
  // By length, the group that the last sequence was of. One thread at a time makes batches.
  mutable std::vector<std::int64_t> group_;
  mutable std::uint64_t group_epoch_ = 0, group_begin_ = 0;
};

/// A bounded queue between the thread that makes batches and the one that takes them.
class Prefetcher {
 public:
  Prefetcher(const BatchMaker& maker, const DataState& start, std::size_t depth)
      : maker_(maker), state_(start), depth_(depth), thread_([this] { run(); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    thread_.join();
  }

  std::optional<Batch> take() {
    const Scope scope(ScopeKind::data, "wait for batch");
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !queue_.empty() || ended_; });
    if (queue_.empty()) {
      if (error_ != nullptr) std::rethrow_exception(error_);
      return std::nullopt;
    }
    Batch batch = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    room_.notify_one();
    return batch;
  }

 private:
  void run() {
    trace::name_thread("data loader");
    try {
      while (wait_for_room()) {
        std::optional<Batch> batch = maker_.make(state_);
        const std::lock_guard lock(mutex_);
        if (!batch) break;
        queue_.push_back(*std::move(batch));
        filled_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    filled_.notify_all();
  }

  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return queue_.size() < depth_ || stopping_; });
    return !stopping_;
  }

  const BatchMaker& maker_;
  DataState state_;  // of the making thread alone
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable filled_, room_;
  std::deque<Batch> queue_;
  std::exception_ptr error_;
  bool ended_ = false, stopping_ = false;
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace

std::string DataState::to_json() const {
  return dump_json(nlohmann::json{{"epoch", epoch}, {"position", position}, {"fingerprint", fingerprint}});
}

DataState DataState::from_json(std::string_view text, const std::string& source) {
  const auto json = parse_json_or_discard<nlohmann::json>(text);
  INGOT_CHECK(json.is_object(), FormatError(source, -1, "data state", "is not a JSON object"));
  for (const char* field : {"epoch", "position"}) {
    INGOT_CHECK(json.contains(field) && json[field].is_number_unsigned(),
                FormatError(source, -1, field, "is missing or no unsigned integer"));
  }
  INGOT_CHECK(json.contains("fingerprint") && json["fingerprint"].is_string(),
              FormatError(source, -1, "fingerprint", "is missing or no string"));
  return {json["epoch"], json["position"], json["fingerprint"]};
}

void LoaderOptions::validate() const {
  INGOT_CHECK(batch_size > 0,
              InvalidConfig("batch_size", fmt::format("is {}; must be at least 1", batch_size)));
  INGOT_CHECK(prefetch >= 0, InvalidConfig("dataloader_prefetch_factor",
                                           fmt::format("is {}; must not be negative", prefetch)));
  INGOT_CHECK(index_dtype == DType::i32 || index_dtype == DType::i64,
              InvalidConfig("index_dtype", fmt::format("is {}; must be i32 or i64", name(index_dtype))));
}

struct DataLoader::Impl {
  std::shared_ptr<const PackedSequences> sequences;
  LoaderOptions options;
  BatchMaker maker;
  DataState state;
  std::unique_ptr<Prefetcher> prefetcher;

  Impl(std::shared_ptr<const PackedSequences> s, const LoaderOptions& o)
      : sequences(std::move(s)), options(o), maker(*sequences, options) {
    state.fingerprint = sha256_hex(fmt::format("{} {} {}{}", sequences->fingerprint(), options.seed,
                                               options.shuffle, options.group_by_length ? " by length" : ""));
  }
};

DataLoader::DataLoader(std::shared_ptr<const PackedSequences> sequences, const LoaderOptions& options) {
  options.validate();
  impl_ = std::make_unique<Impl>(std::move(sequences), options);
}
DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next() {
  std::optional<Batch> batch;
  if (impl_->options.prefetch > 0) {
    if (impl_->prefetcher == nullptr) {
      impl_->prefetcher = std::make_unique<Prefetcher>(impl_->maker, impl_->state,
                                                       static_cast<std::size_t>(impl_->options.prefetch));
    }
    batch = impl_->prefetcher->take();
  } else {
    DataState state = impl_->state;
    batch = impl_->maker.make(state);
  }
  if (batch) impl_->state = batch->next;
  return batch;
}

const DataState& DataLoader::state() const { return impl_->state; }

void DataLoader::restore(const DataState& state) {
  INGOT_CHECK(state.fingerprint == impl_->state.fingerprint,
              InvalidConfig("resume",
                            "the saved position belongs to other data, another sequence length, "
                            "packing or seed; resume with the same settings, or start anew"));
  INGOT_CHECK(state.position <= static_cast<std::uint64_t>(impl_->sequences->size()),
              InvalidConfig("resume", fmt::format("the saved position {} lies beyond the {} sequences of an "
                                                  "epoch",
                                                  state.position, impl_->sequences->size())));
  impl_->prefetcher.reset();
  impl_->state = state;
}

void DataLoader::reset() {
  impl_->prefetcher.reset();
  impl_->state.epoch = 0;
  impl_->state.position = 0;
}

const PackedSequences& DataLoader::sequences() const { return *impl_->sequences; }
const LoaderOptions& DataLoader::options() const { return impl_->options; }

std::int64_t DataLoader::batches_per_epoch() const {
  const std::int64_t batch = impl_->options.batch_size;
  return (impl_->sequences->size() + batch - 1) / batch;
}

}  // namespace ingot::data
