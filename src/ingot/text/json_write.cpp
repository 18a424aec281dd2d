#include "ingot/text/json_write.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::text {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        else
          out += c;
    }
  }
  out += '"';
  return out;
}

std::string indent_json(const std::string& json, int indent) {
  const std::string pretty = dump_json(parse_json<nlohmann::ordered_json>(json, "JSON"), 2);
  std::string out;
  out.reserve(pretty.size());
  for (const char c : pretty) {
    out += c;
    if (c == '\n') out.append(static_cast<std::size_t>(indent), ' ');
  }
  return out;
}

void write_json_vocabulary(const Vocabulary& vocabulary, const std::function<void(std::string_view)>& write) {
  write("    \"vocab\": {");
  std::string_view separator = "\n      ";
  for (std::int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    if (!vocabulary.contains(id)) continue;
    write(separator);
    write(json_string(vocabulary.token(id)));
    write(fmt::format(": {}", id));
    separator = ",\n      ";
  }
  write("\n    }");
}

}  // namespace ingot::text
