"""Public test sets, through sacreBLEU, which downloads each once and keeps it."""

from difflib import get_close_matches

from tformer.errors import ConfigError, DataError


def read_testset(name: str, langpair: str) -> tuple[list[str], list[list[str]]]:
    """Read the sources and references of a public test set; a folder copied from another machine needs no network.

    Args:
        name: a name that `sacrebleu --list` shows, such as `wmt14`.
        langpair: source and target language, such as `en-de`.

    Returns:
        The sources, and one list of references for each translator.

    Raises:
        ConfigError: there is no such test set, or it lacks these languages or references for them.
        DataError: it is neither there nor to be downloaded, or its files have different numbers of lines.
    """
    import sacrebleu

    names = sacrebleu.get_available_testsets()
    if name not in names:
        near = get_close_matches(name, names)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigError(f"expected a test set of sacreBLEU, got {name!r}; {hint}`sacrebleu --list` shows all")
    langpairs = sacrebleu.get_langpairs_for_testset(name)
    if langpair not in langpairs:
        raise ConfigError(f"expected a language pair of {name} ({', '.join(langpairs)}), got {langpair!r}")
    try:
        paths = [sacrebleu.get_source_file(name, langpair), *sacrebleu.get_reference_files(name, langpair)]
    except (Exception, SystemExit) as error:  # network, archive and disk fail in many ways, and sacreBLEU may exit
        folder = f"{sacrebleu.SACREBLEU_DIR}/{name}"
        addresses = " and ".join(sacrebleu.DATASETS[name].data or ())
        cause = " ".join(repr(error).split())
        raise DataError(
            f"expected {name} ({langpair}) in {folder}, or to download it from {addresses}, got {cause}; check the "
            f"connection, or run `sacrebleu -t {name} -l {langpair} --echo src` where there is one and copy its "
            f"~/.sacrebleu/{name} to {folder}"
        ) from error
    if len(paths) == 1:
        raise ConfigError(f"{name} has no references for {langpair}; choose another test set")
    columns = []
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as lines:
            columns.append([line.rstrip() for line in lines])
        if len(columns[-1]) != len(columns[0]):
            raise DataError(
                f"expected as many lines in each file of a test set, got {len(columns[0])} in {paths[0]} and "
                f"{len(columns[-1])} in {path}; delete or copy that folder again"
            )
    return columns[0], columns[1:]
