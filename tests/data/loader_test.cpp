#include "ingot/data/loader.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/data/support.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ingot/base/error.h"
#include "ingot/base/shuffle.h"
#include "ingot/core/backend.h"

namespace ingot::data {
namespace {

using test::message_of;
using Ids = std::vector<std::int32_t>;

TEST(Permutation, ReachesEveryElementOnce) {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    const Permutation order(n, 3, 5);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(order(i), n);
      seen.insert(order(i));
    }
    EXPECT_EQ(seen.size(), n);
  }
}

TEST(Permutation, WorksOverSixtyBits) {
  const std::uint64_t n = (std::uint64_t{1} << 60) + 7;
  const Permutation order(n, 3, 5);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_LT(order(n - 1 - i), n);
}

TEST(Permutation, EveryOrderOfFewElementsIsAboutAsLikely) {
  std::map<std::vector<std::uint64_t>, int> counts;
  const int draws = 24000;
  for (int seed = 0; seed < draws; ++seed) {
    const Permutation order(4, static_cast<std::uint64_t>(seed), 0);
    counts[{order(0), order(1), order(2), order(3)}]++;
  }
  // A Feistel network on 2 bits gives even permutations only: 12 of the 24 orders. Each element must still be
  // as likely in each position.
  double chi_square = 0;
  for (std::uint64_t position = 0; position < 4; ++position) {
    std::array<int, 4> at_position{};
    for (const auto& [order, count] : counts) at_position[order[position]] += count;
    for (const int count : at_position)
      chi_square += (count - draws / 4.0) * (count - draws / 4.0) / (draws / 4.0);
  }
  EXPECT_LT(chi_square, 40.0);  // 9 degrees of freedom: 40 is p < 1e-5
}

TEST(Permutation, SeedsAndEpochsDiffer) {
  const auto first = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<std::uint64_t> order;
    const Permutation permutation(1000, seed, epoch);
    for (std::uint64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
    return order;
  };
  EXPECT_EQ(first(1, 1), first(1, 1));
  EXPECT_NE(first(1, 1), first(1, 2));
  EXPECT_NE(first(1, 1), first(2, 1));
}

std::shared_ptr<const PackedSequences> sequences(std::int64_t documents = 30, std::int64_t length = 5) {
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(documents), 7);
  return std::make_shared<const PackedSequences>(DocumentSet::all(counting_store(lengths)),
                                                 PackingOptions{length, Packing::continuous, 0});
}

std::vector<Ids> contents(const Batch& batch) {
  return {batch.tokens.to_vector<std::int32_t>(), batch.targets.to_vector<std::int32_t>(),
          batch.positions.to_vector<std::int32_t>(),
          batch.doc_start.defined() ? batch.doc_start.to_vector<std::int32_t>() : Ids()};
}

TEST(DataLoader, AnEpochGivesEverySequenceOnce) {
  const auto data = sequences();
  ASSERT_EQ(data->size(), 42);
  DataLoader loader(data, {.batch_size = 4, .seed = 1, .repeat = false});
  EXPECT_EQ(loader.batches_per_epoch(), 11);
  std::multiset<std::int32_t> firsts;
  std::vector<std::int64_t> rows;
  std::int64_t targets = 0;
  while (const auto batch = loader.next()) {
    rows.push_back(batch->rows());
    EXPECT_EQ(batch->tokens.shape(), Shape({batch->rows(), 5}));
    for (std::int64_t r = 0; r < batch->rows(); ++r) firsts.insert(batch->tokens.data<std::int32_t>()[r * 5]);
    const Ids all = batch->targets.to_vector<std::int32_t>();
    EXPECT_EQ(batch->valid_targets, std::ranges::count_if(all, [](int t) { return t != kNoTarget; }));
    targets += batch->valid_targets;
  }
  EXPECT_EQ(rows.back(), 2);
  EXPECT_EQ(firsts.size(), 42U);
  EXPECT_EQ(std::set(firsts.begin(), firsts.end()).size(), 42U);
  EXPECT_EQ(targets, 210 - 30);
  EXPECT_FALSE(loader.next().has_value());
  loader.reset();
  EXPECT_TRUE(loader.next().has_value());
}

TEST(DataLoader, TellsWhereDocumentsStartOnlyWhereASequenceHoldsSeveral) {
  DataLoader several(sequences(), {.batch_size = 4});  // 7 tokens each, 5 to a sequence
  EXPECT_EQ(several.next()->doc_start.shape(), Shape({4, 5}));
  const auto one_each = std::make_shared<const PackedSequences>(
      DocumentSet::all(counting_store(std::vector<std::int64_t>(9, 3))), PackingOptions{5, Packing::none, 0});
  DataLoader one(one_each, {.batch_size = 4});
  EXPECT_FALSE(one.next()->doc_start.defined());
}

TEST(DataLoader, WithoutADocumentMaskASequenceIsOneText) {
  DataLoader masked(sequences(), {.batch_size = 4, .shuffle = false});
  DataLoader plain(sequences(), {.batch_size = 4, .shuffle = false, .document_mask = false});
  for (int i = 0; i < 12; ++i) {  // into the second epoch
    const auto expected = masked.next(), batch = plain.next();
    EXPECT_FALSE(batch->doc_start.defined());
    EXPECT_EQ(batch->tokens.to_vector<std::int32_t>(), expected->tokens.to_vector<std::int32_t>());
    EXPECT_EQ(batch->targets.to_vector<std::int32_t>(), expected->targets.to_vector<std::int32_t>());
    EXPECT_EQ(batch->valid_targets, expected->valid_targets);
    EXPECT_EQ(batch->positions.to_vector<std::int32_t>(),
              Ids({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  }
}

TEST(DataLoader, EpochsDifferAndBatchesStayFull) {
  const auto data = sequences();
  DataLoader loader(data, {.batch_size = 4, .seed = 1});
  std::vector<std::int32_t> firsts;
  for (int i = 0; i < 21; ++i) {  // two epochs of 42
    const auto batch = loader.next();
    ASSERT_EQ(batch->rows(), 4);
    for (int r = 0; r < 4; ++r) firsts.push_back(batch->tokens.data<std::int32_t>()[r * 5]);
  }
  EXPECT_EQ(loader.state().epoch, 1U);
  EXPECT_EQ(loader.state().position, 42U);
  const Ids one(firsts.begin(), firsts.begin() + 42), two(firsts.begin() + 42, firsts.end());
  EXPECT_NE(one, two);
  EXPECT_TRUE(std::ranges::is_permutation(one, two));
}

TEST(DataLoader, WithoutShufflingTheOrderIsThatOfTheData) {
  DataLoader loader(sequences(), {.batch_size = 2, .shuffle = false});
  EXPECT_EQ(loader.next()->tokens.to_vector<std::int32_t>(), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// Documents of 1 to 60 tokens, each in a sequence of its own.
std::shared_ptr<const PackedSequences> uneven_sequences() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 3000; ++i) lengths.push_back(1 + i * 37 % 60);
  return std::make_shared<const PackedSequences>(DocumentSet::all(counting_store(lengths)),
                                                 PackingOptions{64, Packing::none, 0});
}

TEST(DataLoader, TrimmedBatchesLackOnlyPadding) {
  LoaderOptions options{.batch_size = 4, .seed = 3, .repeat = false};
  DataLoader padded(uneven_sequences(), options);
  options.trim_padding = true;
  DataLoader trimmed(uneven_sequences(), options);
  std::set<std::int64_t> lengths;
  while (const std::optional<Batch> whole = padded.next()) {
    const std::optional<Batch> part = trimmed.next();
    ASSERT_TRUE(part.has_value());
    const std::int64_t length = part->tokens.dim(1);
    lengths.insert(length);
    EXPECT_EQ(part->valid_targets, whole->valid_targets);
    const Ids all = whole->targets.to_vector<std::int32_t>(), kept = part->targets.to_vector<std::int32_t>();
    for (std::int64_t r = 0; r < whole->rows(); ++r) {
      const auto row = all.begin() + r * 64;
      EXPECT_TRUE(std::equal(row, row + length, kept.begin() + r * length));
      EXPECT_EQ(std::count(row + length, row + 64, kNoTarget), 64 - length);
    }
  }
  EXPECT_EQ(lengths, (std::set<std::int64_t>{16, 32, 48, 64}));
}

TEST(DataLoader, GroupedByLengthAnEpochGivesEverySequenceOnceInFewerPositions) {
  const auto sequences = uneven_sequences();
  const auto positions_and_tokens = [&](bool grouped) {
    DataLoader loader(
        sequences,
        {.batch_size = 8, .seed = 3, .repeat = false, .trim_padding = true, .group_by_length = grouped});
    std::pair<std::int64_t, std::int64_t> sums;
    std::int64_t targets = 0;
    while (const std::optional<Batch> batch = loader.next()) {
      sums.first += batch->tokens.numel();
      for (const std::int32_t token : batch->tokens.to_vector<std::int32_t>()) sums.second += token;
      targets += batch->valid_targets;
    }
    EXPECT_EQ(targets, sequences->tokens() - sequences->size());
    return sums;
  };
  const auto [positions, sum] = positions_and_tokens(false);
  const auto [grouped_positions, grouped_sum] = positions_and_tokens(true);
  EXPECT_EQ(grouped_sum, sum);
  EXPECT_LT(static_cast<double>(grouped_positions), 0.7 * static_cast<double>(positions));
}

TEST(DataLoader, GivesSixtyFourBitIndicesOnRequest) {
  DataLoader loader(sequences(), {.batch_size = 1, .shuffle = false, .index_dtype = DType::i64});
  EXPECT_EQ(loader.next()->tokens.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(DataLoader, ResumedAnywhereItGivesWhatItWouldHaveGiven) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    const auto data = sequences(*rc::gen::inRange<std::int64_t>(1, 12));
    const auto batch = *rc::gen::inRange<std::int64_t>(1, 6);
    const auto stop = *rc::gen::inRange(0, 12);
    const LoaderOptions options{.batch_size = batch,
                                .seed = seed,
                                .prefetch = *rc::gen::inRange(0, 4),
                                .group_by_length = *rc::gen::arbitrary<bool>()};
    DataLoader straight(data, options);
    for (int i = 0; i < stop; ++i) straight.next();
    const std::string saved = straight.state().to_json();
    LoaderOptions other = options;
    other.prefetch = *rc::gen::inRange(0, 4);
    DataLoader resumed(data, other);
    if (*rc::gen::arbitrary<bool>()) resumed.next();  // it may have been used before
    resumed.restore(DataState::from_json(saved));
    for (int i = 0; i < 8; ++i) {
      const auto a = straight.next(), b = resumed.next();
      RC_ASSERT(contents(*a) == contents(*b));
      RC_ASSERT(a->valid_targets == b->valid_targets);
      RC_ASSERT(straight.state() == resumed.state());
    }
  }));
}

TEST(DataLoader, ADifferentBatchSizeGoesOnAtTheSameSequence) {
  const auto data = sequences();
  DataLoader first(data, {.batch_size = 4, .seed = 1}), second(data, {.batch_size = 2, .seed = 1});
  first.next();
  const auto a = first.next();
  second.next();
  second.next();
  const auto b = second.next();
  EXPECT_EQ(Ids(a->tokens.data<std::int32_t>(), a->tokens.data<std::int32_t>() + 10),
            b->tokens.to_vector<std::int32_t>());
}

TEST(DataLoader, StatesOfOtherDataOrSettingsAreRefused) {
  DataLoader loader(sequences(), {.batch_size = 4, .seed = 1});
  const auto refused = [&](DataLoader&& other) {
    return message_of<InvalidConfig>([&] { loader.restore(other.state()); });
  };
  EXPECT_NE(refused(DataLoader(sequences(), {.batch_size = 4, .seed = 2})).find("belongs to other data"),
            std::string::npos);
  EXPECT_NE(refused(DataLoader(sequences(29), {.batch_size = 4, .seed = 1})), "");
  EXPECT_NE(refused(DataLoader(sequences(30, 6), {.batch_size = 4, .seed = 1})), "");
  EXPECT_NE(refused(DataLoader(sequences(), {.batch_size = 4, .seed = 1, .shuffle = false})), "");
  DataState beyond = loader.state();
  beyond.position = 43;
  EXPECT_NE(message_of<InvalidConfig>([&] { loader.restore(beyond); }).find("lies beyond the 42"),
            std::string::npos);
  EXPECT_NO_THROW(loader.restore(DataLoader(sequences(), {.batch_size = 3, .seed = 1}).state()));
}

TEST(DataLoader, BadStatesNameTheField) {
  EXPECT_THROW(DataState::from_json("{"), FormatError);
  EXPECT_THROW(DataState::from_json("[]"), FormatError);
  EXPECT_NE(message_of<FormatError>([] {
              DataState::from_json(R"({"epoch":-1})", "state.json");
            }).find("state.json: epoch: is missing or no unsigned integer"),
            std::string::npos);
  EXPECT_THROW(DataState::from_json(R"({"epoch":1,"position":1,"fingerprint":3})"), FormatError);
}

TEST(DataLoader, ImpossibleOptionsNameTheKey) {
  EXPECT_NE(message_of<InvalidConfig>([] {
              DataLoader loader(sequences(), {.batch_size = 0});
            }).find("batch_size: is 0"),
            std::string::npos);
  EXPECT_THROW(DataLoader(sequences(), {.batch_size = 1, .prefetch = -1}), InvalidConfig);
  EXPECT_THROW(DataLoader(sequences(), {.batch_size = 1, .index_dtype = DType::f32}), InvalidConfig);
}

TEST(DataLoader, EndsCleanlyWhereverItIsStopped) {
  for (int i = 0; i < 50; ++i) {
    DataLoader loader(sequences(), {.batch_size = 2, .prefetch = 1 + i % 3});
    for (int k = 0; k < i % 5; ++k) loader.next();
  }
}

TEST(DataLoader, AFailureInItsThreadReachesTheCaller) {
  MemoryTracker& memory = backend(kCpu).memory();
  DataLoader loader(sequences(), {.batch_size = 1000});
  memory.set_limit(memory.allocated() + 1000);
  EXPECT_THROW(loader.next(), OutOfMemory);
  EXPECT_THROW(loader.next(), OutOfMemory);
  memory.set_limit(0);
  loader.reset();
  EXPECT_TRUE(loader.next().has_value());
}

}  // namespace
}  // namespace ingot::data
