#include "ingot/hub/byte_source.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "ingot/base/units.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(Blob blob) : ByteSource(blob.name, blob.bytes.size()), blob_(std::move(blob)) {}
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    INGOT_ASSERT(offset <= size() && to.size() <= size() - offset);
    std::ranges::copy(blob_.bytes.subspan(offset, to.size()), to.begin());
  }

 private:
  Blob blob_;
};

/// Throws unless a 206 answers the range that was asked for.
void check_range(const HttpResponse& head, std::uint64_t first, std::uint64_t size) {
  const auto range = parse_content_range(head.header("content-range"));
  INGOT_CHECK(range && range->first == static_cast<std::int64_t>(first),
              HttpError(head.url, fmt::format("was asked for bytes from {}, but sends '{}'", first,
                                              head.header("content-range"))));
  INGOT_CHECK(range->total == -1 || range->total == static_cast<std::int64_t>(size),
              HttpError(head.url,
                        fmt::format("had {} bytes and now has {}: it changed while it was read; start again",
                                    size, range->total)));
}

class HttpSource final : public ByteSource {
 public:
  HttpSource(std::shared_ptr<HttpClient> client, RemoteFile file)
      : ByteSource(printable_url(file.request.url), file.size),
        client_(std::move(client)),
        file_(std::move(file)) {}

  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    INGOT_ASSERT(offset <= size() && to.size() <= size() - offset);
    std::size_t got = 0;
    Backoff backoff(client_->options());
    while (got < to.size()) {
      const std::size_t before = got;
      try {
        read_once(offset, to, got);
        if (got < to.size()) throw HttpError(name(), "sent less than it announced", 206, true);
      } catch (const HttpError& error) {
        backoff.progress(got - before);
        backoff.wait_or_throw(error);
      }
    }
  }

 private:
  /// One request for what is missing; `got` says how much is there, also after an exception.
  void read_once(std::uint64_t offset, std::span<std::byte> to, std::size_t& got) const {
    HttpRequest request = file_.request;
    const std::uint64_t first = offset + got;
    request.headers.emplace_back("Range", fmt::format("bytes={}-{}", first, offset + to.size() - 1));
    const HttpResponse response =
        client_->exchange(request, [&](const HttpResponse& head, std::span<const std::byte> piece) {
          INGOT_CHECK(head.status == 206,
                      HttpError(name(), "answers a range request with the whole file; download it instead",
                                head.status));
          if (got == first - offset) check_head(head, first);
          const std::size_t take = std::min(piece.size(), to.size() - got);
          std::memcpy(to.data() + got, piece.data(), take);
          got += take;
          return take == piece.size();
        });
    throw_if_busy(response);
    if (response.status != 206) throw_refusal(file_.request, response);
  }

  void check_head(const HttpResponse& head, std::uint64_t first) const {
    check_range(head, first, size());
    INGOT_CHECK(file_.etag.empty() || head.etag().empty() || head.etag() == file_.etag,
                HttpError(name(), "changed while it was read; start again"));
  }

  std::shared_ptr<HttpClient> client_;
  RemoteFile file_;
};

/// From a server without ranges: fetched whole when first read.
class WholeSource final : public ByteSource {
 public:
  WholeSource(std::shared_ptr<HttpClient> client, const RemoteFile& file)
      : ByteSource(printable_url(file.request.url), 0) {
    Backoff backoff(client->options());
    HttpRequest request = file.request;
    request.kept = true;
    while (true) {
      bytes_.clear();
      try {
        const HttpResponse response =
            client->exchange(request, [&](const HttpResponse& head, std::span<const std::byte> piece) {
              INGOT_CHECK(bytes_.size() + piece.size() <= kMostWhole,
                          HttpError(head.url, fmt::format("has no ranges and sends more than {}; download it "
                                                          "instead",
                                                          human_bytes(kMostWhole))));
              bytes_.insert(bytes_.end(), piece.begin(), piece.end());
              return true;
            });
        throw_if_busy(response);
        if (response.status != 200) throw_refusal(file.request, response);
        break;
      } catch (const HttpError& error) {
        backoff.wait_or_throw(error);
      }
    }
    size_ = bytes_.size();
  }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    INGOT_ASSERT(offset <= size() && to.size() <= size() - offset);
    std::ranges::copy(std::span(bytes_).subspan(offset, to.size()), to.begin());
  }
  bool has_ranges() const override { return false; }

 private:
  static constexpr std::size_t kMostWhole = std::size_t{256} << 20;  // in memory

  std::vector<std::byte> bytes_;
};

}  // namespace

ByteSourcePtr bytes_of(Blob blob) { return std::make_shared<MemorySource>(std::move(blob)); }

RemoteFile look_at(HttpClient& client, const HttpRequest& request) {
  RemoteFile file{.request = request};
  HttpRequest probe = request;
  probe.headers.emplace_back("Range", "bytes=0-0");
  Backoff backoff(client.options());
  while (true) {
    try {
      // Of a server that sends the whole file the head is enough.
      const HttpResponse response = client.exchange(
          probe, [](const HttpResponse& head, std::span<const std::byte>) { return head.status == 206; });
      throw_if_busy(response);
      const auto range = parse_content_range(response.header("content-range"));
      file.etag = response.etag();
      if ((response.status == 206 || response.status == 416) && range && range->total >= 0) {
        file.size = static_cast<std::uint64_t>(range->total);  // 416: an empty file has no byte 0
        file.has_size = file.has_ranges = true;
      } else if (response.status == 200) {
        file.size = response.content_length().value_or(0);
        file.has_size = response.content_length().has_value();
      } else {
        throw_refusal(request, response);
      }
      break;
    } catch (const HttpError& error) {
      backoff.wait_or_throw(error);
    }
  }
  const std::uint64_t limit = client.options().max_bytes;
  INGOT_CHECK(
      limit == 0 || file.size <= limit,
      HttpError(request.url, fmt::format("has {} bytes, more than the limit of {}", file.size, limit)));
  return file;
}

ByteSourcePtr open_remote(std::shared_ptr<HttpClient> client, const HttpRequest& request) {
  RemoteFile file = look_at(*client, request);
  if (!file.has_ranges) return std::make_shared<WholeSource>(std::move(client), file);
  return std::make_shared<HttpSource>(std::move(client), std::move(file));
}

Blob read_all(const ByteSource& source) {
  std::vector<std::byte> bytes(source.size());
  source.read(0, bytes);
  return memory_blob(source.name(), std::move(bytes));
}

}  // namespace ingot::hub
