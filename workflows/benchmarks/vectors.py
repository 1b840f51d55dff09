"""Reduce dense vectors in Parquet files under a memory limit, and search their coordinates.

Vectors of float16 have clusters in few directions and noise in all. Recall is the share of the ten nearest rows by
cosine among the vectors that are among those of the coordinates. faiss, if it is installed, learns its PCAMatrix from a
sample in memory and projects all rows batch by batch.
"""

import argparse
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral import PCA, nearest, read_vectors, write_coordinates

from .._form import form

GROUP_ROWS, FILE_ROWS, N_CLUSTERS, N_DIRECTIONS, N_NEAREST = 20_000, 100_000, 500, 100, 10


def main(argv: list[str] | None = None) -> None:
    """Write the vectors, reduce and search them."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, form.scratch_folder(arguments.scratch) as scratch:
        folder = Path(scratch) / "vectors"
        with run.measure("write the vectors"):
            write_vectors(folder, arguments.rows, arguments.columns, arguments.seed)
        data = f"{arguments.rows} x {arguments.columns}"
        vectors = read_vectors(folder)
        model = PCA(arguments.components, random_state=arguments.seed)
        with run.measure("fit and write coordinates") as used:
            saved = write_coordinates(model.fit(vectors), vectors, Path(scratch) / "ours.parquet", dtype="float16")
        values = {
            "file_bytes": count_bytes(folder),
            "passes": model.n_passes_ + 1,
            "written_bytes": count_bytes(Path(scratch) / "ours.parquet"),
        }
        queries = (
            np.random.default_rng(arguments.seed).choice(arguments.rows, arguments.queries, replace=False).tolist()
        )
        expected = find_nearest(vectors, queries)
        points = {"PCA": (saved, used, values)}
        if find_spec("faiss"):
            with run.measure("faiss") as used_by_peer:
                coordinates = reduce_by_faiss(vectors, arguments.components, arguments.sample, arguments.seed)
            points["faiss PCAMatrix"] = coordinates, used_by_peer, {"sample": min(arguments.sample, arguments.rows)}
        else:
            run.note("faiss is not installed: pip install faiss-cpu for its PCAMatrix")
        for method, (coordinates, cost, more) in points.items():
            found = find_nearest(coordinates, queries)
            hits = [len(own & other) for own, other in zip(found, expected, strict=True)]
            figures = {
                **more,
                "cpu_seconds": cost.cpu_seconds,
                "seconds": cost.seconds,
                "peak_memory_bytes": cost.peak_memory_bytes,
                "recall_at_10": sum(hits) / sum(map(len, expected)),
            }
            run.rows(figures, data=data, method=method)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.vectors", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=1_000_000, help="vectors")
    add("--columns", type=form.positive, default=384, help="length of a vector")
    add("--components", type=form.positive, default=64, metavar="K", help="length of the coordinates")
    add("--queries", type=form.positive, default=200, metavar="N", help="rows whose nearest ones are compared")
    add("--sample", type=form.positive, default=100_000, metavar="N", help="rows from which faiss learns")
    add("--scratch", type=form.local_path, help="folder for the vectors (default: the system's)")
    return parser


def draw_groups(n_rows: int, n_columns: int, seed: int) -> Iterator[NDArray[np.float16]]:
    """Yield row groups of clusters of unequal sizes in few directions, with noise. Shapes: yields (n, n_columns)."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((N_DIRECTIONS, n_columns)) * np.arange(1.0, N_DIRECTIONS + 1)[:, None] ** -0.5
    centers = rng.standard_normal((N_CLUSTERS, N_DIRECTIONS))
    shares = rng.dirichlet(np.full(N_CLUSTERS, 2.0))
    for start in range(0, n_rows, GROUP_ROWS):
        n = min(GROUP_ROWS, n_rows - start)
        own = centers[rng.choice(N_CLUSTERS, n, p=shares)] + 0.7 * rng.standard_normal((n, N_DIRECTIONS))
        yield (own @ directions + 0.15 * rng.standard_normal((n, n_columns))).astype(np.float16)


def write_vectors(folder: Path, n_rows: int, n_columns: int, seed: int) -> None:
    """Write Parquet files with a column of lists of fixed size, one row group at a time."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    folder.mkdir()
    schema, writer = pa.schema([("embedding", pa.list_(pa.float16(), n_columns))]), None
    for number, rows in enumerate(draw_groups(n_rows, n_columns, seed)):
        if number * GROUP_ROWS % FILE_ROWS == 0:
            if writer is not None:
                writer.close()
            writer = parquet.ParquetWriter(folder / f"{number:06}.parquet", schema)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), n_columns)
        writer.write_table(pa.table({"embedding": lists}, schema=schema))
    writer.close()


def count_bytes(folder: Path) -> int:
    """Return the bytes of the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def find_nearest(rows: Any, queries: list[int]) -> list[set[int]]:
    """Return the numbers of the nearest rows of each query, by exact search."""
    return [{near.row for near in found} for found in nearest(None, rows, queries, N_NEAREST)]


def reduce_by_faiss(vectors: Any, k: int, n_sample: int, seed: int) -> NDArray[np.float16]:
    """Return the coordinates of faiss, learned from a random sample. Shapes: `vectors` (n, d); returns (n, k)."""
    n_rows, width = vectors.shape
    rows = np.sort(np.random.default_rng(seed).choice(n_rows, min(n_sample, n_rows), replace=False))
    matrix = import_module("faiss").PCAMatrix(width, k)
    matrix.train(np.ascontiguousarray(vectors[rows].compute(), dtype=np.float32))
    blocks = (vectors.blocks[block].compute() for block in range(vectors.numblocks[0]))
    return np.concatenate([matrix.apply(np.ascontiguousarray(block)).astype(np.float16) for block in blocks])


if __name__ == "__main__":
    main()
