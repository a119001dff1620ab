"""Re-exports `didact.seeds`, which stands below all packages, so that `results` can draw, too."""

from didact.seeds import numpy_generator as numpy_generator
from didact.seeds import seed_from as seed_from
