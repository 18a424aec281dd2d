#include "ingot/hub/http.h"

#include <filesystem>

#include "tests/support/web_server.h"
#include <gtest/gtest.h>

#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/percent.h"
#include "ingot/hub/byte_source.h"
#include "ingot/hub/download.h"
#include "ingot/hub/host_headers.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

using test::impatient;
using test::message_of;
using test::pattern;
using test::quick_retries;
using test::ScopedEnvironment;
using test::WebServer;

TEST(Url, PartsAreFoundAndEncodedAsRfc3986Says) {
  EXPECT_EQ(parse_url("https://a.org:8080/x/y%20z?q=1"), (Url{"https", "a.org:8080", "/x/y%20z", "q=1"}));
  EXPECT_EQ(percent_encode("a b/ü~", true), "a%20b/%C3%BC~");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
  EXPECT_EQ(percent_decode("a%20b%2"), "a b%2");
  EXPECT_EQ(encode_query({{"z", "1"}, {"a", "x y"}}), "a=x%20y&z=1");
  EXPECT_EQ(resolve_url("http://a/b/c?d", "../e"), "http://a/e");
  EXPECT_TRUE(same_origin("http://A:80/x", "http://a/y"));
  EXPECT_FALSE(same_origin("http://a/", "https://a/"));
  EXPECT_FALSE(same_origin("http://a:1/", "http://a:2/"));
  EXPECT_THROW(parse_url("ftp://a/"), InvalidConfig);
  EXPECT_THROW(parse_url("http:/"), InvalidConfig);
}

TEST(Url, SecretsInAddressesAreNotShown) {
  EXPECT_EQ(printable_url("https://a/b?signature=secret"), "https://a/b");
  EXPECT_EQ(printable_url("https://user:secret@a/b"), "https://a/b");
  EXPECT_EQ(message_of<InvalidConfig>([] { parse_url("https://user:secret@a/b"); }).find("secret"),
            std::string::npos);
}

TEST(ContentRange, IsReadAndNonsenseRefused) {
  const auto range = parse_content_range("bytes 2-9/10");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 2);
  EXPECT_EQ(range->total, 10);
  EXPECT_EQ(parse_content_range("bytes */7")->total, 7);
  EXPECT_EQ(parse_content_range("bytes 0-4/*")->total, -1);
  for (const char* bad :
       {"", "bytes", "bytes 5-2/10", "bytes 0-10/10", "bytes -1-2/3", "bytes 0-1/2x", "items 0-1/2"}) {
    EXPECT_FALSE(parse_content_range(bad)) << bad;
  }
}

TEST(RetryAfter, IsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("7"), 7);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), 0);  // gone by
  EXPECT_EQ(parse_retry_after("soon"), -1);
}

TEST(HttpClient, ComesBackToABusyServerAndGivesUpInTheEnd) {
  WebServer server;
  const std::string url = server.add_file("a", "hello");
  HttpClient client(quick_retries());
  server.fault("/files/a", "status", 2, "503");
  EXPECT_EQ(client.request({.url = url}).body, "hello");
  server.fault("/files/a", "status", 3, "429");
  const std::string message = message_of<HttpError>([&] { client.request({.url = url}); });
  EXPECT_NE(message.find("gave up after 3 attempts"), std::string::npos) << message;
  EXPECT_NE(message.find(url), std::string::npos) << message;
}

TEST(HttpClient, NamesAServerThatIsNotThere) {
  HttpClient client(quick_retries());
  const std::string message = message_of<HttpError>([&] { client.request({.url = "http://127.0.0.1:1/x"}); });
  EXPECT_NE(message.find("cannot connect"), std::string::npos) << message;
}

// libcurl 7.88 refuses options on a handle whose look-up failed, even after a reset.
TEST(HttpClient, TriesAgainWhereANameCannotBeLookedUp) {
  setenv("no_proxy", "*", 1);
  HttpClient client(quick_retries());
  for (int i = 0; i < 2; ++i) {
    const std::string message =
        message_of<HttpError>([&] { client.request({.url = "http://no-such-host.invalid/x"}); });
    EXPECT_NE(message.find("gave up after"), std::string::npos) << message;
    EXPECT_NE(message.find("check the name"), std::string::npos) << message;
  }
}

// Faster than a stall, slower than anybody waits: once is enough to tell.
TEST(HttpClient, AnswersThatAreKeptHaveATotalTimeAndAreNotAskedForAgain) {
  WebServer server;
  const std::string url = server.add_file("a", pattern(4000));
  HttpOptions options = quick_retries();
  options.answer_seconds = 0.5;
  const auto client = std::make_shared<HttpClient>(options);
  server.fault("/files/a", "drip", 2, "20");
  EXPECT_NE(message_of<HttpError>([&] { client->request({.url = url}); }).find("did not finish its answer"),
            std::string::npos);
  EXPECT_EQ(server.count_in_log("/files/a"), 1) << server.log();
}

TEST(RemoteFile, OfAServerWithoutRangesHasATotalTime) {
  WebServer server;
  const std::string url = server.add_file("a", pattern(4000));
  HttpOptions options = quick_retries();
  options.answer_seconds = 0.5;
  server.fault("/files/a", "no_range");
  server.fault("/files/a", "drip", 1, "20");
  EXPECT_NE(message_of<HttpError>([&] {
              open_remote(std::make_shared<HttpClient>(options), {.url = url});
            }).find("did not finish its answer"),
            std::string::npos);
}

TEST(HttpClient, GoesOnToTheTargetOfARedirectWhoseBodyHasNoEnd) {
  WebServer server;
  const std::string url = server.add_file("a", "hello"), target = server.add_file("b", "target");
  HttpClient client(quick_retries());
  server.fault("/files/a", "endless_redirect", 2, target);
  EXPECT_EQ(client.request({.url = url}).body, "target");
  std::string taken;
  client.exchange({.url = url}, [&](const HttpResponse&, std::span<const std::byte> piece) {
    taken.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return true;
  });
  EXPECT_EQ(taken, "target");
}

// A file may take hours, what the server says instead of it may not.
TEST(HttpClient, RefusalsOfFilesHaveATotalTime) {
  WebServer server;
  const std::string url = server.add_file("a", "hello");
  HttpOptions options = quick_retries();
  options.answer_seconds = 0.5;
  HttpClient client(options);
  server.fault("/files/a", "slow_status", 1, "404");
  EXPECT_NE(message_of<HttpError>([&] {
              client.exchange({.url = url}, [](const HttpResponse&, auto) { return true; });
            }).find("did not finish its answer"),
            std::string::npos);
  server.fault("/files/a", "drip", 1, "1");  // four times a fifth of a second
  EXPECT_EQ(client.exchange({.url = url}, [](const HttpResponse&, auto) { return true; }).status, 200);
}

TEST(HttpClient, AsksAServerThatDidNotBeginToAnswerAgain) {
  WebServer server;
  const std::string url = server.add_file("a", "hello");
  HttpOptions options = quick_retries();
  options.answer_seconds = 0.5;
  HttpClient client(options);
  server.fault("/files/a", "silent");
  EXPECT_EQ(client.request({.url = url}).body, "hello");
  EXPECT_EQ(server.count_in_log("/files/a"), 2) << server.log();
}

TEST(HttpClient, SendsATokenToItsOwnServerOnly) {
  WebServer server;
  const std::string url = server.add_file("a", "hello");
  server.fault("/files/start", "redirect", 1, server.storage_address() + "/files/a");
  server.fault("/files/again", "redirect", 1, "/files/a");
  HttpClient client(quick_retries());
  EXPECT_EQ(client.request({.url = server.address() + "/files/start", .bearer = "hush"}).body, "hello");
  EXPECT_EQ(server.count_in_log("hush"), 1) << "the storage must not see it: " << server.log();
  EXPECT_EQ(client.request({.url = server.address() + "/files/again", .bearer = "hush"}).body, "hello");
  EXPECT_EQ(server.count_in_log("hush"), 3) << "its own server sees it after a redirect too";
}

TEST(HttpClient, SendsConfiguredHeadersToTheirServerOnlyAndOverItsOwn) {
  WebServer server;
  test::TemporaryDirectory config;
  make_directories(config.at("ingot"));
  write_file_atomically(
      config.at("ingot/hub.yaml"),
      "headers:\n  " + server.address() +
          ": {X-Api-Key: secret, authorization: Basic own}\n  other.example: {X-Api-Key: other}\n");
  const ScopedEnvironment home(
      {{"XDG_CONFIG_HOME", config.path()}, {"INGOT_HUB_HEADERS", ""}, {"INGOT_HUB_CONFIG", ""}});
  server.add_file("a", "hello");
  server.fault("/files/start", "redirect", 1, server.storage_address() + "/files/a");
  HttpClient client(quick_retries());
  EXPECT_EQ(client.request({.url = server.address() + "/files/start", .bearer = "hush"}).body, "hello");
  EXPECT_EQ(server.count_in_log("secret"), 1) << server.log();
  EXPECT_EQ(server.count_in_log("Basic own"), 1) << server.log();
  EXPECT_EQ(server.count_in_log("hush"), 0) << server.log();
}

TEST(HostHeaders, AreTakenFromTheEnvironmentAndNeedEncryptionUnlessToldOtherwise) {
  const ScopedEnvironment set(test::Settings{{"INGOT_HUB_HEADERS", "{mirror.example: {X-Api-Key: secret}}"}});
  const HostHeaders headers = HostHeaders::from_environment();
  EXPECT_EQ(headers.of("https://mirror.example/x"), (HttpHeaders{{"X-Api-Key", "secret"}}));
  EXPECT_TRUE(headers.of("http://mirror.example/x").empty());
  EXPECT_TRUE(headers.of("https://mirror.example.evil/x").empty());
  EXPECT_TRUE(headers.of("https://mirror.example:8443/x").empty());
}

TEST(HostHeaders, ThatCannotBeSentAreRefusedWithoutTheirValues) {
  const auto refusal = [](const char* yaml) {
    return message_of<InvalidConfig>([&] { HostHeaders::parse(yaml, "hub.yaml"); });
  };
  EXPECT_NE(refusal("{mirror.example/path: {A: b}}").find("names a path"), std::string::npos);
  EXPECT_NE(refusal("{mirror.example: {'A B': b}}").find("not the name of an HTTP header"),
            std::string::npos);
  const std::string broken = refusal(R"({mirror.example: {A: "secret\nB: c"}})");
  EXPECT_NE(broken.find("line break"), std::string::npos);
  EXPECT_EQ(broken.find("secret"), std::string::npos);
}

TEST(HttpClient, FollowsRedirectsNeitherForeverNorToOtherSchemes) {
  WebServer server;
  server.fault("/files/loop", "redirect", 100, "/files/loop");
  server.fault("/files/file", "redirect", 1, "file:///etc/passwd");
  HttpClient client(quick_retries());
  EXPECT_NE(message_of<HttpError>([&] {
              client.request({.url = server.address() + "/files/loop"});
            }).find("redirects more"),
            std::string::npos);
  EXPECT_THROW(client.request({.url = server.address() + "/files/file"}), IoError);
}

TEST(HttpClient, RefusesHeadersWithLineBreaks) {
  HttpClient client;
  EXPECT_THROW(client.request({.url = "http://127.0.0.1:1/", .bearer = "a\r\nHost: b"}), InvalidConfig);
}

// ---- reading in ranges

TEST(RemoteFile, IsReadInRanges) {
  WebServer server;
  const std::string content = pattern(100'000), url = server.add_file("a", content);
  const auto source = open_remote(std::make_shared<HttpClient>(quick_retries()), {.url = url});
  ASSERT_EQ(source->size(), content.size());
  std::vector<std::byte> bytes(1000);
  source->read(54'321, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 1000), content.substr(54'321, 1000));
  EXPECT_EQ(server.count_in_log("bytes=54321-55320"), 1);
}

TEST(RemoteFile, GoesOnWhereAConnectionBroke) {
  WebServer server;
  const std::string content = pattern(100'000), url = server.add_file("a", content);
  const auto source = open_remote(std::make_shared<HttpClient>(quick_retries()), {.url = url});
  server.fault("/files/a", "cut", 4, "20000");
  const Blob all = read_all(*source);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(all.bytes.data()), all.bytes.size()), content);
  EXPECT_EQ(server.count_in_log("bytes=80000-99999"), 1) << server.log();
}

TEST(RemoteFile, ComesBackAfterAStall) {
  WebServer server;
  const std::string url = server.add_file("a", pattern(5000));
  const auto source = open_remote(std::make_shared<HttpClient>(impatient()), {.url = url});
  server.fault("/files/a", "stall", 1, "100");
  EXPECT_EQ(read_all(*source).bytes.size(), 5000U);
  EXPECT_EQ(server.count_in_log("bytes=100-4999"), 1);
}

TEST(RemoteFile, OfAServerWithoutRangesIsFetchedOnce) {
  WebServer server;
  const std::string content = pattern(5000), url = server.add_file("a", content);
  server.fault("/files/a", "no_range", 2);
  const auto source = open_remote(std::make_shared<HttpClient>(quick_retries()), {.url = url});
  EXPECT_FALSE(source->has_ranges());
  std::vector<std::byte> bytes(10);
  source->read(4000, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 10), content.substr(4000, 10));
}

TEST(RemoteFile, IsRefusedWhereRangesAreNotWhatWasAskedFor) {
  WebServer server;
  const std::string url = server.add_file("a", pattern(5000));
  const auto source = open_remote(std::make_shared<HttpClient>(quick_retries()), {.url = url});
  std::vector<std::byte> bytes(100);
  server.fault("/files/a", "no_range");
  EXPECT_NE(message_of<HttpError>([&] { source->read(10, bytes); }).find("whole file"), std::string::npos);
  server.fault("/files/a", "other_range");
  EXPECT_NE(message_of<HttpError>([&] { source->read(10, bytes); }).find("asked for bytes from 10"),
            std::string::npos);
  server.add_file("a", pattern(6000));
  EXPECT_NE(message_of<HttpError>([&] { source->read(10, bytes); }).find("changed while it was read"),
            std::string::npos);
}

TEST(RemoteFile, LargerThanTheLimitIsNotRead) {
  WebServer server;
  const std::string url = server.add_file("a", pattern(5000));
  HttpOptions options = quick_retries();
  options.max_bytes = 4999;
  EXPECT_NE(message_of<HttpError>([&] {
              open_remote(std::make_shared<HttpClient>(options), {.url = url});
            }).find("limit"),
            std::string::npos);
  server.fault("/files/a", "no_range", 2);
  EXPECT_THROW(open_remote(std::make_shared<HttpClient>(options), {.url = url}), HttpError);
}

TEST(MemorySource, ReadsWhatItWasGiven) {
  const auto source = bytes_of(memory_blob("here", std::vector<std::byte>(7, std::byte{5})));
  std::vector<std::byte> bytes(3);
  source->read(4, bytes);
  EXPECT_EQ(bytes[2], std::byte{5});
}

// ---- downloads

class DownloadTest : public ::testing::Test {
 protected:
  WebServer server;
  std::string content = pattern(300'000), url = server.add_file("a", content),
              target = server.directory() + "/out/a";
  HttpClient client{quick_retries()};
  Download wanted{
      .request = {.url = url}, .target = target, .size = content.size(), .sha256 = sha256_hex(content)};
  std::string partial() const { return target + ".incomplete"; }
};

TEST_F(DownloadTest, ArrivesWholeAndLeavesNoPart) {
  std::int64_t arrived = 0;
  wanted.on_bytes = [&](std::int64_t n) { arrived += n; };
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
  EXPECT_FALSE(std::filesystem::exists(partial()));
  EXPECT_EQ(arrived, 300'000);
  EXPECT_TRUE(is_intact(target, wanted));
}

TEST_F(DownloadTest, ContinuesThePartOfAnEarlierRun) {
  make_directories(server.directory() + "/out");
  write_file_atomically(partial(), content.substr(0, 123'456));
  std::int64_t arrived = 0;
  wanted.on_bytes = [&](std::int64_t n) { arrived += n; };
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
  EXPECT_EQ(server.count_in_log("bytes=123456-"), 1);
  EXPECT_EQ(server.count_in_log("/files/a"), 1);
  EXPECT_EQ(arrived, 300'000);
}

TEST_F(DownloadTest, StartsAgainWhereAServerIgnoresTheRange) {
  make_directories(server.directory() + "/out");
  write_file_atomically(partial(), content.substr(0, 1000));
  server.fault("/files/a", "no_range");
  std::int64_t arrived = 0;
  wanted.on_bytes = [&](std::int64_t n) { arrived += n; };
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
  EXPECT_EQ(arrived, 300'000);
}

TEST_F(DownloadTest, SurvivesBrokenStalledAndBusyAnswers) {
  server.fault("/files/a", "cut", 1, "100000");
  server.fault("/files/a", "status", 1, "502");
  server.fault("/files/a", "stall", 1, "50000");
  server.fault("/files/a", "longer", 1, "10");
  HttpClient client{impatient()};
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
}

TEST_F(DownloadTest, DropsAPartThatWasOfAnotherFile) {
  make_directories(server.directory() + "/out");
  write_file_atomically(partial(), std::string(1000, 'x'));
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
  write_file_atomically(partial(), std::string(400'000, 'x'));  // longer than the file
  std::filesystem::remove(target);
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
}

TEST_F(DownloadTest, WithAnotherHashIsRefusedAndNotKept) {
  server.fault("/files/a", "flip", 5);
  const std::string message = message_of<HttpError>([&] { download(client, wanted); });
  EXPECT_NE(message.find("SHA-256"), std::string::npos) << message;
  EXPECT_NE(message.find(wanted.sha256), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_FALSE(std::filesystem::exists(partial()));
}

TEST_F(DownloadTest, GitHashesOfSmallFilesAreChecked) {
  wanted.sha256.clear();
  write_file_atomically(server.directory() + "/local", "hello\n");
  EXPECT_EQ(git_blob_sha1(server.directory() + "/local"),
            "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
  wanted.git_sha1 = std::string(40, '0');
  EXPECT_NE(message_of<HttpError>([&] { download(client, wanted); }).find("git hash"), std::string::npos);
}

TEST_F(DownloadTest, MoreThanAnnouncedIsRefusedAndNotKept) {
  server.fault("/files/a", "extra", 9, "5");
  EXPECT_NE(message_of<HttpError>([&] { download(client, wanted); }).find("more than the 300000"),
            std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(partial()), 0);
}

// libcurl takes what comes before such a connection ends for all of the file.
TEST_F(DownloadTest, ASizeThatIsNoneIsRefused) {
  wanted.size.reset();
  wanted.sha256.clear();
  server.fault("/files/a", "longer", 9, "99999999999999999999999999");
  EXPECT_NE(message_of<HttpError>([&] { download(client, wanted); }).find("which is not a size"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(DownloadTest, EmptyFilesArrive) {
  wanted = {.request = {.url = server.add_file("empty", "")}, .target = target, .size = 0};
  download(client, wanted);
  EXPECT_EQ(read_file(target), "");
  std::filesystem::remove(target);
  wanted.size.reset();
  download(client, wanted);
  EXPECT_EQ(read_file(target), "");
}

TEST_F(DownloadTest, OnAFullDiskSaysSoAndGoesOnLater) {
  {
    const ScopedFault full({.kind = Fault::Kind::no_space, .point = "write", .count = 100'000});
    EXPECT_NE(message_of<IoError>([&] { download(client, wanted); }).find("No space left"),
              std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_EQ(std::filesystem::file_size(partial()), 100'000U);
  download(client, wanted);
  EXPECT_EQ(read_file(target), content);
  EXPECT_EQ(server.count_in_log("bytes=100000-"), 1);
}

TEST_F(DownloadTest, ThatCannotFitIsNotBegun) {
  wanted.size = std::uint64_t{1} << 60;
  EXPECT_THROW(download(client, wanted), IoError);
  EXPECT_EQ(server.count_in_log("/files/a"), 0);
}

}  // namespace
}  // namespace ingot::hub
