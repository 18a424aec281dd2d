// Matmuls with packed weights by tiles of AMX, for many rows: included as vnni-inl.h is. The includer then
// has a Tiles:
//
//   Tiles::configure(config)              what tiles 0 (sums), 1 (x) and 2 (weights) are; on this thread
//   Tiles::multiply(x, stride, w, sums)   sums [16][16] = x · w: rows of x are `stride` bytes apart, rows of
//   w 64 Tiles::release()                      on this thread
//
// A tile of weights is a block's groups of four columns, 64 bytes each, just as panels hold them (packed.h).
// Scales are applied to each block's whole-numbered sums in the order that the contract (quantized.h) fixes,
// so the results are those of every other implementation, bit for bit.
#include "ingot/kernels/cpu/x86/vnni-inl.h"

/// What LDTILECFG reads: the shapes of the tiles (Intel 64 SDM, volume 1, 18.2).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(TileConfig) == 64);

constexpr std::int64_t kTileRows = 16;

// Tiles for matmuls of `groups` groups: 8 for a whole block, 4 where each half has a scale of its own.
constexpr TileConfig tile_config(int groups) {
  TileConfig config;
  config.rows[0] = config.rows[1] = static_cast<std::uint8_t>(kTileRows);
  config.rows[2] = static_cast<std::uint8_t>(groups);
  config.row_bytes[0] = config.row_bytes[2] = 64;
  config.row_bytes[1] = static_cast<std::uint16_t>(4 * groups);
  return config;
}

// 16 rows of x with the 16 rows of the panel.
template <class Tiles, PackedFormat kFormat>
INGOT_NOINLINE void tile_rows(const PanelMatmul& p, const std::uint8_t* x, float* y) {
  using D = Decoder<kFormat>;
  constexpr PackedLayout kLayout = D::kLayout;
  constexpr int kParts = D::kHalves ? 2 : 1, kGroups = 8 / kParts;
  Floats sum[kTileRows];
  for (Floats& s : sum) s = zero_floats();
  alignas(64) std::array<std::uint8_t, 64 * kGroups> unpacked;
  alignas(64) std::array<std::int32_t, 16 * kTileRows> dots;
  const std::uint8_t* step = p.panel;
  for (std::int64_t s = 0; s < p.steps; ++s, step += kLayout.step_bytes()) {
    const D decoder(step, 0);
    for (std::int64_t block = 0; block < kLayout.step_blocks; ++block, x += sizeof(ActivationBlock)) {
      const auto activations = [&](std::int64_t row) {
        return reinterpret_cast<const ActivationBlock*>(x + row * p.x_stride);
      };
      for (int part = 0; part < kParts; ++part) {
        const std::uint8_t* codes = unpacked.data();
        if constexpr (kLayout.low_bits == 8) {
          codes = step + D::kHeader + block * D::kLow;
        } else {
          for (int g = 0; g < kGroups; ++g)
            _mm512_store_si512(unpacked.data() + 64 * g, decoder.codes(block, part * kGroups + g));
        }
        Tiles::multiply(x + 4 * kGroups * part, p.x_stride, codes, dots.data());
        const Floats scale = decoder.scale(block, part);
        for (std::int64_t row = 0; row < kTileRows; ++row) {
          const ActivationBlock& a = *activations(row);
          Ints whole = load(dots.data() + 16 * row);
          if constexpr (!D::kHasMin) {
            const std::int32_t negative =
                D::kHalves ? a.negative_half_sums[static_cast<std::size_t>(part)] : a.negative_sum;
            whole = _mm512_add_epi32(whole, shift_left(splat(negative), kLayout.zero_shift));
          }
          sum[row] = multiply_add(to_floats(whole), multiply(scale, splat(a.scale)), sum[row]);
        }
      }
      if constexpr (D::kHasMin) {
        const Floats minimum = decoder.minimum(block);
        for (std::int64_t row = 0; row < kTileRows; ++row)
          sum[row] = decoder.add_minimum(block, minimum, splat(activations(row)->scaled_sum), sum[row]);
      }
    }
  }
  const Floats bias = p.bias != nullptr ? load_floats(p.bias, p.cols) : zero_floats();
  for (std::int64_t row = 0; row < kTileRows; ++row)
    store_floats(y + row * p.y_stride, p.bias != nullptr ? add(sum[row], bias) : sum[row], p.cols);
}

// As many times 16 rows as there are, a panel at a time; AVX-512 computes those that remain.
template <class Tiles, PackedFormat kFormat>
void tile_matmul(const PanelMatmul& p, std::int64_t rows) {
  static constexpr TileConfig kConfig = tile_config(Decoder<kFormat>::kHalves ? 4 : 8);
  const std::int64_t whole = rows / kTileRows * kTileRows;
  if (whole > 0) Tiles::configure(kConfig);
  for (std::int64_t panel = 0; panel < p.panels; ++panel) {
    const PanelMatmul one = panel_of(p, panel);
    for (std::int64_t at = 0; at < whole; at += kTileRows)
      tile_rows<Tiles, kFormat>(one, one.x + at * one.x_stride, one.y + at * one.y_stride);
  }
  if (whole > 0) Tiles::release();
  if (whole == rows) return;
  PanelMatmul rest = p;
  rest.x += whole * p.x_stride;
  rest.y += whole * p.y_stride;
  vnni_panel_kernel(kFormat)(rest, rows - whole);
}

template <class Tiles>
PanelKernel tile_kernel(PackedFormat format) {
  return for_format(format,
                    []<PackedFormat kFormat>() -> PanelKernel { return tile_matmul<Tiles, kFormat>; });
}
