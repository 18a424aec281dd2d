#include "ingot/train/language/baseline.h"

#include <cmath>
#include <unordered_map>
#include <vector>

namespace ingot {
namespace {

struct Counts {
  std::vector<double> unigram, followers,
      distinct;  // by token: seen, seen with a successor, different successors
  std::unordered_map<std::uint64_t, double> bigram;
  double total = 0, types = 0;
};

std::uint64_t pair_key(std::int32_t first, std::int32_t second) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32) |
         static_cast<std::uint32_t>(second);
}

// Calls f(previous, next) for every pair of neighbours inside a document whose second is trained.
template <class F>
void for_each_pair(const data::DocumentSet& set, F&& f) {
  for (const data::TokenRange& document : set.documents) {
    for (std::int64_t i = document.begin + 1; i < document.end; ++i)
      if (set.store->trained(i)) f(set.store->at(i - 1), set.store->at(i));
  }
}

Counts count(const data::DocumentSet& set, std::int64_t vocab_size) {
  const auto size = static_cast<std::size_t>(vocab_size);
  Counts counts{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size), {}, 0, 0};
  for_each_pair(set, [&](std::int32_t previous, std::int32_t next) {
    const auto p = static_cast<std::size_t>(previous), n = static_cast<std::size_t>(next);
    if (counts.unigram[n]++ == 0) ++counts.types;
    ++counts.total;
    ++counts.followers[p];
    if (counts.bigram[pair_key(previous, next)]++ == 0) ++counts.distinct[p];
  });
  return counts;
}

}  // namespace

double bigram_loss(const data::DocumentSet& train, const data::DocumentSet& validation,
                   std::int64_t vocab_size) {
  const Counts counts = count(train, vocab_size);
  double nats = 0, pairs = 0;
  for_each_pair(validation, [&](std::int32_t previous, std::int32_t next) {
    const auto p = static_cast<std::size_t>(previous), n = static_cast<std::size_t>(next);
    const double uniform = 1.0 / static_cast<double>(vocab_size);
    const double unigram = (counts.unigram[n] + counts.types * uniform) / (counts.total + counts.types);
    const auto found = counts.bigram.find(pair_key(previous, next));
    const double seen = found == counts.bigram.end() ? 0.0 : found->second;
    const double total = counts.followers[p], distinct = counts.distinct[p];
    nats -= std::log(total == 0 ? unigram : (seen + distinct * unigram) / (total + distinct));
    ++pairs;
  });
  return pairs == 0 ? 0.0 : nats / pairs;
}

}  // namespace ingot
