#include <ctime>

#include "tests/support/hdf5_builder.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>
#include <zlib.h>

#include "ingot/base/error.h"
#include "ingot/weights/hdf5.h"

// Small HDF5 files that ask for much time or memory, or that would leave a part of a tensor unwritten.

namespace ingot {
namespace {

using test::Hdf5Builder;
using test::message_of;

std::unique_ptr<WeightSource> opened(const std::string& file) {
  const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
  return open_hdf5(memory_blob("bomb.h5", {bytes, bytes + file.size()}));
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// What opening the file, and loading its tensors, is refused with, in no time.
std::string refusal(const std::string& file) {
  const double begin = processor_seconds();
  const std::string message = message_of<FormatError>([&] {
    const auto source = opened(file);
    for (const TensorInfo& info : source->tensors()) source->load_tensor(info.name);
  });
  EXPECT_LT(processor_seconds() - begin, 2);
  return message;
}

std::string deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  out.resize(size);
  return out;
}

/// A file of one dataset of bytes, "d", in chunks of `chunk` rows.
std::string of_chunks(Hdf5Builder& file, std::uint64_t rows, std::uint64_t chunk,
                      const std::vector<Hdf5Builder::Chunk>& chunks, const std::vector<int>& filters = {}) {
  const std::uint64_t index = file.index(chunks);
  std::vector<Hdf5Builder::Message> messages{Hdf5Builder::space({rows}), Hdf5Builder::type(0, 1),
                                             Hdf5Builder::chunked(index, {chunk, 1})};
  if (!filters.empty()) messages.push_back(Hdf5Builder::filters(filters));
  const std::uint64_t dataset = file.header(messages);
  return file.finish(file.header({Hdf5Builder::link("d", dataset)}));
}

TEST(Hdf5Bombs, ChunksOfTheBuilderAreRead) {
  Hdf5Builder file;
  const std::string first = deflated(std::string(100, '\1')), second = deflated(std::string(100, '\2'));
  const std::uint64_t a = file.add(first), b = file.add(second);
  const auto source =
      opened(of_chunks(file, 150, 100, {{{0}, a, first.size()}, {{100}, b, second.size()}}, {1}));
  std::vector<std::int8_t> expected(150, 1);
  std::fill(expected.begin() + 100, expected.end(), std::int8_t{2});
  EXPECT_EQ(source->load_tensor("d").to_vector<std::int8_t>(), expected);
}

TEST(Hdf5Bombs, ChunksDoNotShareTheirBytes) {
  Hdf5Builder file;
  const std::string content = deflated(std::string(1 << 20, '\0'));
  const std::uint64_t at = file.add(content);
  file.add(std::string(1 << 16, 'x'));  // a file large enough for what its dataset claims
  std::vector<Hdf5Builder::Chunk> chunks;
  for (std::uint64_t i = 0; i < 30; ++i) chunks.push_back({{i << 20}, at, content.size()});
  EXPECT_NE(refusal(of_chunks(file, 30 << 20, 1 << 20, chunks, {1})).find("overlap"), std::string::npos);
}

TEST(Hdf5Bombs, DatasetsClaimNoMoreThanCompressionCanMake) {
  Hdf5Builder file;
  const std::string content = deflated(std::string(1 << 20, '\0'));
  const std::uint64_t at = file.add(content);
  std::vector<Hdf5Builder::Message> links;
  for (int i = 0; i < 40; ++i) {
    const std::uint64_t index = file.index({{{0}, at, content.size()}});
    links.push_back(Hdf5Builder::link(
        "d" + std::to_string(i),
        file.header({Hdf5Builder::space({1 << 20}), Hdf5Builder::type(0, 1),
                     Hdf5Builder::chunked(index, {1 << 20, 1}), Hdf5Builder::filters({1})})));
  }
  EXPECT_NE(refusal(file.finish(file.header(links))).find("can hold compressed"), std::string::npos);
}

TEST(Hdf5Bombs, ADatasetThatClaimsTooMuchLeavesTheOthersReadable) {
  Hdf5Builder file;
  const std::string a(8, '\1');
  const std::uint64_t sparse = file.index({{{0}, file.add(a), a.size()}});
  const std::uint64_t whole = file.index({{{0}, file.add(a), a.size()}});
  const auto dataset = [&](std::uint64_t rows, std::uint64_t index) {
    return file.header(
        {Hdf5Builder::space({rows}), Hdf5Builder::type(0, 1), Hdf5Builder::chunked(index, {8, 1})});
  };
  const std::uint64_t large = dataset(std::uint64_t{1} << 40, sparse), small = dataset(8, whole);
  const std::string text =
      file.finish(file.header({Hdf5Builder::link("large", large), Hdf5Builder::link("small", small)}));
  const auto source = opened(text);
  EXPECT_EQ(source->tensors().size(), 2U);
  EXPECT_EQ(source->load_tensor("small").numel(), 8);
  EXPECT_NE(message_of<FormatError>([&] { source->load_tensor("large"); }).find("never written"),
            std::string::npos);
}

TEST(Hdf5Bombs, ChunksOfUnknownFiltersAreNamedByThem) {
  Hdf5Builder file;
  const std::uint64_t at = file.add("few");
  const std::string text = of_chunks(file, 4096, 4096, {{{0}, at, 3}}, {6});
  const auto source = opened(text);
  EXPECT_NE(message_of<NotImplemented>([&] { source->load_tensor("d"); }).find("filter 6 "),
            std::string::npos);
}

TEST(Hdf5Bombs, DatasetsInOnePieceDoNotOverlap) {
  Hdf5Builder file;
  const std::uint64_t at = file.add(std::string(64, '\1'));
  std::vector<Hdf5Builder::Message> links;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::vector<Hdf5Builder::Message> dataset{Hdf5Builder::space({32}), Hdf5Builder::type(0, 1),
                                                    Hdf5Builder::contiguous(at + 31 * i, 32)};
    links.push_back(Hdf5Builder::link(i == 0 ? "a" : "b", file.header(dataset)));
  }
  EXPECT_NE(refusal(file.finish(file.header(links))).find("lies inside 'a'"), std::string::npos);
}

TEST(Hdf5Bombs, ChunksLieWhereTheGridHasThem) {
  Hdf5Builder file;
  const std::uint64_t at = file.add(std::string(200, '\1'));
  // Two chunks as there must be, but rows 101 to 199 in neither.
  const std::string text = of_chunks(file, 200, 100, {{{0}, at, 100}, {{1}, at + 100, 100}});
  EXPECT_NE(refusal(text).find("does not begin where"), std::string::npos);
}

TEST(Hdf5Bombs, ChunksAreNotLargerThanTheirDataset) {
  Hdf5Builder file;
  const std::uint64_t at = file.add(std::string(1 << 21, '\1'));
  const std::string text = of_chunks(file, 1, 2'000'000'000, {{{0}, at, 1 << 21}}, {1});
  EXPECT_NE(refusal(text).find("2000000000 bytes, but 1 in all"), std::string::npos);
}

TEST(Hdf5Bombs, ChunksWithoutCompressionHaveAllTheirBytes) {
  Hdf5Builder file;
  const std::uint64_t at = file.add(std::string(1 << 20, '\1'));
  const std::string text = of_chunks(file, 1'000'000'000, 1'000'000'000, {{{0}, at, 1 << 20}});
  EXPECT_NE(refusal(text).find("from 1048576, which cannot be"), std::string::npos);
}

TEST(Hdf5Bombs, AHeapOfTextsIsNotGoneThroughForEveryAttribute) {
  Hdf5Builder file;
  const std::vector<std::string> texts(30000);
  const std::uint64_t heap = file.texts(texts);
  std::vector<Hdf5Builder::Message> attributes;
  for (int i = 0; i < 30000; ++i)
    attributes.push_back(Hdf5Builder::attribute("a" + std::to_string(i), 1, heap, texts.size()));
  EXPECT_NE(refusal(file.finish(file.header(attributes))).find("too often"), std::string::npos);
}

TEST(Hdf5Bombs, AttributesDoNotCopyOneTextOverAndOver) {
  Hdf5Builder file;
  const std::uint64_t heap = file.texts({std::string(1 << 20, 'x')});
  std::vector<Hdf5Builder::Message> attributes;
  for (int i = 0; i < 20000; ++i)
    attributes.push_back(Hdf5Builder::attribute("a" + std::to_string(i), 1 << 20, heap, 1));
  EXPECT_NE(refusal(file.finish(file.header(attributes))).find("more room"), std::string::npos);
}

/// Symbol-table nodes that begin inside one another: each says it has the 65535 entries behind it.
TEST(Hdf5Bombs, SymbolTablesDoNotShareTheirEntries) {
  Hdf5Builder file;
  const std::uint64_t empty = file.header({}), heap = file.names(std::string(8, '\0'));
  std::string nodes;
  std::string tree = std::string("TREE\0\0", 6);
  constexpr std::uint64_t kNodes = 20000;
  tree += Hdf5Builder::number(kNodes, 2) + Hdf5Builder::number(0, 24);
  const std::uint64_t begin = file.next();
  // An entry: name, object, cached, 4 and 16 bytes that are not read, where the next node begins.
  for (std::uint64_t i = 0; i < 2 * kNodes; ++i) {
    if (i < kNodes) tree += Hdf5Builder::number(begin + 40 * i + 32, 8) + Hdf5Builder::number(0, 8);
    nodes += Hdf5Builder::number(0, 8) + Hdf5Builder::number(empty, 8) + Hdf5Builder::number(0, 16) + "SNOD" +
             Hdf5Builder::number(1, 2) + Hdf5Builder::number(kNodes, 2);
  }
  file.add(nodes);
  const std::uint64_t at = file.add(tree);
  EXPECT_NE(refusal(file.finish(file.header({Hdf5Builder::symbols(at, heap)}))).find("shares its bytes"),
            std::string::npos);
}

/// Symbolic links are not followed, but their names are looked at.
TEST(Hdf5Bombs, LinksDoNotShareOneLongName) {
  Hdf5Builder file;
  const std::uint64_t heap = file.names(std::string(8 << 20, 'x') + '\0');
  std::string node = std::string("SNOD\1\0", 6) + Hdf5Builder::number(60000, 2);
  for (int i = 0; i < 60000; ++i)
    node += Hdf5Builder::number(0, 8) + Hdf5Builder::number(0, 8) + Hdf5Builder::number(2, 4) +
            Hdf5Builder::number(0, 20);
  const std::uint64_t at = file.add(node);
  EXPECT_NE(refusal(file.finish(file.header({Hdf5Builder::symbols(at, heap)}))).find("more room"),
            std::string::npos);
}

TEST(Hdf5Bombs, FiltersAreAtMost32) {
  Hdf5Builder file;
  const std::uint64_t at = file.add(std::string(8, '\1'));
  const std::string text = of_chunks(file, 8, 8, {{{0}, at, 8}}, std::vector<int>(33, 2));
  EXPECT_NE(refusal(text).find("are 33"), std::string::npos);
}

}  // namespace
}  // namespace ingot
