#include <cstring>

#include "tests/fuzz/generate/source.h"

// GGUF, NumPy, PyTorch's pickles and SentencePiece models, whose parts are of the right kind and do not fit.

namespace ingot::test {
namespace {

std::string gguf_text(Source& source, std::string_view text) {
  return little(source.nearly(text.size()), 8) + std::string(text);
}

std::string gguf_value(Source& source, std::uint64_t type, int depth) {
  static constexpr std::array<int, 13> kWidths{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == 8) return gguf_text(source, source.text());
  if (type != 9) return little(static_cast<std::uint64_t>(source.integer()), type < 13 ? kWidths[type] : 4);
  const std::uint64_t of = depth > 3 ? 4 : source.below(13),
                      count = source.one_in(20) ? 3000 : source.below(5);
  std::string all = little(source.nearly(of), 4) + little(source.nearly(count), 8);
  for (std::uint64_t i = 0; i < count && all.size() < (1 << 18); ++i)
    all += gguf_value(source, of, depth + 1);
  return all;
}

}  // namespace

std::string hostile_gguf(Source& source) {
  const std::uint64_t tensors = source.below(4), keys = source.below(6);
  std::string file = "GGUF" + little(source.one_in(30) ? source.below(5) : 3, 4) +
                     little(source.nearly(tensors), 8) + little(source.nearly(keys), 8);
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::uint64_t type = source.below(13);
    const std::string_view key =
        source.one_of({"general.alignment", "general.architecture", "llama.block_count", "split.count",
                       "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "k"});
    file += gguf_text(source, std::string(key) + (source.one_in(2) ? std::to_string(i) : "")) +
            little(source.nearly(type), 4) + gguf_value(source, type, 0);
  }
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t axes = source.below(5);
    file += gguf_text(source, "t" + std::to_string(source.below(6))) + little(source.nearly(axes), 4);
    for (std::uint64_t axis = 0; axis < axes; ++axis)
      file += little(source.nearly(std::uint64_t{32} << source.below(5)), 8);
    file += little(source.nearly(source.below(31)), 4) + little(source.nearly(offset), 8);
    offset += 32 * source.below(40);
  }
  file.resize((file.size() + 31) / 32 * 32, '\0');
  return file + std::string(source.below(4096), '\1');
}

std::string hostile_npy(Source& source) {
  std::string header = "{'descr': ";
  header += source.one_of({"'<f4'", "'>i8'", "'|u1'", "'<f2'", "'|b1'", "'|O'", "'<U4'", "'<c16'",
                           "[('a','<f4')]", "'<f8'", "'<f99999999999'", "\"<i4\""});
  header += ", 'fortran_order': ";
  header += source.one_of({"False", "True", "False", "True", "False", "0", "[]"});
  header += ", 'shape': (";
  for (std::size_t n = source.one_in(20) ? 2000 : source.below(5); n > 0; --n)
    header += source.number() + ",";
  header += source.one_of({"), }", ")}", "", "), 'shape': (1,)}", "))))"});
  if (source.one_in(15)) header = std::string(60000, source.one_in(2) ? '(' : ' ') + header;
  header += '\n';
  const bool second = source.one_in(3);
  return std::string("\x93NUMPY") + (second ? '\2' : '\1') + '\0' +
         little(source.nearly(header.size()), second ? 4 : 2) + header + std::string(source.below(256), '\1');
}

namespace {

/// One step of a pickle. What it takes may not be there.
std::string pickle_step(Source& source) {
  switch (source.below(12)) {
    case 0:
      return "J" + little(static_cast<std::uint64_t>(source.integer()), 4);
    case 1: {
      const std::string text(source.one_of({"storage", "0", "cpu", "weight", "a", ""}));
      return "X" + little(source.nearly(text.size()), 4) + text;
    }
    case 2:
      return "c" + std::string(source.one_of({"torch\nFloatStorage\n", "torch._utils\n_rebuild_tensor_v2\n",
                                              "collections\nOrderedDict\n", "os\nsystem\n", "torch\nSize\n",
                                              "torch._utils\n_rebuild_parameter\n", "builtins\neval\n"}));
    case 3:
      return "q" + little(source.below(4), 1);
    case 4:
      return "h" + little(source.below(4), 1);
    case 5:
      return "r" + little(static_cast<std::uint64_t>(source.integer()), 4);
    case 6:
      return "\x8a" + little(source.nearly(8), 1) + little(static_cast<std::uint64_t>(source.integer()), 8);
    default:
      return std::string(source.one_of({"(",    "t",    ")", "]",    "}",    "a", "e",   "s",   "u",
                                        "R",    "b",    "Q", "2",    "0",    "1", "K\1", "K\2", "\x85",
                                        "\x86", "\x87", "N", "\x88", "\x89", "l", "d",   "."}));
  }
}

/// A state dict of one tensor, as torch writes it, with sizes of the generator's choice.
std::string pickled_tensor(Source& source) {
  const auto whole = [&](std::uint64_t value) { return "\x8a\x08" + little(source.nearly(value), 8); };
  const auto text = [](const std::string& value) { return "X" + little(value.size(), 4) + value; };
  std::string steps = "}" + text("weight") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
                      "ctorch\nFloatStorage\n" + text("0") + text("cpu") + whole(6) + "NtQ" + whole(0) + "(";
  const std::size_t axes = source.one_in(20) ? 100 : 2;
  for (std::size_t i = 0; i < axes; ++i) steps += whole(i + 2);
  steps += "t(";
  for (std::size_t i = 0; i < axes; ++i) steps += whole(i == 0 ? 3 : 1);
  return steps +
         "t\x89"
         "ccollections\nOrderedDict\n)RtRs";
}

}  // namespace

/// PyTorch's older format: pickles concatenated, then the storages.
std::string hostile_torch(Source& source) {
  static constexpr std::string_view kStart{
      "\x80\x02\x8a\x0al\xfc\x9c"
      "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."};
  std::string steps;
  if (source.one_in(2)) {
    steps = pickled_tensor(source);
  } else {
    for (std::size_t n = source.one_in(10) ? 20000 : source.below(60); n > 0; --n)
      steps += pickle_step(source);
  }
  if (source.one_in(3)) steps.insert(source.below(steps.size() + 1), pickle_step(source));
  return std::string(kStart) + "\x80\x02" + steps + ".\x80\x02](X\1" + little(0, 3) + "0e." +
         little(source.nearly(6), 8) + std::string(24, '\1');
}

namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string field_of(Source& source, std::uint64_t id, const std::string& bytes) {
  return varint(id << 3 | 2) + varint(source.nearly(bytes.size())) + bytes;
}
std::string field_of(std::uint64_t id, std::uint64_t value) { return varint(id << 3) + varint(value); }

}  // namespace

std::string hostile_sentencepiece(Source& source) {
  std::string file;
  for (std::size_t n = source.one_in(20) ? 20000 : source.below(40); n > 0; --n) {
    const float score = source.one_in(20) ? -1e38F : -static_cast<float>(source.below(30));
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &score, 4);
    const std::string piece =
        source.one_in(4)
            ? source.text()
            : std::string(source.one_of({"\u2581", "a", "\u2581w", "<0x41>", "<unk>", "<s>", "or", ""}));
    file += field_of(source, 1,
                     field_of(source, 1, piece) + "\x15" + bytes +
                         field_of(3, source.one_in(4) ? static_cast<std::uint64_t>(source.integer())
                                                      : 1 + source.below(6)));
  }
  std::string trainer = field_of(3, source.nearly(1 + source.below(4)));
  for (const std::uint64_t id : {40U, 41U, 42U, 43U, 35U, 24U})
    if (source.one_in(3)) trainer += field_of(id, static_cast<std::uint64_t>(source.integer()));
  file += field_of(source, 2, trainer);
  std::string map =
      source.one_in(2) ? little(source.nearly(4), 4) + little(source.next(), 4) + source.text() : "";
  if (source.one_in(10))
    map = little(4 * 20000, 4) + std::string(80000, static_cast<char>(source.next())) + map;
  return file + field_of(source, 3, field_of(source, 1, "nmt_nfkc") + field_of(source, 2, map));
}

}  // namespace ingot::test
