#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

/// A value inside a JSON file that knows where it stands, so that every complaint about it can say so: a
/// FormatError with the file and the dotted path ("pre_tokenizer.pretokenizers[1].pattern").
class JsonView {
 public:
  bool is_null() const;
  bool is_string() const;
  bool is_object() const;
  /// Whether the member is there and not null.
  bool has(std::string_view key) const;
  /// The member; an error when it is missing or this is not an object.
  JsonView at(std::string_view key) const;
  std::vector<JsonView> items() const;
  std::vector<std::string> keys() const;

  std::string string() const;
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;

  std::string string(std::string_view key) const { return at(key).string(); }
  std::string string(std::string_view key, std::string fallback) const;
  bool boolean(std::string_view key, bool fallback) const;

  /// The one character of a string value.
  char32_t character() const;

  /// The value as JSON text.
  std::string dump() const;
  const std::string& field() const { return field_; }
  const std::string& file() const { return *file_; }
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  friend class JsonDocument;
  JsonView(const void* value, const std::string& file, std::string field)
      : value_(value), file_(&file), field_(std::move(field)) {}
  [[noreturn]] void wrong_type(std::string_view expected) const;

  const void* value_;  // of the JSON library, which stays out of headers
  const std::string* file_;
  std::string field_;
};

/// A parsed JSON text. Throws FormatError with the byte where it stops being JSON.
class JsonDocument {
 public:
  /// `file` names it in errors, `field` is the path of the root ("" for a whole file).
  JsonDocument(std::string_view text, std::string file, std::string field);
  /// Must not outlive the document.
  JsonView root() const { return JsonView(value_.get(), file_, field_); }

 private:
  std::shared_ptr<const void> value_;
  std::string file_, field_;
};

}  // namespace ingot::text
