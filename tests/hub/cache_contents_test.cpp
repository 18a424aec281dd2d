#include "ingot/hub/cache_contents.h"

#include <filesystem>

#include "tests/support/temporary_directory.h"
#include "tests/support/web_server.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ingot/base/files.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;
using test::message_of;

class CacheContents : public ::testing::Test {
 protected:
  /// A repository with one blob of so many bytes that was used at this time.
  void add_model(const std::string& name, std::size_t bytes, std::int64_t used) {
    const HubRepo repo{.id = name};
    const std::string blob = cache_.blob(repo, "etag");
    make_directories(fs::path(blob).parent_path().string());
    write_file_atomically(blob, std::string(bytes, 'x'));
    cache_.link(repo, std::string(40, 'a'), "model.safetensors", "etag");
    set_time(blob, used);
  }
  /// What was fetched from an address.
  void add_file(const std::string& address, std::int64_t used) {
    const std::string file = own() + "/urls/0123/x.gguf";
    make_directories(own() + "/urls/0123");
    write_file_atomically(file, "1234");
    write_file_atomically(file + ".source.json", R"({"url": ")" + address + "\"}");
    set_time(file, used);
    set_time(file + ".source.json", used);
  }
  static void set_time(const std::string& path, std::int64_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::string own() const { return directory_.at("own"); }
  std::vector<CacheEntry> list() const { return list_cache(cache_.directory(), own()); }
  static std::vector<std::string> names(const std::vector<CacheEntry>& entries) {
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (const CacheEntry& entry : entries) names.push_back(entry.name);
    return names;
  }

  test::TemporaryDirectory directory_;
  HubCache cache_{directory_.at("hub")};
};

using Names = std::vector<std::string>;

TEST_F(CacheContents, ListsModelsAndFilesWithSizeByLastUse) {
  EXPECT_TRUE(list().empty()) << "neither directory is there yet";
  add_model("org/old", 100, 1000);
  add_model("org/new--er", 50, 3000);
  add_file("https://host/x.gguf", 2000);
  const auto entries = list();
  EXPECT_EQ(names(entries), (Names{"org/new--er", "https://host/x.gguf", "org/old"}));
  EXPECT_EQ(entries[0].bytes, 50) << "a link to a blob counts nothing";
  EXPECT_EQ(entries[2].last_used, 1000);
  EXPECT_EQ(entries[1].kind, "url");
}

TEST_F(CacheContents, ListsTheModelOfTheDemos) {
  make_directories(own() + "/demo");
  for (const char* name : {"/demo/m.gguf", "/demo/m.gguf.stored.ingot-packed"})
    write_file_atomically(own() + name, "1234");
  set_time(own() + "/demo/m.gguf", 9000);
  set_time(own() + "/demo/m.gguf.stored.ingot-packed", 8000);
  const auto entries = list();
  ASSERT_EQ(names(entries), (Names{"m.gguf", "m.gguf.stored.ingot-packed"}));
  EXPECT_EQ(entries[0].kind, "model");
  EXPECT_EQ(entries[1].kind, "packed");
}

TEST_F(CacheContents, PrunesWhatWasUsedLongestAgoUntilTheRestFits) {
  add_model("org/a", 100, 3000);
  add_model("org/b", 100, 1000);
  add_model("org/c", 100, 2000);
  EXPECT_TRUE(choose_to_prune(list(), 300).empty());
  EXPECT_EQ(names(choose_to_prune(list(), 299)), Names{"org/b"});
  EXPECT_EQ(names(choose_to_prune(list(), 120)), (Names{"org/b", "org/c"}));
  for (const CacheEntry& entry : choose_to_prune(list(), 120)) remove_entry(entry);
  EXPECT_EQ(names(list()), Names{"org/a"});
  EXPECT_FALSE(fs::exists(cache_.repo_folder({.id = "org/b"})));
  EXPECT_TRUE(cache_.repo_folder({.id = "org/a"}) == list()[0].path);
}

TEST_F(CacheContents, LeavesAloneWhatAnotherProcessFetches) {
  add_model("org/busy", 100, 1000);
  const FileLock fetching(cache_.lock({.id = "org/busy"}, "etag"));
  EXPECT_TRUE(list()[0].in_use);
  EXPECT_TRUE(choose_to_prune(list(), 0).empty());
  EXPECT_NE(message_of<IoError>([&] { remove_entry(list()[0]); }).find("being fetched"), std::string::npos);
}

TEST_F(CacheContents, FindsByEveryWayToWriteAName) {
  add_model("org/name", 1, 1000);
  add_file("https://host/x.gguf", 2000);
  EXPECT_EQ(names(find_entries(list(), "hf://org/name")), Names{"org/name"});
  EXPECT_EQ(names(find_entries(list(), "https://host/x.gguf?token=abc")), Names{"https://host/x.gguf"});
  const std::string message = message_of<InvalidConfig>([&] { find_entries(list(), "org/nmae"); });
  EXPECT_NE(message.find("did you mean 'org/name'"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot::hub
