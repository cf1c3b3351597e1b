"""Ontologies over http: what is fetched, what is kept, and what servers may not do to a reader."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbn.errors import KbnError, LimitError, OntologyError
from kbn.ontology import Ontology, Proofs, downloads, links_between
from kbn.ontology.fetching import REDIRECTS_MAX, Fetcher

TURTLE = b"""@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<#Cow> rdfs:subClassOf <#Animal> ."""
Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers by the table of its server, and notes what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        self.close_connection = True
        with suppress(OSError):  # the reader may go away
            server.answers[self.path.partition("?")[0]](self)

    def log_message(self, *_: object) -> None:
        pass

    def say(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    """A server of this test on this machine."""

    daemon_threads = True

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), Handler)
        self.answers: dict[str, Reply] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def __setitem__(self, path: str, answer: Reply) -> None:
        self.answers[path] = answer

    def url(self, path: str) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}{path}"

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def running(host: str) -> Iterator[Server]:
    with Server(host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with running("127.0.0.1") as made:
        yield made


def turtle(handler: Handler) -> None:
    handler.say(200, TURTLE, Content_Type="text/turtle; charset=utf-8")


# What works.


def test_an_address_is_loaded_and_relative_names_are_relative_to_it(server: Server) -> None:
    server["/farm"] = turtle
    ontology = Ontology.load(server.url("/farm"))
    cow, animal = server.url("/farm#Cow"), server.url("/farm#Animal")
    assert ontology.is_subclass(cow, animal)
    assert ontology.sources == (server.url("/farm"),)
    assert "text/turtle" in server.asked[0][1]["accept"]
    (step,) = Proofs(ontology).of(links_between(ontology, cow, animal)[0])
    assert (step.file, step.line) == (server.url("/farm"), 2)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/ld+json", b'{"@id": "urn:t#A", "@type": "http://www.w3.org/2002/07/owl#Class"}'),
        ("application/n-triples", b"<urn:t#A> a <http://www.w3.org/2002/07/owl#Class> ."),
        ("text/plain", b"@prefix : <urn:t#> . :A a <http://www.w3.org/2002/07/owl#Class> ."),
        ("", b"@prefix : <urn:t#> . :A a <http://www.w3.org/2002/07/owl#Class> ."),
    ],
)  # fmt: skip
def test_the_content_type_or_the_content_tells_the_format(
    server: Server, kind: str, content: bytes
) -> None:
    content = content.replace(b" a ", b" <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ")
    server["/a"] = lambda handler: handler.say(200, content, Content_Type=kind)
    assert Ontology.load(server.url("/a")).classes == ("urn:t#A",)


def test_gzip_and_redirects_are_followed(server: Server) -> None:
    server["/old"] = lambda handler: handler.say(302, Location="/new?x=1")
    server["/new"] = lambda handler: handler.say(
        200, gzip.compress(TURTLE), Content_Type="text/turtle", Content_Encoding="gzip"
    )
    server["/file.ttl.gz"] = lambda handler: handler.say(
        200, gzip.compress(TURTLE), Content_Type="application/gzip"
    )
    assert len(Ontology.load(server.url("/old")).classes) == 2
    assert server.asked[1][0] == "/new?x=1"
    assert len(Ontology.load(server.url("/file.ttl.gz")).classes) == 2


def test_imports_are_fetched_only_when_asked_for(server: Server, tmp_path: Path) -> None:
    server["/base"] = turtle
    path = tmp_path / "user.ttl"
    path.write_text(
        f"<urn:u> a <http://www.w3.org/2002/07/owl#Ontology> ; "
        f"<http://www.w3.org/2002/07/owl#imports> <{server.url('/base')}> ."
    )
    assert "was not found" in Ontology.load(path).unsupported[0]
    assert server.asked == []
    assert len(Ontology.load(path, network=True).classes) == 2
    assert len(Ontology.load(path, offline=True).classes) == 2
    assert len(server.asked) == 1


# What is kept.


@pytest.mark.parametrize(
    ("header", "sent_back"),
    [("ETag", "if-none-match"), ("Last_Modified", "if-modified-since")],
)
def test_what_has_not_changed_is_not_sent_again(
    server: Server, header: str, sent_back: str
) -> None:
    mark = '"one"' if header == "ETag" else "Wed, 18 Nov 2026 07:00:00 GMT"

    def answer(handler: Handler) -> None:
        if handler.headers.get(sent_back) == mark:
            handler.say(304)
        else:
            handler.say(200, TURTLE, **{"Content_Type": "text/turtle", header: mark})

    server["/farm"] = answer
    first, second = (Ontology.load(server.url("/farm")) for _ in range(2))
    assert first.digest == second.digest
    assert server.asked[1][1][sent_back] == mark


def test_without_a_network_what_is_kept_is_used(server: Server) -> None:
    server["/farm"] = turtle
    url = server.url("/farm")
    with pytest.raises(OntologyError, match="was never fetched"):
        Ontology.load(url, offline=True)
    first = Ontology.load(url)
    assert Ontology.load(url, offline=True).digest == first.digest
    server["/farm"] = lambda handler: handler.say(503)
    said: list[str] = []
    assert Ontology.load(url, progress=said.append).digest == first.digest
    assert any("the kept copy is used" in sentence for sentence in said)
    assert len(server.asked) == 2


def test_what_has_changed_or_is_gone_is_noticed(server: Server) -> None:
    server["/farm"] = turtle
    Ontology.load(server.url("/farm"))
    changed = TURTLE + b" <#Calf> rdfs:subClassOf <#Cow> ."
    server["/farm"] = lambda handler: handler.say(200, changed, Content_Type="text/turtle")
    assert len(Ontology.load(server.url("/farm")).classes) == 3
    server["/farm"] = lambda handler: handler.say(404)
    with pytest.raises(OntologyError, match="no such page"):
        Ontology.load(server.url("/farm"))


def test_a_damaged_download_counts_as_none(server: Server, own_cache: Path) -> None:
    server["/farm"] = turtle
    Ontology.load(server.url("/farm"))
    (kept,) = (own_cache / "downloads").iterdir()
    kept.write_bytes(kept.read_bytes() + b"<#Dog> rdfs:subClassOf <#Animal> .")
    with pytest.raises(OntologyError, match="was never fetched"):
        Ontology.load(server.url("/farm"), offline=True)


def test_downloads_that_were_not_used_for_longest_go_first(
    server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setattr(downloads, "ENTRIES_MAX", 2)
    for number, name in enumerate("abc"):
        server["/" + name] = turtle
        Ontology.load(server.url("/" + name))
        for path in (own_cache / "downloads").iterdir():
            os.utime(path, (number - 9, path.stat().st_mtime - 9))
    kept = {name for name in "abc" if downloads.find(server.url("/" + name))}
    assert kept == {"b", "c"}


# What a server may not do.


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/turtle")
    handler.end_headers()
    while True:
        handler.wfile.write(b"# and so on\n" * 1000)


def bomb(handler: Handler) -> None:
    handler.say(200, gzip.compress(bytes(10_000_000)), Content_Encoding="gzip")


def packed_bomb(handler: Handler) -> None:
    inner = gzip.compress(bytes(10_000_000))
    handler.say(200, inner, Content_Type="application/gzip")


@pytest.mark.parametrize("answer", [endless, bomb, packed_bomb])
def test_what_is_too_large_is_refused_before_it_is_held(server: Server, answer: Reply) -> None:
    server["/big"] = answer
    with pytest.raises(LimitError, match="at most 100,000 bytes"):
        Fetcher(bytes_max=100_000).get(server.url("/big"))
    with pytest.raises(LimitError, match="at most 5,000 bytes"):
        Ontology.load(server.url("/big"), bytes_max=5_000)


@pytest.mark.parametrize("part", ["body", "headers"])
def test_a_server_that_drips_gets_no_more_time(server: Server, part: str) -> None:
    gone = threading.Event()

    def drip(handler: Handler) -> None:
        if part == "body":
            handler.send_response(200)
            handler.end_headers()
        else:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Name: ")
        try:
            while not gone.wait(0.01):
                handler.wfile.write(b"x")
        finally:
            gone.set()

    server["/slow"] = drip
    with pytest.raises(OntologyError, match=r"no whole answer within 0\.3 s"):
        Fetcher(seconds_max=0.3).get(server.url("/slow"))
    assert gone.wait(30)  # the connection was closed


def test_a_redirect_loop_ends(server: Server) -> None:
    server["/loop"] = lambda handler: handler.say(301, Location="/loop")
    with pytest.raises(OntologyError, match=f"more than {REDIRECTS_MAX} redirects"):
        Ontology.load(server.url("/loop"))
    assert len(server.asked) == REDIRECTS_MAX + 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda h: h.say(200, b"<html>", Content_Type="text/html"), "a web page"),
        (lambda h: h.say(200, b"\x89PNG", Content_Type="image/png"), "is image/png"),
        (lambda h: h.say(200, b"no idea", Content_Type="text/plain"), "format is not recognised"),
        (lambda h: h.say(200, b"<urn:a> <urn:b> ", Content_Type="text/turtle"), "not well-formed"),
        (lambda h: h.say(200, TURTLE, Content_Type="text/turtle", Content_Encoding="br"), "as br"),
        (lambda h: h.say(200, b"not", Content_Encoding="gzip"), "cannot be unpacked"),
        (lambda h: h.say(200, gzip.compress(TURTLE)[:-9], Content_Encoding="gzip"), "ended early"),
        (lambda h: h.say(200, TURTLE, Content_Length="9999"), "ended after"),
        (lambda h: h.say(401), "needs a login"),
        (lambda h: h.say(500), "status 500"),
        (lambda h: h.say(302), "says no place"),
        (lambda h: h.say(302, Location="file:///etc/hostname"), "only http and https"),
        (lambda h: h.say(302, Location="ftp://127.0.0.1/x"), "only http and https"),
        (lambda h: h.wfile.write(b"garbage\r\n\r\n"), "cannot be fetched"),
        (lambda h: h.wfile.write(b""), "cannot be fetched"),
    ],
)
def test_what_is_no_ontology_is_refused_and_not_kept(
    server: Server, own_cache: Path, answer: Reply, says: str
) -> None:
    server["/x"] = answer
    with pytest.raises(KbnError, match=says):
        Ontology.load(server.url("/x"))
    if says != "not well-formed":
        assert not (own_cache / "downloads").exists()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://user:secret@127.0.0.1/x", "no user or password"),
        ("http://", "names no host"),
        ("http://127.0.0.1:port/x", "not an address"),
        ("http://127.0.0.1/a b", "printable ASCII"),
        ("http://127.0.0.1/a\r\nHost: x", "printable ASCII"),
        ("http://127.0.0.1:1/x", "cannot be fetched"),
    ],
)
def test_a_wrong_address_is_told(url: str, says: str) -> None:
    with pytest.raises(OntologyError, match=says) as caught:
        Ontology.load(url)
    assert "secret" not in str(caught.value)


def test_a_path_is_never_an_address(server: Server) -> None:
    """A broker that is asked for files makes paths of them, so nobody has it fetch anything."""
    server["/farm"] = turtle
    with pytest.raises(OntologyError, match="no such file"):
        Ontology.load(Path(server.url("/farm")))
    assert server.asked == []


def test_a_server_without_a_certificate_is_not_spoken_to(server: Server) -> None:
    server["/farm"] = turtle
    with pytest.raises(OntologyError, match="cannot be fetched"):
        Ontology.load(server.url("/farm").replace("http:", "https:"))
    assert server.asked == []


def only_first(address: str) -> bool:
    return address != "127.0.0.1"


def test_a_public_document_never_leads_to_a_private_address(server: Server) -> None:
    """127.0.0.1 stands for a public address here, 127.0.0.2 for a private one."""
    with running("127.0.0.2") as inside:
        inside["/secret"] = turtle
        server["/way"] = lambda handler: handler.say(302, Location=inside.url("/secret"))
        fetcher = Fetcher(is_private=only_first)
        with pytest.raises(OntologyError, match="leads to this private address"):
            fetcher.get(server.url("/way"))
        with pytest.raises(OntologyError, match="leads to this private address"):
            fetcher.get(inside.url("/secret"), only_public=True)
        assert inside.asked == []
        assert fetcher.get(inside.url("/secret")) is not None  # who asks for it gets it
        assert len(inside.asked) == 1


def test_what_is_fetched_cannot_import_files_of_this_machine(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.ttl").write_text("<urn:secret> a <http://www.w3.org/2002/07/owl#Class> .")

    def importing(target: str) -> Reply:
        text = f"<urn:u> a <http://www.w3.org/2002/07/owl#Ontology> ; <http://www.w3.org/2002/07/owl#imports> <{target}> ."  # noqa: E501
        return lambda handler: handler.say(200, text.encode(), Content_Type="text/turtle")

    server["/near"] = importing("urn:x/base")
    assert Ontology.load(server.url("/near")).classes == ()
    server["/far"] = importing((tmp_path / "base.ttl").as_uri())
    assert Ontology.load(server.url("/far")).classes == ()
    with pytest.raises(OntologyError, match="only http and https"):
        Ontology.load(server.url("/far"), network=True)
