#include <algorithm>
#include <string>
#include <vector>

#include "tests/forecast/support.h"
#include "tests/support/thread_ranks.h"

#include "ingot/base/rng.h"
#include "ingot/forecast/fit.h"
#include "ingot/forecast/windows.h"
#include "ingot/nn/visit.h"

namespace ingot::forecast {
namespace {

// Every `every`-th value of the first column is missing; 0: none.
SeriesTable table_with_gaps(int rows, int every) {
  std::string csv = hourly_csv(rows), with_gaps;
  int line = 0;
  for (std::size_t begin = 0; begin < csv.size(); ++line) {
    const std::size_t end = csv.find('\n', begin) + 1, first = csv.find(',', begin) + 1,
                      second = csv.find(',', first);
    if (line > 1 && every > 0 && line % every == 0)
      with_gaps += csv.substr(begin, first - begin) + csv.substr(second, end - second);
    else
      with_gaps += csv.substr(begin, end - begin);
    begin = end;
  }
  return table_of(with_gaps);
}

std::vector<std::vector<float>> weights_of(const FitResult& fit) {
  std::vector<std::vector<float>> weights;
  for (const auto& [name, parameter] : named_parameters(*fit.model))
    weights.push_back(parameter->value.detach().to_vector<float>());
  return weights;
}

std::vector<FitResult> fit_by(int ranks, const FitConfig& config, const SeriesTable& table,
                              const FitSaving& saving = {}) {
  std::vector<FitResult> results(static_cast<std::size_t>(ranks));
  test::ThreadRanks(ranks).run([&](dist::Communicator& communicator) {
    results[static_cast<std::size_t>(communicator.rank())] =
        fit(config, table, {.on_step = {}, .on_epoch = {}, .ranks = &communicator}, saving);
  });
  return results;
}

struct Drawn {
  FitConfig config;
  SeriesTable table;
  int ranks;
};

Drawn drawn(std::uint64_t seed, const std::string& model) {
  Rng random({.seed = seed, .stream = 0xF17});
  Drawn d{.config = small_fit(model),
          .table = table_with_gaps(200 + static_cast<int>(random.below(60)),
                                   random.below(2) == 0 ? 0 : 5 + static_cast<int>(random.below(5))),
          .ranks = 2 + static_cast<int>(random.below(3))};
  FitConfig& c = d.config;
  c.device = "cpu";
  c.epochs = 2;
  c.batch_size = d.ranks + static_cast<std::int64_t>(random.below(12));
  c.drop_last = random.below(2) == 0;
  c.loss = random.below(2) == 0 ? "mse" : "mae";
  c.clip_grad_norm = random.below(2) == 0 ? 0 : 0.5;
  c.ema_decay = random.below(3) == 0 ? 0.9 : 0;
  if (model == "dlinear" || model == "nlinear") return d;
  c.model.d_model = 8;
  c.model.heads = 2;
  c.model.layers = 1;
  c.model.d_ff = 16;
  return d;
}

// Without dropout and statistics of batches there is nothing that a rank draws or measures for itself.
TEST(RankFit, RanksLearnWhatOneProcessLearnsToRounding) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Drawn d = drawn(seed, seed % 2 == 0 ? "dlinear" : "nlinear");
    const FitResult one = fit(d.config, d.table);
    const std::vector<FitResult> many = fit_by(d.ranks, d.config, d.table);
    ASSERT_EQ(many[0].epochs.size(), one.epochs.size()) << seed;
    for (std::size_t e = 0; e < one.epochs.size(); ++e) {
      EXPECT_NEAR(many[0].epochs[e].train_loss / one.epochs[e].train_loss, 1, 1e-3) << seed;
      EXPECT_NEAR(many[0].epochs[e].validation_loss / one.epochs[e].validation_loss, 1, 1e-3) << seed;
    }
    EXPECT_EQ(many[0].best_epoch, one.best_epoch) << seed;
  }
}

// Weights, running statistics of batch norms, and losses.
TEST(RankFit, AllRanksEndWithTheSameBitsAsInEveryRun) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Drawn d = drawn(100 + seed, seed % 3 == 2 ? "itransformer" : "patchtst");
    const std::vector<FitResult> first = fit_by(d.ranks, d.config, d.table),
                                 again = fit_by(d.ranks, d.config, d.table);
    for (const FitResult* other : {&first.back(), &again.front(), &again.back()}) {
      EXPECT_EQ(weights_of(*other), weights_of(first[0])) << seed;
      for (std::size_t e = 0; e < first[0].epochs.size(); ++e) {
        EXPECT_EQ(other->epochs[e].train_loss, first[0].epochs[e].train_loss) << seed;
        EXPECT_EQ(other->epochs[e].validation_loss, first[0].epochs[e].validation_loss) << seed;
      }
    }
  }
}

// Which decides what epoch is best.
TEST(RankFit, RanksMeasureAFinishedModelWithTheBitsOfOneProcess) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Drawn d = drawn(200 + seed, seed % 2 == 0 ? "dlinear" : "patchtst");
    const FitResult one = fit(d.config, d.table);
    const DataSplit parts = split_windows(d.table, one.config.split, one.config.scaler,
                                          one.config.model.lookback, one.config.model.horizon);
    const double expected = mean_loss(*one.model, parts.train, one.config.loss);
    test::ThreadRanks(d.ranks).run([&](dist::Communicator& communicator) {
      const FitResult own = fit(d.config, d.table);
      EXPECT_EQ(mean_loss(*own.model, parts.train, own.config.loss, &communicator), expected) << seed;
    });
  }
}

TEST(RankFit, FewerWindowsInABatchThanRanksAreRefusedWithBothNumbers) {
  FitConfig config = small_fit();
  config.batch_size = 2;
  const SeriesTable table = table_of(hourly_csv(200));
  test::ThreadRanks(3).run([&](dist::Communicator& communicator) {
    const std::string message =
        message_of([&] { fit(config, table, {.on_step = {}, .on_epoch = {}, .ranks = &communicator}); });
    EXPECT_NE(message.find("batch_size: is 2, fewer than the 3 processes"), std::string::npos) << message;
  });
}

TEST(RankFit, RanksThatDisagreeAreToldTheKeyBeforeTheFirstStep) {
  const SeriesTable table = table_of(hourly_csv(200)), other = table_of(hourly_csv(201));
  test::ThreadRanks(3).run([&](dist::Communicator& communicator) {
    FitConfig config = small_fit();
    config.device = "cpu";
    const bool last = communicator.rank() == 2;
    int steps = 0;
    const FitHooks hooks{
        .on_step = [&](auto, auto, auto) { ++steps; }, .on_epoch = {}, .ranks = &communicator};
    std::string message = message_of([&] { fit(config, last ? other : table, hooks); });
    EXPECT_NE(message.find("data"), std::string::npos) << message;
    if (last) config.learning_rate *= 2;
    message = message_of([&] { fit(config, table, hooks); });
    EXPECT_NE(message.find("learning_rate"), std::string::npos) << message;
    EXPECT_EQ(steps, 0);
  });
}

}  // namespace
}  // namespace ingot::forecast
