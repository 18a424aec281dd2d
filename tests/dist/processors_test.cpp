#include "ingot/dist/processors.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

namespace ingot::dist {
namespace {

using Nodes = std::vector<std::vector<int>>;

TEST(Processors, NodesAreReadAsTheKernelListsThem) {
  const test::TemporaryDirectory folder;
  const auto node = [&](int number, const std::string& list) {
    const std::string path = folder.path() + "/node" + std::to_string(number);
    std::filesystem::create_directories(path);
    std::ofstream(path + "/cpulist") << list << "\n";
  };
  node(0, "0-2,8");
  node(1, "");  // memory alone
  node(2, "3-5,9-10");
  EXPECT_EQ(numa_nodes(folder.path()), (Nodes{{0, 1, 2, 8}, {3, 4, 5, 9, 10}}));
  EXPECT_TRUE(numa_nodes(folder.path() + "/none").empty());
}

TEST(Processors, RanksTakeANodeEachOrShareThemOut) {
  const Nodes two{{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(processors_of_rank(two, 0, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(processors_of_rank(two, 1, 2), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(processors_of_rank(two, 1, 4), (std::vector<int>{2, 3}));
  EXPECT_EQ(processors_of_rank(two, 2, 4), (std::vector<int>{4, 5}));
  // Of three ranks two are on the first node, and one has the second.
  EXPECT_EQ(processors_of_rank(two, 1, 3), (std::vector<int>{2, 3}));
  EXPECT_EQ(processors_of_rank(two, 2, 3), (std::vector<int>{4, 5, 6, 7}));
  // More ranks than processors share them; one node is no choice.
  EXPECT_EQ(processors_of_rank({{0}, {1}}, 3, 4), (std::vector<int>{1}));
  EXPECT_TRUE(processors_of_rank({{0, 1}}, 1, 2).empty());
}

}  // namespace
}  // namespace ingot::dist
