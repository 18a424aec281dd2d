#include "ingot/hub/dataset.h"

#include <filesystem>

#include "tests/support/web_server.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::hub {
namespace {

using Strings = std::vector<std::string>;
using test::message_of;
using test::ScopedEnvironment;

Strings select(const Strings& paths, DatasetRequest request = {}, const std::string& readme = {}) {
  request.name = "org/data";
  return select_dataset_files(paths, readme, request);
}

TEST(DatasetFiles, ShardsTellTheirSplit) {
  // As datasets' push_to_hub names files: HuggingFaceH4/ultrachat_200k.
  const Strings paths{"README.md", "data/test_sft-00000-of-00001-abc.parquet",
                      "data/train_sft-00000-of-00002-def.parquet",
                      "data/train_sft-00001-of-00002-def.parquet"};
  EXPECT_EQ(select(paths, {.split = "train_sft"}), (Strings{paths[2], paths[3]}));
  const std::string message = message_of<InvalidConfig>([&] { select(paths); });
  EXPECT_NE(message.find("has no 'train'"), std::string::npos) << message;
  EXPECT_NE(message.find("test_sft, train_sft"), std::string::npos) << message;
}

TEST(DatasetFiles, WordsInNamesTellTheSplitAndARepositoryWithoutThemIsTrain) {
  EXPECT_EQ(select({"databricks-dolly-15k.jsonl", "README.md", ".gitattributes"}),
            Strings{"databricks-dolly-15k.jsonl"});
  EXPECT_EQ(select({"a_train.csv", "a_dev.csv", "constraint.csv"}, {.split = "validation"}),
            Strings{"a_dev.csv"})
      << "'constraint' holds no word of a split";
  EXPECT_EQ(select({"train/0.jsonl.gz", "train/1.jsonl.gz", "test/train_of_thought.jsonl.gz"}),
            (Strings{"train/0.jsonl.gz", "train/1.jsonl.gz"}))
      << "directories go before names";
  EXPECT_EQ(select({"a.jsonl", "b.jsonl", "schema.json"}), (Strings{"a.jsonl", "b.jsonl"})) << "of one kind";
  EXPECT_TRUE(select({"README.md", "loader.py"}).empty());
}

TEST(DatasetFiles, TheMetadataOfAReadmeNamesTablesAndTheirFiles) {
  // openai/gsm8k's layout, then the shorter ones.
  const std::string readme =
      "---\nlicense: mit\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n"
      "    path: main/train-*\n  - split: test\n    path: [main/test-*]\n"
      "- config_name: socratic\n  data_files:\n  - split: train\n    path: socratic/train-*\n"
      "---\n# GSM8K\n";
  const Strings paths{"main/test-00000-of-00001.parquet", "main/train-00000-of-00001.parquet",
                      "socratic/train-00000-of-00001.parquet"};
  EXPECT_EQ(select(paths, {.config = "main", .split = "test"}, readme), Strings{paths[0]});
  EXPECT_EQ(select(paths, {.config = "socratic"}, readme), Strings{paths[2]});
  EXPECT_NE(message_of<InvalidConfig>([&] { select(paths, {}, readme); }).find("main, socratic; choose one"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([&] { select(paths, {.config = "mian"}, readme); }).find("'main'"),
            std::string::npos);
  const Strings files{"a/x.jsonl", "a/deep/y.jsonl", "b/z.csv"};
  const auto with = [](const std::string& entry) {
    return "---\nconfigs:\n- config_name: default\n  " + entry + "\n---\n";
  };
  EXPECT_EQ(select(files, {}, with("data_files: a/*.jsonl")), Strings{"a/x.jsonl"}) << "* ends at a slash";
  EXPECT_EQ(select(files, {}, with("data_files: ['a/**/*.jsonl', b/z.csv]")),
            Strings({"a/deep/y.jsonl", "b/z.csv"}));
  EXPECT_EQ(select(files, {}, with("data_dir: b")), Strings{"b/z.csv"});
  EXPECT_EQ(select(files, {.data_files = {"b/*"}}, readme), Strings{"b/z.csv"})
      << "what is asked for goes first";
  EXPECT_EQ(select({"a.csv"}, {}, "---\n[broken\n---\n"), Strings{"a.csv"});
}

class HubDataset : public ::testing::Test {
 protected:
  HubDataset() {
    server.add_repo_file("datasets/org/chats", "README.md", "# chats");
    server.add_repo_file("datasets/org/chats", "train.jsonl", "{\"text\": \"a\"}\n");
    server.add_repo_file("datasets/org/chats", "test.jsonl", "{\"text\": \"b\"}\n");
  }
  test::WebServer server;
  ScopedEnvironment environment{{{"HF_ENDPOINT", server.address()},
                                 {"HF_HUB_CACHE", server.cache()},
                                 {"HF_TOKEN", ""},
                                 {"HF_HUB_OFFLINE", ""}}};
};

TEST_F(HubDataset, OnlyTheFilesOfTheSplitAreFetchedIntoTheCacheThatDatasetsShares) {
  const Strings files = resolve_dataset({.name = "hf://datasets/org/chats", .split = "test"});
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(read_file(files[0]), "{\"text\": \"b\"}\n");
  EXPECT_TRUE(files[0].starts_with(server.cache() + "/datasets--org--chats/snapshots/")) << files[0];
  EXPECT_EQ(server.count_in_log("train.jsonl"), 0);
  EXPECT_EQ(resolve_dataset({.name = server.address() + "/datasets/org/chats", .split = "test"}), files);
  EXPECT_EQ(resolve_dataset({.name = "hf://datasets/org/chats/test.jsonl"}), files);
}

TEST_F(HubDataset, IsFoundWithoutTheNetworkOnceItWasFetched) {
  const Strings files = resolve_dataset({.name = "hf://datasets/org/chats"});
  EXPECT_EQ(resolve_dataset({.name = "org/chats"}), files);
  const ScopedEnvironment offline(test::Settings{{"HF_HUB_OFFLINE", "1"}});
  EXPECT_EQ(resolve_dataset({.name = "hf://datasets/org/chats"}), files);
  EXPECT_THROW(resolve_dataset({.name = "hf://datasets/org/other"}), IoError);
}

TEST_F(HubDataset, WhatIsNotAllInTheCacheIsNotThere) {
  for (int shard = 0; shard < 3; ++shard)
    server.add_repo_file("datasets/org/shards", fmt::format("data/train-{:05}-of-00003.jsonl", shard),
                         "{}\n");
  server.add_repo_file("datasets/org/shards", "README.md", "# shards");
  const Strings files = resolve_dataset({.name = "hf://datasets/org/shards"});
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(resolve_dataset({.name = "org/shards"}), files);
  std::filesystem::remove(files[1]);
  EXPECT_THROW(resolve_dataset({.name = "org/shards"}), IoError);
  EXPECT_EQ(resolve_dataset({.name = "hf://datasets/org/shards"}), files) << "fetched again";
  EXPECT_THROW(resolve_dataset({.name = "org/shards", .revision = "v1"}), IoError);
}

TEST(DatasetFiles, TablesBesideEachOtherAreNotMergedWhereTheReadmeCannotBeRead) {
  const Strings paths{"main/train-00000-of-00001.parquet", "socratic/train-00000-of-00001.parquet"};
  const std::string twice = "---\nlicense: mit\nlicense: mit\npretty_name: A: B\n---\n";
  EXPECT_NE(message_of<InvalidConfig>([&] { select(paths, {}, twice); }).find("main, socratic; choose one"),
            std::string::npos);
  EXPECT_EQ(select(paths, {.config = "main"}, twice), Strings{paths[0]});
}

TEST_F(HubDataset, ErrorsSayWhatToDo) {
  EXPECT_TRUE(is_hub_dataset("org/chats"));
  EXPECT_FALSE(is_hub_dataset("data/chats.jsonl")) << "a file that is missing";
  EXPECT_NE(
      message_of<IoError>([] { resolve_dataset({.name = "org/chats"}); }).find("hf://datasets/org/chats"),
      std::string::npos);
  server.add_repo_file("datasets/org/code", "loader.py", "print()");
  EXPECT_ANY_THROW(resolve_dataset({.name = "hf://datasets/org/code"})) << "the Hub has no conversion of it";
  EXPECT_ANY_THROW(resolve_dataset({.name = "hf://datasets/org/none"}));
}

}  // namespace
}  // namespace ingot::hub
