#include "ingot/data/documents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/text/utf8.h"

namespace ingot::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// What people write prose and programs in. Tables, logs and JSON data are left to be named one by one: they
// would drown the rest.
constexpr std::array<std::string_view, 46> kTextExtensions{
    ".txt", ".md",   ".rst",  ".tex",  ".org", ".adoc",  ".jsonl", ".ndjson", ".c",     ".cc",
    ".cpp", ".cxx",  ".cu",   ".cuh",  ".h",   ".hh",    ".hpp",   ".hxx",    ".inl",   ".py",
    ".pyi", ".rs",   ".go",   ".java", ".kt",  ".swift", ".scala", ".js",     ".jsx",   ".ts",
    ".tsx", ".rb",   ".php",  ".pl",   ".lua", ".sh",    ".bash",  ".sql",    ".cmake", ".yaml",
    ".yml", ".toml", ".html", ".css",  ".hs",  ".ml"};
constexpr std::array<std::string_view, 4> kSkippedDirectories{"node_modules", "__pycache__", "third_party",
                                                              "vendor"};

bool is_jsonl(const fs::path& path) { return path.extension() == ".jsonl" || path.extension() == ".ndjson"; }

SourceFormat format_of(const fs::path& path, SourceFormat wanted) {
  if (wanted != SourceFormat::automatic) return wanted;
  return is_jsonl(path) ? SourceFormat::jsonl : SourceFormat::text;
}

bool skip_directory(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.starts_with('.') || std::ranges::find(kSkippedDirectories, name) != kSkippedDirectories.end() ||
         fs::exists(path / "CMakeCache.txt", ignored);
}

bool looks_like_text(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  if (name.starts_with('.')) return false;
  return extension.empty() || std::ranges::find(kTextExtensions, extension) != kTextExtensions.end();
}

void list_directory(const std::string& directory, SourceFormat wanted, std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  std::error_code code;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(directory, options, code), end; !code && it != end;
       it.increment(code)) {
    if (it->is_directory()) {
      if (skip_directory(it->path())) it.disable_recursion_pending();
    } else if (it->is_regular_file() && looks_like_text(it->path())) {
      found.push_back(it->path().string());
    }
  }
  INGOT_CHECK(!code, IoError(directory, "cannot list it: " + code.message()));
  INGOT_CHECK(!found.empty(),
              IoError(directory, fmt::format("holds no text files; files of these kinds are read: {}",
                                             fmt::join(kTextExtensions, " "))));
  std::ranges::sort(found);
  for (std::string& path : found) {
    const SourceFormat format = format_of(path, wanted);
    files.push_back({std::move(path), format, true});
  }
}

/// The first byte at or after `from` that is no well-formed UTF-8 (RFC 3629), or npos.
std::size_t find_invalid_utf8(std::string_view text, std::size_t from) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t size = text.size();
  for (std::size_t i = from; i < size;) {
    std::uint64_t eight = 0;
    if (i + 8 <= size && (std::memcpy(&eight, bytes + i, 8), (eight & 0x8080808080808080U) == 0)) {
      i += 8;
      continue;
    }
    const unsigned char lead = bytes[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > size) return i;
    // The second byte's range rules out overlong forms, surrogates and what is beyond U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (bytes[i + 1] < low || bytes[i + 1] > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if (bytes[i + k] < 0x80 || bytes[i + k] > 0xBF) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

class Reader {
 public:
  Reader(const SourceOptions& options, FunctionRef<void(std::string_view)> take)
      : options_(options), take_(take) {}

  void read(const SourceFile& source) {
    const MappedFile file(source.path, MappedFile::Access::sequential);
    std::string_view text = file.text();
    if (source.from_directory &&
        (text.substr(0, 8192).find('\0') != text.npos || find_invalid_utf8(text, 0) != text.npos)) {
      ++report_.skipped_files;
      return;
    }
    ++report_.files;
    const std::size_t mark = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    path_ = &source.path;
    start_ = text.data();
    text.remove_prefix(mark);
    if (source.format == SourceFormat::jsonl) {
      read_lines(text);
    } else {
      read_text(text);
    }
  }

  const SourceReport& report() const { return report_; }

 private:
  void read_text(std::string_view text) {
    const std::string& separator = options_.document_separator;
    while (!separator.empty()) {
      const std::size_t end = text.find(separator);
      if (end == text.npos) break;
      give(text.substr(0, end));
      text.remove_prefix(end + separator.size());
    }
    give(text);
  }

  void read_lines(std::string_view text) {
    for (std::int64_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      if (line.find_first_not_of(" \t\r") != line.npos) read_line(line, number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void read_line(std::string_view line, std::int64_t number) {
    const auto fail = [&](std::string_view problem, std::size_t at = 0) {
      throw FormatError(*path_, line.data() - start_ + static_cast<std::int64_t>(at),
                        fmt::format("line {}", number), problem);
    };
    const Json json = parse_json_or_discard<Json>(line);
    if (json.is_discarded())  // again, for what is wrong
      static_cast<void>(parse_json<Json>(line, *path_, fmt::format("line {}", number), line.data() - start_));
    if (!json.is_object()) fail("is no JSON object");
    const auto field = json.find(options_.text_field);
    if (field == json.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : json.items()) names.push_back(name);
      fail(fmt::format("has no '{}'; it has {}{}", options_.text_field, fmt::join(names, ", "),
                       did_you_mean(options_.text_field, names)));
    }
    if (!field->is_string()) {
      fail(fmt::format("'{}' is {}; expected a string", options_.text_field, field->type_name()));
    }
    give(field->get_ref<const std::string&>());  // the JSON reader has checked the UTF-8
  }

  void give(std::string_view text) {
    if (text.empty()) {
      ++report_.empty_documents;
      return;
    }
    std::string replaced;
    const std::size_t bad = find_invalid_utf8(text, 0);
    if (bad != text.npos) {
      switch (options_.invalid_utf8) {
        case InvalidUtf8::skip:
          ++report_.skipped_documents;
          return;
        case InvalidUtf8::replace:
          replaced = text::to_valid_utf8(text);
          text = replaced;
          break;
        case InvalidUtf8::error:
          throw FormatError(*path_, text.data() + bad - start_, "text",
                            fmt::format("byte 0x{:02x} is no UTF-8; convert the file (iconv), or set "
                                        "invalid_utf8 to replace or skip",
                                        static_cast<unsigned char>(text[bad])));
      }
    }
    ++report_.documents;
    report_.bytes += static_cast<std::int64_t>(text.size());
    take_(text);
  }

  const SourceOptions& options_;
  FunctionRef<void(std::string_view)> take_;
  SourceReport report_;
  const std::string* path_ = nullptr;
  const char* start_ = nullptr;
};

}  // namespace

void SourceOptions::validate() const {
  INGOT_CHECK(!paths.empty(), InvalidConfig("datasets", "names no file; give at least one path"));
  for (const std::string& path : paths) {
    INGOT_CHECK(!path.empty(), InvalidConfig("datasets.path", "is empty"));
  }
  INGOT_CHECK(!text_field.empty(), InvalidConfig("datasets.text_field", "is empty"));
}

std::vector<SourceFile> list_files(const SourceOptions& options) {
  options.validate();
  std::vector<SourceFile> files;
  for (const std::string& path : options.paths) {
    INGOT_CHECK(fs::exists(path), IoError(path, "does not exist; check the path of the training data"));
    if (fs::is_directory(path)) {
      list_directory(path, options.format, files);
    } else {
      files.push_back({path, format_of(path, options.format), false});
    }
  }
  return files;
}

SourceReport for_each_document(const SourceOptions& options, const std::vector<SourceFile>& files,
                               FunctionRef<void(std::string_view)> take) {
  Reader reader(options, take);
  for (const SourceFile& file : files) reader.read(file);
  INGOT_CHECK(reader.report().documents > 0,
              IoError(fmt::format("{}", fmt::join(options.paths, ", ")),
                      fmt::format("holds no text to learn from ({} files, {} empty documents, {} left out)",
                                  files.size(), reader.report().empty_documents,
                                  reader.report().skipped_files + reader.report().skipped_documents)));
  return reader.report();
}

SourceReport for_each_document(const SourceOptions& options, FunctionRef<void(std::string_view)> take) {
  return for_each_document(options, list_files(options), take);
}

}  // namespace ingot::data
