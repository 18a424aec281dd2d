#include "ingot/weights/torch.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/blob_source.h"
#include "ingot/weights/byte_reader.h"
#include "ingot/weights/pickle.h"
#include "ingot/weights/state_dict.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

struct TorchType {
  std::string_view storage, dtype;  // "FloatStorage", "float32"
  std::size_t bytes;
  std::optional<DType> ours;
};

constexpr std::array<TorchType, 22> kTorchTypes{{{"FloatStorage", "float32", 4, DType::f32},
                                                 {"DoubleStorage", "float64", 8, DType::f64},
                                                 {"HalfStorage", "float16", 2, DType::f16},
                                                 {"BFloat16Storage", "bfloat16", 2, DType::bf16},
                                                 {"LongStorage", "int64", 8, DType::i64},
                                                 {"IntStorage", "int32", 4, DType::i32},
                                                 {"ShortStorage", "int16", 2, DType::i16},
                                                 {"CharStorage", "int8", 1, DType::i8},
                                                 {"ByteStorage", "uint8", 1, DType::u8},
                                                 {"BoolStorage", "bool", 1, DType::boolean},
                                                 {"", "float8_e4m3fn", 1, DType::f8e4m3},
                                                 {"", "float8_e5m2", 1, DType::f8e5m2},
                                                 {"", "uint16", 2, {}},
                                                 {"", "uint32", 4, {}},
                                                 {"", "uint64", 8, {}},
                                                 {"", "float8_e4m3fnuz", 1, {}},
                                                 {"", "float8_e5m2fnuz", 1, {}},
                                                 {"", "float8_e8m0fnu", 1, {}},
                                                 {"ComplexFloatStorage", "complex64", 8, {}},
                                                 {"ComplexDoubleStorage", "complex128", 16, {}},
                                                 {"QInt8Storage", "qint8", 1, {}},
                                                 {"QUInt8Storage", "quint8", 1, {}}}};

/// A strided tensor may repeat elements; a file of a few bytes may not become gigabytes that way.
constexpr std::uint64_t kMaxRepeatedBytes = std::uint64_t{64} << 20;

/// What both kinds of files have in common: tensors described by a pickle, storages somewhere in the file.
class TorchFile final : public BlobSource<> {
 public:
  explicit TorchFile(Blob blob) : BlobSource(std::move(blob)) {
    if (ZipArchive::matches(blob_.bytes)) {
      read_zip();
    } else {
      read_legacy();
    }
  }

  std::string_view format() const override { return "pytorch"; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    const Layout& layout = layouts_.at(info.name);
    check_storage(layout);
    const Shape shape{std::span<const std::int64_t>(info.shape)};
    if (*info.dtype == DType::boolean) check_booleans(info, layout);
    if (layout.contiguous) return tensor_in(blob_, info.offset, shape, *info.dtype);
    // The piece of storage that the strides reach, then an ordinary strided view of it.
    const Tensor piece = tensor_in(blob_, info.offset, {layout.reach}, *info.dtype);
    View view = contiguous_view(piece.view().data, shape, *info.dtype, kCpu);
    std::ranges::copy(layout.strides, view.strides.begin());
    const NoGrad no_grad;
    return contiguous(Tensor(piece.storage(), view));
  }

  Blob stored(const TensorInfo& info) const override {
    const Layout& layout = layouts_.at(info.name);
    check_storage(layout);
    return layout.contiguous ? part_of(blob_, info.offset, info.bytes) : WeightSource::stored(info);
  }

 private:
  struct Region {
    std::uint64_t offset = 0, bytes = 0;
    const ZipEntry* entry = nullptr;  // null in the older format, which has no checksums
  };
  struct Layout {
    std::vector<std::int64_t> strides;
    std::int64_t reach = 0;  // elements from the first to the last
    bool contiguous = true;
    const ZipEntry* entry = nullptr;
  };

  [[noreturn]] void fail(std::string field, std::string_view problem) const {
    throw FormatError(location(), -1, std::move(field), problem);
  }

  /// FormatError where a storage does not have its checksum.
  void check_storage(const Layout& layout) const {
    if (layout.entry != nullptr) static_cast<void>(archive_->content(*layout.entry));
  }

  void read_zip() {
    const ZipArchive& archive = archive_.emplace(blob_);
    const auto found = std::ranges::find_if(archive.entries(), [](const ZipEntry& entry) {
      return entry.name.ends_with("/data.pkl") || entry.name == "data.pkl";
    });
    if (found == archive.entries().end()) {
      fail("data.pkl", "is missing: this zip archive was not written by torch.save");
    }
    const std::string top = found->name.substr(0, found->name.size() - std::string_view("data.pkl").size());
    const auto order = archive.find(top + "byteorder");
    if (order != nullptr) {
      const Blob text = archive.content(*order);
      const std::string_view word(reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size());
      if (word != "little")
        fail("byteorder", "the file is big-endian; save it again on a little-endian machine");
    }
    for (const ZipEntry& entry : archive.entries()) {
      if (!entry.name.starts_with(top + "data/")) continue;
      if (entry.method != 0) fail(entry.name, "is compressed; torch.save never does that");
      regions_[entry.name.substr(top.size() + 5)] = {entry.offset, entry.size, &entry};
    }
    const Blob program = archive.content(*found);
    describe(read_pickle(program.bytes, location() + ": " + found->name));
  }

  /// Before 1.6: five pickles (magic number, version, machine, tensors, keys), then each storage with its
  /// length.
  void read_legacy() {
    Pickle pickle = read_pickle(blob_.bytes, location());
    for (int i = 0; i < 2; ++i)
      pickle = read_pickle(blob_.bytes, location(), pickle.end);  // version, machine
    const Pickle tensors = read_pickle(blob_.bytes, location(), pickle.end);
    const Pickle keys = read_pickle(blob_.bytes, location(), tensors.end);
    std::map<std::string_view, std::string_view> types;
    for (const PickleValue& value : tensors.values) {
      if (const auto* storage = std::get_if<PickleValue::Storage>(&value.value))
        types[storage->key] = storage->type;
    }
    ByteReader reader(blob_.bytes, location(), keys.end);
    const auto* list = std::get_if<PickleValue::List>(&keys[keys.root].value);
    if (list == nullptr) reader.fail("storage keys", "are not a list");
    for (const PickleValue::Ref ref : list->items) {
      const auto* key = std::get_if<std::string_view>(&keys[ref].value);
      if (key == nullptr) reader.fail("storage keys", "hold something else than a text");
      const std::string field = "storage " + std::string(*key);
      const auto type = types.find(*key);
      if (type == types.end()) reader.fail(field, "belongs to no tensor");
      const std::size_t size = element_bytes(type->second);
      const auto elements = reader.read<std::uint64_t>(field);
      reader.require_items(elements, size, field);
      regions_[std::string(*key)] = {reader.at(), elements * size, nullptr};
      reader.take(elements * size, field);
    }
    describe(tensors);
  }

  std::size_t element_bytes(std::string_view storage) const {
    if (storage == "UntypedStorage") return 1;
    const auto type = std::ranges::find(kTorchTypes, storage, &TorchType::storage);
    if (type == kTorchTypes.end())
      fail(std::string(storage), "is a kind of storage that Ingot does not know");
    return type->bytes;
  }

  const TorchType& type_of(const PickleValue::Tensor& tensor, const PickleValue::Storage& storage) const {
    const auto type = tensor.dtype.empty() ? std::ranges::find(kTorchTypes, storage.type, &TorchType::storage)
                                           : std::ranges::find(kTorchTypes, tensor.dtype, &TorchType::dtype);
    if (type == kTorchTypes.end()) {
      fail(std::string(tensor.dtype.empty() ? storage.type : tensor.dtype),
           "is a type that Ingot does not know");
    }
    return *type;
  }

  void describe(const Pickle& pickle) {
    StateDict state =
        flatten_state_dict(pickle, std::filesystem::path(location()).stem().string(), location());
    std::vector<TensorInfo> tensors;
    for (const StateDict::Entry& entry : state.tensors) {
      tensors.push_back(
          describe(entry.name, std::get<PickleValue::Tensor>(pickle[entry.tensor].value), pickle));
    }
    find_tied(tensors);
    set_contents(std::move(tensors), std::move(state.metadata));
  }

  void find_tied(std::vector<TensorInfo>& tensors) const {
    using Place =
        std::tuple<std::uint64_t, std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>;
    std::map<Place, const TensorInfo*> there;
    for (TensorInfo& info : tensors) {
      if (info.bytes == 0) continue;
      const Place place{info.offset, info.stored_as, info.shape, layouts_.at(info.name).strides};
      const auto [first, is_new] = there.try_emplace(place, &info);
      if (!is_new) info.same_as = first->second->name;
    }
  }

  TensorInfo describe(const std::string& name, const PickleValue::Tensor& tensor, const Pickle& pickle) {
    const auto& storage = std::get<PickleValue::Storage>(pickle[tensor.storage].value);
    const TorchType& type = type_of(tensor, storage);
    const auto found = regions_.find(std::string(storage.key));
    if (found == regions_.end()) fail(name, fmt::format("its storage '{}' is not in the file", storage.key));
    const Region& region = found->second;
    Layout layout = layout_of(name, tensor);
    const auto held = static_cast<std::int64_t>(region.bytes / type.bytes);
    std::int64_t first = 0;
    const bool fits = tensor.offset >= 0 &&
                      !__builtin_add_overflow(tensor.offset, storage.view_offset, &first) && first <= held &&
                      layout.reach <= held - first;
    if (!fits) {
      fail(name,
           fmt::format("shape {} with strides {} from element {} reaches beyond its storage's {} elements",
                       to_string(tensor.shape), to_string(tensor.strides), tensor.offset, held));
    }
    TensorInfo info;
    info.name = name;
    info.shape = tensor.shape;
    info.dtype = type.ours;
    info.stored_as = type.dtype;
    info.bytes = static_cast<std::uint64_t>(info.numel()) * type.bytes;
    info.offset = region.offset + static_cast<std::uint64_t>(first) * type.bytes;
    info.file = location();
    if (info.bytes > std::max(region.bytes, kMaxRepeatedBytes)) {
      fail(name, fmt::format("shape {} repeats the {} bytes of its storage to {}", to_string(info.shape),
                             region.bytes, info.bytes));
    }
    layout.entry = region.entry;
    layouts_.emplace(name, std::move(layout));
    return info;
  }

  Layout layout_of(const std::string& name, const PickleValue::Tensor& tensor) const {
    Layout layout{tensor.strides, 1, true};
    std::int64_t expected = 1;  // stride of a contiguous tensor, from the last axis
    bool empty = false, overflow = false;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      const std::int64_t size = tensor.shape[i], stride = tensor.strides[i];
      if (size < 0 || stride < 0)
        fail(name, fmt::format("has a negative size or stride ({}, {})", size, stride));
      empty |= size == 0;
      if (size > 1 && stride != expected) layout.contiguous = false;
      std::int64_t span = 0;
      overflow |= __builtin_mul_overflow(std::max<std::int64_t>(size, 1) - 1, stride, &span) ||
                  __builtin_add_overflow(layout.reach, span, &layout.reach) ||
                  __builtin_mul_overflow(expected, std::max<std::int64_t>(size, 1), &expected);
    }
    if (overflow || expected > INT64_MAX / 16) {
      fail(name, fmt::format("shape {} with strides {} overflows", to_string(tensor.shape),
                             to_string(tensor.strides)));
    }
    if (empty) return {tensor.strides, 0, true};
    return layout;
  }

  void check_booleans(const TensorInfo& info, const Layout& layout) const {
    const auto values = blob_.bytes.subspan(info.offset, static_cast<std::size_t>(layout.reach));
    const auto bad = std::ranges::find_if(values, [](std::byte b) { return b > std::byte{1}; });
    INGOT_CHECK(bad == values.end(),
                FormatError(location(), static_cast<std::int64_t>(info.offset) + (bad - values.begin()),
                            info.name, "holds a byte other than 0 and 1 as a boolean"));
  }

  std::optional<ZipArchive> archive_;
  std::map<std::string, Region> regions_;
  std::map<std::string, Layout, std::less<>> layouts_;
};

}  // namespace

std::unique_ptr<WeightSource> open_torch(Blob blob) { return std::make_unique<TorchFile>(std::move(blob)); }

bool is_legacy_torch(std::span<const std::byte> start) {
  // A pickle of protocol 2 that holds the number 0x1950a86a20f9469cfc6c.
  static constexpr std::string_view kMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  const std::string_view text(reinterpret_cast<const char*>(start.data()),
                              std::min(start.size(), kMagic.size()));
  return text == kMagic;
}

}  // namespace ingot
