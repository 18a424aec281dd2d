#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"
#include "tests/train/hook_reporter.h"

#include "ingot/core/transfer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// When the host waits for the device: on an emulated one that works only when it must, waits are counted and
// memory that is read or changed too early shows.
namespace ingot {
namespace {

using kernels::cuda::emulation::Deferred;
using kernels::cuda::emulation::OtherStreams;
using kernels::cuda::emulation::Waits;
using kernels::cuda::emulation::waits;

using test::kDevice;

class Waiting : public test::TrainingRun {};

TEST_F(Waiting, AStepWaitsForNothingButTheFiguresOfTheStepBefore) {
  for (const bool graphs : {false, true}) {
    TrainConfig c = config("cuda", graphs ? "graphs" : "none");
    c.max_steps = 8;
    c.cuda_graphs = graphs;
    c.gradient_accumulation_steps = 2;
    Waits before, after;
    const auto reporter = std::make_shared<test::HookReporter>();
    const LanguageTrainerHooks hooks{.reporters = {reporter}};
    reporter->on_step = [&](const StepRecord& record) {
      if (record.step == 3) before = waits();
      if (record.step == 7) after = waits();
    };
    const Deferred deferred;
    LanguageTrainer(c, hooks).run();
    EXPECT_EQ(after.streams - before.streams, 0);
    EXPECT_EQ(after.host_copies - before.host_copies, 0);
    EXPECT_EQ(after.frees - before.frees, 0);
    EXPECT_EQ(after.events - before.events, 4);  // of steps 4 to 7
  }
}

TEST_F(Waiting, ASlowDeviceTrainsTheSameModel) {
  for (const bool graphs : {false, true}) {
    const auto run = [&](const std::string& output) {
      TrainConfig c = config("cuda", output + (graphs ? "graphs" : ""));
      c.cuda_graphs = graphs;
      c.eval_steps = 2;
      c.save_steps = 3;
      c.ema_decay = 0.9;
      LanguageTrainer(c).run();
      return tensor_files(c.output_dir + "/checkpoint-000005");
    };
    const auto expected = run("quick");
    const Deferred deferred;
    EXPECT_EQ(run("slow"), expected);
  }
}

TEST_F(Waiting, ACheckpointIsCopiedWhileTheNextStepRuns) {
  TrainConfig c = config("cuda", "saving");
  c.max_steps = 6;
  c.save_steps = 4;
  Waits before, after;
  const auto reporter = std::make_shared<test::HookReporter>();
  LanguageTrainerHooks hooks{.reporters = {reporter}};
  reporter->on_step = [&](const StepRecord& record) {
    if (record.step == 3) before = waits();
    if (record.step == 5) after = waits();
  };
  const Deferred deferred;
  LanguageTrainer(c, hooks).run();
  EXPECT_EQ(after.streams - before.streams, 0);
  EXPECT_EQ(after.host_copies - before.host_copies, 0);

  const auto saved = [](const TrainConfig& run) {
    return tensor_files(run.output_dir + "/checkpoint-000004");
  };
  TrainConfig stopped = c;  // where nothing runs beside the copies
  stopped.output_dir += "-stopped";
  std::int64_t steps = 0;
  reporter->on_step = [&](const StepRecord& record) { steps = record.step; };
  hooks.should_stop = [&] { return steps == 4; };
  LanguageTrainer(stopped, hooks).run();
  EXPECT_TRUE(saved(c) == saved(stopped));
}

TEST_F(Waiting, ACheckpointIsTheSameWhicheverStreamIsAhead) {
  const auto saved = [&](const std::string& output) {
    TrainConfig c = config("cuda", output);
    c.max_steps = 6;
    c.save_steps = 4;
    c.ema_decay = 0.9;
    LanguageTrainer(c).run();
    return tensor_files(c.output_dir + "/checkpoint-000004");
  };
  const auto expected = saved("quick");
  for (const OtherStreams others : {OtherStreams::behind, OtherStreams::ahead}) {
    const Deferred deferred(others);
    EXPECT_TRUE(saved(others == OtherStreams::ahead ? "ahead" : "behind") == expected);
  }
}

TEST(Transfer, CopiesHoldWhatTensorsHeldAtTheMark) {
  const Deferred deferred;
  const std::int64_t longer = (std::int64_t{40} << 20) / 4;  // than what is copied at once
  const Tensor large = Tensor::empty({longer}, DType::f32, kDevice);
  const Tensor small = Tensor::empty({5}, DType::bf16, kDevice);
  const Tensor host = Tensor::zeros({2}, DType::f32);
  HostCopies copies(kDevice);
  for (const float value : {3.0F, -1.0F}) {
    for (const Tensor& tensor : {large, small}) ingot::fill_(tensor, static_cast<double>(value));
    copies.mark();
    const std::vector<Tensor> copied = copies.copy(std::vector<Tensor>{large, small, host});
    EXPECT_EQ(copied[0].to_vector<float>(), std::vector<float>(static_cast<std::size_t>(longer), value));
    EXPECT_EQ(to(copied[1], DType::f32).to_vector<float>(), std::vector<float>(5, value));
    EXPECT_EQ(copied[2].view().data, host.view().data);
  }
}

TEST(Transfer, UploadsDoNotTouchWhatIsStillBeingCopied) {
  const Deferred deferred;
  Upload upload({2}, DType::i32, kDevice);
  Download first({2}, DType::i32, kDevice), second({2}, DType::i32, kDevice), third({2}, DType::i32, kDevice);
  std::int32_t value = 0;
  for (Download* download : {&first, &second, &third}) {
    std::int32_t* to = upload.host().data<std::int32_t>();
    to[0] = ++value;
    to[1] = -value;
    upload.send();
    download->start(upload.tensor());
  }
  EXPECT_EQ(third.wait().to_vector<std::int32_t>(), (std::vector<std::int32_t>{3, -3}));
  EXPECT_EQ(second.wait().to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, -2}));
  EXPECT_EQ(first.wait().to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1}));
}

}  // namespace
}  // namespace ingot
