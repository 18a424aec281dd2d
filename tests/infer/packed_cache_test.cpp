#include "ingot/infer/packed_cache.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/infer/load.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/safetensors.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;

class PackedCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(test::source_dir() + "/tests/infer/goldens/quantized/gptq_act_order", model());
    fs::create_directory(directory_.at("cache"));
    setenv("XDG_CACHE_HOME", directory_.at("home").c_str(), 1);  // where the user's secret is
  }
  std::string model() const { return directory_.at("model"); }
  PackedCacheOptions options() const { return {.where = directory_.at("cache")}; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_.at("cache"))) found.push_back(entry.path());
    return found;
  }
  // Loads the model; the file that its tiles came from, or an empty path.
  std::string source() const {
    return PackedCache(model(), *open_checkpoint(model()).weights, {}, options()).file();
  }
  std::vector<float> logits(const PackedCacheOptions& cache, const std::string& format = {}) const {
    const NoGrad no_grad;
    const auto loaded = load_model(model(), format, cache);
    return loaded
        ->logits(loaded->hidden({.tokens = Tensor::from(std::vector<std::int32_t>{5, 17, 42}, {1, 3})}))
        .to_vector<float>();
  }

  test::TemporaryDirectory directory_;
};

TEST_F(PackedCacheTest, KeepsTheTilesAndGivesTheSameBits) {
  const std::vector<float> plain = logits({.where = "off"});
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(logits(options()), plain);  // makes it
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(source(), files().front().string());
  EXPECT_EQ(logits(options()), plain);  // reads it, orders of columns too
  EXPECT_EQ(logits(options(), "q8_0"), logits({.where = "off"}, "q8_0"));
  EXPECT_EQ(files().size(), 2U);  // one for each format
}

TEST_F(PackedCacheTest, IsMappedAndNotCopied) {
  logits(options());
  const PackedCache cache(model(), *open_checkpoint(model()).weights, {}, options());
  const quant::PackedPtr matrix = cache.find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix->data.view().data) % 64, 0U);
  EXPECT_EQ(cache.find("model.layers.0.self_attn.q_proj.bias"), nullptr);
}

TEST_F(PackedCacheTest, OfAModelLargerThanMemoryIsMadeInFiles) {
  const std::vector<float> plain = logits({.where = "off"});
  PackedCacheOptions none = options();
  none.most_memory = 0;
  const NoGrad no_grad;
  MemoryTracker& memory = backend(kCpu).memory();
  const auto kept = [&](const PackedCacheOptions& cache) {
    const std::size_t before = memory.allocated();
    const auto model = load_model(this->model(), {}, cache);
    return memory.allocated() - before;
  };
  const std::size_t in_memory = kept({.where = "off"}), in_files = kept(none);
  EXPECT_LT(2 * in_files, in_memory) << "only what is no matrix";
  ASSERT_EQ(files().size(), 1U) << "files without names, and the cache";
  fs::remove(files().front());
  EXPECT_EQ(logits(none), plain);
  EXPECT_EQ(logits(none), plain) << "from the cache";
}

TEST_F(PackedCacheTest, OfAChangedModelIsMadeAnew) {
  logits(options());
  fs::last_write_time(model() + "/model.safetensors",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(source(), "");
  logits(options());
  EXPECT_NE(source(), "");
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(PackedCacheTest, OfAnotherProcessorIsMadeAnew) {
  logits(options());
  const kernels::InstructionSet best = kernels::instruction_set_limit();
  kernels::limit_instruction_set(best == kernels::InstructionSet::baseline
                                     ? kernels::InstructionSet::avx2
                                     : kernels::InstructionSet::baseline);
  EXPECT_EQ(source(), "");
  kernels::limit_instruction_set(best);
  EXPECT_NE(source(), "");
}

TEST_F(PackedCacheTest, ThatIsDamagedIsMadeAnew) {
  const std::vector<float> plain = logits(options());
  const std::string file = files().front().string(), whole = read_file(file);
  std::string other_version = whole;
  other_version.replace(other_version.find("version 4"), 9, "version 0");
  std::string other_shape = whole;
  other_shape.replace(other_shape.find("q4_g32 64 64"), 12, "q4_g32 96 64");
  std::string flipped = whole;
  flipped[flipped.size() - 1000] ^= 4;
  for (const std::string& damaged : {whole.substr(0, whole.size() - 64), whole.substr(0, 100),
                                     std::string("{}"), std::string(), other_version, other_shape, flipped}) {
    write_file_atomically(file, damaged);
    EXPECT_EQ(source(), "") << damaged.size();
    EXPECT_EQ(logits(options()), plain);
    EXPECT_EQ(source(), file);
  }
}

TEST_F(PackedCacheTest, WhoseOrderOfColumnsOrDescriptionWasChangedIsMadeAnew) {
  const std::vector<float> plain = logits(options());
  const std::string file = files().front().string(), whole = read_file(file);
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const std::size_t begin = open_safetensors(map_blob(file))->find(name + ".order")->offset;
  std::string swapped = whole;  // two columns: still an order
  std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(begin),
                   swapped.begin() + static_cast<std::ptrdiff_t>(begin) + 8,
                   swapped.begin() + static_cast<std::ptrdiff_t>(begin) + 8);
  std::string unsigned_sum = whole;
  const std::size_t description = whole.find("q4_g32 64 64 ") + 13;
  unsigned_sum[description] = whole[description] == '0' ? '1' : '0';
  for (const std::string& changed : {swapped, unsigned_sum}) {
    ASSERT_NE(changed, whole);
    write_file_atomically(file, changed);
    EXPECT_EQ(source(), "");
    EXPECT_EQ(logits(options()), plain);
  }
}

// Sums that add up alike: the highest bits of two words, and of words far apart.
TEST_F(PackedCacheTest, OfWhichTwoBitsWereFlippedIsMadeAnew) {
  const std::vector<float> plain = logits(options());
  const std::string file = files().front().string(), whole = read_file(file);
  const std::size_t tiles =
      open_safetensors(map_blob(file))->find("model.layers.0.self_attn.q_proj.weight")->offset;
  for (const std::size_t apart : {8U, 64U, 128U, 1024U}) {
    std::string flipped = whole;
    for (const std::size_t at : {tiles + 7, tiles + 7 + apart})
      flipped[at] = static_cast<char>(flipped[at] ^ 0x80);
    write_file_atomically(file, flipped);
    EXPECT_EQ(source(), "") << apart;
    EXPECT_EQ(logits(options()), plain) << apart;
  }
}

TEST_F(PackedCacheTest, HasASecretThatNobodyElseMayRead) {
  logits(options());
  const std::string path = directory_.at("home") + "/ingot/packed/secret", secret = read_file(path);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(path, fs::perms::group_read, fs::perm_options::add);
  EXPECT_EQ(source(), "") << "others may have signed it";
  EXPECT_NE(read_file(path), secret);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}), 1);
}

// Whoever gives a model away can put tiles beside it that have its name, size and time.
TEST_F(PackedCacheTest, OfOtherContentOrByOtherUsersIsNotUsed) {
  logits(options());
  EXPECT_NE(source(), "");
  const std::string weights = model() + "/model.safetensors";
  const auto time = fs::last_write_time(weights);
  const std::string whole = read_file(weights);
  std::string other = whole;
  other.back() ^= 1;
  write_file_atomically(weights, other);
  fs::last_write_time(weights, time);
  EXPECT_EQ(source(), "");
  write_file_atomically(weights, whole);
  fs::last_write_time(weights, time);
  EXPECT_NE(source(), "");
  setenv("XDG_CACHE_HOME", directory_.at("somebody_else").c_str(), 1);
  EXPECT_EQ(source(), "");
}

TEST_F(PackedCacheTest, OfASmallModelIsNotKeptUnasked) {
  logits({});
  EXPECT_FALSE(fs::exists(model() + "/stored.ingot-packed"));
  logits({.where = "auto", .least_bytes = 0});
  EXPECT_TRUE(fs::exists(model() + "/stored.ingot-packed"));
}

// Who opens a pipe to write waits for a reader.
TEST_F(PackedCacheTest, InPlaceOfWhichAPipeCameIsKeptElsewhere) {
  const std::string beside = model() + "/stored.ingot-packed";
  ASSERT_EQ(mkfifo(beside.c_str(), 0600), 0);
  const std::vector<float> plain = logits({.where = "off"});
  EXPECT_EQ(logits({.where = "auto", .least_bytes = 0}), plain);
  EXPECT_TRUE(fs::is_fifo(beside));
  EXPECT_FALSE(fs::is_empty(directory_.at("home") + "/ingot/packed"));
}

TEST_F(PackedCacheTest, ThatCannotBeWrittenIsNoError) {
  const std::vector<float> plain = logits({.where = "off"});
  write_file_atomically(directory_.at("a-file"), "");
  EXPECT_EQ(logits({.where = directory_.at("a-file") + "/below"}), plain);
}

}  // namespace
}  // namespace ingot::infer
