#include "ingot/data/parquet.h"

#include <cstdlib>
#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/data/documents.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;
using test::message_of;

std::string file(const std::string& name) {
  return read_file(test::source_dir() + "/tests/fuzz/corpus/parquet/" + name);
}

Json rows_of(const std::string& bytes, const std::string& path = "a.parquet") {
  Json rows = Json::array();
  for_each_parquet_row(path, bytes, [&](const Record& record, const RecordLocation&) {
    rows.push_back(record.json);
    return true;
  });
  // As a file of JSON has it: bytes that are not text are an object there.
  return Json::parse(rows.dump());
}

void expect_goldens(const std::string& directory, const std::string& goldens) {
  const auto expected = Json::parse(read_file(goldens));
  EXPECT_FALSE(expected.empty());
  for (const auto& [name, rows] : expected.items()) {
    SCOPED_TRACE(name);
    const Json got = rows_of(read_file(directory + "/" + name), name);
    ASSERT_EQ(got.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(got[i], rows[i]) << "row " << i;
  }
}

TEST(Parquet, RowsAreThoseThatPyarrowReads) {
  expect_goldens(test::source_dir() + "/tests/fuzz/corpus/parquet",
                 test::source_dir() + "/tests/data/parquet_goldens.json");
  // More of them, of tools/goldens/parquet_files.py --random.
  if (const char* more = std::getenv("INGOT_PARQUET_FILES"))
    expect_goldens(more, std::string(more) + "/goldens.json");
}

TEST(Parquet, AFileThatIsCutShortIsAFormatErrorWhereverItEnds) {
  const std::string whole = file("nested");
  for (std::size_t size = 0; size < whole.size(); size += 5)
    EXPECT_THROW(rows_of(whole.substr(0, size)), FormatError) << size;
}

TEST(Parquet, DamageIsToldWithColumnAndPage) {
  std::string bytes = file("dictionary_snappy");
  const std::size_t page = bytes.find("store 0");
  ASSERT_NE(page, std::string::npos);
  bytes[page - 7] = '\x7F';
  const std::string dictionary = message_of<FormatError>([&] { rows_of(bytes); });
  EXPECT_NE(dictionary.find("a.parquet: at byte "), std::string::npos) << dictionary;
  EXPECT_NE(dictionary.find("column 'id', page "), std::string::npos) << dictionary;
  std::string cut = file("plain");
  cut.erase(4, 8);  // all columns begin elsewhere now
  const std::string moved = message_of<FormatError>([&] { rows_of(cut); });
  EXPECT_NE(moved.find("column '"), std::string::npos) << moved;
  std::string encrypted = file("plain");
  encrypted.back() = 'E';
  EXPECT_NE(message_of<FormatError>([&] { rows_of(encrypted); }).find("without encryption"),
            std::string::npos);
}

TEST(Parquet, ATableHasTheColumnsThatAreNotNestedAndItsDatesFirst) {
  const CsvTable polars = read_parquet_table("a.parquet", file("polars"));
  EXPECT_EQ(polars.header(), (std::vector<std::string>{"day", "y"}));
  EXPECT_EQ(polars.rows(), 3U);
  EXPECT_EQ(polars.cell(1, 0), "2024-01-02");
  EXPECT_EQ(polars.cell(1, 1), "");
  EXPECT_EQ(polars.line(2), 3);
  const CsvTable pandas = read_parquet_table("a.parquet", file("pandas"));
  EXPECT_EQ(pandas.header(), (std::vector<std::string>{"index", "sales", "promo"}));
  EXPECT_EQ(pandas.cell(2, 1), "1.125");
  EXPECT_TRUE(pandas.is_numeric(1));
  EXPECT_FALSE(pandas.is_numeric(0));
}

TEST(Parquet, FilesAreRecordsWhateverTheyAreCalled) {
  test::TemporaryDirectory directory;
  write_file_atomically(directory.at("train.jsonl"), file("brotli"));
  write_file_atomically(directory.at("b.parquet"), file("brotli"));
  SourceReport report = for_each_document(
      {.paths = {directory.path()}}, [](std::string_view text) { EXPECT_EQ(text.substr(0, 5), "line "); });
  EXPECT_EQ(report.files, 2);
  EXPECT_EQ(report.documents, 80);
  const std::string missing = message_of<FormatError>([&] {
    for_each_document({.paths = {directory.at("b.parquet")}, .text_field = "txt"}, [](std::string_view) {});
  });
  EXPECT_NE(missing.find("row 1: has no 'txt'; it has text; did you mean"), std::string::npos) << missing;
}

}  // namespace
}  // namespace ingot::data
