#include "ingot/graph/graph.h"

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/core/backend.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/forecast/model.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {
namespace {

LanguageConfig tiny(std::int64_t layers = 4) {
  LanguageConfig config;
  config.vocab_size = 100;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  return config;
}

const GraphModule& module_at(const GraphModule& root, std::initializer_list<const char*> path) {
  const GraphModule* at = &root;
  for (const char* name : path) {
    const auto found = std::ranges::find(at->modules, name, &GraphModule::name);
    if (found == at->modules.end()) {
      ADD_FAILURE() << name << " is missing in " << at->full_name;
      return *at;
    }
    at = &*found;
  }
  return *at;
}

TEST(ModelGraph, HasModulesWithOpsShapesParametersAndFlops) {
  const LanguageConfig config = tiny();
  const ModelGraph graph = graph_of_model(config, {.batch = 2, .sequence = 16});
  EXPECT_EQ(graph.model.parameter_count(), config.parameter_count());
  const GraphModule& out = module_at(graph.model, {"model", "layers", "1", "self_attn", "o_proj"});
  ASSERT_EQ(out.ops.size(), 1U);
  EXPECT_EQ(out.ops[0].name, "linear");
  EXPECT_EQ(out.ops[0].result(), "f32[32,32]");
  EXPECT_EQ(out.ops[0].flops(), 2.0 * 2 * 16 * 32 * 32);
  ASSERT_EQ(out.parameters.size(), 1U);
  EXPECT_EQ(out.parameters[0].type(), "f32[32,32]");
  const GraphModule& attention = module_at(graph.model, {"model", "layers", "1", "self_attn"});
  EXPECT_TRUE(std::ranges::any_of(attention.ops, [](const GraphOp& op) { return op.name == "attention"; }));
  EXPECT_GT(graph.activation_bytes, 0U);
  EXPECT_EQ(graph.model.flops(true), 0);
}

TEST(ModelGraph, OfABackwardPassHasTwiceTheMatmulsAgain) {
  const double forward = graph_of_model(tiny(), {.batch = 1, .sequence = 32}).model.flops(false);
  const ModelGraph graph = graph_of_model(tiny(), {.batch = 1, .sequence = 32, .backward = true});
  // The loss makes the gradient of its logits at once, so the head's matmuls count as forward ones.
  EXPECT_NEAR((graph.model.flops(false) + graph.model.flops(true)) / forward, 3, 0.2);
  const GraphModule& down = module_at(graph.model, {"model", "layers", "2", "mlp", "down_proj"});
  EXPECT_TRUE(std::ranges::any_of(down.ops, &GraphOp::backward));
}

TEST(ModelGraph, FoldsLayersThatDoTheSame) {
  const ModelGraph graph = graph_of_model(tiny(32), {.batch = 1, .sequence = 8});
  const GraphModule& layers = module_at(graph.model, {"model", "layers"});
  ASSERT_EQ(layers.modules.size(), 32U);
  const std::vector<GraphRun> runs = folded(layers.modules);
  EXPECT_LE(runs.size(), 3U);  // the first norm has nothing to add
  std::size_t covered = 0;
  for (const GraphRun& run : runs) {
    EXPECT_EQ(run.first, covered);
    covered += run.count;
  }
  EXPECT_EQ(covered, 32U);
}

TEST(ModelGraph, ConnectsOpsByWhatTheyRead) {
  const ModelGraph graph = graph_of_model(tiny(1), {.batch = 1, .sequence = 8});
  const GraphModule& attention = module_at(graph.model, {"model", "layers", "0", "self_attn"});
  const GraphOp& out = module_at(attention, {"o_proj"}).ops.at(0);
  const auto mixed =
      std::ranges::find_if(attention.ops, [](const GraphOp& op) { return op.name == "attention"; });
  ASSERT_NE(mixed, attention.ops.end());
  EXPECT_TRUE(std::ranges::find(out.inputs, mixed->number) != out.inputs.end());
}

TEST(ModelGraph, TakesNoMemoryForParameters) {
  LanguageConfig config = tiny(32);
  config.vocab_size = 32000;
  config.hidden_size = 4096;
  config.intermediate_size = 11008;
  config.num_attention_heads = config.num_key_value_heads = 32;
  config.head_dim = 128;
  config.tie_word_embeddings = false;
  MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  const ModelGraph graph = graph_of_model(config, {.batch = 1, .sequence = 4});
  EXPECT_NEAR(static_cast<double>(graph.model.parameter_count()), 6.74e9, 0.05e9);
  EXPECT_LT(memory.peak() - before, std::size_t{2} << 30);
}

TEST(ModelGraph, OfMixturesEncodersForecastsAndPoliciesIsFound) {
  LanguageConfig sparse = tiny();
  sparse.model_type = "qwen3_moe";
  apply_family(sparse);
  sparse.num_experts = 4;
  sparse.num_experts_per_tok = 2;
  sparse.moe_intermediate_size = 16;
  for (const bool backward : {false, true}) {
    const GraphOptions options{.batch = 2, .sequence = 8, .backward = backward};
    EXPECT_GT(graph_of_model(sparse, options).model.flops(backward), 0);
    EncoderConfig encoder;
    encoder.vocab_size = 100;
    encoder.hidden_size = 32;
    encoder.intermediate_size = 64;
    encoder.num_hidden_layers = 2;
    encoder.num_attention_heads = 4;
    EXPECT_GT(graph_of_model(encoder, options).model.flops(backward), 0);
    for (const char* name : {"dlinear", "patchtst", "itransformer", "timesnet", "autoformer", "fedformer"}) {
      SCOPED_TRACE(name);
      EXPECT_GT(graph_of_model(ForecastModelConfig::defaults(name), options).model.bytes(), 0);
    }
    EXPECT_GT(graph_of_model(DualPoolNetConfig{.channels = 32, .blocks = 2}, options).model.flops(backward),
              0);
  }
}

TEST(ModelGraph, IsWrittenAsJsonDotAndPage) {
  const ModelGraph graph = graph_of_model(tiny(), {.batch = 1, .sequence = 8, .backward = true});
  const auto json = parse_json<nlohmann::json>(graph_json(graph), "the graph");
  EXPECT_EQ(json.at("model").at("parameter_count"), tiny().parameter_count());
  EXPECT_TRUE(json.at("backward"));
  const std::string dot = graph_dot(graph);
  EXPECT_TRUE(dot.starts_with("digraph model {"));
  EXPECT_EQ(std::ranges::count(dot, '{'), std::ranges::count(dot, '}'));
  EXPECT_NE(dot.find(" -> "), std::string::npos);
  const std::string page = graph_page(graph);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page needs nothing else";
}

TEST(ModelGraph, NamesWhatIsNotAModel) {
  const test::TemporaryDirectory empty;
  EXPECT_NE(test::message_of<InvalidConfig>([&] {
              graph_of_model(empty.path(), GraphOptions{});
            }).find("is not a model"),
            std::string::npos);
  EXPECT_THROW(graph_of_model(tiny(), {.batch = 0}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
