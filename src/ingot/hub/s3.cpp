#include "ingot/hub/s3.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pugixml.hpp>

#include "ingot/base/hash.h"
#include "ingot/base/printable.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

/// Where a bucket is, and the path of `key` in it: in the host name on AWS (but for names with dots, which no
/// certificate covers), else in the path.
Url address(const S3Config& config, const S3Location& location) {
  Url url;
  if (!config.endpoint.empty()) {
    url = parse_url(config.endpoint);
    if (url.path == "/") url.path.clear();
    url.path += "/" + location.bucket;
  } else if (location.bucket.find('.') != std::string::npos) {
    url = {"https", fmt::format("s3.{}.amazonaws.com", config.region), "/" + location.bucket, ""};
  } else {
    url = {"https", fmt::format("{}.s3.{}.amazonaws.com", location.bucket, config.region), "", ""};
  }
  url.path += "/" + percent_encode(location.key, true);
  return url;
}

HttpRequest request_for(const S3Config& config, const Url& url) {
  HttpRequest request;
  request.url =
      fmt::format("{}://{}{}{}{}", url.scheme, url.host, url.path, url.query.empty() ? "" : "?", url.query);
  request.explain = s3_problem;
  request.sign = [config, url](HttpRequest& to_sign) {
    if (!config.credentials) return;
    const std::string empty_hash = sha256_hex(std::string_view());
    HttpHeaders headers{{"host", url.host},
                        {"x-amz-content-sha256", empty_hash},
                        {"x-amz-date", fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr)))}};
    if (!config.credentials->session_token.empty()) {
      headers.emplace_back("x-amz-security-token", config.credentials->session_token);
    }
    std::string authorization = sigv4_authorization(to_sign.method, url.path, url.query, headers, empty_hash,
                                                    *config.credentials, config.region);
    for (auto& header : headers) {
      if (header.first != "host") to_sign.headers.push_back(std::move(header));  // curl writes that one
    }
    to_sign.headers.emplace_back("Authorization", std::move(authorization));
  };
  return request;
}

}  // namespace

S3Location parse_s3_url(std::string_view text) {
  const std::string shown(text);
  INGOT_CHECK(text.starts_with("s3://"),
              InvalidConfig(shown, "is not an address in S3; write s3://bucket/key"));
  text.remove_prefix(5);
  const std::size_t slash = text.find('/');
  S3Location location{std::string(text.substr(0, slash)),
                      slash == text.npos ? "" : std::string(text.substr(slash + 1))};
  const bool allowed = location.bucket.size() >= 3 && location.bucket.size() <= 63 &&
                       std::ranges::all_of(location.bucket, [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
                       });
  INGOT_CHECK(allowed, InvalidConfig(shown, "names no bucket (3 to 63 of a-z, 0-9, '-' and '.')"));
  return location;
}

HttpRequest s3_object(const S3Config& config, const S3Location& location) {
  return request_for(config, address(config, location));
}

S3Page parse_s3_page(std::string_view xml, const std::string& name) {
  constexpr std::size_t kLongestPage = std::size_t{16} << 20;  // as a tree it takes 25 times that at most
  constexpr std::size_t kLongestKey = 1024;
  INGOT_CHECK(xml.size() <= kLongestPage,
              FormatError(name, 0, "ListBucketResult",
                          fmt::format("has {} bytes; a page of 1000 objects has at most {}", xml.size(),
                                      kLongestPage)));
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  INGOT_CHECK(parsed, FormatError(name, parsed.offset, "xml", parsed.description()));
  const pugi::xml_node root = document.child("ListBucketResult");
  INGOT_CHECK(root,
              FormatError(name, 0, "ListBucketResult", "is missing: this is not a listing of a bucket"));
  S3Page page;
  for (const pugi::xml_node& node : root.children("Contents")) {
    S3Object object{node.child_value("Key"), node.child_value("ETag")};
    const std::string_view size = node.child_value("Size");
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
    INGOT_CHECK(
        !object.key.empty() && error == std::errc() && end == size.data() + size.size(),
        FormatError(name, node.offset_debug(), "Contents", "lacks a key, or a size that is a number"));
    INGOT_CHECK(object.key.size() <= kLongestKey && object.etag.size() <= kLongestKey,
                FormatError(name, node.offset_debug(), "Contents",
                            fmt::format("has a key of {} bytes and a tag of {}; at most {} are allowed",
                                        object.key.size(), object.etag.size(), kLongestKey)));
    std::erase(object.etag, '"');
    page.objects.push_back(std::move(object));
  }
  if (std::string_view(root.child_value("IsTruncated")) == "true") {
    page.next = root.child_value("NextContinuationToken");
    INGOT_CHECK(!page.next.empty(),
                FormatError(name, 0, "NextContinuationToken", "is missing, though there are more pages"));
    INGOT_CHECK(
        page.next.size() <= 4 * kLongestKey,
        FormatError(name, 0, "NextContinuationToken",
                    fmt::format("has {} bytes; at most {} are read", page.next.size(), 4 * kLongestKey)));
  }
  return page;
}

std::string s3_problem(const HttpResponse& response) {
  constexpr std::size_t kLongestError = 64 << 10;
  pugi::xml_document document;
  document.load_buffer(response.body.data(), std::min(response.body.size(), kLongestError));
  const pugi::xml_node error = document.child("Error");
  const std::string region = response.header("x-amz-bucket-region");
  std::string text = fmt::format("the store answers {}", response.status);
  if (error)
    text += fmt::format(": {} ({})", printable(error.child_value("Message")),
                        printable(error.child_value("Code")));
  if (!region.empty() && (response.status == 301 || response.status == 307 || response.status == 400)) {
    text += fmt::format("; the bucket is in {}: set AWS_REGION", region);
  } else if (response.status == 403) {
    text += "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE and AWS_REGION";
  }
  return text;
}

std::vector<S3Object> list_s3(HttpClient& client, const S3Config& config, const S3Location& prefix,
                              int page_size) {
  constexpr std::size_t kMostObjects = 100'000;
  constexpr int kMostPages = 1000;
  constexpr std::chrono::minutes kLongest(10);
  const auto began = std::chrono::steady_clock::now();
  const std::string bucket = "s3://" + prefix.bucket;
  std::set<std::string> tokens;  // of pages
  std::vector<S3Object> all;
  std::string next;
  int pages = 0;
  do {
    INGOT_CHECK(all.size() <= kMostObjects && ++pages <= kMostPages,
                HttpError(bucket, fmt::format("lists more than {} objects or {} pages below '{}'; name a "
                                              "longer prefix",
                                              kMostObjects, kMostPages, prefix.key)));
    Url url = address(config, {prefix.bucket, ""});
    std::vector<std::pair<std::string, std::string>> query{
        {"list-type", "2"}, {"prefix", prefix.key}, {"max-keys", std::to_string(page_size)}};
    if (!next.empty()) query.emplace_back("continuation-token", next);
    url.query = encode_query(std::move(query));
    const HttpRequest request = request_for(config, url);
    const HttpResponse response = client.request(request);
    if (response.status != 200) throw_refusal(request, response);
    S3Page page = parse_s3_page(response.body, bucket);
    all.insert(all.end(), std::make_move_iterator(page.objects.begin()),
               std::make_move_iterator(page.objects.end()));
    INGOT_CHECK(page.next.empty() || tokens.insert(page.next).second,
                HttpError(bucket, "lists the same page again and again"));
    INGOT_CHECK(page.next.empty() || std::chrono::steady_clock::now() - began < kLongest,
                HttpError(bucket, fmt::format("was not listed in {} minutes; name a longer prefix than '{}'",
                                              kLongest.count(), prefix.key)));
    next = page.next;
  } while (!next.empty());
  return all;
}

}  // namespace ingot::hub
