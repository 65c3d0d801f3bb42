"""Runs the table under all launchers at once, and tells reviewed differences from others."""
import dataclasses
import fnmatch
import re
from concurrent.futures import ThreadPoolExecutor

import cases
import sides
from deviations import DEVIATIONS

AT_ONCE = 6


@dataclasses.dataclass(frozen=True)
class Difference:
    case: str
    name: str  # what dtrain was called as: "torchrun" or "run"
    field: str
    torchrun: str
    dtrain: str

    def __str__(self):
        def shown(value):
            return "(not there)" if value is None else value.replace("\n", "\n      ")
        return (f"{self.case}, called as {self.name}: {self.field}\n    torchrun: {shown(self.torchrun)}\n"
                f"    dtrain:   {shown(self.dtrain)}")


def differences(case, name, theirs, ours):
    """If only one of the two started workers, that says it all. torchrun may leave workers behind by chance."""
    fields = sorted(set(theirs) | set(ours))
    if not case.orphans and ours["left behind"] == "0":
        fields.remove("left behind")
    if (theirs["started"] == "0") != (ours["started"] == "0"):
        fields = ["code", "started"]
    return [Difference(case.name, name, field, theirs.get(field), ours.get(field)) for field in fields
            if theirs.get(field) != ours.get(field)]


def excuses(deviation, difference, version):
    def fits(pattern, value):
        return re.fullmatch(pattern, "" if value is None else value, re.S) is not None
    return (version in deviation.versions.split() and difference.name in deviation.names.split() and
            any(fnmatch.fnmatchcase(difference.case, pattern) for pattern in deviation.cases.split()) and
            any(fnmatch.fnmatchcase(difference.field, pattern) for pattern in deviation.fields) and
            fits(deviation.torchrun, difference.torchrun) and fits(deviation.dtrain, difference.dtrain))


def wrong_words(case, said):
    """A refusal that does not say what it should: (launcher, pattern, what it said) each."""
    if not case.says:
        return []
    return [(side, pattern, words) for side, words in said.items()
            for pattern in [case.says[0 if side in ("peer", "real") else 1]]
            if not re.search(pattern, words, re.S)]


def names(case):
    return ("run",) if case.legacy else ("torchrun", "run")


class Comparison:
    """What came of the whole table: `found` differences,
    `wrong` refusals, `unlike`: peer server and torchrun, `broken`: no end.
    """

    def __init__(self, peer):
        self.version = peer.version
        self.found, self.wrong, self.unlike, self.broken = [], [], [], []
        table = [case for case in cases.CASES if peer.version in case.versions.split()]
        self.count = len(table)
        # torch 2.11 meets on one fixed port unless told otherwise.
        alone = not peer.network and peer.version == "2.11"
        with ThreadPoolExecutor(1 if alone else AT_ONCE) as pool:
            for case, seen in pool.map(lambda case: self.one(peer, case), table):
                if isinstance(seen, AssertionError):
                    self.broken.append(str(seen))
                    continue
                theirs = seen["peer"][0]
                for name in names(case):
                    self.found += differences(case, name, theirs, seen[name][0])
                if case.real:
                    self.unlike += differences(case, "torchrun itself", theirs, seen["real"][0])
                self.wrong += [(case.name, *wrong) for wrong in
                               wrong_words(case, {side: said for side, (_, said) in seen.items()})]

    @staticmethod
    def one(peer, case):
        launchers = ["peer", *names(case)] + ["real"] * case.real
        try:
            return case, {side: sides.run(peer, side, case) for side in launchers}
        except AssertionError as error:
            return case, error

    def unlisted(self):
        return [difference for difference in self.found
                if not any(excuses(deviation, difference, self.version) for deviation in DEVIATIONS)]

    def idle(self):
        """Parts of deviations that excuse nothing any more: (id, name, pattern of cases)."""
        unused = []
        for deviation in DEVIATIONS:
            if self.version not in deviation.versions.split():
                continue
            for name in deviation.names.split():
                for pattern in deviation.cases.split():
                    part = dataclasses.replace(deviation, names=name, cases=pattern)
                    if not any(excuses(part, difference, self.version) for difference in self.found):
                        unused.append((deviation.id, name, pattern))
        return unused
