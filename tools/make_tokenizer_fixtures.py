#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small tokenizers with the ids that Hugging Face `tokenizers` gives: tests/fixtures/tokenizer/NAME/.

    pip install tokenizers jinja2 gguf
    tools/make_tokenizer_fixtures.py [--templates DIRECTORY]

Each folder holds a tokenizer.json, trained here on a few lines, and expected.json:

    cases    [{"text": hex of the bytes, "plain": ids, "special": ids}]    plain: special tokens in the text are text
    decodes  [{"ids": ids, "skip": hex, "all": hex}]                       without and with special tokens
    bos      the id that the tokenizer itself puts first, or null

smollm2-135m/expected.json is for the vocabulary of the default model (models/…gguf), read here with `gguf` and put
into a `tokenizers` object. chat/NAME.json holds conversations rendered with jinja2, as `transformers` sets it up, and
encoded by the tokenizer that it names. A template is written out, or named by the file that `make peers` fetches;
--templates says where those lie (build/peers/source/models/templates without it).
"""
import copy
import json
import sys
from pathlib import Path

import jinja2
import jinja2.sandbox
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/fixtures/tokenizer"
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"

TRAINING = """The quick brown fox jumps over the lazy dog, and the dog does not mind at all.
It's a truth that we'll see what they've said; I'm sure you'd agree. DON'T SHOUT, it's rude.
def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n
for (int i = 0; i < 1024; i++) { sum += a[i] * b[i]; } // 0x7fff, 3.14159, 1e-5, 2024-07-26
Größe, naïve café, façade, Привет мир, как дела? Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم.
你好，世界。今天天气很好。こんにちは世界、お元気ですか。안녕하세요 세계. नमस्ते दुनिया. สวัสดีชาวโลก
\U0001f600\U0001f680\U0001f44d\U0001f3fd one two three four five six seven eight nine ten 100 200 300 12345 67890
\t\tindented   with   spaces  and\ttabs\r\n\r\nnew lines\n\n\nmore. A a B b C c D d E e F f G g H h
""".split("\n")

CORPUS = [
    "",
    " ",
    "  ",
    "a",
    "Hello world",
    " Hello  world ",
    "   leading and trailing   ",
    "\n",
    "\n\n\n",
    "\r\n",
    "\t",
    "tabs\tand\t\ttabs \t mixed",
    "It's what they've said, I'm sure you'd agree, we'll see, DON'T, IT'S, They'RE",
    "'s 's'S 'll'LL 've 'ſ ' 'x",
    "def f(x):\n    return x**2  # square\n\n\nclass A(B):\n\tpass\n",
    "for (int i = 0; i < n; i++) { a[i] += b[i] * 3.5e-7f; } /* done */ // ok",
    "<html><body class=\"x\">&nbsp;</body></html>",
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x7fff ½ ² ③ Ⅷ ٣٤",
    "a1b22c333d4444e",
    "Größe, naïve café, façade, Ångström",
    "cafe\u0301 A\u030a o\u0323\u0302 o\u0302\u0323 \u1e69 s\u0307\u0323",
    "\u0301\u0301\u0301 lone marks \u0323\u0301\u0323\u0301",
    "\uac00\uac01 \u1100\u1161\u11a8 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "\ufb01 \u2126 \u212b \u00bd \u2460 \uff21\uff22\uff23 \u3392",
    "Привет, мир! Как дела?",
    "Γειά σου Κόσμε ΣΊΣΥΦΟΣ İstanbul ISPARTA",
    "שלום עולם مرحبا بالعالم",
    "你好，世界。今天天气很好。",
    "こんにちは世界、お元気ですか。カタカナ",
    "안녕하세요 세계",
    "नमस्ते दुनिया क्षत्रिय",
    "สวัสดีชาวโลก",
    "\U0001f600\U0001f680 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\U00020000\U0002a6d6 \U0001d49c\U0001d4b7 \U000e0041",
    "a\u00a0b\u2003c\u3000d\u180ee\u0085f\u2028g\u200bh\u202fi\ufeffj",
    " \u00a0\u2003 x\u3000\u3000y \u2028\u2028",
    "\x01\x02\x04\x06\x13\x14\x16\x1d\x7f",
    "\x0b\x0c\x1c\x1f",
    "a\x00b",
    "~!@#$%^&*()_+-=[]{}|\\;:'\",.<>/?`",
    "!!!???...---***",
    "snake_case camelCase PascalCase kebab-case CONST_VALUE __init__",
    "http://example.org/path?x=1&y=2#frag user@example.org",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "            twelve spaces\n            again",
    "word\u2581with\u2581meta \u2581 \u2581\u2581x",
    "<0x0A><0x41> <s>text</s> <unk> [INST] hi [/INST]",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|begin_of_text|><|eot_id|> <|im_start|",
    "<tool_call> x </tool_call><tool><tool_call",
    "x <mask> y<mask>z  <mask>  \n w [LEFT] v [RIGHT]  u [WORD] a[WORD] [WORD]b  Norm\u00c9 norme\u0301 x",
    "The quick brown fox jumps over the lazy dog. " * 3,
    "mixed 日本語 and English и русский 123 \U0001f600!",
]
BYTES = [
    b"\xff", b"abc\xffdef", b"\xc3", b"\xc3(", b"\xe4\xbd", b"\xe4\xbd\xa0\xe5", b"\xf0\x9f\x98", b"\xf0\x9f\x98x",
    b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80 \xf0\x80\x80\x80",
    b"ok \x80\x81\x82 end", b"\xf1\x80\x80\x80 \xf2\xbf\xbf\xbf",
]
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
META = "\u2581"


def bpe(normalizer, pre, size, specials=(), alphabet=(), **model):
    """A BPE trained on TRAINING; `model` are its flags."""
    t = Tokenizer(models.BPE())
    if normalizer: t.normalizer = normalizer
    if pre: t.pre_tokenizer = pre
    t.train_from_iterator(TRAINING, trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False,
                                                        initial_alphabet=list(alphabet)))
    j = json.loads(t.to_str())
    j["model"].update(model)
    return Tokenizer.from_str(json.dumps(j))


def byte_level(pre, size=600, specials=(), normalizer=None, alphabet=ALPHABET, **model):
    t = bpe(normalizer, pre, size, specials, alphabet, **model)
    t.decoder = decoders.ByteLevel()
    return t


def with_bos(t, bos):
    t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                                     special_tokens=[(bos, t.token_to_id(bos))])
    return t


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def sentencepiece(new, specials=("<unk>", "<s>", "</s>"), size=420, **more):
    """Metaspace vocabulary with byte fallback, in the older spelling (normalizers) or the newer (pre-tokenizer)."""
    names = list(specials) + [f"<0x{b:02X}>" for b in range(256)]
    norm = normalizers.Sequence([normalizers.Prepend(META), normalizers.Replace(" ", META)])
    train = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(META, "always", True)])
    t = bpe(None, train, size + 256, names)
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] in specials]
    j["model"].update(unk_token="<unk>", byte_fallback=True, fuse_unk=True, **more)
    t = Tokenizer.from_str(json.dumps(j))
    t.pre_tokenizer = pre_tokenizers.Metaspace(META, "first", False) if new else None
    if not new:
        j = json.loads(t.to_str())
        j["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(j))
        t.normalizer = norm
    t.decoder = decoders.Sequence([decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    return with_bos(t, "<s>")


def joined_merges(t):
    """The same tokenizer with its merges spelled "a b"."""
    j = json.loads(t.to_str())
    j["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    return json.dumps(j, ensure_ascii=True)


def patched(t, **parts):
    j = json.loads(t.to_str())
    j.update(parts)
    return json.dumps(j)


CHAT_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
                 "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>", "[INST]", "[/INST]"]


def tokenizers_by_name():
    bl = pre_tokenizers.ByteLevel
    yield "gpt2", byte_level(bl(add_prefix_space=False), specials=["<|endoftext|>"])
    yield "gpt2-prefix", joined_merges(byte_level(bl(add_prefix_space=True), specials=["<|endoftext|>"]))
    t = with_bos(byte_level(pre_tokenizers.Sequence([split(Regex(LLAMA3)), bl(add_prefix_space=False, use_regex=False)]),
                            specials=["<|begin_of_text|>", "<|eot_id|>"]), "<|begin_of_text|>")
    j = json.loads(t.to_str())
    j["model"]["ignore_merges"] = True
    j["model"]["merges"] = j["model"]["merges"][::2]  # some words are tokens that merges no longer make
    j["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, j["post_processor"]]}
    yield "llama3", json.dumps(j)
    t = byte_level(pre_tokenizers.Sequence([split(Regex(QWEN2)), bl(add_prefix_space=False, use_regex=False)]),
                   normalizer=normalizers.NFC(), specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False),
                  AddedToken("<tool>", normalized=False)])
    yield "qwen2", t
    some = [c for c in ALPHABET if c not in "\u0104\u0106\u0113\u00f1\u00f2"]
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bl(add_prefix_space=False)])
    t = byte_level(digits, specials=["<|endoftext|>", "<|im_start|>"], alphabet=some)
    yield "smollm", drop_characters(t, "\u0104\u0106\u0113\u00f1\u00f2")
    t = byte_level(digits, specials=["<unk>"], alphabet=some)
    yield "smollm-unk", drop_characters(t, "\u0104\u0106\u0113\u00f1\u00f2", unk_token="<unk>")
    yield "smollm-unk-fused", drop_characters(t, "\u0104\u0106\u0113\u00f1\u00f2", unk_token="<unk>", fuse_unk=True)
    yield "tekken", byte_level(pre_tokenizers.Sequence([split(Regex(TEKKEN)), bl(add_prefix_space=False, use_regex=False)]),
                               specials=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
    yield "llama2", joined_merges(sentencepiece(False))
    t = sentencepiece(False)
    for a in (j := json.loads(t.to_str()))["added_tokens"]: a["normalized"] = True
    yield "llama2-normalized", json.dumps(j)
    yield "llama2-new", sentencepiece(True)
    yield "mistral-v3", sentencepiece(True, ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"))
    for name, scheme, cut in (("metaspace-always", "always", True), ("metaspace-never", "never", True)):
        t = bpe(None, pre_tokenizers.Metaspace(META, scheme, cut), 500, ["<unk>", "<mask>"], unk_token="<unk>")
        t.decoder = decoders.Metaspace(META, scheme, cut)
        yield name, t
    t = bpe(None, pre_tokenizers.Metaspace(META, "always", True), 500, ["<unk>"], unk_token="<unk>")
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(False), pre_tokenizers.Metaspace(META, "first", False)])
    t.decoder = decoders.Metaspace(META, "first", False)
    yield "metaspace-first", t
    t = bpe(None, pre_tokenizers.Metaspace(META, "always", True), 300, ["<unk>"], unk_token="<unk>", fuse_unk=True)
    yield "metaspace-old", patched(t, pre_tokenizer={"type": "Metaspace", "replacement": META, "add_prefix_space": True},
                                   decoder={"type": "Metaspace", "replacement": META, "add_prefix_space": True})
    norm = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " "),
                                 normalizers.Replace("norm", "NORM"), normalizers.Strip()])
    yield "normalizers", byte_level(bl(add_prefix_space=False), normalizer=norm, size=400)
    yield "nfd", byte_level(bl(add_prefix_space=False), normalizer=normalizers.NFD(), size=300)
    yield "nfkd", byte_level(bl(add_prefix_space=False), normalizer=normalizers.NFKD(), size=300)
    t = byte_level(bl(add_prefix_space=False), size=400, specials=["<|endoftext|>"], normalizer=normalizers.NFC())
    t.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("[LEFT]", lstrip=True, normalized=False), AddedToken("[RIGHT]", rstrip=True, normalized=False),
                  AddedToken("[WORD]", single_word=True, normalized=False), AddedToken("a", single_word=True),
                  AddedToken("Norm\u00c9", normalized=True), AddedToken("norme\u0301", normalized=True),
                  AddedToken("quick brown", normalized=True)])
    yield "added", t
    t = byte_level(bl(add_prefix_space=False), size=400)
    t.add_tokens([AddedToken(" " * n, normalized=False) for n in (2, 3, 4, 8)] + [AddedToken("\n\n", normalized=False)])
    yield "added-spaces", t
    patterns = {"space": " ", "digits": Regex(r"\p{N}+"), "empty": Regex(r"(?=(\d{3})+(?!\d))"), "word": Regex(r"\w+|\h{3}"),
                "not-space": Regex(r"[^\s]|\S\W")}
    for name, pattern in patterns.items():
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
            for invert in (False, True):
                if invert and name not in ("space", "digits"): continue
                yield f"split-{name}-{behavior.replace('_', '-')}{'-inverted' if invert else ''}", (pattern, behavior, invert)
    yield "many-specials", with_bos(byte_level(pre_tokenizers.Sequence([split(Regex(LLAMA3)), bl(add_prefix_space=False, use_regex=False)]),
                                      specials=CHAT_SPECIALS), "<|begin_of_text|>")


def drop_characters(t, characters, **model):
    """Without the tokens that hold any of these characters."""
    j = json.loads(t.to_str())
    m = j["model"]
    keep = [k for k, _ in sorted(m["vocab"].items(), key=lambda kv: kv[1]) if not any(c in k for c in characters)]
    m["vocab"] = {k: i for i, k in enumerate(keep)}
    m["merges"] = [p for p in m["merges"] if not any(c in "".join(p) for c in characters)]
    m.update(model)
    for a in j["added_tokens"]: a["id"] = m["vocab"][a["content"]]
    return json.dumps(j)


def expected(t, texts, decode=True):
    cases, decodes = [], []
    for raw in texts:
        text = raw.decode("utf-8", "replace")
        t.encode_special_tokens = True
        plain = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = False
        special = t.encode(text, add_special_tokens=False).ids
        cases.append({"text": raw.hex(), "plain": plain, "special": special})
        # `tokenizers` takes an added token's own letters for bytes of the alphabet; here it decodes to its text
        mangled = any(ord(c) > 127 for a in t.get_added_tokens_decoder().values() for c in a.content if a.content in text)
        if decode and special and not mangled:
            decodes.append({"ids": special, "skip": t.decode(special, skip_special_tokens=True).encode().hex(),
                            "all": t.decode(special, skip_special_tokens=False).encode().hex()})
    empty = t.encode("a", add_special_tokens=False).ids
    full = t.encode("a").ids
    return {"cases": cases, "decodes": decodes, "bos": full[0] if full != empty else None}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    path.write_text(text + "\n")
    assert path.stat().st_size < 300_000, path


def default_model():
    """A `tokenizers` object of the vocabulary in the default model's file."""
    import gguf
    f = gguf.GGUFReader(MODEL).fields
    strings = lambda k: [bytes(f[k].parts[i]).decode() for i in f[k].data]
    tokens, merges = strings("tokenizer.ggml.tokens"), [tuple(m.split(" ")) for m in strings("tokenizer.ggml.merges")]
    kinds = [int(f["tokenizer.ggml.token_type"].parts[i][0]) for i in f["tokenizer.ggml.token_type"].data]
    t = Tokenizer(models.BPE(vocab={k: i for i, k in enumerate(tokens)}, merges=merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(k, normalized=False, special=True) for k, n in zip(tokens, kinds) if n == 3])
    return t, f["tokenizer.chat_template"].contents()


# ---- chat: templates of each family's shapes, in our own words ----

HEAD = "{% for message in messages %}"
GENERATE = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
TURN = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
L3TURN = "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>'"
L3GENERATE = "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
MISTRAL_SYSTEM = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.WHERE and system_message is defined %}
            {{- "OPEN" + system_message + "\\n\\n" + message["content"] + "CLOSE" }}
        {%- else %}
            {{- "OPEN" + message["content"] + "CLOSE" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- ANSWER + eos_token }}
    {%- endif %}
{%- endfor %}
"""


def mistral(where, opening, closing, answer):
    return (MISTRAL_SYSTEM.replace("WHERE", where).replace("OPEN", opening).replace("CLOSE", closing)
            .replace("ANSWER", answer))


CHATS = {
    # name: (tokenizer, bos, eos, template or file)
    "chatml": ("many-specials", "", "<|im_end|>", HEAD + TURN + "{% endfor %}" + GENERATE),
    "chatml-system": ("many-specials", "", "<|im_end|>", HEAD + "{% if loop.first and messages[0]['role'] != 'system' %}"
                      "{{ '<|im_start|>system\nAnswer in one line.\\nBe \\'kind\\'.<|im_end|>\n' }}{% endif %}" + TURN +
                      "{% endfor %}" + GENERATE),
    "chatml-data": ("qwen2", "", "<|im_end|>", HEAD + "<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n"
                    "{% endfor %}\n{% if add_generation_prompt %}\n<|im_start|>assistant\n<think>\n{% endif %}"),
    "chatml-bos": ("many-specials", "<|begin_of_text|>", "<|im_end|>", "{{ bos_token }}" + HEAD + TURN + "{% endfor %}" + GENERATE),
    "chatml-tools": ("qwen2", "", "<|im_end|>", "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {{- 'tools' }}\n"
                     "{%- else %}\n    {%- if messages[0]['role'] == 'system' %}\n"
                     "        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n    {%- else %}\n"
                     "        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}\n    {%- endif %}\n{%- endif %}\n"
                     "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" "
                     "and not loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}\n"
                     "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
                     "    {%- elif message.role == \"tool\" %}\n        {{- '<|im_start|>user' }}\n    {%- endif %}\n"
                     "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n"),
    "llama3": ("many-specials", "<|begin_of_text|>", "<|eot_id|>", "{% set loop_messages = messages %}{% for message in loop_messages %}"
               "{% set content = " + L3TURN + " %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
               "{{ content }}{% endfor %}" + L3GENERATE),
    "llama3-dated": ("many-specials", "<|begin_of_text|>", "<|eot_id|>", "{{- bos_token }}\n{%- if not date_string is defined %}\n"
                     "    {%- set date_string = \"1 Jan 2024\" %}\n{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n"
                     "    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n"
                     "{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n"
                     "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{{- \"Knows until: 2023\\n\" }}\n"
                     "{{- \"Today: \" + date_string + \"\\n\\n\" }}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n"
                     "{%- for message in messages %}\n    {{- " + L3TURN + " }}\n{%- endfor %}\n" + L3GENERATE + "\n"),
    "mistral-v1": ("llama2", "<s>", "</s>", "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
                   "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
                   "{{ message['content'] + eos_token + ' ' }}{% endif %}{% endfor %}"),
    "mistral-first": ("llama2", "<s>", "</s>", mistral("first", " [INST] ", " [/INST]", '" " + message["content"]')),
    "mistral-v3": ("mistral-v3", "<s>", "</s>", mistral("last", "[INST] ", "[/INST]", '" " + message["content"] | trim')),
    "mistral-tight": ("mistral-v3", "<s>", "</s>", mistral("last", "[INST]", "[/INST]", 'message["content"]')),
    "mistral-tekken": ("tekken", "<s>", "</s>", mistral("last", "[INST]", "[/INST]", 'message["content"]')),
    "file-qwen2.5": ("qwen2", "", "<|im_end|>", "Qwen-Qwen2.5-7B-Instruct.jinja"),
    "file-qwen3": ("qwen2", "", "<|im_end|>", "Qwen-Qwen3-0.6B.jinja"),
    "file-llama-3.1": ("many-specials", "<|begin_of_text|>", "<|eot_id|>", "meta-llama-Llama-3.1-8B-Instruct.jinja"),
    "file-llama-3.2": ("many-specials", "<|begin_of_text|>", "<|eot_id|>", "meta-llama-Llama-3.2-3B-Instruct.jinja"),
    "file-llama-3.3": ("many-specials", "<|begin_of_text|>", "<|eot_id|>", "meta-llama-Llama-3.3-70B-Instruct.jinja"),
    "file-nemo": ("tekken", "<s>", "</s>", "mistralai-Mistral-Nemo-Instruct-2407.jinja"),
}

def message(role, text):
    return {"role": role, "content": text}


CONVERSATIONS = [
    [message("user", "Hello there")],
    [message("system", "You are terse."), message("user", "What is 2 + 2?")],
    [message("user", "One"), message("assistant", "Two, it's 2."), message("user", "  Three \n")],
    [message("system", " Be brief.\n"), message("user", "café 你好\n\nnew line"), message("assistant", "\u00a0ok\t"),
     message("user", "x"), message("assistant", "<think>\nhm\n</think>\n\nyes"), message("user", "and\u3000")],
]


def chat_expected(tokenizer, template, bos, eos):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def fail(text): raise jinja2.TemplateError(text)
    env.globals["raise_exception"] = fail
    compiled = env.from_string(template)
    out = []
    for m in CONVERSATIONS:
        text = compiled.render(messages=copy.deepcopy(m), add_generation_prompt=True, bos_token=bos, eos_token=eos)
        tokenizer.encode_special_tokens = False
        out.append({"messages": m, "ids": tokenizer.encode(text, add_special_tokens=False).ids})
    return out


def main():
    templates = Path(sys.argv[2]) if sys.argv[1:2] == ["--templates"] else ROOT / "build/peers/source/models/templates"
    raw = [t.encode() for t in CORPUS] + BYTES
    base, made, splits = None, {}, []
    for name, t in tokenizers_by_name():
        if isinstance(t, tuple):  # one vocabulary for all of these: only the pre_tokenizer differs
            if base is None:
                base = json.loads(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), 330).to_str())
                write(OUT / "split/tokenizer.json", json.dumps(base))
            pre = pre_tokenizers.Sequence([split(*t), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
            tok = Tokenizer.from_str(json.dumps(base))
            tok.pre_tokenizer = pre
            some = [raw[CORPUS.index(s)] for s in CORPUS if len(s) < 90][3:26]
            part = json.loads(tok.to_str())["pre_tokenizer"]
            splits.append({"name": name, "pre_tokenizer": part, **expected(tok, some, False)})
            continue
        text = t if isinstance(t, str) else t.to_str()
        made[name] = Tokenizer.from_str(text)
        write(OUT / name / "tokenizer.json", text if isinstance(t, str) else json.dumps(json.loads(text)))
        # `tokenizers` keeps a normalized token under its normalised text and then no longer finds it special
        write(OUT / name / "expected.json", expected(made[name], raw, name != "llama2-normalized"))
    write(OUT / "split/variants.json", {"variants": splits})
    t, template = default_model()
    write(OUT / "smollm2-135m/expected.json", expected(t, raw))
    write(OUT / "chat/smollm2-135m.json", {"tokenizer": "", "bos": "<|im_start|>", "eos": "<|im_end|>",
                                           "cases": chat_expected(t, template, "<|im_start|>", "<|im_end|>")})
    for name, (tokenizer, bos, eos, template) in CHATS.items():
        is_file = template.endswith(".jinja")
        text = (templates / template).read_text() if is_file else template
        value = {"tokenizer": tokenizer, "bos": bos, "eos": eos, "file" if is_file else "template": template}
        if name == "mistral-v1":  # its own template knows no system message: the text goes before the first question
            text = mistral("first", "[INST] ", " [/INST]", "message['content']").replace("eos_token }}", "eos_token + ' ' }}")
        value["cases"] = chat_expected(made[tokenizer], text, bos, eos)
        write(OUT / f"chat/{name}.json", value)


if __name__ == "__main__":
    main()
