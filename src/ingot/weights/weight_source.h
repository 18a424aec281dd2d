#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/weights/blob.h"

namespace ingot::quant {
struct BlockMatrix;
struct PackedMatrix;
}  // namespace ingot::quant

namespace ingot {

/// One tensor as a file describes it, known without reading its values.
struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  /// The dtype that loading gives; none where Ingot has no such dtype (the tensor is listed, not loaded).
  std::optional<DType> dtype;
  std::string stored_as;     ///< the format's own name of the element type: "BF16", "Q4_K", "<f4"
  std::uint64_t bytes = 0;   ///< as stored
  std::uint64_t offset = 0;  ///< of the first byte, from the start of `file`
  std::string file;          ///< the file that holds it
  /// Another tensor whose values these are, stored once for both, as tied weights are; empty: none is known.
  std::string same_as = {};

  /// Number of elements; a format checks when it opens that this does not overflow.
  std::int64_t numel() const;
};

/// What a source can do beyond loading one tensor after another.
struct WeightCapabilities {
  bool zero_copy = false;   ///< tensors may alias the file: cheap, and the pages can be dropped again
  bool concurrent = false;  ///< load_tensor may run on several threads at once
  bool preload = false;     ///< preload() does something
};

/// The part of a matrix that load_packed() is asked for: rows [first, first + rows) of it, or of its
/// transpose.
struct PackedPart {
  bool transposed = false;
  std::int64_t first = 0, rows = 0;            ///< rows 0: all
  std::int64_t every = 1;                      ///< > 1: `rows` of them, the `first` of every so many
  std::int64_t matrix = -1;                    ///< of a stack of matrices; -1: the tensor is one
  std::int64_t first_column = 0, columns = 0;  ///< of those rows; columns 0: all
};

/// A set of named tensors that somebody stored: a file, a directory of shards, and later whatever else can be
/// opened. Opening reads and checks the description only; each tensor is read when it is asked for.
///
/// Loaded tensors live on the CPU and are contiguous. They may alias a mapped file, copy-on-write: writing
/// into one is safe, costs a copy of the pages touched, and never changes the file; what was written is lost
/// with the last tensor on those pages, which then leave the process' memory. They keep the file mapped.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Path or address, as messages name it.
  const std::string& location() const { return location_; }
  /// "safetensors", "npy", ...
  virtual std::string_view format() const = 0;
  /// Free text that the file holds ("format" -> "pt").
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  virtual WeightCapabilities capabilities() const { return {}; }

  /// All tensors, sorted by name.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  bool is_available(std::string_view name) const { return find(name) != nullptr; }
  /// Null where there is none of this name.
  const TensorInfo* find(std::string_view name) const;
  /// Error that names the nearest tensor where there is none of this name.
  const TensorInfo& get_metadata(std::string_view name) const;

  /// Throws as get_metadata does, NotImplemented for an element type that has no dtype, FormatError for
  /// values that the type does not allow.
  Tensor load_tensor(std::string_view name) const { return load(get_metadata(name)); }
  /// In the order of `names`; on several threads where the source can (`capabilities().concurrent`).
  std::vector<Tensor> load_tensors(std::span<const std::string> names) const;
  /// The bytes of a tensor as they are stored: the blocks of a quantized format, say. NotImplemented where
  /// the format keeps them otherwise than in one piece (compressed, strided).
  Blob stored_bytes(std::string_view name) const { return on_loan(stored(get_metadata(name))); }
  /// A matrix that is stored quantized, in the tiles that matmuls run on; null where it is not, or where
  /// rows of the part are not whole rows as they are stored, or its columns not whole blocks. Throws as
  /// load_tensor does.
  std::shared_ptr<const quant::PackedMatrix> load_packed(std::string_view name,
                                                         const PackedPart& part) const {
    return packed(get_metadata(name), part);
  }
  /// Tells that these tensors will be loaded soon. Only a hint.
  virtual void preload(std::span<const std::string> names) const;

  /// Bytes of all tensors as stored.
  std::uint64_t total_bytes() const;

 protected:
  explicit WeightSource(std::string location) : location_(std::move(location)) {}
  /// To be called once by the constructor of a format.
  void set_contents(std::vector<TensorInfo> tensors, std::map<std::string, std::string> metadata);
  virtual Tensor load(const TensorInfo& info) const = 0;
  virtual Blob stored(const TensorInfo& info) const;
  /// Packs what stored() gives where that is blocks of GGUF's.
  virtual std::shared_ptr<const quant::PackedMatrix> packed(const TensorInfo& info,
                                                            const PackedPart& part) const;
  /// The part's columns of a matrix that has its rows.
  static std::shared_ptr<const quant::PackedMatrix> pack_columns(quant::BlockMatrix matrix,
                                                                 const PackedPart& part);

 private:
  std::string location_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace ingot
