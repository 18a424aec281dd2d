#include "ingot/optim/optimizer.h"

#include <bit>
#include <cmath>
#include <deque>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/master_weight.h"
#include "ingot/ops/cast.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/ema.h"

namespace ingot {
namespace {

using testing::randn;
using Pointers = std::vector<Parameter*>;

// A matrix, a bias and a frozen parameter, with gradients of their own.
struct Model {
  std::deque<Parameter> parameters;

  explicit Model(DType dtype = DType::f32) {
    parameters.emplace_back("w", randn({4, 8}, 1, dtype), true, true);
    parameters.emplace_back("b", randn({4}, 2, dtype), true, false);
    parameters.emplace_back("frozen", randn({3}, 3, dtype), false, true);
  }
  std::vector<Parameter*> pointers() {
    std::vector<Parameter*> result;
    for (Parameter& p : parameters) result.push_back(&p);
    return result;
  }
  void set_grads(std::uint64_t seed) {
    for (Parameter& p : parameters) {
      if (p.trainable()) p.value.set_grad(randn(p.shape(), seed++, p.value.dtype()));
    }
  }
  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> result;
    for (const Parameter& p : parameters)
      result.push_back(to(p.value.detach(), DType::f32).to_vector<float>());
    return result;
  }
};

void train(Model& model, Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    model.set_grads(static_cast<std::uint64_t>(100 * step));
    optimizer.step({.lr_scale = 1.0 / (step + 1)});
    optimizer.zero_grad();
  }
}

TEST(Optimizer, ResumingFromItsStateEqualsNeverHavingStopped) {
  const auto check = [](auto make, DType dtype = DType::f32) {
    Model straight(dtype), first(dtype), second(dtype);
    auto one = make(straight);
    train(straight, *one, 0, 6);
    auto before = make(first);
    train(first, *before, 0, 3);
    std::map<std::string, Tensor> state;
    for (const auto& [name, tensor] : before->state()) {  // as a file would: values only
      state[name] = Tensor::from_bytes(
          {tensor.storage() ? static_cast<const std::byte*>(tensor.view().data) : nullptr, tensor.nbytes()},
          tensor.shape(), tensor.dtype());
    }
    for (std::size_t i = 0; i < 3; ++i) {
      second.parameters[i].replace(clone(first.parameters[i].value.detach()));
    }
    auto after = make(second);
    after->load_state(state);
    train(second, *after, 3, 6);
    EXPECT_EQ(second.values(), straight.values());
  };
  check([](Model& m) { return std::make_unique<AdamW>(m.pointers(), AdamWConfig{}); });
  check([](Model& m) { return std::make_unique<Adam>(m.pointers(), AdamConfig{.weight_decay = 0.1}); });
  check([](Model& m) {
    return std::make_unique<Sgd>(m.pointers(), SgdConfig{.momentum = 0.9, .dampening = 0.5});
  });
  check([](Model& m) { return std::make_unique<Sgd>(m.pointers(), SgdConfig{}); });
  for (const DType dtype : {DType::bf16, DType::f16})
    check([](Model& m) { return std::make_unique<AdamW>(m.pointers(), AdamWConfig{}); }, dtype);
}

TEST(Optimizer, FrozenParametersAndThoseWithoutGradientStay) {
  Model model;
  const auto before = model.values();
  AdamW optimizer(model.pointers(), {.learning_rate = 0.1, .weight_decay = 0.5});
  optimizer.step();
  EXPECT_EQ(model.values(), before);
  EXPECT_TRUE(optimizer.state().empty());
  model.parameters[0].value.set_grad(randn({4, 8}, 9));
  optimizer.step();
  EXPECT_NE(model.values()[0], before[0]);
  EXPECT_EQ(model.values()[1], before[1]);
  EXPECT_EQ(model.values()[2], before[2]);
  EXPECT_EQ(optimizer.state().size(), 3U);
}

TEST(Optimizer, DecaySkipsParametersThatDoNotDecay) {
  Model model;
  const auto before = model.values();
  AdamW optimizer(model.pointers(), {.learning_rate = 0.1, .weight_decay = 0.5});
  for (Parameter& p : model.parameters) {
    if (p.trainable()) p.value.set_grad(Tensor::zeros(p.shape()));
  }
  optimizer.step();
  for (std::size_t i = 0; i < before[0].size(); ++i)
    EXPECT_FLOAT_EQ(model.values()[0][i], 0.95F * before[0][i]);
  EXPECT_EQ(model.values()[1], before[1]);
}

TEST(Optimizer, GroupsHaveTheirOwnRateAndDecay) {
  Model grouped, fast, plain;
  Sgd a({{.parameters = {&grouped.parameters[0]}, .lr_multiplier = 3, .weight_decay = 0.2},
         {.parameters = {&grouped.parameters[1]}}},
        {.learning_rate = 0.1});
  Sgd b({&fast.parameters[0]}, {.learning_rate = 0.3, .weight_decay = 0.2});
  Sgd c({&plain.parameters[1]}, {.learning_rate = 0.1});
  for (Model* model : {&grouped, &fast, &plain}) model->set_grads(5);
  a.step();
  b.step();
  c.step();
  EXPECT_EQ(grouped.values()[0], fast.values()[0]);
  EXPECT_EQ(grouped.values()[1], plain.values()[1]);
}

TEST(Optimizer, MasterWeightsKeepSmallStepsOfHalfParameters) {
  Parameter with("w", randn({64}, 1, DType::bf16), true, true),
      without("w", randn({64}, 1, DType::bf16), true, true);
  Sgd keeps({&with}, {.learning_rate = 1}), loses({&without}, {.learning_rate = 1, .master_weights = false});
  const auto before = without.value.to_vector<bf16>();
  const Tensor grad = Tensor::empty({64}, DType::bf16);
  for (int i = 0; i < 64; ++i)
    grad.data<bf16>()[i] = bf16(before[static_cast<std::size_t>(i)].bits
                                    ? 0x1p-12F * static_cast<float>(before[static_cast<std::size_t>(i)])
                                    : 0.0F);
  for (int step = 0; step < 256; ++step) {  // each is a sixteenth of the distance between two bf16
    with.value.set_grad(grad);
    without.value.set_grad(grad);
    keeps.step();
    loses.step();
  }
  for (std::size_t i = 0; i < 64; ++i) {
    const auto start = static_cast<float>(before[i]);
    EXPECT_EQ(static_cast<float>(without.value.to_vector<bf16>()[i]), start);
    EXPECT_NEAR(static_cast<float>(with.value.to_vector<bf16>()[i]), start * (1 - 0x1p-4F),
                std::abs(start) * 0x1p-8F);
  }
  EXPECT_EQ(keeps.state().at("w.master_remainder").dtype(), DType::i16);
}

TEST(Optimizer, Bf16ParametersTrainWithTheBitsOfF32Parameters) {
  Parameter half("w", randn({40}, 1, DType::bf16), true, true);
  Parameter full("w", to(half.value.detach(), DType::f32), true, true);
  AdamW a({&half}, {.learning_rate = 1e-3}), b({&full}, {.learning_rate = 1e-3});
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tensor grad = randn({40}, step);
    half.value.set_grad(grad);
    full.value.set_grad(grad);
    a.step();
    b.step();
  }
  const auto remainders = a.state().at("w.master_remainder").to_vector<std::int16_t>();
  const auto halves = half.value.to_vector<bf16>();
  const auto floats = full.value.to_vector<float>();
  for (std::size_t i = 0; i < floats.size(); ++i)
    EXPECT_EQ(kernels::join_weight({halves[i], remainders[i]}), floats[i]);
}

// The state of an optimizer that kept f32 masters of bf16 parameters, for `weights`.
std::map<std::string, Tensor> state_with_masters(const std::vector<float>& weights) {
  const Shape shape{static_cast<std::int64_t>(weights.size())};
  return {{"w.step", Tensor::from(std::vector<std::int64_t>{3}, {})},
          {"w.master", Tensor::from(weights, shape)},
          {"w.exp_avg", Tensor::zeros(shape)},
          {"w.exp_avg_sq", Tensor::zeros(shape)}};
}

TEST(Optimizer, TakesF32MastersOfBf16ParametersFromEarlierVersions) {
  const std::vector<float> weights = {0x1.234568p3F, -0x1.9p-20F, 0.0F, -0.0F, 0x1.fffffep127F, INFINITY};
  const Tensor value = Tensor::empty({6}, DType::bf16);
  for (int i = 0; i < 6; ++i) value.data<bf16>()[i] = bf16(weights[static_cast<std::size_t>(i)]);
  Parameter w("w", value, true, true);
  AdamW optimizer({&w}, {});
  optimizer.load_state(state_with_masters(weights));
  const auto remainders = optimizer.state().at("w.master_remainder").to_vector<std::int16_t>();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float joined = kernels::join_weight({value.data<bf16>()[i], remainders[i]});
    EXPECT_EQ(std::bit_cast<std::uint32_t>(joined), std::bit_cast<std::uint32_t>(weights[i])) << i;
  }
}

TEST(Optimizer, AnF32MasterHalfwayBetweenTwoBf16MovesByOneBitAtMost) {
  const std::vector<float> weights = {0x1.01p0F, 0x1.03p0F, -0x1.01p0F};  // the first and last went to zero
  const Tensor value = Tensor::empty({3}, DType::bf16);
  for (int i = 0; i < 3; ++i) value.data<bf16>()[i] = bf16(weights[static_cast<std::size_t>(i)]);
  Parameter w("w", value, true, true);
  AdamW optimizer({&w}, {});
  optimizer.load_state(state_with_masters(weights));
  const auto remainders = optimizer.state().at("w.master_remainder").to_vector<std::int16_t>();
  const std::vector<float> expected = {std::nextafter(0x1.01p0F, 0.0F), 0x1.03p0F,
                                       std::nextafter(-0x1.01p0F, 0.0F)};
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(kernels::join_weight({value.data<bf16>()[i], remainders[i]}), expected[i]);
}

TEST(Optimizer, RefusesF32MastersOfOtherWeights) {
  Parameter w("w", Tensor::zeros({2}, DType::bf16), true, true);
  AdamW optimizer({&w}, {});
  EXPECT_THROW(optimizer.load_state(state_with_masters({0.0F, 1.0F})), Error);
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Optimizer, ParametersOfSeveralDtypesStepTogether) {
  Parameter h1("h1", randn({9}, 1, DType::bf16), true, true), f("f", randn({9}, 2), true, true),
      h2("h2", randn({9}, 3, DType::bf16), true, true), alone("f", randn({9}, 2), true, true);
  AdamW together({&h1, &f, &h2}, AdamWConfig{}), single({&alone}, AdamWConfig{});
  for (Parameter* p : {&h1, &f, &h2, &alone}) p->value.set_grad(randn({9}, 4, p->value.dtype()));
  together.step();
  single.step();
  EXPECT_EQ(f.value.to_vector<float>(), alone.value.to_vector<float>());
  EXPECT_EQ(together.state().size(), 3U + 2 * 4U);
}

TEST(Optimizer, StateBytesAreKnownBeforeTheFirstStep) {
  Model f32;
  AdamW a(f32.pointers(), {});
  EXPECT_EQ(a.state_bytes(), (32 + 4) * 8U);
  Model half(DType::bf16);
  AdamW b(half.pointers(), {});
  EXPECT_EQ(b.state_bytes(), (32 + 4) * 10U);
  Model f16_model(DType::f16);
  AdamW d(f16_model.pointers(), {});
  EXPECT_EQ(d.state_bytes(), (32 + 4) * 12U);
  Sgd c(f32.pointers(), {});
  EXPECT_EQ(c.state_bytes(), 0U);
}

TEST(Optimizer, RefusesStateOfAnotherModelAndKeepsItsOwn) {
  Model model, other;
  AdamW optimizer(model.pointers(), {}), donor(other.pointers(), {});
  train(model, optimizer, 0, 1);
  train(other, donor, 0, 1);
  const auto kept = optimizer.state().at("w.exp_avg").to_vector<float>();
  auto state = donor.state();
  state.erase("w.exp_avg");
  state["b.exp_avg_sq"] = Tensor::zeros({5});
  try {
    optimizer.load_state(state);
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("w.exp_avg is missing"), std::string::npos) << message;
    EXPECT_NE(message.find("b.exp_avg_sq: expected f32 [4], got f32 [5]"), std::string::npos) << message;
  }
  EXPECT_EQ(optimizer.state().at("w.exp_avg").to_vector<float>(), kept);
  auto extra = donor.state();
  extra["nobody.step"] = Tensor::zeros({}, DType::i64);
  EXPECT_THROW(optimizer.load_state(extra), Error);
}

TEST(Optimizer, AStepIsAnInPlaceChangeThatSavedTensorsNotice) {
  Model model;
  const std::uint32_t version = model.parameters[0].value.storage()->version();
  Sgd optimizer(model.pointers(), {});
  model.set_grads(1);
  optimizer.step();
  EXPECT_GT(model.parameters[0].value.storage()->version(), version);
}

TEST(Optimizer, RefusesImpossibleConfigurations) {
  Model m;
  EXPECT_THROW(AdamW(m.pointers(), {.learning_rate = -1}), InvalidConfig);
  EXPECT_THROW(AdamW(m.pointers(), {.learning_rate = NAN}), InvalidConfig);
  EXPECT_THROW(AdamW(m.pointers(), {.beta1 = 1}), InvalidConfig);
  EXPECT_THROW(AdamW(m.pointers(), {.beta2 = -0.1}), InvalidConfig);
  EXPECT_THROW(AdamW(m.pointers(), {.eps = -1}), InvalidConfig);
  EXPECT_THROW(AdamW(m.pointers(), {.weight_decay = -1}), InvalidConfig);
  EXPECT_THROW(Sgd(m.pointers(), {.nesterov = true}), InvalidConfig);
  EXPECT_THROW(Sgd(m.pointers(), {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), InvalidConfig);
  EXPECT_THROW(Sgd(m.pointers(), {.momentum = -1}), InvalidConfig);
  EXPECT_THROW(AdamW((Pointers{&m.parameters[0], &m.parameters[0]}), {}), InvalidConfig);
  Parameter same("w", randn({2}, 1), true, true), absent;
  EXPECT_THROW(AdamW((Pointers{&m.parameters[0], &same}), {}), InvalidConfig);
  EXPECT_THROW(AdamW(Pointers{&absent}, {}), Error);
  std::vector<ParamGroup> groups(1);
  groups[0].lr_multiplier = -2;
  EXPECT_THROW(AdamW(groups, AdamWConfig{}), InvalidConfig);
  AdamW optimizer(m.pointers(), {});
  EXPECT_THROW(optimizer.step({.lr_scale = NAN}), InvalidConfig);
  EXPECT_THROW(optimizer.set_learning_rate(-1), InvalidConfig);
}

TEST(Clip, TheFactorInTheStepEqualsClippingTheGradientsFirst) {
  Model a, b;
  Sgd one(a.pointers(), {.learning_rate = 0.5}), two(b.pointers(), {.learning_rate = 0.5});
  a.set_grads(1);
  b.set_grads(1);
  const auto pointers = a.pointers();
  const ClippedNorm clipped = clip_by_global_norm(pointers, 0.5);
  one.step({.grad_scale = clipped.factor});
  EXPECT_NEAR(clip_grad_norm(b.pointers(), 0.5), clipped.norm.item(), 1e-6);
  EXPECT_NEAR(grad_norm(b.pointers()), 0.5, 1e-5);
  two.step();
  for (std::size_t p = 0; p < 3; ++p) {
    for (std::size_t i = 0; i < a.values()[p].size(); ++i)
      EXPECT_NEAR(a.values()[p][i], b.values()[p][i], 1e-6);
  }
}

TEST(Clip, SmallGradientsKeepTheirBits) {
  Model model;
  model.set_grads(1);
  const auto before = model.parameters[0].grad().to_vector<float>();
  clip_grad_norm(model.pointers(), 1e3);
  EXPECT_EQ(model.parameters[0].grad().to_vector<float>(), before);
}

TEST(Clip, ByValueLimitsEveryElement) {
  Model model;
  model.set_grads(1);
  clip_grad_value(model.pointers(), 0.3);
  float high = 0;
  for (const float g : model.parameters[0].grad().to_vector<float>()) high = std::max(high, std::abs(g));
  EXPECT_EQ(high, 0.3F);
}

TEST(Clip, NoGradientsHaveNormZeroAndLimitsArePositive) {
  Model model;
  EXPECT_EQ(clip_grad_norm(model.pointers(), 1), 0);
  EXPECT_THROW(clip_grad_norm(model.pointers(), 0), InvalidConfig);
  EXPECT_THROW(clip_by_global_norm(model.pointers(), NAN), InvalidConfig);
  EXPECT_THROW(clip_grad_value(model.pointers(), -1), InvalidConfig);
}

TEST(Ema, FollowsTheWeightsAndSwapsBackExactly) {
  Model model;
  Ema ema({&model.parameters[0]}, {.decay = 0.75});
  const auto start = model.values()[0];
  Sgd optimizer(model.pointers(), {.learning_rate = 0.1});
  model.set_grads(1);
  optimizer.step();
  const auto stepped = model.values()[0];
  ema.update();
  ema.swap();
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_NEAR(model.values()[0][i], 0.75F * start[i] + 0.25F * stepped[i], 1e-6);
  }
  EXPECT_THROW(ema.update(), Error);
  ema.swap();
  EXPECT_EQ(model.values()[0], stepped);
}

TEST(Ema, ResumesFromItsState) {
  Model a, b;
  const EmaConfig config{.decay = 0.9, .warmup = true};
  Ema one(a.pointers(), config), two(b.pointers(), config);
  const auto move = [](Model& m, int step) {
    Sgd optimizer(m.pointers(), {.learning_rate = 0.1});
    m.set_grads(static_cast<std::uint64_t>(step));
    optimizer.step();
  };
  for (int step = 0; step < 3; ++step) {
    move(a, step);
    move(b, step);
    one.update();
  }
  two.load_state(one.state());
  move(a, 9);
  move(b, 9);
  one.update();
  two.update();
  EXPECT_EQ(one.state().at("w.ema").to_vector<float>(), two.state().at("w.ema").to_vector<float>());
  EXPECT_THROW(two.load_state({}), Error);
  EXPECT_THROW(Ema(a.pointers(), {.decay = 1}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
