"""kbn for scripts without asyncio: `with kbn.sync.connect("kbn://localhost:7420") as client`."""

from kbn.transport import SyncClient, SyncFeed
from kbn.transport import connect_sync as connect

__all__ = ["SyncClient", "SyncFeed", "connect"]
