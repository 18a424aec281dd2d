#include <cmath>
#include <numbers>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/elementwise.h"

namespace ingot::kernels::cpu {
namespace {

// Calls body(i, word i) for the words of a stream.
template <class Body>
void for_each_word(RngKey key, std::int64_t n, Body&& body) {
  for (std::int64_t i = 0; i < n; i += 4) {
    const auto words = key.block(static_cast<std::uint64_t>(i / 4));
    for (std::int64_t k = 0; k < 4 && i + k < n; ++k) body(i + k, words[static_cast<std::size_t>(k)]);
  }
}

void dropout_reference(const DropoutArgs& args, Stream) {
  dispatch_float(args.x.dtype, "dropout", [&]<class T>() {
    using Acc = Accumulator<T>;
    const auto p = static_cast<float>(args.p);
    const Acc scale = static_cast<Acc>(1.0F / (1.0F - p));
    for_each_word(args.key, args.x.numel(), [&](std::int64_t i, std::uint32_t word) {
      const bool keep = uniform_from_bits(word) >= p;
      store(args.y.as<T>() + i, keep ? load(args.x.as<T>() + i) * scale : Acc{0}, args.accumulate);
    });
  });
}

template <class T>
void normal(const RandomArgs& args) {
  using Acc = Accumulator<T>;
  const std::int64_t n = args.y.numel();
  const auto mean = static_cast<Acc>(args.a), deviation = static_cast<Acc>(args.b);
  for (std::int64_t i = 0; i < n; i += 4) {
    const auto words = args.key.block(static_cast<std::uint64_t>(i / 4));
    for (std::int64_t k = 0; k < 4 && i + k < n; ++k) {
      const std::size_t pair = static_cast<std::size_t>(k / 2) * 2;
      const float radius = std::sqrt(-2.0F * std::log(1.0F - uniform_from_bits(words[pair])));
      const float angle = 2.0F * std::numbers::pi_v<float> * uniform_from_bits(words[pair + 1]);
      const float value = radius * (k % 2 == 0 ? std::cos(angle) : std::sin(angle));
      store(args.y.as<T>() + i + k, mean + deviation * static_cast<Acc>(value));
    }
  }
}

template <class T>
void uniform(const RandomArgs& args) {
  using Acc = Accumulator<T>;
  const auto low = static_cast<Acc>(args.a), width = static_cast<Acc>(args.b - args.a);
  for_each_word(args.key, args.y.numel(), [&](std::int64_t i, std::uint32_t word) {
    store(args.y.as<T>() + i, low + width * static_cast<Acc>(uniform_from_bits(word)));
  });
}

void random_reference(const RandomArgs& args, Stream) {
  dispatch_float(args.y.dtype, "random", [&]<class T>() {
    if (args.distribution == Distribution::uniform) {
      uniform<T>(args);
    } else {
      normal<T>(args);
    }
  });
}

}  // namespace

void register_random_reference() {
  dropout.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, dropout_reference});
  random.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, random_reference});
}

}  // namespace ingot::kernels::cpu
