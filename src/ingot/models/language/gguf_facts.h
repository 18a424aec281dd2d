#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/weights/gguf.h"

namespace ingot {

/// What a GGUF file says of its model: metadata, every key with the architecture in front, and the names of
/// its tensors.
class GgufFacts {
 public:
  explicit GgufFacts(const GgufSource& source)
      : source_(source),
        fields_(source.fields()),
        architecture_(fields_.text("general.architecture").value_or("")) {}

  const std::string& architecture() const { return architecture_; }
  const std::string& path() const { return source_.location(); }
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  std::optional<std::int64_t> integer(std::string_view name) const { return fields_.integer(key(name)); }
  std::optional<double> number(std::string_view name) const { return fields_.number(key(name)); }
  std::optional<bool> boolean(std::string_view name) const { return fields_.boolean(key(name)); }
  /// Throws FormatError where it is missing or not positive.
  std::int64_t required(std::string_view name) const;
  /// One number for each layer; empty where the file has one for all, or none. Truth is 1.
  std::vector<std::int64_t> of_layers(std::string_view name) const;
  /// Whether there is such a tensor.
  bool has(std::string_view tensor) const;
  /// Whether a tensor's name ends so.
  bool any(std::string_view end) const;

 protected:
  const GgufSource& source_;
  const GgufMetadata& fields_;
  std::string architecture_;
};

}  // namespace ingot
