#include "ingot/quant/matrix_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/quant/block_format.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {
namespace {

constexpr std::string_view kFewBits[] = {"q4_0",    "q4_1",  "q4_k",   "q5_0",   "q5_1",  "q5_k",  "nf4",
                                         "ternary", "nvfp4", "iq4_nl", "iq4_xs", "mxfp4", "tq1_0", "tq2_0"};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Columns that share a block; every row has a whole number of them. 1: any row will do.
std::int64_t columns_of_block(std::string_view format) {
  if (const BlockFormat* blocks = find_block_format(format)) return blocks->elements;
  if (const auto groups = find_group_options(format)) return std::max<std::int64_t>(groups->group, 1);
  return format == "nf4" ? 64 : format == "nvfp4" ? 16 : 1;
}

// llama.cpp's choice (llama-quant.cpp, tensor_type_fallback).
std::string_view smaller_blocks(std::string_view format) {
  constexpr std::array<std::array<std::string_view, 2>, 8> kTable{{{"q2_k", "q4_0"},
                                                                   {"q3_k", "q4_0"},
                                                                   {"q4_k", "q5_0"},
                                                                   {"q5_k", "q5_1"},
                                                                   {"q6_k", "q8_0"},
                                                                   {"iq4_xs", "iq4_nl"},
                                                                   {"tq1_0", "q4_0"},
                                                                   {"tq2_0", "q4_0"}}};
  for (const auto& [wanted, used] : kTable)
    if (wanted == format) return used;
  return {};
}

}  // namespace

MatrixRole matrix_role(std::string_view name) {
  constexpr std::string_view kHeads[] = {
      "lm_head.weight", "model.embed_tokens.weight", "model.embed_tokens_per_layer.weight",
      "output.weight",  "token_embd.weight",         "per_layer_token_embd.weight"};
  if (std::ranges::find(kHeads, name) != std::end(kHeads)) return MatrixRole::head;
  constexpr std::string_view kExempt[] = {".mlp.gate.weight",
                                          ".mlp.shared_expert_gate.weight",
                                          "ffn_gate_inp.weight",
                                          "ffn_gate_inp_shexp.weight",
                                          "position_embd.weight",
                                          "token_types.weight",
                                          "wpe.weight",
                                          "shortconv.conv.weight",
                                          "ssm_conv1d.weight",
                                          "ssm_norm.weight",
                                          ".ssm_a",
                                          ".ssm_d",
                                          "_proj_bias",
                                          "exps.bias",
                                          "per_layer_model_projection.weight",
                                          "per_layer_model_proj.weight"};
  // AltUp's coefficients and LAuReL's thin matrices, which llama.cpp does not round either. Nor does it the
  // projection to layers' inputs.
  const bool beside =
      name.find("altup") != std::string_view::npos || name.find("laurel") != std::string_view::npos;
  const bool exempt =
      beside || std::ranges::any_of(kExempt, [&](std::string_view end) { return name.ends_with(end); });
  return exempt ? MatrixRole::exempt : MatrixRole::layer;
}

MatrixFormat matrix_format(std::string_view format, std::int64_t cols, MatrixRole role) {
  MatrixFormat result;
  if (role == MatrixRole::exempt) return result;
  result.wanted = lower_case(format);
  const bool few = std::ranges::find(kFewBits, result.wanted) != std::end(kFewBits);
  if (role == MatrixRole::head && few) result.wanted = "q6_k";
  result.used = result.wanted;
  if (cols % columns_of_block(result.used) == 0) return result;
  if (find_block_format(result.wanted) == nullptr) {
    result.used.clear();
    return result;
  }
  result.used = smaller_blocks(result.wanted);
  if (result.used.empty() || cols % columns_of_block(result.used) != 0) result.used = "f16";
  return result;
}

void StandIns::add(const std::string& name, std::int64_t cols, const MatrixFormat& format) {
  if (format.wanted.empty()) return;
  ++matrices_;
  if (!format.stands_in()) return;
  const auto same = [&](const Row& row) { return row.wanted == format.wanted && row.used == format.used; };
  auto row = std::ranges::find_if(rows_, same);
  if (row == rows_.end()) row = rows_.insert(rows_.end(), {format.wanted, format.used, {}, {}});
  row->columns.insert(cols);
  row->names.push_back(name);
}

std::string StandIns::summary() const {
  if (rows_.empty()) return {};
  const auto count = std::accumulate(rows_.begin(), rows_.end(), std::size_t{0},
                                     [](std::size_t sum, const Row& row) { return sum + row.names.size(); });
  std::vector<std::string> parts;
  for (const Row& row : rows_)
    parts.push_back(fmt::format("{} in place of {} in {} (rows of {}; {}{})",
                                row.used.empty() ? "what is stored" : row.used, row.wanted, row.names.size(),
                                fmt::join(row.columns, ", "), row.names.front(),
                                row.names.size() > 1 ? ", ..." : ""));
  return fmt::format("{} of {} matrices have rows that blocks do not divide: {}", count, matrices_,
                     fmt::join(parts, ", "));
}

}  // namespace ingot::quant
