"""What opens a source is kept nowhere."""

from pathlib import Path

import fsspec
import pytest

from dspectral import build_store
from dspectral.store import redact_urls


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ann:hush@host/a.txt", "https://***@host/a.txt"),
        ("s3://KEY@bucket/a", "s3://***@bucket/a"),
        ("abfs://c@acc.dfs/a?sig=hush&sv=1", "abfs://***@acc.dfs/a?sig=***&sv=1"),
        (
            "https://h/a?X-Amz-Credential=hush%2Fa&X-Amz-Expires=9",
            "https://h/a?X-Amz-Credential=***&X-Amz-Expires=9",
        ),
        ("https://h/a?access_token=hush#end", "https://h/a?access_token=***#end"),
        ("https://h/ann@home/a?monk=1&part=2", "https://h/ann@home/a?monk=1&part=2"),
        ("/home/ann@work/a?key=1", "/home/ann@work/a?key=1"),
        ("mail ann@host", "mail ann@host"),
        (7, 7),
    ],
)
def test_an_address_is_shown_without_its_secrets(address, shown):
    assert redact_urls(address) == shown
    assert redact_urls({"a": [address, (address,)]}) == {"a": [shown, (shown,)]}


def test_a_store_keeps_no_password_of_its_sources(tmp_path):
    """A file system whose addresses carry a user and a password, as those of ftp do."""

    class Guarded(fsspec.get_filesystem_class("memory")):
        protocol = "guarded"

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol("memory://" + path.removeprefix("guarded://").rpartition("@")[2])

        def unstrip_protocol(self, name):
            return f"guarded://ann:hush@{name.lstrip('/')}"

    fsspec.register_implementation("guarded", Guarded, clobber=True)
    with fsspec.open("memory://docs.txt", "w") as file:
        file.write("the cat\nthe dog\n")
    build_store("guarded://ann:hush@docs.txt", str(tmp_path / "counts"))
    written = [path.read_text(encoding="utf-8") for path in Path(tmp_path).rglob("zarr.json")]
    assert any("guarded://***@docs.txt" in text for text in written)
    assert not any("hush" in text for text in written)
