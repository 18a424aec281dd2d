#include "ingot/weights/importance_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {
namespace {

using Entry = ImportanceMatrix::Entry;
constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

bool is_number_of_rows(float x) { return std::isfinite(x) && x >= 0; }

void check(const Entry& entry, const std::string& file, const std::string& tensor) {
  const auto wrong = [&](std::string_view problem) { throw FormatError(file, 0, tensor, problem); };
  if (entry.counts.empty() || entry.sums.empty()) wrong("has no sums, or no counts");
  if (entry.sums.size() % entry.counts.size() != 0)
    wrong(fmt::format("has {} sums for {} matrices", entry.sums.size(), entry.counts.size()));
  if (!std::ranges::all_of(entry.sums, is_number_of_rows))
    wrong("has a sum of squares that is negative or NaN");
  if (!std::ranges::all_of(entry.counts, is_number_of_rows)) wrong("has a count that is negative or NaN");
}

std::vector<float> floats(const GgufSource& file, const std::string& name) {
  const Tensor tensor = file.load_tensor(name);
  INGOT_CHECK(tensor.dtype() == DType::f32, FormatError(file.location(), 0, name, "is not f32"));
  return tensor.to_vector<float>();
}

ImportanceMatrix read_gguf(const std::string& path) {
  const auto file = open_gguf(path);
  const GgufMetadata& fields = file->fields();
  INGOT_CHECK(
      fields.text("general.type") == "imatrix",
      FormatError(path, 0, "general.type",
                  fmt::format("is '{}'; an importance matrix has 'imatrix'. Make one with ingot imatrix",
                              fields.text("general.type").value_or("missing"))));
  ImportanceMatrix matrix;
  for (const TensorInfo& info : file->tensors()) {
    if (!info.name.ends_with(kSums)) continue;
    const std::string tensor = info.name.substr(0, info.name.size() - kSums.size());
    const std::string counts = tensor + std::string(kCounts);
    INGOT_CHECK(file->find(counts) != nullptr, FormatError(path, 0, counts, "is missing"));
    Entry entry{floats(*file, info.name), floats(*file, counts)};
    check(entry, path, tensor);
    matrix.entries.emplace(tensor, std::move(entry));
  }
  if (const auto* datasets = fields.texts("imatrix.datasets")) matrix.datasets = *datasets;
  matrix.chunks = static_cast<std::uint32_t>(fields.integer("imatrix.chunk_count").value_or(0));
  matrix.chunk_tokens = static_cast<std::uint32_t>(fields.integer("imatrix.chunk_size").value_or(0));
  return matrix;
}

// The older format: numbers of 32 bits, little-endian; sums are means times the number of calls.
class DatReader {
 public:
  explicit DatReader(std::string path) : path_(std::move(path)), file_(path_) {}

  ImportanceMatrix read() {
    ImportanceMatrix matrix;
    const std::int32_t entries = count("entries");
    for (std::int32_t i = 0; i < entries; ++i) {
      const std::string name = text("name of a tensor");
      const std::int32_t calls = count(name), values = count(name);
      Entry entry;
      entry.counts = {static_cast<float>(calls)};
      const std::string_view bytes = take(static_cast<std::size_t>(values) * 4, name);
      entry.sums.resize(static_cast<std::size_t>(values));
      if (values > 0) std::memcpy(entry.sums.data(), bytes.data(), bytes.size());
      check(entry, path_, name);
      matrix.entries.emplace(name, std::move(entry));
    }
    if (at_ == file_.text().size()) return matrix;  // files before 2024 end here
    matrix.chunks = static_cast<std::uint32_t>(count("chunks"));
    if (at_ < file_.text().size()) matrix.datasets = {text("dataset")};
    return matrix;
  }

 private:
  std::string_view take(std::size_t bytes, std::string_view field) {
    INGOT_CHECK(bytes <= file_.text().size() - at_,
                FormatError(path_, static_cast<std::int64_t>(at_), std::string(field),
                            fmt::format("needs {} bytes; the file ends {} behind this offset", bytes,
                                        file_.text().size() - at_)));
    const std::string_view taken = file_.text().substr(at_, bytes);
    at_ += bytes;
    return taken;
  }
  std::int32_t count(std::string_view field) {
    const std::size_t at = at_;
    std::int32_t number = 0;
    std::memcpy(&number, take(4, field).data(), 4);
    INGOT_CHECK(number >= 0, FormatError(path_, static_cast<std::int64_t>(at), std::string(field),
                                         fmt::format("is {}; not an importance matrix", number)));
    return number;
  }
  std::string text(std::string_view field) {
    const std::int32_t length = count(field);
    return std::string(take(static_cast<std::size_t>(length), field));
  }

  std::string path_;
  MappedFile file_;
  std::size_t at_ = 0;
};

StoredTensor stored(std::string name, const std::vector<float>& values, std::int64_t rows) {
  return StoredTensor::of(std::move(name),
                          Tensor::from(values, {rows, static_cast<std::int64_t>(values.size()) / rows}));
}

void write_gguf_form(const std::string& path, const ImportanceMatrix& matrix) {
  GgufMetadata metadata;
  metadata.set("general.type", GgufValue::of_string("imatrix"));
  metadata.set("imatrix.datasets", GgufValue::of_strings(matrix.datasets));
  metadata.set("imatrix.chunk_count", GgufValue::of_u32(matrix.chunks));
  metadata.set("imatrix.chunk_size", GgufValue::of_u32(matrix.chunk_tokens));
  std::vector<GgufTensor> tensors;
  tensors.reserve(2 * matrix.entries.size());
  for (const auto& [name, entry] : matrix.entries) {
    tensors.push_back(GgufTensor::of(stored(name + std::string(kSums), entry.sums, entry.matrices())));
    tensors.push_back(GgufTensor::of(stored(name + std::string(kCounts), entry.counts, entry.matrices())));
  }
  write_gguf(path, metadata, tensors);
}

void write_dat(const std::string& path, const ImportanceMatrix& matrix) {
  std::string out;
  const auto put = [&out](auto number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto put_text = [&](const std::string& text) {
    put(static_cast<std::int32_t>(text.size()));
    out += text;
  };
  put(static_cast<std::int32_t>(matrix.entries.size()));
  for (const auto& [name, entry] : matrix.entries) {
    put_text(name);
    // One number of calls for all experts: their means times it are what readers divide by it.
    const auto calls = std::max(1, static_cast<std::int32_t>(std::ranges::max(entry.counts)));
    put(calls);
    put(static_cast<std::int32_t>(entry.sums.size()));
    for (const float mean : entry.means()) put(mean * static_cast<float>(calls));
  }
  put(static_cast<std::int32_t>(matrix.chunks));
  put_text(matrix.datasets.empty() ? std::string() : matrix.datasets.front());
  write_file_atomically(path, out);
}

}  // namespace

std::vector<float> Entry::means() const {
  std::vector<float> result = sums;
  const auto width = static_cast<std::size_t>(cols());
  for (std::size_t m = 0; m < counts.size(); ++m)
    for (std::size_t c = m * width; c < (m + 1) * width; ++c)
      result[c] = counts[m] > 0 ? sums[c] / counts[m] : 1.0F;
  return result;
}

const Entry* ImportanceMatrix::find(std::string_view tensor) const {
  if (const auto found = entries.find(tensor); found != entries.end()) return &found->second;
  // Matrices with the same input.
  constexpr std::array<std::array<std::string_view, 2>, 5> kSameInput{{{".attn_qkv.", ".attn_q."},
                                                                       {".attn_k.", ".attn_qkv."},
                                                                       {".attn_v.", ".attn_qkv."},
                                                                       {".ffn_up.", ".ffn_gate."},
                                                                       {".ffn_up_exps.", ".ffn_gate_exps."}}};
  for (const auto& [wanted, same] : kSameInput) {
    const std::size_t at = tensor.find(wanted);
    if (at == std::string_view::npos) continue;
    std::string name(tensor);
    name.replace(at, wanted.size(), same);
    if (const auto found = entries.find(name); found != entries.end()) return &found->second;
  }
  return nullptr;
}

ImportanceMatrix read_importance_matrix(const std::string& path) {
  const MappedFile file(path);
  return file.text().starts_with("GGUF") ? read_gguf(path) : DatReader(path).read();
}

void write_importance_matrix(const std::string& path, const ImportanceMatrix& matrix) {
  path.ends_with(".dat") ? write_dat(path, matrix) : write_gguf_form(path, matrix);
}

}  // namespace ingot
