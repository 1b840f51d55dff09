"""An endpoint that speaks S3, as a process: moto's server, which keeps what it is given in memory."""

import json

from tests.cluster.processes import Started, free_port, python

BUCKET = "texts"


class Endpoint:
    """The server, and the data of these tests in a bucket of it."""

    def __init__(self, places):
        self._places = places
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        self.process = Started(python("-m", "moto.server", "-H", "127.0.0.1", "-p", self.port))
        try:
            self.process.wait_for(lambda line: True if "Running on" in line else None)
            self._put()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_error):
        self.process.kill()

    @property
    def options(self):
        """Options of the file system; the secret is no secret here."""
        return {
            "key": "test",
            "secret": "test",
            "client_kwargs": {"endpoint_url": self.url, "region_name": "eu-west-1"},
        }

    @property
    def places(self):
        """The data in the bucket."""
        return self._places._replace(
            counts=f"s3://{BUCKET}/counts", corpus=f"s3://{BUCKET}/corpus", options=self.options
        )

    def _put(self):
        # In a process of its own: s3fs keeps a thread and connections, which warn when this process ends.
        order = json.dumps([self.options, self._places.counts, self._places.corpus])
        done = Started(python("-c", UPLOAD, order))
        try:
            assert done.wait() == 0, done.lines[-5:]
        finally:
            done.kill()


UPLOAD = f"""
import json, sys, s3fs
options, counts, corpus = json.loads(sys.argv[1])
files = s3fs.S3FileSystem(**options)
files.mkdir("{BUCKET}")
files.put(counts, "{BUCKET}/counts", recursive=True)
files.put(corpus, "{BUCKET}/corpus", recursive=True)
"""
