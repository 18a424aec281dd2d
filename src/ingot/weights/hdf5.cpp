#include "ingot/weights/hdf5.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <zlib.h>

#include "ingot/base/error.h"
#include "ingot/weights/blob_source.h"
#include "ingot/weights/deflate.h"
#include "ingot/weights/hdf5_file.h"

namespace ingot {
namespace {

constexpr std::uint16_t kDeflate = 1, kShuffle = 2, kFletcher = 3;
constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};  // nothing was ever written

std::vector<std::byte> inflated(std::span<const std::byte> from, std::size_t size, const std::string& file,
                                const std::string& path) {
  std::vector<std::byte> to(size);
  auto length = static_cast<uLongf>(size);
  const int status = uncompress(reinterpret_cast<Bytef*>(to.data()), &length,
                                reinterpret_cast<const Bytef*>(from.data()), static_cast<uLong>(from.size()));
  INGOT_CHECK(status == Z_OK && length == size,
              FormatError(file, -1, path,
                          fmt::format("a chunk does not inflate to its {} bytes; it is damaged", size)));
  return to;
}

/// Shuffled: the first bytes of all elements, then the second bytes, ...
std::vector<std::byte> unshuffled(const std::vector<std::byte>& from, std::size_t element) {
  std::vector<std::byte> to(from.size());
  const std::size_t count = from.size() / element;
  for (std::size_t byte = 0; byte < element; ++byte) {
    for (std::size_t i = 0; i < count; ++i) to[i * element + byte] = from[byte * count + i];
  }
  return to;
}

class Hdf5File final : public WeightSource {
 public:
  explicit Hdf5File(Blob blob) : WeightSource(blob.name), blob_(std::move(blob)) {
    Hdf5Contents contents = read_hdf5(blob_.bytes, location());
    std::vector<TensorInfo> tensors;
    for (Hdf5Dataset& dataset : contents.datasets) {
      tensors.push_back(describe(dataset));
      const std::string path = dataset.path;
      INGOT_CHECK(datasets_.emplace(path, std::move(dataset)).second,
                  FormatError(location(), -1, path, "two datasets have this path"));
    }
    check_sizes(tensors);
    set_contents(std::move(tensors), std::move(contents.attributes));
  }

  std::string_view format() const override { return "hdf5"; }
  WeightCapabilities capabilities() const override { return {.zero_copy = true, .concurrent = true}; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    INGOT_CHECK(
        !too_large_.contains(info.name),
        FormatError(location(), -1, info.name,
                    fmt::format("claims {} bytes, which with the others is more than a file of {} can "
                                "hold compressed: most of it was never written, or it is damaged",
                                info.bytes, blob_.bytes.size())));
    const Hdf5Dataset& dataset = datasets_.at(info.name);
    const Shape shape{std::span<const std::int64_t>(info.shape)};
    Tensor tensor;
    if (dataset.layout.kind == Hdf5Layout::Kind::chunked && info.numel() > 0) {
      tensor = assembled(dataset, shape, *info.dtype);
    } else {
      tensor = tensor_in(blob_, info.offset, shape, *info.dtype);
    }
    if (dataset.type.big_endian && dataset.type.size > 1) tensor = swapped(tensor);
    check_booleans(info, {static_cast<const std::byte*>(tensor.view().data), tensor.nbytes()});
    return tensor;
  }

  Blob stored(const TensorInfo& info) const override {
    const bool whole = datasets_.at(info.name).layout.kind == Hdf5Layout::Kind::contiguous;
    return whole ? part_of(blob_, info.offset, info.bytes) : WeightSource::stored(info);
  }

 private:
  TensorInfo describe(const Hdf5Dataset& dataset) const {
    TensorInfo info;
    info.name = dataset.path;
    info.shape = dataset.shape;
    info.stored_as = dataset.type.name();
    info.dtype = dataset.type.dtype();
    info.file = location();
    std::uint64_t bytes = dataset.type.size;
    bool empty = false;
    for (const std::int64_t size : dataset.shape) {
      empty |= size == 0;
      INGOT_CHECK(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)),
                                          &bytes) &&
                      bytes <= INT64_MAX,
                  FormatError(location(), -1, dataset.path,
                              fmt::format("shape {} overflows", to_string(dataset.shape))));
    }
    info.bytes = empty ? 0 : bytes;
    if (dataset.layout.kind == Hdf5Layout::Kind::contiguous) {
      info.offset = dataset.layout.address;
      INGOT_CHECK(dataset.layout.size >= info.bytes,
                  FormatError(location(), static_cast<std::int64_t>(info.offset), dataset.path,
                              fmt::format("has {} bytes, but shape {} takes {}", dataset.layout.size,
                                          to_string(dataset.shape), info.bytes)));
    } else if (dataset.layout.kind == Hdf5Layout::Kind::none && info.bytes > 0) {
      info.dtype.reset();  // there is nothing to be loaded
      info.stored_as += " (never written)";
    }
    return info;
  }

  /// Refuses datasets that share their bytes, and notes those that compression cannot have made: converted, a
  /// small file would fill a disk.
  void check_sizes(const std::vector<TensorInfo>& tensors) {
    std::vector<const TensorInfo*> whole;
    std::uint64_t left = 0;
    if (__builtin_mul_overflow(blob_.bytes.size(), kMaxDeflateRatio, &left)) left = UINT64_MAX;
    for (const TensorInfo& info : tensors) {
      const Hdf5Layout& layout = datasets_.at(info.name).layout;
      if (layout.kind == Hdf5Layout::Kind::contiguous && info.bytes > 0) whole.push_back(&info);
      if (layout.kind != Hdf5Layout::Kind::chunked || layout.address == kNoAddress) continue;
      if (info.bytes > left)
        too_large_.insert(info.name);
      else
        left -= info.bytes;
    }
    std::ranges::sort(whole, {}, &TensorInfo::offset);
    for (std::size_t i = 1; i < whole.size(); ++i) {
      INGOT_CHECK(whole[i - 1]->bytes <= whole[i]->offset - whole[i - 1]->offset,
                  FormatError(location(), static_cast<std::int64_t>(whole[i]->offset), whole[i]->name,
                              fmt::format("lies inside '{}': they overlap", whole[i - 1]->name)));
    }
  }

  /// FormatError where the chunks cannot hold `chunk_bytes` each.
  void check_chunks(const Hdf5Dataset& dataset, const std::vector<Hdf5Chunk>& chunks, std::size_t chunk_bytes,
                    std::uint64_t all_bytes) const {
    constexpr std::uint64_t kAnyway = std::uint64_t{64} << 20;  // of a dataset that may grow
    for (const auto& filter : dataset.filters) {
      INGOT_CHECK(filter.id == kDeflate || filter.id == kShuffle || filter.id == kFletcher,
                  NotImplemented(fmt::format("{}: filter {} of '{}'", location(), filter.id, dataset.path)));
    }
    INGOT_CHECK(
        chunk_bytes <= std::max(all_bytes, kAnyway),
        FormatError(location(), -1, dataset.path,
                    fmt::format("has chunks of {} bytes, but {} in all; beyond 64 MiB they may not be larger",
                                chunk_bytes, all_bytes)));
    for (const Hdf5Chunk& chunk : chunks) {
      bool deflated = false;
      for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
        const bool used = i >= 32 || (chunk.skipped_filters >> i & 1) == 0;
        deflated |= used && dataset.filters[i].id == kDeflate;
      }
      INGOT_CHECK(chunk_bytes / (deflated ? kMaxDeflateRatio : 1) <= chunk.size,
                  FormatError(location(), static_cast<std::int64_t>(chunk.address), dataset.path,
                              fmt::format("a chunk claims to become {} bytes from {}, which cannot be",
                                          chunk_bytes, chunk.size)));
    }
  }

  Tensor assembled(const Hdf5Dataset& dataset, const Shape& shape, DType dtype) const {
    const std::size_t element = dataset.type.size;
    // Also sees to it that chunks have the dataset's axes, and one more for the element.
    const std::vector<Hdf5Chunk> chunks = read_hdf5_chunks(blob_.bytes, location(), dataset);
    std::size_t chunk_bytes = element;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool too_many = __builtin_mul_overflow(
          chunk_bytes, dataset.layout.chunk_shape[static_cast<std::size_t>(axis)], &chunk_bytes);
      INGOT_CHECK(!too_many && dataset.layout.chunk_shape.back() == element,
                  FormatError(location(), -1, dataset.path, "has chunks of an impossible shape"));
    }
    check_chunks(dataset, chunks, chunk_bytes, static_cast<std::uint64_t>(shape.numel()) * element);
    Tensor tensor = Tensor::empty(shape, dtype);
    for (const Hdf5Chunk& chunk : chunks) {
      const std::vector<std::byte> values = unfiltered(dataset, chunk, chunk_bytes);
      place(values, chunk, dataset, tensor);
    }
    return tensor;
  }

  std::vector<std::byte> unfiltered(const Hdf5Dataset& dataset, const Hdf5Chunk& chunk,
                                    std::size_t chunk_bytes) const {
    const Blob stored = on_loan(part_of(blob_, chunk.address, chunk.size));
    std::vector<std::byte> bytes(stored.bytes.begin(), stored.bytes.end());
    for (std::size_t i = dataset.filters.size(); i-- > 0;) {
      if (i < 32 && (chunk.skipped_filters >> i & 1) != 0) continue;
      const std::uint16_t id = dataset.filters[i].id;  // of those that check_chunks knows
      if (id == kDeflate) bytes = inflated(bytes, chunk_bytes, location(), dataset.path);
      if (id == kShuffle) bytes = unshuffled(bytes, dataset.type.size);
      if (id == kFletcher && bytes.size() >= 4) bytes.resize(bytes.size() - 4);
    }
    INGOT_CHECK(
        bytes.size() == chunk_bytes,
        FormatError(location(), static_cast<std::int64_t>(chunk.address), dataset.path,
                    fmt::format("a chunk has {} bytes; its shape takes {}", bytes.size(), chunk_bytes)));
    return bytes;
  }

  /// Copies a chunk's rows to their offsets; those at the edge reach beyond the dataset.
  static void place(const std::vector<std::byte>& values, const Hdf5Chunk& chunk, const Hdf5Dataset& dataset,
                    const Tensor& tensor) {
    const std::size_t element = dataset.type.size, rank = dataset.shape.size();
    auto* out = static_cast<std::byte*>(tensor.view().data);
    if (rank == 0) {
      std::memcpy(out, values.data(), element);
      return;
    }
    const auto& sizes = dataset.layout.chunk_shape;
    const auto size_of = [&](std::size_t axis) { return static_cast<std::uint64_t>(dataset.shape[axis]); };
    const std::size_t row =
        static_cast<std::size_t>(std::min(sizes[rank - 1], size_of(rank - 1) - chunk.offset[rank - 1]));
    std::vector<std::uint64_t> index(rank, 0);
    while (true) {
      std::size_t from = 0, to = 0;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        from = from * static_cast<std::size_t>(sizes[axis]) + static_cast<std::size_t>(index[axis]);
        to = to * static_cast<std::size_t>(size_of(axis)) +
             static_cast<std::size_t>(chunk.offset[axis] + index[axis]);
      }
      std::memcpy(out + to * element, values.data() + from * element, row * element);
      std::size_t axis = rank - 1;
      while (axis-- > 0) {
        if (++index[axis] < sizes[axis] && chunk.offset[axis] + index[axis] < size_of(axis)) break;
        index[axis] = 0;
      }
      if (axis == static_cast<std::size_t>(-1)) return;
    }
  }

  static Tensor swapped(const Tensor& from) {
    Tensor to = Tensor::empty_like(from);
    const std::size_t size = byte_size(from.dtype());
    const auto* in = static_cast<const std::byte*>(from.view().data);
    auto* out = static_cast<std::byte*>(to.view().data);
    for (std::size_t i = 0; i < from.nbytes(); i += size) std::reverse_copy(in + i, in + i + size, out + i);
    return to;
  }

  Blob blob_;
  std::map<std::string, Hdf5Dataset> datasets_;
  std::set<std::string> too_large_;  // for the file
};

}  // namespace

std::unique_ptr<WeightSource> open_hdf5(Blob blob) { return std::make_unique<Hdf5File>(std::move(blob)); }

bool is_hdf5(std::span<const std::byte> start) {
  static constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  const std::string_view text(reinterpret_cast<const char*>(start.data()),
                              std::min<std::size_t>(start.size(), 8));
  return text == kSignature;
}

}  // namespace ingot
