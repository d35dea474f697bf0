"""The policy for servers: what is tried again, how long it waits, what is said."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from fake_openai import FakeOpenAI, answer, drip, half, hang_up, status

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers import http
from embed_ab.providers.addresses import (
    is_loopback,
    is_secret_name,
    read_base_url,
    shown,
    without_endpoint,
)
from embed_ab.providers.http import CONNECT_SECONDS, RequestRefused, Server

BODY = {"model": "text-embedding-3-small", "input": ["pump"]}
KEY = "sk-secret-123"
BACKOFF = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]  # 126 seconds


class Waits(list[float]):
    """What would have been slept."""


def server(url: httpx.URL | str, waits: list[float] | None = None, **more: object) -> Server:
    more = {"jitter": lambda: 0.0, "hint": "Start it.", **more}
    sleep = Waits().append if waits is None else waits.append
    return Server(url, headers={"Authorization": f"Bearer {KEY}"}, sleep=sleep, **more)  # type: ignore[arg-type]


def ask(fake: FakeOpenAI, waits: list[float] | None = None, **more: object) -> dict[str, object]:
    asked = server(fake.url, waits, **more)
    try:
        return asked.post("/embeddings", BODY)
    finally:
        asked.close()


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504, 529])
def test_what_a_pause_may_heal_is_tried_seven_times_over_two_minutes(code: int) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.extend([status(code, "busy")] * 7)
        with pytest.raises(ProviderError, match=rf"{code} .*\(7 tries\): busy"):
            ask(fake, waits)

    assert waits == BACKOFF


def test_the_first_answer_after_a_storm_of_429_is_taken() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.extend([status(429)] * 3)
        ask(fake, waits)

    assert waits == BACKOFF[:3]


def test_jitter_only_makes_waits_longer() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(status(429, Retry_After="100"))
        ask(fake, waits, jitter=lambda: 1.0)

    assert waits == [125.0]


def test_retry_after_in_seconds_is_waited_for() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(status(429, Retry_After="45"))
        ask(fake, waits)

    assert waits == [45.0]


def test_retry_after_as_a_date_is_waited_for() -> None:
    waits: list[float] = []
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with FakeOpenAI() as fake:
        fake.script.append(status(503, Retry_After=date))
        ask(fake, waits)

    assert waits == [pytest.approx(90, abs=5)]


@pytest.mark.parametrize("value", ["0", "soon", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "1"])
def test_a_retry_after_that_is_short_or_nonsense_does_not_hurry_us(value: str) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.extend([status(429, Retry_After=value)] * 2)
        ask(fake, waits)

    assert waits == BACKOFF[:2]


def test_a_retry_after_of_hours_ends_the_run_at_once() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(status(429, Retry_After="86400"))
        with pytest.raises(RequestRefused, match="asks to wait 86400 seconds") as caught:
            ask(fake, waits)

    assert waits == []
    assert "is kept" in caught.value.hint


def test_an_account_without_credit_is_not_asked_again() -> None:
    waits: list[float] = []
    content = '{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    with FakeOpenAI() as fake:
        fake.script.append(answer(content, code=429))
        with pytest.raises(RequestRefused, match="You exceeded your quota"):
            ask(fake, waits)

    assert waits == []


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 413, 422])
def test_what_cannot_heal_is_asked_once(code: int) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(status(code, "never"))
        with pytest.raises(RequestRefused, match=f"answered {code} .*: never") as caught:
            ask(fake, waits)

    assert caught.value.status == code
    assert waits == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (500, "input is too large to process. increase the physical batch size"),  # llama.cpp
        (429, "Request too large for text-embedding-3-small on tokens per min (TPM)"),  # OpenAI
        (500, "failed to encode response: json: unsupported value: NaN"),  # Ollama
    ],
)
def test_a_5xx_or_429_that_only_a_smaller_request_mends_is_not_repeated(
    code: int, message: str
) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(status(code, message))
        with pytest.raises(RequestRefused):
            ask(fake, waits)

    assert waits == []


def test_a_rate_limit_in_tokens_is_waited_for() -> None:
    waits: list[float] = []
    limit = "Rate limit reached on tokens per min (TPM): Limit 1000000, Requested 20000."
    with FakeOpenAI() as fake:
        fake.script.append(status(429, limit))
        ask(fake, waits)

    assert waits == BACKOFF[:1]


def test_a_server_that_is_down_is_reported_within_five_seconds_with_what_mends_it() -> None:
    with FakeOpenAI() as fake:
        url = fake.url
    waits: list[float] = []
    started = time.monotonic()

    with pytest.raises(ProviderError, match=f"{url}/embeddings: no connection") as caught:
        server(url, waits).post("/embeddings", BODY)
    assert caught.value.hint == "Start it."
    assert waits == []
    assert time.monotonic() - started < 5


def test_a_host_that_never_answers_is_given_up_before_five_seconds() -> None:
    """The lookup of a name, or several addresses, may take longer than each time-out says."""
    with FakeOpenAI() as fake:
        transport = _Silent()
        slow = server(fake.url, transport=transport, connect_seconds=0.1)
        with pytest.raises(ProviderError, match="no connection in time") as caught:
            slow.post("/embeddings", BODY)
        transport.let_go()

    assert caught.value.hint == "Start it."
    assert CONNECT_SECONDS + 0.5 < 5  # what it is without being told, and some for the rest


class _Silent(httpx.BaseTransport):
    def __init__(self) -> None:
        import threading

        self._event = threading.Event()
        self.let_go = self._event.set

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._event.wait(60)
        return httpx.Response(503)


@pytest.mark.parametrize("fault", [hang_up, half])
def test_a_connection_that_breaks_is_an_error_at_first_and_tried_again_later(fault: object) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        asked = server(fake.url, waits)
        fake.script.append(fault)  # type: ignore[arg-type]
        with pytest.raises(ProviderError):
            asked.post("/embeddings", BODY)
        assert waits == []

        asked.post("/embeddings", BODY)
        fake.script.append(fault)  # type: ignore[arg-type]
        asked.post("/embeddings", BODY)
        asked.close()
    assert waits == BACKOFF[:1]


def test_a_server_that_goes_down_after_an_answer_is_tried_again() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        asked = server(fake.url, waits)
        asked.post("/embeddings", BODY)
    with pytest.raises(ProviderError, match=r"no connection .*\(7 tries\)"):
        asked.post("/embeddings", BODY)
    asked.close()

    assert waits == BACKOFF


@pytest.mark.parametrize("headers", [True, False])
def test_an_answer_that_comes_byte_by_byte_is_out_of_time(headers: bool) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.append(drip(headers=headers))
        ask(fake, waits, total_seconds=0.3)

    assert waits == BACKOFF[:1]


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        ('{"data": [', "application/json", "application/json that is not a JSON object"),
        ("<html><title>Sign in</title>", "text/html", "text/html .* object: Sign in"),
        ("[1, 2]", "application/json", "not a JSON object"),
        ("[" * 100_000, "application/json", "not a JSON object"),
        ("", "", "something that is not a JSON object"),
    ],
)
def test_an_answer_that_is_no_json_object_says_what_it_is(
    content: str, kind: str, said: str
) -> None:
    with FakeOpenAI() as fake:
        fake.script.append(answer(content, kind))
        with pytest.raises(ProviderError, match=said):
            ask(fake)


def test_json_cut_short_after_a_good_answer_is_asked_for_again() -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        asked = server(fake.url, waits)
        asked.post("/embeddings", BODY)
        fake.script.append(answer('{"data": ['))
        asked.post("/embeddings", BODY)
        asked.close()

    assert waits == BACKOFF[:1]


def test_json_of_another_content_type_is_read() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(answer('{"a": 1}', "text/plain"))

        assert ask(fake) == {"a": 1}


def test_an_error_page_of_5_mb_is_one_short_line() -> None:
    page = "<html><body>" + "<p>Bad Gateway</p>\n" * 260_000
    with FakeOpenAI() as fake:
        fake.script.append(answer("plain " * 900_000, "text/plain", 404))
        with pytest.raises(RequestRefused) as caught:
            ask(fake)
        fake.script.append(answer(page, "text/html", 404))
        with pytest.raises(RequestRefused) as page_caught:
            ask(fake)

    assert 300 < len(str(caught.value)) < 500
    assert str(page_caught.value).endswith("answered 404 Not Found")


def test_an_answer_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 2**20)
    with FakeOpenAI() as fake:
        fake.script.append(answer(b" " * (2**20 + 1)))
        with pytest.raises(ProviderError, match="larger than 1 MB"):
            ask(fake)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_key_never_follows_to_another_host(code: int) -> None:
    with FakeOpenAI() as other, FakeOpenAI() as fake:
        target = f"{other.url}/embeddings?token=abc"
        fake.script.append(status(code, "moved", Location=target))
        with pytest.raises(RequestRefused, match=r"points to http://127.0.0.1") as caught:
            ask(fake)

    assert other.headers == []
    assert "abc" not in str(caught.value)


def test_a_move_on_the_same_host_is_followed() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(status(307, "moved", Location="/v1/embeddings?x=1"))
        ask(fake)

    assert fake.paths == ["/v1/embeddings", "/v1/embeddings?x=1"]
    assert fake.headers[1]["authorization"] == f"Bearer {KEY}"


def test_a_move_in_a_circle_ends() -> None:
    with FakeOpenAI() as fake:
        fake.script.extend([status(307, "moved", Location="/v1/embeddings")] * 9)
        with pytest.raises(RequestRefused, match="307"):
            ask(fake)


def test_a_key_that_the_server_repeats_is_masked() -> None:
    with FakeOpenAI(key="sk-other") as fake, pytest.raises(RequestRefused) as caught:
        ask(fake)

    assert "Incorrect API key provided: Bearer …" in str(caught.value)


def test_a_key_in_the_address_of_a_redirect_is_masked() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(status(302, Location=f"http://evil.example/login/{KEY}"))
        with pytest.raises(RequestRefused, match=r"points to http://evil\.example/login/…"):
            ask(fake)


def test_a_key_in_a_content_type_is_masked_while_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "embed_ab")
    with FakeOpenAI() as fake:
        asked = server(fake.url)
        asked.post("/embeddings", BODY)
        fake.script.append(answer("x", KEY))
        asked.post("/embeddings", BODY)
        asked.close()

    assert len(caplog.messages) == 1
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "page",
    [
        "<title>bad key k/a&amp;b+c/1</title>",
        '{"error": "' + " " * 1195 + 'k/a&b+c/1"}',
        "bad key k%2Fa%26b%2Bc%2F1",
    ],
)
def test_a_key_is_masked_in_every_form_and_before_words_are_cut(page: str) -> None:
    with FakeOpenAI() as fake:
        asked = Server(fake.url, headers={"Authorization": "Bearer k/a&b+c/1"})
        fake.script.append(answer(page, "text/html", 403))
        with pytest.raises(RequestRefused) as caught:
            asked.post("/embeddings", BODY)

    assert caught.value.said.removeprefix("bad key ") == "…"


def test_credentials_of_a_proxy_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:pass99@127.0.0.1:1")
    with FakeOpenAI() as fake:
        fake.script.append(status(400, "dXNlcjpwYXNzOTk= is pass99"))  # user:pass99
        with pytest.raises(RequestRefused) as caught:
            ask(fake)

    assert caught.value.said == "… is …"


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd"])
def test_an_answer_that_could_unpack_without_bound_is_refused(coding: str) -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(
            200, headers={"Content-Encoding": coding}, stream=httpx.ByteStream(b"x")
        )
    )
    with pytest.raises(ProviderError, match="compressed in a strange way"):
        server("http://h/v1", transport=transport).post("/e", BODY)


@pytest.mark.parametrize("charset", ["rot13", "base64_codec", "idna", "undefined", "no-such"])
def test_a_strange_charset_of_an_error_is_no_crash(charset: str) -> None:
    with FakeOpenAI() as fake:
        fake.script.append(answer(b'{"error":"x \xff no"}', f"text/html; charset={charset}", 400))
        with pytest.raises(RequestRefused, match="x \N{REPLACEMENT CHARACTER} no"):
            ask(fake)


def test_a_redirect_to_no_host_is_an_error_and_no_crash() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(status(307, Location="http://xn--/"))
        with pytest.raises(ProviderError, match="an address that is none"):
            ask(fake)


def test_the_servers_words_can_be_left_out() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(status(400, "your text: pump"))
        with pytest.raises(RequestRefused) as caught:
            ask(fake)

    assert "pump" not in caught.value.unquoted


def test_errors_show_the_whole_address_but_no_secret_in_it() -> None:
    url = read_base_url("http://me:pw@host:81/v1?api-version=2024-02-01&sig=abc", "X")

    assert shown(url) == "http://host:81/v1?api-version=2024-02-01&sig=…"


@pytest.mark.parametrize("text", ["", "http://", "ftp://host", "http://[::1", "http://me:pw@"])
def test_an_address_that_is_none_names_its_variable_and_not_its_value(text: str) -> None:
    with pytest.raises(InputError, match=r"^OPENAI_BASE_URL is not the address") as caught:
        read_base_url(text, "OPENAI_BASE_URL")

    assert "pw" not in str(caught.value)


def test_a_proxy_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAI() as proxy, FakeOpenAI() as fake:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        ask(fake)
        with pytest.raises(ProviderError):
            server("http://nowhere.invalid/v1").post("/embeddings", BODY)

    assert proxy.paths == ["http://nowhere.invalid/v1/embeddings"]
    assert fake.paths == ["/v1/embeddings"]


@pytest.mark.parametrize("variable", ["ALL_PROXY", "HTTP_PROXY"])
def test_a_proxy_that_cannot_be_used_does_not_stand_before_this_machine(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "socks5://127.0.0.1:1")
    with FakeOpenAI() as fake:
        ask(fake)
    with pytest.raises(InputError) as caught:
        server("http://models.example/v1")

    assert "httpx[socks]" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("http://localhost:1", True),
        ("http://localhost.", True),
        ("http://127.9.0.1", True),
        ("http://[::1]", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://localhost.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_which_addresses_are_this_machine(address: str, is_own: bool) -> None:
    assert is_loopback(read_base_url(address, "X")) is is_own


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://h/a%2Fb/v1/embeddings/", "http://h/a%2Fb/v1"),
        ("http://h/v1%00?a=b%2Fc", "http://h/v1%00?a=b%2Fc"),
        ("http://[::1]:80/embeddings", "http://[::1]/"),
        ("http://h?a=b", "http://h/v1?a=b"),
        ("http://h/", "http://h/v1"),
    ],
)
def test_an_address_keeps_what_is_encoded_in_it(address: str, expected: str) -> None:
    url = without_endpoint(read_base_url(address, "X"), "/embeddings", default="/v1")

    assert str(url) == expected


def test_half_a_surrogate_pair_does_not_stop_a_request() -> None:
    with FakeOpenAI() as fake:
        asked = server(fake.url)
        asked.post("/embeddings", BODY | {"input": ["pump \ud83d"]})
        asked.close()

    assert fake.inputs == [["pump ?"]]


def test_what_an_address_hides_is_masked_in_the_servers_words() -> None:
    basic = "bWU6aHVudGVyMg=="  # me:hunter2
    said = f"no access for me with hunter2, {basic} or sig=s3cr%2Ft (s3cr/t)"
    with FakeOpenAI() as fake:
        fake.script.append(answer(said, "text/plain", 400))
        address = fake.url.replace("://", "://me:hunter2@") + "?sig=s3cr%2Ft&api-version=2024"
        with pytest.raises(RequestRefused) as caught:
            Server(address).post("/embeddings", BODY)

    assert caught.value.said == "no access for me with …, … or sig=… (…)"


def test_a_server_that_never_answers_is_tried_twice() -> None:
    waits: list[float] = []

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out", request=request)

    with pytest.raises(ProviderError, match=r"no answer in time \(2 tries\)") as caught:
        server("http://h/v1", waits, transport=httpx.MockTransport(silent)).post("/e", BODY)

    assert waits == BACKOFF[:1]
    assert caught.value.hint == "Start it."


@pytest.mark.parametrize(("code", "n_waits"), [(500, 0), (429, 0), (502, 6), (503, 6)])
def test_words_about_length_are_believed_only_with_a_status_about_requests(
    code: int, n_waits: int
) -> None:
    waits: list[float] = []
    with FakeOpenAI() as fake:
        fake.script.extend([status(code, "the context size is being set up")] * 7)
        with pytest.raises(ProviderError):
            ask(fake, waits)

    assert len(waits) == n_waits


def test_each_wait_is_told_to_who_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "embed_ab")
    with FakeOpenAI() as fake:
        fake.script.append(status(429, Retry_After="45"))
        ask(fake)

    assert caplog.messages == [f"{fake.url}: 429 Too Many Requests; try 2 of 7 in 45 s"]


@pytest.mark.parametrize(
    ("address", "n_lines"),
    [("http://models.example/v1", 1), ("https://models.example/v1", 0), ("http://[::1]/v1", 0)],
)
def test_a_key_over_plain_http_is_told(
    address: str, n_lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "embed_ab")
    server(address).close()

    assert len(caplog.messages) == n_lines
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("variable", "value"), [("HTTPS_PROXY", "foo://x"), ("SSL_CERT_FILE", "/nowhere.pem")]
)
def test_variables_that_allow_no_connection_are_an_input_error(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match="no connection can be made") as caught:
        server("https://models.example/v1")

    assert variable in caught.value.hint


def test_a_proxys_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:s3cret/pw@host:80")
    with pytest.raises(InputError, match="no connection can be made") as caught:
        server("https://models.example/v1")

    assert "s3cret" not in str(caught.value)


def test_a_silent_server_is_told_of_while_it_is_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_SILENCE_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "embed_ab")
    with FakeOpenAI(seconds=0.1) as fake:
        asked = server(fake.url)
        asked.post("/embeddings", BODY)
        asked.post("/embeddings", BODY)
        asked.close()

    assert caplog.messages == [
        f"POST {fake.url}/embeddings: no answer yet; it may be loading a model"
    ]


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "models..example", "x" * 300, "xn--"])
def test_a_host_that_no_lookup_takes_is_an_input_error(host: str) -> None:
    with pytest.raises(InputError, match="OPENAI_BASE_URL is not the address"):
        read_base_url(f"http://{host}/v1", "OPENAI_BASE_URL")


@pytest.mark.parametrize("name", ["api_key", "apiKey", "key", "access_token", "client-secret"])
def test_names_of_keys_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["truncate_prompt_tokens", "input_type", "keywords", "author", "api-version", "monkey"]
)
def test_other_names_are_no_keys(name: str) -> None:
    assert not is_secret_name(name)
