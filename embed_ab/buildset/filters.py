"""Which chunks are worth a question, and which questions are worth keeping."""

from __future__ import annotations

import re
import unicodedata

from embed_ab.bm25 import tokenize

MIN_LETTERS = 40
_WIDE = re.compile(
    "[\u1100-\u11ff\u3041-\u30ff\u3131-\u318e\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]"
)
_WIDE_SPACE = re.compile(f"(?<={_WIDE.pattern}) | (?={_WIDE.pattern})")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\]\([^()]*\))*\]\([^()]*\)|\[[^\[\]]*\]\[[^\[\]]*\]")
_ADDRESS = re.compile(r"<?https?://\S+")
_LEADER = re.compile(r".*[^.]\s*(?:\.\s?){4,}\s*\d+\s*")
_TRAIL = re.compile(r"\s(?:[|»›>→•·/])\s")
_LICENCE = re.compile(
    r"permission is hereby granted, free of charge|provided [\"“'`]*as is[\"”'`]*,? without warrant"
    r"|redistribution and use in source and binary forms|licensed under the apache license, version"
    r"|gnu (?:lesser |affero )?general public license (?:as published|for more details)"
    r"|without warranties or conditions of any kind|in no event shall the (?:authors?|copyright)"
    r"|this source code form is subject to the terms|spdx-license-identifier:"
    r"|creative commons attribution[\w \-]* (?:international )?(?:public )?license",
    re.IGNORECASE,
)


def why_not_asked(text: str) -> str:
    """Return why a chunk is not worth a question, "" where it is."""
    n_letters = _n_letters(text)
    if _is_navigation(text, n_letters):
        return "navigation"
    if _LICENCE.search(re.sub(r"[\s#*>/]+", " ", text)):
        return "licence text"
    if n_letters < MIN_LETTERS:
        return "too short"
    n_visible = sum(not letter.isspace() for letter in text)
    if 3 * sum(unicodedata.category(letter)[0] in "LM" for letter in text) < n_visible:
        return "mostly symbols or numbers"
    return ""


def _n_letters(text: str) -> int:
    """Letters and digits; one of Hangul, kana or Han says as much as two or three others."""
    return sum(map(str.isalnum, text)) + len(_WIDE.findall(text))


def _is_navigation(text: str, n_letters: int) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    n_leaders = sum(bool(_LEADER.fullmatch(line)) for line in lines if len(line) < 300)
    if len(lines) >= 3 and 2 * n_leaders > len(lines):
        return True
    if (
        len(lines) <= 3
        and len(_TRAIL.findall(text)) >= 3
        and not re.search(r"[.!?。！？]\s*$", text)
    ):
        return all(len(part.split()) <= 4 for line in lines for part in _TRAIL.split(line))
    n_links = len(_LINK.findall(text)) + len(_ADDRESS.findall(_LINK.sub("", text)))
    left = _ADDRESS.sub("", _LINK.sub("", text))
    return n_links >= 3 and _n_letters(left) < 0.35 * n_letters


# A page is pointed at by what it says, or as the place where something stands. Its mere mention is
# not enough: who asks how to share this document has another one in mind.
_EN_NOUN = (
    r"(?:documents?|passages?|texts?|articles?|sections?|paragraphs?|chapters?|excerpts?|snippets?|"
    r"chunks?|papers?|guides?|manuals?|readme|documentation|pages?)"
)
_EN_THIS = rf"(?:this|these|the (?:above|following|given|provided|present)) (?:\w+ )?{_EN_NOUN}"
_EN_ANY = rf"(?:{_EN_THIS}|(?:the|a) {_EN_NOUN})"
_EN_SAY = (
    r"(?:say|state|describe|discuss|cover|mention|explain|focus on|talk about|tell|claim|argue|"
    r"outline|recommend|suggest|introduce|teach|define|address)"
)
_EN_SAYS = (
    r"(?:says|states|describes|discusses|mentions|explains|focuses on|talks about|claims|argues|"
    r"recommends|suggests|introduces|teaches)"
)
# 이글루 and 위절제술 only begin like these nouns.
_KO_NOUN = (
    r"(?:문서|글|본문|단락|문단|구절|지문|텍스트|섹션|절|내용|자료|설명서|가이드|기사|예문)(?:들)?"
)
_KO_THIS = rf"(?:(?:^|[\s(\"'])(?:이|본|위|해당|이번|위의) ?|(?:다음|주어진|제시된) ?){_KO_NOUN}"
# 설명하다, but 설명란; 제시하다, but 제시간; 기술된, but 기술 지원.
_KO_DONE = "[하한할함합해했된되됐]"
_KO_SAY = rf"(?:(?:설명|언급|서술|주장|소개|제시|기술|강조){_KO_DONE}|말하|말한|말했|다루|다룬)"
_KO_ABOUT = r"의 ?(?:주제|주장|요지|요점|핵심|결론|목적|취지|주된|주요 내용)"
_JA_THIS = (
    r"(?:(?:この|(?<![\u4e00-\u9fff])本|当該|上記の|上の|前述の|以下の|下記の|次の|与えられた)"
    r"(?:文書|文章|ドキュメント|記事|テキスト|節|章|段落|セクション|本文|内容|資料|説明書|抜粋|箇所)"
    r"|この(?:文|ガイド|マニュアル|論文))"
)
_JA_SAY = r"(?:説明|述べ|言[いわっ]|書かれ|記載|紹介|主張|触れ|扱[いわっ]|論じ)"
# In 文本文件 and 英文中 another word ends there.
_NO_HAN_BEFORE = "(?:(?<![\\u4e00-\\u9fff])|(?<=请问)|(?<=根据)|(?<=按照)|(?<=关于))"
_ZH_THIS = (
    rf"(?:{_NO_HAN_BEFORE}本|该|這|这|此|上述|上面的?|以下|下列|给定的?)(?:篇|段|份|个|個)?"
    r"(?:文档|文檔|文件|文章|文本|段落|章节|章節|内容|內容|片段|节选|手册)"
)
_ZH_SAY = (
    "(?:介绍|介紹|说明|說明|描述|讲|講|提到|提及|解释|解釋|讨论|討論|涉及|阐述|闡述|建议|建議)"
)
_DE_NOUN = r"(?:dokument|text|artikel|abschnitt|absatz|kapitel|seite|auszug|passage)(?:e?s)?"
_DE_SAY = r"(?:sagt|beschreibt|erklärt|behandelt|nennt|erwähnt|empfiehlt|erläutert)"
_FR_NOUN = r"(?:document|texte|article|section|paragraphe|chapitre|page|extrait|passage)s?"
_FR_SAY = r"(?:dit|décrit|explique|mentionne|indique|recommande|présente|parle|traite|aborde)"
_ES_NOUN = r"(?:documento|texto|artículo|sección|párrafo|capítulo|página|fragmento|pasaje)s?"
_ES_SAY = r"(?:dice|describe|explica|menciona|indica|recomienda|presenta|habla|trata)"
_POINTING = {
    "en": rf"\b(?:according to|as per) {_EN_ANY}\b|^based on {_EN_ANY}\b"
    rf"|\b(?:in|within|throughout) (?:{_EN_THIS}|(?:the|a) (?:passage|excerpt))\b"
    rf"|\b(?:do|does|did) {_EN_THIS} (?:\w+ly )?{_EN_SAY}\b|\b{_EN_ANY} (?:\w+ly )?{_EN_SAYS}\b"
    rf"|\bwhat (?:do|does|did) the {_EN_NOUN} (?:\w+ly )?(?:{_EN_SAY}|focus|talk)\b"
    rf"|\b(?:is|are) {_EN_ANY} (?:\w+ly )?about\b"
    rf"|\b(?:what(?: is|'s|’s| are)|who (?:is|wrote)) {_EN_THIS}(?: for)?\W*$"
    r"|\b(?:topic|theme|gist|purpose|conclusion|main \w+|key \w+) of "
    rf"(?:{_EN_THIS}|the (?:passage|excerpt|text))\b"
    rf"|^(?:please )?summari[sz]e {_EN_ANY}\b"
    r"|\bthe authors? (?:say|mean|claim|argue|describe|recommend|mention|suggest|explain)s?\b"
    r"|\b(?:mentioned|described|discussed|listed|shown|stated|given|provided|explained|presented) "
    rf"(?:above|below|here|(?:[io]n|by) (?:the|this) {_EN_NOUN})\b",
    "ko": rf"{_KO_THIS}(?:에서|에 ?(?:따르면|의하면|나온|나오는|나와|적힌|쓰인|언급|설명된)"
    rf"|{_KO_ABOUT}|의 내용[은이]|[은는이가] [^.?!]*{_KO_SAY}"
    r"|[은는이가]? (?:무엇|무슨 내용|어떤 내용|뭐)|[을를] ?(?:읽고|요약하(?:면|시오|세요|라)))"
    rf"|(?:^|\s)(?:본문|지문|글)(?:에 따르면|에 의하면|의 내용[은이]|{_KO_ABOUT}"
    rf"|에서는? [^.?!]*{_KO_SAY})|(?:위|여기|앞)에서? (?:{_KO_SAY}|나온)",
    "ja": rf"{_JA_THIS}(?:で|に(?:よる|よれ|おい|書|記|は何)|[はが]?何|を要約"
    rf"|の(?:主題|テーマ|目的|要点|要旨|趣旨|結論)|[はがも][^。？?]*{_JA_SAY})"
    rf"|上記|前述|筆者|本文(?:では|に(?:よる|よれ|書|記)|で{_JA_SAY})",
    "zh": rf"{_ZH_THIS}(?:中|里|裡|内|內|主要|{_ZH_SAY}|[是在]?(?:关于|關於)|是什么|是什麼"
    r"|的(?:主题|主題|目的|主旨|要点|要點|结论|結論))"
    rf"|(?:根据|根據|按照|依据|依據){_ZH_THIS}"
    rf"|{_NO_HAN_BEFORE}本?文中(?!文)|{_NO_HAN_BEFORE}本文(?:主要)?{_ZH_SAY}",
    "de": rf"\b(?:laut|gemäß) (?:(?:dem|der|diese[mr]) )?{_DE_NOUN}\b"
    rf"|\b(?:in|auf) (?:diese[mr]|obige[mr]|folgende[mr]) {_DE_NOUN}\b"
    rf"|\b{_DE_SAY} (?:diese[rs]?|de[rn]|das|die|obige[rs]?) {_DE_NOUN}\b"
    rf"|\bdiese[rs]? {_DE_NOUN} {_DE_SAY}\b",
    "fr": rf"\b(?:selon|d['’]après) (?:(?:ce|cet|cette|le|la) |l['’]){_FR_NOUN}\b"
    rf"|\bdans (?:ce|cet|cette) {_FR_NOUN}\b"
    rf"|\b{_FR_SAY} (?:(?:ce|cet|cette|le|la) |l['’]){_FR_NOUN}\b"
    rf"|\b(?:ce|cet|cette) {_FR_NOUN} {_FR_SAY}\b",
    "es": rf"\bsegún (?:este|esta|el|la) {_ES_NOUN}\b|\ben (?:este|esta) {_ES_NOUN}\b"
    rf"|\b{_ES_SAY} (?:este|esta|el|la) {_ES_NOUN}\b|\b(?:este|esta) {_ES_NOUN} {_ES_SAY}\b",
}
_DEICTIC = re.compile("|".join(_POINTING.values()), re.IGNORECASE)


def is_deictic(question: str) -> bool:
    """Return whether a question points at the page it was made from ("what does this text say")."""
    return _DEICTIC.search(re.sub(r"\s+", " ", unicodedata.normalize("NFC", question))) is not None


def copy_share(question: str, chunk: str) -> float:
    """Return the share of a question's words that stand in its chunk, 0 to 1.

    Words as BM25 counts them: of Hangul, kana and Han every two neighbours. A question without a
    word is 0.
    """
    words, there = tokenize(question, "auto"), set(tokenize(chunk, "auto"))
    return sum(word in there for word in words) / len(words) if words else 0.0


_POLITE = re.compile(
    r"^(?:hi|hello|please|can you tell me|could you tell me|i want to know)\b[,!]? *", re.IGNORECASE
)
_HOW_DO_I = re.compile(
    r"\bhow (?:to|(?:do|does|did|can|could|should|would) (?:i|you|we|one))\b"
    r"|\bwhat(?: is|'s|’s) the (?:(?:best|right|correct) )?way to\b",
    re.IGNORECASE,
)
# Left out where nothing else can stand; elsewhere exchanged only: "vitamin a" is not "vitamin".
_SURE_ARTICLE = re.compile(
    r"(?i:\b(how \w+|what is|what are|does|is|are|can|to|from|in|into|on|of|for|with|without)) "
    r"(?:a|an|the|my|our|your) (?=\w)"
)
_ARTICLE = re.compile(r"\b(?:a|an|the|my|our|your)\b")
# In small letters, because Teams is a name; with a vowel, because https is not http.
_PLURAL = re.compile(r"(?<!\S)(?=[a-z]*[aeiouy])([a-z]{2,}[a-rt-z])s(?=[,;:?!.]*(?:\s|$))")
_NO_PLURAL = frozenset({"does", "this", "news", "windows", "ldaps", "imaps"})
_KEYWORDS = 3
"""So many words may stand in any order: two of them cannot be two things done to two others."""
# What makes the order of keywords matter: function words, what goes from one to another, particles.
_ORDERING = re.compile(
    r"(?:a|after|against|and|are|as|at|before|between|but|by|can|do|does|for|from|how|if|in|into|is"
    r"|less|more|no|not|of|off|on|or|out|over|per|than|then|through|to|under|until|up|versus|via|vs"
    r"|what|when|where|which|who|whose|why|with|within|without"
    r"|(?:conver[ts]|migrat|translat|cop[iy]|mov|mv|renam|replac|switch|transfer|map|redirect|proxy"
    r"|forward|import|export|link|sync|이전|변환|복사|이동|교체|전환|번역|마이그레이션).*"
    r"|.*(?:[을를은는이가에서로와과고며면도의만]|까지|부터|보다)|.*\d.*)"
)
_MARKS = ",;:!?\"'()[]…。、「」『』《》〈〉【】“”‘’"
_WAY_END = re.compile(
    r"(?<=방법|方法)[은이을はを]?(?: ?(?:무엇인가요|무엇입니까|뭔가요|뭐예요|뭐야"
    r"|알려 ?주세요|알려 ?줘|教えてください|教えて|何ですか|是什么))?$"
)


def forms(question: str) -> list[str]:
    """Return one or two forms of a question; questions that have one in common ask the same.

    Case, spacing, punctuation around words, articles, plurals and ways to say "how do I" make no
    difference, and a few keywords may stand in any order. A number, a name or a sign does make one,
    and in a sentence the order: they decide which chunk answers.
    """
    text = unicodedata.normalize("NFKC", question).strip()
    text = _PLURAL.sub(lambda found: found[0] if found[0] in _NO_PLURAL else found[1], text)
    text = _SURE_ARTICLE.sub(r"\1 ", _HOW_DO_I.sub("how", _POLITE.sub("", text)))
    text = _ARTICLE.sub("a", text.casefold().removeprefix("the "))
    # A dot or a sign inside or before a word may be all that tells 1.2 from 12, or NET from .NET.
    stripped = (word.lstrip(_MARKS).rstrip(_MARKS + ".") for word in text.split())
    words = _WAY_END.sub("", " ".join(word for word in stripped if word)).split()
    words.sort(key=lambda word: word != "어떻게")  # Korean puts its "how" anywhere
    found = [_WIDE_SPACE.sub("", " ".join(words)) or question]
    if len(words) <= _KEYWORDS and not any(map(_ORDERING.fullmatch, words)):
        found.append(" ".join(sorted(words)))
    return found
