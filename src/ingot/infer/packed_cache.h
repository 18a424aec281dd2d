#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ingot/nn/param_source.h"
#include "ingot/weights/weight_source.h"

namespace ingot::infer {

struct PackedCacheOptions {
  /// "auto": beside the model where that can be written, else in $XDG_CACHE_HOME/ingot/packed (~/.cache); a
  /// directory: there; "off": nowhere.
  std::string where = "auto";
  /// Less than this is packed again each time, which takes no longer than opening a file ("auto" only).
  std::uint64_t least_bytes = 64 << 20;
  /// Tiles beyond this many bytes lie in files without names while the cache is made, so that a model may be
  /// larger than memory. Default: half of what is free.
  std::optional<std::uint64_t> most_memory{};
};

/// The tiles of a model in a file, so that the next start maps them instead of making them, and processes
/// share them. It is a safetensors file; its header says what it was made from: the version of the tiles, the
/// processor's instruction set, the format asked for, and name, size, time and a hash of samples of the
/// model's files. It and the checksums of the tiles are signed with a secret of the user's
/// ($XDG_CACHE_HOME/ingot/packed/secret). One that was made from anything else or by anybody else, or is
/// damaged or changed, counts as none and is replaced.
class PackedCache final : public PackedStore {
 public:
  /// `path`: the model's. Never throws for what the cache holds or where it lies.
  PackedCache(const std::string& path, const WeightSource& weights, const std::string& format,
              const PackedCacheOptions& options);

  quant::PackedPtr find(const std::string& name) const override;
  quant::PackedPtr add(const std::string& name, quant::PackedPtr matrix) override;
  /// Writes what was added, with what was there; nothing where nothing was. A directory that cannot be
  /// written, or a full disk, is logged and no error. Returns the file written, or an empty path.
  std::string save();
  /// Where the tiles come from: the file, or empty.
  const std::string& file() const { return file_; }

 private:
  void open(const std::string& file);
  std::uint64_t bytes() const;
  quant::PackedPtr on_disk(const quant::PackedPtr& matrix) const;

  std::string model_, secret_, key_;
  PackedCacheOptions options_;
  std::string format_, file_;
  std::map<std::string, quant::PackedPtr> found_, added_;
  std::uint64_t in_memory_ = 0;  // of what was added
};

}  // namespace ingot::infer
