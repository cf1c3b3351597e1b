"""kbn for scripts without asyncio: `with kbn.sync.connect("kbn://localhost:7420") as client`."""

from kbn.transport.sync import SyncClient, SyncFeed, connect

__all__ = ["SyncClient", "SyncFeed", "connect"]
