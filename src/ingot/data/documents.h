#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/data/records.h"

namespace ingot::data {

/// What becomes of text that is not UTF-8. In a directory, a file that is not text is left out in any case.
enum class InvalidUtf8 : std::uint8_t {
  error,
  replace,  ///< what is ill-formed becomes U+FFFD
  stray,    ///< replaced, but an error where most of what is not ASCII is ill-formed: another encoding
  skip,     ///< the document is left out
};

/// Where training data comes from. Each text file, each part of one between separators, and each record of
/// JSON or of a table is a document. Files may be packed and encoded as TextFile reads them.
struct SourceOptions {
  /// Files and directories, read in this order. A directory gives the text files below it, sorted by name;
  /// hidden ones, build folders and the like are left out.
  std::vector<std::string> paths;
  bool records = false;  ///< a directory gives the files of records below it instead: JSON and tables
  SourceFormat format = SourceFormat::automatic;
  /// Of a record: the member that holds the text.
  std::string text_field = "text";
  /// Splits a text file into documents ("<|endoftext|>"); empty: a file is one document.
  std::string document_separator;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;
  std::string encoding;  ///< as TextFile's

  /// InvalidConfig where no path is given or a path is empty.
  void validate() const;
};

struct SourceFile {
  std::string path;
  SourceFormat format = SourceFormat::text;
  std::string left_out;  ///< why it is not read; empty: it is. Files of directories only
};

/// The files that the options name, in reading order, and those of directories that are left out. IoError for
/// a path that does not exist, or a directory without text; FormatError for a file that is named and is not
/// text.
std::vector<SourceFile> list_files(const SourceOptions& options);

/// What was read, and what was not.
struct SourceReport {
  std::int64_t files = 0;
  std::int64_t documents = 0;
  std::int64_t bytes = 0;  ///< of the documents
  std::int64_t empty_documents = 0;
  std::int64_t skipped_files = 0;      ///< of directories: SourceFile::left_out
  std::int64_t skipped_documents = 0;  ///< InvalidUtf8::skip
};

/// "3 files are left out: a.txt (not UTF-8 ...), b.png (...) ...": empty where none is.
std::string describe_left_out(const std::vector<SourceFile>& files);

/// Calls `take` for every document that is not empty. The text is valid only during the call. IoError and
/// FormatError name the file, and for records the line. A source without any document is an IoError.
SourceReport for_each_document(const SourceOptions& options, FunctionRef<void(std::string_view)> take);
SourceReport for_each_document(const SourceOptions& options, const std::vector<SourceFile>& files,
                               FunctionRef<void(std::string_view)> take);

/// All documents of a file, a directory or standard input ("-") as one text, with an empty line between them.
/// Stray bytes that are not UTF-8 are replaced (InvalidUtf8::stray). `encoding`: as TextFile's.
std::string read_documents(const std::string& path, const std::string& encoding = {});

/// The same for records: files that hold text are a FormatError. `take` returns false to end the reading.
void for_each_record(const SourceOptions& options, const std::vector<SourceFile>& files, IsRecord is_record,
                     TakeRecord take);

}  // namespace ingot::data
