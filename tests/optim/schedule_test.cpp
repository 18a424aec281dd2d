#include "ingot/optim/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

TEST(Schedule, EndsAtTheFinalFractionAndStaysThere) {
  for (const char* type : {"linear", "cosine", "wsd"}) {
    const LrSchedule s =
        make_schedule({.type = type, .warmup_steps = 5, .total_steps = 100, .final_lr_fraction = 0.1});
    EXPECT_DOUBLE_EQ(s(0), 0) << type;
    EXPECT_DOUBLE_EQ(s(5), 1) << type;
    EXPECT_GT(s(99), 0.1) << type;
    EXPECT_DOUBLE_EQ(s(100), 0.1) << type;
    EXPECT_DOUBLE_EQ(s(1'000'000'000'000), 0.1) << type;
  }
}

TEST(Schedule, WsdCoolsDownInTheLastTenthByDefault) {
  const LrSchedule s = make_schedule({.type = "wsd", .total_steps = 100});
  EXPECT_DOUBLE_EQ(s(90), 1);
  EXPECT_LT(s(91), 1);
}

TEST(Schedule, WarmupMayFillTheWholeRun) {
  for (const char* type : {"constant", "linear", "cosine", "exponential", "step", "noam", "wsd"}) {
    const LrSchedule s = make_schedule({.type = type, .warmup_steps = 3, .total_steps = 3});
    for (std::int64_t step = 0; step < 10; ++step) {
      EXPECT_TRUE(s(step) >= 0 && s(step) <= 1) << type << " " << step;
    }
  }
}

TEST(Schedule, ASequenceStartsEachPhaseAtItsOwnZero) {
  const schedule::Sequence s{{{schedule::Linear{4, 0}, 2},
                              {[](std::int64_t step) { return 10.0 + step; }, 3},
                              {schedule::Exponential{0.5}, 0}}};
  s.validate();
  const std::vector<double> expected = {1, 0.75, 10, 11, 12, 1, 0.5, 0.25};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_DOUBLE_EQ(s(static_cast<std::int64_t>(i)), expected[i]);
}

TEST(Schedule, RefusesWhatCannotBe) {
  const auto bad = [](const ScheduleConfig& config) { EXPECT_THROW(make_schedule(config), InvalidConfig); };
  bad({.type = "cosin"});
  bad({.total_steps = 0});
  bad({.warmup_steps = -1, .total_steps = 10});
  bad({.warmup_steps = 11, .total_steps = 10});
  bad({.total_steps = 10, .final_lr_fraction = 1.5});
  bad({.total_steps = 10, .final_lr_fraction = NAN});
  bad({.type = "wsd", .warmup_steps = 6, .total_steps = 10, .cooldown_steps = 5});
  bad({.type = "exponential", .total_steps = 10, .gamma = 0});
  bad({.type = "step", .total_steps = 10, .gamma = 2});
  bad({.type = "step", .total_steps = 10, .step_size = 0});
  bad({.type = "noam", .warmup_steps = 0, .total_steps = 10});
  EXPECT_THROW(schedule::Sequence{}.validate(), InvalidConfig);
  EXPECT_THROW((schedule::Product{{LrSchedule{}}}.validate()), InvalidConfig);
  EXPECT_THROW((schedule::Warmup{3, LrSchedule{}}.validate()), InvalidConfig);
  EXPECT_THROW((schedule::Wsd{.cooldown_steps = 0}.validate()), InvalidConfig);
}

TEST(Schedule, AMisspeltTypeGetsTheListOfTypes) {
  try {
    make_schedule({.type = "warmup_cosine"});
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "lr_scheduler_type");
    EXPECT_NE(std::string(error.what()).find("noam"), std::string::npos);
  }
}

}  // namespace
}  // namespace ingot
