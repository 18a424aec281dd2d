#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"

namespace ingot {

/// A model's config.json, or an object inside it, read by key. A key that is absent or null leaves the value
/// that it is read into as it is. Errors name the file and the key.
class ConfigFile {
 public:
  /// FormatError where `text` is not a JSON object; `path` names it in errors.
  ConfigFile(std::string_view text, std::string path);

  bool has(const char* key) const;      ///< there and not null
  bool is_null(const char* key) const;  ///< there and null
  void read(const char* key, std::string& value) const;
  void read(const char* key, bool& value) const;
  /// A whole number; FormatError for 64.7.
  void read(const char* key, std::int64_t& value) const;
  void read(const char* key, double& value) const;
  void read(const char* key, std::vector<std::string>& value) const;
  void read(const char* key, std::vector<std::int64_t>& value) const;
  void read(const char* key, std::vector<double>& value) const;
  /// An integer, or the first of a list of them.
  void read_first(const char* key, std::int64_t& value) const;
  /// An integer, or a list of equal ones, of each layer; NotImplemented where they differ.
  void read_same(const char* key, std::int64_t& value) const;
  void read(const char* key, std::vector<std::vector<std::int64_t>>& value) const;
  /// Two numbers, of which the second may be infinite, as transformers writes that.
  void read_limits(const char* key, double& least, double& most) const;
  /// A list, or one element alone.
  void read_list(const char* key, std::vector<std::int64_t>& value) const;
  void read_list(const char* key, std::vector<std::string>& value) const;
  /// `dtype`, or `torch_dtype` as older files say.
  void read_dtype(DType& value) const;
  /// The object under `key`, where there is one.
  std::optional<ConfigFile> object(const char* key) const;

  /// This file's keys over `defaults` (JSON): what the family's own program assumes where a file is silent.
  ConfigFile over(std::string_view defaults) const;
  /// The keys of `object` over this file's.
  ConfigFile with(const ConfigFile& object) const;
  const std::string& path() const { return path_; }
  std::string text() const;

 private:
  struct Contents;
  ConfigFile(std::shared_ptr<const Contents> contents, std::string path);
  template <class T>
  void read_as(const char* key, T& value) const;
  template <class T>
  void read_list_as(const char* key, std::vector<T>& value) const;

  std::shared_ptr<const Contents> contents_;
  std::string path_;
};

/// What Google's BERT releases call theirs; it names no model_type.
inline constexpr std::string_view kGoogleBertConfig = "bert_config.json";

/// A model directory's config.json, or its bert_config.json where only that is there.
std::string config_path_in(const std::string& directory);

/// The text of such a file, in transformers' words where Keras-Hub wrote it.
std::string read_model_config(const std::string& path);

/// PyTorch's name of a dtype, as config.json has it: "float32".
std::string_view torch_name(DType dtype);

}  // namespace ingot
