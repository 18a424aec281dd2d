#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

// What converters of models for tables use: labels, n-grams, trees.

namespace ingot::onnx {
namespace {

/// Keys or values of a LabelEncoder: a list in an attribute of its own for each type. Undefined where none is
/// there.
Value label_list(const OpCall& call, const std::string& kind) {
  const auto count = [](const auto& list) { return Shape{static_cast<std::int64_t>(list.size())}; };
  if (call.has_attribute(kind + "_tensor")) {
    const Value& value = call.attribute(kind + "_tensor").value;
    INGOT_CHECK(value.defined(), NotImplemented(call.where() + ": labels of this type"));
    return value;
  }
  if (call.has_attribute(kind + "_int64s")) {
    const auto& list = call.attribute(kind + "_int64s").integers;
    return Tensor::from(list, count(list));
  }
  if (call.has_attribute(kind + "_floats")) {
    const auto& list = call.attribute(kind + "_floats").numbers;
    return Tensor::from(list, count(list));
  }
  if (!call.has_attribute(kind + "_strings")) return {};
  std::vector<std::int64_t> numbers;
  for (const std::string& text : call.attribute(kind + "_strings").texts)
    numbers.push_back(call.texts().number_of(text));
  return {Tensor::from(numbers, count(numbers)), ElementType::text};
}

/// The label of what is not a key, of the type of `values`.
Tensor default_label(const OpCall& call, const Value& values) {
  if (call.has_attribute("default_tensor") && call.attribute("default_tensor").value.defined())
    return reshape(call.attribute("default_tensor").value.tensor, {1});
  if (values.type == ElementType::text) {
    return Tensor::from(
        std::vector<std::int64_t>{call.texts().number_of(call.text("default_string", "_Unused"))}, {1});
  }
  if (is_integer(values.tensor.dtype())) {
    return to(Tensor::from(std::vector<std::int64_t>{call.integer("default_int64", -1)}, {1}),
              values.tensor.dtype());
  }
  return to(Tensor::from(std::vector<float>{call.number("default_float", -0.0F)}, {1}),
            values.tensor.dtype());
}

/// For each element of x the row of `keys` that holds it, or their number. The last of equal keys counts.
template <class T>
std::vector<std::int64_t> rows_of_keys(const std::vector<T>& x, const std::vector<T>& keys) {
  std::map<T, std::int64_t> rows;
  const auto none = static_cast<std::int64_t>(keys.size());
  std::int64_t nan = none;
  for (std::int64_t i = 0; i < none; ++i) {
    const T key = keys[static_cast<std::size_t>(i)];
    (key == key ? rows[key] : nan) = i;
  }
  std::vector<std::int64_t> found;
  found.reserve(x.size());
  for (const T v : x) {
    const auto row = v == v ? rows.find(v) : rows.end();
    found.push_back(row != rows.end() ? row->second : v == v ? none : nan);
  }
  return found;
}

Values label_encoder(const OpCall& call) {
  const Value keys = label_list(call, "keys"), values = label_list(call, "values");
  INGOT_CHECK(keys.defined() && values.defined() && keys.tensor.numel() == values.tensor.numel(),
              FormatError(call.where(), -1, "keys", "there are not as many as values"));
  INGOT_CHECK(call.is_of(0, keys.type),
              FormatError(call.where(), -1, "input", "holds another type than the keys"));
  const Tensor& x = call.in(0);
  const std::vector<std::int64_t> rows = is_floating_point(x.dtype())
                                             ? rows_of_keys(as_doubles(x), as_doubles(keys.tensor))
                                             : rows_of_keys(as_integers(x), as_integers(keys.tensor));
  const Tensor labels = concat(
      std::vector<Tensor>{reshape(values.tensor, {values.tensor.numel()}), default_label(call, values)}, 0);
  const Tensor chosen = index_select(labels, 0, Tensor::from(rows, {x.numel()}));
  return {{reshape(chosen, x.shape()), values.type}};
}

Values array_feature_extractor(const OpCall& call) {
  const Tensor& x = call.in(0, 1);
  std::vector<std::int64_t> ids = call.integers_in(1);
  for (const std::int64_t id : ids) {
    INGOT_CHECK(id >= 0 && id < x.dim(-1),
                DimensionMismatch(fmt::format("{}: feature {} of {}", call.where(), id, x.dim(-1))));
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  const Tensor chosen = index_select(x, x.rank() - 1, Tensor::from(ids, {count}));
  return {x.rank() == 1 ? reshape(chosen, {1, count}) : chosen};
}

Values binarizer(const OpCall& call) {
  const double threshold = call.number("threshold", 0);
  return {map_values(call.in(0), [=](double x) { return x > threshold ? 1 : 0; })};
}

/// The n-grams of a TfIdfVectorizer: lists of numbers (of strings, too) and the column that counts each.
class NGrams {
 public:
  explicit NGrams(const OpCall& call) {
    std::vector<std::int64_t> pool = call.integers("pool_int64s");
    if (call.has_attribute("pool_strings")) {
      for (const std::string& text : call.attribute("pool_strings").texts)
        pool.push_back(call.texts().number_of(text));
    }
    const std::vector<std::int64_t> starts = call.integers("ngram_counts");
    const std::vector<std::int64_t> columns = call.integers("ngram_indexes");
    const auto size = static_cast<std::int64_t>(pool.size());
    std::size_t next = 0;
    for (std::size_t n = 1; n <= starts.size(); ++n) {
      const std::int64_t end = n < starts.size() ? starts[n] : size, length = static_cast<std::int64_t>(n);
      INGOT_CHECK(
          starts[n - 1] >= 0 && starts[n - 1] <= end && end <= size && (end - starts[n - 1]) % length == 0,
          FormatError(call.where(), -1, "ngram_counts", "does not fit the pool"));
      for (std::int64_t at = starts[n - 1]; at < end; at += length) {
        INGOT_CHECK(next < columns.size() && columns[next] >= 0 && columns[next] < kMostColumns,
                    FormatError(call.where(), -1, "ngram_indexes", "does not name a column for each n-gram"));
        rows_[{pool.begin() + at, pool.begin() + at + length}] = next;
        ++next;
      }
    }
    columns_ = columns;
    width_ = columns.empty() ? 0 : *std::ranges::max_element(columns) + 1;
  }

  std::int64_t width() const { return width_; }
  /// Nothing for a list that is none of them.
  const std::size_t* find(const std::vector<std::int64_t>& gram) const {
    const auto found = rows_.find(gram);
    return found == rows_.end() ? nullptr : &found->second;
  }
  std::int64_t column(std::size_t row) const { return columns_[row]; }

 private:
  static constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;
  std::map<std::vector<std::int64_t>, std::size_t> rows_;
  std::vector<std::int64_t> columns_;
  std::int64_t width_ = 0;
};

/// Counts n-grams of one row of tokens, with 0 to `skips` tokens between their tokens.
template <class F>
void for_each_gram(const OpCall& call, std::span<const std::int64_t> row, F visit) {
  const std::int64_t least = call.integer("min_gram_length", 1), most = call.integer("max_gram_length", 1),
                     skips = call.integer("max_skip_count", 0), size = static_cast<std::int64_t>(row.size());
  for (std::int64_t step = 1; step <= std::min(skips, size) + 1; ++step) {
    for (std::int64_t length = std::max<std::int64_t>(least, 1); length <= std::min(most, size); ++length) {
      if (length == 1 && step > 1) continue;  // nothing lies between the tokens of one
      for (std::int64_t at = 0; at + (length - 1) * step < size; ++at) {
        std::vector<std::int64_t> gram;
        for (std::int64_t i = 0; i < length; ++i)
          gram.push_back(row[static_cast<std::size_t>(at + i * step)]);
        visit(gram);
      }
    }
  }
}

Values tf_idf_vectorizer(const OpCall& call) {
  const Tensor& x = call.in(0, 1, 2);
  const NGrams grams(call);
  const std::string mode = call.text("mode", "TF");
  const std::vector<float> weights =
      call.has_attribute("weights") ? call.attribute("weights").numbers : std::vector<float>{};
  const std::vector<std::int64_t> tokens = as_integers(x);
  const std::int64_t rows = x.rank() == 1 ? 1 : x.dim(0), width = x.dim(-1);
  const Shape shape = x.rank() == 1 ? Shape{grams.width()} : Shape{rows, grams.width()};
  std::vector<double> counts(static_cast<std::size_t>(shape.numel()), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto line =
        std::span(tokens).subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
    for_each_gram(call, line, [&](const std::vector<std::int64_t>& gram) {
      const std::size_t* found = grams.find(gram);
      if (found == nullptr) return;
      const double weight =
          mode == "TF" || *found >= weights.size() ? 1 : static_cast<double>(weights[*found]);
      double& count = counts[static_cast<std::size_t>(row * grams.width() + grams.column(*found))];
      count = mode == "IDF" ? weight : count + weight;
    });
  }
  return {from_doubles(counts, shape, DType::f32)};
}

std::vector<double> doubles_of(const OpCall& call, const char* name) {
  if (!call.has_attribute(name)) return {};
  const Value& value = call.attribute(name).value;
  INGOT_CHECK(value.tensor.defined(), FormatError(call.where(), -1, name, "is not a tensor of numbers"));
  return as_doubles(value.tensor);
}

/// Trees over the features of a row. Nodes refer to nodes or leaves by number.
class Trees {
 public:
  explicit Trees(const OpCall& call)
      : where_(call.where()),
        modes_(doubles_of(call, "nodes_modes")),
        splits_(doubles_of(call, "nodes_splits")),
        weights_(doubles_of(call, "leaf_weights")),
        features_(call.integers("nodes_featureids")),
        targets_(call.integers("leaf_targetids")),
        missing_(
            call.integers("nodes_missing_value_tracks_true", std::vector<std::int64_t>(modes_.size(), 0))),
        next_{call.integers("nodes_falsenodeids"), call.integers("nodes_truenodeids")},
        leaf_{call.integers("nodes_falseleafs"), call.integers("nodes_trueleafs")} {
    const std::size_t nodes = modes_.size();
    for (const std::size_t size : {splits_.size(), features_.size(), missing_.size(), next_[0].size(),
                                   next_[1].size(), leaf_[0].size(), leaf_[1].size()})
      INGOT_CHECK(size == nodes, FormatError(where_, -1, "nodes", "their attributes differ in length"));
    INGOT_CHECK(weights_.size() == targets_.size(),
                FormatError(where_, -1, "leaf_weights", "there are not as many as leaf_targetids"));
    read_members(doubles_of(call, "membership_values"));
  }

  /// The leaf that a row ends in.
  std::size_t leaf_of(std::int64_t root, std::span<const double> row) const {
    std::int64_t node = root;
    for (std::size_t steps = 0; steps <= modes_.size(); ++steps) {
      INGOT_CHECK(node >= 0 && static_cast<std::size_t>(node) < modes_.size(),
                  FormatError(where_, -1, "nodes", fmt::format("there is no node {}", node)));
      const auto at = static_cast<std::size_t>(node);
      const auto side = static_cast<std::size_t>(goes_true(at, row));
      node = next_[side][at];
      if (leaf_[side][at] != 0) {
        INGOT_CHECK(node >= 0 && static_cast<std::size_t>(node) < weights_.size(),
                    FormatError(where_, -1, "leaf_weights", fmt::format("there is no leaf {}", node)));
        return static_cast<std::size_t>(node);
      }
    }
    throw FormatError(where_, -1, "nodes", "a tree goes round in a circle");
  }
  double weight(std::size_t leaf) const { return weights_[leaf]; }
  std::int64_t target(std::size_t leaf) const { return targets_[leaf]; }

 private:
  void read_members(const std::vector<double>& values) {
    std::size_t at = 0;
    for (std::size_t node = 0; node < modes_.size(); ++node) {
      if (modes_[node] != kMember) continue;
      for (; at < values.size() && !std::isnan(values[at]); ++at) members_[node].insert(values[at]);
      ++at;
    }
  }
  bool goes_true(std::size_t node, std::span<const double> row) const {
    const auto feature = static_cast<std::size_t>(features_[node]);
    INGOT_CHECK(features_[node] >= 0 && feature < row.size(),
                FormatError(where_, -1, "nodes_featureids", fmt::format("there is no feature {}", feature)));
    const double x = row[feature], split = splits_[node];
    if (std::isnan(x)) return missing_[node] != 0;
    switch (static_cast<int>(modes_[node])) {
      case 0:
        return x <= split;
      case 1:
        return x < split;
      case 2:
        return x >= split;
      case 3:
        return x > split;
      case 4:
        return x == split;
      case 5:
        return x != split;
      default: {
        const auto members = members_.find(node);
        return members != members_.end() && members->second.contains(x);
      }
    }
  }

  static constexpr double kMember = 6;
  std::string where_;
  std::vector<double> modes_, splits_, weights_;
  std::vector<std::int64_t> features_, targets_, missing_;
  std::array<std::vector<std::int64_t>, 2> next_, leaf_;  // of false, of true
  std::map<std::size_t, std::set<double>> members_;
};

Values tree_ensemble(const OpCall& call) {
  enum : std::int64_t { kAverage, kSum, kMin, kMax };
  const Tensor& x = call.in(0, 2, 2);
  const Trees trees(call);
  const std::vector<std::int64_t> roots = call.integers("tree_roots");
  const std::int64_t targets = call.integer("n_targets", 1), how = call.integer("aggregate_function", kSum);
  if (call.integer("post_transform", 0) != 0) call.refuse("a transform of the scores");
  const Shape shape = to_shape({x.dim(0), targets});
  const double start = how == kMin ? INFINITY : how == kMax ? -INFINITY : 0;
  std::vector<double> scores(static_cast<std::size_t>(shape.numel()), start);
  const std::vector<double> values = as_doubles(x);
  const auto width = static_cast<std::size_t>(x.dim(1));
  for (std::int64_t row = 0; row < x.dim(0); ++row) {
    for (const std::int64_t root : roots) {
      const std::size_t leaf =
          trees.leaf_of(root, std::span(values).subspan(static_cast<std::size_t>(row) * width, width));
      INGOT_CHECK(trees.target(leaf) >= 0 && trees.target(leaf) < targets,
                  FormatError(call.where(), -1, "leaf_targetids", fmt::format("is not below {}", targets)));
      double& score = scores[static_cast<std::size_t>(row * targets + trees.target(leaf))];
      const double weight = trees.weight(leaf);
      score = how == kMin   ? std::min(score, weight)
              : how == kMax ? std::max(score, weight)
                            : score + weight / (how == kAverage ? static_cast<double>(roots.size()) : 1);
    }
  }
  for (double& score : scores) score = std::isinf(score) && score == start ? 0 : score;
  return {from_doubles(scores, shape, x.dtype())};
}

constexpr std::array kTabularOps = {OpRow{"TfIdfVectorizer", tf_idf_vectorizer, 0, kOwnTypes},
                                    OpRow{"ai.onnx.ml.ArrayFeatureExtractor", array_feature_extractor, 0, 0},
                                    OpRow{"ai.onnx.ml.Binarizer", binarizer},
                                    OpRow{"ai.onnx.ml.LabelEncoder", label_encoder, 0, kOwnTypes},
                                    OpRow{"ai.onnx.ml.TreeEnsemble", tree_ensemble}};

}  // namespace

std::span<const OpRow> tabular_ops() { return kTabularOps; }

}  // namespace ingot::onnx
