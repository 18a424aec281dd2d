// A format of weights: lines of text, "NAME SIZE... = VALUE...", after a first line "tensors as text".
//
//     ingot inspect model.ttxt --plugin weight_format.so
//     ingot convert model.ttxt model.safetensors --plugin weight_format.so
//
// What a file says is checked before it is believed: sizes against the values that are there.
#include <sstream>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/plugin/plugin.h"
#include "ingot/weights/open.h"

namespace {

constexpr std::string_view kMark = "tensors as text\n";

std::string_view text_of(const ingot::Blob& blob) {
  return {reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size()};
}

class TextTensors : public ingot::WeightSource {
 public:
  explicit TextTensors(const ingot::Blob& blob) : WeightSource(blob.name) {
    std::istringstream lines{std::string(text_of(blob).substr(kMark.size()))};
    std::vector<ingot::TensorInfo> infos;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) infos.push_back(read_line(line));
    set_contents(std::move(infos), {});
  }
  std::string_view format() const override { return "text tensors"; }

 private:
  ingot::TensorInfo read_line(const std::string& line) {
    std::istringstream words(line);
    ingot::TensorInfo info;
    info.file = location();
    info.dtype = ingot::DType::f32;
    info.stored_as = "text";
    info.bytes = line.size();
    words >> info.name;
    std::string word;
    while (words >> word && word != "=") info.shape.push_back(number(word, info.name));
    std::vector<float> values;
    for (float value = 0; words >> value;) values.push_back(value);
    std::int64_t wanted = 1;
    for (const std::int64_t size : info.shape)
      if (size < 0 || __builtin_mul_overflow(wanted, size, &wanted))
        refuse(info.name, "has a size that cannot be");
    if (word != "=" || !words.eof() || std::cmp_not_equal(values.size(), wanted))
      refuse(info.name, "has other values than its sizes call for");
    if (!values_.emplace(info.name, std::move(values)).second) refuse(info.name, "is there twice");
    return info;
  }
  std::int64_t number(const std::string& word, const std::string& name) const {
    std::istringstream text(word);
    std::int64_t value = -1;
    if (!(text >> value) || !text.eof()) refuse(name, "has '" + word + "' in the place of a size");
    return value;
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& problem) const {
    throw ingot::FormatError(location(), -1, name, problem);
  }
  ingot::Tensor load(const ingot::TensorInfo& info) const override {
    return ingot::Tensor::from(values_.at(info.name),
                               ingot::Shape(std::span<const std::int64_t>(info.shape)));
  }

  std::map<std::string, std::vector<float>> values_;
};

}  // namespace

INGOT_PLUGIN(registrar) {
  registrar.add_weight_format(
      {.name = "text tensors",
       .usual_name = "model.ttxt",
       .matches = [](const ingot::Blob& blob) { return text_of(blob).starts_with(kMark); },
       .open = [](const ingot::Blob& blob) { return std::make_unique<TextTensors>(blob); }});
}
