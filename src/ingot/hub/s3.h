#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/hub/http.h"

// Signature version 4: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

namespace ingot::hub {

/// "s3://bucket/key"; a key that is empty or ends in '/' names everything below it.
struct S3Location {
  std::string bucket, key;
  bool is_prefix() const { return key.empty() || key.ends_with('/'); }
};
/// InvalidConfig where the text is not such an address or the bucket's name is not allowed.
S3Location parse_s3_url(std::string_view text);

struct S3Credentials {
  std::string access_key, secret_key, session_token;
};

struct S3Config {
  std::optional<S3Credentials> credentials;  ///< none: requests are not signed (public buckets)
  std::string region = "us-east-1";
  /// "https://storage.example.org": buckets are then in the path. Empty: AWS, where they are in the host
  /// name.
  std::string endpoint;

  /// As AWS' own tools read them. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
  /// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL go before the profile AWS_PROFILE
  /// ("default") of ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE).
  static S3Config from_environment();
};

/// The settings of one profile in the text of a credentials or config file: [name] or [profile name], then
/// "key = value". `config` file or not decides which of both forms a section has. Later lines win.
std::vector<std::pair<std::string, std::string>> parse_aws_profile(std::string_view text,
                                                                   std::string_view profile);

/// The Authorization header's value for a request whose other headers (x-amz-date among them) stand already.
/// `headers` are all that get signed, names in lower case; `host` is one of them.
std::string sigv4_authorization(const std::string& method, const std::string& path, const std::string& query,
                                HttpHeaders headers, const std::string& payload_sha256,
                                const S3Credentials& credentials, const std::string& region);

/// A GET of an object, signed anew for each attempt.
HttpRequest s3_object(const S3Config& config, const S3Location& location);

/// One object of a listing.
struct S3Object {
  std::string key, etag;
  std::uint64_t size = 0;
};
/// All objects below a prefix (ListObjectsV2), however many pages that takes; 1000 is the most that stores
/// give.
std::vector<S3Object> list_s3(HttpClient& client, const S3Config& config, const S3Location& prefix,
                              int page_size = 1000);

/// One page of a listing. FormatError where the XML is not such a page.
struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  ///< continuation token, empty on the last page
};
S3Page parse_s3_page(std::string_view xml, const std::string& name);

/// The server's refusal in words: the code and message of its XML.
std::string s3_problem(const HttpResponse& response);

}  // namespace ingot::hub
