"""What mkdocs calls while it builds the site."""
import pathlib


def on_config(config):
    """Put the pages that a pattern of the navigation names, and nothing else does, in its place."""
    pages = pathlib.Path(config.docs_dir)

    def named(items):
        for item in items:
            value = next(iter(item.values())) if isinstance(item, dict) else item
            yield from named(value) if isinstance(value, list) else [value]

    known = set(named(config.nav))

    def expanded(items):
        for item in items:
            title, value = next(iter(item.items())) if isinstance(item, dict) else (None, item)
            if isinstance(value, list):
                yield {title: list(expanded(value))}
            elif "*" not in value:
                yield item
            else:
                found = [path.relative_to(pages).as_posix() for path in sorted(pages.glob(value))]
                new = [path for path in found if path not in known]
                yield from [{title: new}] if title else new

    config.nav = list(expanded(config.nav))
    return config
