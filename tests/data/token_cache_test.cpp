#include "ingot/data/token_cache.h"

#include <filesystem>

#include "tests/data/support.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"

namespace ingot::data {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::TemporaryDirectory;

class TokenCache : public ::testing::Test {
 protected:
  void SetUp() override { write_file_atomically(directory_.at("a.txt"), "hello"); }

  std::shared_ptr<const TokenStore> load() {
    return load_tokens({.paths = {directory_.at("a.txt")}}, encoder_, {.directory = directory_.at("cache")},
                       &report_);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_.at("cache")), fs::directory_iterator()));
  }

  TemporaryDirectory directory_;
  TokenEncoder encoder_ = byte_encoder();
  TokenCacheReport report_;
};

using Ids = std::vector<std::int32_t>;

TEST_F(TokenCache, TheSecondLoadReadsWhatTheFirstWrote) {
  EXPECT_EQ(tokens_of(*load()), (Ids{'h', 'e', 'l', 'l', 'o', 256}));
  EXPECT_FALSE(report_.reused);
  EXPECT_EQ(report_.source.documents, 1);
  encoder_.encode_batch = [](auto) -> std::vector<Ids> { throw Error("must not be called"); };
  const auto again = load();
  EXPECT_TRUE(report_.reused);
  EXPECT_EQ(report_.problem, "");
  EXPECT_EQ(tokens_of(*again), (Ids{'h', 'e', 'l', 'l', 'o', 256}));
  EXPECT_EQ(again->max_token(), 256);
  EXPECT_EQ(again->vocab_size(), 257);
}

TEST_F(TokenCache, ContentTokenizerAndOptionsAreItsKey) {
  load();
  write_file_atomically(directory_.at("a.txt"), "hellO");  // the same size
  EXPECT_EQ(tokens_of(*load()), (Ids{'h', 'e', 'l', 'l', 'O', 256}));
  EXPECT_FALSE(report_.reused);
  encoder_.identity = "other";
  load();
  EXPECT_FALSE(report_.reused);
  encoder_.eos_id.reset();
  EXPECT_EQ(load()->size(), 5);
  EXPECT_FALSE(report_.reused);
  load_tokens({.paths = {directory_.at("a.txt")}, .document_separator = "l"}, encoder_,
              {.directory = directory_.at("cache")}, &report_);
  EXPECT_FALSE(report_.reused);
  EXPECT_EQ(files(), 5U);
}

TEST_F(TokenCache, OnlyTheNewestFilesAreKept) {
  for (int i = 0; i < 12; ++i) {
    encoder_.identity = std::to_string(i);
    load();
  }
  EXPECT_EQ(files(), 8U);
  encoder_.identity = "11";
  load();
  EXPECT_TRUE(report_.reused);
}

TEST_F(TokenCache, DamageAnywhereIsFoundAndRepaired) {
  load();
  const std::string path = report_.path;
  const std::string good = read_file(path);
  std::vector<std::string> damaged{"",
                                   "short",
                                   good.substr(0, good.size() - 1),
                                   good.substr(1),
                                   good + "x",
                                   std::string(good.size(), '\0')};
  for (std::size_t i = 0; i < good.size(); i += 3) {
    damaged.push_back(good);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 0x20);
  }
  for (const std::string& bytes : damaged) {
    write_file_atomically(path, bytes);
    EXPECT_EQ(tokens_of(*load()), (Ids{'h', 'e', 'l', 'l', 'o', 256}));
    EXPECT_FALSE(report_.reused);
    EXPECT_NE(report_.problem.find("tokenized again"), std::string::npos) << report_.problem;
    ASSERT_EQ(read_file(path), good);
  }
}

TEST_F(TokenCache, ASoundFileOfOtherTokensIsReplaced) {
  load();
  const std::string path = report_.path;
  write_file_atomically(path, [](FileWriter& out) {
    TokenFileWriter writer(out, 10);
    writer.add_document(Ids{1, 2, 3});
    writer.finish("another key");
  });
  EXPECT_EQ(load()->size(), 6);
  EXPECT_NE(report_.problem.find("tokens of something else"), std::string::npos);
}

TEST_F(TokenCache, AFullDiskKeepsTheTokensInMemory) {
  const ScopedFault fault({Fault::Kind::no_space, "write", 3});
  EXPECT_EQ(tokens_of(*load()), (Ids{'h', 'e', 'l', 'l', 'o', 256}));
  EXPECT_NE(report_.problem.find("kept in memory"), std::string::npos) << report_.problem;
  EXPECT_EQ(report_.path, "");
  EXPECT_EQ(files(), 0U);
}

TEST_F(TokenCache, AProcessKilledWhileWritingLeavesNothingThatTheNextOneTakes) {
  for (const char* location : {"write", "file.before_rename"}) {
    const pid_t child = fork();
    if (child == 0) {
      const ScopedFault fault({Fault::Kind::crash, location, 1});
      load();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << location;
    EXPECT_EQ(tokens_of(*load()), (Ids{'h', 'e', 'l', 'l', 'o', 256}));
    EXPECT_FALSE(report_.reused);
    EXPECT_EQ(report_.problem, "");
    EXPECT_EQ(files(), 1U);  // and its leftovers are gone
    fs::remove_all(directory_.at("cache"));
  }
}

TEST_F(TokenCache, TokensBeyondTheModelsVocabularyAreNamed) {
  const auto store = load();
  EXPECT_NO_THROW(check_vocabulary(*store, 257));
  EXPECT_NE(message_of<InvalidConfig>([&] { check_vocabulary(*store, 256); }).find("holds the id 256"),
            std::string::npos);
}

TEST_F(TokenCache, ACacheThatCannotBeMadeKeepsTheTokensInMemory) {
  write_file_atomically(directory_.at("cache"), "a file stands in the way");
  EXPECT_EQ(load()->size(), 6);
  EXPECT_NE(report_.problem.find("kept in memory"), std::string::npos) << report_.problem;
}

TEST_F(TokenCache, BadSourcesAndTokenizersAreNotBlamedOnTheCache) {
  write_file_atomically(directory_.at("a.txt"), "");
  EXPECT_THROW(load(), IoError);
  write_file_atomically(directory_.at("a.txt"), "\xff");
  EXPECT_THROW(load(), FormatError);
  write_file_atomically(directory_.at("a.txt"), "hello");
  encoder_.vocab_size = 100;
  EXPECT_NE(message_of<FormatError>([&] { load(); }).find("outside a vocabulary of 100"), std::string::npos);
  EXPECT_EQ(files(), 0U);
}

TEST_F(TokenCache, LongDocumentsAreEncodedInPiecesOnlyWhereTheTokenizerAllows) {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "line " + std::to_string(i) + "\n";
  write_file_atomically(directory_.at("a.txt"), text);
  std::size_t longest = 0;
  const auto bytes = encoder_.encode_batch;
  encoder_.encode_batch = [&](std::span<const std::string_view> texts) {
    for (const auto piece : texts) longest = std::max(longest, piece.size());
    return bytes(texts);
  };
  const auto whole = load_tokens({.paths = {directory_.at("a.txt")}}, encoder_);
  EXPECT_EQ(longest, text.size());
  encoder_.splits_at_lines = true;
  longest = 0;
  const auto pieces = load_tokens({.paths = {directory_.at("a.txt")}}, encoder_);
  EXPECT_LE(longest, std::size_t{256} << 10);
  EXPECT_EQ(pieces->documents(), 1);
  EXPECT_EQ(tokens_of(*pieces), tokens_of(*whole));
}

TEST(TokenStore, RoundTripsAnyDocumentsInEitherWidth) {
  EXPECT_TRUE(rc::check([](const std::vector<std::vector<std::uint16_t>>& documents, bool wide) {
    TemporaryDirectory directory;
    std::vector<std::int32_t> tokens;
    std::vector<std::int64_t> ends;
    const std::int64_t vocab = wide ? 100000 : 65536;
    write_file_atomically(directory.at("t"), [&](FileWriter& out) {
      TokenFileWriter writer(out, vocab);
      for (const auto& document : documents) {
        const Ids ids(document.begin(), document.end());
        writer.add_document(ids);
        tokens.insert(tokens.end(), ids.begin(), ids.end());
        if (!ids.empty()) ends.push_back(static_cast<std::int64_t>(tokens.size()));
      }
      writer.finish("key");
    });
    const TokenStore store = TokenStore::open(directory.at("t"));
    RC_ASSERT(tokens_of(store) == tokens);
    RC_ASSERT(store.key() == "key");
    RC_ASSERT(store.documents() == static_cast<std::int64_t>(ends.size()));
    for (std::size_t i = 0; i < ends.size(); ++i) {
      RC_ASSERT(store.document(static_cast<std::int64_t>(i)).end == ends[i]);
    }
  }));
}

TEST(TokenStore, HashesLongFilesAlikeInPiecesAndAsAWhole) {
  TemporaryDirectory directory;
  const Ids document(3'000'001, 7);  // 6 MB: more than one piece, and no multiple of 8 bytes
  write_file_atomically(directory.at("t"), [&](FileWriter& out) {
    TokenFileWriter writer(out, 8);
    writer.add_document(document);
    writer.finish("key");
  });
  EXPECT_EQ(TokenStore::open(directory.at("t")).size(), 3'000'001);
}

}  // namespace
}  // namespace ingot::data
