#include "ingot/infer/prompt_store.h"

#include <filesystem>

#include "tests/infer/goldens.h"
#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;
using test::golden_model;
using test::TemporaryDirectory;

// Five blocks of four tokens, and one token more.
std::vector<std::int32_t> prompt(std::int32_t seed = 3) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 21; ++i) ids.push_back((seed + 7 * i * i) % 50);
  return ids;
}

EngineOptions stored_in(const std::string& directory, const std::string& model = "a model") {
  return {.prefix_cache = true, .prompt_store = {.directory = directory, .model = model, .block = 4}};
}

Request request(std::vector<std::int32_t> ids, const std::string& adapter = {}) {
  return {.prompt = std::move(ids), .max_tokens = 4, .sampling = {.temperature = 0}, .adapter = adapter};
}

std::vector<fs::path> files_in(const std::string& directory) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& file : fs::directory_iterator(directory)) files.push_back(file.path());
  return files;
}

std::uint64_t bytes_in(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const fs::path& file : files_in(directory)) bytes += fs::file_size(file);
  return bytes;
}

TEST(PromptStore, APromptIsReadFromDiskAfterARestartAndGoesOnAsItDid) {
  for (const char* name : {"qwen3", "gpt2", "deepseek_v3_moe", "gemma4"}) {
    const auto model = golden_model(name);
    for (const DType kv : {DType::f32, DType::bf16, DType::i8}) {
      const TemporaryDirectory folder;
      EngineOptions options = stored_in(folder.at("cache"));
      options.kv_cache = kv;
      const Generation cold = generate(*model, request(prompt()), options);
      EXPECT_EQ(cold.cached_tokens, 0);
      Engine restarted(*model, options);
      const Generation warm = restarted.generate(request(prompt()));
      EXPECT_EQ(warm.cached_tokens, 20) << name;
      EXPECT_EQ(warm.tokens, cold.tokens) << name;
      EXPECT_EQ(restarted.stats().cache.disk_hits, 20);
    }
  }
}

TEST(PromptStore, TextsShareTheFilesOfACommonBeginning) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  generate(*model, request(prompt()), stored_in(folder.path()));
  const std::size_t files = files_in(folder.path()).size();
  std::vector<std::int32_t> other = prompt();
  other[18] = 51;  // in the fifth block
  const Generation result = generate(*model, request(other), stored_in(folder.path()));
  EXPECT_EQ(result.cached_tokens, 16);
  EXPECT_EQ(result.tokens, generate(*model, request(other)).tokens);
  EXPECT_EQ(files_in(folder.path()).size(), files + 2);  // the fifth block and the sixth
}

TEST(PromptStore, AnotherModelDtypeOrAdapterFindsNothing) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  EngineOptions options = stored_in(folder.path());
  // Adapters that change nothing, so that what is cached tells them apart alone.
  const auto adapter = [](const char* name, const char* identity) {
    auto made = std::make_shared<BankedAdapter>();
    *made = {.source = {.name = name},
             .identity = identity,
             .on_model = name,
             .rows = std::make_shared<AdapterRows>()};
    return made;
  };
  const auto found = [&](const EngineOptions& with, const AdapterHandle& held) {
    Request asked = request(prompt(), held == nullptr ? "" : held->source.name);
    asked.held_adapter = held;
    return generate(*model, asked, with).cached_tokens;
  };
  const AdapterHandle a = adapter("a", "one");
  EXPECT_EQ(found(options, a), 0);
  EXPECT_EQ(found(options, adapter("b", "another")), 0);
  EXPECT_EQ(found(options, nullptr), 0);
  EXPECT_EQ(found(options, a), 20);
  EXPECT_EQ(found(options, adapter("b", "one")), 20) << "the name does not count";
  EXPECT_EQ(found(options, adapter("a", "trained anew")), 0);
  EngineOptions changed = options;
  changed.prompt_store.model = "another model";
  EXPECT_EQ(found(changed, a), 0);
  changed = options;
  changed.kv_cache = DType::i8;
  EXPECT_EQ(found(changed, a), 0);
}

TEST(PromptStore, ADamagedFileIsReadAgainAndReplaced) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  const EngineOptions options = stored_in(folder.path());
  const Generation cold = generate(*model, request(prompt()), options);
  for (const bool cut : {false, true}) {
    for (const fs::path& file : files_in(folder.path())) {
      std::string content = read_file(file.string());
      if (cut) content.resize(content.size() / 2);
      content.back() ^= 1;
      write_file_atomically(file.string(), content);
    }
    const Generation damaged = generate(*model, request(prompt()), options);
    EXPECT_EQ(damaged.cached_tokens, 0);
    EXPECT_EQ(damaged.tokens, cold.tokens);
    // One damaged file was seen, and the rest is of no use without it.
    for (const fs::path& file : files_in(folder.path())) fs::remove(file);
    generate(*model, request(prompt()), options);
    EXPECT_EQ(generate(*model, request(prompt()), options).cached_tokens, 20);
  }
}

TEST(PromptStore, KeepsWithinItsSizeWhatWasUsedLast) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  EngineOptions options = stored_in(folder.path());
  generate(*model, request(prompt()), options);
  options.prompt_store.bytes = bytes_in(folder.path()) * 5 / 3;  // for ten of twelve blocks
  generate(*model, request(prompt(11)), options);
  EXPECT_LE(bytes_in(folder.path()), options.prompt_store.bytes);
  EXPECT_EQ(generate(*model, request(prompt(11)), options).cached_tokens, 20);
  EXPECT_EQ(generate(*model, request(prompt()), options).cached_tokens, 16);  // a beginning goes last
}

TEST(PromptStore, ADirectoryThatIsGoneEndsNoRequest) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  generate(*model, request(prompt()),
           stored_in(folder.at("cache")));  // so that nothing is being written below
  Engine engine(*model, stored_in(folder.at("cache")));
  const Generation before = engine.generate(request(prompt()));
  fs::remove_all(folder.at("cache"));
  write_file_atomically(folder.at("cache"), "a file in its place");
  EXPECT_EQ(engine.generate(request(prompt(11))).tokens.size(), 4U);
  EXPECT_EQ(engine.generate(request(prompt())).tokens, before.tokens);
  EXPECT_THROW(Engine(*model, stored_in(folder.at("cache"))), IoError);
}

TEST(PromptStore, BatchInvariantReusesWholeChunks) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  EngineOptions options = stored_in(folder.path());
  options.chunk = 8;
  options.batch_invariant = true;
  const Generation cold = generate(*model, request(prompt()), options);
  const Generation warm = generate(*model, request(prompt()), options);
  EXPECT_EQ(warm.cached_tokens, 16);
  EXPECT_EQ(warm.tokens, cold.tokens);
  options.batch_invariant = false;
  EXPECT_EQ(generate(*model, request(prompt()), options).cached_tokens, 0);
}

TEST(PromptStore, NeedsThePrefixCache) {
  const auto model = golden_model("qwen3");
  const TemporaryDirectory folder;
  EngineOptions options = stored_in(folder.path());
  options.prefix_cache = false;
  EXPECT_THROW(Engine(*model, options), InvalidConfig);
}

TEST(PromptStore, ASessionKnowsItsModelAgainUntilTheFilesChange) {
  const TemporaryDirectory folder;
  const std::string path =
      test::write_scripted_model(folder.at("model"), test::script(3 /* <turn> */, "one twz", 4 /* <end> */));
  const SessionOptions options{.model = path, .engine = stored_in(folder.at("cache"), "")};
  const auto cached = [&] {
    Session session(options);
    return session.generate("a prompt that is long enough", {.max_tokens = 4}).generation.cached_tokens;
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_GT(cached(), 16);
  test::write_scripted_model(path, test::script(3 /* <turn> */, "one two", 4 /* <end> */));
  EXPECT_EQ(cached(), 0);
}

}  // namespace
}  // namespace ingot::infer
