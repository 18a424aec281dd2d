#include "check.h"

enum { kGames = 3 };

/* The first legal action of each game. */
static void choose(const float* legal, int64_t actions, int32_t* chosen) {
  for (int g = 0; g < kGames; ++g) {
    chosen[g] = 0;
    while (legal[g * actions + chosen[g]] == 0) ++chosen[g];
  }
}

static void games_are_observed_and_stepped(void) {
  IngotEnvironment* environment = NULL;
  CHECK_OK(ingot_environment_open("mahjong", kGames, 7, &environment));
  IngotEnvironmentInfo info;
  CHECK_OK(ingot_environment_info(environment, &info, sizeof info));
  CHECK(info.games == kGames && info.players == 4 && info.actions == 46 && info.observation_rank == 2);
  CHECK(info.observation_size == 96 * 34 && info.observation_shape[0] == 96);
  float* observations = calloc(kGames * info.observation_size, sizeof(float));
  float legal[kGames * 46], rewards[kGames * 4], again[kGames * 4];
  int32_t players[kGames], actions[kGames];
  uint8_t ended[kGames];
  void* state = NULL;
  size_t bytes = 0;
  for (int i = 0; i < 40; ++i) {
    CHECK_OK(ingot_environment_players(environment, players));
    CHECK_OK(ingot_environment_observe(environment, observations, legal));
    CHECK(players[0] >= 0 && players[0] < 4);
    choose(legal, 46, actions);
    if (i == 39) CHECK_OK(ingot_environment_state(environment, &state, &bytes));
    CHECK_OK(ingot_environment_step(environment, actions, rewards, ended));
  }
  CHECK_OK(ingot_environment_restore(environment, state, bytes));
  CHECK_OK(ingot_environment_step(environment, actions, again, ended));
  CHECK(memcmp(rewards, again, sizeof rewards) == 0);
  CHECK_FAILS(INGOT_INVALID_CONFIG, "", ingot_environment_restore(environment, state, bytes - 1));
  ingot_free(state);
  free(observations);
  CHECK_OK(ingot_environment_close(environment));
}

static void an_illegal_action_is_a_status_and_nothing_moves(void) {
  IngotEnvironment* environment = NULL;
  CHECK_OK(ingot_environment_open("mahjong", kGames, 1, &environment));
  float rewards[kGames * 4], legal[kGames * 46];
  uint8_t ended[kGames];
  int32_t before[kGames], after[kGames], actions[kGames] = {0, 46, 0};
  CHECK_OK(ingot_environment_players(environment, before));
  float* observations = calloc(kGames * 96 * 34, sizeof(float));
  CHECK_OK(ingot_environment_observe(environment, observations, legal));
  choose(legal, 46, actions);
  actions[1] = 46;
  CHECK_FAILS(INGOT_ILLEGAL_ACTION, "game 1", ingot_environment_step(environment, actions, rewards, ended));
  actions[1] = -1;
  CHECK_FAILS(INGOT_ILLEGAL_ACTION, "game 1", ingot_environment_step(environment, actions, rewards, ended));
  CHECK_OK(ingot_environment_players(environment, after));
  CHECK(memcmp(before, after, sizeof before) == 0);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "actions is NULL",
              ingot_environment_step(environment, NULL, rewards, ended));
  free(observations);
  CHECK_OK(ingot_environment_close(environment));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "mahjong", ingot_environment_open("chess", 1, 1, &environment));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "games", ingot_environment_open("mahjong", 0, 1, &environment));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "NULL", ingot_environment_players(NULL, before));
}

static int32_t lowest(uint64_t mask) {
  int32_t action = 0;
  while (((mask >> action) & 1) == 0) ++action;
  return action;
}

static void a_mahjong_game_is_played_to_its_end(void) {
  IngotMahjong* table = NULL;
  CHECK_OK(ingot_mahjong_open(NULL, 3, &table));
  IngotMahjongInfo info;
  int decisions = 0;
  for (;; ++decisions) {
    CHECK_OK(ingot_mahjong_info(table, &info, sizeof info));
    if (info.game_over || decisions > 20000) break;
    if (info.round_over) {
      CHECK_OK(ingot_mahjong_next_round(table));
      continue;
    }
    int32_t player = 0;
    while (((info.to_act >> player) & 1) == 0) ++player;
    uint64_t mask = 0;
    CHECK_OK(ingot_mahjong_legal(table, player, &mask));
    CHECK(mask != 0);
    const int32_t pass = 45;
    CHECK_OK(ingot_mahjong_act(table, player, (mask >> pass) & 1 ? pass : lowest(mask), -1));
  }
  CHECK(info.game_over && decisions > 100);
  CHECK(info.scores[0] + info.scores[1] + info.scores[2] + info.scores[3] + 1000 * info.sticks == 100000);
  CHECK(info.places[0] + info.places[1] + info.places[2] + info.places[3] == 6);
  CHECK_FAILS(INGOT_ILLEGAL_ACTION, "", ingot_mahjong_next_round(table));
  CHECK_OK(ingot_mahjong_close(table));
}

static void a_position_is_copied_described_and_observed(void) {
  IngotMahjong *table = NULL, *copy = NULL;
  CHECK_OK(ingot_mahjong_open("majsoul", 5, &table));
  CHECK_OK(ingot_mahjong_clone(table, &copy));
  IngotMahjongInfo info;
  CHECK_OK(ingot_mahjong_info(table, &info, sizeof info));
  int32_t player = 0;
  while (((info.to_act >> player) & 1) == 0) ++player;
  uint64_t mask = 0, same = 0;
  CHECK_OK(ingot_mahjong_legal(table, player, &mask));
  char* text = NULL;
  CHECK_OK(ingot_mahjong_describe(table, player, lowest(mask), &text));
  CHECK(strncmp(text, "discard ", 8) == 0);
  ingot_free(text);
  static float values[96 * 34];
  CHECK_OK(ingot_mahjong_observe(table, player, 1, values, 96 * 34));
  float sum = 0;
  for (int i = 0; i < 96 * 34; ++i) sum += values[i];
  CHECK(sum > 0);
  static float more[121 * 34];
  CHECK_OK(ingot_mahjong_observe(table, player, 2, more, 121 * 34)); /* and what each choice is worth */
  CHECK(memcmp(more, values, sizeof values) == 0);
  CHECK_FAILS(INGOT_INVALID_CONFIG, "context: is 3", ingot_mahjong_observe(table, player, 3, more, 121 * 34));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "holds",
              ingot_mahjong_observe(table, player, 0, values, 85 * 34 - 1));
  CHECK_OK(ingot_mahjong_act(table, player, lowest(mask), -1));
  CHECK_FAILS(INGOT_ILLEGAL_ACTION, "not legal", ingot_mahjong_act(table, player, 43, -1));
  CHECK_OK(ingot_mahjong_legal(copy, player, &same)); /* the copy did not move */
  CHECK(same == mask);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "player is 4", ingot_mahjong_legal(table, 4, &mask));
  CHECK_FAILS(INGOT_ILLEGAL_ACTION, "46", ingot_mahjong_act(copy, player, 46, -1));
  CHECK_OK(ingot_mahjong_close(table));
  CHECK_OK(ingot_mahjong_close(copy));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "house", ingot_mahjong_open("house", 1, &table));
}

const TestCase environment_tests[] = {
    {"environment: games are observed and stepped", games_are_observed_and_stepped},
    {"environment: an illegal action is a status", an_illegal_action_is_a_status_and_nothing_moves},
    {"mahjong: a game is played to its end", a_mahjong_game_is_played_to_its_end},
    {"mahjong: a position is copied, described and observed", a_position_is_copied_described_and_observed},
    {NULL, NULL}};
