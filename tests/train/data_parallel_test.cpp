#include "ingot/train/data_parallel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/dist/background.h"
#include "ingot/nn/linear.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/gathered_blocks.h"
#include "ingot/train/optimizer_setup.h"

namespace ingot {
namespace {

using State = std::map<std::string, Tensor>;

// Two matrices that are large enough to be divided, a small one, and a layer that nothing uses.
struct Net {
  explicit Net(const ParamSource& source)
      : up(source.scope("up"), {.in = 12, .out = 1800}),
        down(source.scope("down"), {.in = 1800, .out = 12}),
        last(source.scope("last"), {.in = 12, .out = 5}),
        unused(source.scope("unused"), {.in = 12, .out = 5}) {}
  Tensor operator()(const Tensor& x, WeightLease* lease) const {
    if (lease != nullptr) lease->begin();
    const auto block = [lease](std::int64_t i, const Linear& linear, const Tensor& in) {
      const LeasedBlock leased(lease, i);
      return tanh(linear(in));
    };
    return last(block(1, down, block(0, up, x)));
  }
  void visit(ParamVisitor& v) {
    v("up", up);
    v("down", down);
    v("last", last);
    v("unused", unused);
  }
  Linear up, down, last, unused;
};

constexpr std::int64_t kMicroBatches = 6, kSteps = 3;

struct RunSetup {
  std::string optimizer = "adamw";
  int stage = 0;
  bool ordered = true;
  std::size_t bucket_bytes = 100'000;
};

struct Outcome {
  std::map<std::string, std::vector<float>> weights;
  std::vector<float> norms;
  std::map<std::string, std::vector<float>> averages;  // of the weights
  State state, average_state;                          // of all ranks
  // Held by all ranks together between two steps.
  std::size_t optimizer_bytes = 0, gradient_bytes = 0, parameter_bytes = 0;
};

bool learns_from(std::int64_t micro_batch) { return micro_batch != 3; }  // one has no targets

// The steps from `first` on, of a run that `saved` goes on with.
void train(dist::Communicator& ranks, const RunSetup& run, Outcome& outcome, std::int64_t first = 0,
           const Outcome* before = nullptr) {
  InitSource source(7, DType::f32, kCpu);
  Net net(source);
  if (before != nullptr)
    for (const auto& [name, parameter] : named_parameters(net))
      std::ranges::copy(before->weights.at(name), parameter->value.data<float>());
  dist::Background gathering(GatheredBlocks::kMostWaiting);
  std::optional<OptimizerShard::Options> shared;
  if (run.stage > 0) shared = {.communicator = &ranks, .stage = run.stage, .bucket_bytes = run.bucket_bytes};
  if (run.stage == 3) {
    shared->background = &gathering;
    for (const auto& [name, parameter] : named_parameters(net))
      shared->blocks.push_back(name.starts_with("up") ? 0 : name.starts_with("down") ? 1 : -1);
  }
  TrainOptimizer optimizer(net, {.name = run.optimizer, .learning_rate = 0.01, .max_grad_norm = 0.5},
                           schedule::Constant{}, 0.9, shared);
  if (before != nullptr)
    optimizer.load_state(assemble_state(before->state), assemble_state(before->average_state));
  const bool every_round = run.ordered || run.stage >= 2;
  const std::int64_t size = ranks.size(), rounds = kMicroBatches / size;
  WeightShards* weights_of_blocks = optimizer.weights();
  DataParallel parallel(ranks, optimizer.parameters(),
                        {.adds = every_round ? rounds : 1,
                         .bucket_bytes = run.bucket_bytes,
                         .shard = optimizer.shard(),
                         .background = optimizer.background()});
  for (std::int64_t step = first; step < kSteps; ++step) {
    std::vector<bool> contributes(static_cast<std::size_t>(size));
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (std::int64_t r = 0; r < size; ++r)
        if (learns_from(round * size + r)) contributes[static_cast<std::size_t>(r)] = true;
      const bool last = round + 1 == rounds, adds = every_round || last;
      if (adds) parallel.begin(contributes, last);
      const std::int64_t micro_batch = round * size + ranks.rank();
      if (learns_from(micro_batch) || weights_of_blocks != nullptr) {  // which all ranks ask for
        const Tensor x = testing::randn({4, 12}, static_cast<std::uint64_t>(100 * step + micro_batch));
        backward(sum(square(net(x, weights_of_blocks))));
      }
      if (!adds) continue;
      parallel.end();
      contributes.assign(contributes.size(), false);
    }
    parallel.finish();
    const ClippedNorm clipped = optimizer.measure_gradients();
    if (ranks.is_first()) outcome.norms.push_back(static_cast<float>(clipped.norm.item()));
    optimizer.apply(step, clipped.factor);
  }
  ranks.barrier();
  if (ranks.is_first()) {
    outcome.optimizer_bytes = backend(kCpu).memory().allocated(MemoryTag::optimizer);
    outcome.gradient_bytes = backend(kCpu).memory().allocated(MemoryTag::gradient);
    outcome.parameter_bytes = backend(kCpu).memory().allocated(MemoryTag::parameter);
  }
  ranks.barrier();
  const auto values = [&] {
    const LeasedBlocks all(weights_of_blocks, 2);
    std::map<std::string, std::vector<float>> of;
    for (const auto& [name, parameter] : named_parameters(net))
      of[name] = parameter->value.detach().to_vector<float>();
    return of;
  };
  std::map<std::string, std::vector<float>> averages;
  optimizer.with_ema([&] { averages = values(); });
  for (const auto& [name, tensor] : optimizer.ema_weights())
    EXPECT_EQ(tensor.to_vector<float>(), averages.at(name));
  const auto of_weights = values();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (const auto& [name, tensor] : optimizer.state()) outcome.state[name] = clone(tensor);
  for (const auto& [name, tensor] : optimizer.ema_state()) outcome.average_state[name] = clone(tensor);
  if (!ranks.is_first()) return;
  outcome.weights = of_weights;
  outcome.averages = averages;
}

Outcome train_with(int ranks, const RunSetup& run) {
  set_num_threads(1);  // each rank has a thread of its own
  Outcome outcome;
  test::ThreadRanks(ranks).run([&](dist::Communicator& c) { train(c, run, outcome); });
  return outcome;
}

std::string_view bytes_of(const Tensor& tensor) { return {tensor.view().as<char>(), tensor.nbytes()}; }

void expect_same_state(const State& state, const State& expected) {
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(bytes_of(state.at(name)) == bytes_of(tensor)) << name;
}

TEST(DataParallel, RanksAndZeroStagesGiveTheBitsOfOneProcess) {
  for (const char* optimizer : {"adamw", "adamw_8bit", "muon", "normuon"}) {
    const Outcome alone = train_with(1, {.optimizer = optimizer});
    for (const auto& [ranks, stage] : {std::pair{2, 0}, {2, 1}, {3, 1}, {3, 2}, {2, 3}, {3, 3}}) {
      SCOPED_TRACE(std::string(optimizer) + " stage " + std::to_string(stage));
      const Outcome shared = train_with(ranks, {.optimizer = optimizer, .stage = stage});
      EXPECT_EQ(shared.norms, alone.norms);
      EXPECT_TRUE(shared.weights == alone.weights);
      EXPECT_TRUE(shared.averages == alone.averages);
      expect_same_state(assemble_state(shared.state), alone.state);
    }
  }
}

TEST(DataParallel, ZeroStagesDivideTheMemoryOfStateGradientsAndWeights) {
  const auto ratio = [](std::size_t a, std::size_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  const Outcome alone = train_with(1, {.ordered = false});
  const Outcome whole = train_with(3, {.ordered = false});
  const Outcome first = train_with(3, {.stage = 1, .ordered = false});
  const Outcome second = train_with(3, {.stage = 2});
  EXPECT_NEAR(ratio(whole.optimizer_bytes, alone.optimizer_bytes), 3, 0.01);
  EXPECT_NEAR(ratio(first.optimizer_bytes, alone.optimizer_bytes), 1, 0.01);
  EXPECT_NEAR(ratio(second.optimizer_bytes, alone.optimizer_bytes), 1, 0.01);
  EXPECT_NEAR(ratio(whole.gradient_bytes, alone.gradient_bytes), 3, 0.01);
  const Outcome third = train_with(3, {.stage = 3});
  EXPECT_NEAR(ratio(third.optimizer_bytes, alone.optimizer_bytes), 1, 0.01);
  EXPECT_NEAR(ratio(third.gradient_bytes, alone.gradient_bytes), 1, 0.01);
  EXPECT_NEAR(ratio(second.parameter_bytes, alone.parameter_bytes), 3, 0.01);
  EXPECT_NEAR(ratio(third.parameter_bytes, alone.parameter_bytes), 1, 0.02) << "all but two small layers";
  EXPECT_NEAR(ratio(second.gradient_bytes, alone.gradient_bytes), 1, 0.01);
}

TEST(DataParallel, WithoutOrderZeroStageOneHasTheBitsOfStageZero) {
  const Outcome plain = train_with(2, {.ordered = false});
  const Outcome shared = train_with(2, {.stage = 1, .ordered = false});
  EXPECT_EQ(shared.norms, plain.norms);
  EXPECT_TRUE(shared.weights == plain.weights);
}

TEST(DataParallel, TheSizeOfBucketsChangesNoBits) {
  const Outcome one = train_with(2, {.stage = 1, .bucket_bytes = 100 << 20});
  const Outcome many = train_with(2, {.stage = 1, .bucket_bytes = 1});
  EXPECT_TRUE(one.weights == many.weights);
}

// Any number of ranks and any stage go on with the state that others left.
TEST(DataParallel, AStateOfThreeRanksIsThatOfOneOrTwo) {
  const RunSetup run{.optimizer = "adamw_8bit", .stage = 1};
  const Outcome alone = train_with(1, {.optimizer = "adamw_8bit"});
  const Outcome before = train_with(3, run);
  for (const auto& [ranks, stage] : {std::pair{1, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 0}}) {
    Outcome after;
    test::ThreadRanks(ranks).run([&, stage = stage](dist::Communicator& c) {
      train(c, {.optimizer = "adamw_8bit", .stage = stage}, after, kSteps, &before);
    });
    SCOPED_TRACE(ranks);
    expect_same_state(assemble_state(after.state), alone.state);
    EXPECT_TRUE(after.averages == alone.averages);
  }
}

// State is shared out evenly where parameters may be divided.
TEST(OptimizerShard, RanksKeepEqualParts) {
  for (const int size : {2, 4}) {
    std::vector<std::int64_t> elements(static_cast<std::size_t>(size));
    test::ThreadRanks(size).run([&](dist::Communicator& ranks) {
      InitSource source(7, DType::f32, kCpu);
      Linear large(ParamSource(source).scope("large"), {.in = 1024, .out = 1024});
      const OptimizerShard shard(parameters(large), {.communicator = &ranks},
                                 [](const Parameter&) { return true; });
      for (const Parameter* part : shard.parts())
        elements[static_cast<std::size_t>(ranks.rank())] += part->value.numel();
    });
    for (const std::int64_t n : elements)
      EXPECT_NEAR(static_cast<double>(n), 1024.0 * 1025 / size, 0.03 * 1024 * 1025 / size);
  }
}

TEST(SharedCheckpoint, EveryRankWritesItsPartAndAFailureOfOneIsToldByAll) {
  const test::TemporaryDirectory folder;
  test::ThreadRanks(2).run([&](dist::Communicator& ranks) {
    const CheckpointDirectory directory(folder.at("run"), {}, &ranks);
    Checkpoint checkpoint{.tensors = {}, .shards = {}, .state = "{}"};
    const std::string name = "w.m@" + std::to_string(ranks.rank() * 3);
    checkpoint.shards["optimizer"][name] = testing::filled({3}, static_cast<float>(ranks.rank()));
    directory.write(1, checkpoint);
    const auto refuse = [&](const AtomicDirectory&) { throw Error("a full disk"); };
    const std::string message = test::message_of<Error>([&] { directory.write(2, checkpoint, refuse); });
    EXPECT_NE(message.find("a full disk"), std::string::npos) << message;
    if (!ranks.is_first()) EXPECT_NE(message.find("rank 0"), std::string::npos) << message;
  });
  const CheckpointDirectory directory(folder.at("run"));
  ASSERT_EQ(directory.list().size(), 1U);
  const State whole = assemble_state(directory.newest()->shards("optimizer"));
  EXPECT_EQ(whole.at("w.m").to_vector<float>(), (std::vector<float>{0, 0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace ingot
