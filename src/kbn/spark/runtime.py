"""Sessions for our own commands. Library functions take the user's session and never make one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from kbn.errors import KbnError

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A matcher's chunk is 8192 rows; some of them in one Arrow batch make up for its fixed cost.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
}

QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex{short}
"""


def session(
    master: str | None = None, *, app: str = "kbn", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session: on this machine's cores unless `master` (or spark-submit) says otherwise.

    A master that begins with `sc://` is a Spark Connect server; `sc://local[2]` starts one here.
    Under spark-submit, leave `master` out: what it was started with counts.

    ```python
    spark = session("local[2]", settings={"spark.driver.memory": "4g"})
    ```
    """
    # Workers would take `python3` from the PATH otherwise: another Python, without kbn.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None and master.startswith("sc://"):
        started_here = master.startswith("sc://local")
        return _started(builder.remote(master.removeprefix("sc://") if started_here else master))
    under_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    if not under_submit:
        builder = builder.master(master or "local[*]").config(
            "spark.driver.extraJavaOptions", _quiet()
        )
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return _started(builder)


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j, gRPC and Spark each have their own
        raise KbnError(
            f"Spark did not start: {error}\nIt needs Java 17 or newer (`make java`)."
        ) from error


def _quiet() -> str:
    path = Path(tempfile.gettempdir()) / f"kbn-log4j2-{os.getuid()}.properties"
    path.write_text(QUIET, encoding="utf-8")
    return f"-Dlog4j2.configurationFile=file:{path}"
