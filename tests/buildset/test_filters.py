"""Which chunks get a question, and which questions stay."""

from __future__ import annotations

import unicodedata

import pytest

from embed_ab.buildset.filters import copy_share, forms, is_deictic, why_not_asked

PROSE = (
    "Backups run every night at two. To restore one, stop the service, run `restore NAME` and "
    "start the service again; nothing else has to be done."
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PROSE, ""),
        ("백업은 매일 밤 두 시에 실행되며, 복원하려면 서비스를 먼저 멈춰야 합니다.", ""),
        ("バックアップは毎晩二時に実行されます。復元するにはサービスを停止してください。", ""),
        ("## See also\n\nNothing here.", "too short"),
        (
            "- [Install](a.md)\n- [Upgrade](b.md)\n- [Back up](c.md)\n- [Restore](d.md)",
            "navigation",
        ),
        (
            "[![CI](https://a/b.svg)](https://a) [![PyPI](https://c)](https://d) [x](e)",
            "navigation",
        ),
        ("Home | Products | Documentation | Contact us", "navigation"),
        ("Introduction ........ 1\nInstallation ........ 4\nFirst steps ........ 9", "navigation"),
        (
            "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining "
            "a copy of this software",
            "licence text",
        ),
        (
            "Licensed under the Apache License,\n# Version 2.0 (the License); you may not use this "
            "file except in compliance",
            "licence text",
        ),
        (
            "| 12.5 | 13.7 | 99.1 |\n|---|---|---|\n" + "| 1.25 | 3.77 | 9.10 |\n" * 9,
            "mostly symbols or numbers",
        ),
    ],
)
def test_a_chunk_is_asked_about_or_has_a_reason(text: str, reason: str) -> None:
    assert why_not_asked(text) == reason


def test_a_text_that_mentions_links_is_no_navigation() -> None:
    text = PROSE + " See [restore](a.md), [backup](b.md) and [service](c.md)."

    assert why_not_asked(text) == ""


def test_a_sentence_about_the_licence_of_a_plugin_is_no_licence_text() -> None:
    assert (
        why_not_asked("Plugins must be under the MIT licence to be listed in the catalogue.") == ""
    )


@pytest.mark.parametrize(
    "question",
    [
        "What does this document say about backups?",
        "What is the main topic of the passage?",
        "According to the text, when do backups run?",
        "Which options are listed above?",
        "What does the paper focus on?",
        "What does the section describe?",
        "Which tool does the author recommend?",
        "이 문서에서 설명하는 백업 주기는?",
        "본문에 따르면 백업은 언제 실행되나요?",
        "위에서 언급한 방법은 무엇인가요?",
        "다음 글의 주제는?",
        "この文書では何を説明していますか？",
        "上記の手順は何ですか",
        "本文では、いつバックアップしますか",
        "本文档介绍了什么？",
        "根据本文档，如何备份？",
        "文中提到的周期是多少？",
        "이 글의 주제는?",
        "위 절에서는 무엇을 설명하나요",
        "What does this page say about backups?",
        "Which roles are listed on this page?",
        "Was sagt dieser Text über Backups?",
        "Que dit ce document sur les sauvegardes ?",
        "¿Qué explica este documento?",
        "What is the purpose of this guide?",
        "Which ports does this section mention?",
        "Which limits apply in this document?",
        "Summarize this article",
        "이 문서는 어떤 방법을 설명하나요?",
        "이 글에서 말하는 원인은?",
        "이 문서의 내용은 무엇인가요?",
        "この記事は何を紹介していますか",
        "この文では何が起きますか",
        "本文介绍了什么？",
        "这篇文章的主题是什么",
        "Wie oft laufen laut diesem Artikel Backups?",
        "Worum geht es in diesem Abschnitt?",
        "Selon cet article, quand lancer la sauvegarde ?",
        "Según este texto, ¿cuándo se ejecuta?",
    ],
)
def test_a_question_that_points_at_its_page_is_deictic(question: str) -> None:
    assert is_deictic(question)
    assert is_deictic(unicodedata.normalize("NFD", question))


@pytest.mark.parametrize(
    "question",
    [
        "How do I delete a document from the trash?",
        "text search does not find my document",
        "How many pages fit in the free plan?",
        "Where does the authorisation header go?",
        "문서를 삭제하려면 어떻게 하나요?",
        "다음 페이지로 이동하는 단축키",
        "사이 글자 간격 조절",
        "높이 문서 설정",
        "文書を削除するには？",
        "次のページに移動するには",
        "日本文化とは",
        "如何删除文档？",
        "日本文档下载",
        "如何更改文章作者",
        "Wie lösche ich ein Dokument?",
        "cómo insertar una imagen en el documento",
        "change the author of a post",
        "who can edit this page",
        "how to delete this table",
        "이글루 만드는 방법",
        "이 글로벌 설정은 무엇인가요",
        "위절제술 후 식사",
        "누가 이 페이지를 편집할 수 있나요",
        "この文字化けを直すには",
        "文字化けを直すには",
        "文本文件的编码如何设置",
        "如何在英文中使用标点",
        "谁可以编辑此页面",
        "how do I delete this document",
        "how to share a snippet",
        "how to create the snippet for VS Code",
        "who can see these documents after I leave",
        "how do I change the owner of this document",
        "why does the document show blank pages",
        "this page is not found after login",
        "how to change this document status",
        "change this page cover image",
        "create a template based on this document",
        "이 문서를 공유하는 방법",
        "이 문서의 제목을 바꾸려면",
        "이 문서가 열리지 않아요",
        "해당 문서를 삭제할 수 있는 사람",
        "글에서 이미지를 지우는 방법",
        "여기에 말풍선을 넣는 방법",
        "여기에 설명 추가하는 법",
        "이 자료가 제시간에 올라가지 않아요",
        "이 문서가 기술 지원팀에 안 보여요",
        "この文書を共有するには",
        "この記事を削除できません",
        "如何共享此文档",
        "无法打开这个文件",
        "如何更改此文档的作者",
        "Wie lösche ich dieses Dokument?",
        "comment supprimer ce document",
        "cómo borrar este documento",
    ],
)
def test_a_question_about_documents_is_not_deictic(question: str) -> None:
    assert not is_deictic(question)


def test_the_copy_share_counts_the_words_that_stand_in_the_chunk() -> None:
    # when, do, backups, run: two of four
    assert copy_share("When do backups run?", PROSE) == 0.5


def test_the_copy_share_of_korean_counts_pairs_of_syllables() -> None:
    # 백업, 언제: one of two
    assert copy_share("백업 언제", "백업은 매일 실행됩니다.") == 0.5


def test_a_question_without_words_has_copied_nothing() -> None:
    assert copy_share("?", PROSE) == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I restore a backup?", "how to restore the backup"),
        ("How can I restore my backup", "How should we restore the backup?"),
        ("Please, restore backup", "restore backup."),
        ("백업은 어떻게 복원하나요?", "백업은 어떻게 복원하나요"),
        ("백업 복원 방법", "백업복원 방법"),
        ("ＡＰＩ key rotation", "api key rotation"),
        ("「API」 키 갱신 방법은?", "API 키갱신 방법은"),
        ("How do I restore a backup?", "how to restore backups"),
        ("What's the best way to restore a backup?", "How can I restore backups?"),
        ("What is a webhook?", "what is webhook"),
        ("Where are invoices, and who sees them?", "where are the invoices and who sees them"),
        ("expired policies", "Expired policies"),
        ("backup restore timeout", "timeout, restore backups"),
        ("access tokens", "token access"),
        ("백업 복원 시간", "복원 시간 백업"),
        ("어떻게 백업을 복원하나요?", "백업을 어떻게 복원하나요"),
        ("백업 복원 방법을 알려주세요", "백업 복원 방법"),
        ("백업 복원 방법은 무엇인가요?", "백업 복원 방법은?"),
        ("復元の方法を教えてください。", "復元の方法は？"),
    ],
)
def test_questions_that_differ_in_form_only_are_the_same(one: str, other: str) -> None:
    assert set(forms(one)) & set(forms(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("restore a backup on Linux", "restore a backup on Windows"),
        ("upgrade from 1.2 to 1.3", "upgrade from 1.3 to 1.2"),
        ("version 1.2", "version 12"),
        ("C++ client", "C client"),
        ("who can restore a backup", "how to restore a backup"),
        ("백업 3개월 보관", "백업 6개월 보관"),
        ("버전 1.2 설치", "버전 12 설치"),
        ("버전 1 2 설치", "버전 12 설치"),
        ("C++ 클라이언트", "C 클라이언트"),
        ("如何安装C++", "如何安装C"),
        ("vitamin A dose", "vitamin dose"),
        ("what is vitamin A", "what is vitamin"),
        ("can recycling", "recycling"),
        (".NET client", "net client"),
        ("what is the C++ client", "what is the C client"),
        ("open port 80", "open port 443"),
        ("port 80 to 443", "port 443 to 80"),
        ("proxy 80 443", "proxy 443 80"),
        ("enable the cache", "disable the cache"),
        ("restore with encryption", "restore without encryption"),
        ("convert pdf word", "convert word pdf"),
        ("mysql postgres migration", "postgres mysql migration"),
        ("stop nginx start apache", "stop apache start nginx"),
        ("How can Alice share with Bob?", "How can Bob share with Alice?"),
        ("does A call B", "does B call A"),
        ("how much vitamin a is in kale", "how much vitamin is in kale"),
        ("What does vitamin A do?", "What does vitamin do?"),
        ("set up https", "set up http"),
        ("restart Windows", "restart window"),
        ("restart windows", "restart window"),
        ("open Teams", "open team"),
        ("rotate logs.txt", "rotate log.txt"),
        ("latest news", "latest new"),
        ("who pays", "who is paid"),
        ("서버에서 로컬로 복사", "로컬에서 서버로 복사"),
        ("MySQL Postgres 이전", "Postgres MySQL 이전"),
        ("캐시를 끄고 로그를 켜는 법", "로그를 끄고 캐시를 켜는 법"),
        ("캐시 활성화 방법", "캐시 비활성화 방법"),
        ("如何从北京到上海", "如何从上海到北京"),
        ("サーバーからローカルへ", "ローカルからサーバーへ"),
    ],
)
def test_questions_that_differ_in_a_word_or_its_place_are_not(one: str, other: str) -> None:
    assert not set(forms(one)) & set(forms(other))
