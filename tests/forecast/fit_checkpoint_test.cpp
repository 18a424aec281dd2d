#include "ingot/forecast/fit_checkpoint.h"

#include <cstring>

#include "tests/forecast/support.h"
#include <nlohmann/json.hpp>

#include "ingot/base/checksums.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/forecast/forecaster.h"

namespace ingot::forecast {
namespace {

FitConfig tiny(const std::string& model) {
  FitConfig c = FitConfig::defaults(model, 12);
  c.model.lookback = 48;
  c.model.d_model = 8;
  c.model.heads = 2;
  c.model.layers = 1;
  c.model.d_ff = 16;
  c.model.kernels = 3;
  c.batch_size = 64;
  c.epochs = 3;
  c.min_epoch_steps = 1;
  c.learning_rate = 1e-2;
  return c;
}

void expect_same_bits(FitResult& a, FitResult& b, const std::string& what) {
  const auto ours = named_parameters(*a.model), theirs = named_parameters(*b.model);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Tensor &x = ours[i].second->value, &y = theirs[i].second->value;
    EXPECT_EQ(std::memcmp(x.data<float>(), y.data<float>(), x.nbytes()), 0) << what << ": " << ours[i].first;
  }
  ASSERT_EQ(a.epochs.size(), b.epochs.size()) << what;
  for (std::size_t i = 0; i < a.epochs.size(); ++i) {
    EXPECT_EQ(a.epochs[i].train_loss, b.epochs[i].train_loss) << what;
    EXPECT_EQ(a.epochs[i].validation_loss, b.epochs[i].validation_loss) << what;
    EXPECT_EQ(a.epochs[i].best, b.epochs[i].best) << what;
  }
  EXPECT_EQ(a.best_epoch, b.best_epoch) << what;
}

class FitCheckpointing : public ::testing::Test {
 protected:
  FitSaving saving(bool resume = false) const {
    return {.directory = directory_.at("unfinished"), .every_seconds = 0, .resume = resume};
  }
  void kill(const FitConfig& config, std::int64_t steps) const {
    EXPECT_THROW(fit(config, table_, killed_after(steps), saving()), Killed);
  }
  std::string refusal(const FitConfig& config, const SeriesTable& table, bool resume = true) const {
    return message_of([&] { fit(config, table, {}, saving(resume)); });
  }
  test::TemporaryDirectory directory_;
  const SeriesTable table_ = table_of(hourly_csv(500));
};

TEST_F(FitCheckpointing, EveryModelGoesOnWithTheBitsOfAFitThatWasNeverStopped) {
  for (const std::string& model : forecast_models()) {
    FitResult whole = fit(tiny(model), table_);
    kill(tiny(model), 7);  // 5 steps an epoch
    FitResult resumed = fit(tiny(model), table_, {}, saving(true));
    expect_same_bits(whole, resumed, model);
    remove_fit_checkpoint(saving().directory);
  }
}

TEST_F(FitCheckpointing, GoesOnFromAnyStep) {
  FitConfig config = tiny("patchtst");  // dropout, and batch norms with running statistics
  config.epochs = 2;
  config.min_epoch_steps = 6;  // two passes of five
  FitResult whole = fit(config, table_);
  for (const std::int64_t step : {1, 2, 5, 6, 10, 14, 15}) {
    kill(config, step);
    FitResult resumed = fit(config, table_, {}, saving(true));
    expect_same_bits(whole, resumed, fmt::format("killed after step {}", step));
    remove_fit_checkpoint(saving().directory);
  }
}

TEST_F(FitCheckpointing, GoesOnWithTheAverageOfTheWeights) {
  FitConfig config = tiny("patchtst");
  config.ema_decay = 0.9;
  for (const char* keep : {"best", "last"}) {
    config.keep = keep;
    FitResult whole = fit(config, table_);
    kill(config, 7);
    FitResult resumed = fit(config, table_, {}, saving(true));
    expect_same_bits(whole, resumed, keep);
    remove_fit_checkpoint(saving().directory);
  }
}

TEST_F(FitCheckpointing, KilledAgainAndAgainItStillEndsWithTheSameBits) {
  FitResult whole = fit(tiny("dlinear"), table_);
  std::int64_t steps = 2;
  kill(tiny("dlinear"), steps);
  while (steps < 14) {
    steps += 3;
    EXPECT_THROW(fit(tiny("dlinear"), table_, killed_after(steps), saving(true)), Killed);
  }
  FitResult resumed = fit(tiny("dlinear"), table_, {}, saving(true));
  expect_same_bits(whole, resumed, "killed five times");
}

TEST_F(FitCheckpointing, AFitThatIsOverEndsAtOnceWhenResumed) {
  FitResult first = fit(tiny("nlinear"), table_, {}, saving());
  int steps = 0;
  FitHooks hooks{.on_step = [&](std::int64_t, std::int64_t, double) { ++steps; }, .on_epoch = {}};
  FitResult again = fit(tiny("nlinear"), table_, hooks, saving(true));
  EXPECT_EQ(steps, 0);
  expect_same_bits(first, again, "resumed after the end");
}

TEST_F(FitCheckpointing, ShortFitsWriteNothingAndResumeBeginsWhereNothingIs) {
  FitSaving rarely = saving(true);
  rarely.every_seconds = 300;
  EXPECT_EQ(fit(tiny("nlinear"), table_, {}, rarely).epochs.size(), 3U);
  EXPECT_FALSE(std::filesystem::exists(rarely.directory));
}

TEST_F(FitCheckpointing, TellsWhereItGoesOn) {
  kill(tiny("nlinear"), 7);
  std::int64_t epochs = -1, batch = -1;
  FitHooks hooks;
  hooks.on_resume = [&](const FitProgress& p) {
    epochs = static_cast<std::int64_t>(p.epochs.size());
    batch = p.batch;
  };
  fit(tiny("nlinear"), table_, hooks, saving(true));
  EXPECT_EQ(epochs, 1);
  EXPECT_EQ(batch, 1);  // step 7 was killed before it was saved
}

TEST_F(FitCheckpointing, AFitThatAnEarlierVersionBeganGoesOnWithTheDefaultsOfNewSettings) {
  FitResult whole = fit(tiny("nlinear"), table_);
  kill(tiny("nlinear"), 3);
  const std::string files = saving().directory + "/checkpoint", state = files + "/fit_state.json";
  auto json = parse_json<nlohmann::ordered_json>(read_file(state), "the test");
  ASSERT_EQ(json.at("config").erase("matmul_precision"), 1U);
  // Nor did what every kind of training keeps.
  for (const char* key : {"step", "total_steps", "best_step", "evaluations_since_best", "best_loss"})
    json.erase(key);
  write_file_atomically(state, dump_json(json, 2));
  std::filesystem::remove(files + "/SHA256SUMS");
  write_checksums(files);
  FitConfig other = tiny("nlinear");
  other.matmul_precision = "medium";
  EXPECT_NE(refusal(other, table_).find("was begun with \"highest\""), std::string::npos);
  FitResult resumed = fit(tiny("nlinear"), table_, {}, saving(true));
  expect_same_bits(whole, resumed, "without the setting");
}

TEST_F(FitCheckpointing, AnotherConfigurationTableOrNoResumeIsRefusedByName) {
  kill(tiny("nlinear"), 3);
  FitConfig other = tiny("nlinear");
  other.batch_size = 32;
  EXPECT_NE(refusal(other, table_).find("batch_size: is 32, but the run in"), std::string::npos)
      << refusal(other, table_);
  other = tiny("nlinear");
  other.matmul_precision = "medium";
  EXPECT_NE(refusal(other, table_).find("matmul_precision: is \"medium\", but the run in"), std::string::npos)
      << refusal(other, table_);
  other = tiny("nlinear");
  other.data = "moved.csv";
  EXPECT_NO_THROW(fit(other, table_, {}, saving(true)));
  EXPECT_NE(refusal(tiny("nlinear"), table_of(hourly_csv(501))).find("is not the table"), std::string::npos);
  EXPECT_NE(refusal(tiny("nlinear"), table_, false).find("--resume"), std::string::npos);
}

TEST_F(FitCheckpointing, WhereAFitRunsIsNoPartOfIt) {
  const FitConfig config = tiny("nlinear");
  kill(config, 3);
  FitConfig other = config;
  other.device = "cpu";
  EXPECT_EQ(fit_digest(config, table_), fit_digest(other, table_));
  EXPECT_NO_THROW(fit(other, table_, {}, saving(true)));
  save_forecaster(directory_.at("model"), fit_forecaster(other, table_));
  EXPECT_EQ(read_file(directory_.at("model/config.json")).find("\"device\""), std::string::npos);
  EXPECT_EQ(fitted_config(directory_.at("model")).device, "auto");
}

TEST_F(FitCheckpointing, DamageIsNoticedAndNamed) {
  kill(tiny("nlinear"), 3);
  const std::string file = saving().directory + "/checkpoint/weights.safetensors";
  std::string bytes = read_file(file);
  bytes.back() ^= 1;
  write_file_atomically(file, bytes);
  EXPECT_NE(refusal(tiny("nlinear"), table_).find("weights.safetensors: does not have the SHA-256"),
            std::string::npos);
}

TEST_F(FitCheckpointing, AFullDiskLeavesTheCheckpointBefore) {
  kill(tiny("nlinear"), 3);
  {
    const ScopedFault fault(parse_fault("no_space:write:3000"));
    EXPECT_NE(refusal(tiny("nlinear"), table_).find("No space left on device"), std::string::npos);
  }
  FitResult whole = fit(tiny("nlinear"), table_), resumed = fit(tiny("nlinear"), table_, {}, saving(true));
  expect_same_bits(whole, resumed, "after a full disk");
}

}  // namespace
}  // namespace ingot::forecast
