#include "ingot/data/documents.h"

#include <filesystem>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::data {
namespace {

using test::message_of;
using test::TemporaryDirectory;

std::vector<std::string> read(const SourceOptions& options, SourceReport* report = nullptr) {
  std::vector<std::string> documents;
  const SourceReport got =
      for_each_document(options, [&](std::string_view text) { documents.emplace_back(text); });
  if (report != nullptr) *report = got;
  return documents;
}

using Strings = std::vector<std::string>;

TEST(Documents, ATextFileIsOneDocument) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.txt"), "one\n\ntwo\n");
  EXPECT_EQ(read({.paths = {directory.at("a.txt")}}), Strings{"one\n\ntwo\n"});
}

TEST(Documents, AByteOrderMarkIsNoText) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.txt"), "\xEF\xBB\xBFone");
  EXPECT_EQ(read({.paths = {directory.at("a.txt")}}), Strings{"one"});
}

TEST(Documents, ASeparatorSplitsATextFile) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.txt"), "one<|end|>two<|end|><|end|>");
  SourceReport report;
  EXPECT_EQ(read({.paths = {directory.at("a.txt")}, .document_separator = "<|end|>"}, &report),
            (Strings{"one", "two"}));
  EXPECT_EQ(report.empty_documents, 2);
  EXPECT_EQ(report.bytes, 6);
}

TEST(Documents, EachJsonLineIsADocument) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.jsonl"),
                        "{\"text\":\"one\\n\\u00fc\"}\r\n\n{\"id\":1,\"text\":\"two\"}\n{\"text\":\"\"}");
  SourceReport report;
  EXPECT_EQ(read({.paths = {directory.at("a.jsonl")}}, &report), (Strings{"one\n\xc3\xbc", "two"}));
  EXPECT_EQ(report.empty_documents, 1);
}

TEST(Documents, TheTextFieldCanBeNamed) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.json"), "{\"content\":\"one\"}\n");
  EXPECT_EQ(read({.paths = {directory.at("a.json")}, .format = SourceFormat::jsonl, .text_field = "content"}),
            Strings{"one"});
}

TEST(Documents, ADirectoryGivesItsTextFilesInOrderAndLeavesTheRestOut) {
  TemporaryDirectory directory;
  const auto put = [&](const std::string& name, std::string_view text) {
    make_directories(std::filesystem::path(directory.at(name)).parent_path().string());
    write_file_atomically(directory.at(name), text);
  };
  put("b.md", "second");
  put("a/x.cpp", "first");
  put("c.jsonl", "{\"text\":\"third\"}\n");
  put("d", "no extension");
  put("e.txt", std::string("bin\0ary", 7));
  put("f.txt", "latin \xfc");
  put("g.png", "image");
  put(".git/config.txt", "hidden");
  put("build/CMakeCache.txt", "built");
  put("build/x.txt", "built");
  put("node_modules/x.js", "theirs");
  SourceReport report;
  EXPECT_EQ(read({.paths = {directory.path()}}, &report),
            (Strings{"first", "second", "third", "no extension"}));
  EXPECT_EQ(report.skipped_files, 3);
  EXPECT_EQ(report.files, 4);
  const std::string told = describe_left_out(list_files({.paths = {directory.path()}}));
  EXPECT_TRUE(told.starts_with("3 files are left out: ")) << told;
  for (const char* part :
       {"e.txt (binary data", "f.txt (not UTF-8, byte 0xfc at 6; 'encoding' names what it is)",
        "g.png (its name's ending is not one of text)"}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  EXPECT_EQ(read({.paths = {directory.path()}, .encoding = "latin1"}).back(), "latin ü");
}

TEST(Documents, ADirectoryOfRecordsAloneGivesThem) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.json"), "[{\"text\":\"one\"}]");
  write_file_atomically(directory.at("b.csv"), "text\ntwo\n");
  write_file_atomically(directory.at("README.md"), "about them");
  EXPECT_EQ(read({.paths = {directory.path()}}), (Strings{"one", "two"}));
  write_file_atomically(directory.at("c.txt"), "three");
  EXPECT_EQ(read({.paths = {directory.path()}}), (Strings{"about them", "three"}))
      << "beside text they may be anything";
  const std::string told = describe_left_out(list_files({.paths = {directory.path()}}));
  for (const char* name : {"a.json", "b.csv"}) EXPECT_NE(told.find(name), std::string::npos) << told;
}

TEST(Documents, ArraysOfJsonAreRecordsWhateverTheFileIsCalled) {
  TemporaryDirectory directory;
  const std::string json = directory.at("a.json"), text = directory.at("a.txt");
  const std::string records = "[\n {\"text\":\"one\"},\n {\"text\":\"two\"}]";
  write_file_atomically(json, records);
  write_file_atomically(text, records);
  EXPECT_EQ(read({.paths = {json}}), (Strings{"one", "two"}));
  EXPECT_EQ(read({.paths = {text}}), (Strings{"one", "two"}));
  EXPECT_EQ(read({.paths = {text}, .format = SourceFormat::text}), Strings{records});
  write_file_atomically(json, "{\"version\":1,\"data\":[{\"text\":\"one\"}]}");
  EXPECT_EQ(read({.paths = {json}}), Strings{"one"});
  write_file_atomically(json, "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
  EXPECT_EQ(read({.paths = {json}}), (Strings{"one", "two"}));
  write_file_atomically(json, "[{\"instruction\":\"say\",\"output\":\"so\"}]");
  EXPECT_NE(message_of<FormatError>([&] {
              read({.paths = {json}});
            }).find("record 1: has no 'text'; it has instruction, output"),
            std::string::npos);
  write_file_atomically(directory.at("a.csv"), "id,text\n1,one\n");
  EXPECT_EQ(read({.paths = {directory.at("a.csv")}}), Strings{"one"});
}

TEST(Documents, StrayBytesAreReplacedAndOtherEncodingsRefused) {
  TemporaryDirectory directory;
  const std::string path = directory.at("a.txt");
  const SourceOptions stray{.paths = {path}, .invalid_utf8 = InvalidUtf8::stray};
  write_file_atomically(path, "\u00fc\u00e4\u00f6 x\xFFy");
  EXPECT_EQ(read(stray), Strings{"\u00fc\u00e4\u00f6 x\uFFFDy"});
  write_file_atomically(path, "gr\xFC\xDF dich");
  EXPECT_NE(
      message_of<FormatError>([&] {
        read(stray);
      }).find("byte 0xfc is not UTF-8; convert the file (iconv), or set 'encoding' (latin1, cp1252 ...)"),
      std::string::npos);
}

TEST(Documents, BadJsonNamesFileAndLine) {
  TemporaryDirectory directory;
  const auto rejected = [&](std::string_view text) {
    write_file_atomically(directory.at("a.jsonl"), text);
    const std::string message = message_of<FormatError>([&] { read({.paths = {directory.at("a.jsonl")}}); });
    EXPECT_TRUE(message.starts_with(directory.at("a.jsonl") + ": at byte ")) << message;
    return message;
  };
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string good = "{\"text\":\"a\"}\n";
  says(rejected(good + good + "{\"text\":"), "line 3: is not valid JSON");
  says(rejected(good + "\n[1]"), "line 3: is not a JSON object");
  says(rejected(good + "{\"txt\":\"a\"}"), "line 2: has no 'text'; it has txt; did you mean 'txt'?");
  says(rejected(good + "{\"text\":[1]}"), "line 2: 'text' is array; expected a string");
  says(rejected(good + "{\"text\":\"\xff\"}"), "line 2: is not valid JSON");
  says(rejected(good + "{\"text\":"), "at byte 21");  // 13 bytes of line 1, and 8 of line 2
}

TEST(Documents, InvalidUtf8IsAnErrorReplacedOrSkipped) {
  TemporaryDirectory directory;
  const std::string path = directory.at("a.txt");
  write_file_atomically(path,
                        "good\nb\xfc"
                        "d");
  EXPECT_NE(message_of<FormatError>([&] { read({.paths = {path}}); }).find("at byte 6: text: byte 0xfc"),
            std::string::npos);
  EXPECT_EQ(read({.paths = {path}, .invalid_utf8 = InvalidUtf8::replace}), Strings{"good\nb\xEF\xBF\xBD"
                                                                                   "d"});
  EXPECT_NE(message_of<IoError>([&] {
              read({.paths = {path}, .invalid_utf8 = InvalidUtf8::skip});
            }).find("holds no text"),
            std::string::npos);
}

TEST(Documents, EveryIllFormedSequenceIsFound) {
  TemporaryDirectory directory;
  const std::string path = directory.at("a.txt");
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xF0\x9F\x98", "\xE2\x28\xA1"}) {
    write_file_atomically(path, std::string("12345678") + bad);
    EXPECT_THROW(read({.paths = {path}}), FormatError) << bad;
  }
  for (const char* good :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    write_file_atomically(path, std::string("1234567") + good);
    EXPECT_NO_THROW(read({.paths = {path}})) << good;
  }
}

TEST(Documents, MissingAndEmptySourcesAreNamed) {
  TemporaryDirectory directory;
  EXPECT_NE(
      message_of<IoError>([&] { read({.paths = {directory.at("none")}}); }).find("none: does not exist"),
      std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { read({.paths = {directory.path()}}); }).find("holds no text files"),
            std::string::npos);
  write_file_atomically(directory.at("empty.txt"), "");
  EXPECT_NE(message_of<IoError>([&] {
              read({.paths = {directory.at("empty.txt")}});
            }).find("empty.txt: holds no text"),
            std::string::npos);
  EXPECT_THROW(read({}), InvalidConfig);
  EXPECT_THROW(read({.paths = {""}}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::data
