"""Who may come in and what each may do: TLS, certificates, tokens, permissions."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.transport.certificates import Authority
from tests.transport.overlay import make_server, run, take, until

import kbn
from kbn.broker.access import NotAllowedError
from kbn.errors import InvalidInputError, TransportError
from kbn.transport import AccessFile, LinkTo, client_tls, server_tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_tls_carries_everything(authority: Authority) -> None:
    async def story() -> None:
        tls = server_tls(*authority.sign("server"))
        async with make_server(tls=tls) as server:
            assert server.url.startswith("kbns://")
            async with kbn.connect(server.url, tls_ca=authority.certificate) as client:
                feed = await client.subscribe("n any")
                for n in range(300):
                    await client.publish({"n": n, "text": "x" * 1000})
                assert [n["n"] for n in await take(feed, 300)] == list(range(300))

    run(story())


def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    authority: Authority, tmp_path: Path
) -> None:
    async def story() -> None:
        stranger = Authority(tmp_path, "stranger")
        async with make_server(tls=server_tls(*stranger.sign("server"))) as server:
            with pytest.raises(
                TransportError,
                match=r"certificate verify failed: .*; name its authority \(--tls-ca\)",
            ):
                async with kbn.connect(server.url, tls_ca=authority.certificate):
                    pass

    run(story())


def test_behind_mutual_tls_a_client_has_the_name_of_its_certificate(authority: Authority) -> None:
    async def story() -> None:
        tls = server_tls(*authority.sign("server"), client_ca=authority.certificate)
        certificate, key = authority.sign("ann")
        shown = {
            "tls_ca": authority.certificate, "tls_certificate": certificate, "tls_key": key,
        }  # fmt: skip
        async with make_server(tls=tls) as server:
            async with kbn.connect(server.url, name="ann", **shown) as ann:  # type: ignore[arg-type]
                await ann.barrier()
            with pytest.raises(InvalidInputError, match="you are not 'bob'"):
                async with kbn.connect(server.url, name="bob", **shown):  # type: ignore[arg-type]
                    pass
            with pytest.raises(TransportError):
                async with kbn.connect(server.url, tls_ca=authority.certificate, timeout=1):
                    pass

    run(story())


def test_brokers_link_over_mutual_tls(authority: Authority) -> None:
    async def story() -> None:
        tls = server_tls(*authority.sign("a"), client_ca=authority.certificate)
        right = client_tls(authority.certificate, *authority.sign("b"))
        wrong = client_tls(authority.certificate, *authority.sign("mallory"))
        async with make_server("a", tls=tls) as a:
            link = LinkTo(a.url)
            async with make_server("b", links=(link,), link_tls=right):
                await until(lambda: "b" in a.broker.neighbours)
            async with make_server("c", links=(link,), link_tls=wrong) as c:
                await until(lambda: "a" in c.broker.neighbours)
                await until(lambda: not c.broker.neighbours["a"].is_connected)
                assert "c" not in a.broker.neighbours

    run(story())


ACCESS: dict[str, Any] = {
    "clients": {
        "ann": {
            "token_sha256": sha256(b"secret").hexdigest(),
            "publish": ["price"],
            "subscribe": ["price"],
        },
        "boss": {"token": "keys", "publish": "*", "subscribe": "*", "manage": True},
    },
    "brokers": {"b": {"token": "between us"}},
}


def _authorizer(tmp_path: Path, data: object = ACCESS) -> AccessFile:
    path = tmp_path / "access.json"
    path.write_text(json.dumps(data, indent=2))
    return AccessFile(path)


def test_a_client_does_what_it_may_and_is_told_what_it_may_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server(authorizer=_authorizer(tmp_path)) as server:
            ann = kbn.connect(server.url, name="ann", token="secret")
            async with ann:
                feed = await ann.subscribe("price < 10")
                await ann.publish({"price": 1})
                assert await take(feed, 1) == [{"price": 1}]
                with pytest.raises(NotAllowedError, match="'weight'"):
                    await ann.subscribe("weight < 10")
                with pytest.raises(NotAllowedError, match="the right `manage`"):
                    await ann.status()
                await ann.publish({"weight": 1})
                await ann.barrier()
                with pytest.raises(NotAllowedError, match="may not publish 'weight'"):
                    await ann.publish({"price": 2})
                await ann.publish({"price": 3})
                assert await take(feed, 1) == [{"price": 3}]
            async with kbn.connect(server.url, name="boss", token="keys") as boss:
                assert (await boss.status()).broker == "b"

    run(story())


def test_a_refused_publication_is_told_at_the_end_at_the_latest(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server(authorizer=_authorizer(tmp_path)) as server:
            with pytest.raises(NotAllowedError, match="'weight'"):
                async with kbn.connect(server.url, name="ann", token="secret") as ann:
                    await ann.publish({"weight": 1})
                    await ann.barrier()

    run(story())


@pytest.mark.parametrize(("name", "token"), [("ann", "guess"), ("ann", ""), ("eve", "secret")])
def test_a_wrong_token_keeps_out_and_does_not_disturb_who_is_in(
    name: str, token: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with (
            make_server(authorizer=_authorizer(tmp_path)) as server,
            kbn.connect(server.url, name="ann", token="secret") as ann,
        ):
            feed = await ann.subscribe("price any")
            with pytest.raises(InvalidInputError, match="not admitted"):
                async with kbn.connect(server.url, name=name, token=token):
                    pass
            await ann.publish({"price": 1})
            assert await take(feed, 1) == [{"price": 1}]

    run(story())


def test_a_broker_needs_a_token_of_its_own_and_a_clients_does_not_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with make_server("a", authorizer=_authorizer(tmp_path)) as a:
            async with make_server("b", links=(LinkTo(a.url, token="between us"),)) as b:
                await until(lambda: b.broker.is_complete and "b" in a.broker.neighbours)
            async with make_server("ann", links=(LinkTo(a.url, token="secret"),)) as impostor:
                await until(lambda: "a" in impostor.broker.neighbours)
                await until(lambda: not impostor.broker.neighbours["a"].is_connected)
                assert "ann" not in a.broker.neighbours

    run(story())


def test_the_default_entry_is_for_everybody_else(tmp_path: Path) -> None:
    authorizer = _authorizer(tmp_path, {**ACCESS, "default": {"subscribe": "*"}})
    permission = authorizer.admit("whoever", "")
    assert permission is not None
    assert (permission.publish, permission.subscribe, permission.manage) == (
        frozenset(), None, False,
    )  # fmt: skip
    assert authorizer.admit("ann", "") is None
    assert not authorizer.admit_broker("whoever", "")
    assert _authorizer(tmp_path).admit("whoever", "") is None


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(
        "clients:\n  ann: {token: secret, publish: [price], subscribe: '*', manage: true}\n"
    )
    permission = AccessFile(path).admit("ann", "secret")
    assert permission is not None and permission.manage
    assert (permission.publish, permission.subscribe) == (frozenset({"price"}), None)


def test_an_entry_may_have_limits_of_its_own_and_rights_to_block_and_load(tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(
        "clients:\n  ann: {block: true, ontologies: true, limits: {queue: 5, block_s: 0.5}}\n"
        "  bob: {}\nbrokers: {east: {token: e}}\n"
    )
    ann, bob, east = map(AccessFile(path).permission_of, ("ann", "bob", "east"))
    assert ann is not None and bob is not None and east is not None
    assert (ann.block, ann.ontologies, ann.limits) == (True, True, {"queue": 5, "block_s": 0.5})
    assert (bob.block, bob.ontologies, bob.limits) == (False, False, {})
    assert (east.publish, east.manage, east.block) == (None, False, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "clients:\n  ann:\n    tokn: x\n",
            r":3: clients.ann.tokn: unknown key; did you mean 'token'",
        ),
        (
            "clients:\n  ann:\n    token: 5\n",
            r":3: clients.ann.token: expected a text; put it in quo",
        ),
        ("clients:\n  ann:\n    token: ''\n", r":3: clients.ann.token: expected a text$"),
        (
            f"clients:\n  ann:\n    token: a\n    token_sha256: {'b' * 64}\n",
            r":3: clients.ann.token: give a token or its SHA-256, not both",
        ),
        ("clients:\n  ann:\n    token_sha256: b\n", r":3: clients.*: expected a SHA-256: 64"),
        (
            "clients:\n  ann:\n    publish: price\n",
            r":3: clients.ann.publish: expected a list of att",
        ),
        (
            "clients:\n  ann:\n    publish:\n    - 3\n",
            r":4: clients.ann.publish\[0\]: expected a te",
        ),
        (
            "clients:\n  ann:\n    manage: perhaps\n",
            r":3: clients.ann.manage: expected true or fal",
        ),
        (
            "clients:\n  ann:\n    limits:\n      queu: 5\n",
            r":4: clients.ann.limits.queu: unknown key; did you mean 'queue'",
        ),
        (
            "clients:\n  ann:\n    limits: {queue: 0}\n",
            r":3: clients.ann.limits.queue: expected a whole number above 0",
        ),
        ("clients:\n  ann: yes\n", r":2: clients.ann: expected token, token_sha256"),
        ("clients:\n  ann: {}\n  ann: {}\n", r":3: the key 'ann' occurs twice"),
        ("clients: [ann]\n", r":1: clients: expected names"),
        ("users: {}\n", r":1: users: unknown key; use clients, brokers or default"),
        ("- ann\n", r":1: expected clients"),
        ("clients: {\n", r":2: not YAML"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message) as caught:
        AccessFile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "clients:\n  ann: s3cret\n",
        "clients: [{ann: s3cret}]\n",
        "clients:\n  ann:\n    token_sha256: s3cret\n",
        "clients:\n  ann:\n    token: [s3cret]\n",
        "- s3cret\n",
    ],
)
def test_no_error_shows_what_may_be_a_token(text: str, tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        AccessFile(path)
    assert "s3cret" not in str(caught.value)


def test_broken_json_and_missing_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    path.write_text('{"clients":\n {,}}')
    with pytest.raises(InvalidInputError, match=r"access\.json:2: not JSON"):
        AccessFile(path)
    with pytest.raises(InvalidInputError, match="cannot read"):
        AccessFile(tmp_path / "none.json")


def test_an_authorizer_whose_file_has_become_wrong_stays_as_it_was(tmp_path: Path) -> None:
    authorizer = _authorizer(tmp_path)
    (tmp_path / "access.json").write_text("{")
    with pytest.raises(InvalidInputError):
        authorizer.reload()
    assert authorizer.admit("ann", "secret") is not None


def test_a_certificate_that_is_none_is_refused(tmp_path: Path, authority: Authority) -> None:
    nothing, gone = tmp_path / "x.pem", tmp_path / "gone.key"
    nothing.write_text("nothing")
    (certificate, key), (_, other_key) = authority.sign("a"), authority.sign("b")
    with pytest.raises(InvalidInputError, match=r"x\.pem has no certificate with its key"):
        server_tls(nothing, nothing)
    with pytest.raises(InvalidInputError, match="are not a certificate and its key"):
        server_tls(nothing, key)
    with pytest.raises(InvalidInputError, match="is not that of the certificate in"):
        server_tls(certificate, other_key)
    with pytest.raises(InvalidInputError, match=r"gone\.key: No such file"):
        server_tls(certificate, gone)
    with pytest.raises(InvalidInputError, match=r"x\.pem has no certificate of an authority"):
        client_tls(nothing)


def test_a_client_does_not_carry_its_token_from_tls_into_the_open(authority: Authority) -> None:
    async def story() -> None:
        tls = server_tls(*authority.sign("server"))
        async with (
            make_server("a", tls=tls) as a,
            make_server("b") as b,
            kbn.connect(a.url, name="ann", tls_ca=authority.certificate) as ann,
        ):
            with pytest.raises(InvalidInputError, match="without TLS"):
                await ann.move(b.url)
            feed = await ann.subscribe("n any")
            assert await ann.move_clients("b", b.url, ["ann"]) == 1
            await ann.barrier()
            await ann.publish({"n": 1})
            assert await take(feed, 1) == [{"n": 1}]
            assert not b.broker.clients

    run(story())


def test_a_reload_is_obeyed_by_connections_that_are_open(tmp_path: Path) -> None:
    async def story() -> None:
        authorizer = _authorizer(tmp_path)
        async with make_server(authorizer=authorizer) as server:
            ann = kbn.connect(server.url, name="ann", token="secret")
            boss = kbn.connect(server.url, name="boss", token="keys")
            async with ann, boss:
                feed = await ann.subscribe("price < 10")
                _authorizer(tmp_path, {"clients": {**ACCESS["clients"], "ann": {}}})
                server.reload()
                with pytest.raises(NotAllowedError, match="may not subscribe to 'price'"):
                    await anext(feed)
                with pytest.raises(NotAllowedError, match="may not subscribe to 'price'"):
                    await ann.subscribe("price < 10")
                _authorizer(tmp_path, {"clients": {"boss": ACCESS["clients"]["boss"]}})
                server.reload()
                await until(lambda: "ann" not in server.broker.clients)
                with pytest.raises(NotAllowedError, match="access was withdrawn"):
                    await ann.barrier()
                await boss.barrier()

    run(story())


def test_a_file_that_became_wrong_changes_nothing_for_anybody(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            make_server(authorizer=_authorizer(tmp_path)) as server,
            kbn.connect(server.url, name="ann", token="secret") as ann,
        ):
            (tmp_path / "access.json").write_text("{")
            server.reload()
            await ann.barrier()
            assert "ann" in server.broker.clients

    run(story())
