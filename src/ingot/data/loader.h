#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ingot/core/tensor.h"
#include "ingot/data/packing.h"

namespace ingot::data {

/// Where a loader stands: everything that is needed to go on with the very next batch.
struct DataState {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< sequences of this epoch that were given out
  std::string fingerprint;     ///< of the data, the packing and the order

  std::string to_json() const;
  /// FormatError that names `source` otherwise.
  static DataState from_json(std::string_view json, const std::string& source = "data state");
  bool operator==(const DataState&) const = default;
};

struct LoaderOptions {
  std::int64_t batch_size = 0;  ///< sequences
  std::uint64_t seed = 0;
  bool shuffle = true;
  /// Go on with the next epoch, endlessly and in batches that are always full. False: one pass over the data,
  /// whose last batch may be smaller.
  bool repeat = true;
  /// Batches made ahead, on a thread of the loader's own; 0: none, each is made when it is asked for.
  int prefetch = 4;
  /// False: what is in a sequence is one text, whatever documents it is of. Positions run on, and doc_start
  /// is undefined.
  bool document_mask = true;
  /// Batches are as long as their longest sequence, rounded up to 16, instead of all as long as a sequence
  /// may be.
  bool trim_padding = false;
  /// Sequences of about one length go together: the order within each 1,024 of them is by length.
  bool group_by_length = false;
  DType index_dtype = DType::i32;  ///< i32 or i64

  void validate() const;
};

/// Tensors of shape [rows, length] and index_dtype, `length` a sequence's but for trim_padding; see
/// SequenceRows for their meaning. doc_start is undefined where no sequence of the data holds several
/// documents.
struct Batch {
  Tensor tokens, targets, positions, doc_start;
  std::int64_t valid_targets = 0;  ///< targets that are not kNoTarget: the loss's denominator
  DataState next;                  ///< the state that goes on after this batch

  std::int64_t rows() const { return tokens.dim(0); }
};

/// Gives batches of packed sequences. The order is a pure function of seed and epoch; so after restore() it
/// gives, bit for bit, what it would have given then, whatever the prefetching and the batch size.
/// For one consuming thread.
class DataLoader {
 public:
  DataLoader(std::shared_ptr<const PackedSequences> sequences, const LoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// The next batch; nothing after the last one of a single pass. What went wrong in the loader's thread is
  /// thrown here.
  std::optional<Batch> next();

  /// After the last batch that next() gave.
  const DataState& state() const;
  /// Goes on from a saved state. InvalidConfig where it is the state of other data, packing or order.
  void restore(const DataState& state);
  /// Back to the beginning.
  void reset();

  const PackedSequences& sequences() const;
  const LoaderOptions& options() const;
  /// Batches in an epoch, rounded up.
  std::int64_t batches_per_epoch() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::data
