#include "ingot/hub/s3.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/support/source_dir.h"
#include "tests/support/web_server.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/hub/byte_source.h"
#include "ingot/hub/resolve.h"
#include "ingot/hub/url.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::hub {
namespace {

using test::message_of;
using test::pattern;
using test::ScopedEnvironment;

const std::string kEmptyHash = sha256_hex(std::string_view());

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
const S3Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

HttpHeaders example_headers(HttpHeaders more = {}) {
  more.insert(more.end(), {{"host", "examplebucket.s3.amazonaws.com"},
                           {"x-amz-content-sha256", kEmptyHash},
                           {"x-amz-date", "20130524T000000Z"}});
  return more;
}

TEST(SigV4, GivesTheSignaturesOfAwsExamples) {
  EXPECT_EQ(sigv4_authorization("GET", "/test.txt", "", example_headers({{"range", "bytes=0-9"}}), kEmptyHash,
                                kExample, "us-east-1"),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_TRUE(sigv4_authorization("GET", "/", encode_query({{"prefix", "J"}, {"max-keys", "2"}}),
                                  example_headers(), kEmptyHash, kExample, "us-east-1")
                  .ends_with("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(S3Location, IsReadAndNonsenseRefused) {
  EXPECT_EQ(parse_s3_url("s3://bucket/a/b c").key, "a/b c");
  EXPECT_TRUE(parse_s3_url("s3://bucket/a/").is_prefix());
  EXPECT_TRUE(parse_s3_url("s3://bucket").is_prefix());
  for (const char* bad : {"s3:/bucket", "s3://", "s3://B/x", "s3://a_b/x"}) {
    EXPECT_THROW(parse_s3_url(bad), InvalidConfig) << bad;
  }
}

TEST(S3Config, ComesFromTheEnvironmentThenTheProfile) {
  test::TemporaryDirectory home;
  write_file_atomically(home.at("credentials"),
                        "[default]\naws_access_key_id = A\naws_secret_access_key=B\n# c\n"
                        "[other]\naws_access_key_id = C\naws_secret_access_key = D\naws_session_token = E\n");
  write_file_atomically(
      home.at("config"),
      "[default]\nregion = eu-west-1\n[profile other]\nregion=eu-north-1\n"
      "endpoint_url = https://store.example/\ns3 =\n  endpoint_url = https://wrong.example\n");
  const ScopedEnvironment base({{"AWS_SHARED_CREDENTIALS_FILE", home.at("credentials")},
                                {"AWS_CONFIG_FILE", home.at("config")},
                                {"AWS_ACCESS_KEY_ID", ""},
                                {"AWS_SECRET_ACCESS_KEY", ""},
                                {"AWS_SESSION_TOKEN", ""},
                                {"AWS_REGION", ""},
                                {"AWS_DEFAULT_REGION", ""},
                                {"AWS_PROFILE", ""},
                                {"AWS_ENDPOINT_URL", ""},
                                {"AWS_ENDPOINT_URL_S3", ""}});
  EXPECT_EQ(S3Config::from_environment().credentials->access_key, "A");
  EXPECT_EQ(S3Config::from_environment().region, "eu-west-1");
  {
    const ScopedEnvironment other(test::Settings{{"AWS_PROFILE", "other"}});
    const S3Config config = S3Config::from_environment();
    EXPECT_EQ(config.credentials->session_token, "E");
    EXPECT_EQ(config.region, "eu-north-1");
    EXPECT_EQ(config.endpoint, "https://store.example");
  }
  const ScopedEnvironment missing(test::Settings{{"AWS_PROFILE", "nobody"}});
  EXPECT_NE(message_of<InvalidConfig>([] { S3Config::from_environment(); }).find("nobody"),
            std::string::npos);
  const ScopedEnvironment given(
      {{"AWS_ACCESS_KEY_ID", "X"}, {"AWS_SECRET_ACCESS_KEY", "Y"}, {"AWS_PROFILE", ""}});
  EXPECT_EQ(S3Config::from_environment().credentials->access_key, "X");
  EXPECT_EQ(S3Config::from_environment().credentials->session_token, "");
}

TEST(S3Object, IsAddressedByHostOnAwsAndByPathElsewhere) {
  S3Config config{.region = "eu-west-1"};
  EXPECT_EQ(s3_object(config, {"bucket", "a b/c"}).url, "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c");
  EXPECT_EQ(s3_object(config, {"my.bucket", "k"}).url, "https://s3.eu-west-1.amazonaws.com/my.bucket/k");
  config.endpoint = "http://localhost:9000";
  EXPECT_EQ(s3_object(config, {"bucket", "k"}).url, "http://localhost:9000/bucket/k");
}

TEST(S3Page, IsReadAndNonsenseRefused) {
  const S3Page page = parse_s3_page(
      "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
      "<Contents><Key>a&amp;b</Key><Size>5</Size><ETag>\"e\"</ETag></Contents></ListBucketResult>",
      "x");
  EXPECT_EQ(page.objects.at(0).key, "a&b");
  EXPECT_EQ(page.next, "t");
  for (const char* bad : {"", "<a/>", "<ListBucketResult>",
                          "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
                          "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_THROW(parse_s3_page(bad, "x"), FormatError) << bad;
  }
}

TEST(S3Page, IsNoLargerThanAPageCanBe) {
  const auto page = [](std::size_t key, std::size_t token) {
    return "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" +
           std::string(token, 't') + "</NextContinuationToken><Contents><Key>" + std::string(key, 'k') +
           "</Key><Size>5</Size></Contents></ListBucketResult>";
  };
  EXPECT_NO_THROW(parse_s3_page(page(1024, 1024), "x"));
  EXPECT_THROW(parse_s3_page(page(1025, 1), "x"), FormatError);
  EXPECT_THROW(parse_s3_page(page(1, 100'000), "x"), FormatError);
  std::string deep;
  for (int i = 0; i < 6'000'000; ++i) deep += "<a>";
  EXPECT_THROW(parse_s3_page(deep, "x"), FormatError);  // before it becomes a tree
}

/// A Python that has a moto which checks signatures rightly: INGOT_TEST_PYTHON, or the system's. Empty where
/// there is none. (moto 5.2.1 refuses what boto3 itself signs where a prefix has a slash; 5.2.5 does not.)
std::string python_with_moto() {
  const char* given = std::getenv("INGOT_TEST_PYTHON");
  const std::string python = given == nullptr ? "python3" : given;
  const std::string check =
      " -c 'import boto3, moto.server; assert tuple(map(int, moto.__version__.split(\".\")[:3])) >= (5, 2, "
      "5)'";
  return std::system((python + check + " 2>/dev/null").c_str()) == 0 ? python : "";
}

class S3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string python = python_with_moto();
    if (python.empty())
      GTEST_SKIP()
          << "no Python with the package moto[server], 5.2.5 or later; INGOT_TEST_PYTHON can name one";
    make_directories(store.at("tiny/sub dir"));
    write_file_atomically(store.at("tiny/config.json"), "{}");
    write_file_atomically(store.at("tiny/sub dir/ü+.txt"), "odd name");
    write_file_atomically(store.at("big.bin"), pattern(100'000));
    const std::vector<StoredTensor> stored{
        StoredTensor::of("b", Tensor::from(std::vector<float>{1, 2, 3}, {3}))};
    write_safetensors(store.at("tiny/model.safetensors"), stored);
    make_directories(store.at("many"));
    for (int i = 0; i < 5; ++i) write_file_atomically(store.at("many/" + std::to_string(i) + ".json"), "{}");
    server = std::make_unique<test::Subprocess>(std::vector<std::string>{
        python, "-B", test::source_dir() + "/tests/support/s3_server.py", store.path()});
    std::istringstream(server->read_line()) >> endpoint >> key >> secret;
    ASSERT_FALSE(secret.empty()) << "the S3 server did not start";
    environment = std::make_unique<ScopedEnvironment>(test::Settings{{"AWS_ACCESS_KEY_ID", key},
                                                                     {"AWS_SECRET_ACCESS_KEY", secret},
                                                                     {"AWS_SESSION_TOKEN", ""},
                                                                     {"AWS_REGION", "us-east-1"},
                                                                     {"AWS_PROFILE", ""},
                                                                     {"AWS_ENDPOINT_URL_S3", ""},
                                                                     {"AWS_ENDPOINT_URL", endpoint},
                                                                     {"INGOT_CACHE_DIR", cache.path()}});
  }
  test::TemporaryDirectory store, cache;
  std::unique_ptr<test::Subprocess> server;
  std::unique_ptr<ScopedEnvironment> environment;
  std::string endpoint, key, secret;
};

// One test, as the server takes seconds to start.
TEST_F(S3Test, ObjectsAreReadListedAndKeptWithSignaturesThatTheServerAccepts) {
  const auto client = std::make_shared<HttpClient>(test::quick_retries());
  const S3Config config = S3Config::from_environment();

  const auto source = open_remote(client, s3_object(config, {"models", "big.bin"}));
  std::vector<std::byte> bytes(10);
  source->read(50'000, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 10),
            pattern(100'000).substr(50'000, 10));

  EXPECT_EQ(list_s3(*client, config, {"models", "many/"}, 2).size(), 5U);  // three pages
  EXPECT_EQ(list_s3(*client, config, {"models", "tiny/sub dir/"}).at(0).key, "tiny/sub dir/ü+.txt");
  EXPECT_EQ(client->request(s3_object(config, {"models", "tiny/sub dir/ü+.txt"})).body, "odd name");

  EXPECT_EQ(open_weights("s3://models/tiny/model.safetensors")->load_tensor("b").to_vector<float>()[2], 3);
  const std::string directory = resolve_model("s3://models/tiny/");
  EXPECT_EQ(read_file(directory + "/config.json"), "{}");
  EXPECT_TRUE(std::filesystem::exists(directory + "/model.safetensors"));
  EXPECT_EQ(read_file(resolve_model("s3://models/big.bin")), pattern(100'000));

  EXPECT_NE(message_of<HttpError>([] { resolve_model("s3://models/nothing.bin"); }).find("NoSuchKey"),
            std::string::npos);
  EXPECT_NE(message_of<HttpError>([] { resolve_model("s3://nowhere/"); }).find("NoSuchBucket"),
            std::string::npos);
  const ScopedEnvironment wrong(test::Settings{{"AWS_SECRET_ACCESS_KEY", "wrong"}});
  const std::string refusal = message_of<HttpError>([] { resolve_model("s3://models/big.bin"); });
  EXPECT_NE(refusal.find("SignatureDoesNotMatch"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("AWS_SECRET_ACCESS_KEY"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace ingot::hub
