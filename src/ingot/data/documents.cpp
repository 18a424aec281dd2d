#include "ingot/data/documents.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/data/text_file.h"
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

SourceFormat format_of(std::string_view path, SourceFormat wanted) {
  if (wanted != SourceFormat::automatic) return wanted;
  const fs::path name(without_packed_ending(path));
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson") return SourceFormat::jsonl;
  return ending == ".json" ? SourceFormat::json : SourceFormat::automatic;
}

bool is_table(std::string_view path) {
  const std::string_view name = without_packed_ending(path);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

bool skip_directory(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.starts_with('.') || std::ranges::find(kSkippedDirectories, name) != kSkippedDirectories.end() ||
         fs::exists(path / "CMakeCache.txt", ignored);
}

bool looks_like_text(const fs::path& path) {
  const std::string extension = fs::path(without_packed_ending(path.native())).extension().string();
  return extension.empty() || std::ranges::find(kTextExtensions, extension) != kTextExtensions.end();
}

// Why a file of a directory is not read.
std::string reason_to_leave_out(const std::string& path, const std::string& encoding) {
  if (!looks_like_text(path)) return "its name's ending is not one of text";
  const MappedFile file(path, MappedFile::Access::sequential);
  const Content content = content_of(head_of(file.text()));
  if (content.kind == ContentKind::binary || (content.kind == ContentKind::zeros && encoding.empty())) {
    return std::string(content.name);
  }
  const bool plain =
      content.kind == ContentKind::text && content_of(file.text().substr(0, 8192)).kind == ContentKind::text;
  const std::size_t bad = plain && encoding.empty() ? find_invalid_utf8(file.text()) : std::string_view::npos;
  if (bad == std::string_view::npos) return "";
  return fmt::format("not UTF-8, byte 0x{:02x} at {}; 'encoding' names what it is",
                     static_cast<unsigned char>(file.text()[bad]), bad);
}

void list_directory(const std::string& directory, const SourceOptions& options,
                    std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, fs::directory_options::skip_permission_denied, code),
       end;
       !code && it != end; it.increment(code)) {
    if (it->is_directory()) {
      if (skip_directory(it->path())) it.disable_recursion_pending();
    } else if (it->is_regular_file() && !it->path().filename().string().starts_with('.')) {
      found.push_back(it->path().string());
    }
  }
  INGOT_CHECK(!code, IoError(directory, "cannot list it: " + code.message()));
  INGOT_CHECK(std::ranges::any_of(found, looks_like_text),
              IoError(directory, fmt::format("holds no text files; files of these kinds are read: {}",
                                             fmt::join(kTextExtensions, " "))));
  std::ranges::sort(found);
  for (std::string& path : found) {
    const SourceFormat format = format_of(path, options.format);
    std::string reason = reason_to_leave_out(path, options.encoding);
    files.push_back({std::move(path), format, std::move(reason)});
  }
}

SourceFile named_file(const std::string& path, const SourceOptions& options) {
  const MappedFile file(path, MappedFile::Access::sequential);
  const Content content = content_of(head_of(file.text()));
  if (content.kind == ContentKind::binary || content.kind == ContentKind::zeros)
    check_is_text(path, content, options.encoding);
  INGOT_CHECK(
      options.format != SourceFormat::automatic || !is_table(path),
      FormatError(
          path, 0, "text",
          "is a table (CSV); save its text as JSON lines with a member 'text', or set type: text to read "
          "the table as it stands"));
  return {path, format_of(path, options.format), ""};
}

// An array of objects, whatever the file is called.
bool begins_json_array(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t bracket = text.find_first_not_of(kSpace);
  if (bracket == text.npos || text[bracket] != '[') return false;
  const std::size_t brace = text.find_first_not_of(kSpace, bracket + 1);
  return brace != text.npos && text[brace] == '{';
}

// Whether ill-formed sequences are as many as those that are well-formed and not ASCII: then it is another
// encoding.
bool is_other_encoding(std::string_view text, std::size_t bad) {
  std::size_t ill = 0, well = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (i == bad) {
      ++ill;
      bad = find_invalid_utf8(text, ++i);
      continue;
    }
    well += static_cast<unsigned char>(text[i++]) >= 0xC0 ? 1 : 0;
  }
  return ill >= well;
}

class Reader {
 public:
  Reader(const SourceOptions& options, FunctionRef<void(std::string_view)> take)
      : options_(options), take_(take) {}

  void read(const SourceFile& source) {
    if (!source.left_out.empty()) {
      ++report_.skipped_files;
      return;
    }
    const TextFile file(source.path, options_.encoding);
    const std::string_view text = file.text();
    ++report_.files;
    path_ = &source.path;
    start_ = text.data();
    SourceFormat format = source.format;
    if (format == SourceFormat::automatic)
      format = begins_json_array(text) ? SourceFormat::json : SourceFormat::text;
    if (format == SourceFormat::json && is_lines(text)) format = SourceFormat::jsonl;
    if (format == SourceFormat::json) {
      read_json(text);
    } else if (format == SourceFormat::jsonl) {
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
    const Json json = parse_json_or_discard<Json>(line);
    if (json.is_discarded())  // again, for what is wrong
      static_cast<void>(parse_json<Json>(line, *path_, fmt::format("line {}", number), line.data() - start_));
    give_record(json, fmt::format("line {}", number), line.data() - start_);
  }

  // A file that ends in .json may hold a record a line all the same.
  static bool is_lines(std::string_view text) {
    const std::size_t end = text.find('\n');
    if (end == text.npos || text.find_first_not_of(" \t\r\n", end) == text.npos) return false;
    return parse_json_or_discard<Json>(text.substr(0, end)).is_object();
  }

  // An array of records; an object whose only array holds them ({"data": [...]}); a record.
  void read_json(std::string_view text) {
    const Json json = parse_json<Json>(text, *path_, "");
    const Json* records = &json;
    if (json.is_object() && !json.contains(options_.text_field)) {
      const auto is_records = [](const Json& value) {
        return value.is_array() && !value.empty() && value[0].is_object();
      };
      const auto found = std::ranges::find_if(json, is_records);
      if (found != json.end() && std::ranges::count_if(json, is_records) == 1) records = &*found;
    }
    if (!records->is_array()) return give_record(*records, "record 1", 0);
    std::int64_t number = 0;
    for (const Json& record : *records) give_record(record, fmt::format("record {}", ++number), 0);
  }

  void give_record(const Json& json, const std::string& place, std::int64_t at) {
    const auto fail = [&](std::string_view problem) { throw FormatError(*path_, at, place, problem); };
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
        case InvalidUtf8::stray:
          if (is_other_encoding(text, bad)) fail_encoding(text, bad, "set 'encoding' (latin1, cp1252 ...)");
          [[fallthrough]];
        case InvalidUtf8::replace:
          replaced = text::to_valid_utf8(text);
          text = replaced;
          break;
        case InvalidUtf8::error:
          fail_encoding(text, bad, "set 'encoding', or invalid_utf8 to replace or skip");
      }
    }
    ++report_.documents;
    report_.bytes += static_cast<std::int64_t>(text.size());
    take_(text);
  }

  [[noreturn]] void fail_encoding(std::string_view text, std::size_t bad, std::string_view advice) const {
    throw FormatError(*path_, text.data() + bad - start_, "text",
                      fmt::format("byte 0x{:02x} is not UTF-8; convert the file (iconv), or {}",
                                  static_cast<unsigned char>(text[bad]), advice));
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
      list_directory(path, options, files);
    } else {
      files.push_back(named_file(path, options));
    }
  }
  return files;
}

std::string describe_left_out(const std::vector<SourceFile>& files) {
  constexpr std::size_t kShown = 5;
  std::string shown;
  std::size_t count = 0;
  for (const SourceFile& file : files) {
    if (file.left_out.empty() || ++count > kShown) continue;
    shown += fmt::format("{}{} ({})", count > 1 ? ", " : "", file.path, file.left_out);
  }
  if (count == 0) return "";
  const std::string more = count > kShown ? fmt::format(" and {} more", count - kShown) : "";
  return fmt::format("{} {} left out: {}{}", count, count == 1 ? "file is" : "files are", shown, more);
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
