#include "ingot/weights/torch_writer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/memory.h"
#include "ingot/weights/tensor_bytes.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

constexpr std::size_t kStorageAlignment = 64;  // in the file: torch.load(mmap=True) reads storages in place

std::string_view storage_class(const std::string& path, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "FloatStorage";
    case DType::f64:
      return "DoubleStorage";
    case DType::f16:
      return "HalfStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::i16:
      return "ShortStorage";
    case DType::i8:
      return "CharStorage";
    case DType::u8:
      return "ByteStorage";
    case DType::boolean:
      return "BoolStorage";
    default:
      throw IoError(
          path, fmt::format("PyTorch files of {} are not written; convert to f32, bf16 or f16", name(dtype)));
  }
}

// The opcodes of pickle's protocol 2 that a state dict takes.
class PickleWriter {
 public:
  PickleWriter() { op('\x80').op('\x02'); }

  PickleWriter& op(char code) {
    bytes_.push_back(code);
    return *this;
  }
  PickleWriter& global(std::string_view module, std::string_view what) {
    bytes_ += fmt::format("c{}\n{}\n", module, what);
    return *this;
  }
  PickleWriter& text(std::string_view value) { return op('X').little_endian(value.size(), 4).raw(value); }
  PickleWriter& number(std::int64_t value) {
    constexpr std::int64_t kMostIn4 = 0x7fffffff;
    if (value >= 0 && value <= kMostIn4) return op('J').little_endian(static_cast<std::uint64_t>(value), 4);
    return op('\x8a').op(8).little_endian(static_cast<std::uint64_t>(value), 8);
  }
  PickleWriter& numbers(std::span<const std::int64_t> values) {
    op('(');
    for (const std::int64_t value : values) number(value);
    return op('t');
  }
  const std::string& bytes() const { return bytes_; }

 private:
  PickleWriter& little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  PickleWriter& raw(std::string_view value) {
    bytes_ += value;
    return *this;
  }

  std::string bytes_;
};

// What one or several tensors lie in.
struct TorchStorage {
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  std::function<Tensor()> values;
};

struct Placed {
  std::size_t storage = 0;
  std::int64_t offset = 0;  // elements
};

// Tensors of one memory that overlap, as tied weights do.
class StorageTable {
 public:
  // `are_there`: values() makes nothing, so that memory can be compared.
  StorageTable(std::span<const StoredTensor> tensors, bool are_there) : placed_(tensors.size()) {
    std::vector<There> there;
    Numbers numbers;
    for (std::size_t i = 0; i < tensors.size(); ++i) numbers[tensors[i].name] = i;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (is_tied(tensors[i], numbers)) continue;
      const Tensor values = are_there ? tensors[i].values() : Tensor{};
      if (values.defined() && values.is_contiguous() && values.nbytes() > 0) {
        there.push_back({i, values});
        continue;
      }
      placed_[i] = {storages_.size(), 0};
      storages_.push_back({tensors[i].dtype, tensors[i].shape.numel(), tensors[i].values});
    }
    // Views of one memory in another dtype are of a storage of their own.
    std::ranges::stable_sort(there, {}, &There::order);
    for (std::size_t first = 0; first < there.size();) first = add_overlapping(there, first);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (is_tied(tensors[i], numbers)) placed_[i] = placed_[numbers.find(tensors[i].same_as)->second];
  }

  const std::vector<TorchStorage>& storages() const { return storages_; }
  const Placed& of(std::size_t tensor) const { return placed_[tensor]; }

 private:
  using Numbers = std::map<std::string_view, std::size_t>;  // by name

  // A tensor's own name may be empty; an empty `same_as` names none.
  static bool is_tied(const StoredTensor& tensor, const Numbers& numbers) {
    return !tensor.same_as.empty() && numbers.contains(tensor.same_as);
  }

  struct There {
    std::size_t index;
    Tensor values;
    std::tuple<const Storage*, DType, const std::byte*> order() const {
      return {values.storage().get(), values.dtype(), begin()};
    }
    const std::byte* begin() const { return values.view().as<std::byte>(); }
    const std::byte* end() const { return begin() + values.nbytes(); }
  };

  // Returns the next one that is of another storage.
  std::size_t add_overlapping(const std::vector<There>& there, std::size_t first) {
    const Tensor& base = there[first].values;
    const std::size_t size = byte_size(base.dtype());
    const std::byte* end = there[first].end();
    std::size_t next = first;
    for (; next < there.size(); ++next) {
      const There& each = there[next];
      const auto apart = static_cast<std::size_t>(each.begin() - there[first].begin());
      if (each.values.storage() != base.storage() || each.values.dtype() != base.dtype() ||
          apart % size != 0 || (next > first && each.begin() >= end))
        break;
      end = std::max(end, each.end());
      placed_[each.index] = {storages_.size(), static_cast<std::int64_t>(apart / size)};
    }
    const auto count = static_cast<std::int64_t>(static_cast<std::size_t>(end - there[first].begin()) / size);
    const Tensor whole(base.storage(),
                       contiguous_view(base.view().data, {count}, base.dtype(), base.device()));
    storages_.push_back({base.dtype(), count, [whole] { return whole; }});
    return next;
  }

  std::vector<Placed> placed_;  // by tensor
  std::vector<TorchStorage> storages_;
};

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(1, shape[static_cast<int>(i)]);
  }
  return strides;
}

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)
void add_tensor(PickleWriter& out, const std::string& path, const StoredTensor& tensor, const Placed& placed,
                const TorchStorage& storage) {
  out.global("torch._utils", "_rebuild_tensor_v2").op('(').op('(').text("storage");
  out.global("torch", storage_class(path, storage.dtype)).text(std::to_string(placed.storage)).text("cpu");
  out.number(storage.elements).op('t').op('Q').number(placed.offset);
  out.numbers(tensor.shape.dims()).numbers(row_major_strides(tensor.shape));
  out.op('\x89').global("collections", "OrderedDict").op(')').op('R').op('t').op('R');
}

std::string state_dict_pickle(const std::string& path, std::span<const StoredTensor> tensors,
                              const StorageTable& table) {
  PickleWriter out;
  out.op('}').op('(');
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.text(tensors[i].name);
    const Placed& placed = table.of(i);
    add_tensor(out, path, tensors[i], placed, table.storages()[placed.storage]);
  }
  return out.op('u').op('.').bytes();
}

void check_names(std::span<const StoredTensor> tensors) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors)
    INGOT_CHECK(names.insert(tensor.name).second,
                InvalidConfig(tensor.name, "two tensors to be stored have this name"));
}

void add_text(ZipWriter& archive, const std::string& name, std::string_view text) {
  archive.add(name, text.size(), [&](ZipWriter::Sink sink) { sink(std::as_bytes(std::span(text))); });
}

void write_archive(const std::string& path, std::span<const StoredTensor> tensors,
                   const StorageTable& table) {
  const std::string pickle = state_dict_pickle(path, tensors, table);  // before anything is written
  const std::string top = std::filesystem::path(path).stem().string() + "/";
  write_file_atomically(path, [&](FileWriter& out) {
    ZipWriter archive(out);
    add_text(archive, top + "data.pkl", pickle);
    add_text(archive, top + "byteorder", "little");
    for (std::size_t i = 0; i < table.storages().size(); ++i) {
      const TorchStorage& storage = table.storages()[i];
      archive.add(
          top + "data/" + std::to_string(i), estimate_tensor_bytes({storage.elements}, storage.dtype),
          [&](ZipWriter::Sink sink) { for_each_byte_range(storage.values(), sink); }, kStorageAlignment);
    }
    add_text(archive, top + "version", "3\n");
    archive.finish();
  });
}

}  // namespace

void write_torch(const std::string& path, std::span<const StoredTensor> tensors) {
  check_names(tensors);
  write_archive(path, tensors, StorageTable(tensors, false));
}

void write_torch(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<StoredTensor> stored;
  stored.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) stored.push_back(StoredTensor::of(name, tensor));
  write_archive(path, stored, StorageTable(stored, true));
}

}  // namespace ingot
