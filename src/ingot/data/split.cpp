#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/shuffle.h"
#include "ingot/data/packing.h"

namespace ingot::data {
namespace {

constexpr std::uint64_t kSplitEpoch = ~std::uint64_t{0};  // an epoch that no training reaches

struct Unit {
  TokenRange range;
  std::size_t document;
  bool validation = false;
};

/// Documents, the long ones in pieces, so that at least some eight of them make up the validation set.
std::vector<Unit> units_of(const DocumentSet& all, std::int64_t wanted) {
  const std::int64_t piece = std::clamp<std::int64_t>(wanted / 8, 1, 1 << 16);
  std::vector<Unit> units;
  for (std::size_t d = 0; d < all.documents.size(); ++d) {
    const TokenRange& document = all.documents[d];
    const std::int64_t pieces = all.samples ? 1 : std::max<std::int64_t>(1, document.size() / piece);
    for (std::int64_t i = 0; i < pieces; ++i) {
      units.push_back({{document.begin + document.size() * i / pieces,
                        document.begin + document.size() * (i + 1) / pieces},
                       d});
    }
  }
  return units;
}

}  // namespace

DocumentSet DocumentSet::all(std::shared_ptr<const TokenStore> store) {
  DocumentSet set{.store = std::move(store)};
  set.documents.reserve(static_cast<std::size_t>(set.store->documents()));
  for (std::int64_t i = 0; i < set.store->documents(); ++i) set.documents.push_back(set.store->document(i));
  return set;
}

std::int64_t DocumentSet::tokens() const {
  std::int64_t total = 0;
  for (const TokenRange& document : documents) total += document.size();
  return total;
}

TrainValidation split_documents(const DocumentSet& all, double fraction, std::uint64_t seed) {
  INGOT_CHECK(fraction >= 0 && fraction < 1,
              InvalidConfig("validation_split_ratio",
                            fmt::format("is {}; must be at least 0 and below 1", fraction)));
  const DocumentSet none{.store = all.store, .samples = all.samples};
  TrainValidation sets{none, none};
  if (fraction == 0) {
    sets.train = all;
    return sets;
  }
  const std::int64_t total = all.tokens();
  const std::int64_t wanted = std::llround(fraction * static_cast<double>(total));
  std::vector<Unit> units = units_of(all, wanted);
  INGOT_CHECK(wanted > 0 && units.size() >= 2,
              InvalidConfig("validation_split_ratio",
                            fmt::format("{} of {} tokens are too few to be set apart; give more data or a "
                                        "larger fraction, or set it to 0",
                                        fraction, total)));
  // A unit is taken where that brings the sum nearer to what is wanted.
  const Permutation order(units.size(), seed, kSplitEpoch);
  std::int64_t taken = 0;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < units.size() && taken < wanted; ++i) {
    Unit& unit = units[order(i)];
    if (taken + unit.range.size() - wanted > wanted - taken) continue;
    unit.validation = true;
    taken += unit.range.size();
    ++count;
  }
  if (count == 0) units[order(0)].validation = true;

  std::size_t last = units.size();
  for (std::size_t i = 0; i < units.size(); ++i) {
    auto& ranges = (units[i].validation ? sets.validation : sets.train).documents;
    const bool joins = last + 1 == i && units[last].document == units[i].document &&
                       units[last].validation == units[i].validation;
    if (joins) {
      ranges.back().end = units[i].range.end;
    } else {
      ranges.push_back(units[i].range);
    }
    last = i;
  }
  return sets;
}

}  // namespace ingot::data
