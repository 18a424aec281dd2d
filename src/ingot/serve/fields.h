#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ingot::serve {

/// The fields of a JSON object that a client sent. A field that is absent or null gives nothing; one of
/// another type throws the ApiError that names it.
class Fields {
 public:
  /// `object` has to outlive this; `path`: what the fields belong to, as "stream_options.".
  explicit Fields(const nlohmann::json& object, std::string path = {});

  bool has(const char* name) const;
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::int64_t> integer(const char* name) const;
  std::optional<double> number(const char* name) const;
  std::optional<std::string> string(const char* name) const;
  /// One string, or a list of them.
  std::optional<std::vector<std::string>> strings(const char* name) const;
  std::optional<std::vector<std::int32_t>> ids(const char* name) const;
  /// Null where there is none.
  const nlohmann::json* object(const char* name) const;
  const nlohmann::json* array(const char* name) const;
  const nlohmann::json* any(const char* name) const;

  /// Puts a field over a value, where it is there.
  void read(const char* name, bool& value) const;
  void read(const char* name, std::int64_t& value) const;
  void read(const char* name, double& value) const;

 private:
  const nlohmann::json* find(const char* name) const;
  [[noreturn]] void wrong(const char* name, const char* wanted) const;

  const nlohmann::json& object_;
  std::string path_;
};

/// A request's body as an object; the ApiError says what is wrong with it.
nlohmann::json parse_body(const std::string& body);

}  // namespace ingot::serve
