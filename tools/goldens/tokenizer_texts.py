"""Texts that tokenizers get wrong: many scripts, odd white space, marks, look-alikes of special tokens."""
import random

TEXTS = [
    "", " ", "  ", "\n", "a", "Hello, world!", "  leading and trailing  ", "tabs\tand\nnew\r\nlines\r", "\n\n\n  \n x",
    "I'm you're we've they'll he'd it's o'clock 'tis I'M YOU'RE WE'VE", "'s't're've'm'll'd 'S 'T 'RE ''", "don’t can’t",
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX!", "ſ 'ſ K'S Kelvin", "it'ſ",
    "1234567890 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅷ ① ٣٤٥ १२३ ๑๒๓", "2023-11-20T12:00:00Z 100% $5 €5 #1 @x",
    "def f(x):\n    return x ** 2  # comment\n\n\tif x != None:\n\t\tpass\n", "for (int i = 0; i < n; ++i) { a[i] += b->c; }",
    "https://example.com/path?q=1&r=%20#frag user@example.com C:\\Temp\\x.txt", "snake_case camelCase PascalCase kebab-case",
    "<html><body class=\"x\">&amp;</body></html>", "{\"key\": [1, 2.5, null, true], \"é\": \"\\u00e9\"}",
    "Ünïcödé naïve café résumé Straße ŒUVRE ĲSSEL", "e\u0301 a\u0308\u0323 n\u0303 \u0301x", "ﬁ ﬂ Ⅻ ㎏ ℃ ™ ① ｈａｌｆ ﾊﾝｶｸ",
    "Привет, мир! Ёлка и чай.", "Γειά σου Κόσμε ΣΊΣΥΦΟΣ ς", "שלום עולם עִבְרִית", "مرحبا بالعالم الْعَرَبِيَّة ١٢٣",
    "नमस्ते दुनिया क्षत्रिय", "สวัสดีชาวโลก", "வணக்கம்", "გამარჯობა", "Բարեւ", "ሰላም ልዑል", "ខ្មែរ", "བོད་སྐད་", "မြန်မာ",
    "你好，世界！我爱北京天安门。", "こんにちは世界。カタカナとひらがな、漢字", "안녕하세요 세계 한글", "\u1112\u1161\u11ab\u1100\u1173\u11af", "𠀀𠮷野家 𪚥 你a好b",
    "👋🌍 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ☺️ ❤", "a👍b 👍👍👍", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𝕏", "→ ∑ ∫ √ ≠ ∞ ± × ÷ ¬ ∀∃", "“quoted” ‘single’ «guillemets» — – … ‽",
    "zero\u200bwidth\u200cnon\u200djoiner\u2060word\ufeffbom", "\ufeffBOM first", "nb\u00a0sp\u202fnarrow\u3000ideographic\u2003em\u1680ogham",
    "line\u2028sep para\u2029sep nel\u0085x vt\x0bff\x0c", "mongolian\u180evowel \u180e x", "\x00nul \x01\x02\x1b[31m \x7f del", "rtl \u202eoverride\u202c \u200fmark",
    "soft\u00adhyphen", "private \ue000\uf8ff \U000f0000 nonchar \ufdd0 \uffff \U0010ffff replacement \ufffd", "unassigned \u0378 \u0e7f \U000e0fff tags\U000e0067\U000e007f",
    "a" * 300, "ab" * 200 + " " + "ba" * 100, " " * 70 + "x" + " " * 33, "\n" * 40 + "end", "!" * 64 + "?" * 64, "1" * 50, "-" * 100, "=" * 17 + "\n",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "Pneumonoultramicroscopicsilicovolcanoconiosis",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c", "<|endoftext|", "<|endoftext|><|endoftext|>", "< |endoftext|>", "[CLS] x [SEP] [MASK] [UNK] [PAD]",
    "<s> </s> <unk> <pad> <mask> <s>", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "<|im_start|>system\nx<|im_end|>\n", "[INST] a [/INST] <bos> <eos> <0x0A> <0xE4>",
    "▁metaspace ▁▁ ▁", "Ġ Ċ ĉ Ġhello", "##wordpiece ## #", "_under_ __dunder__ ___", "A B C D E F G", "a  b   c    d     e", "x \n y\t z\r\n", "word.Word.WORD ...and... (paren) [brack] {brace}",
    "Mr. Smith went to D.C. on Jan. 5th, 2020; he didn't return.", "ÀÉÎÕÜ àéîõü ÇçÑñ ŠšŽž ŁłĐđ Øø Åå Ææ ÞþÐð ıİ ſß ẞ", "ǅ ǈ ŉ ΐ ΰ և ﬀ", "\u0345\u0399 ᾳ ᾼ", "Ω Ω Å Å", "가 \uac00\u11a8 각",
    "שׁ שׂ אּ", "क़ ड़", "ấ ậ ặ ỡ Việt Nam tiếng Việt", "Zażółć gęślą jaźń", "Příliš žluťoučký kůň úpěl ďábelské ódy", "Türkçe İstanbul ığüşöç",
    "ʰˡ ˈstrɛs ɪpʰə", "x₁ + y² = z³ ⁿ", "½ ¼ ⅓", "㊗ ㍿ ㌔", "·•●◦", "￥￡　！？（）［］｛｝～", "。、「」『』【】・ー", "ᚠᚢᚦ ☭ ♠♥♦♣ ♔", "𓀀𓂀 𐍈 𐎠 𒀀", "\U0001F468\U0001F3FB\u200D\U0001F4BB",
]


def random_texts(count=40, length=40, seed=7):
    """Random code points of every plane that has any, the same for every Python version."""
    rng = random.Random(seed)
    ranges = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x900, 0xE00), (0x1E00, 0x2100), (0x2190, 0x2600), (0x3000, 0x3100),
              (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFB00), (0xFE00, 0xFFF0), (0x1F300, 0x1F700), (0x20000, 0x20100)]
    texts = []
    for _ in range(count):
        low, high = ranges[rng.randrange(len(ranges))]
        texts.append("".join(chr(rng.randrange(low, high)) if rng.random() < 0.8 else rng.choice(" \n.'a1é") for _ in range(length)))
    return texts


def all_texts():
    return TEXTS + random_texts()
