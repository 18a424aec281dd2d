#include "ingot/data/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"

namespace ingot::data {

std::string_view name(Packing packing) {
  switch (packing) {
    case Packing::continuous:
      return "continuous";
    case Packing::best_fit:
      return "best_fit";
    case Packing::none:
      break;
  }
  return "none";
}

Packing parse_packing(std::string_view text) {
  for (const Packing packing : {Packing::continuous, Packing::best_fit, Packing::none}) {
    if (text == name(packing)) return packing;
  }
  throw InvalidConfig("packing", fmt::format("'{}' is none of continuous, best_fit, none", text));
}

std::string_view name(ExcessLength strategy) {
  switch (strategy) {
    case ExcessLength::drop:
      return "drop";
    case ExcessLength::truncate:
      return "truncate";
    case ExcessLength::raise:
      break;
  }
  return "raise";
}

ExcessLength parse_excess_length(std::string_view text) {
  for (const ExcessLength strategy : {ExcessLength::drop, ExcessLength::truncate, ExcessLength::raise}) {
    if (text == name(strategy)) return strategy;
  }
  throw InvalidConfig("excess_length_strategy",
                      fmt::format("must be one of drop, truncate, raise, got '{}'", text));
}

void PackingOptions::validate() const {
  INGOT_CHECK(sequence_length > 0 && sequence_length <= std::numeric_limits<std::int32_t>::max(),
              InvalidConfig("sequence_len", fmt::format("is {}; must be at least 1", sequence_length)));
  INGOT_CHECK(pad_id >= 0, InvalidConfig("pad_token_id", fmt::format("is {}; must not be negative", pad_id)));
}

PackedSequences::PackedSequences(DocumentSet documents, const PackingOptions& options)
    : documents_(std::move(documents)), options_(options) {
  options_.validate();
  if (documents_.samples) fit_samples();
  tokens_ = documents_.tokens();
  INGOT_CHECK(tokens_ > 0, InvalidConfig("datasets", "there are no tokens to make sequences of"));
  switch (options_.packing) {
    case Packing::continuous:
      INGOT_CHECK(
          tokens_ >= options_.sequence_length,
          InvalidConfig("sequence_len",
                        fmt::format("is {}, but the data has only {} tokens; make it smaller, or give "
                                    "more data",
                                    options_.sequence_length, tokens_)));
      lay_continuous();
      break;
    case Packing::best_fit:
      lay_best_fit();
      break;
    case Packing::none:
      lay_one_each();
      break;
  }
  first_segment_.push_back(static_cast<std::int64_t>(segments_.size()));
}

void PackedSequences::fit_samples() {
  const std::int64_t length = options_.sequence_length;
  std::vector<TokenRange> kept;
  std::int64_t longest = 0;
  for (TokenRange sample : documents_.documents) {
    longest = std::max(longest, sample.size());
    if (sample.size() > length) {
      ++too_long_;
      INGOT_CHECK(options_.excess_length != ExcessLength::raise,
                  InvalidConfig("sequence_len",
                                fmt::format("is {}, and a sample has {} tokens; make it larger, or set "
                                            "excess_length_strategy to drop or truncate",
                                            length, sample.size())));
      if (options_.excess_length == ExcessLength::drop) continue;
      sample.end = sample.begin + length;
    }
    kept.push_back(sample);
  }
  INGOT_CHECK(
      !kept.empty() || documents_.documents.empty(),
      InvalidConfig("sequence_len",
                    fmt::format("is {}, and every sample is longer: up to {} tokens; make it larger, or "
                                "set excess_length_strategy: truncate",
                                length, longest)));
  documents_.documents = std::move(kept);
}

void PackedSequences::lay_continuous() {
  std::int64_t room = 0;
  for (const TokenRange& document : documents_.documents) {
    for (std::int64_t at = document.begin; at < document.end;) {
      if (room == 0) {
        first_segment_.push_back(static_cast<std::int64_t>(segments_.size()));
        room = options_.sequence_length;
      }
      const std::int64_t length = std::min(room, document.end - at);
      segments_.push_back({at, static_cast<std::int32_t>(length), at + length < document.end});
      room -= length;
      at += length;
    }
  }
}

/// The documents, those longer than a sequence in pieces of its length.
std::vector<PackedSequences::Segment> PackedSequences::pieces() const {
  std::vector<Segment> pieces;
  for (const TokenRange& document : documents_.documents) {
    for (std::int64_t at = document.begin; at < document.end; at += options_.sequence_length) {
      const std::int64_t length = std::min(options_.sequence_length, document.end - at);
      pieces.push_back({at, static_cast<std::int32_t>(length), at + length < document.end});
    }
  }
  return pieces;
}

void PackedSequences::lay_one_each() {
  segments_ = pieces();
  first_segment_.resize(segments_.size());
  std::iota(first_segment_.begin(), first_segment_.end(), std::int64_t{0});
}

void PackedSequences::lay_best_fit() {
  const std::vector<Segment> all = pieces();
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return all[i].length; });

  std::vector<std::vector<std::size_t>> sequences;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // (free tokens, sequence)
  for (const std::size_t piece : order) {
    const std::int64_t length = all[piece].length;
    const auto best = open.lower_bound({length, 0});
    std::size_t sequence = sequences.size();
    std::int64_t room = options_.sequence_length;
    if (best == open.end()) {
      sequences.emplace_back();
    } else {
      std::tie(room, sequence) = *best;
      open.erase(best);
    }
    sequences[sequence].push_back(piece);
    if (room > length) open.emplace(room - length, sequence);
  }
  for (const auto& sequence : sequences) {
    first_segment_.push_back(static_cast<std::int64_t>(segments_.size()));
    for (const std::size_t piece : sequence) segments_.push_back(all[piece]);
  }
}

std::string PackedSequences::fingerprint() const {
  Sha256 hash;
  hash.update(fmt::format("{}\n{} {} {}\n", documents_.store->key(), name(options_.packing),
                          options_.sequence_length, options_.pad_id));
  hash.update(std::as_bytes(std::span(documents_.documents)));
  return hash.finish_hex();
}

std::int64_t PackedSequences::length(std::int64_t index) const {
  std::int64_t tokens = 0;
  const auto at = static_cast<std::size_t>(index);
  for (std::int64_t s = first_segment_[at]; s < first_segment_[at + 1]; ++s)
    tokens += segments_[static_cast<std::size_t>(s)].length;
  return tokens;
}

template <class T>
std::int64_t PackedSequences::fill_as(std::int64_t index, const SequenceRows<T>& rows) const {
  INGOT_ASSERT(index >= 0 && index < size());
  const std::size_t length = rows.tokens.size();
  INGOT_ASSERT(static_cast<std::int64_t>(length) >= this->length(index) && rows.targets.size() == length &&
               rows.positions.size() == length && rows.doc_start.size() == length);
  const TokenStore& store = *documents_.store;
  const auto first = static_cast<std::size_t>(first_segment_[static_cast<std::size_t>(index)]);
  const auto last = static_cast<std::size_t>(first_segment_[static_cast<std::size_t>(index) + 1]);
  std::size_t at = 0;
  std::int64_t targets = 0;
  for (std::size_t s = first; s < last; ++s) {
    const Segment& segment = segments_[s];
    const auto n = static_cast<std::size_t>(segment.length);
    const auto tokens = rows.tokens.subspan(at, n), next = rows.targets.subspan(at, n);
    store.read(segment.begin, tokens);
    std::copy(tokens.begin() + 1, tokens.end(), next.begin());
    next[n - 1] = segment.continues ? store.at(segment.begin + segment.length) : kNoTarget;
    std::iota(rows.positions.begin() + static_cast<std::ptrdiff_t>(at),
              rows.positions.begin() + static_cast<std::ptrdiff_t>(at + n), T{0});
    std::fill_n(rows.doc_start.begin() + static_cast<std::ptrdiff_t>(at), n, static_cast<T>(at));
    targets += segment.length - (segment.continues ? 0 : 1);
    if (store.masked()) {
      for (std::size_t i = 0; i < n; ++i) {
        if (next[i] == static_cast<T>(kNoTarget) ||
            store.trained(segment.begin + static_cast<std::int64_t>(i) + 1))
          continue;
        next[i] = static_cast<T>(kNoTarget);
        --targets;
      }
    }
    at += n;
  }
  std::ranges::fill(rows.tokens.subspan(at), static_cast<T>(options_.pad_id));
  std::ranges::fill(rows.targets.subspan(at), static_cast<T>(kNoTarget));
  std::iota(rows.positions.begin() + static_cast<std::ptrdiff_t>(at), rows.positions.end(), T{0});
  std::ranges::fill(rows.doc_start.subspan(at), static_cast<T>(at));
  return targets;
}

std::int64_t PackedSequences::fill(std::int64_t index, const SequenceRows<std::int32_t>& rows) const {
  return fill_as(index, rows);
}
std::int64_t PackedSequences::fill(std::int64_t index, const SequenceRows<std::int64_t>& rows) const {
  return fill_as(index, rows);
}

}  // namespace ingot::data
