#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::quant {

/// What a matrix is for a model; formats treat it accordingly.
enum class MatrixRole : std::uint8_t {
  layer,
  head,    ///< scores the vocabulary, or embeds it: formats of few bits keep it in six
  exempt,  ///< a router of experts, biases of experts, an embedding of positions: small, and no format rounds
           ///< it
};
/// By the name in Ingot, in a Hugging Face checkpoint or in a GGUF file.
MatrixRole matrix_role(std::string_view name);

/// What a matrix becomes where a model is rounded to a format. One rule for everything that rounds: loading
/// with a format, `ingot quantize`, and its report.
struct MatrixFormat {
  std::string wanted;  ///< the format for its role: "q4_k", for a head "q6_k"; lower case
  std::string used;    ///< the same, or what stands in; "f16": floats; empty: stays as it is stored
  bool stands_in() const { return used != wanted && !wanted.empty(); }
  bool is_dense() const { return used.empty() || used == "f16"; }
};
/// Of a row of `cols` that the format's blocks do not divide: as in llama.cpp q4_0 for q2_k and q3_k, q5_0
/// for q4_k, q5_1 for q5_k, q8_0 for q6_k, iq4_nl for iq4_xs, q4_0 for tq1_0 and tq2_0, and f16 where blocks
/// of 32 do not divide it either. Formats that are not GGUF's leave such a matrix as it is stored.
MatrixFormat matrix_format(std::string_view format, std::int64_t cols, MatrixRole role = MatrixRole::layer);

/// Which matrices have another format than their model was to have, and how many.
class StandIns {
 public:
  struct Row {
    std::string wanted, used;
    std::set<std::int64_t> columns;
    std::vector<std::string> names;  ///< of the matrices
  };
  /// Counts a matrix of the model; keeps its name where something stands in.
  void add(const std::string& name, std::int64_t cols, const MatrixFormat& format);
  const std::vector<Row>& rows() const { return rows_; }
  bool empty() const { return rows_.empty(); }
  /// "14 of 15 matrices have rows that blocks do not divide: q5_0 instead of q4_k in 14 (rows of 96)"; empty
  /// where nothing stands in.
  std::string summary() const;

 private:
  std::vector<Row> rows_;
  std::int64_t matrices_ = 0;
};

}  // namespace ingot::quant
