#include "ingot/base/config_table.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

enum class Tip { circle, square };

struct Pen {
  double width = 0.5;
};
struct Drawing {
  std::int64_t copies = 1;
  std::string colour = "black";
  std::vector<std::string> layers{"lines"};
  Tip shape = Tip::circle;
  Pen pen;
};

const ConfigTable<Drawing>& keys() {
  using Field = ConfigTable<Drawing>::Field;
  static const ConfigTable<Drawing> table{
      {"Paper",
       {{"copies", &Drawing::copies, {.aliases = {"count"}, .bounds = at_least(1), .doc = "How many."}},
        {"layers", &Drawing::layers, {.choices = {"lines", "areas"}, .doc = "What is drawn."}}}},
      {"Ink",
       {{"colour", &Drawing::colour, {.choices = {"black", "blue"}, .doc = "Of the ink."}},
        {"width",
         &Drawing::pen,
         &Pen::width,
         {.bounds = positive(), .unit = "millimetres", .doc = "Of the pen."}},
        Field::words(
            "shape", [](Drawing& d) -> Tip& { return d.shape; },
            [](const std::string& word) { return word == "circle" ? Tip::circle : Tip::square; },
            [](Tip shape) { return shape == Tip::circle ? "circle" : "square"; },
            {.choices = {"circle", "square"}, .doc = "Of the tip."}),
        Field::documented("title", "text", {.default_text = "none", .doc = "Read elsewhere."})}}};
  return table;
}

Drawing read_drawing(const std::string& yaml) {
  Config config = Config::parse(yaml);
  Drawing drawing;
  keys().read(config.root(), drawing);
  config.finish();
  return drawing;
}

std::string drawing_error(const std::string& yaml) {
  try {
    read_drawing(yaml);
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "no error";
}

TEST(ConfigTable, ReadsEachKeyByAnyOfItsNamesAndKeepsWhatIsNotGiven) {
  const Drawing drawing =
      read_drawing("{count: 3, colour: blue, width: 2, shape: square, layers: [areas, lines]}");
  EXPECT_EQ(drawing.copies, 3);
  EXPECT_EQ(drawing.colour, "blue");
  EXPECT_EQ(drawing.pen.width, 2);
  EXPECT_EQ(drawing.shape, Tip::square);
  EXPECT_EQ(drawing.layers, (std::vector<std::string>{"areas", "lines"}));
  const Drawing untouched = read_drawing("{}");
  EXPECT_EQ(untouched.copies, 1);
  EXPECT_EQ(untouched.shape, Tip::circle);
}

TEST(ConfigTable, RefusesWhatARowDoesNotAllowByKeyAndPlace) {
  EXPECT_NE(drawing_error("copies: 0").find("must be at least 1, got 0"), std::string::npos)
      << drawing_error("copies: 0");
  EXPECT_NE(drawing_error("colour: blck").find("black"), std::string::npos) << drawing_error("colour: blck");
  EXPECT_NE(drawing_error("shape: round").find("circle, square"), std::string::npos)
      << drawing_error("shape: round");
  EXPECT_NE(drawing_error("layers: [lines, dots]").find("dots"), std::string::npos);
  EXPECT_NE(drawing_error("{copies: 1, count: 2}").find("another name"), std::string::npos);
  EXPECT_NE(drawing_error("widht: 2").find("width"), std::string::npos) << drawing_error("widht: 2");
}

TEST(ConfigTable, ChecksAConfigurationThatWasMadeInCpp) {
  Drawing drawing;
  keys().check(drawing);
  drawing.pen.width = 0;
  EXPECT_THROW(keys().check(drawing), InvalidConfig);
  drawing = {};
  drawing.colour = "red";
  EXPECT_THROW(keys().check(drawing), InvalidConfig);
}

TEST(ConfigTable, TellsOfEveryKey) {
  const std::vector<ConfigSection> sections = keys().reference();
  ASSERT_EQ(sections.size(), 2);
  const ConfigKey& copies = sections[0].keys[0];
  EXPECT_EQ(copies.key, "copies");
  EXPECT_EQ(copies.aliases, std::vector<std::string>{"count"});
  EXPECT_EQ(copies.kind, "a whole number, at least 1");
  EXPECT_EQ(copies.default_value, "1");
  EXPECT_EQ(sections[0].keys[1].kind, "a list (lines, areas)");
  EXPECT_EQ(sections[1].keys[1].unit, "millimetres");
  EXPECT_EQ(sections[1].keys[2].default_value, "circle");
  EXPECT_EQ(sections[1].keys[3].default_value, "none");
}

}  // namespace
}  // namespace ingot
