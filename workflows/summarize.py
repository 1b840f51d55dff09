"""Write the summary of a store to one file without rows, for a model of several sites.

``dspectral combine`` merges the files of all sites. A file has sums over all rows, and the names of the columns. The
sum of few rows is not private.
"""

from ._form import form

SOLVERS = ("auto", "gram", "frequent_directions", "nystrom")


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("summarize", __doc__)
    add = parser.add_argument
    add("store", metavar="STORE", help="folder or URL of the store")
    add("-o", dest="output", required=True, metavar="FILE", help="path or URL of the summary to write")
    add("--components", type=form.positive, default=100, metavar="K", help="components of the model of all sites")
    add("--solver", choices=SOLVERS, default="auto", help="the same at all sites; auto depends on the columns alone")
    add("--sketch-size", type=form.positive, metavar="L", help="rows of the sketch (default: by the components)")
    add("--uncentered", action="store_true", help="a truncated SVD instead of a PCA")
    start = "basis of nystrom: own of this store, or the summary of another site (default: drawn by the seed)"
    add("--start", metavar="FILE", help=start)
    add("--at-least", type=form.positive, default=1, metavar="N", help="refuse a store with a block of fewer rows")
    return parser


form.check_options(__name__, options)

import dspectral


def main(argv: list[str] | None = None) -> None:
    """Summarize a store."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        store = dspectral.open_store(arguments.store)
        parameters = {"sketch_size": arguments.sketch_size, "random_state": arguments.seed}
        kind = dspectral.TruncatedSVD if arguments.uncentered else dspectral.SketchedPCA
        model = kind(arguments.components, solver=arguments.solver, **parameters)
        with run.measure("summarize") as used:
            dspectral.write_summary(store, arguments.output, model, start=arguments.start, at_least=arguments.at_least)
        run.passes = 1
        sizes = {"rows": store.n_rows, "columns": store.n_columns, "seconds": used.seconds}
        run.rows(sizes, data=arguments.store, method="summarize")
    if not arguments.plan:
        print(f"summary: {arguments.output}")


if __name__ == "__main__":
    main()
