#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// How much the columns of each matrix matter, by the squares of what they are multiplied with over a text:
/// llama.cpp's importance matrix, which `llama-imatrix` writes and `llama-quantize --imatrix` reads.
struct ImportanceMatrix {
  /// Of one tensor: a matrix, or a stack of experts.
  struct Entry {
    std::vector<float> sums;    ///< [matrices, cols]: Σ x² over the rows x that each matrix was applied to
    std::vector<float> counts;  ///< [matrices]: rows

    std::int64_t matrices() const { return static_cast<std::int64_t>(counts.size()); }
    std::int64_t cols() const {
      return matrices() == 0 ? 0 : static_cast<std::int64_t>(sums.size()) / matrices();
    }
    /// Mean squares, [matrices, cols]; ones for an expert that no row reached.
    std::vector<float> means() const;
  };

  std::map<std::string, Entry, std::less<>> entries;  ///< by GGUF's names: "blk.0.attn_q.weight"
  std::vector<std::string> datasets;                  ///< where the text came from
  std::uint32_t chunks = 0, chunk_tokens = 0;         ///< pieces of the text, and tokens of each

  /// Null where the matrix is not there. Of a matrix that was concatenated from several with one input
  /// ("attn_qkv"), the entry of the first.
  const Entry* find(std::string_view tensor) const;
};

/// A GGUF file, or one of llama.cpp's older .dat files, by its content. FormatError names file and offset or
/// tensor.
ImportanceMatrix read_importance_matrix(const std::string& path);
/// A GGUF file; for a path that ends in .dat the older format. Atomic.
void write_importance_matrix(const std::string& path, const ImportanceMatrix& matrix);

}  // namespace ingot
