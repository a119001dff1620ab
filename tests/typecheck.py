"""How annotations are checked while tests run: by beartype, with an int wherever a float may stand."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
