#include "ingot/kernels/nvfp4.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/nvfp4_scale.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kNvfp4Grain = 4096;  // elements, some 20 µs

// The distance of the numbers around x, of which there are 0 and 6 beyond.
float e2m1_step(float magnitude) { return magnitude < 2 ? 0.5F : magnitude < 4 ? 1.0F : 2.0F; }

float nearest_e2m1(float x) {
  const float step = e2m1_step(std::fabs(x));
  return std::nearbyint(x / step) * step;
}

// u: uniform in [0, 1).
float stochastic_e2m1(float x, float u) {
  const float magnitude = std::fabs(x), step = e2m1_step(magnitude);
  const float steps = magnitude / step, below = std::floor(steps);
  return std::copysign((below + (u < steps - below ? 1.0F : 0.0F)) * step, x);
}

// What std::max would lose stays: a NaN.
float larger(float most, float x) { return std::isnan(most) || most > std::fabs(x) ? most : std::fabs(x); }

// A key's uniform stream, of which neighbours come from one block.
class Nvfp4Words {
 public:
  explicit Nvfp4Words(const RngKey& key) : key_(key) {}
  float uniform(std::int64_t i) {
    const auto block = static_cast<std::uint64_t>(i / 4);
    if (block != block_) words_ = key_.block(block_ = block);
    return uniform_from_bits(words_[static_cast<std::size_t>(i % 4)]);
  }

 private:
  const RngKey& key_;
  std::uint64_t block_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

class Nvfp4Rows {
 public:
  explicit Nvfp4Rows(const RoundNvfp4Args& args)
      : args_(args),
        rows_(args.x.dim(0)),
        cols_(args.x.dim(1)),
        whole_(scale_of_tensor(*args.amax.as<float>())) {}

  // Rows [first, last) of one row of blocks.
  void run(std::int64_t first, std::int64_t last) const {
    for (std::int64_t begin = 0; begin < cols_; begin += kNvfp4Block) {
      const std::int64_t end = std::min(begin + kNvfp4Block, cols_);
      float most = 0;
      for (std::int64_t row = first; row < last; ++row)
        for (std::int64_t col = begin; col < end; ++col) most = larger(most, x(row, col));
      for (std::int64_t row = first; row < last; ++row) round(row, begin, end, most);
    }
  }
  std::int64_t block_rows() const { return args_.square ? kNvfp4Block : 1; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

 private:
  float x(std::int64_t row, std::int64_t col) const { return args_.x.as<float>()[row * cols_ + col]; }

  void round(std::int64_t row, std::int64_t begin, std::int64_t end, float most) const {
    const auto scale = static_cast<float>(f8e4m3(std::min(most / kE2m1Largest * whole_, kE4m3Largest)));
    const float encode = std::min(1 / (scale * (1 / whole_)), kMostFloat);
    Nvfp4Words words(args_.key);
    for (std::int64_t col = begin; col < end; ++col) {
      const std::int64_t at = row * cols_ + col;
      const float scaled = std::clamp(x(row, col) * encode, -kE2m1Largest, kE2m1Largest);
      const float number =
          args_.stochastic ? stochastic_e2m1(scaled, words.uniform(at)) : nearest_e2m1(scaled);
      args_.y.as<float>()[at] = std::isnan(most) ? most : number * scale;
    }
  }

  const RoundNvfp4Args& args_;
  std::int64_t rows_, cols_;
  float whole_;
};

void round_nvfp4_reference(const RoundNvfp4Args& args, Stream) {
  const Nvfp4Rows matrix(args);
  const std::int64_t height = matrix.block_rows(), bands = (matrix.rows() + height - 1) / height;
  const std::int64_t elements = std::max<std::int64_t>(height * matrix.cols(), 1);
  parallel_for(bands, std::max<std::int64_t>(kNvfp4Grain / elements, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t band = begin; band < end; ++band)
                   matrix.run(band * height, std::min((band + 1) * height, matrix.rows()));
               });
}

using Sixteen = std::array<float, kNvfp4Block>;

// Sums and differences of pairs at distances 1, 2, 4 and 8: Sylvester's matrix.
void transform(Sixteen& x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if ((kHadamardSigns >> i & 1U) != 0) x[i] = -x[i];
  for (std::size_t distance = 1; distance < x.size(); distance *= 2) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & distance) != 0) continue;
      const float a = x[i], b = x[i + distance];
      x[i] = a + b, x[i + distance] = a - b;
    }
  }
  for (float& value : x) value *= 0.25F;
}

void hadamard_reference(const HadamardArgs& args, Stream) {
  const std::int64_t rows = args.x.dim(0), depth = args.x.dim(1), blocks = args.y.dim(1) / kNvfp4Block;
  const auto* x = args.x.as<float>();
  auto* y = args.y.as<float>();
  // Rows within a block of the depth: where they are adjacent in memory, its lines are read once.
  const auto run = [&](std::int64_t block) {
    const std::int64_t first = block * kNvfp4Block, count = std::min(kNvfp4Block, depth - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      Sixteen values{};
      for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] = x[row * args.x.stride(0) + (first + i) * args.x.stride(1)];
      transform(values);
      std::copy(values.begin(), values.end(), y + row * args.y.dim(1) + first);
    }
  };
  const std::int64_t elements = std::max<std::int64_t>(rows * kNvfp4Block, 1);
  parallel_for(blocks, std::max<std::int64_t>(kNvfp4Grain / elements, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t block = begin; block < end; ++block) run(block);
               });
}

}  // namespace

void register_nvfp4_reference() {
  round_nvfp4.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, round_nvfp4_reference});
  hadamard.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, hadamard_reference});
}

}  // namespace ingot::kernels::cpu
