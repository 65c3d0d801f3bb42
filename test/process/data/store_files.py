"""What the stores that tests start have in common: files of a bucket, by pyarrow's way to them."""
import pathlib


class StoreFiles:
    """Its servers have .scheme, .bucket and .files."""

    def uri(self, key):
        return f"{self.scheme}://{self.bucket}/{key}"

    def put(self, key, data):
        with self.files.open_output_stream(f"{self.bucket}/{key}") as out:
            out.write(data)

    def put_folder(self, folder, key):
        for path in sorted(pathlib.Path(folder).iterdir()):
            if path.is_file():
                self.put(f"{key}/{path.name}", path.read_bytes())
