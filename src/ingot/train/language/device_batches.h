#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/transfer.h"
#include "ingot/data/loader.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// The batches of one step on the device that works on them, always at the same address, so that a captured
/// graph finds the next ones there. The host does not wait for the copies.
class DeviceBatches {
 public:
  /// For up to `count` batches of up to `rows` sequences of `length` tokens.
  DeviceBatches(std::int64_t count, std::int64_t rows, std::int64_t length, Device device);

  /// Puts copies of the batches, whose indices are i32, into the current stream. `targets`: of all batches of
  /// the step, where some are elsewhere; -1: of these.
  void send(std::span<const data::Batch> batches, std::int64_t targets = -1);
  /// Batch `i` of those sent last.
  DecoderInput input(std::size_t i) const;
  Tensor targets(std::size_t i) const { return part(i, 1); }
  /// The targets of the step, counted: one f32.
  Tensor target_count() const { return number(0); }
  /// Which part of them batch `i` has: one f32.
  Tensor target_share(std::size_t i) const { return number(i + 1); }

 private:
  Tensor part(std::size_t batch, std::int64_t which) const;
  Tensor number(std::size_t i) const;

  std::int64_t part_size_;     // elements
  Upload indices_;             // i32 [batch, tokens or targets or positions or doc_start, rows * length]
  Upload numbers_;             // f32: the targets, then the share of each batch
  std::vector<Shape> shapes_;  // of the batches sent last
  std::vector<std::int64_t> lengths_;  // one more than the largest position of each
  std::vector<bool> masked_;           // whether each tells where documents start
};

}  // namespace ingot
