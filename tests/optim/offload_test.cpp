// Optimizers whose state lies in the host's memory or in a file.
#include "ingot/optim/offload.h"

#include <filesystem>
#include <fstream>

#include "tests/optim/every_optimizer.h"
#include "tests/support/temporary_directory.h"

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

using test::every_optimizer;
using test::Trial;

TEST(OptimizerOffload, ItsWordsAreThoseOfTheConfigurationAndOfDeepSpeed) {
  for (const Offload to : {Offload::none, Offload::cpu, Offload::disk})
    EXPECT_EQ(parse_offload(std::string(name(to))), to);
  EXPECT_EQ(parse_offload("nvme"), Offload::disk);
  EXPECT_THROW(parse_offload("gpu"), InvalidConfig);
}

TEST(OptimizerOffload, OnTheDiskHasTheBitsOfWithoutForEveryOptimizerAndDtype) {
  const test::TemporaryDirectory directory;
  for (const auto& [label, make] : every_optimizer()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      Trial without(make, dtype, kCpu), with(make, dtype, kCpu);
      with.optimizer->offload({.to = Offload::disk, .directory = directory.at("state")});
      without.steps(0, 4);
      with.steps(0, 4);
      EXPECT_TRUE(with.bits() == without.bits()) << label << " " << name(dtype);
    }
  }
}

TEST(OptimizerOffload, GoesOnFromStateOfEitherKind) {
  const test::TemporaryDirectory directory;
  for (const auto& [label, make] : every_optimizer()) {
    Trial straight(make, DType::bf16, kCpu), first(make, DType::bf16, kCpu);
    straight.steps(0, 4);
    first.steps(0, 2);
    Trial second(make, DType::bf16, kCpu, first.values());
    second.optimizer->offload({.to = Offload::disk, .directory = directory.path()});
    second.optimizer->load_state(first.optimizer->state());
    second.steps(2, 3);
    Trial third(make, DType::bf16, kCpu, second.values());
    third.optimizer->load_state(second.optimizer->state());
    third.steps(3, 4);
    EXPECT_TRUE(third.bits() == straight.bits()) << label;
  }
}

TEST(OptimizerOffload, TheDisksStateTakesNoMemoryAndLeavesNoFile) {
  const test::TemporaryDirectory directory;
  const MemoryTracker& memory = backend(kCpu).memory();
  const auto make = every_optimizer().front().second;
  Trial trial(make, DType::f32, kCpu);
  trial.optimizer->offload({.to = Offload::disk, .directory = directory.path()});
  const std::size_t before = memory.allocated(MemoryTag::optimizer);
  trial.steps(0, 1);
  EXPECT_EQ(memory.allocated(MemoryTag::optimizer), before);
  EXPECT_GT(trial.optimizer->state_bytes(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(OptimizerOffload, IsRefusedWhereStateIsThereAlready) {
  Trial trial(every_optimizer().front().second, DType::f32, kCpu);
  trial.steps(0, 1);
  EXPECT_THROW(trial.optimizer->offload({.to = Offload::cpu}), Error);
}

TEST(OptimizerOffload, ADirectoryThatCannotBeWrittenIsNamed) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.at("a_file");
  std::ofstream(file) << "text";
  Trial trial(every_optimizer().front().second, DType::f32, kCpu);
  trial.optimizer->offload({.to = Offload::disk, .directory = file});
  try {
    trial.steps(0, 1);
    FAIL() << "a file is no directory";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ingot
