#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ingot/hub/http.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot::hub {

/// Something of known size whose bytes are read in ranges: an object on a server, or bytes at hand. Reading
/// is safe from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Address or path, for messages.
  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  /// Fills `to` with the bytes from `offset` on; the range must lie inside. IoError otherwise.
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// Whether a small read costs little; otherwise all bytes come in any case.
  virtual bool has_ranges() const { return true; }

 protected:
  ByteSource(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}
  std::string name_;
  std::uint64_t size_;
};

using ByteSourcePtr = std::shared_ptr<const ByteSource>;

/// A blob as a source; nothing is copied before it is read.
ByteSourcePtr bytes_of(Blob blob);

/// What the server at `request` says of a file. One small request; a server that ignores ranges is noticed.
struct RemoteFile {
  HttpRequest request;
  std::uint64_t size = 0;
  std::string etag;  ///< empty where there is none
  bool has_size = false, has_ranges = false;
};
RemoteFile look_at(HttpClient& client, const HttpRequest& request);

/// A file on a server, read by range requests that are repeated, from where they stopped, as the client's
/// options allow. HttpError for a server that sends another range, a body shorter than announced, or a file
/// that changed since it was opened. A server without ranges is asked once, for everything.
ByteSourcePtr open_remote(std::shared_ptr<HttpClient> client, const HttpRequest& request);

/// Everything, in memory. Refuses more than the client's limit, or than memory takes.
Blob read_all(const ByteSource& source);

/// A .safetensors file without having it: its header takes two small reads, each tensor one when it is
/// loaded.
std::unique_ptr<WeightSource> open_remote_safetensors(ByteSourcePtr source);

}  // namespace ingot::hub
