#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Many games of one kind, moved together, as reinforcement learning plays them. Each waits for one decision
/// of one player; one that ends begins anew. Takes one call at a time.
typedef struct IngotEnvironment IngotEnvironment;

/// name: "mahjong". The same seed and actions give the same games.
INGOT_API IngotStatus ingot_environment_open(const char* name, size_t games, uint64_t seed,
                                             IngotEnvironment** out);
/// NULL is allowed.
INGOT_API IngotStatus ingot_environment_close(IngotEnvironment* environment);

/// Sizes, the same for all positions. The shape is valid while the handle is open.
typedef struct IngotEnvironmentInfo {
  size_t games;
  int32_t players;
  int64_t actions;                   ///< ids from 0 on; which of them are legal changes
  const int64_t* observation_shape;  ///< of what one player sees
  int32_t observation_rank;
  size_t observation_size;  ///< numbers of one observation
} IngotEnvironmentInfo;
INGOT_API IngotStatus ingot_environment_info(const IngotEnvironment* environment, IngotEnvironmentInfo* info,
                                             size_t size);
/// Who decides in each game: players [games].
INGOT_API IngotStatus ingot_environment_players(IngotEnvironment* environment, int32_t* players);
/// What the deciding players see: observations [games, observation_size], and 1 for each legal action, else
/// 0: legal [games, actions]. At least one is legal.
INGOT_API IngotStatus ingot_environment_observe(IngotEnvironment* environment, float* observations,
                                                float* legal);
/// Takes one legal action per game, actions [games]. Writes what it brought every player, rewards [games,
/// players], and 1 for each game that ended, ended [games]. INGOT_ILLEGAL_ACTION, naming the game, where one
/// is not; nothing moves then.
INGOT_API IngotStatus ingot_environment_step(IngotEnvironment* environment, const int32_t* actions,
                                             float* rewards, uint8_t* ended);
/// Everything the games depend on: *state [*bytes] is to be freed with ingot_free().
INGOT_API IngotStatus ingot_environment_state(IngotEnvironment* environment, void** state, size_t* bytes);
INGOT_API IngotStatus ingot_environment_restore(IngotEnvironment* environment, const void* state,
                                                size_t bytes);

/// One table of four players under the rules of riichi mahjong. Takes one call at a time.
typedef struct IngotMahjong IngotMahjong;

/// rules: "tenhou" (or NULL), "majsoul", "european". The seed decides every wall.
INGOT_API IngotStatus ingot_mahjong_open(const char* rules, uint64_t seed, IngotMahjong** out);
/// The same position on a table of its own.
INGOT_API IngotStatus ingot_mahjong_clone(IngotMahjong* table, IngotMahjong** out);
/// NULL is allowed.
INGOT_API IngotStatus ingot_mahjong_close(IngotMahjong* table);

typedef struct IngotMahjongInfo {
  uint32_t to_act;     ///< bit per seat (0 to 3) that must act now; 0: the round or the game is over
  int32_t round_over;  ///< 1: ingot_mahjong_next_round() deals on
  int32_t game_over;
  int32_t round;  ///< 0 = East 1, 4 = South 1
  int32_t dealer, honba, sticks;
  int32_t tiles_left;  ///< that can still be drawn
  int32_t scores[4];
  int32_t places[4];  ///< of the scores as they are: 0 = first
  double points[4];   ///< of them as a game's result, uma and oka included, in units of 1000
} IngotMahjongInfo;
INGOT_API IngotStatus ingot_mahjong_info(IngotMahjong* table, IngotMahjongInfo* info, size_t size);
/// Bit i of *mask: action i of 46 is legal for the player. 0-33 discard a kind of tile, 34-36 a red five, 37
/// riichi, 38-40 chi, 41 pon, 42 kan, 43 win, 44 nine orphans, 45 pass. 0 where it is not to act.
INGOT_API IngotStatus ingot_mahjong_legal(IngotMahjong* table, int32_t player, uint64_t* mask);
/// Takes an action, and all that follows from it until somebody must decide. kan: the kind of tile (0 to 33)
/// that action 42 means where several are possible; -1: the lowest. INGOT_ILLEGAL_ACTION leaves the table as
/// it was.
INGOT_API IngotStatus ingot_mahjong_act(IngotMahjong* table, int32_t player, int32_t action, int32_t kan);
/// What an action is, for people: "discard 5mr"; to be freed with ingot_free().
INGOT_API IngotStatus ingot_mahjong_describe(IngotMahjong* table, int32_t player, int32_t action,
                                             char** text);
/// Deals the next round, where one is over.
INGOT_API IngotStatus ingot_mahjong_next_round(IngotMahjong* table);
/// What a player may see, for networks: [85, 34], [96, 34] with `context` 1, or [121, 34] with 2, which adds
/// what each choice is worth (docs/mahjong.md lists the channels), into the caller's `values` of `capacity`
/// numbers.
INGOT_API IngotStatus ingot_mahjong_observe(IngotMahjong* table, int32_t player, int32_t context,
                                            float* values, size_t capacity);

#ifdef __cplusplus
}
#endif
