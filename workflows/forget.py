"""Remove rows from a store, with their texts, ids and labels.

Only the blocks that hold the rows are written again, and the store changes in one step. The receipt, without the
content of the rows, is written beside the report and kept in the store.
"""

import json

from ._form import form


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("forget", __doc__, fits=False)
    add = parser.add_argument
    add("store", metavar="STORE", help="folder or URL of the store")
    add("--rows", required=True, type=form.local_path, metavar="FILE", help="row numbers, from 0, one a line")
    add("--ids", action="store_true", help="the file has ids instead of row numbers")
    add("--compact", action="store_true", help="remove words that no document has any more, and renumber the columns")
    removed = "folder or URL of checkpoints: those that may depend on the rows are removed (default: none)"
    add("--checkpoints", metavar="URL", help=removed)
    return parser


form.check_options(__name__, options)

import dspectral


def main(argv: list[str] | None = None) -> None:
    """Forget rows and describe what was done."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        lines = arguments.rows.read_text(encoding="utf-8").splitlines()
        rows = lines if arguments.ids else [int(line) for line in lines]
        with run.measure("forget"):
            receipt = dspectral.forget(
                arguments.store, rows, compact=arguments.compact, checkpoints=arguments.checkpoints
            )
        counts = {
            "forgotten_rows": receipt.n_rows,
            "rows": receipt.n_remaining_rows,
            "changed_blocks": len(receipt.blocks),
            "unused_terms": receipt.n_unused_terms,
            "removed_checkpoints": len(receipt.checkpoints),
        }
        run.rows(counts, data=arguments.store, method="forget")
        run.attach("receipt.json", json.dumps(receipt._asdict(), indent=1) + "\n")
    if not arguments.plan:
        print(f"receipt: {arguments.out / 'receipt.json'}")


if __name__ == "__main__":
    main()
