#include "ingot/base/config.h"

#include <functional>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"

namespace ingot {
namespace {

using Strings = std::vector<std::string>;

/// "key | message" of the InvalidConfig that `body` throws.
std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidConfig& error) {
    return error.key + " | " + error.what();
  }
  return "nothing was thrown";
}

TEST(Config, ValuesAreReadWithTheirTypesAndDefaults) {
  const Config config = Config::parse(R"(
learning_rate: 2e-4
max_steps: 1e6
lora: yes
run_name: "true"
gpus: ~
empty:
names: [a, 'b c', 3]
one: single
ratios:
  - 0.5
  - 1
nested: {deep: {x: -3}}
)");
  const ConfigReader root = config.root();
  EXPECT_DOUBLE_EQ(root.get("learning_rate", 1.0), 2e-4);
  EXPECT_EQ(root.get("max_steps", std::int64_t{0}), 1'000'000);
  EXPECT_EQ(root.get("lora", false), true);
  EXPECT_EQ(root.get("run_name", "x"), "true");
  EXPECT_EQ(root.get("gpus", 4), 4) << "null is as good as absent";
  EXPECT_EQ(root.get("empty", "fallback"), "fallback");
  EXPECT_EQ(root.get("absent", 1.5F), 1.5F);
  EXPECT_EQ(root.get("names", Strings{}), (Strings{"a", "b c", "3"}));
  EXPECT_EQ(root.get("one", Strings{}), (Strings{"single"}));
  EXPECT_EQ(root.get("ratios", std::vector<double>{}), (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(root.section("nested").section("deep").get("x", 0), -3);
  EXPECT_EQ(root.section("not_there").get("x", 7), 7);
  EXPECT_NO_THROW(config.finish());
}

TEST(Config, FreeValuesKeepTheirTypesAndQuotedTextItsQuotesWhereItNeedsThem) {
  const Config config = Config::parse(
      R"(c: [None, "null", null, true, "true", 1, 1.0, 0x10, 1e-3, "16", x y, "it's", ~tilde, ~, yes, [2, a]])");
  std::string all;
  for (const FreeValue& value : config.root().require_free("c"))
    all += value.text + " -> " + value.json + "\n";
  EXPECT_EQ(
      all,
      "None -> \"None\"\n\"null\" -> \"null\"\nnull -> null\ntrue -> true\n\"true\" -> \"true\"\n1 -> 1\n"
      "1.0 -> 1.0\n0x10 -> 16\n1e-3 -> 0.001\n\"16\" -> \"16\"\nx y -> \"x y\"\nit's -> \"it's\"\n"
      "~tilde -> \"~tilde\"\nnull -> null\nyes -> \"yes\"\n[2,\"a\"] -> [2,\"a\"]\n");
  EXPECT_THROW(config.root().require_free("d"), InvalidConfig);
}

TEST(Config, WrongTypesNameKeyFileLineAndWhatWasExpected) {
  const Config config = Config::parse("a: 1\nb: hello\nc: [1, x]\nd: {e: 1}\nf: 1.5\ng: 300\n", "t.yaml");
  const ConfigReader root = config.root();
  EXPECT_EQ(failure([&] { root.get("b", 0); }),
            "b | invalid configuration: b: expected a whole number, got 'hello' (t.yaml, line 2)");
  EXPECT_NE(failure([&] {
              root.get("c", std::vector<double>{});
            }).find("expected a number, got 'x' (t.yaml, line 3)"),
            std::string::npos);
  EXPECT_NE(failure([&] { root.get("d", "x"); }).find("expected text, got a mapping"), std::string::npos);
  EXPECT_NE(failure([&] { root.get("f", 1); }).find("expected a whole number, got '1.5'"), std::string::npos);
  EXPECT_NE(failure([&] { root.get("a", true); }).find("nothing was thrown"), std::string::npos);
  EXPECT_NE(failure([&] { root.get("g", true); }).find("expected true or false"), std::string::npos);
  EXPECT_NE(failure([&] { root.section("a"); }).find("expected a mapping of keys to values, got '1'"),
            std::string::npos);
  EXPECT_NE(failure([&] { root.require<int>("none"); }).find("none: is required but not given (t.yaml)"),
            std::string::npos);
}

TEST(Config, NumbersThatDoNotFitTheirTypeAreErrors) {
  const Config config = Config::parse("a: 3000000000\nb: -1\nc: .inf\nd: nan\ne: 1e400\nf: 1.5e0\ng: 3e9\n");
  const ConfigReader root = config.root();
  EXPECT_THROW(root.get("a", 0), InvalidConfig);
  EXPECT_EQ(root.get("a", std::int64_t{0}), 3'000'000'000);
  EXPECT_THROW(root.get("b", std::uint64_t{0}), InvalidConfig);
  EXPECT_THROW(root.get("c", 0.0), InvalidConfig);
  EXPECT_THROW(root.get("d", 0.0), InvalidConfig);
  EXPECT_THROW(root.get("e", 0.0), InvalidConfig);
  EXPECT_THROW(root.get("f", 0), InvalidConfig);
  EXPECT_THROW(root.get("g", 0), InvalidConfig);
}

TEST(Config, BoundsAreCheckedAndSaid) {
  const Config config = Config::parse("lr: 0\nn: 0\ndropout: 1\nok: 0.999\nlist: [1, -1]\n", "t.yaml");
  const ConfigReader root = config.root();
  EXPECT_NE(failure([&] { root.get("lr", 1.0, positive()); }).find("must be above 0, got 0 (t.yaml, line 1)"),
            std::string::npos);
  EXPECT_NE(failure([&] { root.get("n", 1, at_least(1)); }).find("must be at least 1, got 0"),
            std::string::npos);
  EXPECT_NE(
      failure([&] { root.get("dropout", 0.0, fraction()); }).find("must be at least 0 and below 1, got 1"),
      std::string::npos);
  EXPECT_NE(failure([&] { root.get("list", std::vector<double>{}, at_least(0)); }).find("got -1"),
            std::string::npos);
  EXPECT_DOUBLE_EQ(root.get("ok", 0.0, fraction()), 0.999);
}

TEST(Config, ChoicesSuggestTheNearest) {
  const Config config = Config::parse("recipe: bf61\n", "t.yaml");
  EXPECT_NE(failure([&] {
              config.root().choice("recipe", "bf16", {"bf16", "fp8_hybrid"});
            }).find("must be one of bf16, fp8_hybrid, got 'bf61'; did you mean 'bf16'? (t.yaml, line 1)"),
            std::string::npos);
  EXPECT_EQ(config.root().choice("other", "bf16", {"bf16"}), "bf16");
}

TEST(Config, UnknownKeysAreAllListedWithLineAndWhatWasMeant) {
  const Config config =
      Config::parse("learnign_rate: 1\noptimizer:\n  beta: 0.9\n  seed: 3\nzzz: {a: 1}\n", "t.yaml");
  const ConfigReader root = config.root();
  root.get("learning_rate", 1.0);
  root.get("seed", 0);
  root.section("optimizer").get("beta1", 0.9);
  const std::string text = failure([&] { config.finish(); });
  EXPECT_NE(text.find("learnign_rate: unknown key (t.yaml, line 1); did you mean 'learning_rate'?"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("optimizer.beta: unknown key (t.yaml, line 3); did you mean 'beta1'?"),
            std::string::npos);
  EXPECT_NE(text.find("optimizer.seed: unknown key (t.yaml, line 4); it belongs at the top level"),
            std::string::npos);
  EXPECT_NE(text.find("zzz: unknown key (t.yaml, line 5)"), std::string::npos);
  EXPECT_EQ(text.find("zzz.a"), std::string::npos);
}

TEST(Config, ListsOfMappingsAreReadAndCheckedForUnknownKeysToo) {
  const Config config = Config::parse("datasets:\n  - path: a.txt\n  - {path: b.txt, wieght: 2}\n", "t.yaml");
  const auto datasets = config.root().sections("datasets");
  ASSERT_EQ(datasets.size(), 2U);
  for (const ConfigReader& dataset : datasets) {
    dataset.require<std::string>("path");
    dataset.get("weight", 1.0);
  }
  EXPECT_EQ(
      failure([&] { config.finish(); }),
      "datasets.1.wieght | invalid configuration: datasets.1.wieght: unknown key (t.yaml, line 3); did you "
      "mean 'weight'?");
  EXPECT_EQ(config.dump(), "datasets:\n  - path: a.txt\n    weight: 1\n  - path: b.txt\n    weight: 1\n");
  EXPECT_EQ(Config::parse("datasets: {path: a}").root().sections("datasets").size(), 1U);
  EXPECT_THROW(Config::parse("datasets: [a]").root().sections("datasets"), InvalidConfig);
  EXPECT_TRUE(Config::parse("").root().sections("datasets").empty());
}

TEST(Config, SetOverridesAddsAndReachesIntoLists) {
  Config config = Config::parse("a: 1\nb: {c: 2}\nd: [{x: 1}, {x: 2}]\n", "t.yaml");
  config.set("a=5");
  config.set("b.c=[1, 2]");
  config.set("e.f.g=hello=there");
  config.set("d.1.x=9");
  const ConfigReader root = config.root();
  EXPECT_EQ(root.get("a", 0), 5);
  EXPECT_EQ(root.section("b").get("c", std::vector<std::int64_t>{}), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(root.section("e").section("f").get("g", ""), "hello=there");
  EXPECT_EQ(root.sections("d")[1].get("x", 0), 9);
  EXPECT_EQ(root.where("a"), "--set");
  config.set("a=6", "--number");
  EXPECT_EQ(root.where("a"), "--number");
  config.set("h={i: {j: 1}}", "space.h of s.yaml, line 2");
  EXPECT_EQ(root.section("h").section("i").where("j"), "space.h of s.yaml, line 2");
  config.set("a=null");
  EXPECT_EQ(root.get("a", 3), 3);
  for (const char* bad : {"", "a", "=1", ".a=1", "a.=1", "a..b=1", "a: [", "d.7.x=1", "d.y.x=1", "b={"}) {
    EXPECT_THROW(config.set(bad), InvalidConfig) << bad;
  }
  config.set("a=1");
  EXPECT_NE(failure([&] { config.set("a.b=1"); }).find("cannot be set inside the value '1'"),
            std::string::npos);
}

TEST(Config, AnUnknownKeyOfSetIsNamedAsSuch) {
  Config config = Config::parse("", "t.yaml");
  config.set("sede=1");
  config.root().get("seed", 0);
  EXPECT_NE(failure([&] { config.finish(); }).find("sede: unknown key (--set); did you mean 'seed'?"),
            std::string::npos);
}

TEST(Config, MergeKeysTakeOverWhatAMappingDoesNotHave) {
  Config config = Config::parse(
      "defaults: &d {rate: 0.5, decay: 0.25, deep: {a: 1}}\nmore: &m {rate: 7, name: other}\n"
      "decay: 0\n<<: [*d, *m]\nlist:\n  - {<<: *m, name: own}\n",
      "t.yaml");
  const ConfigReader root = config.root();
  EXPECT_EQ(root.get("rate", 0.0), 0.5) << "the first of the list";
  EXPECT_EQ(root.get("decay", 1.0), 0) << "what stands beside it";
  EXPECT_EQ(root.get("name", ""), "other");
  EXPECT_EQ(root.section("deep").get("a", 0), 1);
  const ConfigReader item = root.sections("list")[0];
  EXPECT_EQ(item.get("name", ""), "own");
  EXPECT_EQ(item.get("rate", 0), 7);
  EXPECT_NO_THROW(config.finish()) << "where the merged mappings stand need be no key";

  Config unknown = Config::parse("d: &d {rate: 1}\n<<: *d\n", "t.yaml");
  EXPECT_NE(failure([&] { unknown.finish(); }).find("rate: unknown key (t.yaml, line 1)"), std::string::npos);
  EXPECT_EQ(Config::parse("'<<': 3").root().get("<<", 0), 3);
  EXPECT_NE(failure([] { Config::parse("<<: 3"); }).find("line 1: << takes over the keys"),
            std::string::npos);
  EXPECT_NE(failure([] { Config::parse("a: &a [*a]\n<<: *a\n"); }).find("deeper than"), std::string::npos);
}

TEST(Config, AliasesAreReadAsTheNameAndBothAtOnceRefused) {
  const Config config = Config::parse("seq_len: 128\n");
  config.root().alias("seq_len", "sequence_len");
  EXPECT_EQ(config.root().get("sequence_len", 0), 128);
  EXPECT_NO_THROW(config.finish());
  const Config both = Config::parse("seq_len: 128\nsequence_len: 64\n");
  EXPECT_NE(
      failure([&] { both.root().alias("seq_len", "sequence_len"); }).find("another name of 'sequence_len'"),
      std::string::npos);
}

TEST(Config, TheEffectiveConfigurationReadsBackTheSame) {
  const std::string yaml = "a: 0.0002\nb:\n  c: true\n  d: \"null\"\ne: [x, \"y: z\", \"\"]\n";
  const auto read = [](const Config& config) {
    config.root().get("a", 0.0);
    config.root().section("b").get("c", false);
    config.root().section("b").get("d", "");
    config.root().get("e", Strings{});
    config.root().get("steps", 10);
  };
  const Config first = Config::parse(yaml);
  read(first);
  EXPECT_EQ(first.dump(), yaml + "steps: 10\n");
  const Config second = Config::parse(first.dump());
  read(second);
  EXPECT_EQ(second.dump(), first.dump());
  const Setting last = first.effective().back();
  EXPECT_EQ(last.name + "=" + last.value, "steps=10");
}

TEST(Config, BrokenYamlSaysWhere) {
  EXPECT_NE(failure([] { Config::parse("a: 1\nb: [1,\nc: 2\n", "t.yaml"); }).find("is not valid YAML"),
            std::string::npos);
  EXPECT_NE(failure([] {
              Config::parse("a: 1\nb: 2\na: 3\n", "t.yaml");
            }).find("t.yaml: line 3: 'a' is given twice, here and in line 1"),
            std::string::npos);
  EXPECT_NE(failure([] { Config::parse("- 1\n- 2\n", "t.yaml"); }).find("expected a mapping"),
            std::string::npos);
  EXPECT_NE(failure([] { Config::parse("? [a, b]\n: 1\n", "t.yaml"); }).find("a key must be a word"),
            std::string::npos);
  EXPECT_THROW(Config::load("no/such/file.yaml"), IoError);
}

TEST(Config, HostileYamlIsRefusedAndNotExpanded) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(failure([&] { Config::parse(bomb); }).find("is too large"), std::string::npos);
  EXPECT_THROW(Config::parse("a: " + std::string(100'000, '[')), InvalidConfig);
  EXPECT_NE(failure([&] { Config::parse("a: &a [*a]"); }).find("an alias stands in what it names"),
            std::string::npos);
  EXPECT_THROW(Config::parse("a: &a {b: *a}"), InvalidConfig);
  std::string repeated = "a: &a " + std::string(100'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 50'000; ++i) repeated += ",*a";
  EXPECT_NE(failure([&] { Config::parse(repeated + "]"); }).find("is too large"), std::string::npos);
  EXPECT_THROW(Config::parse(std::string("\xff\xfe\x00\x01:", 5)), InvalidConfig);
}

TEST(Config, ManyKeysTakeTimeThatGrowsWithTheirNumber) {
  std::string many = "m:\n";
  for (int i = 0; i < 49'000; ++i) many += "  k" + std::to_string(i) + ": 1\n";
  const Config config = Config::parse(many);
  EXPECT_EQ(config.root().section("m").keys().size(), 49'000U);
  std::string unknown;
  for (int i = 0; i < 49'000; ++i) unknown += "k" + std::to_string(i) + ": 1\n";
  const std::string message = failure([&] { Config::parse(unknown).finish(); });
  EXPECT_NE(message.find("k19"), std::string::npos) << message;
  EXPECT_EQ(message.find("k20"), std::string::npos) << message;
  EXPECT_NE(message.find("and more"), std::string::npos) << message;
}

TEST(Config, FreeMappingsListTheirKeys) {
  const Config config = Config::parse("added_tokens: {b: 1, a: 2}\n");
  EXPECT_EQ(config.root().section("added_tokens").keys(), (Strings{"b", "a"}));
  EXPECT_NO_THROW(config.finish());
}

TEST(Config, SetReachesKeysThatHoldDots) {
  Config config = Config::parse("space: {a.b: {low: 1}, a: {low: 2}, a.b.c: {low: 3}}\n");
  for (const char* assignment :
       {"space.a.b.low=10", "space.a.low=20", "space.a.b.c.low=30", "space.a.d.low=40"})
    config.set(assignment);
  const ConfigReader space = config.root().section("space");
  EXPECT_EQ(space.section("a.b").get("low", 0), 10);
  EXPECT_EQ(space.section("a").get("low", 0), 20);
  EXPECT_EQ(space.section("a.b.c").get("low", 0), 30);
  EXPECT_EQ(space.section("a").section("d").get("low", 0), 40);
}

struct Options {
  int heads = 1;
  void validate() const { INGOT_CHECK(heads > 0, InvalidConfig("heads", "must be at least 1")); }
};
static_assert(ValidatableConfig<Options>);
static_assert(!ValidatableConfig<int>);

TEST(Config, ValidatedPassesAGoodOneOnAndRefusesABadOne) {
  EXPECT_EQ(validated(Options{3}).heads, 3);
  EXPECT_THROW(validated(Options{0}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
