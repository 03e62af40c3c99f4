"""Clusters on one machine: Spark's local cluster, Sail and Ray. Run by `cargo xtask clusters`."""

import os
import sys

import pyarrow.parquet as pq
import pytest
from helpers import readings

# Workers use the interpreter of the tests, and no name server is asked.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Five files, one of them without rows, with 13,000 rows in all."""
    folder = tmp_path_factory.mktemp("readings")
    for k, rows in enumerate([3000, 1, 0, 6000, 3999]):
        pq.write_table(readings(rows, k).drop(["id"]), folder / f"part-{k}.parquet", row_group_size=1700)
    return folder


@pytest.fixture(scope="session")
def session():
    """A session of the engine that ROBUSTARD_ENGINE names: Spark's classic and Connect clients do not share a process."""
    from pyspark.sql import SparkSession

    if os.environ.get("ROBUSTARD_ENGINE") == "sail":
        from pysail.spark import SparkConnectServer

        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        _, port = server.listening_address
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        yield session
        session.stop()
        server.stop()
        return
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()
