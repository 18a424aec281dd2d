#include "ingot/infer/packed_cache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/base/random_seed.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/core/backend.h"
#include "ingot/infer/file_identity.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 4;  // of the tiles (kernels/packed.h) and of what a cache says about them
constexpr std::size_t kAlignment = 64;
const std::string kSignature = "signature";  // no matrix has this name

std::string instruction_set_name() {
  constexpr std::array kNames{"baseline", "avx2", "avx512", "avx512-vnni", "amx"};
  return kNames.at(static_cast<std::size_t>(kernels::instruction_set_limit()));
}

std::string directory_of(const std::string& file) {
  const std::string directory = fs::path(file).parent_path().string();
  return directory.empty() ? "." : directory;
}

constexpr std::size_t kSecretDigits = 64;

/// A new secret, which nobody else could read at any time. Another process that makes one now keeps the last.
std::string make_secret(const std::string& path) {
  std::string secret;
  for (std::size_t i = 0; i < kSecretDigits / 16; ++i) secret += fmt::format("{:016x}", random_seed());
  make_directories(directory_of(path));
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());  // of mode 0600
  INGOT_CHECK(fd >= 0, IoError(temporary, std::strerror(errno)));
  const bool written = ::write(fd, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (::close(fd) == 0 && written && std::rename(temporary.c_str(), path.c_str()) == 0) return secret;
  const std::string problem = std::strerror(errno);
  ::unlink(temporary.c_str());
  throw IoError(path, problem);
}

/// What only this user's caches are signed with: tiles that came with somebody's model are not a cache of
/// ours. Made when first needed, and again where others may have read it; empty where it is another user's.
std::string user_secret() {
  const std::string root = cache_directory(), path = root + "/packed/secret";
  if (root.empty()) return {};
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return make_secret(path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return {};
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) return make_secret(path);
  std::string secret = read_file(path);
  return secret.size() == kSecretDigits ? secret : make_secret(path);
}

/// Empty where no cache can be trusted.
std::string secret_or_empty() {
  try {
    return user_secret();
  } catch (const std::exception& error) {
    log(LogLevel::debug, "ingot::infer", fmt::format("packed weights are not kept: {}", error.what()));
    return {};
  }
}

std::string key_of(const WeightSource& weights, const std::string& format) {
  std::set<std::string> paths, files;
  for (const TensorInfo& info : weights.tensors()) paths.insert(info.file);
  for (const std::string& path : paths) files.insert(file_identity(path));
  return fmt::format("version {}; {}; {}; {}", kVersion, instruction_set_name(),
                     format.empty() ? "as stored" : format, fmt::join(files, ", "));
}

std::string signed_with(const std::string& secret, const std::string& text) {
  return sha256_hex(secret + sha256_hex(secret + text));
}

/// Of what the tiles were made from and of their descriptions, which hold their checksums.
std::string signature_of(const std::map<std::string, std::string>& metadata, const std::string& secret) {
  std::string text;
  for (const auto& [name, value] : metadata)
    if (name != kSignature) text += fmt::format("{}:{}={}:{};", name.size(), name, value.size(), value);
  return signed_with(secret, text);
}

// "q4_k.ingot-packed" in the model's directory, or "model.gguf.q4_k.ingot-packed".
std::string beside(const std::string& model, const std::string& format) {
  const std::string ending = (format.empty() ? "stored" : format) + ".ingot-packed";
  return fs::is_directory(model) ? (fs::path(model) / ending).string() : model + "." + ending;
}

std::string in_directory(const std::string& directory, const std::string& model, const std::string& format) {
  std::error_code ignored;
  const std::string whole = fs::weakly_canonical(model, ignored).string();
  const std::string name = fs::path(whole).filename().string();
  return fmt::format("{}/{}-{}.{}.ingot-packed", directory, name, sha256_hex(whole).substr(0, 12),
                     format.empty() ? "stored" : format);
}

// Who writes to a pipe may wait for ever, and one may come with a model.
bool is_other_than_a_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

// The files to look at and to write to, in this order.
std::vector<std::string> candidate_files(const std::string& model, const std::string& format,
                                         const std::string& where) {
  if (where == "off") return {};
  std::vector<std::string> files{where == "auto" ? beside(model, format)
                                                 : in_directory(where, model, format)};
  if (const std::string root = cache_directory(); where == "auto" && !root.empty())
    files.push_back(in_directory(root + "/packed", model, format));
  std::erase_if(files, is_other_than_a_file);
  return files;
}

std::optional<kernels::PackedFormat> format_by_name(std::string_view name) {
  for (int i = 0; i < kernels::kPackedFormats; ++i) {
    const auto format = static_cast<kernels::PackedFormat>(i);
    if (kernels::packed_layout(format).name == name) return format;
  }
  return std::nullopt;
}

/// Checksums of tiles that nobody can meet who does not know the secret. A sum of products with secret words
/// (NH, as in UMAC) makes 16 bytes of a block: two blocks have the same with a probability of 2^-64, and it
/// takes a multiplication for 16 bytes. SHA-256 makes one text of the sums of all blocks.
class TileSums {
 public:
  explicit TileSums(const std::string& secret) : secret_(secret) {
    for (std::size_t i = 0; i < kWords; i += 4) {
      const std::string hex = sha256_hex(fmt::format("words of tiles {} {}", i, secret));
      for (std::size_t j = 0; j < 4; ++j)
        words_[i + j] = std::strtoull(hex.substr(16 * j, 16).c_str(), nullptr, 16);
    }
  }

  /// Of whole lines of 64 bytes.
  std::string of(const std::uint8_t* data, std::size_t bytes) const {
    return signed_with(secret_, sums(data, bytes));
  }

  std::string of(const Tensor& tiles) const {
    const std::int64_t panels = tiles.dim(0);
    const auto panel_bytes = static_cast<std::size_t>(tiles.dim(1));
    std::vector<std::string> digests(static_cast<std::size_t>(panels));
    parallel_for(panels, 1 + static_cast<std::int64_t>(65536 / panel_bytes),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p)
                     digests[p] = sha256_hex(sums(tiles.data<std::uint8_t>() + p * panel_bytes, panel_bytes));
                 });
    return signed_with(secret_, fmt::format("{}", fmt::join(digests, "")));
  }

 private:
  static constexpr std::size_t kWords = 128;  // 1 KiB
  using Product = unsigned __int128;

  std::string sums(const std::uint8_t* data, std::size_t bytes) const {
    std::string all;
    all.reserve(bytes / (8 * kWords) * sizeof(Product) + sizeof(Product));
    for (std::size_t at = 0; at < bytes; at += 8 * kWords) {
      const Product sum = sum_of_block(data + at, std::min(kWords, (bytes - at) / 8));
      all.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    }
    return all;
  }

  Product sum_of_block(const std::uint8_t* data, std::size_t count) const {
    Product sum = 0;
    for (std::size_t i = 0; i < count; i += 2) {
      std::array<std::uint64_t, 2> pair{};
      std::memcpy(pair.data(), data + 8 * i, sizeof pair);
      sum += static_cast<Product>(pair[0] + words_[i]) * (pair[1] + words_[i + 1]);
    }
    return sum;
  }

  std::string secret_;
  std::array<std::uint64_t, kWords> words_{};
};

// As bytes in whole lines, so that everything behind it stays aligned.
Tensor order_bytes(const Tensor& order) {
  const auto lines = static_cast<std::int64_t>((order.nbytes() + kAlignment - 1) / kAlignment);
  Tensor bytes = Tensor::zeros({lines * static_cast<std::int64_t>(kAlignment)}, DType::u8);
  std::memcpy(bytes.view().data, order.view().data, order.nbytes());
  return bytes;
}

// The description of a matrix: "q4_k 4096 11008 <checksum>", with another checksum where its columns have an
// order.
std::string describe(const quant::PackedMatrix& m, const TileSums& sums) {
  std::string text = fmt::format("{} {} {} {}", m.format_name(), m.rows, m.cols, sums.of(m.data));
  if (m.order.defined()) {
    const Tensor order = order_bytes(m.order);
    text += " " + sums.of(order.data<std::uint8_t>(), order.nbytes());
  }
  return text;
}

// Null where the entry is none that we wrote.
quant::PackedPtr matrix_of(const WeightSource& file, const std::string& name, const std::string& description,
                           const TileSums& sums) {
  const std::size_t first = description.find(' '), second = description.find(' ', first + 1);
  if (second == std::string::npos) return nullptr;
  const auto format = format_by_name(std::string_view(description).substr(0, first));
  const TensorInfo* info = file.find(name);
  if (!format || info == nullptr || info->dtype != DType::u8 || info->shape.size() != 2) return nullptr;
  auto m = std::make_shared<quant::PackedMatrix>();
  m->format = *format;
  m->rows = std::atoll(description.c_str() + first);
  m->cols = std::atoll(description.c_str() + second);
  const kernels::PackedLayout layout = kernels::packed_layout(*format);
  if (m->rows <= 0 || m->cols <= 0 || m->cols > (std::int64_t{1} << 40)) return nullptr;
  const bool fits = info->shape[0] == (m->rows + kernels::kPanelRows - 1) / kernels::kPanelRows &&
                    info->shape[1] == static_cast<std::int64_t>(layout.panel_bytes(m->cols));
  if (!fits) return nullptr;
  m->data = file.load_tensor(name);
  if (reinterpret_cast<std::uintptr_t>(m->data.view().data) % kAlignment != 0) return nullptr;
  if (const TensorInfo* order = file.find(name + ".order")) {
    if (order->dtype != DType::u8 || order->numel() < m->cols * 8) return nullptr;
    const Tensor bytes = file.load_tensor(name + ".order");
    m->order = Tensor::empty({m->cols}, DType::i64);
    std::memcpy(m->order.view().data, bytes.view().data, m->order.nbytes());
    for (std::int64_t i = 0; i < m->cols; ++i)
      if (m->order.data<std::int64_t>()[i] < 0 || m->order.data<std::int64_t>()[i] >= m->cols) return nullptr;
  }
  if (describe(*m, sums) != description) return nullptr;
  return m;
}

}  // namespace

PackedCache::PackedCache(const std::string& path, const WeightSource& weights, const std::string& format,
                         const PackedCacheOptions& options)
    : model_(path),
      secret_(options.where == "off" ? "" : secret_or_empty()),
      key_(secret_.empty() ? "" : key_of(weights, format)),
      options_(options),
      format_(format) {
  if (secret_.empty()) options_.where = "off";
  if (!options_.most_memory) options_.most_memory = backend(kCpu).memory_info().free / 2;
  for (const std::string& file : candidate_files(model_, format_, options_.where)) {
    std::error_code ignored;
    if (file_.empty() && fs::exists(file, ignored)) open(file);
  }
}

void PackedCache::open(const std::string& file) {
  try {
    const auto source = open_safetensors(map_blob(file));
    const auto& metadata = source->metadata();
    const auto key = metadata.find("made_from");
    if (key == metadata.end() || key->second != key_) return;
    const auto signature = metadata.find(kSignature);
    if (signature == metadata.end() || signature->second != signature_of(metadata, secret_)) return;
    const TileSums sums(secret_);
    for (const auto& [name, description] : metadata) {
      if (name == "made_from" || name == kSignature) continue;
      quant::PackedPtr matrix = matrix_of(*source, name, description, sums);
      if (matrix == nullptr) {
        found_.clear();
        return;
      }
      found_.emplace(name, std::move(matrix));
    }
    file_ = file;
  } catch (const Error& error) {
    found_.clear();
    log(LogLevel::debug, "ingot::infer", fmt::format("{} is not used: {}", file, error.what()));
  }
}

quant::PackedPtr PackedCache::find(const std::string& name) const {
  const auto at = found_.find(name);
  return at == found_.end() ? nullptr : at->second;
}

quant::PackedPtr PackedCache::add(const std::string& name, quant::PackedPtr matrix) {
  if (in_memory_ + matrix->nbytes() > *options_.most_memory)
    matrix = on_disk(matrix);
  else
    in_memory_ += matrix->nbytes();
  return added_[name] = std::move(matrix);
}

// Its tiles in a file where the cache will be; as it is where no file can be had.
quant::PackedPtr PackedCache::on_disk(const quant::PackedPtr& matrix) const {
  for (const std::string& file : candidate_files(model_, format_, options_.where)) {
    try {
      const std::string directory = directory_of(file);
      make_directories(directory);
      const auto memory = std::make_shared<ScratchMemory>(directory, matrix->nbytes());
      std::memcpy(memory->data(), matrix->data.view().data, matrix->nbytes());
      auto moved = std::make_shared<quant::PackedMatrix>(*matrix);
      moved->data = Tensor::wrap(memory->data(), matrix->data.shape(), DType::u8, kCpu, [memory] {});
      return moved;
    } catch (const IoError& error) {
      log(LogLevel::debug, "ingot::infer", fmt::format("packed weights stay in memory: {}", error.what()));
    }
  }
  return matrix;
}

std::uint64_t PackedCache::bytes() const {
  std::uint64_t total = 0;
  for (const auto* matrices : {&found_, &added_})
    for (const auto& [name, matrix] : *matrices) total += matrix->nbytes();
  return total;
}

std::string PackedCache::save() {
  if (added_.empty() || (options_.where == "auto" && bytes() < options_.least_bytes)) return {};
  SafetensorsOptions safetensors{.metadata = {{"made_from", key_}}, .data_alignment = kAlignment};
  std::vector<StoredTensor> tensors;
  const TileSums sums(secret_);
  for (const auto* matrices : {&found_, &added_}) {
    for (const auto& [name, matrix] : *matrices) {
      safetensors.metadata[name] = describe(*matrix, sums);
      tensors.push_back(StoredTensor::of(name, matrix->data));
      if (matrix->order.defined())
        tensors.push_back(StoredTensor::of(name + ".order", order_bytes(matrix->order)));
    }
  }
  safetensors.metadata[kSignature] = signature_of(safetensors.metadata, secret_);
  for (const std::string& file : candidate_files(model_, format_, options_.where)) {
    try {
      make_directories(directory_of(file));
      if (free_disk_bytes(file) < 2 * bytes()) continue;
      write_safetensors(file, tensors, safetensors);
      return file;
    } catch (const std::exception& error) {
      log(LogLevel::debug, "ingot::infer",
          fmt::format("{}: packed weights cannot be kept there: {}", file, error.what()));
    }
  }
  return {};
}

}  // namespace ingot::infer
