#include "ingot/text/unicode_tables.h"

#include <algorithm>

// tools/goldens/unicode_tables.py prints these tables. The `tokenizers` library takes its character
// properties from several Unicode versions: regular expressions from 16, punctuation, control characters and
// non-spacing marks from 8, normalization from 9. PCRE2 (Debian 12) knows 14 and utf8proc 15. The difference
// is a few hundred characters of rare scripts and the newest emoji; with it the ids are the same for every
// character of Unicode 16.

namespace ingot::text {

namespace {

using N = NewerCharacters;

constexpr NewerCharacters kNewer[] = {{0x897, 0x897, N::mark},
                                      {0xCF3, 0xCF3, N::mark},
                                      {0xECE, 0xECE, N::mark},
                                      {0x1B4E, 0x1B4F, N::punctuation},
                                      {0x1B7F, 0x1B7F, N::punctuation},
                                      {0x1C89, 0x1C89, N::lu},
                                      {0x1C8A, 0x1C8A, N::ll},
                                      {0x2427, 0x2429, N::symbol},
                                      {0x2FFC, 0x2FFF, N::symbol},
                                      {0x31E4, 0x31E5, N::symbol},
                                      {0x31EF, 0x31EF, N::symbol},
                                      {0xA7CB, 0xA7CC, N::lu},
                                      {0xA7CD, 0xA7CD, N::ll},
                                      {0xA7DA, 0xA7DA, N::lu},
                                      {0xA7DB, 0xA7DB, N::ll},
                                      {0xA7DC, 0xA7DC, N::lu},
                                      {0x105C0, 0x105F3, N::lo},
                                      {0x10D40, 0x10D49, N::nd},
                                      {0x10D4A, 0x10D4D, N::lo},
                                      {0x10D4E, 0x10D4E, N::lm},
                                      {0x10D4F, 0x10D4F, N::lo},
                                      {0x10D50, 0x10D65, N::lu},
                                      {0x10D69, 0x10D6D, N::mark},
                                      {0x10D6E, 0x10D6E, N::punctuation},
                                      {0x10D6F, 0x10D6F, N::lm},
                                      {0x10D70, 0x10D85, N::ll},
                                      {0x10D8E, 0x10D8F, N::symbol},
                                      {0x10EC2, 0x10EC4, N::lo},
                                      {0x10EFC, 0x10EFF, N::mark},
                                      {0x1123F, 0x11240, N::lo},
                                      {0x11241, 0x11241, N::mark},
                                      {0x11380, 0x11389, N::lo},
                                      {0x1138B, 0x1138B, N::lo},
                                      {0x1138E, 0x1138E, N::lo},
                                      {0x11390, 0x113B5, N::lo},
                                      {0x113B7, 0x113B7, N::lo},
                                      {0x113B8, 0x113C0, N::mark},
                                      {0x113C2, 0x113C2, N::mark},
                                      {0x113C5, 0x113C5, N::mark},
                                      {0x113C7, 0x113CA, N::mark},
                                      {0x113CC, 0x113D0, N::mark},
                                      {0x113D1, 0x113D1, N::lo},
                                      {0x113D2, 0x113D2, N::mark},
                                      {0x113D3, 0x113D3, N::lo},
                                      {0x113D4, 0x113D5, N::punctuation},
                                      {0x113D7, 0x113D8, N::punctuation},
                                      {0x113E1, 0x113E2, N::mark},
                                      {0x116D0, 0x116E3, N::nd},
                                      {0x11B00, 0x11B09, N::punctuation},
                                      {0x11BC0, 0x11BE0, N::lo},
                                      {0x11BE1, 0x11BE1, N::punctuation},
                                      {0x11BF0, 0x11BF9, N::nd},
                                      {0x11F00, 0x11F01, N::mark},
                                      {0x11F02, 0x11F02, N::lo},
                                      {0x11F03, 0x11F03, N::mark},
                                      {0x11F04, 0x11F10, N::lo},
                                      {0x11F12, 0x11F33, N::lo},
                                      {0x11F34, 0x11F3A, N::mark},
                                      {0x11F3E, 0x11F42, N::mark},
                                      {0x11F43, 0x11F4F, N::punctuation},
                                      {0x11F50, 0x11F59, N::nd},
                                      {0x11F5A, 0x11F5A, N::mark},
                                      {0x1342F, 0x1342F, N::lo},
                                      {0x13440, 0x13440, N::mark},
                                      {0x13441, 0x13446, N::lo},
                                      {0x13447, 0x13455, N::mark},
                                      {0x13460, 0x143FA, N::lo},
                                      {0x16100, 0x1611D, N::lo},
                                      {0x1611E, 0x1612F, N::mark},
                                      {0x16130, 0x16139, N::nd},
                                      {0x16D40, 0x16D42, N::lm},
                                      {0x16D43, 0x16D6A, N::lo},
                                      {0x16D6B, 0x16D6C, N::lm},
                                      {0x16D6D, 0x16D6F, N::punctuation},
                                      {0x16D70, 0x16D79, N::nd},
                                      {0x18CFF, 0x18CFF, N::lo},
                                      {0x1B132, 0x1B132, N::lo},
                                      {0x1B155, 0x1B155, N::lo},
                                      {0x1CC00, 0x1CCEF, N::symbol},
                                      {0x1CCF0, 0x1CCF9, N::nd},
                                      {0x1CD00, 0x1CEB3, N::symbol},
                                      {0x1D2C0, 0x1D2D3, N::number},
                                      {0x1DF25, 0x1DF2A, N::ll},
                                      {0x1E030, 0x1E06D, N::lm},
                                      {0x1E08F, 0x1E08F, N::mark},
                                      {0x1E4D0, 0x1E4EA, N::lo},
                                      {0x1E4EB, 0x1E4EB, N::lm},
                                      {0x1E4EC, 0x1E4EF, N::mark},
                                      {0x1E4F0, 0x1E4F9, N::nd},
                                      {0x1E5D0, 0x1E5ED, N::lo},
                                      {0x1E5EE, 0x1E5EF, N::mark},
                                      {0x1E5F0, 0x1E5F0, N::lo},
                                      {0x1E5F1, 0x1E5FA, N::nd},
                                      {0x1E5FF, 0x1E5FF, N::punctuation},
                                      {0x1F6DC, 0x1F6DC, N::symbol},
                                      {0x1F774, 0x1F776, N::symbol},
                                      {0x1F77B, 0x1F77F, N::symbol},
                                      {0x1F7D9, 0x1F7D9, N::symbol},
                                      {0x1F8B2, 0x1F8BB, N::symbol},
                                      {0x1F8C0, 0x1F8C1, N::symbol},
                                      {0x1FA75, 0x1FA77, N::symbol},
                                      {0x1FA87, 0x1FA89, N::symbol},
                                      {0x1FA8F, 0x1FA8F, N::symbol},
                                      {0x1FAAD, 0x1FAAF, N::symbol},
                                      {0x1FABB, 0x1FABF, N::symbol},
                                      {0x1FAC6, 0x1FAC6, N::symbol},
                                      {0x1FACE, 0x1FACF, N::symbol},
                                      {0x1FADA, 0x1FADC, N::symbol},
                                      {0x1FADF, 0x1FADF, N::symbol},
                                      {0x1FAE8, 0x1FAE9, N::symbol},
                                      {0x1FAF7, 0x1FAF8, N::symbol},
                                      {0x1FBCB, 0x1FBEF, N::symbol},
                                      {0x2B739, 0x2B739, N::lo},
                                      {0x2EBF0, 0x2EE5D, N::lo},
                                      {0x31350, 0x323AF, N::lo}};

constexpr CodePointRange kPunctuationSince9[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59},
    {0x10F86, 0x10F89}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
    {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A},
    {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F}};

constexpr CodePointRange kControlSince9[] = {
    {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};

constexpr CodePointRange kNonspacingSince9[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x180F},   {0x1885, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x111C9, 0x111C9},
    {0x111CF, 0x111CF}, {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1143F},
    {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E}, {0x1182F, 0x11837}, {0x11839, 0x1183A},
    {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943}, {0x119D4, 0x119D7}, {0x119DA, 0x119DB},
    {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47},
    {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96}, {0x11A98, 0x11A99}, {0x11C30, 0x11C36},
    {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3},
    {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45},
    {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95}, {0x11D97, 0x11D97}, {0x11EF3, 0x11EF4},
    {0x11F00, 0x11F01}, {0x11F36, 0x11F3A}, {0x11F40, 0x11F40}, {0x11F42, 0x11F42}, {0x13440, 0x13440},
    {0x13447, 0x13455}, {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46},
    {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024}, {0x1E026, 0x1E02A},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E944, 0x1E94A}};

constexpr CodePointRange kMarkSince10[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146},
    {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x1182C, 0x1183A}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193B, 0x1193E}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119D1, 0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A},
    {0x11A33, 0x11A39}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A99},
    {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47},
    {0x11D8A, 0x11D8E}, {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11EF3, 0x11EF6}, {0x11F00, 0x11F01},
    {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}};

constexpr CodePointRange kDecomposedSince10[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool contains(std::span<const CodePointRange> table, char32_t c) {
  const auto it =
      std::lower_bound(table.begin(), table.end(), c,
                       [](const CodePointRange& range, char32_t value) { return range.last < value; });
  return it != table.end() && it->first <= c;
}

}  // namespace

std::span<const NewerCharacters> newer_characters() { return kNewer; }

NewerCharacters::Kind newer_kind(char32_t c) {
  const auto* it =
      std::lower_bound(std::begin(kNewer), std::end(kNewer), c,
                       [](const NewerCharacters& range, char32_t value) { return range.last < value; });
  return it != std::end(kNewer) && it->first <= c ? it->kind : N::none;
}

bool became_punctuation_after_unicode_8(char32_t c) { return contains(kPunctuationSince9, c); }
bool became_control_after_unicode_8(char32_t c) { return contains(kControlSince9, c); }
bool became_nonspacing_after_unicode_8(char32_t c) { return contains(kNonspacingSince9, c); }
bool became_mark_after_unicode_9(char32_t c) { return contains(kMarkSince10, c); }
bool became_decomposable_after_unicode_9(char32_t c) { return contains(kDecomposedSince10, c); }

}  // namespace ingot::text
