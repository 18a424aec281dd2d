#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/web_server.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/hub/pull.h"
#include "ingot/hub/resolve.h"
#include "ingot/hub/select_files.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::pattern;
using test::ScopedEnvironment;
using test::WebServer;

constexpr ProgressOptions::Mode kQuiet = ProgressOptions::Mode::quiet;

TEST(HubRepo, IsReadFromEveryWayToWriteIt) {
  EXPECT_EQ(parse_hub_repo("org/name").id, "org/name");
  EXPECT_EQ(parse_hub_repo("hf://org/name@v1").revision, "v1");
  EXPECT_EQ(parse_hub_repo("hf://org/name@refs%2Fpr%2F1/a/b.json").revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_repo("hf://org/name@refs%2Fpr%2F1/a/b.json").file, "a/b.json");
  EXPECT_EQ(parse_hub_repo("hf://org/name/a/b.json").file, "a/b.json");
  EXPECT_EQ(parse_hub_repo("gpt2").id, "gpt2");
  for (const char* bad :
       {"", "hf://", "a/../b", "../etc", "org/na--me", "org/name@", "org/name/../x", "a b/c", "-a/b"}) {
    EXPECT_THROW(parse_hub_repo(bad), InvalidConfig) << bad;
  }
  EXPECT_TRUE(looks_like_hub_repo("org/name@v1"));
  EXPECT_FALSE(looks_like_hub_repo("./name"));
  EXPECT_FALSE(looks_like_hub_repo("/tmp/name"));
  EXPECT_FALSE(looks_like_hub_repo("a/b/c"));
}

TEST(HubOptions, ComeFromTheVariablesOfHuggingFaceTools) {
  test::TemporaryDirectory home;
  write_file_atomically(home.at("token"), "hf_from_file\n");
  const std::vector<std::pair<std::string, std::string>> clear{
      {"HF_TOKEN", ""},       {"HUGGING_FACE_HUB_TOKEN", ""},
      {"HF_HUB_CACHE", ""},   {"HUGGINGFACE_HUB_CACHE", ""},
      {"HF_HUB_OFFLINE", ""}, {"TRANSFORMERS_OFFLINE", ""},
      {"HF_TOKEN_PATH", ""},  {"HF_ENDPOINT", ""}};
  const ScopedEnvironment cleared(clear);
  const ScopedEnvironment set({{"HF_HOME", home.path()}, {"HF_HUB_DOWNLOAD_TIMEOUT", "2.5"}});
  HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.token, "hf_from_file");
  EXPECT_EQ(options.cache_directory, home.path() + "/hub");
  EXPECT_EQ(options.endpoint, "https://huggingface.co");
  EXPECT_EQ(options.http.stall_seconds, 2.5);
  EXPECT_FALSE(options.offline);
  const ScopedEnvironment more({{"HF_TOKEN", "hf_given"},
                                {"HF_HUB_CACHE", "/c"},
                                {"HF_HUB_OFFLINE", "YES"},
                                {"HF_ENDPOINT", "https://mirror.example/"}});
  options = HubOptions::from_environment();
  EXPECT_EQ(options.token, "hf_given");
  EXPECT_EQ(options.cache_directory, "/c");
  EXPECT_EQ(options.endpoint, "https://mirror.example");
  EXPECT_TRUE(options.offline);
  const ScopedEnvironment implicit({{"HF_TOKEN", ""}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}});
  EXPECT_EQ(HubOptions::from_environment().token, "");
}

std::vector<HubFile> files_named(const std::vector<std::string>& names) {
  std::vector<HubFile> files;
  for (const std::string& name : names) files.push_back({.path = name});
  return files;
}

std::vector<std::string> chosen(const std::vector<std::string>& names,
                                const std::vector<std::string>& include = {},
                                const std::vector<std::string>& exclude = {}) {
  std::vector<std::string> paths;
  for (const HubFile& file : select_files(files_named(names), include, exclude)) paths.push_back(file.path);
  return paths;
}

TEST(SelectFiles, TakesOneSetOfWeightsSafetensorsFirst) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5",
                    "flax_model.msgpack", "onnx/model.onnx", "tokenizer.json", "run.py", "picture.png"}),
            (Names{"config.json", "tokenizer.json", "model.safetensors"}));
  EXPECT_EQ(chosen({"config.json", "pytorch_model.bin", "training_args.bin"}),
            (Names{"config.json", "pytorch_model.bin"}));
  EXPECT_EQ(chosen({"model.safetensors", "model.fp16.safetensors", "consolidated.safetensors",
                    "original/x.safetensors"}),
            (Names{"model.safetensors"}));
  EXPECT_EQ(chosen({"a.gguf"}), (Names{"a.gguf"}));
  EXPECT_EQ(chosen({"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}).size(), 2U);
}

TEST(SelectFiles, AsksWhichOfSeveralGgufFiles) {
  const std::vector<std::string> names{"m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md"};
  const std::string message = message_of<InvalidConfig>([&] { chosen(names); });
  EXPECT_NE(message.find("m-Q8_0.gguf"), std::string::npos) << message;
  EXPECT_EQ(chosen(names, {"*Q4_K_M*"}), (std::vector<std::string>{"m-Q4_K_M.gguf"}));
}

TEST(SelectFiles, PatternsIncludeAndExclude) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(chosen({"a/x.json", "b.json", "c.bin"}, {"*.json"}), (Names{"a/x.json", "b.json"}));
  EXPECT_EQ(chosen({"a/x.json", "b.json"}, {"a/"}), (Names{"a/x.json"}));
  EXPECT_EQ(chosen({"config.json", "m.safetensors", "m.bin"}, {}, {"*.safetensors"}),
            (Names{"config.json", "m.bin"}));
  EXPECT_NE(message_of<InvalidConfig>([] { chosen({"a.json"}, {"*.txt"}); }).find("a.json"),
            std::string::npos);
}

TEST(HubListing, FromAHostileServerIsRefused) {
  const std::string commit(40, 'a');
  const auto listing = [&](const std::string& file) {
    return parse_hub_listing(fmt::format(R"({{"sha":"{}","siblings":[{}]}})", commit, file), "here");
  };
  EXPECT_EQ(listing(R"({"rfilename":"a/b.json","size":3,"blobId":null})").files[0].size, 3U);
  for (const char* path : {"../x", "/etc/passwd", "a//b", "a/../b", "", "a\\\\b", "a\\u0000b"}) {
    EXPECT_THROW(listing(fmt::format(R"({{"rfilename":"{}"}})", path)), FormatError) << path;
  }
  EXPECT_THROW(listing(R"({"rfilename":"a","lfs":{"sha256":"../../x"}})"), FormatError);
  EXPECT_THROW(listing(R"({"rfilename":"a","blobId":"zz"})"), FormatError);
  EXPECT_THROW(listing("3"), FormatError);
  EXPECT_THROW(parse_hub_listing("<html>", "here"), FormatError);
  EXPECT_THROW(parse_hub_listing(R"({"sha":"main","siblings":[]})", "here"), FormatError);
}

class PullTest : public ::testing::Test {
 protected:
  PullTest() {
    server.add_repo_file("org/tiny", "config.json", "{}");
    server.add_repo_file("org/tiny", "model.safetensors", weights);
    server.add_repo_file("org/tiny", "pytorch_model.bin", weights);
    server.add_repo_file("org/tiny", "1_Pooling/config.json", R"({"a":1})");
  }
  WebServer server;
  std::string weights = pattern(50'000);
  HubOptions options = server.hub_options();

  PullResult pull_tiny(const PullOptions& how = {.progress = kQuiet}) {
    HubClient client(options);
    return pull(client, {.id = "org/tiny"}, how);
  }
};

TEST_F(PullTest, MakesTheLayoutOfHuggingFaceHub) {
  const PullResult result = pull_tiny();
  const std::string root = server.cache() + "/models--org--tiny";
  EXPECT_EQ(result.path, root + "/snapshots/" + result.commit);
  EXPECT_EQ(read_file(root + "/refs/main"), result.commit);
  EXPECT_EQ(read_file(result.path + "/model.safetensors"), weights);
  EXPECT_EQ(fs::read_symlink(result.path + "/model.safetensors").string(),
            "../../blobs/" + sha256_hex(weights));
  EXPECT_EQ(fs::read_symlink(result.path + "/1_Pooling/config.json").parent_path().string(),
            "../../../blobs");
  EXPECT_TRUE(fs::exists(root + "/blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b"));  // git hash-object of {}
  EXPECT_TRUE(fs::exists(server.cache() + "/CACHEDIR.TAG"));
  EXPECT_TRUE(fs::exists(server.cache() + "/.locks/models--org--tiny/" + sha256_hex(weights) + ".lock"));
  EXPECT_FALSE(fs::exists(result.path + "/pytorch_model.bin"));
}

TEST_F(PullTest, FetchesNothingTwice) {
  pull_tiny();
  const PullResult again = pull_tiny();
  for (const PulledFile& file : again.files) EXPECT_FALSE(file.fetched) << file.path;
  EXPECT_EQ(server.count_in_log("/cdn/"), 1);
}

TEST_F(PullTest, KeepsWhatANewRevisionShares) {
  const PullResult first = pull_tiny();
  server.add_repo_file("org/tiny", "config.json", R"({"new":true})");
  const PullResult second = pull_tiny();
  EXPECT_NE(first.commit, second.commit);
  EXPECT_EQ(read_file(second.path + "/config.json"), R"({"new":true})");
  EXPECT_EQ(read_file(first.path + "/config.json"), "{}");
  EXPECT_EQ(server.count_in_log("/cdn/"), 1);
}

TEST_F(PullTest, SurvivesFaultsOfTheStorage) {
  server.fault("/cdn/", "cut", 1, "20000");
  server.fault("/cdn/", "status", 1, "429");
  EXPECT_EQ(read_file(pull_tiny().path + "/model.safetensors"), weights);
  // Twice, as the first time the storage is busy; each asks the Hub, which names the storage.
  EXPECT_EQ(server.count_in_log("bytes=20000-"), 4) << server.log();
}

TEST_F(PullTest, TellsAWrongHash) {
  server.fault("/cdn/", "flip", 9);
  EXPECT_NE(message_of<HttpError>([&] { pull_tiny(); }).find("SHA-256"), std::string::npos);
  EXPECT_FALSE(fs::exists(server.cache() + "/models--org--tiny/blobs/" + sha256_hex(weights)));
}

TEST_F(PullTest, IntoADirectoryWritesPlainFilesAndChecksThoseThatAreThere) {
  const std::string to = server.directory() + "/plain";
  const ScopedEnvironment cache(test::Settings{{"INGOT_CACHE_DIR", server.directory() + "/ingot"}});
  EXPECT_EQ(pull_tiny({.directory = to, .progress = kQuiet}).path, to);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(to + "/model.safetensors")));
  std::string damaged = weights;
  damaged[7] ^= 1;
  write_file_atomically(to + "/model.safetensors", damaged);
  for (const PulledFile& file : pull_tiny({.directory = to, .progress = kQuiet}).files) {
    EXPECT_EQ(file.fetched, file.path == "model.safetensors") << file.path;
  }
  EXPECT_EQ(read_file(to + "/model.safetensors"), weights);
  EXPECT_EQ(std::distance(fs::directory_iterator(to), fs::directory_iterator()), 3)
      << "nothing else stands there";
}

TEST_F(PullTest, RefusalsSayWhatToDo) {
  server.add_repo_file("org/private-x", "config.json", "{}");
  server.add_repo_file("org/gated-x", "config.json", "{}");
  const auto refusal = [&](const HubRepo& repo) {
    return message_of<HttpError>([&] {
      HubClient client(options);
      pull(client, repo, {.progress = kQuiet});
    });
  };
  EXPECT_NE(refusal({.id = "org/private-x"}).find("HF_TOKEN"), std::string::npos);
  EXPECT_NE(refusal({.id = "org/gated-x"}).find("gated"), std::string::npos);
  EXPECT_NE(refusal({.id = "org/nothing"}).find("no repository 'org/nothing'"), std::string::npos);
  EXPECT_NE(refusal({.id = "org/tiny", .revision = "v9"}).find("no revision 'v9'"), std::string::npos);
  options.token = "hf_test_token";
  HubClient client(options);
  EXPECT_EQ(pull(client, {.id = "org/private-x"}, {.progress = kQuiet}).files.size(), 1U);
}

TEST_F(PullTest, TheTokenNeverReachesTheStorage) {
  options.token = "hf_test_token";
  pull_tiny();
  const std::string port = server.storage_address().substr(server.storage_address().rfind(':') + 1);
  EXPECT_GT(server.count_in_log("hf_test_token"), 0);
  EXPECT_EQ(server.count_in_log(fmt::format(
                "\"authorization\":null,\"key\":null,\"method\":\"GET\",\"path\":\"/cdn/repos/org/tiny/"
                "model.safetensors?signature=secret\",\"port\":{}",
                port)),
            1)
      << server.log();
}

TEST_F(PullTest, KilledInTheMiddleGoesOnWhereItWas) {
  const pid_t child = fork();
  if (child == 0) {
    const ScopedFault crash({.kind = Fault::Kind::crash, .point = "write", .count = 30'000});
    options.http.attempts = 1;
    try {
      pull_tiny({.include = {"model.safetensors"}, .parallel = 1, .progress = kQuiet});
    } catch (...) {
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string blob = server.cache() + "/models--org--tiny/blobs/" + sha256_hex(weights);
  EXPECT_FALSE(fs::exists(blob));
  const auto had = fs::file_size(blob + ".incomplete");
  EXPECT_GT(had, 0U);
  EXPECT_EQ(read_file(pull_tiny().path + "/model.safetensors"), weights);
  EXPECT_EQ(server.count_in_log(fmt::format("bytes={}-", had)), 2) << server.log();
}

TEST_F(PullTest, TwoAtOnceFetchAFileOnce) {
  options.http = test::impatient();
  server.fault("/cdn/", "stall", 1, "1000");  // the first is in the middle when the second comes
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { pull_tiny(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.count_in_log("/cdn/"), 2) << server.log();  // the stalled try, and one that goes on
  EXPECT_EQ(read_file(server.cache() + "/models--org--tiny/blobs/" + sha256_hex(weights)), weights);
}

TEST_F(PullTest, WithoutLinksFilesStandInTheSnapshot) {
  const ScopedEnvironment plain(test::Settings{{"HF_HUB_DISABLE_SYMLINKS", "1"}});
  const PullResult result = pull_tiny();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(result.path + "/model.safetensors")));
  for (const PulledFile& file : pull_tiny().files) EXPECT_FALSE(file.fetched) << file.path;
}

// ---- resolve

class ResolveTest : public PullTest {
 protected:
  ScopedEnvironment environment{{{"HF_ENDPOINT", server.address()},
                                 {"HF_HUB_CACHE", server.cache()},
                                 {"INGOT_CACHE_DIR", server.directory() + "/ingot"},
                                 {"HF_TOKEN", ""},
                                 {"HF_HUB_OFFLINE", ""}}};
};

TEST_F(ResolveTest, FindsPathsRepositoriesAndNamesInTheCache) {
  EXPECT_EQ(resolve_model(server.directory()), server.directory());
  const std::string message = message_of<IoError>([] { resolve_model("org/tiny"); });
  EXPECT_NE(message.find("ingot pull org/tiny"), std::string::npos) << message;
  const std::string pulled = resolve_model("hf://org/tiny");
  EXPECT_EQ(read_file(pulled + "/config.json"), "{}");
  EXPECT_EQ(resolve_model("org/tiny"), pulled);
  EXPECT_EQ(resolve_model(server.address() + "/org/tiny"), pulled);
  EXPECT_EQ(resolve_model("hf://org/tiny/config.json"), pulled + "/config.json");
  EXPECT_EQ(resolve_model("no such thing"), "no such thing");
}

TEST_F(ResolveTest, OfflineAsksNobody) {
  resolve_model("hf://org/tiny");
  const std::string before = server.log();
  const ScopedEnvironment offline(test::Settings{{"HF_HUB_OFFLINE", "1"}});
  EXPECT_EQ(read_file(resolve_model("hf://org/tiny") + "/config.json"), "{}");
  EXPECT_THROW(resolve_model("hf://org/tiny@v1"), IoError);
  EXPECT_EQ(server.log(), before);
}

std::string offline_refusal(const std::string& model) {
  const ScopedEnvironment offline(test::Settings{{"HF_HUB_OFFLINE", "1"}});
  try {
    resolve_model(model);
  } catch (const IoError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(ResolveTest, OfflineAnInterruptedDownloadIsToldByTheFileThatIsMissing) {
  HubClient client(options);
  const std::string commit = client.list({.id = "org/tiny"}).commit, name = "org/tiny@" + commit;
  server.fault("/cdn/", "status", 1, "404");  // the largest file, which is the first, does not come
  EXPECT_THROW(pull(client, {.id = "org/tiny", .revision = commit}, {.parallel = 1, .progress = kQuiet}),
               HttpError);
  const HubCache cache(server.cache());
  fs::create_directories(cache.snapshot({.id = "org/tiny"}, commit));
  EXPECT_TRUE(is_not_fetched(name));  // so that --yes goes on with it
  for (const std::string& model : {"hf://" + name, name}) {
    const std::string message = offline_refusal(model);
    EXPECT_NE(message.find(" is missing: the download of org/tiny was interrupted"), std::string::npos)
        << message;
    EXPECT_NE(message.find("ingot pull org/tiny@" + commit + " --include '"), std::string::npos) << message;
  }
  const std::string pulled = resolve_model("hf://" + name);
  EXPECT_FALSE(is_not_fetched(name));
  EXPECT_EQ(offline_refusal("hf://" + name), "none");
  fs::remove(fs::weakly_canonical(pulled + "/model.safetensors"));  // a blob, as a cleaner may do
  EXPECT_NE(offline_refusal(name).find("model.safetensors is missing"), std::string::npos);
}

// A snapshot of other tools, which keep no list of what they fetch.
class ForeignSnapshot {
 public:
  ForeignSnapshot(const std::string& cache, const std::string& name) {
    const std::string commit(40, 'c'), root = cache + "/models--org--" + name;
    path_ = root + "/snapshots/" + commit;
    write_at(root + "/refs/main", commit);
    write("config.json", "{}");
  }
  void write(const std::string& name, const std::string& text = "x") const {
    fs::remove(path_ + "/" + name);  // a link would be followed
    write_at(path_ + "/" + name, text);
  }
  void break_link(const std::string& name) const {
    fs::remove(path_ + "/" + name);
    fs::create_symlink("../../blobs/gone", path_ + "/" + name);
  }

 private:
  static void write_at(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    write_file_atomically(path, text);
  }
  std::string path_;
};

constexpr const char* kTwoShards =
    R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";

TEST_F(ResolveTest, OfflineASnapshotOfAnotherToolThatLacksAShardIsToldByItsName) {
  const ForeignSnapshot snapshot(server.cache(), "shards");
  snapshot.write("model.safetensors.index.json", kTwoShards);
  EXPECT_EQ(offline_refusal("org/shards"), "none");  // a tokenizer alone, say
  snapshot.write("model-00001-of-00002.safetensors");
  EXPECT_NE(offline_refusal("org/shards").find("model-00002-of-00002.safetensors is missing"),
            std::string::npos);
  snapshot.break_link("model-00002-of-00002.safetensors");
  EXPECT_NE(offline_refusal("org/shards").find("--include 'model-00002-of-00002.safetensors'"),
            std::string::npos);
  snapshot.write("model-00002-of-00002.safetensors");
  EXPECT_EQ(offline_refusal("org/shards"), "none");
  // An index of weights in another format, of which nobody fetched any.
  snapshot.write("pytorch_model.bin.index.json", R"({"weight_map":{"a":"pytorch_model-1.bin"}})");
  EXPECT_EQ(offline_refusal("org/shards"), "none");
}

TEST_F(ResolveTest, OfflineWeightsOfAKindThatIsNotOpenedMayBeIncomplete) {
  const ForeignSnapshot snapshot(server.cache(), "kinds");
  snapshot.break_link("pytorch_model.bin");
  snapshot.write("training_args.bin");
  EXPECT_NE(offline_refusal("org/kinds").find("pytorch_model.bin is missing"), std::string::npos);
  snapshot.write("q-00002-of-00003.gguf");
  EXPECT_NE(offline_refusal("org/kinds").find("q-00001-of-00003.gguf is missing"), std::string::npos);
  snapshot.write("model.safetensors");
  snapshot.write("onnx/weights");
  snapshot.break_link("onnx/model.bin");
  snapshot.break_link("README.md");
  EXPECT_EQ(offline_refusal("org/kinds"), "none");
  snapshot.break_link("config.json");
  EXPECT_NE(offline_refusal("org/kinds").find("config.json is missing"), std::string::npos);
}

TEST_F(ResolveTest, ANoteOfFilesToComeStaysUntilAllOfThemAreThere) {
  const std::string commit(40, 'c');
  const HubRepo repo{.id = "org/two"};
  const ForeignSnapshot snapshot(server.cache(), "two");
  const HubCache cache(server.cache());
  cache.begin(repo, commit, {"config.json", "vocab.txt"});
  cache.end(repo, commit);  // of another pull
  EXPECT_EQ(cache.missing(repo), "vocab.txt");
  snapshot.write("vocab.txt");
  cache.end(repo, commit);
  snapshot.break_link("vocab.txt");
  snapshot.write("config.json");
  EXPECT_EQ(cache.missing(repo), "vocab.txt");  // a broken link
}

TEST_F(ResolveTest, WithoutNetworkTheCacheWillDo) {
  const std::string pulled = resolve_model("hf://org/tiny");
  const ScopedEnvironment nowhere({{"HF_ENDPOINT", "http://127.0.0.1:1"}, {"HF_HUB_ETAG_TIMEOUT", "0.1"}});
  EXPECT_EQ(resolve_model("hf://org/tiny"), pulled);
}

TEST_F(ResolveTest, LinksOutOfTheCacheAreNotFollowed) {
  const std::string pulled = resolve_model("hf://org/tiny");
  fs::create_symlink("/etc/passwd", pulled + "/model-2.safetensors");
  EXPECT_NE(message_of<IoError>([] { resolve_model("org/tiny"); }).find("link out of the cache"),
            std::string::npos);
}

TEST_F(ResolveTest, FilesOfTheWebAreKeptUntilTheyChange) {
  server.add_file("a.bin", "one");
  const std::string url = server.storage_address() + "/files/a.bin";  // the first server is "the Hub" here
  const std::string path = resolve_model(url);
  EXPECT_EQ(read_file(path), "one");
  EXPECT_EQ(fs::path(path).filename(), "a.bin");
  resolve_model(url);
  EXPECT_EQ(server.count_in_log("\"range\":null"), 1) << "looked at, not fetched again: " << server.log();
  server.add_file("a.bin", "two");
  EXPECT_EQ(read_file(resolve_model(url)), "two");
}

TEST_F(ResolveTest, RemoteSafetensorsGiveTensorsWithoutTheFile) {
  const std::string local = server.directory() + "/files/m.safetensors";
  const std::vector<StoredTensor> stored{
      StoredTensor::of("a", Tensor::from(std::vector<float>(100'000, 1.5F), {100'000})),
      StoredTensor::of("b", Tensor::from(std::vector<float>{1, 2, 3}, {3}))};
  write_safetensors(local, stored);
  const auto source = open_weights(server.address() + "/files/m.safetensors");
  EXPECT_EQ(source->tensors().size(), 2U);
  EXPECT_EQ(source->load_tensor("b").to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(server.count_in_log("\"range\":null"), 0) << "never all of it";
  EXPECT_EQ(source->load_tensor("a").to_vector<float>()[99'999], 1.5F);
}

}  // namespace
}  // namespace ingot::hub
