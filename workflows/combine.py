"""Combine the summaries of several sites into one model, with the certificate of all their rows.

The files are those of ``dspectral summarize``. No rows are needed, and the order of the files does not matter.
"""

from ._form import form


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("combine", __doc__, fits=False)
    add = parser.add_argument
    add("summaries", nargs="+", metavar="FILE", help="paths or URLs of summaries, one a site")
    add("-o", dest="output", required=True, metavar="MODEL", help="path or URL of the model to write")
    add("--components", type=form.positive, metavar="K", help="components (default: those of the summaries)")
    add("--overwrite", action="store_true", help="replace a model that is there")
    return parser


form.check_options(__name__, options)

import dspectral


def main(argv: list[str] | None = None) -> None:
    """Combine summaries."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        with run.measure("combine"):
            model = dspectral.combine(arguments.summaries, arguments.components)
        if not arguments.plan:
            dspectral.save(model, arguments.output, overwrite=arguments.overwrite)
        values = {
            "rows": model.n_samples_seen_,
            "components": model.n_components_,
            "certificate_relative": model.certificate_.relative,
        }
        run.rows(values, data=f"{len(arguments.summaries)} sites", method=model.solver_)
    if not arguments.plan:
        print(f"model: {arguments.output}")


if __name__ == "__main__":
    main()
