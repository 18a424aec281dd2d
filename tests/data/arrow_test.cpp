#include "ingot/data/arrow.h"

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
using Strings = std::vector<std::string>;
using test::message_of;

const std::string kCorpus = test::source_dir() + "/tests/fuzz/corpus/arrow/";
const std::string kSaved = test::source_dir() + "/tests/data/saved_dataset";

Json rows_of(const std::string& bytes, const std::string& path = "a.arrow") {
  Json rows = Json::array();
  for_each_arrow_row(path, bytes, [&](const Record& record, const RecordLocation&) {
    rows.push_back(record.json);
    return true;
  });
  return Json::parse(rows.dump());  // bytes that are not text are an object there
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

TEST(Arrow, RowsAreThoseThatPyarrowReads) {
  expect_goldens(kCorpus, test::source_dir() + "/tests/data/arrow_goldens.json");
  // More of them, of tools/goldens/arrow_files.py --random.
  if (const char* more = std::getenv("INGOT_ARROW_FILES"))
    expect_goldens(more, std::string(more) + "/goldens.json");
}

TEST(Arrow, AFileThatIsCutShortIsAFormatErrorOrEndsBetweenBatches) {
  const std::string whole = read_file(kCorpus + "nested");
  const std::size_t rows = rows_of(whole).size();
  int errors = 0;
  for (std::size_t size = 0; size < whole.size(); size += 4) {
    try {
      EXPECT_LE(rows_of(whole.substr(0, size)).size(), rows) << size;
    } catch (const FormatError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, static_cast<int>(whole.size() / 8));
}

TEST(Arrow, AnyByteThatIsChangedIsReadOrRefused) {
  for (const char* name : {"nested", "stream", "zstd", "lz4", "times"}) {
    const std::string whole = read_file(kCorpus + name);
    for (std::size_t at = 0; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
      try {
        rows_of(damaged);
      } catch (const FormatError&) {
      }
    }
  }
}

TEST(Arrow, ColumnsThatShareOneDescriptionDoNotFillTheMemory) {
  // Forty levels of structs with two children each, which are one table.
  EXPECT_NE(message_of<FormatError>([] {
              rows_of(read_file(kCorpus + "shared_children"));
            }).find("more columns than"),
            std::string::npos);
}

TEST(SavedDataset, OfADirectoryThatDatasetsSavedTheShardsOfASplitAreRead) {
  EXPECT_TRUE(is_saved_dataset(kSaved));
  EXPECT_FALSE(is_saved_dataset(kCorpus));
  const Strings train = saved_dataset_files(kSaved, "");
  ASSERT_EQ(train.size(), 2U);
  Strings texts;
  for_each_document({.paths = train}, [&](std::string_view text) { texts.emplace_back(text); });
  EXPECT_EQ(texts, (Strings{"train 0", "train 1", "train 2", "train 3", "train 4"}));
  EXPECT_EQ(saved_dataset_files(kSaved, "test").size(), 1U);
  EXPECT_EQ(saved_dataset_files(kSaved + "/test", "").size(), 1U);
  EXPECT_NE(message_of<InvalidConfig>([] { saved_dataset_files(kSaved, "trian"); }).find("'train'"),
            std::string::npos);
}

TEST(SavedDataset, OfOneSplitGivesNoOther) {
  const test::TemporaryDirectory directory;
  write_file_atomically(directory.at("dataset_info.json"), "{}");
  write_file_atomically(directory.at("state.json"),
                        R"({"_data_files": [{"filename": "data.arrow"}], "_split": "train"})");
  EXPECT_EQ(saved_dataset_files(directory.path(), "train"), saved_dataset_files(directory.path(), ""));
  EXPECT_THROW(saved_dataset_files(directory.path(), "test"), InvalidConfig);
}

TEST(SavedDataset, ADescriptionThatLeadsOutOfTheDirectoryIsRefused) {
  const test::TemporaryDirectory directory;
  write_file_atomically(directory.at("dataset_info.json"), "{}");
  for (const char* state :
       {R"({"_data_files": [{"filename": "../secret.arrow"}]})", R"({"_data_files": 3})", "[]",
        R"({"_data_files": []})", R"({"_data_files": [{"filename": 7}]})",
        R"({"_data_files": [{"filename": ".."}]})", R"({"_data_files": [{"filename": "a\u0000.arrow"}]})"}) {
    write_file_atomically(directory.at("state.json"), state);
    EXPECT_THROW(saved_dataset_files(directory.path(), ""), FormatError) << state;
  }
}

TEST(SavedDataset, SplitsOfASplitAreRefusedAndNotFollowed) {
  const test::TemporaryDirectory directory;
  const std::string train = directory.at("train");
  std::filesystem::create_directory(train);
  write_file_atomically(directory.at("dataset_dict.json"), R"({"splits": ["train"]})");
  write_file_atomically(train + "/dataset_dict.json", R"({"splits": ["train"]})");
  std::filesystem::create_directory_symlink(train, train + "/train");  // without end
  const std::string text = message_of<FormatError>([&] { saved_dataset_files(directory.path(), ""); });
  EXPECT_NE(text.find("train/dataset_dict.json"), std::string::npos) << text;
  EXPECT_NE(text.find("splits inside of a split"), std::string::npos) << text;
}

}  // namespace
}  // namespace ingot::data
