#include "ingot/data/documents.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/base/utf8.h"
#include "ingot/data/record.h"
#include "ingot/data/text_file.h"

namespace ingot::data {
namespace {

namespace fs = std::filesystem;

// What people write prose and programs in. Tables, logs and JSON data are left to be named one by one, or to
// be asked for as records: they would drown the rest.
constexpr std::array<std::string_view, 48> kTextExtensions{
    ".txt", ".md",   ".rst",  ".tex",  ".org", ".adoc",  ".jsonl",   ".ndjson", ".c",     ".cc",
    ".cpp", ".cxx",  ".cu",   ".cuh",  ".h",   ".hh",    ".hpp",     ".hxx",    ".inl",   ".py",
    ".pyi", ".rs",   ".go",   ".java", ".kt",  ".swift", ".scala",   ".js",     ".jsx",   ".ts",
    ".tsx", ".rb",   ".php",  ".pl",   ".lua", ".sh",    ".bash",    ".sql",    ".cmake", ".yaml",
    ".yml", ".toml", ".html", ".css",  ".hs",  ".ml",    ".parquet", ".arrow"};
constexpr std::array<std::string_view, 4> kSkippedDirectories{"node_modules", "__pycache__", "third_party",
                                                              "vendor"};

constexpr std::array<std::string_view, 7> kRecordExtensions{".jsonl", ".ndjson",  ".json", ".csv",
                                                            ".tsv",   ".parquet", ".arrow"};

// Parquet and Arrow are what they are, whatever they are called.
SourceFormat format_of(std::string_view path, std::string_view file, SourceFormat wanted) {
  if (is_parquet(file)) return SourceFormat::parquet;
  if (content_of(file.substr(0, 8192)).arrow()) return SourceFormat::arrow;
  return wanted != SourceFormat::automatic ? wanted : format_by_name(path);
}

bool is_table(SourceFormat format) {
  return format == SourceFormat::parquet || format == SourceFormat::arrow;
}

bool skip_directory(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.starts_with('.') || std::ranges::find(kSkippedDirectories, name) != kSkippedDirectories.end() ||
         fs::exists(path / "CMakeCache.txt", ignored);
}

std::string ending_when_unpacked(const fs::path& path) {
  return fs::path(without_packed_ending(path.native())).extension().string();
}

// What `datasets` writes beside its tables.
bool describes_a_dataset(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "dataset_info.json" || name == "dataset_infos.json" || name == "dataset_dict.json" ||
         name == "state.json";
}

bool is_one_of_records(const fs::path& path) {
  if (describes_a_dataset(path)) return false;
  return std::ranges::find(kRecordExtensions, ending_when_unpacked(path)) != kRecordExtensions.end();
}

// What lies beside data and is none: README.md, LICENSE ...
bool is_about(const fs::path& path) {
  const std::string stem = path.stem().string();
  return std::ranges::any_of(std::array{"README", "LICENSE", "LICENCE", "NOTICE", "CITATION"},
                             [&](const char* word) { return stem == word; });
}

bool has_wanted_ending(const fs::path& path, bool records) {
  const std::string extension = ending_when_unpacked(path);
  if (records) return is_one_of_records(path);
  return extension.empty() || std::ranges::find(kTextExtensions, extension) != kTextExtensions.end();
}

// Why a file of a directory is not read.
std::string reason_to_leave_out(const MappedFile& file, const std::string& encoding, bool records) {
  if (!has_wanted_ending(file.path(), records))
    return records                          ? "its name's ending is not one of records"
           : is_one_of_records(file.path()) ? "in a directory of text records are not read; name the file"
                                            : "its name's ending is not one of text";
  if (is_table(format_of(file.path(), file.text(), SourceFormat::automatic))) return "";
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
  std::ranges::sort(found);
  // Where there is no text, records are what is meant: among text, .json and .csv are mostly something else.
  const bool no_text = std::ranges::none_of(
      found, [](const fs::path& path) { return has_wanted_ending(path, false) && !is_about(path); });
  const bool records = options.records || (no_text && std::ranges::any_of(found, is_one_of_records));
  const auto wanted = [&](const fs::path& path) { return has_wanted_ending(path, records); };
  if (std::ranges::none_of(found, wanted)) {
    throw IoError(directory, options.records
                                 ? fmt::format("holds no files of records; these are read: {}",
                                               fmt::join(kRecordExtensions, " "))
                                 : fmt::format("holds no text files; files of these kinds are read: {}",
                                               fmt::join(kTextExtensions, " ")));
  }
  for (std::string& path : found) {
    const MappedFile file(path, MappedFile::Access::sequential);
    files.push_back({std::move(path), format_of(file.path(), file.text(), options.format),
                     reason_to_leave_out(file, options.encoding, records)});
  }
}

SourceFile named_file(const std::string& path, const SourceOptions& options) {
  const MappedFile file(path, MappedFile::Access::sequential);
  const SourceFormat format = format_of(path, file.text(), options.format);
  const Content content = content_of(head_of(file.text()));
  const bool other = content.kind == ContentKind::binary || content.kind == ContentKind::zeros;
  if (other && !is_table(format)) check_is_text(path, content, options.encoding);
  return {path, format, ""};
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

// What a file holds: text, or Parquet and Arrow as they are.
class SourceContent {
 public:
  SourceContent(const SourceFile& source, const std::string& encoding) {
    if (is_table(source.format)) {
      bytes_ = MappedFile(source.path, MappedFile::Access::sequential);
    } else {
      text_.emplace(source.path, encoding);
    }
  }
  std::string_view view() const { return text_ ? text_->text() : bytes_.text(); }

 private:
  MappedFile bytes_;
  std::optional<TextFile> text_;
};

class Reader {
 public:
  Reader(const SourceOptions& options, FunctionRef<void(std::string_view)> take)
      : options_(options), take_(take) {}

  void read(const SourceFile& source) {
    if (!source.left_out.empty()) {
      ++report_.skipped_files;
      return;
    }
    const SourceContent content(source, options_.encoding);
    const std::string_view text = content.view();
    ++report_.files;
    path_ = &source.path;
    start_ = text.data();
    const SourceFormat format = format_by_text(source.format, text);
    if (format == SourceFormat::text) return read_text(text);
    for_each_record(
        source.path, text, format,
        [&](const Record& record) { return record.json.contains(options_.text_field); },
        [&](const Record& record, const RecordLocation& location) {
          give_record(record.json, location);
          return true;
        });
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

  void give_record(const nlohmann::ordered_json& json, const RecordLocation& location) {
    const auto field = json.find(options_.text_field);
    if (field == json.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : json.items()) names.push_back(name);
      location.fail(fmt::format("has no '{}'; it has {}{}", options_.text_field, fmt::join(names, ", "),
                                did_you_mean(options_.text_field, names)));
    }
    if (!field->is_string()) {
      location.fail(fmt::format("'{}' is {}; expected a string", options_.text_field, field->type_name()));
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
          replaced = to_valid_utf8(text);
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
    INGOT_CHECK(path == "-" || fs::exists(path), IoError(path, "does not exist; check its path"));
    if (fs::is_directory(path)) {
      list_directory(path, options, files);
    } else {
      files.push_back(named_file(path, options));
    }
  }
  return files;
}

std::string describe_left_out(const std::vector<SourceFile>& files) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(files, [](const SourceFile& file) { return !file.left_out.empty(); }));
  if (count == 0) return "";
  const std::size_t most = count <= 12 ? count : 10;
  std::string shown;
  std::size_t seen = 0;
  for (const SourceFile& file : files) {
    if (file.left_out.empty() || ++seen > most) continue;
    shown += fmt::format("{}{} ({})", seen > 1 ? ", " : "", file.path, file.left_out);
  }
  const std::string more = count > most ? fmt::format(" and {} more", count - most) : "";
  return fmt::format("{} {} left out: {}{}", count, count == 1 ? "file is" : "files are", shown, more);
}

SourceReport for_each_document(const SourceOptions& options, const std::vector<SourceFile>& files,
                               FunctionRef<void(std::string_view)> take) {
  Reader reader(options, take);
  for (const SourceFile& file : files) reader.read(file);
  INGOT_CHECK(reader.report().documents > 0,
              IoError(fmt::format("{}", fmt::join(options.paths, ", ")),
                      fmt::format("holds no text (files: {}, empty documents: {}, left out: {})",
                                  files.size(), reader.report().empty_documents,
                                  reader.report().skipped_files + reader.report().skipped_documents)));
  return reader.report();
}

SourceReport for_each_document(const SourceOptions& options, FunctionRef<void(std::string_view)> take) {
  return for_each_document(options, list_files(options), take);
}

std::string read_documents(const std::string& path, const std::string& encoding) {
  std::string all;
  for_each_document({.paths = {path}, .invalid_utf8 = InvalidUtf8::stray, .encoding = encoding},
                    [&](std::string_view text) {
                      if (!all.empty()) all += "\n\n";
                      all += text;
                    });
  return all;
}

void for_each_record(const SourceOptions& options, const std::vector<SourceFile>& files, IsRecord is_record,
                     TakeRecord take) {
  bool more = true;
  for (const SourceFile& source : files) {
    if (!source.left_out.empty() || !more) continue;
    const SourceContent content(source, options.encoding);
    const std::string_view text = content.view();
    const bool json = source.format == SourceFormat::automatic && text.starts_with('{');
    const SourceFormat format = format_by_text(json ? SourceFormat::json : source.format, text);
    INGOT_CHECK(format != SourceFormat::text,
                FormatError(source.path, 0, "records",
                            "is plain text; expected records: JSON lines, an array of JSON objects, or a "
                            "table (CSV, Parquet), or type: text"));
    for_each_record(source.path, text, format, is_record,
                    [&](const Record& record, const RecordLocation& location) {
                      more = take(record, location);
                      return more;
                    });
  }
}

}  // namespace ingot::data
