#include "ingot/dist/processors.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

namespace ingot::dist {
namespace {

using Nodes = std::vector<NumaNode>;

void write(const std::string& path, const std::string& line) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << line << "\n";
}

TEST(Processors, NodesAreReadAsTheKernelListsThemCoreByCore) {
  const test::TemporaryDirectory folder;
  const auto node = [&](int number, const std::string& list) {
    write(folder.path() + "/node/node" + std::to_string(number) + "/cpulist", list);
  };
  node(0, "0-2,8");
  node(1, "");  // memory alone
  node(2, "3-5,9-10");
  // Threads of a core: 0 and 8, 4 and 9; of the others nothing is told.
  for (const auto& [processor, siblings] : {std::pair{0, "0,8"}, {8, "0,8"}, {4, "4,9"}, {9, "4,9"}})
    write(folder.path() + "/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list",
          siblings);
  EXPECT_EQ(numa_nodes(folder.path()), (Nodes{{{0, 8}, {1}, {2}}, {{3}, {4, 9}, {5}, {10}}}));
  EXPECT_TRUE(numa_nodes(folder.path() + "/none").empty());
}

TEST(Processors, RanksTakeANodeEachOrShareThemOut) {
  const Nodes two{{{0}, {1}, {2}, {3}}, {{4}, {5}, {6}, {7}}};
  EXPECT_EQ(processors_of_rank(two, 0, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(processors_of_rank(two, 1, 2), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(processors_of_rank(two, 1, 4), (std::vector<int>{2, 3}));
  EXPECT_EQ(processors_of_rank(two, 2, 4), (std::vector<int>{4, 5}));
  // Of three ranks two are on the first node, and one has the second.
  EXPECT_EQ(processors_of_rank(two, 1, 3), (std::vector<int>{2, 3}));
  EXPECT_EQ(processors_of_rank(two, 2, 3), (std::vector<int>{4, 5, 6, 7}));
  // More ranks than processors share them; one node is no choice.
  EXPECT_EQ(processors_of_rank({{{0}}, {{1}}}, 3, 4), (std::vector<int>{1}));
  EXPECT_TRUE(processors_of_rank({{{0}, {1}}}, 1, 2).empty());
}

TEST(Processors, RanksOfANodeShareNoCoreWhereThereAreEnough) {
  // As most machines number them: the second threads of all cores behind the first ones.
  const Nodes two{{{0, 8}, {1, 9}, {2, 10}, {3, 11}}, {{4, 12}, {5, 13}, {6, 14}, {7, 15}}};
  EXPECT_EQ(processors_of_rank(two, 0, 4), (std::vector<int>{0, 8, 1, 9}));
  EXPECT_EQ(processors_of_rank(two, 1, 4), (std::vector<int>{2, 10, 3, 11}));
  EXPECT_EQ(processors_of_rank(two, 7, 8), (std::vector<int>{7, 15}));
  // Sixteen ranks on eight cores: a thread each.
  EXPECT_EQ(processors_of_rank(two, 1, 16), (std::vector<int>{8}));
}

}  // namespace
}  // namespace ingot::dist
