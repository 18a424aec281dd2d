#include "ingot/data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/data/support.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ingot/base/error.h"

namespace ingot::data {
namespace {

using test::message_of;
using Ids = std::vector<std::int32_t>;

struct Sequence {
  Ids tokens, targets, positions, doc_start;
  std::int64_t valid = 0;
};

Sequence sequence_at(const PackedSequences& packed, std::int64_t index) {
  const auto length = static_cast<std::size_t>(packed.sequence_length());
  Sequence s{Ids(length, -7), Ids(length, -7), Ids(length, -7), Ids(length, -7)};
  s.valid = packed.fill(index, SequenceRows<std::int32_t>{s.tokens, s.targets, s.positions, s.doc_start});
  return s;
}

PackedSequences pack(const std::vector<std::int64_t>& lengths, std::int64_t length, Packing packing) {
  auto store = counting_store(lengths);
  const auto pad = static_cast<std::int32_t>(store->vocab_size()) - 1;
  return {DocumentSet::all(std::move(store)), {length, packing, pad}};
}

TEST(Packing, ContinuousGoesOnOverTheEndOfASequence) {
  const PackedSequences packed = pack({3, 4, 2}, 4, Packing::continuous);
  ASSERT_EQ(packed.size(), 3);
  const Sequence a = sequence_at(packed, 0), b = sequence_at(packed, 1), c = sequence_at(packed, 2);
  EXPECT_EQ(a.tokens, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(a.targets, (Ids{1, 2, -100, 4}));
  EXPECT_EQ(a.positions, (Ids{0, 1, 2, 0}));
  EXPECT_EQ(a.doc_start, (Ids{0, 0, 0, 3}));
  EXPECT_EQ(b.tokens, (Ids{4, 5, 6, 7}));
  EXPECT_EQ(b.targets, (Ids{5, 6, -100, 8}));
  EXPECT_EQ(b.positions, (Ids{0, 1, 2, 0}));
  EXPECT_EQ(c.tokens, (Ids{8, 9, 9, 9}));
  EXPECT_EQ(c.targets, (Ids{-100, -100, -100, -100}));
  EXPECT_EQ(c.positions, (Ids{0, 0, 1, 2}));
  EXPECT_EQ(c.doc_start, (Ids{0, 1, 1, 1}));
  EXPECT_EQ(a.valid, 3);
  EXPECT_EQ(c.valid, 0);
  EXPECT_EQ(packed.padding(), 3);
}

TEST(Packing, BestFitCutsOnlyWhatIsLongerThanASequence) {
  const PackedSequences packed = pack({3, 9, 2, 4, 1}, 5, Packing::best_fit);
  // 19 tokens; 9 becomes 5 + 4, and 3 + 2, 4 + 1 fill two sequences.
  EXPECT_EQ(packed.size(), 4);
  EXPECT_EQ(packed.padding(), 1);
}

TEST(Packing, NoneGivesADocumentASequence) {
  const PackedSequences packed = pack({3, 6, 1}, 4, Packing::none);
  ASSERT_EQ(packed.size(), 4);
  EXPECT_EQ(sequence_at(packed, 0).tokens, (Ids{0, 1, 2, 10}));
  EXPECT_EQ(sequence_at(packed, 1).targets, (Ids{4, 5, 6, 7}));
  EXPECT_EQ(sequence_at(packed, 2).tokens, (Ids{7, 8, 10, 10}));
}

struct Document {
  std::int64_t begin, end;
};

/// What every packing promises, checked position by position.
void check_packing(const std::vector<std::int64_t>& lengths, std::int64_t length, Packing packing) {
  std::map<std::int32_t, Document> document_of;
  std::int64_t total = 0;
  for (const std::int64_t n : lengths) {
    for (std::int64_t i = 0; i < n; ++i)
      document_of[static_cast<std::int32_t>(total + i)] = {total, total + n};
    total += n;
  }
  const PackedSequences packed = pack(lengths, length, packing);
  const auto pad = static_cast<std::int32_t>(total);
  RC_ASSERT(packed.tokens() == total);
  std::map<std::int32_t, int> as_token, as_target;
  std::int64_t padding = 0;
  for (std::int64_t i = 0; i < packed.size(); ++i) {
    const Sequence s = sequence_at(packed, i);
    std::int64_t valid = 0;
    for (std::size_t t = 0; t < s.tokens.size(); ++t) {
      const auto start = static_cast<std::size_t>(s.doc_start[t]);
      RC_ASSERT(start <= t);
      RC_ASSERT(s.positions[t] == static_cast<std::int32_t>(t - start));
      RC_ASSERT(s.doc_start[start] == s.doc_start[t]);
      if (s.tokens[t] == pad) {
        ++padding;
        RC_ASSERT(s.targets[t] == kNoTarget);
        RC_ASSERT(s.tokens[start] == pad);  // padding sees padding only
        continue;
      }
      const Document document = document_of.at(s.tokens[t]);
      ++as_token[s.tokens[t]];
      // Everything that the token may attend to is the run of its own document that leads to it.
      RC_ASSERT(s.tokens[t] - s.tokens[start] == static_cast<std::int32_t>(t - start));
      RC_ASSERT(s.tokens[start] >= document.begin);
      if (s.tokens[t] + 1 < document.end) {
        RC_ASSERT(s.targets[t] == s.tokens[t] + 1);
        ++as_target[s.targets[t]];
        ++valid;
      } else {
        RC_ASSERT(s.targets[t] == kNoTarget);
      }
    }
    RC_ASSERT(valid == s.valid);
  }
  RC_ASSERT(padding == packed.padding());
  RC_ASSERT(static_cast<std::int64_t>(as_token.size()) == total);
  for (const auto& [token, count] : as_token) RC_ASSERT(count == 1);
  RC_ASSERT(as_target.size() == as_token.size() - lengths.size());
  for (const auto& [token, count] : as_target) RC_ASSERT(count == 1);
}

TEST(Packing, EveryTokenStandsOnceAndNoneSeesAnotherDocument) {
  EXPECT_TRUE(rc::check([] {
    const auto lengths = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 40)));
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const auto length = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(total, 24) + 1);
    for (const Packing packing : {Packing::continuous, Packing::best_fit, Packing::none}) {
      check_packing(lengths, length, packing);
    }
  }));
}

TEST(Packing, BestFitNeverCutsADocumentThatFits) {
  EXPECT_TRUE(rc::check([] {
    const auto lengths = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 16)));
    const PackedSequences packed = pack(lengths, 16, Packing::best_fit);
    std::int64_t documents = 0;
    for (std::int64_t i = 0; i < packed.size(); ++i) {
      const Sequence s = sequence_at(packed, i);
      for (std::size_t t = 0; t < s.tokens.size(); ++t) {
        documents += s.positions[t] == 0 && s.tokens[t] != packed.options().pad_id;
      }
    }
    RC_ASSERT(documents == static_cast<std::int64_t>(lengths.size()));
    RC_ASSERT(packed.size() <=
              2 * (packed.tokens() / 16) + 1);  // at most one sequence is less than half full
  }));
}

TEST(Packing, SixtyFourBitRowsHoldTheSame) {
  const PackedSequences packed = pack({3, 4, 2}, 4, Packing::continuous);
  std::vector<std::int64_t> tokens(4), targets(4), positions(4), doc_start(4);
  packed.fill(0, SequenceRows<std::int64_t>{tokens, targets, positions, doc_start});
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(targets, (std::vector<std::int64_t>{1, 2, -100, 4}));
}

TEST(Packing, ImpossibleSettingsNameTheKey) {
  EXPECT_NE(message_of<InvalidConfig>([] {
              pack({3}, 4, Packing::continuous);
            }).find("sequence_len: is 4, but the data has only 3 tokens"),
            std::string::npos);
  EXPECT_NO_THROW(pack({3}, 4, Packing::best_fit));
  EXPECT_THROW(pack({3}, 0, Packing::continuous), InvalidConfig);
  EXPECT_THROW(pack({3}, -1, Packing::none), InvalidConfig);
  EXPECT_THROW(pack({}, 1, Packing::none), InvalidConfig);
  EXPECT_THROW(parse_packing("tight"), InvalidConfig);
  EXPECT_EQ(parse_packing("best_fit"), Packing::best_fit);
}

TEST(Split, PartsAreDisjointCompleteAndNearTheFraction) {
  EXPECT_TRUE(rc::check([] {
    const auto lengths =
        *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange<std::int64_t>(100, 3000));
    const auto fraction = *rc::gen::element(0.05, 0.1, 0.25, 0.5, 0.9);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const DocumentSet all = DocumentSet::all(counting_store(lengths));
    const TrainValidation sets = split_documents(all, fraction, seed);
    std::vector<TokenRange> ranges = sets.train.documents;
    ranges.insert(ranges.end(), sets.validation.documents.begin(), sets.validation.documents.end());
    std::ranges::sort(ranges, {}, &TokenRange::begin);
    std::int64_t at = 0;
    for (const TokenRange& range : ranges) {
      RC_ASSERT(range.begin == at && range.size() > 0);
      at = range.end;
    }
    RC_ASSERT(at == all.store->size());
    const double share = static_cast<double>(sets.validation.tokens()) / static_cast<double>(at);
    RC_ASSERT(std::abs(share - fraction) < 0.2 * fraction);
    for (const TokenRange& range : ranges) {  // no range crosses a document's end
      const bool inside = std::ranges::any_of(all.documents, [&](const TokenRange& document) {
        return document.begin <= range.begin && range.end <= document.end;
      });
      RC_ASSERT(inside);
    }
  }));
}

TEST(Split, DependsOnTheSeedOnly) {
  const DocumentSet all = DocumentSet::all(counting_store(std::vector<std::int64_t>(100, 50)));
  EXPECT_EQ(split_documents(all, 0.1, 1).validation.documents,
            split_documents(all, 0.1, 1).validation.documents);
  EXPECT_NE(split_documents(all, 0.1, 1).validation.documents,
            split_documents(all, 0.1, 2).validation.documents);
  EXPECT_EQ(split_documents(all, 0.1, 1).validation.documents.size(), 10U);  // whole documents
}

TEST(Split, ZeroKeepsAllAndTooLittleDataIsSaid) {
  const DocumentSet all = DocumentSet::all(counting_store({5, 5}));
  EXPECT_EQ(split_documents(all, 0, 1).train.documents, all.documents);
  EXPECT_TRUE(split_documents(all, 0, 1).validation.documents.empty());
  EXPECT_NE(message_of<InvalidConfig>([&] { split_documents(all, 0.01, 1); }).find("too few to be set apart"),
            std::string::npos);
  EXPECT_THROW(split_documents(all, 1, 1), InvalidConfig);
  EXPECT_THROW(split_documents(all, -0.1, 1), InvalidConfig);
}

}  // namespace
}  // namespace ingot::data
