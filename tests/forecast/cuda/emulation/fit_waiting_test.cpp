#include "tests/emulated_gpu/queue.h"
#include "tests/forecast/cuda/tiny_fit.h"
#include "tests/kernels/cuda/device.h"

#include "ingot/forecast/fit.h"

// When a fit waits for the device: on an emulated one that works only when it must, waits are counted and
// memory that is read or changed too early shows.
namespace ingot::forecast {
namespace {

using kernels::cuda::emulation::Deferred;
using kernels::cuda::emulation::OtherStreams;
using kernels::cuda::emulation::Waits;
using kernels::cuda::emulation::waits;

FitConfig with_everything(const std::string& model) {
  FitConfig c = tiny(model, "cuda");
  c.ema_decay = 0.9;
  c.clip_grad_norm = 1;
  return c;
}

TEST(FitWaiting, AStepWaitsForNothingButTheLossOfTheStepBefore) {
  for (const std::string& model : forecast_models()) {
    Waits before, after;
    FitHooks hooks;
    hooks.on_step = [&](std::int64_t done, std::int64_t, double) {
      if (done == 2) before = waits();
      if (done == 3) after = waits();
    };
    FitConfig c = with_everything(model);
    c.batch_size = 5;  // four steps
    c.epochs = 1;
    const Deferred deferred;
    fit(c, hours(), hooks);
    // TimesNet cuts series at periods that the host has to know: it reads them, and sends what follows.
    const bool reads = model == "timesnet";
    EXPECT_EQ(after.streams > before.streams, reads) << model;
    EXPECT_EQ(after.host_copies > before.host_copies, reads) << model;
    EXPECT_EQ(after.frees - before.frees, 0) << model;
    if (!reads) EXPECT_EQ(after.events - before.events, 1) << model;
  }
}

TEST(FitWaiting, ASlowDeviceFitsTheSameModel) {
  for (const std::string model : {"dlinear", "itransformer"}) {
    const auto run = [&] {
      const FitResult result = fit(with_everything(model), hours());
      std::vector<float> all;
      for (const auto& [name, parameter] : named_parameters(*result.model)) {
        const std::vector<float> values = parameter->value.to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
      for (const EpochReport& epoch : result.epochs)
        all.insert(all.end(),
                   {static_cast<float>(epoch.train_loss), static_cast<float>(epoch.validation_loss)});
      return all;
    };
    const std::vector<float> expected = run();
    for (const OtherStreams others : {OtherStreams::behind, OtherStreams::ahead}) {
      const Deferred deferred(others);
      EXPECT_EQ(run(), expected) << model;
    }
  }
}

TEST(FitWaiting, ALossThatIsNotFiniteNamesItsStepThoughTheNextIsUnderWay) {
  FitConfig c = with_everything("nlinear");
  c.learning_rate = 1e38;
  std::int64_t done = 0;
  const FitHooks hooks{.on_step = [&](std::int64_t step, std::int64_t, double) { done = step; },
                       .on_epoch = {}};
  const std::string message = message_of([&] { fit(c, hours(), hooks); });
  EXPECT_NE(message.find(fmt::format("training step {}", done + 1)), std::string::npos) << message;
  EXPECT_LT(done, 2);
}

}  // namespace
}  // namespace ingot::forecast
